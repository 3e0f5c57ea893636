//! The paired bootstrap: a cross-check without a formula for the variance.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::PercentileRule;
use spec::seed::stream_key;

use super::Bounds;

/// Percentile bounds of a mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bootstrap {
    /// Samples drawn.
    pub resamples: u32,
    /// Strata within which questions are drawn.
    pub strata: u64,
    /// One-sided bounds of the mean of x = new − τ × base.
    pub excess: Bounds,
}

/// Bounds of the mean of all values at level `alpha`: questions are drawn with replacement within their
/// stratum (Efron and Tibshirani 1993), so that the mix of categories stays. `None` without values or
/// resamples.
pub fn bootstrap(strata: &[Vec<f64>], resamples: u32, seed: u64, alpha: f64) -> Option<Bootstrap> {
    let n: usize = strata.iter().map(Vec::len).sum();
    if n == 0 || resamples == 0 {
        return None;
    }
    let mut rng = ChaCha8Rng::from_seed(stream_key(seed, b"inferometer/1/quality/bootstrap"));
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| strata.iter().map(|values| drawn(&mut rng, values)).sum::<f64>() / n as f64)
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let at = |p: f64| measure::percentile(&means, p, PercentileRule::Linear);
    let excess = Bounds { low: at(alpha), high: at(1.0 - alpha) };
    Some(Bootstrap { resamples, strata: strata.iter().filter(|v| !v.is_empty()).count() as u64, excess })
}

/// The sum of as many draws as there are values (multiply and shift; the bias is below n/2³²).
fn drawn(rng: &mut ChaCha8Rng, values: &[f64]) -> f64 {
    let n = values.len() as u64;
    (0..n).filter_map(|_| values.get(((u64::from(rng.next_u32()) * n) >> 32) as usize)).sum()
}
