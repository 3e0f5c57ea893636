//! Metrics pooled over the gaps of all completed requests.
//!
//! Gaps of one request are no independent draws, so requests are treated as clusters: the variance
//! of a share or mean comes from the residuals of whole requests in time order (Woodruff 1952; Korn
//! and Graubard 1998), with their autocorrelation.

use std::collections::BTreeMap;

use spec::PercentileRule;

use crate::correlation::{cautious, tau};
use crate::estimate::{Estimate, Figure, Interval, Method, MetricSummary, PERCENTILES, Undefined, Unit};
use crate::interval::{level_interval, shrunk_by_clusters};
use crate::percentile::{Weighted, needed, percentile_by};
use crate::ranks::Ranks;
use crate::series::Series;
use crate::special::t_95;

/// Values of many requests, each value counted `weight` times.
#[derive(Debug, Clone, Default)]
pub struct Pooled {
    /// Values, request after request in the order of intended sends.
    values: Series,
    /// The weight of each value; empty where every weight is 1.
    weights: Vec<u32>,
    /// End of each request's values; only requests that have any.
    ends: Vec<usize>,
    order: Order,
    /// Requests without a value, by reason.
    missing: BTreeMap<Undefined, u64>,
}

/// The ascending order of the values.
#[derive(Debug, Clone)]
enum Order {
    /// Each value counts once.
    Once(Ranks),
    Weighted(Weighted),
}

impl Default for Order {
    fn default() -> Self {
        Order::Once(Ranks::default())
    }
}

/// Collects a [`Pooled`].
#[derive(Debug, Default)]
pub struct Collector {
    pooled: Pooled,
}

impl Collector {
    /// With room for so many values.
    pub fn with_capacity(count: usize) -> Self {
        Self { pooled: Pooled { values: Series::with_capacity(count), ..Pooled::default() } }
    }
    /// One value of the current request; weight 0 does not count.
    #[inline]
    pub fn push(&mut self, value: f64, weight: u32) {
        if weight == 0 {
            return;
        }
        let Pooled { values, weights, .. } = &mut self.pooled;
        if weight != 1 && weights.is_empty() {
            weights.resize(values.len(), 1);
        }
        if weight != 1 || !weights.is_empty() {
            weights.push(weight);
        }
        values.push(value);
    }
    /// Ends the current request; `reason` is why it has no value, if it has none.
    pub fn end(&mut self, reason: Undefined) {
        let before = self.pooled.ends.last().copied().unwrap_or(0);
        if self.pooled.values.len() > before {
            self.pooled.ends.push(self.pooled.values.len());
        } else {
            *self.pooled.missing.entry(reason).or_insert(0) += 1;
        }
    }
    /// Everything collected.
    pub fn finish(mut self) -> Pooled {
        let pooled = &mut self.pooled;
        pooled.order = if pooled.weights.is_empty() {
            Order::Once(Ranks::new(&pooled.values))
        } else {
            let mut pairs = Vec::with_capacity(pooled.weights.len());
            pooled.values.for_each(|i, value| pairs.push((value, pooled.weights[i])));
            Order::Weighted(Weighted::new(pairs))
        };
        self.pooled
    }
}

impl Pooled {
    fn nothing(&self) -> Undefined {
        self.missing.iter().max_by_key(|&(_, c)| *c).map_or(Undefined::NoneCompleted, |(reason, _)| *reason)
    }

    /// How many there are, each counted `weight` times.
    fn total(&self) -> u64 {
        match &self.order {
            Order::Once(_) => self.values.len() as u64,
            Order::Weighted(list) => list.total(),
        }
    }

    /// The value at a zero-based place of their ascending order, each written down `weight` times.
    fn at(&self, place: u64) -> Option<f64> {
        match &self.order {
            Order::Once(ranks) => ranks.at(&self.values, usize::try_from(place).ok()?),
            Order::Weighted(list) => list.at(place),
        }
    }

    fn value_at(&self, p: f64, rule: PercentileRule) -> Option<f64> {
        percentile_by(self.total() as usize, p, rule, |place| self.at(place as u64))
    }

    /// For each request the sum of `score(value, weight)`.
    fn per_request(&self, score: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let begins = std::iter::once(&0).chain(&self.ends);
        let requests = begins.zip(&self.ends).map(|(begin, end)| *begin..*end);
        if self.weights.is_empty() {
            return requests.map(|request| self.values.sum(request, |x| score(x, 1.0))).collect();
        }
        let mut weights = self.weights.iter().map(|weight| f64::from(*weight));
        requests
            .map(|request| self.values.sum(request, |x| score(x, weights.next().unwrap_or(1.0))))
            .collect()
    }

    /// Visits the place, value and weight of each pair.
    fn for_each(&self, mut visit: impl FnMut(usize, f64, f64)) {
        let weight = |i: usize| self.weights.get(i).copied().map_or(1.0, f64::from);
        self.values.for_each(|i, value| visit(i, value, weight(i)));
    }

    /// Variance of Σ residuals / Σ weights from residuals of whole requests.
    fn variance(&self, residuals: &[f64]) -> f64 {
        let total = self.total() as f64;
        cautious(tau(residuals)) * residuals.iter().map(|e| e * e).sum::<f64>() / (total * total)
    }

    /// The percentile at share `p`. A request that did not end well has no gaps to add, so offered
    /// and completed are the same here. The gaps themselves are the samples that must suffice, not
    /// the tokens, which count one gap several times.
    pub fn percentile(&self, p: f64, rule: PercentileRule) -> Figure {
        let gaps = self.values.len() as u64;
        let Some(value) = self.value_at(p, rule) else {
            return Figure::Undefined(self.nothing());
        };
        if gaps < needed(p) {
            return Figure::Undefined(Undefined::TooFewSamples { n: gaps, needed: needed(p) });
        }
        let residuals = self.per_request(|x, w| if x <= value { (1.0 - p) * w } else { -p * w });
        let variance = self.variance(&residuals);
        let clusters = self.ends.len() as f64;
        // One request says nothing about how requests differ.
        let most = if clusters < 2.0 { 1.0 } else { gaps as f64 };
        let n_eff = if variance > 0.0 { (p * (1.0 - p) / variance).min(most) } else { most };
        let (l, u) = match shrunk_by_clusters(n_eff, clusters) {
            m if m > 0.0 => level_interval(p, m),
            _ => (0.0, 1.0),
        };
        // Ranks count written-out values; what is open is decided by the gaps that were seen.
        let (n, weight) = (gaps as f64, self.total() as f64);
        let at = |level: f64| self.at(((level * weight).ceil() as u64).saturating_sub(1));
        let low = if l * n >= 1.0 { at(l) } else { None };
        let high = if u * n <= n - 0.5 { at(u) } else { None };
        Figure::Known(Estimate {
            value,
            interval: Interval { low, high },
            n: self.total(),
            n_eff,
            method: Method::Percentile(rule),
        })
    }

    /// The percentile at share `p` without its interval; `None` where it is not defined.
    pub fn quantile(&self, p: f64, rule: PercentileRule) -> Option<f64> {
        let enough = self.values.len() as u64 >= needed(p);
        if enough { self.value_at(p, rule) } else { None }
    }

    fn moments(&self) -> Option<(f64, f64)> {
        let total = self.total() as f64;
        if total <= 0.0 {
            return None;
        }
        let (mut sum, mut squares) = (0.0, 0.0);
        self.for_each(|_, x, w| sum += x * w);
        let mean = sum / total;
        self.for_each(|_, x, w| squares += (x - mean) * (x - mean) * w);
        Some((mean, squares))
    }

    /// Everything that is reported of the metric.
    pub fn summary(&self, rule: PercentileRule) -> MetricSummary {
        let nothing = self.nothing();
        let n = self.total();
        let moments = self.moments();
        let requests = self.ends.len() as f64;
        let mut tau_used = 1.0;
        let mean = match moments {
            None => Figure::Undefined(nothing),
            Some((value, squares)) => {
                let residuals = self.per_request(|x, w| (x - value) * w);
                tau_used = cautious(tau(&residuals));
                let variance = self.variance(&residuals) * requests / (requests - 1.0).max(1.0);
                let n_eff = if variance > 0.0 && n > 1 {
                    (squares / (n - 1) as f64 / variance).min(n as f64)
                } else {
                    requests
                };
                let df = requests / tau_used - 1.0;
                let interval = if df >= 1.0 {
                    let half = t_95(df) * variance.sqrt();
                    Interval { low: Some((value - half).max(0.0)), high: Some(value + half) }
                } else {
                    Interval::default()
                };
                Figure::Known(Estimate { value, interval, n, n_eff, method: Method::Mean })
            }
        };
        let stddev = match moments {
            None => Err(nothing),
            Some((_, squares)) if n > 1 => Ok((squares / (n - 1) as f64).sqrt()),
            Some(_) => Err(Undefined::TooFewSamples { n, needed: 2 }),
        };
        let range = match &self.order {
            Order::Once(ranks) => ranks.range(&self.values),
            Order::Weighted(list) => list.range(),
        };
        let percentiles: Vec<(f64, Figure)> =
            PERCENTILES.into_iter().map(|p| (p, self.percentile(p, rule))).collect();
        MetricSummary {
            unit: Unit::Nanoseconds,
            view: None,
            estimator: rule,
            n,
            mean,
            stddev,
            min: range.map(|(low, _)| low).ok_or(nothing),
            max: range.map(|(_, high)| high).ok_or(nothing),
            completed: percentiles.clone(),
            percentiles,
            undefined: self.missing.clone(),
            tau: tau_used,
        }
    }
}
