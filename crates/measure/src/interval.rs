//! Intervals: of percentiles from order statistics, of shares, of means. All at 95 %.

use crate::estimate::Interval;
use crate::special::{beta_quantile, binomial_cdf, t_95};

/// Two-sided 95 % point of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// Shrinks the effective size, since it is itself an estimate: (z / t₁₉)² (Korn and Graubard 1998).
const SHRINK: f64 = (1.959_96 / 2.093_02) * (1.959_96 / 2.093_02);

/// How many independent draws a series is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// Draws are independent by construction: all of them count, and the binomial rule is exact.
    Independent,
    /// n/τ, estimated from the series.
    Effective(f64),
}

/// The levels (l, u) between which the percentile at share `p` lies, given `m` independent draws.
pub fn level_interval(p: f64, m: f64) -> (f64, f64) {
    let (below, above) = (p * m, (1.0 - p) * m);
    (beta_quantile(0.025, below, above + 1.0), beta_quantile(0.975, below + 1.0, above))
}

/// The number of draws that the levels are computed with, from the effective size.
pub fn shrunk(n_eff: f64) -> f64 {
    n_eff * SHRINK
}

/// The same for values that come in clusters: few clusters know less of their own spread.
pub fn shrunk_by_clusters(n_eff: f64, clusters: f64) -> f64 {
    let df = clusters - 1.0;
    if df.is_nan() || df < 1.0 {
        return 0.0;
    }
    if df >= 19.0 { shrunk(n_eff) } else { n_eff * (Z / t_95(df)).powi(2) }
}

/// Ranks (one-based) of the values among `n` that enclose the percentile at share `p` in (0, 1);
/// an open side is `None`.
pub fn ranks(n: usize, p: f64, size: Size) -> (Option<usize>, Option<usize>) {
    match size {
        Size::Independent => exact_ranks(n, p),
        Size::Effective(n_eff) => {
            let (l, u) = level_interval(p, shrunk(n_eff));
            let n_f = n as f64;
            let low = (l * n_f >= 1.0).then(|| ((l * n_f).ceil() as usize).min(n));
            let high = (u * n_f <= n_f - 0.5).then(|| ((u * n_f).ceil() as usize).clamp(1, n));
            (low, high)
        }
    }
}

/// The exact binomial rule: the largest rank that lies above the percentile with at most 2.5 %, and
/// the smallest that lies below it with at most 2.5 %.
fn exact_ranks(n: usize, p: f64) -> (Option<usize>, Option<usize>) {
    let n_u = n as u64;
    // The r-th value exceeds the percentile when fewer than r of n fall at or below it.
    let too_high = |r: usize| binomial_cdf(r as u64 - 1, n_u, p);
    let (mut low, mut beyond) = (0, n + 1);
    while beyond - low > 1 {
        let middle = low + (beyond - low) / 2;
        if too_high(middle) <= 0.025 {
            low = middle;
        } else {
            beyond = middle;
        }
    }
    let (mut before, mut high) = (0, n + 1);
    while high - before > 1 {
        let middle = before + (high - before) / 2;
        if 1.0 - too_high(middle) <= 0.025 {
            high = middle;
        } else {
            before = middle;
        }
    }
    ((low >= 1).then_some(low), (high <= n).then_some(high))
}

/// Wilson's 95 % interval of a share, from a share and the number of independent draws; draws and
/// successes need not be whole.
pub fn wilson(share: f64, draws: f64) -> Interval {
    wilson_at(share, draws, Z)
}

/// Wilson's interval of `z` standard errors.
pub fn wilson_at(share: f64, draws: f64, z: f64) -> Interval {
    if draws.is_nan() || draws <= 0.0 {
        return Interval::default();
    }
    let z2 = z * z;
    let centre = share + z2 / (2.0 * draws);
    let spread = z * (share * (1.0 - share) / draws + z2 / (4.0 * draws * draws)).max(0.0).sqrt();
    let scale = 1.0 + z2 / draws;
    // At the ends the formula gives 0 and 1 up to rounding.
    let low = if share <= 0.0 { 0.0 } else { ((centre - spread) / scale).max(0.0) };
    let high = if share >= 1.0 { 1.0 } else { ((centre + spread) / scale).min(1.0) };
    Interval { low: Some(low), high: Some(high) }
}

/// Exact binomial 95 % interval of a share of `draws` (Clopper and Pearson 1934). At a share of 0 or 1
/// the whole 2.5 % lies on the open side.
pub fn clopper_pearson(share: f64, draws: f64) -> (f64, f64) {
    let tail = |m: f64| 0.025_f64.powf(1.0 / m.max(1e-9));
    if share <= 0.0 {
        (0.0, 1.0 - tail(draws))
    } else if share >= 1.0 {
        (tail(draws), 1.0)
    } else {
        level_interval(share, draws)
    }
}

/// The 95 % t interval of a mean of durations or speeds on the effective sample size; open when that
/// is below 2. Neither is ever negative, so the lower end is not either, however few the samples.
pub fn mean_interval(mean: f64, stddev: f64, n_eff: f64) -> Interval {
    if n_eff.is_nan() || n_eff < 2.0 {
        return Interval::default();
    }
    let half = t_95(n_eff - 1.0) * stddev / n_eff.sqrt();
    Interval { low: Some((mean - half).max(0.0)), high: Some(mean + half) }
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn squares(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(values.iter().map(|x| (x - mean) * (x - mean)).sum())
}

/// Sample standard deviation (divisor n − 1); `None` below two values.
pub fn sample_stddev(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| squares(values).map(|s| (s / (values.len() - 1) as f64).sqrt()))?
}

/// Population standard deviation (divisor n), for the formats that ask for it.
pub fn population_stddev(values: &[f64]) -> Option<f64> {
    squares(values).map(|s| (s / values.len() as f64).sqrt())
}
