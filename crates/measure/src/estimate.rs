//! The only currency downstream: an estimate with its interval, or the reason why there is none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{PercentileRule, View};

/// Why a number does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Undefined {
    /// No output came.
    NoOutput,
    /// The answer was not streamed.
    NotStreamed,
    /// At most one output token.
    SingleToken,
    /// Fewer than two chunks.
    SingleChunk,
    /// Only thinking came.
    ReasoningOnly,
    /// All tokens came in the first chunk.
    AllInFirstChunk,
    /// No kernel receive stamp.
    NoKernelStamp,
    /// It was never sent.
    NotSent,
    /// No token count from any source.
    NoTokenCount,
    /// No request completed.
    NoneCompleted,
    /// Too few samples: `n` of `needed`.
    TooFewSamples {
        /// Present.
        n: u64,
        /// Needed.
        needed: u64,
    },
    /// A trust check caps it.
    Withheld,
    /// No time passed between the first and the last event, so there is no rate.
    NoSpan,
    /// The thing measured does not exist in this run (no cap was set, nothing to compare).
    NotApplicable,
}

impl Undefined {
    /// The name used as a key in the machine output.
    pub fn name(self) -> &'static str {
        match self {
            Undefined::NoOutput => "no_output",
            Undefined::NotStreamed => "not_streamed",
            Undefined::SingleToken => "single_token",
            Undefined::SingleChunk => "single_chunk",
            Undefined::ReasoningOnly => "reasoning_only",
            Undefined::AllInFirstChunk => "all_in_first_chunk",
            Undefined::NoKernelStamp => "no_kernel_stamp",
            Undefined::NotSent => "not_sent",
            Undefined::NoTokenCount => "no_token_count",
            Undefined::NoneCompleted => "none_completed",
            Undefined::TooFewSamples { .. } => "too_few_samples",
            Undefined::Withheld => "withheld",
            Undefined::NoSpan => "no_span",
            Undefined::NotApplicable => "not_applicable",
        }
    }
}

/// A value, or the reason why there is none.
pub type Defined<T> = Result<T, Undefined>;

/// A 95 % interval; an open side is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// A number with its uncertainty. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Samples.
    pub n: u64,
    /// Effective independent samples (n for independent draws).
    pub n_eff: f64,
    /// How it was computed.
    pub method: Method,
}

/// How an estimate was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A percentile with an order-statistic interval.
    Percentile(PercentileRule),
    /// A mean with a t interval on the effective sample size.
    Mean,
    /// A share with a Wilson interval.
    Wilson,
    /// A count or a ratio known exactly.
    Exact,
}

/// A percentile as reported: over offered requests, where censored and failed ones count as larger
/// than any finite value (definitions §3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Known.
    Known(Estimate),
    /// It lies among the censored: larger than this.
    Exceeds(f64),
    /// Not defined, and why.
    Undefined(Undefined),
}

impl Figure {
    /// The known value.
    pub fn value(&self) -> Option<f64> {
        match self {
            Figure::Known(e) => Some(e.value),
            _ => None,
        }
    }
}

/// Unit of a metric in the machine output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Tokens per second.
    #[serde(rename = "tokens/s")]
    TokensPerSecond,
}

/// The percentiles that are always reported, as shares.
pub const PERCENTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// One metric over the measured requests.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSummary {
    /// Unit of every value below.
    pub unit: Unit,
    /// Where the latency starts; `None` for metrics without a start (gaps, speeds).
    pub view: Option<View>,
    /// Percentile rule.
    pub estimator: PercentileRule,
    /// Values of completed requests (pooled metrics: gaps or tokens).
    pub n: u64,
    /// Mean over completed requests.
    pub mean: Figure,
    /// Sample standard deviation (n − 1) over completed requests.
    pub stddev: Defined<f64>,
    /// Smallest.
    pub min: Defined<f64>,
    /// Largest.
    pub max: Defined<f64>,
    /// Percentiles over offered requests, by share, ascending: [`PERCENTILES`].
    pub percentiles: Vec<(f64, Figure)>,
    /// Percentiles over completed requests only.
    pub completed: Vec<(f64, Figure)>,
    /// How many completed requests have no value, by reason.
    pub undefined: BTreeMap<Undefined, u64>,
    /// Integrated autocorrelation time τ of the series; n_eff = n/τ.
    pub tau: f64,
}

impl MetricSummary {
    /// The percentile at this share, over offered requests.
    pub fn percentile(&self, share: f64) -> Option<&Figure> {
        self.percentiles.iter().find(|(p, _)| (p - share).abs() < 1e-9).map(|(_, f)| f)
    }
}

/// `0.5` → `p50`, `0.999` → `p99.9`.
pub fn percentile_name(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}
