//! The keys of the machine output and their order; additions only, until the schema version changes.

use std::collections::BTreeMap;

use measure::{TokenSource, Unit};
use record::{Environment, FailureClass, Spread, Stopped, TimeoutKind};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use spec::{Metric, PercentileRule, Spec, View};

use crate::report::Verdict;
use crate::trust::{CheckId, CheckState, TrustVerdict};
use crate::windows::ClientWindows;

/// One run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Document {
    /// Version of this shape.
    pub schema_version: u32,
    /// What measured.
    pub tool: Tool,
    /// What was asked, every default written out.
    pub spec: Spec,
    /// The seed of every random stream.
    pub seed: u64,
    /// Where and against what.
    pub environment: Environment,
    /// May the numbers be believed?
    pub trust: TrustDoc,
    /// States of the measured requests; they add up to `offered`.
    pub requests: CountsDoc,
    /// The window of measurement.
    pub window: WindowDoc,
    /// One entry for each metric; `ttft`, `tpot`, `itl`, `icl` and `e2e` are always there.
    pub metrics: BTreeMap<MetricKey, MetricDoc>,
    /// Rates and levels over the window.
    pub throughput: ThroughputDoc,
    /// The limits and what became of them.
    pub slo: SloDoc,
    /// The end of it.
    pub verdict: Verdict,
    /// Latencies that have a start, in the other view.
    pub other_view: BTreeMap<String, MetricDoc>,
    /// States of the warm-up requests, which count nowhere else.
    pub warmup: CountsDoc,
    /// Token accounting over completed requests.
    pub tokens: TokensDoc,
    /// The connections of the whole run.
    pub connections: ConnectionsDoc,
    /// The share of each of several targets, in the order of the spec; empty where there is one.
    pub targets: Vec<TargetDoc>,
    /// What the instrument itself did, and what is known of it.
    pub instrument: InstrumentDoc,
    /// Little's law: mean in flight against completion rate × mean e2e; `null` where a part is not defined.
    pub little: Option<LittleDoc>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Why the run stopped.
    pub stopped: Stopped,
    /// What a recovered journal is missing.
    pub missing: Vec<String>,
}

/// A finite number; whole ones are written without a fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Num(pub f64);

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // 2^53: beyond it not every integer is a double.
        if self.0.fract() == 0.0 && self.0.abs() < 9_007_199_254_740_992.0 {
            s.serialize_i64(self.0 as i64)
        } else {
            s.serialize_f64(self.0)
        }
    }
}
impl JsonSchema for Num {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number" })
    }
}

/// What measured.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// May the numbers be believed?
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TrustDoc {
    /// The verdict on the measurement.
    pub verdict: TrustVerdict,
    /// Every check, failed first, then unknown, then passed.
    pub checks: Vec<CheckDoc>,
    /// The seconds of the measurement in which this side was the bottleneck, and by what.
    pub client: ClientWindows,
}

/// One check.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckDoc {
    /// Stable name.
    pub id: CheckId,
    /// Unknown is never passed.
    pub state: CheckState,
    /// What was found.
    pub figure: String,
    /// What is allowed.
    pub limit: String,
    /// What to do; `null` when passed.
    pub advice: Option<String>,
    /// Something worth knowing that is no failure.
    pub note: Option<String>,
    /// What it does to numbers: `flag …` or `withhold …`.
    pub caps: Vec<String>,
}

/// States of requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CountsDoc {
    /// Every request that the plan wanted.
    pub offered: u64,
    /// Ended well.
    pub ok: u64,
    /// Ended badly.
    pub failed: u64,
    /// Cut by a limit.
    pub timed_out: u64,
    /// Cut at the end.
    pub cancelled: u64,
    /// Never sent.
    pub shed: u64,
    /// Failures by class.
    pub failed_by_class: BTreeMap<FailureClass, u64>,
    /// Time-outs by limit.
    pub timed_out_by_kind: BTreeMap<TimeoutKind, u64>,
    /// The first message of each class.
    pub first_failure: BTreeMap<FailureClass, String>,
    /// Finish reasons of completed requests.
    pub finish: BTreeMap<String, u64>,
    /// Sent again because an idle connection was dead.
    pub stale_connections: u64,
    /// Attempts beyond the first.
    pub retries: u64,
}

/// The window of measurement.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WindowDoc {
    /// First intended send to last output.
    pub duration_ns: u64,
    /// Longest span at the plateau without a trend; `null`: none was found.
    pub steady: Option<Steady>,
    /// Since the run's origin.
    pub from_ns: u64,
    /// Since the run's origin.
    pub to_ns: u64,
    /// Span in which requests were intended.
    pub planned_span_ns: u64,
}

/// The steady window, since the run's origin.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Steady {
    /// Start.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Requests that ended well inside it, per second.
    pub requests_per_s: Num,
    /// Output tokens that arrived inside it, per second.
    pub output_tokens_per_s: Num,
    /// Time-weighted mean of requests in flight.
    pub in_flight: Num,
}

/// A value with its 95 % interval; an open side is `null`. A value that is only known to exceed a
/// bound is `null` with the bound in `low`, one that is only known to stay below with it in `high`.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Bounded {
    /// The value.
    pub value: Option<Num>,
    /// Lower end.
    pub low: Option<Num>,
    /// Upper end.
    pub high: Option<Num>,
}

/// Why there is no number: how many requests have none, or words.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Reason {
    /// Requests without a value.
    Count(u64),
    /// Why the figure of this name is `null`.
    Words(String),
}

/// A metric's name, ordered as in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricKey(usize, Metric);

impl MetricKey {
    /// Metrics of `first` come first, in their order.
    pub fn of(metric: Metric, first: &[Metric]) -> Self {
        Self(first.iter().position(|m| *m == metric).unwrap_or(first.len()), metric)
    }
}
impl Serialize for MetricKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.1.name())
    }
}
impl JsonSchema for MetricKey {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MetricKey".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// One metric over the measured requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MetricDoc {
    /// Unit of every value.
    pub unit: Unit,
    /// Where the latency starts; `null` for metrics without a start.
    pub view: Option<View>,
    /// Percentile rule.
    pub estimator: PercentileRule,
    /// Values of completed requests; pooled metrics: of their gaps or tokens.
    pub n: u64,
    /// Mean over completed requests.
    pub mean: Option<Bounded>,
    /// Sample standard deviation.
    pub stddev: Option<Num>,
    /// Smallest.
    pub min: Option<Num>,
    /// Largest.
    pub max: Option<Num>,
    /// Median over offered requests.
    pub p50: Option<Bounded>,
    /// 90th percentile over offered requests.
    pub p90: Option<Bounded>,
    /// 95th percentile over offered requests.
    pub p95: Option<Bounded>,
    /// 99th percentile over offered requests.
    pub p99: Option<Bounded>,
    /// 99.9th percentile over offered requests.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<Bounded>,
    /// Requests without a value by reason, and the reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
    /// Percentiles over completed requests only.
    pub completed: CompletedDoc,
    /// Integrated autocorrelation time: n / tau requests count as independent.
    pub tau: Num,
    /// Marks of failed checks.
    pub flags: Vec<String>,
    /// Percentiles that are near the instrument's own error; `null`: none is, or the error is unknown.
    pub note: Option<String>,
}

/// Percentiles over completed requests only.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CompletedDoc {
    /// Median.
    pub p50: Option<Bounded>,
    /// 90th percentile.
    pub p90: Option<Bounded>,
    /// 95th percentile.
    pub p95: Option<Bounded>,
    /// 99th percentile.
    pub p99: Option<Bounded>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<Bounded>,
    /// The reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
}

/// Rates and levels.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThroughputDoc {
    /// Completed requests / duration.
    pub requests_per_s: Option<Num>,
    /// Output tokens / duration.
    pub output_tokens_per_s: Option<Num>,
    /// Input tokens / duration.
    pub input_tokens_per_s: Option<Num>,
    /// Planned sends / planned span.
    pub offered_per_s: Option<Num>,
    /// Actual sends / planned span.
    pub sent_per_s: Option<Num>,
    /// Time-weighted mean.
    pub in_flight_mean: Option<Num>,
    /// True peak.
    pub in_flight_peak: u64,
    /// Coefficient of variation of the gaps between sends.
    pub gap_cv: Option<Num>,
    /// Mean wait at a cap.
    pub cap_wait_mean_ns: Option<Num>,
    /// Share of requests that waited at a cap.
    pub capped_share: Num,
    /// Marks of failed checks.
    pub flags: Vec<String>,
    /// The reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
}

/// The limits.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SloDoc {
    /// Limits on each request, all at once; `null`: none asked.
    pub joint: Option<JointDoc>,
    /// Limits on statistics.
    pub marginal: Vec<MarginalDoc>,
    /// Limits on several metrics, each alone and all at once; `null`: fewer, or withheld.
    pub together: Option<crate::together::Together>,
}

/// The joint limits.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct JointDoc {
    /// As written.
    pub limits: Vec<String>,
    /// Good requests; `null` when withheld.
    pub good: Option<u64>,
    /// Offered requests.
    pub offered: u64,
    /// good / offered; all `null` when withheld. A share that is only known to lie below a bound has
    /// the bound in `high`.
    pub attainment: Bounded,
    /// good / duration; `null` when withheld.
    pub goodput_per_s: Option<Num>,
    /// Between which the joint share lies, given the margins alone; `null` when withheld.
    pub bounds: Option<[Num; 2]>,
    /// The share demanded.
    pub target: Num,
    /// `null`: undecided.
    pub met: Option<bool>,
    /// Share of requests within each limit alone; `null` when withheld.
    pub alone: Option<Vec<Alone>>,
    /// Why it is undecided, or what a check took away.
    pub reason: Option<String>,
}

/// A margin.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Alone {
    /// The limit.
    pub limit: String,
    /// Share of offered requests within it.
    pub share: Num,
}

/// One limit on a statistic.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MarginalDoc {
    /// As written.
    pub limit: String,
    /// The value of a time; `null` for other units and where there is no value. A value that is only
    /// known to lie beyond a bound is `null` with the bound in `low` or `high`.
    pub value_ns: Option<Num>,
    /// The value in `unit`.
    pub value: Option<Num>,
    /// Lower end of the 95 % interval.
    pub low: Option<Num>,
    /// Upper end of the 95 % interval.
    pub high: Option<Num>,
    /// Unit of the values.
    pub unit: String,
    /// `null`: undecided.
    pub met: Option<bool>,
    /// Why undecided, why there is no value, or on what it was decided.
    pub reason: Option<String>,
}

/// Token accounting.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TokensDoc {
    /// Output of completed requests.
    pub output: u64,
    /// Input of completed requests.
    pub input: u64,
    /// Mean output length.
    pub output_mean: Option<Num>,
    /// Mean input length.
    pub input_mean: Option<Num>,
    /// Who counted output, by requests.
    pub output_source: BTreeMap<TokenSource, u64>,
    /// Who counted the tokens of chunks, by requests.
    pub chunk_source: BTreeMap<TokenSource, u64>,
    /// Output of requests that did not end well.
    pub output_of_failed: u64,
    /// Mean tokens per chunk.
    pub per_chunk: Option<Num>,
    /// Requests with a forced length.
    pub forced: u64,
    /// Of these, delivered differently.
    pub forced_missed: u64,
    /// Usage / our own count − 1.
    pub usage_vs_retokenised: Option<Num>,
    /// Input tokens from the server's cache, where it reports them.
    pub cached: Option<u64>,
    /// Mean TTFT of the first request and the warm-up.
    pub cold_ttft_ns: Option<Num>,
    /// The reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
}

/// Connections that carried requests, warm-up included.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConnectionsDoc {
    /// How many.
    pub opened: u64,
    /// Of these, opened ahead of the first request.
    pub ahead: u64,
    /// Requests on a connection that had carried another before.
    pub reused: u64,
    /// Requests that went out again because an idle connection was dead.
    pub stale: u64,
    /// Until a connection could be used, TLS apart; `null`: none was opened.
    pub connect: Option<Spread>,
    /// TLS handshakes; `null`: there was none.
    pub tls: Option<Spread>,
}

/// What one of several targets did with its share of the measured requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TargetDoc {
    /// The target.
    pub target: String,
    /// States of its requests; they add up to `offered`.
    pub requests: CountsDoc,
    /// Output tokens of those that ended well.
    pub output_tokens: u64,
}

/// What the instrument did in this run. Processor times are of its lanes, everything included.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InstrumentDoc {
    /// How late measured requests left, without handshakes and without the wait at a cap.
    pub send_lag: Option<Spread>,
    /// Median delay between the kernel's receive stamp and the program, nanoseconds.
    pub client_lag_p50: Option<Bounded>,
    /// Its 99th percentile.
    pub client_lag_p99: Option<Bounded>,
    /// For each request sent.
    pub cpu_per_request_ns: Option<Num>,
    /// For each streamed event with output.
    pub cpu_per_event_ns: Option<Num>,
    /// The busiest lane in the busiest second, as a share of its core.
    pub busiest_lane: Option<Num>,
    /// The error that every value has; `null`: unknown.
    pub floor: Option<FloorDoc>,
    /// Which self-check says so, or why none does.
    pub floor_source: String,
    /// The reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
}

/// The instrument's own error.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FloorDoc {
    /// Of a latency that has a start.
    pub latency_ns: u64,
    /// Of a time between two events.
    pub gap_ns: u64,
}

/// Little's law.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LittleDoc {
    /// Mean in flight.
    pub in_flight: Num,
    /// Completion rate × mean e2e.
    pub lambda_w: Num,
    /// What the edges of the window explain.
    pub tolerance: Num,
}
