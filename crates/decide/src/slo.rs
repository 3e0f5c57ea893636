//! Limits and what became of them (definitions §6).
//!
//! A limit is decided on the share of requests beyond it, not on the interval of a percentile. Met
//! and not met are said only when the 95 % interval of that share lies wholly on one side.

use measure::interval::{clopper_pearson, shrunk, wilson};
use measure::request::value;
use measure::samples::{Samples, is_per_request};
use measure::slo::share;
use measure::{Defined, Estimate, Figure, Interval, Measures, Method, Undefined};
use record::Run;
use spec::{Load, MarginalLimit, Metric, Op, Slo, Spec, Statistic, View};

use crate::report::{JointReport, MarginalReport, Share, SloReport};
use crate::together::Together;
use crate::trust::{Cap, Capped, CheckId, CheckState, Trust};
use crate::words::{count, limit_time, percent, plain};

/// Judges every limit. `measures` are those before caps: see [`withhold`].
pub fn judge(run: &Run, measures: &Measures, slo: &Slo) -> SloReport {
    SloReport {
        joint: (!slo.joint.is_empty()).then(|| joint(run, measures, slo)),
        marginal: slo.marginal.iter().map(|limit| marginal(run, measures, limit)).collect(),
        together: Together::of(run, measures, slo),
    }
}

/// Takes away what capped numbers carried: a limit that reads a number which a failed check marks is
/// not judged, and a withheld number is no longer told. The one exception is a limit that is missed
/// while the server is overloaded: see [`missed_for_good`].
pub fn withhold(report: &mut SloReport, trust: &Trust, spec: &Spec) {
    let slo = &spec.slo;
    // At a cap that the user set, requests wait by plan.
    let capped = matches!(&spec.load, Load::Open(open) if open.cap.is_some());
    let as_planned = [CheckId::SendLag, CheckId::Arrivals, CheckId::InFlight].into_iter().all(|id| {
        let passed = trust.check(id).is_some_and(|check| check.state == CheckState::Pass);
        passed || (capped && id == CheckId::InFlight)
    });
    let caps: Vec<(CheckId, Cap)> = trust
        .in_state(CheckState::Fail)
        .flat_map(|check| check.caps.iter().map(|cap| (check.id, *cap)))
        .collect();
    let reading = |reads: &dyn Fn(Capped) -> bool| -> Vec<(CheckId, Cap)> {
        caps.iter().filter(|(_, cap)| reads(cap.capped())).copied().collect()
    };
    if let Some(joint) = &mut report.joint {
        let caps = reading(&|capped| slo.joint.iter().any(|l| capped.read_by_joint(l.metric)));
        let worsens = slo.joint.iter().all(|l| worsens(l.metric, l.op));
        cap_joint(joint, &caps, as_planned && worsens && missed_for_good(&caps, joint.met));
    }
    let withheld = report.together.as_ref().is_some_and(|together| {
        let caps = reading(&|capped| together.metrics.iter().any(|metric| capped.read_by_joint(*metric)));
        caps.iter().any(|(_, cap)| cap.withholds())
    });
    if withheld {
        report.together = None;
    }
    for (limit, report) in slo.marginal.iter().zip(&mut report.marginal) {
        let caps = reading(&|capped| capped.read_by_marginal(limit.metric, limit.statistic));
        let worsens = worsens(limit.metric, limit.op);
        cap_marginal(report, &caps, as_planned && worsens && missed_for_good(&caps, report.met), limit.op);
    }
}

/// Whether a missed limit stays missed although a check takes its number away. While the server is
/// overloaded the queue only grows: how far a limit is missed depends on how long one looks, so the
/// number itself is no result, but a longer run would miss by more, never by less. (A limit that
/// holds proves nothing then: in a longer run it might not.) Only where overload is the only doubt;
/// the caller knows that a growing queue worsens the metric, and that this side sent what was planned
/// when it was planned, for else the client may be the cause.
fn missed_for_good(caps: &[(CheckId, Cap)], met: Option<bool>) -> bool {
    met == Some(false) && !caps.is_empty() && caps.iter().all(|(id, _)| *id == CheckId::Overload)
}

/// Whether a growing queue moves the metric towards the side that the limit excludes: latencies up,
/// speeds down.
fn worsens(metric: Metric, op: Op) -> bool {
    let more_is_better =
        matches!(metric, Metric::UserTps | Metric::RequestThroughput | Metric::OutputTokenThroughput);
    more_is_better == matches!(op, Op::Greater | Op::GreaterEq)
}

fn cap_joint(joint: &mut JointReport, caps: &[(CheckId, Cap)], stays: bool) {
    let Some((first, _)) = caps.first() else { return };
    let withholding = caps.iter().find(|(_, cap)| cap.withholds());
    if !stays {
        joint.met = None;
        joint.reason = Some(format!("not judged: {}", first.label()));
    }
    if let Some((id, _)) = withholding {
        let most = joint.attainment.value.filter(|_| stays);
        joint.reason = Some(if stays {
            format!("{}: a longer run would keep a smaller share", id.label())
        } else {
            format!("withheld: {}", id.label())
        });
        joint.attainment = Share { value: None, low: None, high: most };
        (joint.good, joint.goodput_per_s, joint.bounds) = (None, None, None);
        joint.alone.clear();
    }
}

fn cap_marginal(report: &mut MarginalReport, caps: &[(CheckId, Cap)], stays: bool, op: Op) {
    let Some((first, _)) = caps.first() else { return };
    let withholding = caps.iter().find(|(_, cap)| cap.withholds());
    if stays {
        // The bound is this run's own value; one that already is a bound stays it.
        if withholding.is_some() && report.value.is_some() {
            let bound = report.value.take();
            (report.low, report.high) = match op {
                Op::Less | Op::LessEq => (bound, None),
                Op::Greater | Op::GreaterEq => (None, bound),
            };
        }
        let more = if withholding.is_some() { "by more" } else { "as well" };
        report.reason = Some(format!("{}: a longer run would miss it {more}", first.label()));
        return;
    }
    report.met = None;
    report.reason = Some(format!("not judged: {}", first.label()));
    if let Some((id, _)) = withholding {
        (report.value, report.low, report.high) = (None, None, None);
        report.reason = Some(format!("withheld: {}", id.label()));
    }
}

fn joint(run: &Run, measures: &Measures, slo: &Slo) -> JointReport {
    let samples = Samples::new(run);
    // Labels of quality come with a crate of their own; without one an answer counts as it is.
    let found = measure::slo::joint(&samples, slo, measures.view, &measures.window, |_| None);
    let attainment = share_of(found.attainment);
    let met = reached(&attainment, slo.attain);
    let reason = met.is_none().then(|| undecided_share(found.attainment, slo.attain));
    JointReport {
        limits: slo.joint.iter().map(|l| l.text.clone()).collect(),
        good: Some(found.good),
        offered: found.offered,
        attainment,
        target: slo.attain,
        met,
        goodput_per_s: found.goodput_per_s.ok(),
        alone: slo.joint.iter().map(|l| l.text.clone()).zip(found.alone).collect(),
        bounds: Some(found.bounds),
        reason,
    }
}

/// Why it is undecided whether a share reaches its target.
fn undecided_share(attainment: Defined<Estimate>, target: f64) -> String {
    let Ok(e) = attainment else { return "no request was offered".to_owned() };
    let decides = |m: f64| {
        let wilson = wilson(e.value, m);
        reached(&Share { value: Some(e.value), low: wilson.low, high: wilson.high }, target).is_some()
    };
    format!("the 95 % interval includes the target; {}", more_requests(e.n, e.n_eff, decides))
}

/// How many requests in all would decide a limit, if the share stays what it is and requests depend
/// on each other as much as the `n` so far, which are worth `draws` independent ones. `decides` is
/// asked about independent draws.
fn more_requests(n: u64, draws: f64, decides: impl Fn(f64) -> bool) -> String {
    let mut factors = (1..200).map(|k| 1.1_f64.powi(k)).take_while(|factor| n as f64 * factor < 1e7);
    match factors.find(|factor| decides(draws * factor)) {
        Some(factor) => {
            let total = (n as f64 * factor).ceil() as u64;
            format!("about {} requests would decide it (-n {total})", count(total))
        }
        None => "too near the limit to tell".to_owned(),
    }
}

pub(crate) fn share_of(estimate: Defined<Estimate>) -> Share {
    match estimate {
        Ok(e) => Share { value: Some(e.value), low: e.interval.low, high: e.interval.high },
        Err(_) => Share { value: None, low: None, high: None },
    }
}

/// Independent requests that a series of yes and no is worth.
fn effective(series: &[bool]) -> f64 {
    share(series).map_or(0.0, |e| e.n_eff)
}

/// Whether a share reaches its target: undecided while the interval includes the target. A target of
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
        Metric::Ttfat => "TTFAT",
        Metric::E2e => "E2E",
        Metric::Tpot => "TPOT",
        Metric::Itl => "ITL",
        Metric::Icl => "ICL",
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
    let reason = met.is_none().then(|| "the 95 % interval includes the limit".to_owned());
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
        reason: Some("it lies among requests that did not end well".to_owned()),
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
    let share = bad as f64 / n as f64;
    let n_eff = effective(&beyond);
    // An effective size below n is itself an estimate, and made smaller for that.
    let draws = if n_eff < n as f64 { shrunk(n_eff) } else { n_eff };
    out.met = within_share(share, draws, allowed);
    let of = match bad {
        0 => format!("none of {} is beyond the limit", count(n)),
        1 => format!("1 of {} is beyond the limit", count(n)),
        _ => format!("{} of {} are beyond the limit", count(bad), count(n)),
    };
    match (out.met, figure) {
        (Some(true), Figure::Undefined(Undefined::TooFewSamples { .. })) | (None, _) => {
            out.met = None;
            let more = match figure {
                Figure::Undefined(reason @ Undefined::TooFewSamples { .. }) => reason_words(reason),
                _ => more_requests(n, draws, |m| within_share(share, m, allowed).is_some()),
            };
            out.reason = Some(format!("{of}; {more}"));
        }
        (Some(false), Figure::Undefined(reason)) => {
            out.reason = Some(format!("{of}, which is enough to know; the value: {}", reason_words(reason)));
        }
        // The share decides; where the interval of the value alone would not, say what did.
        (met, Figure::Known(e)) if by_interval(e.value, e.interval, limit).met != met => {
            out.reason = Some(of)
        }
        _ => {}
    }
    out
}

/// Whether a share seen in this many independent draws stays within `allowed`, by the exact binomial
/// interval. `None`: undecided.
fn within_share(share: f64, draws: f64, allowed: f64) -> Option<bool> {
    let (low, high) = clopper_pearson(share, draws);
    // Sample sizes are fitted to these limits, so equality (up to rounding) decides.
    if high <= allowed + 1e-12 {
        Some(true)
    } else if low > allowed {
        Some(false)
    } else {
        None
    }
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
        let more =
            more_requests(e.n, e.n_eff, |m| by_interval(e.value, wilson(e.value, m), limit).met.is_some());
        out.reason = Some(format!("the 95 % interval includes the limit; {more}"));
    }
    out
}
