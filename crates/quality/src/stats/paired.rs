//! Pairs of scores, and the sums that every test needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scores of one question, in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Of the baseline.
    pub base: f64,
    /// Of the new server.
    pub new: f64,
}

/// Counts of right and wrong answers, where every score is 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cells {
    /// Right on both.
    pub both: u64,
    /// Right on the baseline, wrong on the new server (n10).
    pub lost: u64,
    /// Wrong on the baseline, right on the new server (n01).
    pub gained: u64,
    /// Wrong on both.
    pub neither: u64,
}

impl Cells {
    /// Of all questions.
    pub fn n(&self) -> u64 {
        self.both + self.lost + self.gained + self.neither
    }
}

/// Sums over pairs of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// Pairs.
    pub n: u64,
    /// Mean of the baseline.
    pub base: f64,
    /// Mean of the new server.
    pub new: f64,
    /// Pairs in which the new server has less.
    pub lost: u64,
    /// Pairs in which it has more.
    pub gained: u64,
    /// Where every score is 0 or 1.
    pub cells: Option<Cells>,
    /// Sums of squares and products about the means.
    pub(crate) base_squares: f64,
    pub(crate) new_squares: f64,
    products: f64,
}

impl Paired {
    /// Of these pairs; `None` when there are none, or one lies outside of [0, 1].
    pub fn of(pairs: &[Scores]) -> Option<Self> {
        let in_range = |score: f64| (0.0..=1.0).contains(&score);
        if pairs.is_empty() || !pairs.iter().all(|p| in_range(p.base) && in_range(p.new)) {
            return None;
        }
        let n = pairs.len() as f64;
        let base = pairs.iter().map(|p| p.base).sum::<f64>() / n;
        let new = pairs.iter().map(|p| p.new).sum::<f64>() / n;
        let (mut base_squares, mut new_squares, mut products) = (0.0, 0.0, 0.0);
        let (mut lost, mut gained) = (0, 0);
        for p in pairs {
            let (b, x) = (p.base - base, p.new - new);
            base_squares += b * b;
            new_squares += x * x;
            products += b * x;
            lost += u64::from(p.new < p.base);
            gained += u64::from(p.new > p.base);
        }
        let binary = |score: f64| score <= 0.0 || score >= 1.0;
        let cells = pairs.iter().all(|p| binary(p.base) && binary(p.new)).then(|| {
            let both = pairs.iter().filter(|p| p.base > 0.5 && p.new > 0.5).count() as u64;
            Cells { both, lost, gained, neither: pairs.len() as u64 - both - lost - gained }
        });
        Some(Self {
            n: pairs.len() as u64,
            base,
            new,
            lost,
            gained,
            cells,
            base_squares,
            new_squares,
            products,
        })
    }

    /// Of right and wrong answers; `None` when there are none.
    pub fn of_cells(cells: Cells) -> Option<Self> {
        let n = cells.n() as f64;
        if cells.n() == 0 {
            return None;
        }
        let (base, new) = ((cells.both + cells.lost) as f64 / n, (cells.both + cells.gained) as f64 / n);
        Some(Self {
            n: cells.n(),
            base,
            new,
            lost: cells.lost,
            gained: cells.gained,
            cells: Some(cells),
            base_squares: n * base * (1.0 - base),
            new_squares: n * new * (1.0 - new),
            products: cells.both as f64 - n * base * new,
        })
    }

    /// New over baseline; `None` where the baseline scores nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.base > 0.0).then(|| self.new / self.base)
    }

    /// Share of pairs that differ.
    pub fn discordance(&self) -> f64 {
        (self.lost + self.gained) as f64 / self.n as f64
    }

    /// Mean of `new − ratio × base`.
    pub fn excess(&self, ratio: f64) -> f64 {
        self.new - ratio * self.base
    }

    /// Sum of squares of `new − ratio × base` about its mean.
    pub fn squares(&self, ratio: f64) -> f64 {
        (self.new_squares - 2.0 * ratio * self.products + ratio * ratio * self.base_squares).max(0.0)
    }
}
