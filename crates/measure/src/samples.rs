//! All measured requests of a run, resolved once, and the distributions of their metrics.

use record::{Request, Run};
use spec::{Metric, PercentileRule, Phase, View};

use crate::distribution::{Distribution, Outcome, Worst};
use crate::estimate::{Defined, Figure, MetricSummary, Undefined, Unit};
use crate::pooled::{Collector, Pooled};
use crate::request::{Observed, for_each_gap, for_each_read_lag};
use crate::tokens::chunk_tokens;

/// The measured requests of a run in the order of their intended sends.
#[derive(Debug, Clone)]
pub struct Samples<'a> {
    pub(crate) observed: Vec<Observed<'a>>,
}

/// Whether a metric has one value for each request.
pub fn is_per_request(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ttft
            | Metric::Ttfat
            | Metric::E2e
            | Metric::Tpot
            | Metric::DecodeTpot
            | Metric::MaxGap
            | Metric::UserTps
            | Metric::ScheduleLag
    )
}

/// Whether a metric is pooled over the gaps or reads of all requests.
pub fn is_pooled(metric: Metric) -> bool {
    matches!(metric, Metric::Itl | Metric::Icl | Metric::ClientLag)
}

/// Whether a metric depends on where latencies start.
pub fn has_view(metric: Metric) -> bool {
    matches!(metric, Metric::Ttft | Metric::Ttfat | Metric::E2e)
}

impl<'a> Samples<'a> {
    /// Of the measurement phase.
    pub fn new(run: &'a Run) -> Self {
        Self::of(run.requests.iter().filter(|request| request.phase == Phase::Measure))
    }
    /// Of any requests.
    pub fn of(requests: impl Iterator<Item = &'a Request>) -> Self {
        let mut requests: Vec<&Request> = requests.collect();
        requests.sort_by_key(|request| (request.intended, request.seq));
        let mut tokens = Vec::new();
        Self { observed: requests.into_iter().map(|r| Observed::new(r, &mut tokens)).collect() }
    }
    /// The requests in the order of their intended sends.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = &'a Request> + Clone {
        self.observed.iter().map(|observed| observed.request)
    }

    /// Each request with its value of a metric, in nanoseconds or tokens per second.
    pub fn values(&self, metric: Metric, view: View) -> impl Iterator<Item = (&'a Request, Defined<f64>)> {
        self.observed.iter().map(move |observed| (observed.request, observed.value(metric, view)))
    }

    /// The distribution of a metric that each request has once; `None` for other metrics.
    pub fn distribution(&self, metric: Metric, view: View) -> Option<Distribution> {
        if !is_per_request(metric) {
            return None;
        }
        let outcomes: Vec<Outcome> = self
            .observed
            .iter()
            .map(|observed| {
                // The instrument's own lag exists for whatever was sent, however it ended.
                if metric == Metric::ScheduleLag || observed.request.state.is_ok() {
                    observed.value(metric, view).map_or_else(Outcome::Missing, Outcome::Value)
                } else {
                    Outcome::Beyond(observed.bound(metric, view))
                }
            })
            .collect();
        let speed = metric == Metric::UserTps;
        let unit = if speed { Unit::TokensPerSecond } else { Unit::Nanoseconds };
        let worst = if speed { Worst::Small } else { Worst::Large };
        Some(Distribution::new(&outcomes, unit, has_view(metric).then_some(view), worst))
    }

    /// The pooled values of a metric: gaps of completed requests, or reads of all; `None` for other
    /// metrics.
    pub fn pooled(&self, metric: Metric) -> Option<Pooled> {
        if !is_pooled(metric) {
            return None;
        }
        let answered = self.requests().filter(|request| metric == Metric::ClientLag || request.state.is_ok());
        let mut collector =
            Collector::with_capacity(answered.clone().map(|request| request.chunks.len()).sum());
        let mut tokens = Vec::new();
        for request in answered {
            if metric == Metric::ClientLag {
                for_each_read_lag(request, |lag| collector.push(lag.0 as f64, 1));
                if !request.chunks.is_empty() {
                    collector.end(Undefined::NoKernelStamp);
                }
                continue;
            }
            if metric == Metric::Itl {
                chunk_tokens(request, &mut tokens);
            } else {
                tokens.clear();
                tokens.resize(request.chunks.len(), 1);
            }
            for_each_gap(request, &tokens, |gap| match gap.per_token() {
                Some(per_token) if metric == Metric::Itl => collector.push(per_token, gap.tokens),
                _ if metric == Metric::Icl => collector.push(gap.chunk.0 as f64, 1),
                _ => {}
            });
            collector.end(match () {
                () if request.chunks.is_empty() => Undefined::NoOutput,
                () if !request.streamed => Undefined::NotStreamed,
                () => Undefined::SingleChunk,
            });
        }
        Some(collector.finish())
    }

    /// Whether each chunk of what ended well is one token: then the gaps between tokens are those
    /// between chunks.
    pub(crate) fn token_each(&self) -> bool {
        self.observed.iter().filter(|o| o.request.state.is_ok()).all(|observed| observed.token_each)
    }

    /// Everything that is reported of a per-request or pooled metric; `None` for metrics of the run.
    pub fn summary(&self, metric: Metric, view: View, rule: PercentileRule) -> Option<MetricSummary> {
        match self.distribution(metric, view) {
            Some(distribution) => Some(distribution.summary(rule)),
            None => self.pooled(metric).map(|pooled| pooled.summary(rule)),
        }
    }

    /// A percentile of a per-request or pooled metric over offered requests.
    pub fn percentile(&self, metric: Metric, view: View, p: f64, rule: PercentileRule) -> Figure {
        if let Some(distribution) = self.distribution(metric, view) {
            return distribution.percentile(p, rule);
        }
        match self.pooled(metric) {
            Some(pooled) => pooled.percentile(p, rule),
            None => Figure::Undefined(Undefined::NotApplicable),
        }
    }
}
