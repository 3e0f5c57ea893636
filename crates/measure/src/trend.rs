//! Tests for change over time: Mann–Kendall, growth of the queue, steps and trends of speed.

use serde::Serialize;

/// Mann–Kendall: S = Σ sign(y_j − y_i) over i < j, and its normal score with continuity correction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MannKendall {
    /// Rises minus falls over all pairs.
    pub s: i64,
    /// (S − sign S) / √(K(K−1)(2K+5)/18); 0 below two values.
    pub z: f64,
}

/// The Mann–Kendall statistic of a series (Mann 1945, Kendall 1975).
pub fn mann_kendall(series: &[f64]) -> MannKendall {
    let mut s = 0_i64;
    for (i, early) in series.iter().enumerate() {
        for late in &series[i + 1..] {
            s += i64::from(late > early) - i64::from(late < early);
        }
    }
    let k = series.len() as f64;
    let variance = k * (k - 1.0) * (2.0 * k + 5.0) / 18.0;
    let z = if variance > 0.0 { (s - s.signum()) as f64 / variance.sqrt() } else { 0.0 };
    MannKendall { s, z }
}

/// Growth of the number in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// Least-squares slope of the number in flight, requests per second.
    pub slope_per_s: f64,
    /// Slope / arrival rate: the share of the offered load that is not served.
    pub share: f64,
    /// Rises minus falls of the bins.
    pub s: i64,
    /// Its score.
    pub z: f64,
}

/// Growth of binned in-flight means; `None` below two bins or without arrivals.
pub fn growth(levels: &[f64], bin_s: f64, arrivals_per_s: f64) -> Option<Growth> {
    if levels.len() < 2 || !(bin_s > 0.0 && arrivals_per_s > 0.0) {
        return None;
    }
    let middle = (levels.len() - 1) as f64 / 2.0;
    let time = |i: usize| (i as f64 - middle) * bin_s;
    let xy: f64 = levels.iter().enumerate().map(|(i, y)| time(i) * y).sum();
    let xx: f64 = (0..levels.len()).map(|i| time(i) * time(i)).sum();
    let slope_per_s = xy / xx;
    let MannKendall { s, z } = mann_kendall(levels);
    Some(Growth { slope_per_s, share: slope_per_s / arrivals_per_s, s, z })
}

/// The speed of decoding over bins of equal length, tested for a step and for a trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Largest t of a step over all places.
    pub step_t: f64,
    /// First bin after that step.
    pub at: usize,
    /// Its size in the logarithm.
    pub step: f64,
    /// t of a linear trend.
    pub trend_t: f64,
    /// Its change over the window in the logarithm.
    pub trend: f64,
}

impl Change {
    /// Speed changed: a step of at least 8 % with t above 4.5, or a trend of at least 5 % over the
    /// window with t above 3.5.
    pub fn fails(&self) -> bool {
        let relative = |b: f64| b.exp_m1().abs();
        (self.step_t > 4.5 && relative(self.step) >= 0.08)
            || (self.trend_t > 3.5 && relative(self.trend) >= 0.05)
    }
}

/// Fewest bins that the test is made on.
pub const FEWEST_BINS: usize = 8;

/// Tests `y` (logarithms of a speed, one for each bin) for a step and a trend, given covariates.
/// A covariate that hardly varies (standard deviation below 1 % of its mean) is left out. `None`
/// below [`FEWEST_BINS`].
pub fn speed_change(y: &[f64], covariates: &[&[f64]]) -> Option<Change> {
    let k = y.len();
    if k < FEWEST_BINS || covariates.iter().any(|c| c.len() != k) {
        return None;
    }
    let space = Space::new(k, covariates);
    let rest = space.remove(y.to_vec());
    let mut change = Change { step_t: f64::NEG_INFINITY, at: 0, step: 0.0, trend_t: 0.0, trend: 0.0 };
    for at in 2..=k - 2 {
        let step = (0..k).map(|i| f64::from(u8::from(i >= at))).collect();
        let Some((t, b)) = space.test(&rest, step) else { continue };
        if t > change.step_t {
            (change.step_t, change.at, change.step) = (t, at, b);
        }
    }
    let middle = (k - 1) as f64 / 2.0;
    let line = (0..k).map(|i| (i as f64 - middle) / k as f64).collect();
    (change.trend_t, change.trend) = space.test(&rest, line).unwrap_or((0.0, 0.0));
    change.step_t = change.step_t.max(0.0);
    Some(change)
}

/// An orthonormal basis of the constant and the covariates.
struct Space {
    basis: Vec<Vec<f64>>,
}

impl Space {
    fn new(k: usize, covariates: &[&[f64]]) -> Self {
        let mut space = Self { basis: vec![vec![1.0 / (k as f64).sqrt(); k]] };
        for covariate in covariates {
            let mean = covariate.iter().sum::<f64>() / k as f64;
            let sd = (covariate.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / k as f64).sqrt();
            if sd <= 0.0 || sd < 0.01 * mean.abs() {
                continue;
            }
            let standardised = covariate.iter().map(|v| (v - mean) / sd).collect();
            let rest = space.remove(standardised);
            let length = rest.iter().map(|v| v * v).sum::<f64>().sqrt();
            // A covariate that the others explain adds no column.
            if length > 1e-6 * (k as f64).sqrt() {
                space.basis.push(rest.into_iter().map(|v| v / length).collect());
            }
        }
        space
    }
    /// What the space does not explain.
    fn remove(&self, mut v: Vec<f64>) -> Vec<f64> {
        // Twice, so that rounding leaves nothing behind.
        for _ in 0..2 {
            for b in &self.basis {
                let dot: f64 = v.iter().zip(b).map(|(x, y)| x * y).sum();
                v.iter_mut().zip(b).for_each(|(x, y)| *x -= dot * y);
            }
        }
        v
    }
    /// |t| and coefficient of one more column, with the variance widened for the autocorrelation
    /// of the residuals. `None` when the space explains the column or no freedom is left.
    fn test(&self, y_rest: &[f64], column: Vec<f64>) -> Option<(f64, f64)> {
        let k = y_rest.len() as f64;
        let m = self.basis.len() as f64;
        let s = self.remove(column);
        let length: f64 = s.iter().map(|v| v * v).sum();
        if length < 1e-9 || k - m - 1.0 <= 0.0 {
            return None;
        }
        let b = s.iter().zip(y_rest).map(|(s, y)| s * y).sum::<f64>() / length;
        let e: Vec<f64> = y_rest.iter().zip(&s).map(|(y, s)| y - b * s).collect();
        let power: f64 = e.iter().map(|v| v * v).sum();
        let lagged: f64 = e.iter().zip(&e[1..]).map(|(a, b)| a * b).sum();
        let raw = if power > 0.0 { lagged / power } else { 0.0 };
        let r = (raw + 1.0 / k + m / (2.0 * k)).clamp(0.0, 0.9);
        let g = power / (k - m - 1.0);
        let t = b.abs() / ((g + 1e-12) * (1.0 + r) / (1.0 - r) / length).sqrt();
        Some((t, b))
    }
}
