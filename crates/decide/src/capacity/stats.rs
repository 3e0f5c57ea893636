//! Small functions of statistics that several parts of the search share.

/// Two-sided 95 % point of the normal distribution.
pub(crate) const Z95: f64 = 1.959_964;

/// ln(p / (1 − p)), finite for every share.
pub(crate) fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    (p / (1.0 - p)).ln()
}

/// The share whose log-odds are `x`.
pub(super) fn expit(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Median; `None` of nothing.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some(0.5 * (values[n / 2 - 1] + values[n / 2])),
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Piecewise linear through points with growing `x`; beyond them the end values.
pub(super) fn interpolate(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|(at, _)| *at < x);
    match (after.checked_sub(1).and_then(|i| points.get(i)), points.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => 0.0,
    }
}

/// Means of `count` groups of successive values, as equal in size as can be.
pub(crate) fn batch_means(values: &[f64], count: usize) -> Vec<f64> {
    let count = count.min(values.len());
    (0..count).map(|j| mean(&values[j * values.len() / count..(j + 1) * values.len() / count])).collect()
}

/// How many times more the mean of a series varies than that of independent draws would: the
/// variance of the residual batch means times the batch size and (1 + r)/(1 − r) for their lag-1
/// correlation r (Tafazzoli et al. 2011), without the division by the variance of one draw.
pub(crate) fn long_run_variance(batches: &[f64], n: usize) -> f64 {
    let b = batches.len();
    if b < 2 {
        return 0.0;
    }
    let centre = mean(batches);
    let square: f64 = batches.iter().map(|y| (y - centre).powi(2)).sum();
    if square <= 0.0 {
        return 0.0;
    }
    let lagged: f64 = batches.windows(2).map(|w| (w[0] - centre) * (w[1] - centre)).sum();
    let r = (lagged / square).clamp(0.0, 0.8);
    square / (b - 1) as f64 * (n as f64 / b as f64) * (1.0 + r) / (1.0 - r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_odds_and_back() {
        assert!((logit(0.05) + 2.944_439).abs() < 1e-6);
        assert!((expit(logit(0.3)) - 0.3).abs() < 1e-12);
        assert!(logit(0.0).is_finite() && logit(1.0).is_finite());
    }

    #[test]
    fn batches_take_every_value_once() {
        let same =
            |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12);
        assert!(same(&batch_means(&[1.0, 3.0, 5.0, 7.0, 9.0], 2), &[2.0, 7.0]));
        assert!(same(&batch_means(&[1.0, 3.0], 20), &[1.0, 3.0]));
        assert!(batch_means(&[], 20).is_empty());
    }

    /// Four batches of 10: 0.1, 0.3, 0.1, 0.3. Variance 0.04/3, lag-1 negative, hence r = 0: 10 times
    /// that. With 0.1, 0.1, 0.3, 0.3 the lagged sum is 0.01 of 0.04: r = 1/4, factor 5/3.
    #[test]
    fn long_run_variance_by_hand() {
        let v = long_run_variance(&[0.1, 0.3, 0.1, 0.3], 40);
        assert!((v - 0.4 / 3.0).abs() < 1e-12, "{v}");
        let v = long_run_variance(&[0.1, 0.1, 0.3, 0.3], 40);
        assert!((v - 0.4 / 3.0 * 5.0 / 3.0).abs() < 1e-12, "{v}");
        assert!(long_run_variance(&[0.2; 8], 80).abs() < 1e-12);
    }

    #[test]
    fn interpolation_is_linear_inside_and_flat_outside() {
        let points = [(1.0, 10.0), (3.0, 20.0)];
        for (x, y) in [(0.0, 10.0), (1.0, 10.0), (2.0, 15.0), (3.0, 20.0), (9.0, 20.0)] {
            assert!((interpolate(&points, x) - y).abs() < 1e-12, "{x}");
        }
    }
}
