//! The answer in a sentence.

use spec::{Lengths, Span};

use super::answer::{CapacityAnswer, Needs, Verdict};
use super::settings::{Over, Settings};
use crate::words::{counted, fixed, number, plain};

/// A load with its unit: `41 req/s`, `300 in flight`, `120 users`.
pub fn load(over: Over, value: f64) -> String {
    match over {
        Over::Rate { .. } => format!("{} req/s", figure(value)),
        Over::Concurrency => format!("{} in flight", fixed(value, 0)),
        Over::Users { .. } => format!("{} users", fixed(value, 0)),
    }
}

/// A rate with three significant digits and nothing that carries none: `41.3`, `16`, `2,896`.
pub fn figure(value: f64) -> String {
    let text = number(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `1024/256 tokens`: input and output lengths, as they are asked for.
pub fn workload(isl: &Lengths, osl: &Lengths) -> String {
    format!("{isl}/{osl} tokens")
}

pub(crate) fn process(over: Over) -> String {
    match over {
        Over::Rate { burstiness } => {
            let shape = burstiness.shape();
            if shape.is_infinite() {
                "With constant gaps between arrivals".to_owned()
            } else if (shape - 1.0).abs() < 1e-12 {
                "With Poisson arrivals".to_owned()
            } else {
                format!("With arrivals of burstiness {shape}")
            }
        }
        Over::Concurrency => "With a fixed number in flight".to_owned(),
        Over::Users { think } => format!("With users who think for {}", Span(think)),
    }
}

pub(super) fn sentence(settings: &Settings, answer: &CapacityAnswer) -> String {
    let over = settings.over;
    let process = match settings.workload.as_str() {
        "" => process(over),
        workload => format!("{}, {workload} and warm-up excluded,", process(over)),
    };
    let limits: Vec<&str> = settings.criteria.iter().map(|c| c.text.as_str()).collect();
    let limits = limits.join(" and ");
    let of = |v: Option<f64>| v.map_or("an unknown load".to_owned(), |v| load(over, v));
    let percent = (answer.confidence * 100.0).round();
    let width = plain(settings.width * 100.0);
    let bracket = match (answer.low, answer.high) {
        (Some(low), Some(high)) => {
            format!(" ({}–{}, {percent} % confidence)", bare(over, low), bare(over, high))
        }
        (Some(low), None) => format!(" (at least {})", bare(over, low)),
        (None, Some(high)) => format!(" (at most {}, {percent} % confidence)", bare(over, high)),
        (None, None) => String::new(),
    };
    let by = |text: &str| match &answer.limited_by {
        Some(limit) if settings.criteria.len() > 1 => format!("{text}; limited by {limit}"),
        _ => text.to_owned(),
    };
    match answer.verdict {
        Verdict::Resolved => {
            by(&format!("{process} this server holds {}{bracket} with {limits}", of(answer.value)))
        }
        Verdict::Unresolved if answer.value.is_some() => {
            let needs = match answer.needs {
                Some(Needs::Requests { requests }) => {
                    format!("; a bracket of {width} % would take about {}", counted(requests, "request"))
                }
                Some(Needs::Repeats { repeats }) => format!(
                    "; the server differs from run to run, and a bracket of {width} % would take about {}",
                    counted(repeats, "probe")
                ),
                None => String::new(),
            };
            by(&format!(
                "{process} this server holds about {}{bracket} with {limits}; not resolved{needs}",
                of(answer.value)
            ))
        }
        Verdict::Unresolved => {
            format!("{process} nothing is known yet of what this server holds with {limits}")
        }
        Verdict::Unmet => format!("{process} this server does not hold {limits} at any load that was tried"),
        Verdict::NotReached => {
            format!(
                "{process} this server holds at least {} with {limits}; no higher load was tried",
                of(answer.low)
            )
        }
        Verdict::ClientLimited if answer.low.is_none() => {
            format!(
                "{process} nothing is known of what this server holds with {limits}: this client was the limit"
            )
        }
        Verdict::ClientLimited => format!(
            "{process} this server holds at least {} with {limits}; this client cannot load it further",
            of(answer.low)
        ),
        Verdict::Unstable => format!(
            "{process} this server has no single limit with {limits}: it fails at loads below others that it holds; \
             everything that was tried up to {} held",
            answer.low.map_or("no load".to_owned(), |v| load(over, v))
        ),
    }
}

pub(crate) fn bare(over: Over, value: f64) -> String {
    if over.is_whole() { fixed(value, 0) } else { figure(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_said_as_they_are_asked() {
        let (isl, osl) = (Lengths::Fixed(1024), Lengths::Uniform { min: 64, max: 192 });
        assert_eq!(workload(&isl, &osl), "1024/64..192 tokens");
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [0.418_9, 41.26, 16.0, 2896.4, 0.000_123_4].map(figure),
            ["0.419", "41.3", "16", "2,896", "0.000123"]
        );
    }
}
