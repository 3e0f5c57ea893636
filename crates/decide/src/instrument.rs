//! The instrument in a report: what it did in this run, what a self-check knows of it, and which
//! figures are so small that they are its own as much as the server's.

use std::collections::BTreeMap;

use measure::{Defined, Figure, Measures, Undefined, percentile_name};
use record::{Environment, Floor, Run, Spread};
use spec::Metric;

use crate::checks::machine::busiest_share;
use crate::facts::Facts;
use crate::limits;
use crate::slo::metric_words;
use crate::words::{NBSP, percent, time};

/// What the instrument did in a run, and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstrumentReport {
    /// How late requests left.
    pub send_lag: Defined<Spread>,
    /// Percentiles of the delay between the kernel and the program, nanoseconds: p50 and p99.
    pub client_lag: [Figure; 2],
    /// Processor time of the lanes for each request, nanoseconds.
    pub cpu_per_request_ns: Defined<f64>,
    /// Processor time of the lanes for each streamed event, nanoseconds.
    pub cpu_per_event_ns: Defined<f64>,
    /// Busiest lane in the busiest second, as a share of its core.
    pub busiest_lane: Defined<f64>,
    /// The error that every latency and every gap has; `None`: unknown.
    pub floor: Option<Floor>,
    /// Which self-check says so, or why none does.
    pub floor_source: String,
}

impl InstrumentReport {
    /// Gather.
    pub fn new(run: &Run, measures: &Measures) -> Self {
        let environment = &run.header.environment;
        let lag = measures.metrics.get(&Metric::ClientLag);
        let at = |share: f64| {
            let none = Figure::Undefined(Undefined::NoKernelStamp);
            lag.and_then(|m| m.percentile(share)).copied().unwrap_or(none)
        };
        let facts = Facts::new(run, measures);
        Self {
            send_lag: measures.instrument.send_lag,
            client_lag: [at(0.5), at(0.99)],
            cpu_per_request_ns: measures.instrument.cpu_per_request_ns,
            cpu_per_event_ns: measures.instrument.cpu_per_event_ns,
            busiest_lane: busiest_share(&facts).ok_or(Undefined::NotApplicable),
            floor: floor(environment),
            floor_source: floor_source(environment),
        }
    }

    /// One line: `send lag p50 21 µs, p99 180 µs; …; own error 30 µs (self-check of …)`.
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        if let Ok(lag) = self.send_lag {
            parts.push(format!("send lag {}", spread_words(&lag)));
        }
        if let [p50, p99] = self.client_lag.map(|f| f.value())
            && let Some(p50) = p50
        {
            let tail = p99.map_or_else(String::new, |p99| format!(", p99{NBSP}{}", time(p99)));
            parts.push(format!("client lag p50{NBSP}{}{tail}", time(p50)));
        }
        if let Ok(share) = self.busiest_lane {
            parts.push(format!("busiest lane {}", percent(share)));
        }
        match (self.cpu_per_event_ns, self.cpu_per_request_ns) {
            (Ok(event), _) => parts.push(format!("{} of CPU an event", time(event))),
            (Err(_), Ok(request)) => parts.push(format!("{} of CPU a request", time(request))),
            _ => {}
        }
        parts.push(match self.floor {
            Some(floor) => format!("own error {} ({})", time(floor.latency_ns as f64), self.floor_source),
            None => format!("own error unknown ({})", self.floor_source),
        });
        parts.join("; ")
    }
}

/// `p50 21 µs, p99 180 µs`; the largest value where there are too few for a percentile.
pub fn spread_words(spread: &Spread) -> String {
    let named = [("p50", spread.p50_ns), ("p99", spread.p99_ns)];
    let mut parts: Vec<String> = named
        .iter()
        .filter_map(|(name, value)| value.map(|ns| format!("{name}{NBSP}{}", time(ns as f64))))
        .collect();
    if spread.p99_ns.is_none() {
        parts.push(format!("largest{NBSP}{}", time(spread.max_ns as f64)));
    }
    parts.join(", ")
}

/// What the self-check in a run's header says of a measurement as this one; `None` is unknown, not 0.
pub fn floor(environment: &Environment) -> Option<Floor> {
    environment.self_check.as_ref()?.floor(environment.kernel_stamps)
}

fn floor_source(environment: &Environment) -> String {
    match (&environment.self_check, environment.floor.as_str()) {
        (_, said) if !said.is_empty() => said.to_owned(),
        (Some(check), _) => format!("self-check of {}", check.measured),
        (None, _) => "no self-check: run `inferometer self-check`".to_owned(),
    }
}

/// The part of the floor that a metric has in it.
fn part(floor: Floor, metric: Metric) -> Option<u64> {
    match metric {
        Metric::Ttft | Metric::Ttfat | Metric::E2e => Some(floor.latency_ns),
        Metric::Tpot | Metric::DecodeTpot | Metric::Itl | Metric::Icl | Metric::MaxGap => Some(floor.gap_ns),
        Metric::UserTps
        | Metric::ScheduleLag
        | Metric::ClientLag
        | Metric::ErrorRate
        | Metric::RequestThroughput
        | Metric::OutputTokenThroughput => None,
    }
}

/// A note for each metric with a percentile below ten times the instrument's own error.
pub fn floor_notes(measures: &Measures, floor: Option<Floor>) -> BTreeMap<Metric, String> {
    let Some(floor) = floor else { return BTreeMap::new() };
    let note = |metric: Metric| {
        let error = part(floor, metric)? as f64;
        let summary = measures.metrics.get(&metric)?;
        let mut small: Vec<String> = summary
            .percentiles
            .iter()
            .filter_map(|(share, figure)| Some((*share, figure.value()?)))
            .filter(|(_, value)| *value < limits::FLOOR_TIMES * error)
            .map(|(share, value)| format!("{}{NBSP}{}", percentile_name(share), time(value)))
            .collect();
        let last = small.pop()?;
        let (list, are) =
            if small.is_empty() { (last, "is") } else { (format!("{} and {last}", small.join(", ")), "are") };
        Some(format!(
            "{} {list} {are} below ten times this instrument's error of {}.",
            metric_words(metric),
            time(error)
        ))
    };
    Metric::ALL.into_iter().filter_map(|metric| Some((metric, note(metric)?))).collect()
}
