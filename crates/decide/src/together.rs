//! Limits on several metrics at once. What each of them is kept by alone says little of how many
//! requests keep all: with shares a and b it may be anything from a + b − 1 to the smaller of both
//! (Fréchet 1935). So the share that keeps all is counted, and told beside these bounds.

use measure::Measures;
use measure::samples::{Samples, is_per_request};
use record::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{JointLimit, Metric, Slo, Statistic};

use crate::report::Share;
use crate::slo::share_of;
use crate::words::{percent, percent_number};

/// Limits on requests by more than one metric, each alone and all at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// Each limit on a request and the share of offered requests within it.
    pub alone: Vec<(String, f64)>,
    /// Between which the share that keeps all must lie, given only the shares above.
    pub bounds: (f64, f64),
    /// The share of offered requests within all of them, with its 95 % interval.
    pub all: Share,
    /// The least share that the marginal limits ask for, each of its own metric; `null`: the limits
    /// are joint, and `all` is what is asked for.
    pub each_asks: Option<f64>,
    #[serde(skip)]
    pub(crate) metrics: Vec<Metric>,
}

impl Together {
    /// Of the joint limits of a run, or else of its limits on percentiles; `None`: these have fewer
    /// than two metrics, or nothing was offered.
    pub(crate) fn of(run: &Run, measures: &Measures, slo: &Slo) -> Option<Self> {
        let (limits, each_asks) = match slo.joint.len() {
            0 | 1 => {
                let (limits, shares): (Vec<JointLimit>, Vec<f64>) = percentiles(slo).unzip();
                (limits, shares.into_iter().reduce(f64::min))
            }
            _ => (slo.joint.clone(), None),
        };
        let metrics: Vec<Metric> = limits.iter().map(|limit| limit.metric).collect();
        if metrics.iter().all(|metric| Some(metric) == metrics.first()) {
            return None;
        }
        let texts: Vec<String> = limits.iter().map(|limit| limit.text.clone()).collect();
        let as_joint = Slo { joint: limits, marginal: Vec::new(), attain: slo.attain };
        let found =
            measure::slo::joint(&Samples::new(run), &as_joint, measures.view, &measures.window, |_| None);
        (found.offered > 0).then(|| Self {
            alone: texts.into_iter().zip(found.alone).collect(),
            bounds: found.bounds,
            all: share_of(found.attainment),
            each_asks,
            metrics,
        })
    }

    /// Every margin is as large as asked, and yet fewer requests than that keep all limits.
    pub fn is_misleading(&self) -> bool {
        let below = |share: f64| self.each_asks.is_some_and(|asked| share < asked);
        self.all.high.is_some_and(below) && self.alone.iter().all(|(_, share)| !below(*share))
    }

    /// `Alone, ttft<=200ms is kept by 90 % and tpot<=20ms by 90 % of requests, which allows 80–90 %
    /// for both at once: it was 80 % (71.1–86.7)`.
    pub fn words(&self) -> Option<String> {
        let all = if self.alone.len() == 2 { "both" } else { "all" };
        let mut each: Vec<String> =
            self.alone.iter().map(|(limit, share)| format!("{limit} by {}", percent(*share))).collect();
        let last = each.pop()?;
        let first = each.join(", ").replacen(" by ", " is kept by ", 1);
        let (low, high) = self.bounds;
        let range = match (self.all.low, self.all.high) {
            (Some(low), Some(high)) => format!(" ({}–{})", percent_number(low), percent_number(high)),
            _ => String::new(),
        };
        let asks = match self.each_asks.filter(|_| self.is_misleading()) {
            Some(share) => format!("; each limit asks for {} of its own metric alone", percent(share)),
            None => String::new(),
        };
        Some(format!(
            "alone, {first} and {last} of requests, which allows {}–{} for {all} at once: it was {}{range}{asks}",
            percent_number(low),
            percent(high),
            percent(self.all.value?)
        ))
    }
}

/// The limits on percentiles of what each request has, as limits on a request, with the share that
/// must keep them.
fn percentiles(slo: &Slo) -> impl Iterator<Item = (JointLimit, f64)> {
    slo.marginal.iter().filter_map(|limit| {
        let Statistic::Percentile(share) = limit.statistic else { return None };
        // `p90(ttft)<=1s` of a request is `ttft<=1s`.
        let (head, tail) = limit.text.split_once('(')?;
        let text = tail.replacen(')', "", 1);
        let share = match limit.op {
            spec::Op::Less | spec::Op::LessEq => share,
            spec::Op::Greater | spec::Op::GreaterEq => 1.0 - share,
        };
        let on_request = JointLimit { metric: limit.metric, op: limit.op, value: limit.value, text };
        (is_per_request(limit.metric) && !head.is_empty()).then_some((on_request, share))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(alone: [f64; 2], all: f64, each_asks: Option<f64>) -> Together {
        Together {
            alone: vec![("ttft<=200ms".to_owned(), alone[0]), ("tpot<=20ms".to_owned(), alone[1])],
            bounds: measure::slo::joint_bounds(&alone),
            all: Share { value: Some(all), low: Some(all - 0.08), high: Some(all + 0.07) },
            each_asks,
            metrics: vec![Metric::Ttft, Metric::Tpot],
        }
    }

    #[test]
    fn margins_that_are_met_do_not_say_that_both_are() {
        let both = together([0.9, 0.9], 0.8, Some(0.9));
        assert!(both.is_misleading());
        assert_eq!(
            both.words().map(|words| words.replace('\u{a0}', " ")).as_deref(),
            Some(
                "alone, ttft<=200ms is kept by 90 % and tpot<=20ms by 90 % of requests, which allows 80–90 % for \
                 both at once: it was 80 % (72–87); each limit asks for 90 % of its own metric alone"
            )
        );
        // A margin that is missed misleads nobody; nor do limits that are joint.
        assert!(!together([0.89, 0.9], 0.8, Some(0.9)).is_misleading());
        assert!(!together([0.9, 0.9], 0.8, None).is_misleading());
        // Too few requests to know.
        assert!(!together([0.9, 0.9], 0.84, Some(0.9)).is_misleading());
    }

    #[test]
    fn only_percentiles_of_requests_have_a_share() {
        let mut slo = Slo::default();
        for text in
            ["p90(ttft)<=1s", "mean(tpot)<=20ms", "p95(itl)<=20ms", "error_rate<=1%", "p10(user_tps)>=30"]
        {
            slo.add(text).unwrap();
        }
        let found: Vec<(String, f64)> = percentiles(&slo).map(|(limit, share)| (limit.text, share)).collect();
        assert_eq!(found.iter().map(|f| f.0.as_str()).collect::<Vec<_>>(), ["ttft<=1s", "user_tps>=30"]);
        assert!(found.iter().all(|f| (f.1 - 0.9).abs() < 1e-12), "{found:?}");
    }
}
