//! One limit as the search judges it: what a miss is, when it is known, and what share is allowed.

use spec::{JointLimit, MarginalLimit, Metric, Nanos, Op, Slo, Statistic};

use super::runner::Seen;

/// Values of a mean are cut at so many times the limit, and what ended badly counts as that much.
const WORST: f64 = 20.0;

/// One limit, judged for each request.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The limit as written; of joint limits all of them.
    pub text: String,
    judged: Judged,
    /// How long a request may go without its first token before it counts as lost, where no limit
    /// says so.
    patience: Nanos,
}

#[derive(Debug, Clone, PartialEq)]
enum Judged {
    /// A request is good within every limit.
    Joint { limits: Vec<JointLimit>, miss: f64 },
    /// A share of requests may lie beyond the limit.
    Percentile { metric: Metric, op: Op, value: f64, miss: f64 },
    /// A share of requests may end badly.
    Errors { miss: f64 },
    /// The mean stays within the limit.
    Mean { metric: Metric, value: f64 },
}

/// Why a limit cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsearchable {
    /// The limit.
    pub limit: String,
    /// What is wrong, and what to do.
    pub why: String,
}

impl std::fmt::Display for Unsearchable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` sets no limit on load: {}", self.limit, self.why)
    }
}

impl std::error::Error for Unsearchable {}

impl Criterion {
    /// The limits of `slo`: all joint ones together as one, each marginal one alone.
    ///
    /// `patience`: how long a request may go without its first token where no limit says so.
    ///
    /// # Errors
    /// No limit at all, or one that no load crosses.
    pub fn of(slo: &Slo, patience: Nanos) -> Result<Vec<Criterion>, Unsearchable> {
        let mut all = Vec::new();
        if !slo.joint.is_empty() {
            for limit in &slo.joint {
                check(&limit.text, limit.metric, limit.op)?;
            }
            let texts: Vec<&str> = slo.joint.iter().map(|l| l.text.as_str()).collect();
            let text = format!("{} of requests with {}", percent(slo.attain), texts.join(" and "));
            let miss = allowed(&text, 1.0 - slo.attain)?;
            all.push(Criterion { text, judged: Judged::Joint { limits: slo.joint.clone(), miss }, patience });
        }
        for limit in &slo.marginal {
            all.push(Criterion { text: limit.text.clone(), judged: marginal(limit)?, patience });
        }
        if all.is_empty() {
            let why = "there is none; give at least one, for example p95(ttft)<=500ms".to_owned();
            return Err(Unsearchable { limit: "no limit".to_owned(), why });
        }
        Ok(all)
    }

    /// The share of misses at which the limit is just held; `None` for a mean.
    pub fn target(&self) -> Option<f64> {
        match self.judged {
            Judged::Joint { miss, .. } | Judged::Percentile { miss, .. } | Judged::Errors { miss } => {
                Some(miss)
            }
            Judged::Mean { .. } => None,
        }
    }

    /// How long after its intended send the verdict on a request is known at the latest.
    pub fn horizon(&self, seen: &Seen) -> Nanos {
        let tokens = |limit: f64, ttft: Nanos| {
            let gaps = seen.asked.map_or(0, |n| n.saturating_sub(1));
            let decode = Nanos((limit * f64::from(gaps)) as u64);
            if seen.asked.is_some() { ttft + decode } else { self.patience.max(ttft) }
        };
        match &self.judged {
            Judged::Errors { .. } => self.patience,
            Judged::Percentile { metric: Metric::Tpot, value, .. } => tokens(*value, self.patience),
            Judged::Percentile { value, .. } => Nanos(*value as u64),
            Judged::Mean { metric: Metric::Tpot, value } => tokens(WORST * value, self.patience),
            Judged::Mean { value, .. } => Nanos((WORST * value) as u64),
            Judged::Joint { limits, .. } => {
                let of =
                    |metric| limits.iter().filter(|l| l.metric == metric).map(|l| l.value).reduce(f64::min);
                let ttft = of(Metric::Ttft).map(|v| Nanos(v as u64));
                let through = of(Metric::Tpot).map(|v| tokens(v, ttft.unwrap_or(self.patience)));
                // Whoever exceeds any of the limits is known; the last of them settles it.
                let all = [ttft, through].into_iter().flatten().max();
                match (of(Metric::E2e).map(|v| Nanos(v as u64)), all) {
                    (Some(e2e), _) => e2e,
                    (None, Some(all)) => all,
                    (None, None) => self.patience,
                }
            }
        }
    }

    /// Whether nothing that happens after `now` changes the verdict on this request.
    pub fn determined(&self, seen: &Seen, now: Nanos) -> bool {
        seen.end.is_some_and(|end| end <= now) || now >= seen.intended + self.horizon(seen)
    }

    /// The verdict on a request, as it stands at its horizon: for a share 1 for a miss and 0 for a
    /// hit, for a mean the value over its limit. `None`: the limit does not apply to this request.
    pub fn verdict(&self, seen: &Seen) -> Option<f64> {
        let horizon = self.horizon(seen);
        let ended = seen.end.is_some_and(|end| end <= seen.intended + horizon);
        let miss = |miss: bool| Some(f64::from(u8::from(miss)));
        match &self.judged {
            Judged::Errors { .. } => miss(!(ended && seen.ok)),
            _ if ended && !seen.ok => Some(if self.target().is_some() { 1.0 } else { WORST }),
            Judged::Percentile { metric, op, value, .. } => match metric {
                Metric::Tpot if ended && seen.tpot.is_none() => None,
                _ => miss(!holds(seen, *metric, *op, *value, ended)),
            },
            Judged::Joint { limits, .. } => {
                miss(!limits.iter().all(|l| match l.metric {
                    // The time between tokens of an answer without a second one: holds.
                    Metric::Tpot if ended && seen.tpot.is_none() => true,
                    _ => holds(seen, l.metric, l.op, l.value, ended),
                }))
            }
            Judged::Mean { metric, value } => match metric {
                Metric::Tpot if ended && seen.tpot.is_none() => None,
                _ => Some(known(seen, *metric, ended).map_or(WORST, |v| (v / value).min(WORST))),
            },
        }
    }

    /// Which metric and value the limit puts on each request, for the virtual queue.
    pub(super) fn thresholds(&self) -> Vec<(Metric, f64)> {
        match &self.judged {
            Judged::Joint { limits, .. } => limits.iter().map(|l| (l.metric, l.value)).collect(),
            Judged::Percentile { metric, value, .. } | Judged::Mean { metric, value } => {
                vec![(*metric, *value)]
            }
            Judged::Errors { .. } => Vec::new(),
        }
    }
}

/// The value of a request, if it is known at the horizon.
fn known(seen: &Seen, metric: Metric, ended: bool) -> Option<f64> {
    match metric {
        Metric::Ttft => seen.ttft.map(|t| t.0 as f64),
        Metric::Tpot => seen.tpot.filter(|_| ended),
        _ => seen.e2e.filter(|_| ended).map(|t| t.0 as f64),
    }
}

fn holds(seen: &Seen, metric: Metric, op: Op, value: f64, ended: bool) -> bool {
    known(seen, metric, ended).is_some_and(|v| op.holds(v, value))
}

fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn check(text: &str, metric: Metric, op: Op) -> Result<(), Unsearchable> {
    let because = |why: &str| Err(Unsearchable { limit: text.to_owned(), why: why.to_owned() });
    match (metric, op) {
        (Metric::Ttft | Metric::Tpot | Metric::E2e, Op::Less | Op::LessEq) => Ok(()),
        (Metric::Ttft | Metric::Tpot | Metric::E2e, _) => because("a latency needs `<=`: it grows with load"),
        _ => because("a search judges ttft, tpot, e2e and error_rate"),
    }
}

fn allowed(text: &str, miss: f64) -> Result<f64, Unsearchable> {
    // Rounding of 1 − 0.95 must not show in the target.
    let miss = (miss * 1e9).round() / 1e9;
    if miss > 0.0 && miss < 1.0 {
        return Ok(miss);
    }
    let why = "no number of requests can show it; allow a share of misses above 0 and below 100 %";
    Err(Unsearchable { limit: text.to_owned(), why: why.to_owned() })
}

fn marginal(limit: &MarginalLimit) -> Result<Judged, Unsearchable> {
    let because = |why: &str| Err(Unsearchable { limit: limit.text.clone(), why: why.to_owned() });
    match (limit.metric, limit.statistic) {
        (Metric::ErrorRate, _) if matches!(limit.op, Op::Less | Op::LessEq) => {
            Ok(Judged::Errors { miss: allowed(&limit.text, limit.value)? })
        }
        (_, Statistic::Max) => because("a maximum only grows with the number of requests; give a percentile"),
        (metric, statistic) => {
            check(&limit.text, metric, limit.op)?;
            match statistic {
                Statistic::Percentile(p) => {
                    let miss = allowed(&limit.text, 1.0 - p)?;
                    Ok(Judged::Percentile { metric, op: limit.op, value: limit.value, miss })
                }
                _ if limit.value > 0.0 => Ok(Judged::Mean { metric, value: limit.value }),
                _ => because("a mean of nothing is never reached; give a limit above 0"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn criteria(joint: &[&str], marginal: &[&str]) -> Result<Vec<Criterion>, Unsearchable> {
        let slo = Slo {
            joint: joint.iter().map(|l| l.parse().unwrap()).collect(),
            marginal: marginal.iter().map(|l| l.parse().unwrap()).collect(),
            attain: 0.9,
        };
        Criterion::of(&slo, Nanos::from_secs(60))
    }

    fn one(marginal: &str) -> Criterion {
        criteria(&[], &[marginal]).unwrap().remove(0)
    }

    /// Intended at 1 s, 11 tokens asked; ttft and end in ms after that.
    fn seen(ttft: Option<u64>, end: Option<u64>, ok: bool) -> Seen {
        let at = Nanos::from_secs(1);
        let first = ttft.map(Nanos::from_millis);
        let e2e = end.filter(|_| ok).map(Nanos::from_millis);
        let tpot = e2e.zip(first).map(|(e, f)| (e.0 - f.0) as f64 / 10.0);
        let end = end.map(|ms| at + Nanos::from_millis(ms));
        Seen {
            intended: at,
            end,
            ok,
            ttft: first,
            tpot,
            e2e,
            output_tokens: 11,
            asked: Some(11),
            ..Seen::default()
        }
    }

    #[test]
    fn a_ttft_is_known_at_its_limit() {
        let c = one("p95(ttft)<=500ms");
        assert_eq!(c.target(), Some(0.05));
        let waiting = seen(None, None, false);
        assert!(!c.determined(&waiting, Nanos(1_499 * MS)) && c.determined(&waiting, Nanos(1_500 * MS)));
        assert_eq!(c.verdict(&waiting), Some(1.0));
        // The first token came in time, whatever becomes of the rest.
        assert_eq!(c.verdict(&seen(Some(500), None, false)), Some(0.0));
        assert_eq!(c.verdict(&seen(Some(501), None, false)), Some(1.0));
        // It ended badly before its limit: known at once, and a miss.
        let failed = seen(None, Some(20), false);
        assert!(c.determined(&failed, Nanos(1_020 * MS)));
        assert_eq!(c.verdict(&failed), Some(1.0));
        assert_eq!(c.verdict(&seen(Some(20), Some(30), false)), Some(1.0));
        assert_eq!(one("p95(ttft)<500ms").verdict(&seen(Some(500), Some(600), true)), Some(1.0));
    }

    /// 200 ms and then 10 gaps of 30 ms: known after 500 ms.
    #[test]
    fn a_joint_limit_is_known_when_its_last_token_is_due() {
        let c = criteria(&["ttft<=200ms", "tpot<=30ms"], &[]).unwrap().remove(0);
        assert!((c.target().unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(c.text, "90 % of requests with ttft<=200ms and tpot<=30ms");
        let streaming = seen(Some(100), None, false);
        assert_eq!(c.horizon(&streaming), Nanos(500 * MS));
        assert_eq!(c.verdict(&streaming), Some(1.0));
        assert_eq!(c.verdict(&seen(Some(200), Some(500), true)), Some(0.0));
        assert_eq!(c.verdict(&seen(Some(201), Some(400), true)), Some(1.0));
        assert_eq!(c.verdict(&seen(Some(100), Some(401), true)), Some(1.0));
        let natural = Seen { asked: None, ..streaming };
        assert_eq!(c.horizon(&natural), Nanos::from_secs(60));
        let e2e = criteria(&["ttft<=200ms", "e2e<=2s"], &[]).unwrap().remove(0);
        assert_eq!(e2e.horizon(&streaming), Nanos::from_secs(2));
    }

    #[test]
    fn a_single_token_has_no_time_between_tokens() {
        let single = Seen { tpot: None, output_tokens: 1, asked: Some(1), ..seen(Some(90), Some(90), true) };
        assert_eq!(one("p95(tpot)<=30ms").verdict(&single), None);
        assert_eq!(criteria(&["tpot<=30ms"], &[]).unwrap()[0].verdict(&single), Some(0.0));
    }

    #[test]
    fn means_count_failures_as_the_worst() {
        let c = one("mean(ttft)<=100ms");
        assert_eq!(c.target(), None);
        assert_eq!(c.verdict(&seen(Some(50), Some(90), true)), Some(0.5));
        assert_eq!(c.verdict(&seen(None, Some(10), false)), Some(WORST));
        assert_eq!(c.verdict(&seen(None, None, false)), Some(WORST));
        assert_eq!(c.horizon(&seen(None, None, false)), Nanos::from_secs(2));
        let e = one("error_rate<=1%");
        assert_eq!(
            (e.verdict(&seen(None, Some(10), false)), e.verdict(&seen(Some(1), Some(9), true))),
            (Some(1.0), Some(0.0))
        );
    }

    #[test]
    fn what_no_load_crosses_is_refused_with_a_reason() {
        let why = |joint: &[&str], marginal: &[&str]| criteria(joint, marginal).unwrap_err().to_string();
        assert!(why(&[], &[]).contains("at least one"));
        assert!(why(&[], &["max(ttft)<=1s"]).contains("percentile"));
        assert!(why(&[], &["request_throughput>=10"]).contains("judges ttft"));
        assert!(why(&[], &["error_rate<=0%"]).contains("share of misses above 0"));
        assert_eq!(criteria(&["ttft<=1s"], &["p99(ttft)<=2s", "p95(tpot)<=40ms"]).unwrap().len(), 3);
    }
}
