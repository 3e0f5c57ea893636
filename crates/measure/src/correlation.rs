//! Autocorrelation of successive requests and the effective sample size.

use crate::fft;

/// Lags that are summed directly before the transform takes over; most series stop much earlier.
const DIRECT_LAGS: usize = 64;

/// Integrated autocorrelation time τ ≥ 1 of a series in time order, by the initial positive
/// sequence made monotone (Geyer 1992). A constant series has τ = 1. The number of effectively
/// independent values is n/τ.
pub fn tau(series: &[f64]) -> f64 {
    let n = series.len();
    if n < 2 {
        return 1.0;
    }
    let mean = series.iter().sum::<f64>() / n as f64;
    let centred: Vec<f64> = series.iter().map(|x| x - mean).collect();
    let power: f64 = centred.iter().map(|x| x * x).sum();
    // A constant list leaves rounding noise after its mean is removed.
    let scale = series.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    if power.is_nan() || power <= n as f64 * (scale * 1e-14).powi(2) {
        return 1.0;
    }
    let direct = |lag: usize| -> f64 {
        if lag >= n {
            return 0.0;
        }
        centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / power
    };
    let mut transformed: Option<Vec<f64>> = None;
    let mut sum = 0.0;
    let mut least = f64::INFINITY;
    for j in 0..n.div_ceil(2) {
        let lag = 2 * j;
        let pair = if lag < DIRECT_LAGS {
            direct(lag) + direct(lag + 1)
        } else {
            let r = transformed.get_or_insert_with(|| fft::autocorrelation(&centred));
            r.get(lag).copied().unwrap_or(0.0) + r.get(lag + 1).copied().unwrap_or(0.0)
        };
        // The first pair of white noise is about 1; a pair at or below 0 ends the sequence.
        if pair <= 0.0 {
            break;
        }
        least = least.min(pair);
        sum += least;
    }
    (2.0 * sum - 1.0).max(1.0)
}

/// By what the variance of the mean of batches exceeds that of independent ones, from their lag-1
/// correlation r, held to [0, 0.8]: (1 + r) / (1 − r).
pub fn mean_lag_factor(batches: &[f64]) -> f64 {
    let n = batches.len();
    let mean = batches.iter().sum::<f64>() / n.max(1) as f64;
    let centred: Vec<f64> = batches.iter().map(|x| x - mean).collect();
    let power: f64 = centred.iter().map(|x| x * x).sum();
    if n < 3 || power <= 0.0 {
        return 1.0;
    }
    let r = centred.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / power;
    let r = r.clamp(0.0, 0.8);
    (1.0 + r) / (1.0 - r)
}

/// τ as used for intervals: doubled once it exceeds 2, because the estimate is too small exactly
/// where waiting comes in long waves.
pub fn cautious(tau: f64) -> f64 {
    if tau > 2.0 { 2.0 * tau } else { tau }
}

/// Cautious τ of a percentile: the larger of the series' own and that of the indicator that a value
/// lies at or below the percentile.
pub fn tau_of_percentile(tau_of_series: f64, below: &[f64]) -> f64 {
    cautious(tau_of_series.max(tau(below)))
}
