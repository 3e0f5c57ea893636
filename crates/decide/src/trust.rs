//! The verdict on the measurement itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::Metric;

/// May the numbers be believed?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    /// The verdict.
    pub verdict: TrustVerdict,
    /// Every check, failed first, then unknown, then passed.
    pub checks: Vec<Check>,
}

/// The verdict on the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustVerdict {
    /// Every number may be believed.
    Valid,
    /// Some numbers are capped; the checks say which and why.
    Limited,
    /// Nothing may be concluded.
    Invalid,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name.
    pub id: CheckId,
    /// Passed, failed or unknown.
    pub state: CheckState,
    /// What was found, in words with units.
    pub figure: String,
    /// What is allowed, in words with units.
    pub limit: String,
    /// What to do about it; absent when passed.
    pub advice: Option<String>,
    /// Something worth knowing that is no failure.
    pub note: Option<String>,
    /// What a failure caps.
    pub caps: Vec<Cap>,
}

/// State of a check. Unknown is never passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Within its limit.
    Pass,
    /// Beyond its limit.
    Fail,
    /// No data, or too little to decide.
    Unknown,
}

/// What a failed check does to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// Keep the value, mark it.
    Flag(Capped),
    /// Replace the value by the reason.
    Withhold(Capped),
}

/// What is capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capped {
    /// One metric.
    Metric(Metric),
    /// Every latency.
    Latencies,
    /// Throughputs and goodput.
    Throughput,
    /// Attainment, goodput and every SLO verdict.
    Slo,
    /// Everything.
    Everything,
}

/// The checks, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckId {
    /// Requests left on time.
    SendLag,
    /// No sending thread stood still.
    LaneStall,
    /// The program saw bytes soon after the kernel.
    ClientLag,
    /// The machine had CPU to spare.
    Machine,
    /// Lanes were not the bottleneck.
    LaneBusy,
    /// Output events came in reads of their own.
    Coalesced,
    /// Arrivals as planned.
    Arrivals,
    /// In flight as planned.
    InFlight,
    /// The books balance.
    Bookkeeping,
    /// The queue did not grow during the whole run.
    Overload,
    /// Speed did not change during the run.
    Steady,
    /// All streams paused together.
    Stalls,
    /// Samples enough for each percentile.
    Samples,
    /// Few failures.
    Failures,
    /// Few censored requests.
    Censored,
    /// Output lengths delivered against asked.
    OutLength,
    /// Input lengths against the server's count.
    InLength,
    /// Token counts of two sources agree.
    TokenCount,
    /// Prompts were unique as declared.
    Unique,
    /// Cache hits as declared.
    Cache,
    /// The stream was not held back and sent in one piece.
    Buffered,
    /// Chunks are deltas.
    Cumulative,
    /// Answers do not contain their prompts.
    Echo,
    /// Nobody else used the endpoint.
    Foreign,
    /// The wall clock did not step.
    Clock,
}
