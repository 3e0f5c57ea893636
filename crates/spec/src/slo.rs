//! Limits: joint ones on each request, marginal ones on a percentile (definitions §6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits that the answer is judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Every one must hold for a request to be good.
    pub joint: Vec<JointLimit>,
    /// Each is judged on its own.
    pub marginal: Vec<MarginalLimit>,
    /// Share of offered requests that must be good.
    pub attain: f64,
}

impl Default for Slo {
    fn default() -> Self {
        Self { joint: Vec::new(), marginal: Vec::new(), attain: 0.95 }
    }
}

/// `ttft<=500ms`: a limit on each request.
#[derive(Debug, Clone, PartialEq)]
pub struct JointLimit {
    /// The metric, one per request.
    pub metric: Metric,
    /// `<` or `<=`, meant as written.
    pub op: Op,
    /// In nanoseconds for times, as is for rates.
    pub value: f64,
    /// The text as written, without spaces and with the metric's own name.
    pub text: String,
}

/// `p99(tpot)<=50ms`, `error_rate<=1%`: a limit on a statistic of all requests.
#[derive(Debug, Clone, PartialEq)]
pub struct MarginalLimit {
    /// Which statistic.
    pub statistic: Statistic,
    /// Of which metric.
    pub metric: Metric,
    /// `<`, `<=`, `>` or `>=`, meant as written.
    pub op: Op,
    /// In nanoseconds for times, as a share for rates of error, as is for the rest.
    pub value: f64,
    /// The text as written, without spaces and with the metric's own name.
    pub text: String,
}

/// A statistic over requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// A percentile as a share in (0, 1).
    Percentile(f64),
    /// The arithmetic mean.
    Mean,
    /// The largest.
    Max,
    /// The metric itself is one number of the run (`error_rate`, throughputs).
    Whole,
}

/// A comparison, meant as written, on raw nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Op {
    /// `<`
    #[serde(rename = "<")]
    Less,
    /// `<=`
    #[serde(rename = "<=")]
    LessEq,
    /// `>`
    #[serde(rename = ">")]
    Greater,
    /// `>=`
    #[serde(rename = ">=")]
    GreaterEq,
}

impl Op {
    /// Whether `value op limit` holds.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Op::Less => value < limit,
            Op::LessEq => value <= limit,
            Op::Greater => value > limit,
            Op::GreaterEq => value >= limit,
        }
    }
    /// As written.
    pub fn sign(self) -> &'static str {
        match self {
            Op::Less => "<",
            Op::LessEq => "<=",
            Op::Greater => ">",
            Op::GreaterEq => ">=",
        }
    }
}

/// Every metric that has a definition (definitions §2, §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token of any kind.
    Ttft,
    /// Time to first answer token.
    Ttfat,
    /// End-to-end latency, to the last output.
    E2e,
    /// Time per output token after the first.
    Tpot,
    /// Inter-token latency, pooled over tokens.
    Itl,
    /// Inter-chunk latency, pooled over chunks.
    Icl,
    /// Time per token of the chunks after the first.
    DecodeTpot,
    /// Largest gap between chunks of a request.
    MaxGap,
    /// Output speed of one user, tokens per second.
    UserTps,
    /// Write begin after the intended send.
    ScheduleLag,
    /// Program after kernel, per read.
    ClientLag,
    /// Share of offered requests that did not end well.
    ErrorRate,
    /// Completed requests per second.
    RequestThroughput,
    /// Output tokens per second.
    OutputTokenThroughput,
}

impl Metric {
    /// The name used in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Ttfat => "ttfat",
            Metric::E2e => "e2e",
            Metric::Tpot => "tpot",
            Metric::Itl => "itl",
            Metric::Icl => "icl",
            Metric::DecodeTpot => "decode_tpot",
            Metric::MaxGap => "max_gap",
            Metric::UserTps => "user_tps",
            Metric::ScheduleLag => "schedule_lag",
            Metric::ClientLag => "client_lag",
            Metric::ErrorRate => "error_rate",
            Metric::RequestThroughput => "request_throughput",
            Metric::OutputTokenThroughput => "output_token_throughput",
        }
    }
    /// All metrics, in the order in which they are shown.
    pub const ALL: [Metric; 14] = [
        Metric::Ttft,
        Metric::Ttfat,
        Metric::Tpot,
        Metric::DecodeTpot,
        Metric::Itl,
        Metric::Icl,
        Metric::MaxGap,
        Metric::E2e,
        Metric::UserTps,
        Metric::ScheduleLag,
        Metric::ClientLag,
        Metric::ErrorRate,
        Metric::RequestThroughput,
        Metric::OutputTokenThroughput,
    ];
}

/// Limits are text in files, exactly as on the command line. The grammar lives in `grammar.rs`.
mod text {
    use super::*;
    use serde::{Deserializer, Serializer};

    macro_rules! as_text {
        ($type:ty, $name:literal, $example:literal) => {
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                    s.serialize_str(&self.text)
                }
            }
            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                    String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
                }
            }
            impl JsonSchema for $type {
                fn schema_name() -> std::borrow::Cow<'static, str> {
                    $name.into()
                }
                fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    schemars::json_schema!({ "type": "string", "description": $example })
                }
            }
        };
    }
    as_text!(JointLimit, "JointLimit", "a limit on each request, for example ttft<=500ms");
    as_text!(MarginalLimit, "MarginalLimit", "a limit on a statistic, for example p99(tpot)<=50ms");
}
