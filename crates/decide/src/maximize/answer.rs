//! The answer of a maximisation as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Dial, Objective, Turn};

use super::point::Point;
use crate::capacity::Verdict;

/// Why there is no more to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binds {
    /// A limit is broken at larger loads.
    Limit,
    /// Larger loads give less.
    Peak,
    /// Larger loads give at most 2 % more.
    Level,
    /// No larger load was allowed.
    LargestLoad,
    /// This client cannot offer more.
    Client,
}

/// What a setting of the knobs gives at its best load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtSetting {
    /// The knobs beside the load; empty: there are none.
    pub setting: Vec<Turn>,
    /// What became of it.
    pub verdict: Verdict,
    /// Why there is no more; `null`: not known.
    pub binds: Option<Binds>,
    /// The limit, where one binds.
    pub limited_by: Option<String>,
    /// The best load: requests per second, or users; `null`: none holds the limits, or none is known.
    pub load: Option<f64>,
    /// Lower end of its bracket.
    pub low: Option<f64>,
    /// Upper end; `null`: only a lower bound is known.
    pub high: Option<f64>,
    /// The throughput at the best load; `null`: not known.
    pub per_s: Option<f64>,
    /// Lower end of its 95 % interval at that load; `null`: its spread is not known.
    pub per_s_low: Option<f64>,
    /// Upper end.
    pub per_s_high: Option<f64>,
    /// Requests per second within every limit there; `null`: no limits, or not known.
    pub goodput_per_s: Option<f64>,
}

/// Where a knob stands at the best, and which of its values cannot be told from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnobRange {
    /// Which.
    pub dial: Dial,
    /// The best value.
    pub value: u32,
    /// The smallest that may be as good.
    pub low: u32,
    /// The largest.
    pub high: u32,
}

/// A probe of the surface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surveyed {
    /// What was measured.
    pub point: Point,
    /// Log-odds of a miss beyond those that are allowed, of the limit that is broken most; of a limit on
    /// a mean, the logarithm of mean over limit. Negative: the limits hold. `null`: no limits.
    pub excess: Option<f64>,
    /// Chance by the fitted surface that the limits hold here.
    pub holds: Option<f64>,
}

/// The most of a throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Maximum {
    /// What is maximised.
    pub objective: Objective,
    /// Its unit.
    pub unit: String,
    /// What became of it.
    pub verdict: Verdict,
    /// The value in one sentence.
    pub sentence: String,
    /// The best setting at its best load; `null`: there is none.
    pub best: Option<AtSetting>,
    /// Each knob at the best; empty: there are none.
    pub knobs: Vec<KnobRange>,
    /// Every setting whose load was searched, in order.
    pub settings: Vec<AtSetting>,
    /// The throughput at every load that was tried at the best setting.
    pub points: Vec<Point>,
    /// The probes of the surface over several knobs, in order.
    pub survey: Vec<Surveyed>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Requests of all probes.
    pub requests: u64,
    /// Time of all probes together, ns.
    pub duration_ns: u64,
}
