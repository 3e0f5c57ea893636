//! The answer of a search as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runner::Kind;

/// What became of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The bracket is as narrow as asked, and the checks below and above agree with it.
    Resolved,
    /// The bracket is wider than asked; `needs` says what it would take.
    Unresolved,
    /// The limits are broken at every load, however low.
    Unmet,
    /// The limits hold up to the largest load that may be tried: `low` is a lower bound.
    NotReached,
    /// The limits hold above loads at which they are broken, twice each.
    Unstable,
    /// The client could not send what was needed: `low` is a lower bound.
    ClientLimited,
}

impl Verdict {
    /// Only a lower bound is known: of the crossing nothing was seen.
    pub fn is_lower_bound(self) -> bool {
        matches!(self, Verdict::NotReached | Verdict::ClientLimited)
    }
    /// Of the process that found it: 0 an answer, 1 the limits are broken, 3 the client was the limit,
    /// 5 the probes do not decide.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Resolved | Verdict::NotReached => 0,
            Verdict::Unmet => 1,
            Verdict::ClientLimited => 3,
            Verdict::Unresolved | Verdict::Unstable => 5,
        }
    }
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ProbeVerdict {
    /// Every limit holds here.
    Pass,
    /// A limit is broken here.
    Fail,
    /// The queue grew without end.
    Divergent,
    /// Too close to call, which is information: it is kept in the fit.
    Undecided,
    /// The client did not do what was asked of it: says nothing of the server.
    ClientLimited {
        /// What held it back.
        why: String,
    },
}

impl ProbeVerdict {
    /// A limit is broken.
    pub fn failed(&self) -> bool {
        matches!(self, ProbeVerdict::Fail | ProbeVerdict::Divergent)
    }
}

/// A latency in a probe, over requests that ended well.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Median, ns.
    pub p50_ns: f64,
    /// 95th percentile, ns.
    pub p95_ns: f64,
    /// 99th percentile, ns.
    pub p99_ns: f64,
}

/// What was seen in a probe beside its verdict, without its transient.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Requests that count.
    pub requests: u64,
    /// All that were intended.
    pub intended: u64,
    /// Of those that count, ended badly or not in time.
    pub failed: u64,
    /// How long the probe took, ns.
    pub duration_ns: u64,
    /// Requests that ended well per second.
    pub requests_per_s: Option<f64>,
    /// Of these, within every limit.
    pub goodput_per_s: Option<f64>,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Mean requests in flight.
    pub in_flight: Option<f64>,
    /// Time to first token.
    pub ttft: Option<Latency>,
    /// Time per output token after the first.
    pub tpot: Option<Latency>,
    /// End-to-end latency.
    pub e2e: Option<Latency>,
}

/// One limit in one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitAtProbe {
    /// The limit.
    pub limit: String,
    /// Share of requests that miss it; of a limit on a mean, the mean over the limit.
    pub value: Option<f64>,
    /// The same, corrected for the luck of the timetable, as it enters the fit.
    pub corrected: Option<f64>,
    /// 95 % interval of the corrected value.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Independent requests that the probe is worth.
    pub n_eff: Option<f64>,
}

/// A probe of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Position in the search, from 0.
    pub number: u32,
    /// What it was for.
    pub kind: Kind,
    /// Requests per second, or users.
    pub load: f64,
    /// What became of it.
    pub verdict: ProbeVerdict,
    /// It was made for another tier.
    pub borrowed: bool,
    /// What was seen.
    pub measured: Measured,
    /// Each limit.
    pub limits: Vec<LimitAtProbe>,
    /// The bracket after this probe; `null` where it does not enter the fit, or only a lower bound is known.
    pub bracket: Option<(f64, f64)>,
}

/// The fit of one limit, for drawing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The limit.
    pub limit: String,
    /// Share of misses at which it is just held; `null` for a limit on a mean.
    pub target: Option<f64>,
    /// Crossing: median of the posterior.
    pub crossing: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Slope: log-odds of a miss (of a mean: its logarithm) per unit of ln(load).
    pub slope: f64,
    /// Noise between runs in the same unit.
    pub run_noise: f64,
    /// (load, share of misses or mean over limit) along the fitted curve.
    pub points: Vec<(f64, f64)>,
    /// Chance that this limit is the one that is crossed first.
    pub binds: f64,
}

/// A stage of the ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Users in closed loop.
    pub users: u32,
    /// Requests that ended well per second.
    pub requests_per_s: f64,
    /// Median time to first token, ns.
    pub ttft_ns: Option<f64>,
    /// Median time per output token, ns.
    pub tpot_ns: Option<f64>,
    /// Median end-to-end latency, ns.
    pub e2e_ns: Option<f64>,
    /// Share of requests within each limit, in the order of the limits.
    pub attained: Vec<f64>,
}

/// What a resolved answer would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Needs {
    /// About so many requests in all.
    Requests {
        /// How many.
        requests: u64,
    },
    /// About so many repeated probes, because the server differs from run to run.
    Repeats {
        /// How many.
        repeats: u64,
    },
}

/// How much the server holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityAnswer {
    /// `rate`, `concurrency` or `users`.
    pub over: String,
    /// The crossing; `null` where none was found.
    pub value: Option<f64>,
    /// Lower end of the bracket.
    pub low: Option<f64>,
    /// Upper end; `null` where only a lower bound is known.
    pub high: Option<f64>,
    /// How often such a bracket holds the truth.
    pub confidence: f64,
    /// What became of the search.
    pub verdict: Verdict,
    /// The limit that is crossed first.
    pub limited_by: Option<String>,
    /// Good requests per second at the value.
    pub goodput_per_s: Option<f64>,
    /// The value in one sentence.
    pub sentence: String,
    /// What a resolved answer would take.
    pub needs: Option<Needs>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Requests of the whole search.
    pub requests: u64,
    /// Time of the whole search, ns.
    pub duration_ns: u64,
    /// Unloaded time to first token, ns.
    pub unloaded_ttft_ns: Option<f64>,
    /// The closed-loop ramp.
    pub ramp: Vec<StageReport>,
    /// Each limit's own crossing; none where only a lower bound is known.
    pub curves: Vec<Curve>,
    /// Every probe of the search, in order.
    pub probes: Vec<ProbeReport>,
}

impl CapacityAnswer {
    /// Width of the bracket as a share of its middle.
    pub fn width(&self) -> Option<f64> {
        let (low, high) = (self.low?, self.high?);
        Some(2.0 * (high - low) / (high + low)).filter(|w| w.is_finite())
    }
}
