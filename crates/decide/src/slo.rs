//! Limits and what became of them (definitions §6).
//!
//! A limit is decided on the share of requests beyond it, not on the interval of a percentile. Met
//! and not met are said only when the 95 % interval of that share lies wholly on one side.

use measure::interval::{level_interval, shrunk, wilson};
use measure::request::value;
use measure::samples::{Samples, is_per_request};
use measure::slo::share;
use measure::{Defined, Estimate, Figure, Interval, Measures, Method, Undefined};
use record::Run;
use spec::{MarginalLimit, Metric, Op, Slo, Statistic, View};

use crate::report::{JointReport, MarginalReport, Share, SloReport};
use crate::trust::{Cap, CheckId, CheckState, Trust};
use crate::words::{count, limit_time, percent, plain, time};

/// Judges every limit. `measures` are those before caps: see [`withhold`].
pub fn judge(run: &Run, measures: &Measures, slo: &Slo) -> SloReport {
    SloReport {
        joint: (!slo.joint.is_empty()).then(|| joint(run, measures, slo)),
        marginal: slo.marginal.iter().map(|limit| marginal(run, measures, limit)).collect(),
    }
}

/// Takes away what capped numbers carried: a limit that reads a number which a failed check marks is
/// not judged, and a withheld number is no longer told.
pub fn withhold(report: &mut SloReport, trust: &Trust, slo: &Slo) {
    let caps: Vec<(CheckId, Cap)> = trust
        .in_state(CheckState::Fail)
        .flat_map(|check| check.caps.iter().map(|cap| (check.id, *cap)))
        .collect();
    if let Some(joint) = &mut report.joint {
        let reads = |cap: &Cap| slo.joint.iter().any(|l| cap.capped().read_by_joint(l.metric));
        if caps.iter().any(|(_, cap)| reads(cap)) {
            joint.met = None;
        }
        if caps.iter().any(|(_, cap)| cap.withholds() && reads(cap)) {
            joint.attainment = Share { value: None, low: None, high: None };
            joint.goodput_per_s = None;
        }
    }
    for (limit, report) in slo.marginal.iter().zip(&mut report.marginal) {
        let reads = |cap: &Cap| cap.capped().read_by_marginal(limit.metric, limit.statistic);
        if let Some((id, _)) = caps.iter().find(|(_, cap)| reads(cap)) {
            report.met = None;
            report.reason = Some(format!("not judged: {}", id.label()));
        }
        if let Some((id, _)) = caps.iter().find(|(_, cap)| cap.withholds() && reads(cap)) {
            (report.value, report.low, report.high) = (None, None, None);
            report.reason = Some(format!("withheld: {}", id.label()));
        }
    }
}

fn joint(run: &Run, measures: &Measures, slo: &Slo) -> JointReport {
    let samples = Samples::new(run);
    // Labels of quality come with a crate of their own; without one an answer counts as it is.
    let found = measure::slo::joint(&samples, slo, measures.view, &measures.window, |_| None);
    let attainment = share_of(found.attainment);
    JointReport {
        limits: slo.joint.iter().map(|l| l.text.clone()).collect(),
        good: found.good,
        offered: found.offered,
        attainment,
        target: slo.attain,
        met: reached(&attainment, slo.attain),
        goodput_per_s: found.goodput_per_s.ok(),
        alone: slo.joint.iter().map(|l| l.text.clone()).zip(found.alone).collect(),
        bounds: found.bounds,
    }
}

fn share_of(estimate: Defined<Estimate>) -> Share {
    match estimate {
        Ok(e) => Share { value: Some(e.value), low: e.interval.low, high: e.interval.high },
        Err(_) => Share { value: None, low: None, high: None },
    }
}

/// Independent requests that a series of yes and no is worth.
fn effective(series: &[bool]) -> f64 {
    share(series).map_or(0.0, |e| e.n_eff)
}

/// Whether a share reaches its target: undecided while the interval holds the target. A target of
/// all requests is a statement about this run, which no interval could ever confirm: it is counted.
pub fn reached(share: &Share, target: f64) -> Option<bool> {
    let (value, low, high) = (share.value?, share.low?, share.high?);
    if target >= 1.0 {
        return Some(value >= 1.0);
    }
    if low >= target {
        Some(true)
    } else if high < target {
        Some(false)
    } else {
        None
    }
}

/// A limit's value as people write it.
pub fn limit_words(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ErrorRate => percent(value),
        Metric::UserTps | Metric::OutputTokenThroughput => format!("{}\u{a0}tokens/s", plain(value)),
        Metric::RequestThroughput => format!("{}\u{a0}requests/s", plain(value)),
        _ => limit_time(value),
    }
}

/// `TTFT`, `TPOT`, `output speed`: a metric in a sentence.
pub fn metric_words(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "TTFT",
        Metric::Ttfat => "time to first answer token",
        Metric::E2e => "end-to-end latency",
        Metric::Tpot => "TPOT",
        Metric::Itl => "inter-token latency",
        Metric::Icl => "inter-chunk latency",
        Metric::DecodeTpot => "decode TPOT",
        Metric::MaxGap => "largest gap",
        Metric::UserTps => "output speed of a user",
        Metric::ScheduleLag => "schedule lag",
        Metric::ClientLag => "client lag",
        Metric::ErrorRate => "error rate",
        Metric::RequestThroughput => "request throughput",
        Metric::OutputTokenThroughput => "output throughput",
    }
}

/// `≤`, `<`, `≥`, `>`.
pub fn sign(op: Op) -> &'static str {
    match op {
        Op::Less => "<",
        Op::LessEq => "≤",
        Op::Greater => ">",
        Op::GreaterEq => "≥",
    }
}

/// What a marginal limit came to.
#[derive(Debug, Clone, PartialEq, Default)]
struct Outcomes {
    value: Option<f64>,
    interval: Interval,
    met: Option<bool>,
    reason: Option<String>,
}

fn marginal(run: &Run, measures: &Measures, limit: &MarginalLimit) -> MarginalReport {
    let figure = measure::slo::marginal(run, measures, limit);
    let out = match (limit.metric, limit.statistic) {
        (Metric::ErrorRate, _) => error_rate(figure, limit),
        (metric, Statistic::Percentile(p)) if is_per_request(metric) => {
            percentile(run, measures, figure, limit, p)
        }
        _ => by_figure(figure, limit),
    };
    MarginalReport {
        limit: limit.text.clone(),
        value: out.value,
        low: out.interval.low,
        high: out.interval.high,
        met: out.met,
        reason: out.reason,
    }
}

fn undefined(reason: Undefined) -> Outcomes {
    undefined_words(reason_words(reason))
}

fn undefined_words(reason: String) -> Outcomes {
    Outcomes { reason: Some(reason), ..Outcomes::default() }
}

/// Why there is no number, in words.
pub fn reason_words(reason: Undefined) -> String {
    match reason {
        Undefined::TooFewSamples { n, needed } => {
            format!("too few samples ({} of {})", count(n), count(needed))
        }
        Undefined::NoOutput => "no output".to_owned(),
        Undefined::NotStreamed => "not streamed".to_owned(),
        Undefined::SingleToken => "a single output token".to_owned(),
        Undefined::SingleChunk => "a single chunk".to_owned(),
        Undefined::ReasoningOnly => "only thinking came".to_owned(),
        Undefined::AllInFirstChunk => "all tokens came in the first chunk".to_owned(),
        Undefined::NoKernelStamp => "no kernel receive stamp".to_owned(),
        Undefined::NotSent => "never sent".to_owned(),
        Undefined::NoTokenCount => "no token count".to_owned(),
        Undefined::NoneCompleted => "no request completed".to_owned(),
        Undefined::Withheld => "withheld by a check".to_owned(),
        Undefined::NoSpan => "no time passed".to_owned(),
        Undefined::NotApplicable => "does not apply".to_owned(),
    }
}

/// Decides on an interval: it must lie wholly on one side of the limit.
fn by_interval(value: f64, interval: Interval, limit: &MarginalLimit) -> Outcomes {
    let holds = |x: Option<f64>| x.map(|x| limit.op.holds(x, limit.value));
    let (low, high) = (holds(interval.low), holds(interval.high));
    let met = match (low, high) {
        (Some(true), Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        // An open side cannot turn a verdict that its closed side already excludes.
        (Some(false), None) if matches!(limit.op, Op::Less | Op::LessEq) => Some(false),
        (None, Some(false)) if matches!(limit.op, Op::Greater | Op::GreaterEq) => Some(false),
        (None, Some(true)) if matches!(limit.op, Op::Less | Op::LessEq) => Some(true),
        (Some(true), None) if matches!(limit.op, Op::Greater | Op::GreaterEq) => Some(true),
        _ => None,
    };
    let reason = met.is_none().then(|| "the 95 % interval holds the limit".to_owned());
    Outcomes { value: Some(value), interval, met, reason }
}

fn by_figure(figure: Figure, limit: &MarginalLimit) -> Outcomes {
    match figure {
        // A fact about this run, or a count without a spread, is judged as it is.
        Figure::Known(e) if e.method == Method::Exact => Outcomes {
            value: Some(e.value),
            interval: e.interval,
            met: Some(limit.op.holds(e.value, limit.value)),
            reason: None,
        },
        Figure::Known(e) => by_interval(e.value, e.interval, limit),
        Figure::Exceeds(bound) => exceeds(bound, limit),
        Figure::Undefined(reason) => undefined(reason),
    }
}

/// A percentile among the censored: only known to exceed `bound`.
fn exceeds(bound: f64, limit: &MarginalLimit) -> Outcomes {
    // Failed and cut requests count as larger than any finite value, so the limit is decided.
    let met = limit.op.holds(f64::INFINITY, limit.value);
    Outcomes {
        value: None,
        interval: Interval { low: Some(bound), high: None },
        met: Some(met),
        reason: Some(format!("it lies among requests that did not end well: > {}", time(bound))),
    }
}

/// Whether each offered request that has or should have a value lies beyond the limit, in the order
/// of intended sends; one that did not end well is worse than any value.
fn beyond(run: &Run, limit: &MarginalLimit, view: View) -> Vec<bool> {
    let worst = if limit.metric == Metric::UserTps { 0.0 } else { f64::INFINITY };
    Samples::new(run)
        .requests()
        .filter_map(|r| {
            let value = if r.state.is_ok() { value(r, limit.metric, view).ok()? } else { worst };
            Some(!limit.op.holds(value, limit.value))
        })
        .collect()
}

fn percentile(run: &Run, measures: &Measures, figure: Figure, limit: &MarginalLimit, p: f64) -> Outcomes {
    let beyond = beyond(run, limit, measures.view);
    let mut out = match figure {
        Figure::Known(e) => Outcomes { value: Some(e.value), interval: e.interval, ..Outcomes::default() },
        Figure::Exceeds(bound) => exceeds(bound, limit),
        Figure::Undefined(reason) => undefined(reason),
    };
    // The share that may lie beyond the limit while the percentile still holds it.
    let allowed = match limit.op {
        Op::Less | Op::LessEq => 1.0 - p,
        Op::Greater | Op::GreaterEq => p,
    };
    let n = beyond.len() as u64;
    if n == 0 {
        return out;
    }
    let bad = beyond.iter().filter(|b| **b).count() as u64;
    out.met = within_share(bad, n, effective(&beyond), allowed);
    let of = format!("{} of {} are beyond the limit", count(bad), count(n));
    match (out.met, figure) {
        (Some(true), Figure::Undefined(Undefined::TooFewSamples { .. })) | (None, _) => {
            out.met = None;
            let more = match figure {
                Figure::Undefined(reason @ Undefined::TooFewSamples { .. }) => reason_words(reason),
                _ => match needed_to_decide(bad, n, allowed) {
                    Some(total) => format!("about {} requests would decide it", count(total)),
                    None => "too near the limit to tell".to_owned(),
                },
            };
            out.reason = Some(format!("{of}; {more}"));
        }
        (Some(false), Figure::Undefined(reason)) => {
            out.reason = Some(format!("{of}, which is enough to know; the value: {}", reason_words(reason)));
        }
        _ => {}
    }
    out
}

/// Whether the share of `bad` among `n` stays within `allowed`, by the exact binomial interval on
/// the effective number of draws. `None`: undecided.
fn within_share(bad: u64, n: u64, n_eff: f64, allowed: f64) -> Option<bool> {
    // An effective size below n is itself an estimate, and made smaller for that.
    let m = if n_eff < n as f64 { shrunk(n_eff) } else { n_eff };
    let share = bad as f64 / n as f64;
    let (low, high) = share_interval(share, m);
    // Sample sizes are fitted to these limits, so equality (up to rounding) decides.
    if high <= allowed + 1e-12 {
        Some(true)
    } else if low > allowed {
        Some(false)
    } else {
        None
    }
}

/// Exact binomial interval of a share of `m` draws (Clopper and Pearson 1934).
pub fn share_interval(share: f64, m: f64) -> (f64, f64) {
    let tail = |m: f64| 0.025_f64.powf(1.0 / m.max(1e-9));
    if share <= 0.0 {
        (0.0, 1.0 - tail(m))
    } else if share >= 1.0 {
        (tail(m), 1.0)
    } else {
        level_interval(share, m)
    }
}

/// Requests after which the share seen so far would decide the limit, if requests are independent;
/// `None` when that is beyond any sensible run.
fn needed_to_decide(bad: u64, n: u64, allowed: f64) -> Option<u64> {
    let share = bad as f64 / n as f64;
    let decided =
        |total: f64| within_share((share * total).round() as u64, total as u64, total, allowed).is_some();
    let mut total = n as f64;
    while total < 1e7 {
        total = (total * 1.1).ceil();
        if decided(total) {
            return Some(total as u64);
        }
    }
    None
}

/// The share of offered requests that did not end well, by Wilson's interval. A limit of none at all
/// is a statement about this run and is counted.
fn error_rate(figure: Figure, limit: &MarginalLimit) -> Outcomes {
    let Figure::Known(e) = figure else { return by_figure(figure, limit) };
    if limit.value <= 0.0 {
        let met = Some(limit.op.holds(e.value, limit.value));
        return Outcomes { value: Some(e.value), interval: e.interval, met, reason: None };
    }
    let mut out = by_interval(e.value, e.interval, limit);
    if out.met.is_none() {
        let enough = (1..200)
            .map(|k| e.n as f64 * 1.1_f64.powi(k))
            .take_while(|m| *m < 1e7)
            .find(|m| by_interval(e.value, wilson(e.value, *m), limit).met.is_some());
        let more = match enough {
            Some(total) => format!("about {} requests would decide it", count(total.ceil() as u64)),
            None => "too near the limit to tell".to_owned(),
        };
        out.reason = Some(format!("the 95 % interval holds the limit; {more}"));
    }
    out
}
