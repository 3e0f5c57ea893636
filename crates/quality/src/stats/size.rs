//! How many questions an answer needs. Normal approximations throughout.

use measure::special::{normal_cdf, normal_quantile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Paired;

/// Mean and variance of x = new − τ × base on one question with right and wrong answers: `base` and `new`
/// are the chances to be right, `discordance` that the two differ. `None`: no such pair exists.
fn moments(base: f64, new: f64, discordance: f64, tau: f64) -> Option<(f64, f64)> {
    let (lost, gained) = (0.5 * (discordance + base - new), 0.5 * (discordance - base + new));
    let (both, neither) = (base - lost, 1.0 - base - gained);
    // Decimals are not binary: a cell that is 0 by its decimals is 0.
    if [lost, gained, both, neither].into_iter().any(|cell| cell.is_nan() || cell < -1e-12) {
        return None;
    }
    let mean = new - tau * base;
    let square = both * (1.0 - tau).powi(2) + lost * tau * tau + gained;
    Some((mean, square - mean * mean))
}

/// The smallest n with `variance / n` small enough that a mean of this size is told from 0 with `power`.
fn needed(mean: f64, variance: f64, alpha: f64, power: f64) -> Option<u64> {
    let z = normal_quantile(1.0 - alpha) + normal_quantile(power);
    let n = (z / mean).powi(2) * variance;
    (n.is_finite() && n < 1e15).then(|| (n.ceil() as u64).max(1))
}

/// Questions that certify an equal server (same accuracy `base`, answers that differ on `discordance` of
/// the questions) as no worse than τ × baseline, at level `alpha` with chance `power`. `None`: no such pair
/// exists, or no number does.
pub fn needed_paired(base: f64, discordance: f64, tau: f64, alpha: f64, power: f64) -> Option<u64> {
    let (mean, variance) = moments(base, base, discordance, tau)?;
    needed(mean, variance, alpha, power)
}

/// The same where the baseline answered other questions: on each side.
pub fn needed_unpaired(base: f64, tau: f64, alpha: f64, power: f64) -> Option<u64> {
    needed((1.0 - tau) * base, base * (1.0 - base) * (1.0 + tau * tau), alpha, power)
}

/// What would decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Needed {
    /// Questions in all.
    pub questions: u64,
    /// Whether it would be a PASS.
    pub pass: bool,
}

/// Questions that would decide with chance `power` if the truth were what was seen; `None`: what was seen
/// lies on the limit, or nothing was.
pub fn needed_as_observed(paired: &Paired, tau: f64, alpha: f64, power: f64) -> Option<Needed> {
    let mean = paired.excess(tau);
    let variance = paired.squares(tau) / (paired.n as f64 - 1.0).max(1.0);
    let questions = needed(mean, variance, alpha, power)?;
    Some(Needed { questions, pass: mean > 0.0 })
}

/// Questions that show an equal server to be equal, with as many flips as were seen and one more: those
/// that may be, and were not seen. `None`: the baseline scores nothing.
pub fn needed_if_equal(paired: &Paired, tau: f64, alpha: f64, power: f64) -> Option<u64> {
    let n = paired.n as f64;
    if paired.cells.is_none() {
        let variance = paired.squares(tau) / (n - 1.0).max(1.0);
        return needed((1.0 - tau) * paired.base, variance, alpha, power);
    }
    let most = 2.0 * paired.base.min(1.0 - paired.base);
    needed_paired(paired.base, (paired.discordance() + 1.0 / n).min(most), tau, alpha, power)
}

/// The chance that `n` questions give new ≥ τ × base, the bare comparison of two accuracies, where the
/// truth is `base` and `ratio × base`. `None`: no such pair exists.
pub fn bare_ratio_passes(base: f64, discordance: f64, ratio: f64, tau: f64, n: u64) -> Option<f64> {
    let (mean, variance) = moments(base, ratio * base, discordance, tau)?;
    if variance <= 0.0 {
        return Some(if mean >= 0.0 { 1.0 } else { 0.0 });
    }
    Some(normal_cdf(mean / (variance / n as f64).sqrt()))
}
