//! The distribution of a per-request metric over offered and over completed requests.

use std::collections::BTreeMap;

use spec::{PercentileRule, View};

use crate::correlation::{cautious, tau, tau_of_percentile};
use crate::estimate::{
    Defined, Estimate, Figure, Interval, Method, MetricSummary, PERCENTILES, Undefined, Unit,
};
use crate::interval::{Size, mean, mean_interval, ranks, sample_stddev};
use crate::percentile::{Rank, needed, rank};
use crate::slo::exact;

/// What one offered request contributes to a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// A completed request with its value.
    Value(f64),
    /// A request that did not end well: worse than any value. For times, it is known to exceed this.
    Beyond(f64),
    /// A completed request without a value.
    Missing(Undefined),
}

/// Which end of the scale is the bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worst {
    /// Large values: times. A failed request is larger than any of them.
    Large,
    /// Small values: speeds. A failed request had the speed 0, as 1/∞.
    Small,
}

/// A metric that each request has once, in the order of intended sends.
#[derive(Debug, Clone)]
pub struct Distribution {
    unit: Unit,
    view: Option<View>,
    /// Values of completed requests in time order.
    series: Vec<f64>,
    /// The same, ascending.
    sorted: Vec<f64>,
    tau_raw: f64,
    offered: Offered,
    missing: BTreeMap<Undefined, u64>,
}

/// All offered requests that have or should have a value.
#[derive(Debug, Clone)]
struct Offered {
    /// In time order; a bad end is infinite (or 0 for speeds).
    series: Vec<f64>,
    /// Finite ones, ascending.
    finite: Vec<f64>,
    /// What the infinite ones are known to exceed, ascending, none below the largest finite value.
    tail: Vec<f64>,
}

impl Distribution {
    /// From outcomes in the order of intended sends.
    pub fn new(outcomes: &[Outcome], unit: Unit, view: Option<View>, worst: Worst) -> Self {
        let mut series = Vec::with_capacity(outcomes.len());
        let mut all = Vec::with_capacity(outcomes.len());
        let mut tail = Vec::new();
        let mut missing = BTreeMap::new();
        for outcome in outcomes {
            match *outcome {
                Outcome::Value(value) => {
                    series.push(value);
                    all.push(value);
                }
                Outcome::Beyond(bound) => match worst {
                    Worst::Large => {
                        all.push(f64::INFINITY);
                        tail.push(bound);
                    }
                    Worst::Small => all.push(0.0),
                },
                Outcome::Missing(reason) => *missing.entry(reason).or_insert(0) += 1,
            }
        }
        let sorted = ascending(&series);
        let finite = if worst == Worst::Small { ascending(&all) } else { sorted.clone() };
        let largest = finite.last().copied().unwrap_or(0.0);
        // By convention a bad end exceeds every finite value, whatever was seen of it.
        tail.iter_mut().for_each(|bound| *bound = bound.max(largest));
        tail.sort_unstable_by(f64::total_cmp);
        let tau_raw = tau(&series);
        let offered = Offered { series: all, finite, tail };
        Self { unit, view, series, sorted, tau_raw, offered, missing }
    }

    /// Values of completed requests, ascending.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }
    /// Offered requests that have or should have a value.
    pub fn offered(&self) -> u64 {
        self.offered.series.len() as u64
    }

    /// The percentile at share `p` over offered requests.
    pub fn percentile(&self, p: f64, rule: PercentileRule) -> Figure {
        if self.sorted.is_empty()
            && let Some(reason) = self.reason()
        {
            return Figure::Undefined(reason);
        }
        let Offered { series, finite, tail } = &self.offered;
        self.figure(p, rule, series, finite, tail)
    }

    /// The percentile at share `p` over offered requests without its interval, and whether it is only
    /// known to exceed that; `None` where it is not defined.
    pub fn quantile(&self, p: f64, rule: PercentileRule) -> Option<(f64, bool)> {
        let Offered { finite, tail, .. } = &self.offered;
        let n = finite.len() + tail.len();
        if finite.is_empty() || (n as u64) < needed(p) {
            return None;
        }
        let (value, known) = pick(finite, tail, rank(n, p, rule)?);
        Some((value, !known))
    }

    /// The percentile at share `p` over completed requests only.
    pub fn percentile_of_completed(&self, p: f64, rule: PercentileRule) -> Figure {
        if self.sorted.is_empty() {
            return Figure::Undefined(self.reason().unwrap_or(Undefined::NoneCompleted));
        }
        self.figure(p, rule, &self.series, &self.sorted, &[])
    }

    /// The largest over offered requests; among bad ends, what the longest is known to exceed.
    pub fn largest(&self) -> Figure {
        match (self.offered.tail.last(), self.offered.finite.last()) {
            (Some(&bound), _) if bound > 0.0 => Figure::Exceeds(bound),
            (None, Some(&value)) => Figure::Known(exact(value, self.offered())),
            _ => Figure::Undefined(self.reason().unwrap_or(Undefined::NoneCompleted)),
        }
    }

    /// Why completed requests have no value: the most frequent reason.
    fn reason(&self) -> Option<Undefined> {
        self.missing.iter().max_by_key(|&(_, count)| *count).map(|(reason, _)| *reason)
    }

    fn figure(&self, p: f64, rule: PercentileRule, series: &[f64], finite: &[f64], tail: &[f64]) -> Figure {
        let n = finite.len() + tail.len();
        let Some(at) = rank(n, p, rule) else {
            return Figure::Undefined(Undefined::NoneCompleted);
        };
        if (n as u64) < needed(p) {
            return Figure::Undefined(Undefined::TooFewSamples { n: n as u64, needed: needed(p) });
        }
        let (value, known) = pick(finite, tail, at);
        if !known {
            // Nothing completed and nothing is known of the rest: no number can be said.
            let silent = finite.is_empty() && value <= 0.0;
            return if silent { Figure::Undefined(Undefined::NoneCompleted) } else { Figure::Exceeds(value) };
        }
        let below: Vec<f64> = series.iter().map(|&x| f64::from(u8::from(x <= value))).collect();
        let tau = tau_of_percentile(self.tau_raw, &below);
        let n_eff = n as f64 / tau;
        let (low, high) = ranks(n, p, Size::Effective(n_eff));
        // A rank among the infinite leaves that side open.
        let of = |r: Option<usize>| finite.get(r?.checked_sub(1)?).copied();
        Figure::Known(Estimate {
            value,
            interval: Interval { low: of(low), high: of(high) },
            n: n as u64,
            n_eff,
            method: Method::Percentile(rule),
        })
    }

    /// Mean over completed requests with its t interval on the effective sample size.
    pub fn mean(&self) -> Figure {
        let Some(value) = mean(&self.series) else {
            return Figure::Undefined(self.reason().unwrap_or(Undefined::NoneCompleted));
        };
        let n = self.series.len();
        let n_eff = n as f64 / cautious(self.tau_raw);
        let interval = sample_stddev(&self.series)
            .map_or(Interval::default(), |stddev| mean_interval(value, stddev, n_eff));
        Figure::Known(Estimate { value, interval, n: n as u64, n_eff, method: Method::Mean })
    }

    /// Everything that is reported of the metric.
    pub fn summary(&self, rule: PercentileRule) -> MetricSummary {
        let nothing = self.reason().unwrap_or(Undefined::NoneCompleted);
        let n = self.series.len() as u64;
        let percentiles: Vec<(f64, Figure)> =
            PERCENTILES.into_iter().map(|p| (p, self.percentile(p, rule))).collect();
        // Without bad ends both populations are the same.
        let completed = if self.offered.series.len() == self.series.len() {
            percentiles.clone()
        } else {
            PERCENTILES.into_iter().map(|p| (p, self.percentile_of_completed(p, rule))).collect()
        };
        MetricSummary {
            unit: self.unit,
            view: self.view,
            estimator: rule,
            n,
            mean: self.mean(),
            stddev: spread(&self.series, nothing),
            min: self.sorted.first().copied().ok_or(nothing),
            max: self.sorted.last().copied().ok_or(nothing),
            percentiles,
            completed,
            undefined: self.missing.clone(),
            tau: cautious(self.tau_raw),
        }
    }
}

fn spread(series: &[f64], nothing: Undefined) -> Defined<f64> {
    match series.len() {
        0 => Err(nothing),
        n => sample_stddev(series).ok_or(Undefined::TooFewSamples { n: n as u64, needed: 2 }),
    }
}

fn ascending(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The value at a rank of finite values followed by bounds, and whether it is known: not when a
/// bound takes part in it.
fn pick(finite: &[f64], tail: &[f64], at: Rank) -> (f64, bool) {
    let get = |index: usize| match finite.get(index) {
        Some(&value) => (value, true),
        None => (tail.get(index - finite.len()).or(tail.last()).copied().unwrap_or(0.0), false),
    };
    let (low, low_known) = get(at.index);
    if at.fraction <= 0.0 {
        return (low, low_known);
    }
    let (high, high_known) = get(at.index + 1);
    ((low + at.fraction * (high - low)).min(high), low_known && high_known)
}
