//! What is asked of a comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a task is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// By the bounds of the ratio: PASS, FAIL or INCONCLUSIVE.
    #[default]
    NonInferiority,
    /// InferenceBench's gate: new ≥ ratio × baseline as it stands, without an interval.
    BareRatio,
}

/// Which filter and metric a task is judged by. What is not named may be any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Of this task alone; `null`: of every task.
    pub task: Option<String>,
    /// By this filter; `null`: the first that has scores, by name.
    pub filter: Option<String>,
    /// By this metric; `null`: the first that can be judged, by name.
    pub metric: Option<String>,
}

/// What is asked of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Share of the baseline's score that has to be kept, in (0, 1).
    pub ratio: f64,
    /// Chance of a false PASS, and of a false FAIL by scores, and of one by breakage; in (0, 0.5).
    pub alpha: f64,
    /// Chance to decide that sample sizes are told for, in (0.5, 1).
    pub power: f64,
    /// How a task is decided.
    pub rule: Rule,
    /// Samples of the bootstrap; 0: none.
    pub resamples: u32,
    /// Its seed.
    pub seed: u64,
    /// A share of broken answers that rises by less than this fails nothing, in [0, 1).
    pub breakage_margin: f64,
    /// Largest mean divergence in nats a token; `null`: it is told, not judged.
    pub kl_limit: Option<f64>,
    /// The new journal is a part of the baseline's on purpose: what it misses does not count as lost.
    pub only_paired: bool,
    /// By what tasks are judged; the first that fits a task counts.
    pub judge: Vec<Choice>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ratio: 0.95,
            alpha: 0.05,
            power: 0.8,
            rule: Rule::NonInferiority,
            resamples: 10_000,
            seed: 1,
            breakage_margin: 0.02,
            kl_limit: None,
            only_paired: false,
            judge: Vec::new(),
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} is {value}; it has to lie {range}")]
pub struct SettingsError {
    /// Which.
    pub name: &'static str,
    /// What was given.
    pub value: f64,
    /// What is allowed.
    pub range: &'static str,
}

impl Settings {
    /// Whether every number lies where it can.
    pub fn check(&self) -> Result<(), SettingsError> {
        let inside = |value: f64, low: f64, high: f64| value > low && value < high;
        let error = |name, value, range| Err(SettingsError { name, value, range });
        if !inside(self.ratio, 0.0, 1.0) {
            return error(
                "the share of the baseline's score to keep",
                self.ratio,
                "between 0 and 1, both excluded (0.95: at least 95 %; all of it can never be shown)",
            );
        }
        if !inside(self.alpha, 0.0, 0.5) {
            return error(
                "alpha",
                self.alpha,
                "between 0 and 0.5, both excluded (0.05: one error in twenty)",
            );
        }
        if !inside(self.power, 0.5, 1.0) {
            return error("power", self.power, "between 0.5 and 1, both excluded");
        }
        if !(0.0..1.0).contains(&self.breakage_margin) {
            return error("the margin of breakage", self.breakage_margin, "from 0 to below 1");
        }
        match self.kl_limit {
            Some(limit) if !(limit > 0.0 && limit.is_finite()) => {
                error("the limit of the divergence", limit, "above 0 nats")
            }
            _ => Ok(()),
        }
    }
}
