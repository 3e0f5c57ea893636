//! How far a probe is beyond its limits, for a surface over several knobs.

use spec::Load;

use crate::capacity::{
    Ask, Criterion, Finished, Over, batch_means, determined, logit, long_run_variance, mean, transient,
};

const BATCHES: usize = 20;
/// Fewer requests say nothing.
const LEAST: usize = 20;

/// Log-odds of a miss beyond those that are allowed, and their variance, of the limit that is broken
/// most; of a limit on a mean the logarithm of mean over limit. `None`: no limits, or too few requests.
pub(super) fn excess(
    criteria: &[Criterion],
    over: Over,
    ask: &Ask,
    finished: &Finished,
) -> Option<(f64, f64)> {
    let n = determined(criteria, &finished.requests, finished.now);
    let load = match &ask.load {
        Load::Open(open) => open.rate.per_second(),
        Load::Closed(closed) => f64::from(closed.concurrency),
    };
    // A closed loop begins with all users at once, whatever is searched.
    let over = if matches!(ask.load, Load::Closed(_)) { Over::Concurrency } else { over };
    let dropped = transient(over, load, n);
    if n < LEAST {
        return None;
    }
    let of = |criterion: &Criterion| {
        let kept = finished.requests[dropped..n].iter();
        beyond(criterion.target(), &kept.filter_map(|seen| criterion.verdict(seen)).collect::<Vec<_>>())
    };
    criteria.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

fn beyond(target: Option<f64>, values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let share = mean(values);
    let variance = long_run_variance(&batch_means(values, BATCHES), values.len());
    let Some(q) = target else {
        return Some((share.max(1e-9).ln(), variance / (n * share * share).max(1e-12)));
    };
    let independent = share * (1.0 - share);
    let inflation = if independent > 0.0 { (variance / independent).max(1.0) } else { 1.0 };
    let (n, misses) = (n / inflation, n * share / inflation);
    let odds = logit((misses + 0.5) / (n + 1.0)) - logit(q);
    Some((odds, 1.0 / (misses + 0.5) + 1.0 / (n - misses + 0.5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 of 100 spread evenly, 5 % allowed: ln(10.5/90.5) − ln(5/95).
    #[test]
    fn log_odds_beyond_the_target() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(u8::from(i % 10 == 0))).collect();
        let (value, variance) = beyond(Some(0.05), &values).unwrap();
        assert!((value - ((10.5_f64 / 90.5).ln() - (5.0_f64 / 95.0).ln())).abs() < 1e-9, "{value}");
        assert!((variance - (1.0 / 10.5 + 1.0 / 90.5)).abs() < 1e-9);
        // The same ten in a row are worth less.
        let burst: Vec<f64> = (0..100).map(|i| f64::from(u8::from(i < 10))).collect();
        assert!(beyond(Some(0.05), &burst).unwrap().1 > 4.0 * variance);
        assert_eq!(beyond(Some(0.05), &[]), None);
        assert!((beyond(None, &[2.0; 40]).unwrap().0 - 2.0_f64.ln()).abs() < 1e-12);
    }
}
