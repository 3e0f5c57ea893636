//! The three percentile rules, their ranks, and how many samples a percentile needs.

use spec::PercentileRule;

/// Shares are read as decimals with nine places: `0.07` means 7/100, not the binary number next to
/// it, so that ⌈pn⌉ is right where pn is whole.
const PLACES: u128 = 1_000_000_000;

/// Where a percentile lies in a sorted list: between `index` and the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// Zero-based index of the lower neighbour.
    pub index: usize,
    /// Distance towards the next value in [0, 1); 0 for rules that do not interpolate.
    pub fraction: f64,
}

/// The rank of the percentile at share `p` among `n` values; `None` when there are none
/// (definitions §4).
pub fn rank(n: usize, p: f64, rule: PercentileRule) -> Option<Rank> {
    let last = n.checked_sub(1)?;
    let p = if p.is_nan() { 0.0 } else { p.clamp(0.0, 1.0) };
    let decimal = (p * PLACES as f64).round() as u128;
    Some(match rule {
        PercentileRule::Linear => {
            let scaled = decimal * last as u128;
            let index = ((scaled / PLACES) as usize).min(last);
            Rank { index, fraction: (scaled % PLACES) as f64 / PLACES as f64 }
        }
        PercentileRule::NearestRank => {
            let one_based = (decimal * n as u128).div_ceil(PLACES) as usize;
            Rank { index: one_based.saturating_sub(1).min(last), fraction: 0.0 }
        }
        // LoadGen multiplies in f64 and truncates; its rounding is part of the rule.
        PercentileRule::Loadgen => Rank { index: ((p * n as f64) as usize).min(last), fraction: 0.0 },
    })
}

/// The percentile at share `p` of ascending values; `None` when there are none.
pub fn percentile(sorted: &[f64], p: f64, rule: PercentileRule) -> Option<f64> {
    percentile_by(sorted.len(), p, rule, |place| sorted.get(place).copied())
}

/// The percentile at share `p` of `n` values, of which `at` tells the one at a place of their order.
pub(crate) fn percentile_by(
    n: usize,
    p: f64,
    rule: PercentileRule,
    at: impl Fn(usize) -> Option<f64>,
) -> Option<f64> {
    let rank = rank(n, p, rule)?;
    let low = at(rank.index)?;
    if rank.fraction <= 0.0 {
        return Some(low);
    }
    let high = at(rank.index + 1)?;
    Some((low + rank.fraction * (high - low)).min(high))
}

/// Values with whole weights, as if each were written down `weight` times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weighted {
    /// Ascending.
    values: Vec<f64>,
    /// Sum of the weights up to and including each value.
    cumulative: Vec<u64>,
}

impl Weighted {
    /// Sorts pairs of value and weight; pairs of weight 0 do not count.
    pub fn new(mut pairs: Vec<(f64, u32)>) -> Self {
        pairs.retain(|&(_, weight)| weight > 0);
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut total = 0;
        let cumulative = pairs
            .iter()
            .map(|&(_, weight)| {
                total += u64::from(weight);
                total
            })
            .collect();
        Self { values: pairs.into_iter().map(|(value, _)| value).collect(), cumulative }
    }
    /// Sum of the weights.
    pub fn total(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }
    /// Smallest and largest value.
    pub fn range(&self) -> Option<(f64, f64)> {
        Some((*self.values.first()?, *self.values.last()?))
    }
    /// The value at a zero-based index of the written-out list.
    pub fn at(&self, index: u64) -> Option<f64> {
        self.values.get(self.cumulative.partition_point(|&upto| upto <= index)).copied()
    }
    /// The percentile of the written-out list.
    pub fn percentile(&self, p: f64, rule: PercentileRule) -> Option<f64> {
        percentile_by(self.total() as usize, p, rule, |place| self.at(place as u64))
    }
}

/// Samples from which the percentile at share `p` in (0, 1) is reported: the smallest n for which a
/// two-sided 95 % interval between two of the values exists, so that neither tail of the sample is
/// empty with more than 2.5 %: pⁿ ≤ 0.025 and (1 − p)ⁿ ≤ 0.025. This gives 6, 36, 72, 368 and
/// 3,688 for p50, p90, p95, p99 and p99.9.
pub fn needed(p: f64) -> u64 {
    let rarer = p.max(1.0 - p);
    if rarer >= 1.0 || rarer.is_nan() {
        return 1;
    }
    let mut n = (0.025_f64.ln() / rarer.ln()).ceil().max(1.0) as u64;
    // The logarithms may be off by one in the last place.
    while n > 1 && rarer.powf((n - 1) as f64) <= 0.025 {
        n -= 1;
    }
    while rarer.powf(n as f64) > 0.025 {
        n += 1;
    }
    n
}
