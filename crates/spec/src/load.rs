//! When requests leave: load models, phases and time limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Burstiness, Limit, Nanos, Rate, Span};

/// The load model (definitions §7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Load {
    /// A fixed number of users, each waits for its answer.
    Closed(Closed),
    /// An absolute timetable, whatever the server does.
    Open(Open),
}

/// Closed loop: each user sends, waits for the end, thinks, sends again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// Users; with no think time, requests in flight.
    pub concurrency: u32,
    /// Pause of a user between an answer and the next request.
    pub think: Span,
    /// The users begin one after another, evenly over this span; 0: all at once.
    #[serde(default)]
    pub start_over: Span,
}

impl Closed {
    /// When a user, counted from 0, begins.
    pub fn start_of(&self, user: u32) -> Nanos {
        let whole = u128::from(self.start_over.0.0) * u128::from(user);
        // Below the span, which fits.
        Nanos((whole / u128::from(self.concurrency.max(user + 1))) as u64)
    }
}

/// Open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Mean arrivals per second; `inf`: all at once.
    pub rate: Rate,
    /// Gamma shape of the gaps.
    pub burstiness: Burstiness,
    /// At most this many in flight; waiting at the cap is measured and named.
    pub cap: Option<u32>,
    /// Grow linearly from another rate at the start.
    pub ramp: Option<Ramp>,
}

/// A linear ramp of the rate in time: from `from` at the start to the load's rate after `over`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Rate at the origin, below or above the load's own.
    pub from: Rate,
    /// Time until the load's own rate is reached.
    pub over: Span,
}

/// Warm-up, measurement, drain (definitions §5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// How the warm-up ends. It runs at the target load and hands over without draining.
    pub warmup: Warmup,
    /// How the measurement ends.
    pub measure: Extent,
    /// After the last intended send, how long open requests may go on before they are cut.
    pub drain: Span,
}

/// How the warm-up ends: a rule fixed before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// No warm-up.
    None,
    /// After this many intended requests.
    Requests(u64),
    /// After this long.
    Duration(Span),
}

/// How the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// After this many intended requests.
    Requests(u64),
    /// After this long.
    Duration(Span),
}

/// The phase in which a request was intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before the measurement, reported apart.
    Warmup,
    /// Counted.
    Measure,
}

/// Every time limit of a request: explicit, printed, can be off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Limit,
    /// From the first byte written to the first output.
    pub first_token: Limit,
    /// Without any byte, once the answer has begun.
    pub idle: Limit,
    /// From the first byte written to the end.
    pub total: Limit,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Limit(Some(Nanos::from_secs(10))),
            first_token: Limit(Some(Nanos::from_secs(300))),
            idle: Limit(Some(Nanos::from_secs(60))),
            total: Limit(None),
        }
    }
}
