//! Early stopping: how many queries a percentile needs before it may be believed.
//!
//! Of `n` queries `t` are over a latency. If a share `1 − p` of all queries were over it, then so few of
//! `n` would be with probability `P[Bin(n, 1 − p) ≤ t]`; where that is below 1 %, the percentile is held
//! with a confidence of 99 %. (Clopper and Pearson 1934: a one-sided exact interval.)

/// The confidence of LoadGen's decisions.
pub const CONFIDENCE: f64 = 0.99;

/// The smallest number of queries under the limit that makes up for `over` queries above it, at
/// percentile `p` in (0, 1).
pub fn min_under(over: u64, p: f64) -> u64 {
    let enough = |under: u64| tail(under, over, p) < 1.0 - CONFIDENCE;
    // Where the mean of the binomial is `over`, the tail is about a half: the answer lies above.
    let mut low = (over as f64 * p / (1.0 - p)) as u64;
    let mut step = ((-(1.0 - CONFIDENCE).ln() / (1.0 - p)) as u64).max(1);
    let mut high = low + step;
    while !enough(high) {
        low = high;
        step *= 2;
        high += step;
    }
    while low < high {
        let mid = low + (high - low) / 2;
        if enough(mid) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    low
}

/// How many queries are needed in all if `over` of them are over the limit.
pub fn min_queries(over: u64, p: f64) -> u64 {
    min_under(over, p) + over
}

/// Which of `n` latencies, counted from the largest as 1, is the estimate of percentile `p`: one less is
/// discarded. `None`: `n` is too small for any.
pub fn estimate_rank(n: u64, p: f64) -> Option<u64> {
    if n < min_queries(1, p) {
        return None;
    }
    // `min_queries` grows with `over`, and more than a share `1 − p` can never be discarded.
    let (mut low, mut high) = (1, ((n as f64 * (1.0 - p)).ceil() as u64).max(1));
    while low < high {
        let mid = low + (high - low).div_ceil(2);
        if n >= min_queries(mid, p) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    Some(low)
}

/// `P[Bin(under + over, 1 − p) ≤ over]`: from its largest term downwards, as far as terms count.
fn tail(under: u64, over: u64, p: f64) -> f64 {
    let (h, t) = (under as f64, over as f64);
    let q = 1.0 - p;
    let log_choose = libm::lgamma(h + t + 1.0) - libm::lgamma(h + 1.0) - libm::lgamma(t + 1.0);
    let mut term = 1.0;
    let mut sum = 1.0;
    let n = h + t;
    for k in (0..over).rev() {
        let k = k as f64;
        term *= (k + 1.0) / (n - k) * (p / q);
        sum += term;
        count();
        // Terms may grow at first (where more than the mean is over); below the mode they only fall.
        if term < sum * 1e-17 {
            break;
        }
    }
    (log_choose + h * p.ln() + t * q.ln()).exp() * sum
}

#[cfg(not(test))]
fn count() {}

#[cfg(test)]
use tests::count;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static TERMS: Cell<u64> = const { Cell::new(0) });

    pub(super) fn count() {
        TERMS.with(|terms| terms.set(terms.get() + 1));
    }

    #[test]
    fn the_first_steps_by_hand() {
        // 0.99^n < 0.01 from n = 459 on; 0.9^n from 44 on; 0.5^n from 7 on.
        assert_eq!((min_queries(0, 0.99), min_queries(0, 0.9), min_queries(0, 0.5)), (459, 44, 7));
        // One of eleven: (1 + 11) / 2^11 = 0.0059; one of ten: 11 / 2^10 = 0.0107.
        assert_eq!(min_queries(1, 0.5), 11);
        assert_eq!((min_queries(1, 0.9), min_queries(1, 0.99), min_queries(1, 0.999)), (64, 662, 6636));
        assert_eq!((estimate_rank(63, 0.9), estimate_rank(64, 0.9)), (None, Some(1)));
        assert_eq!((estimate_rank(24_576, 0.99), estimate_rank(270_336, 0.99)), (Some(209), Some(2583)));
    }

    /// A million queries take no more than a few million terms, where a step through every rank would
    /// take ten thousand searches: milliseconds, not minutes.
    #[test]
    fn a_million_queries_are_few_steps() {
        for p in [0.5, 0.9, 0.99, 0.999] {
            TERMS.with(|terms| terms.set(0));
            let rank = estimate_rank(1_000_000, p).expect("enough");
            assert!(min_queries(rank, p) <= 1_000_000 && min_queries(rank + 1, p) > 1_000_000);
            let terms = TERMS.with(Cell::get);
            assert!(terms < 6_000_000, "{p}: {terms}");
        }
    }
}
