//! What lateness on this side may have added to a percentile.

use measure::Samples;
use measure::client_error::{Suspect, client_error_bound};
use measure::instrument::send_lag;
use record::Request;
use spec::{Metric, Nanos, View};

use crate::facts::{Facts, STARTED};
use crate::instrument::floor;
use crate::limits;
use crate::windows::LimitedWindows;

/// "Adds at most `bound` to this percentile."
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorBound {
    /// Which metric.
    pub metric: Metric,
    /// Which percentile.
    pub share: f64,
    /// The bound in nanoseconds.
    pub bound: f64,
    /// The percentile itself, in nanoseconds.
    pub value: f64,
}

impl ErrorBound {
    /// Bound / percentile.
    pub fn ratio(&self) -> f64 {
        if self.value > 0.0 { self.bound / self.value } else { f64::INFINITY }
    }
    /// Large enough to spoil the percentile.
    pub fn matters(&self) -> bool {
        self.bound > limits::BOUND_MIN.0 as f64 && self.ratio() > limits::BOUND_FLAG
    }
}

/// The bound of every percentile that is shown in user view; in server view lateness of a send is
/// no part of a latency.
pub fn error_bounds(facts: &Facts, limited: &LimitedWindows) -> Vec<ErrorBound> {
    if !facts.user_view() {
        return Vec::new();
    }
    // Where no self-check tells the floor it is unknown: the bound then holds for what this run saw.
    let floor = floor(&facts.run.header.environment).map_or(0.0, |floor| floor.latency_ns as f64);
    let touched = limited.touched();
    let in_touched = |at: Nanos| touched.iter().any(|(from, to)| at >= *from && at < *to);
    let samples = Samples::of(facts.measured.iter().copied());
    let mut out = Vec::new();
    for metric in STARTED {
        let Some(summary) = facts.measures.metrics.get(&metric) else { continue };
        let suspects: Vec<Suspect> = samples
            .values(metric, View::User)
            .filter(|(r, _)| r.state.is_ok())
            .filter_map(|(r, value)| {
                let lag = send_lag(r).unwrap_or_default() + stamp_bound(r, metric);
                Some(Suspect { value: value.ok()?, lag: lag.0 as f64, touched: in_touched(r.intended) })
            })
            .collect();
        for (share, figure) in &summary.percentiles {
            let Some(value) = figure.value() else { continue };
            if let Some(error) = client_error_bound(&suspects, *share, facts.measures.rule, floor) {
                out.push(ErrorBound { metric, share: *share, bound: error.bound, value });
            }
        }
    }
    out
}

/// By how much the stamp that ends this latency may be late, where the kernel gave none.
fn stamp_bound(request: &Request, metric: Metric) -> Nanos {
    let chunk = if metric == Metric::E2e { request.chunks.last() } else { request.chunks.first() };
    chunk.filter(|c| !c.kernel).map_or(Nanos::ZERO, |c| c.arrival.saturating_since(c.earliest))
}
