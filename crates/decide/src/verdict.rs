//! The end of it: the exit code, and the answer as one sentence that a person would say.

use measure::{Figure, Measures, Undefined, percentile_name};
use spec::{Lengths, Load, MarginalLimit, Metric, Spec, Statistic};

use crate::caps::blocking;
use crate::report::{JointReport, MarginalReport, SloReport, Verdict};
use crate::slo::{limit_words, metric_words, sign};
use crate::trust::{CheckId, Trust, TrustVerdict};
use crate::words::{
    NBSP, TimeUnit, arrivals, count, counted, limit_time, number, percent, percent_number, plain, range,
    share as share_words, time, time_beside,
};

/// Exit codes of a run.
pub mod exit {
    /// Done, and all limits hold.
    pub const HOLDS: u8 = 0;
    /// A limit failed.
    pub const MISSED: u8 = 1;
    /// The measurement cannot be trusted.
    pub const NOT_TRUSTED: u8 = 3;
    /// Nothing could be measured.
    pub const NOTHING: u8 = 4;
    /// The data do not decide a limit.
    pub const UNDECIDED: u8 = 5;
}

/// The exit code: nothing measured before not to be trusted, before a limit missed, before one
/// undecided.
pub fn exit_code(trust: &Trust, slo: &SloReport, measures: &Measures, spec: &Spec) -> u8 {
    if measures.counts.ok == 0 {
        return exit::NOTHING;
    }
    let blocked = blocking(trust, &spec.slo);
    // Overload leaves a limit missed that is missed already; what would hold is not judged.
    if trust.verdict == TrustVerdict::Invalid || blocked.iter().any(|id| *id != CheckId::Overload) {
        return exit::NOT_TRUSTED;
    }
    let met: Vec<Option<bool>> = outcomes(slo).collect();
    if met.contains(&Some(false)) {
        exit::MISSED
    } else if !blocked.is_empty() {
        exit::NOT_TRUSTED
    } else if met.contains(&None) {
        exit::UNDECIDED
    } else {
        exit::HOLDS
    }
}

/// What became of each limit.
fn outcomes(slo: &SloReport) -> impl Iterator<Item = Option<bool>> + '_ {
    slo.joint.iter().map(|j| j.met).chain(slo.marginal.iter().map(|m| m.met))
}

/// The exit code with its sentence. `measures` are those after caps.
pub fn verdict(trust: &Trust, slo: &SloReport, measures: &Measures, spec: &Spec) -> Verdict {
    let exit_code = exit_code(trust, slo, measures, spec);
    let answer = match exit_code {
        exit::NOTHING => nothing(measures),
        exit::NOT_TRUSTED => not_trusted(trust, slo, measures, spec),
        _ if slo.joint.is_none() && slo.marginal.is_empty() => plain_answer(trust, measures, spec),
        _ => judged(trust, slo, measures, spec),
    };
    Verdict { exit_code, answer }
}

/// No request ended well.
fn nothing(measures: &Measures) -> String {
    let counts = &measures.counts;
    if counts.offered == 0 {
        return "No request was due in the measurement: there is nothing to measure.".to_owned();
    }
    let mut parts: Vec<String> = counts
        .failed_by_class
        .iter()
        .map(|(class, n)| {
            let first = counts.first_failure.get(class).filter(|d| !d.is_empty());
            let first = first.map_or_else(String::new, |d| format!(", first: {d}"));
            format!("{} {}{first}", count(*n), class.name())
        })
        .collect();
    let others = [(counts.timed_out, "timed out"), (counts.cancelled, "cut"), (counts.shed, "never sent")];
    parts.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{} {word}", count(*n))));
    let subject = if counts.offered == 1 {
        "The only request did not end well".to_owned()
    } else {
        format!("None of {} ended well", counted(counts.offered, "request"))
    };
    format!("{subject} ({}): there is nothing to measure.", parts.join("; "))
}

/// Invalid, or limited where a limit reads.
fn not_trusted(trust: &Trust, slo: &SloReport, measures: &Measures, spec: &Spec) -> String {
    let mut why = trust.checks.iter().filter(|c| c.is_grave());
    let blocked = blocking(trust, &spec.slo);
    let cause = why.next().or_else(|| blocked.first().and_then(|id| trust.check(*id)));
    let advice = cause.and_then(|c| c.advice.clone()).unwrap_or_default();
    let what = match trust.verdict {
        TrustVerdict::Invalid => "Nothing may be concluded from this measurement",
        _ if outcomes(slo).any(|met| met.is_some()) => "Not every limit was judged",
        _ => "No limit was judged",
    };
    let at_load = format!("{} {}", preposition(spec), load_words(measures, spec));
    let client = |id: CheckId| {
        matches!(
            id,
            CheckId::SendLag | CheckId::LaneStall | CheckId::Machine | CheckId::LaneBusy | CheckId::Arrivals
        )
    };
    let mut answer = format!("{what} {at_load}. {advice}");
    if let (Some(cause), Load::Open(open)) = (cause, &spec.load)
        && client(cause.id)
        && !open.rate.is_infinite()
    {
        answer.push_str(" What the server would have done at this load is unknown.");
    }
    answer
}

fn preposition(spec: &Spec) -> &'static str {
    match &spec.load {
        Load::Open(open) if !open.rate.is_infinite() => "at",
        _ => "with",
    }
}

/// `24 requests/s (Poisson, 512 in / 128 out)`, `16 users (closed loop, …)`.
pub fn load_words(measures: &Measures, spec: &Spec) -> String {
    let lengths = length_words(measures, spec);
    match &spec.load {
        Load::Closed(closed) => {
            let think = if closed.think.0.0 > 0 {
                format!(", thinking {}", limit_time(closed.think.0.0 as f64))
            } else {
                String::new()
            };
            format!("{} (closed loop{think}, {lengths})", counted(u64::from(closed.concurrency), "user"))
        }
        Load::Open(open) if open.rate.is_infinite() => {
            format!("{} at once ({lengths})", counted(measures.counts.offered, "request"))
        }
        Load::Open(open) => {
            let cap =
                open.cap.map_or_else(String::new, |n| format!(", at most {} in flight", count(u64::from(n))));
            let ramp = if open.ramp.is_some() { ", after a ramp" } else { "" };
            format!(
                "{}{NBSP}requests/s ({}{cap}{ramp}, {lengths})",
                plain(open.rate.per_second()),
                arrivals(open.burstiness.shape())
            )
        }
    }
}

/// Mean lengths as delivered: a rate means nothing without them.
fn length_words(measures: &Measures, spec: &Spec) -> String {
    let whole = |mean: f64| count(mean.round() as u64);
    let (input, output) = (measures.tokens.input_mean, measures.tokens.output_mean);
    let mean = if matches!((&spec.workload.isl, &spec.workload.osl), (Lengths::Fixed(_), Lengths::Fixed(_))) {
        ""
    } else {
        "mean "
    };
    match (input, output) {
        (Ok(i), Ok(o)) => format!("{mean}{} in / {} out", whole(i), whole(o)),
        (Err(_), Ok(o)) => format!("input not counted / {mean}{} out", whole(o)),
        (Ok(i), Err(_)) => format!("{mean}{} in / output not counted", whole(i)),
        (Err(_), Err(_)) => "lengths not counted".to_owned(),
    }
}

/// `430 ms (410–460)`.
pub fn time_with_interval(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    if low.is_none() && high.is_none() {
        return time(value);
    }
    let unit = TimeUnit::of(value);
    let scale = unit.ns();
    format!("{} ({})", time(value), range(value / scale, low.map(|x| x / scale), high.map(|x| x / scale)))
}

/// The highest percentile up to p95 that exists, in words: `TTFT p95 65.5 ms (60.1–70.2)`.
fn latency(measures: &Measures, metric: Metric) -> Option<String> {
    let summary = measures.metrics.get(&metric)?;
    [0.95, 0.9, 0.5].iter().find_map(|share| {
        let name = format!("{} {}", metric_words(metric), percentile_name(*share));
        match summary.percentile(*share)? {
            Figure::Known(e) => {
                Some(format!("{name} {}", time_with_interval(e.value, e.interval.low, e.interval.high)))
            }
            Figure::Exceeds(bound) => Some(format!("{name} > {}", time(*bound))),
            Figure::Undefined(_) => None,
        }
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Names the failed checks of a limited measurement.
fn mark(trust: &Trust) -> String {
    if trust.verdict != TrustVerdict::Limited {
        return String::new();
    }
    let names: Vec<String> = trust.checks.iter().filter(|c| c.failed()).map(|c| c.id.label()).collect();
    if names.is_empty() { String::new() } else { format!(" (limited by {})", names.join(", ")) }
}

/// No limit was asked about.
fn plain_answer(trust: &Trust, measures: &Measures, spec: &Spec) -> String {
    let load = capitalised(&format!("{} {}", preposition(spec), load_words(measures, spec)));
    let throughput = &measures.throughput;
    let mut done = Vec::new();
    if let Ok(rate) = throughput.requests_per_s {
        done.push(format!("{}{NBSP}requests/s", number(rate.value)));
    }
    if let Ok(rate) = throughput.output_tokens_per_s {
        done.push(format!("{}{NBSP}output tokens/s", number(rate.value)));
    }
    let latencies: Vec<String> =
        [Metric::Ttft, Metric::Tpot].iter().filter_map(|m| latency(measures, *m)).collect();
    let latencies = if latencies.is_empty() {
        latency(measures, Metric::E2e).map_or_else(String::new, |l| format!(" with {l}"))
    } else {
        format!(" with {}", latencies.join(" and "))
    };
    let done = if done.is_empty() {
        format!("{} of {}", count(measures.counts.ok), counted(measures.counts.offered, "request"))
    } else {
        done.join(" and ")
    };
    format!("{load} the server completed {done}{latencies}{}.", mark(trust))
}

/// Limits were judged.
fn judged(trust: &Trust, slo: &SloReport, measures: &Measures, spec: &Spec) -> String {
    let load = capitalised(&format!("{} {}", preposition(spec), load_words(measures, spec)));
    let mut parts = Vec::new();
    if let Some(joint) = &slo.joint {
        parts.push(joint_words(joint, spec));
    }
    let marginal: Vec<String> =
        spec.slo.marginal.iter().zip(&slo.marginal).map(|(l, r)| marginal_words(l, r)).collect();
    if !marginal.is_empty() {
        parts.push(marginal.join("; "));
    }
    let throughput = match (&spec.load, measures.throughput.requests_per_s) {
        (Load::Closed(_), Ok(rate)) => format!(" It completed {}{NBSP}requests/s.", number(rate.value)),
        _ => String::new(),
    };
    // Why a limit was missed, where that is known.
    let why = trust.check(CheckId::Overload).filter(|check| check.failed());
    let why = why.and_then(|check| check.advice.as_ref()).map_or_else(String::new, |why| format!(" {why}"));
    format!("{load} {}{}.{throughput}{why}", parts.join("; "), mark(trust))
}

fn joint_words(joint: &JointReport, spec: &Spec) -> String {
    let limits: Vec<String> = spec
        .slo
        .joint
        .iter()
        .map(|l| format!("{} {} {}", metric_words(l.metric), sign(l.op), limit_words(l.metric, l.value)))
        .collect();
    let kept = match (joint.attainment.value, joint.attainment.high) {
        (Some(value), _) => share_words(value, joint.attainment.low, joint.attainment.high),
        (None, Some(most)) if most <= 0.0 => "none".to_owned(),
        (None, Some(most)) => format!("at most {}", percent(most)),
        (None, None) => "an unknown share".to_owned(),
    };
    let target = format!("the {} target", percent(joint.target));
    let outcome = match joint.met {
        Some(true) => format!("{target} holds"),
        Some(false) => format!("{target} is missed"),
        None => {
            let why = joint.reason.as_ref().map_or_else(String::new, |r| format!(" ({r})"));
            format!("whether {target} holds is undecided{why}")
        }
    };
    let binds = spec
        .slo
        .joint
        .iter()
        .zip(&joint.alone)
        .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
        .filter(|(_, (_, share))| spec.slo.joint.len() > 1 && *share < 1.0)
        .map_or_else(String::new, |(limit, (_, share))| {
            format!(", {} binds ({}{NBSP}% alone)", metric_words(limit.metric), percent_number(*share))
        });
    format!("the server kept {kept} of all requests within {}: {outcome}{binds}", limits.join(" and "))
}

fn marginal_words(limit: &MarginalLimit, report: &MarginalReport) -> String {
    let name = match limit.statistic {
        Statistic::Percentile(p) => format!("{} {}", percentile_name(p), metric_words(limit.metric)),
        Statistic::Mean => format!("mean {}", metric_words(limit.metric)),
        Statistic::Max => format!("largest {}", metric_words(limit.metric)),
        Statistic::Whole => metric_words(limit.metric).to_owned(),
    };
    let allowed = format!("{} {}", sign(limit.op), limit_words(limit.metric, limit.value));
    let value =
        report.value.map_or_else(String::new, |value| format!(" {}", value_words(limit, report, value)));
    match report.met {
        Some(true) => format!("{name}{value} holds {allowed}"),
        Some(false) => {
            let bound = match (report.value, report.low, report.high) {
                (None, Some(low), _) => format!(" > {}", limit_value(limit.metric, low)),
                (None, None, Some(high)) => format!(" < {}", limit_value(limit.metric, high)),
                _ => String::new(),
            };
            format!("{name}{value}{bound} misses {allowed}")
        }
        None => {
            let why = report.reason.as_ref().map_or_else(String::new, |r| format!(" ({r})"));
            format!("{name}{value} leaves {allowed} undecided{why}")
        }
    }
}

/// Whether a metric is a time.
pub fn is_time(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::ErrorRate | Metric::UserTps | Metric::RequestThroughput | Metric::OutputTokenThroughput
    )
}

/// A value in its own unit, without an interval.
fn limit_value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ErrorRate => percent(value),
        m if is_time(m) => time(value),
        _ => number(value),
    }
}

fn value_words(limit: &MarginalLimit, report: &MarginalReport, value: f64) -> String {
    let interval = report.low.is_some() || report.high.is_some();
    // A verdict that does not rest on the interval says on what it rests.
    if let (Some(met), Some(why)) = (report.met, &report.reason) {
        let missed_time = !met && is_time(limit.metric);
        let value =
            if missed_time { time_beside(value, limit.value) } else { limit_value(limit.metric, value) };
        return format!("{value} ({why})");
    }
    match limit.metric {
        Metric::ErrorRate => share_words(value, report.low, report.high),
        m if is_time(m) && report.met == Some(false) => {
            let unit = TimeUnit::of(value);
            let text = time_beside(value, limit.value);
            if interval {
                let of = |x: Option<f64>| x.map(|x| x / unit.ns());
                format!("{text} ({})", range(value / unit.ns(), of(report.low), of(report.high)))
            } else {
                text
            }
        }
        m if is_time(m) && interval => time_with_interval(value, report.low, report.high),
        m if is_time(m) => time(value),
        _ if interval => format!("{} ({})", number(value), range(value, report.low, report.high)),
        _ => number(value),
    }
}

/// Whether a figure was taken away by a check.
pub fn is_withheld(figure: &Figure) -> bool {
    matches!(figure, Figure::Undefined(Undefined::Withheld))
}
