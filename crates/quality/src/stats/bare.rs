//! The bare ratio: two accuracies compared without any interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Paired, bare_ratio_passes};

/// The gate of InferenceBench: new ≥ τ × baseline, as it stands. Near τ it is a coin toss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BareRatio {
    /// New over baseline; `null`: the baseline scores nothing.
    pub ratio: Option<f64>,
    /// Whether it passes.
    pub passes: bool,
    /// The chance that a server of equal quality fails on as many questions with as many flips; `null`:
    /// not defined for these scores.
    pub fails_equal: Option<f64>,
    /// The chance that a server passes which keeps only `2τ − 1` of the quality (0.90 at τ = 0.95).
    pub passes_worse: Option<f64>,
}

impl BareRatio {
    /// Of these pairs.
    pub fn of(paired: &Paired, tau: f64) -> Self {
        let discordance = paired.discordance();
        let chance = |ratio: f64| {
            paired.cells?;
            bare_ratio_passes(paired.base, discordance, ratio, tau, paired.n)
        };
        Self {
            ratio: paired.ratio(),
            // Means are rounded: equality passes.
            passes: paired.excess(tau) >= -1e-12,
            fails_equal: chance(1.0).map(|p| 1.0 - p),
            passes_worse: chance(2.0 * tau - 1.0),
        }
    }
}
