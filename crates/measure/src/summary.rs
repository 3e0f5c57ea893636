//! Everything that one run's records say, before anybody judges it.

use std::collections::BTreeMap;

use record::{FailureClass, TimeoutKind};
use serde::Serialize;
use spec::{Metric, Nanos, PercentileRule, View};

use crate::estimate::{Defined, Estimate, MetricSummary};
use crate::instrument::Instrument;
use crate::rates::Rates;
use crate::traffic::{Connections, TargetShare};

/// Everything that one run's records say.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// Where latencies start.
    pub view: View,
    /// Percentile rule.
    pub rule: PercentileRule,
    /// States of the measured requests.
    pub counts: Counts,
    /// States of the warm-up requests, reported apart.
    pub warmup: Counts,
    /// Mean TTFT of the first request of all and of the warm-up: the cold start.
    pub cold_ttft: Defined<Nanos>,
    /// The connections of the whole run.
    pub connections: Connections,
    /// The share of each of several targets; none where there is one.
    pub targets: Vec<TargetShare>,
    /// The window.
    pub window: Window,
    /// Every per-request and pooled metric in the headline view.
    pub metrics: BTreeMap<Metric, MetricSummary>,
    /// The latencies that have a start, in the other view.
    pub other_view: BTreeMap<Metric, MetricSummary>,
    /// Rates and levels.
    pub throughput: Throughput,
    /// Token accounting.
    pub tokens: Tokens,
    /// Little's law check: completion rate × mean e2e against the time-weighted mean in flight.
    pub little: Defined<Little>,
    /// What the instrument itself did.
    pub instrument: Instrument,
}

/// States of requests; they add up to `offered`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Every request that the plan wanted.
    pub offered: u64,
    /// Ended well.
    pub ok: u64,
    /// Ended badly.
    pub failed: u64,
    /// Cut by a limit.
    pub timed_out: u64,
    /// Cut by us at the end.
    pub cancelled: u64,
    /// Never sent.
    pub shed: u64,
    /// Failures by class.
    pub failed_by_class: BTreeMap<FailureClass, u64>,
    /// Time-outs by limit.
    pub timed_out_by_kind: BTreeMap<TimeoutKind, u64>,
    /// The first message of each class of failure.
    pub first_failure: BTreeMap<FailureClass, String>,
    /// Finish reasons of completed requests; `none given` where the server gave none.
    pub finish: BTreeMap<String, u64>,
    /// Requests that went out again because an idle connection turned out dead.
    pub stale_connections: u64,
    /// Attempts beyond the first.
    pub retries: u64,
}

/// The measurement window (definitions §5).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// First intended send of the measurement.
    pub from: Nanos,
    /// Last output of a request of the measurement, or its last intended send if that is later.
    pub to: Nanos,
    /// `to` − `from`.
    pub duration: Nanos,
    /// Span in which requests were intended.
    pub planned_span: Nanos,
    /// Longest span at the plateau without a trend, or none.
    pub steady: Option<(Nanos, Nanos)>,
    /// What passed inside that span.
    pub steady_rates: Option<Rates>,
}

/// Rates and levels over the window, per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Completed requests / duration.
    pub requests_per_s: Defined<Estimate>,
    /// Output tokens of completed requests / duration.
    pub output_tokens_per_s: Defined<Estimate>,
    /// Input tokens of completed requests / duration.
    pub input_tokens_per_s: Defined<Estimate>,
    /// Planned sends / planned span.
    pub offered_per_s: Defined<f64>,
    /// Actual sends / planned span.
    pub sent_per_s: Defined<f64>,
    /// Time-weighted mean of requests in flight.
    pub in_flight_mean: Defined<f64>,
    /// True peak.
    pub in_flight_peak: u64,
    /// Coefficient of variation of the realised gaps between sends.
    pub gap_cv: Defined<f64>,
    /// Mean wait at the cap, where there is one.
    pub cap_wait_mean: Defined<Nanos>,
    /// Share of requests that waited at the cap.
    pub capped_share: f64,
}

/// Token accounting over completed requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokens {
    /// Total output.
    pub output: u64,
    /// Total input.
    pub input: u64,
    /// Mean output length.
    pub output_mean: Defined<f64>,
    /// Mean input length.
    pub input_mean: Defined<f64>,
    /// Where the counts of output came from: source → requests.
    pub output_source: BTreeMap<TokenSource, u64>,
    /// Where the tokens of chunks came from: source → requests.
    pub chunk_source: BTreeMap<TokenSource, u64>,
    /// Output of requests that did not end well, shown apart and in no throughput.
    pub output_of_failed: u64,
    /// Mean tokens per chunk.
    pub per_chunk: Defined<f64>,
    /// Requests asked for an exact length.
    pub forced: u64,
    /// Of these, delivered differently.
    pub forced_missed: u64,
    /// Σ usage / Σ retokenised − 1, where both exist.
    pub usage_vs_retokenised: Defined<f64>,
    /// Input tokens that the server took from its cache, where it reports them.
    pub cached: Option<u64>,
}

/// Where a token count came from, best first (definitions §2).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The server's usage (for chunks: running usage, token ids or log-probs in the event).
    Server,
    /// Our tokenizer over the whole text (for chunks: a total spread by text length; the total is
    /// the server's usage where no tokenizer ran).
    Tokenizer,
    /// One token per chunk.
    Chunks,
}

/// Little's law: L against λW, and the tolerance that the window's edges allow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Little {
    /// Time-weighted mean in flight.
    pub in_flight: f64,
    /// Completion rate × mean e2e (server view).
    pub lambda_w: f64,
    /// |L / λW − 1| that is still explained by the edges: 1.25 × mean e2e / window + 1 %.
    pub tolerance: f64,
}
