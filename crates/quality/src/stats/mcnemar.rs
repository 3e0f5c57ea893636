//! McNemar's test (1947), exact: did more questions get worse than better?

use measure::special::binomial_cdf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// P-values of the flips between a baseline and a new server. Not significant is no proof of equality.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct McNemar {
    /// Questions that got worse.
    pub lost: u64,
    /// Questions that got better.
    pub gained: u64,
    /// P[Bin(lost + gained, ½) ≥ lost]: one-sided, exact. 1 without flips.
    pub exact: f64,
    /// The same with half the weight of the observed split: less conservative. 1 without flips.
    pub mid_p: f64,
    /// Two-sided, exact.
    pub two_sided: f64,
    /// χ² with a continuity correction of 1, for comparison with other tools; `null` without flips.
    pub chi2: Option<f64>,
}

/// Of this many questions that got worse and better.
pub fn mcnemar(lost: u64, gained: u64) -> McNemar {
    let flips = lost.saturating_add(gained);
    if flips == 0 {
        return McNemar { lost, gained, exact: 1.0, mid_p: 1.0, two_sided: 1.0, chi2: None };
    }
    // By symmetry P[B ≥ lost] = P[B ≤ gained]; the lower tail keeps its digits where it is small.
    let at_most = |k: u64| binomial_cdf(k, flips, 0.5);
    let exact = at_most(gained);
    let fewer = if gained == 0 { 0.0 } else { at_most(gained - 1) };
    let apart = lost.abs_diff(gained) as f64 - 1.0;
    McNemar {
        lost,
        gained,
        exact,
        mid_p: 0.5 * (exact + fewer),
        two_sided: (2.0 * at_most(lost.min(gained))).min(1.0),
        chi2: Some(apart * apart / flips as f64),
    }
}
