//! Non-inferiority of a ratio: is the new score at least τ times that of the baseline?
//!
//! The pairs are turned into `x = new − τ × base`; the new server is no worse than τ where the mean of x
//! is above 0. Two one-sided tests at level α decide: PASS where "at most τ" is rejected, FAIL where "at
//! least τ" is rejected, INCONCLUSIVE otherwise.
//!
//! - Scores of 0 and 1: the score test for the ratio of paired proportions (Nam and Blackwelder 2002,
//!   Statistics in Medicine 21:689), whose variance is that under the hypothesis. Wald's variance, that
//!   of the data, is 0 where nothing flipped, and would let three questions prove anything. Where few
//!   flipped, the exact binomial is the more careful and counts.
//! - Other scores in [0, 1]: Student's t on the mean of x, and no answer from fewer questions than a
//!   loss of that size needs to show itself.

use measure::special::{binomial_cdf, normal_cdf, normal_quantile, t_beyond, t_cdf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cells, Paired};

/// What the pairs say of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// No worse than the limit, at the stated level.
    Pass,
    /// Worse than the limit, at the stated level.
    Fail,
    /// The data do not say.
    Inconclusive,
}

/// One-sided bounds; an open side is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The truth lies above with 1 − α.
    pub low: Option<f64>,
    /// The truth lies below with 1 − α.
    pub high: Option<f64>,
}

/// The two tests of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonInferiority {
    /// P-value of "the ratio is at most τ"; small means no worse.
    pub p_pass: f64,
    /// P-value of "the ratio is at least τ"; small means worse.
    pub p_fail: f64,
    /// Bounds of the ratio: those values that are not rejected.
    pub ratio: Bounds,
    /// Without a flip a PASS takes this many questions; `None`: the baseline scores nothing, so no number
    /// gives one.
    pub fewest: Option<u64>,
    /// By `alpha`.
    pub decision: Decision,
}

/// The tests at `tau` in (0, 1) and level `alpha` in (0, ½).
pub fn non_inferiority(paired: &Paired, tau: f64, alpha: f64) -> NonInferiority {
    let p = |theta: f64| match paired.cells {
        Some(cells) => score_p(&cells, theta),
        None => t_p(paired, theta),
    };
    let (mut p_pass, mut p_fail) = p(tau);
    let (mut fewest, floor) = (None, (1.0 - tau) * paired.base);
    if floor > 0.0 {
        fewest = Some(((alpha.ln() / (-floor).ln_1p()).ceil() as u64).max(1));
    }
    if paired.cells.is_none() {
        // A server below τ loses something with at least this chance a question: that none of n shows
        // it has this probability, whatever the spread of those that were seen.
        p_pass = p_pass.max((paired.n as f64 * (-floor).ln_1p()).exp());
        // Of variables within 1 below and as far above as they are seen below 0.
        p_fail = p_fail.max((-(paired.n as f64) * paired.excess(tau).abs().ln_1p()).exp());
    }
    if fewest.is_none() {
        // A baseline that can nothing is no baseline.
        (p_pass, p_fail) = (1.0, 1.0);
    }
    let decision = if p_pass <= alpha {
        Decision::Pass
    } else if p_fail <= alpha {
        Decision::Fail
    } else {
        Decision::Inconclusive
    };
    NonInferiority { p_pass, p_fail, ratio: bounds(paired, alpha, p), fewest, decision }
}

/// P-values of "at most θ" and "at least θ" by the score test, but never below those of the exact
/// binomial: at a ratio of θ < 1 losses outnumber gains by (1 − θ) × base of n on average, and vary least
/// where there are no gains.
fn score_p(cells: &Cells, theta: f64) -> (f64, f64) {
    let n = cells.n() as f64;
    let share = |count: u64| count as f64 / n;
    let (both, lost, gained) = (share(cells.both), share(cells.lost), share(cells.gained));
    let (base, new) = (both + lost, both + gained);
    let net = cells.lost.checked_sub(cells.gained);
    let (mut least_pass, mut least_fail) = (0.0, 0.0);
    if theta < 1.0 {
        let at_most = |k: u64| binomial_cdf(k, cells.n(), (1.0 - theta) * base);
        least_pass = net.map_or(0.0, at_most);
        least_fail = net.and_then(|net| net.checked_sub(1)).map_or(1.0, |below| 1.0 - at_most(below));
    }
    // The chance of a gain and of a loss that are likeliest under new = θ × base.
    let root = ((new - theta * theta * base).powi(2) + 4.0 * theta * theta * gained * lost).sqrt();
    let gain =
        ((root - new + theta * theta * (base + 2.0 * gained)) / (2.0 * theta * (theta + 1.0))).max(0.0);
    let loss = (theta * gain + (1.0 - theta) * (both + lost + gained)).max(0.0);
    let variance = theta * (gain + loss) / n;
    let excess = new - theta * base;
    if variance <= 0.0 {
        return (1.0, 1.0);
    }
    let z = excess / variance.sqrt();
    (normal_cdf(-z).max(least_pass), normal_cdf(z).max(least_fail))
}

/// The same by Student's t on the mean of new − θ × base.
fn t_p(paired: &Paired, theta: f64) -> (f64, f64) {
    let df = paired.n as f64 - 1.0;
    if df < 1.0 {
        return (1.0, 1.0);
    }
    let error = (paired.squares(theta) / df / paired.n as f64).sqrt();
    let excess = paired.excess(theta);
    if error <= 1e-12 {
        let p = |better: bool| if better { 0.0 } else { 1.0 };
        return (p(excess > 1e-12), p(excess < -1e-12));
    }
    let t = excess / error;
    (t_cdf(-t, df), t_cdf(t, df))
}

/// Those ratios that neither test rejects, searched where they can lie.
fn bounds(paired: &Paired, alpha: f64, p: impl Fn(f64) -> (f64, f64)) -> Bounds {
    let Some(ratio) = paired.ratio() else { return Bounds { low: None, high: None } };
    /// No ratio of scores is of interest beyond.
    const FAR: f64 = 1e4;
    const STEPS: u32 = 60;
    // Whether a ratio is so small, or so large, that it is rejected.
    let too_small = |theta: f64| p(theta).0 <= alpha;
    let too_large = |theta: f64| p(theta).1 <= alpha;
    let search = |mut inside: f64, mut outside: f64, out: &dyn Fn(f64) -> bool| {
        for _ in 0..STEPS {
            let middle = 0.5 * (inside + outside);
            if out(middle) { outside = middle } else { inside = middle }
        }
        outside
    };
    let low = if too_small(1e-9) { Some(search(ratio, 1e-9, &too_small)) } else { Some(0.0) };
    let high = too_large(FAR).then(|| search(ratio, FAR, &too_large));
    Bounds { low, high }
}

/// The normal approximation with the variance of the data, as textbooks and other tools print it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wald {
    /// New minus baseline.
    pub difference: f64,
    /// Its standard error, by divisor n.
    pub difference_se: f64,
    /// One-sided lower bound of the difference.
    pub difference_low: f64,
    /// Mean of x = new − τ × base.
    pub excess: f64,
    /// Its standard error, by divisor n − 1; `null` of one question.
    pub excess_se: Option<f64>,
    /// One-sided bounds of the mean of x, by Student's t.
    pub excess_bounds: Bounds,
    /// Mean over standard error; `null` where that is 0.
    pub z: Option<f64>,
    /// P-value of "the mean of x is at most 0", normal.
    pub p: Option<f64>,
}

/// At `tau` and level `alpha`.
pub fn wald(paired: &Paired, tau: f64, alpha: f64) -> Wald {
    let n = paired.n as f64;
    let difference = paired.excess(1.0);
    let difference_se = (paired.squares(1.0) / n / n).sqrt();
    let excess = paired.excess(tau);
    let excess_se = (paired.n > 1).then(|| (paired.squares(tau) / (n - 1.0) / n).sqrt());
    let z = excess_se.filter(|se| *se > 0.0).map(|se| excess / se);
    let half = excess_se.map(|se| t_beyond(2.0 * alpha, n - 1.0) * se);
    Wald {
        difference,
        difference_se,
        difference_low: difference - normal_quantile(1.0 - alpha) * difference_se,
        excess,
        excess_se,
        excess_bounds: Bounds { low: half.map(|h| excess - h), high: half.map(|h| excess + h) },
        z,
        p: z.map(|z| normal_cdf(-z)),
    }
}
