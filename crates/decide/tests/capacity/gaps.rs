//! How evenly requests arrive decides how many are held.

use decide::capacity::search;

use super::rows::{Load, Row};
use super::table::{holds, sound};
use super::{least, row, truth};

/// One server of 20 ms: with equal gaps nobody waits up to 50 a second, and above it the queue grows for ever.
fn equal_gaps() -> Row {
    Row { over: Load::Rate(f64::INFINITY), truth: Some(50.0), ..*row("fifo, Poisson, p95") }
}

#[test]
fn the_truth_of_equal_gaps_is_the_service_rate() {
    let found = truth::crossing(&equal_gaps(), 30.0, 70.0, 100_000);
    assert!((found / 50.0 - 1.0).abs() < 0.01, "{found}");
}

/// 24.74, 42.43, 50: each bracket holds its own, and the answers are in this order.
#[test]
fn bursts_hold_less_and_equal_gaps_more() {
    let equal = equal_gaps();
    let rows = [row("fifo, burstiness 0.25, p95"), row("fifo, Poisson, p95"), &equal];
    let mut held = 0;
    for seed in 9_000..9_002 {
        let answers = rows.map(|row| search(&row.settings(seed), &mut row.runner(), &mut |_| {}));
        answers.iter().for_each(sound);
        held += rows.iter().zip(&answers).filter(|(row, a)| holds(a, row.truth.unwrap())).count() as u64;
        let values = answers.map(|answer| answer.value.unwrap());
        assert!(values.is_sorted(), "{values:?}");
    }
    assert!(held >= least(6, 0.92), "{held} of 6 brackets hold the truth");
}
