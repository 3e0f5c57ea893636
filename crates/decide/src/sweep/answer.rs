//! A sweep in one sentence, and the exit code.

use spec::{MarginalLimit, Spec, Statistic};

use super::{Asked, Crossing, CrossingState, Knee, KneeState, LimitCrossing, Over, Point};
use crate::report::Verdict;
use crate::slo::{limit_words, metric_words, sign};
use crate::verdict::exit;
use crate::words::{NBSP, counted, decimals, fixed, number, percent};

/// The end of a sweep.
pub(super) fn verdict(
    asked: &Asked,
    points: &[Point],
    knee_words: &str,
    limits: &[LimitCrossing],
) -> Verdict {
    let exit_code = exit_code(points, limits);
    let answer = match exit_code {
        exit::NOTHING => "No request ended well at any load: there is nothing to measure.".to_owned(),
        exit::NOT_TRUSTED => {
            let why = points.iter().find_map(|point| point.pooled.as_ref().err());
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!("Nothing may be concluded: the measurement cannot be believed at any load{why}.")
        }
        _ => {
            let mut sentences = vec![knee_words.to_owned()];
            sentences.extend(limits.iter().map(|limit| limit.words.clone()));
            let unknown = points.iter().filter(|point| point.known().is_none()).count();
            if unknown > 0 {
                let are = if unknown == 1 { "is" } else { "are" };
                sentences
                    .push(format!("{unknown} of {} {are} unknown", counted(points.len() as u64, "load")));
            }
            match asked.missing.len() {
                0 => {}
                1 => sentences.push("1 run is missing".to_owned()),
                n => sentences.push(format!("{n} runs are missing")),
            }
            format!("{}.", sentences.join("; "))
        }
    };
    Verdict { exit_code, answer }
}

/// A crossing is what a sweep is made for, so it is no failure: 0 where each limit holds or is seen to
/// be crossed, 1 where one is missed at the smallest load already, 5 where the data leave one open.
fn exit_code(points: &[Point], limits: &[LimitCrossing]) -> u8 {
    let some = |wanted: &[CrossingState]| limits.iter().any(|l| wanted.contains(&l.crossing.state));
    if points.iter().flat_map(|point| &point.repeats).all(|repeat| repeat.ok == 0) {
        exit::NOTHING
    } else if points.iter().all(|point| point.known().is_none()) {
        exit::NOT_TRUSTED
    } else if some(&[CrossingState::Missed]) {
        exit::MISSED
    } else if some(&[CrossingState::Open, CrossingState::NotMonotone]) {
        exit::UNDECIDED
    } else {
        exit::HOLDS
    }
}

/// What throughput does, as the beginning of a sentence.
pub(super) fn knee_words(over: Over, knee: &Knee) -> String {
    let rate = |x: f64| format!("{}{NBSP}requests/s", number(x));
    let peak = |(load, x): (f64, f64)| format!("{} ({} completed)", over.words(load), rate(x));
    match (knee.state, knee.at, knee.peak) {
        (KneeState::Found, Some(at), _) => {
            let places = if over == Over::Concurrency { 0 } else { decimals(at.load) };
            let shown = |x: f64| fixed(x, places);
            let unit = match over {
                Over::Concurrency => "users",
                Over::Rate => "requests/s",
            };
            format!(
                "Throughput grows up to a knee at {}{NBSP}{unit} ({}–{}), where it is {}",
                shown(at.load),
                shown(at.low),
                shown(at.high),
                rate(at.throughput)
            )
        }
        (KneeState::NotReached, _, Some((load, x))) => {
            format!("Throughput still grows at {} ({}): its knee is not reached", over.words(load), rate(x))
        }
        (KneeState::Collapse, _, Some(found)) => {
            format!("Throughput collapses beyond its peak at {}", peak(found))
        }
        (_, _, Some(found)) => format!("Throughput is largest at {}, and no knee is found", peak(found)),
        _ => "The throughput of no load is known".to_owned(),
    }
}

/// Each limit as a person names it, in the order of the crossings.
pub(super) fn limit_names(spec: &Spec) -> Vec<String> {
    let slo = &spec.slo;
    let mut names = Vec::new();
    if !slo.joint.is_empty() {
        let limits: Vec<String> = slo
            .joint
            .iter()
            .map(|l| format!("{} {} {}", metric_words(l.metric), sign(l.op), limit_words(l.metric, l.value)))
            .collect();
        names.push(format!("{} for {} of requests", limits.join(" and "), percent(slo.attain)));
    }
    names.extend(slo.marginal.iter().map(marginal_name));
    names
}

fn marginal_name(limit: &MarginalLimit) -> String {
    let metric = metric_words(limit.metric);
    let name = match limit.statistic {
        Statistic::Percentile(p) => format!("{} {metric}", measure::percentile_name(p)),
        Statistic::Mean => format!("mean {metric}"),
        Statistic::Max => format!("largest {metric}"),
        Statistic::Whole => metric.to_owned(),
    };
    format!("{name} {} {}", sign(limit.op), limit_words(limit.metric, limit.value))
}

/// Where one limit is crossed, in words. Only loads that were measured are named.
pub(super) fn crossing_words(name: &str, crossing: &Crossing, over: Over) -> String {
    let load = |x: f64| over.words(x);
    let list = |open: &[f64]| open.iter().map(|x| load(*x)).collect::<Vec<_>>().join(", ");
    let open = match crossing.open.as_slice() {
        [] => String::new(),
        open => format!(" (undecided at {})", list(open)),
    };
    match (crossing.state, crossing.holds_up_to, crossing.missed_from) {
        (CrossingState::Crossed, Some(holds), Some(missed)) => {
            format!("{name} holds up to {} and is missed from {} on{open}", load(holds), load(missed))
        }
        (CrossingState::NotMonotone, Some(holds), Some(missed)) => format!(
            "{name} is missed at {} and holds at {} again: it is undecided where it is crossed",
            load(missed),
            load(holds)
        ),
        (CrossingState::Holds, Some(holds), _) => {
            format!("{name} holds up to {}, the largest load", load(holds))
        }
        (CrossingState::Missed, _, Some(missed)) => {
            format!("{name} is missed from {} on, the smallest load", load(missed))
        }
        (_, Some(holds), _) => {
            format!("{name} holds up to {} and is undecided at {}", load(holds), list(&crossing.open))
        }
        (_, _, Some(missed)) => {
            format!("{name} is undecided at {} and missed from {} on", list(&crossing.open), load(missed))
        }
        _ => format!("{name} is undecided at every load"),
    }
}
