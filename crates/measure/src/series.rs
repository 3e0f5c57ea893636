//! Long lists of numbers, kept small: gaps of a long run are millions.

use std::ops::Range;

/// Numbers in order; 4 bytes each as long as all are whole and fit (nanoseconds below 4.3 s), else 8.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Series {
    Small(Vec<u32>),
    Wide(Vec<f64>),
}

impl Default for Series {
    fn default() -> Self {
        Series::Small(Vec::new())
    }
}

impl Series {
    pub(crate) fn push(&mut self, value: f64) {
        match self {
            Series::Small(list) => {
                let small = value as u32;
                if f64::from(small).to_bits() == value.to_bits() {
                    list.push(small);
                } else {
                    let mut wide = Vec::with_capacity(list.capacity().max(list.len() + 1));
                    wide.extend(list.iter().map(|&x| f64::from(x)));
                    wide.push(value);
                    *self = Series::Wide(wide);
                }
            }
            Series::Wide(list) => list.push(value),
        }
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Series::Small(list) => list.len(),
            Series::Wide(list) => list.len(),
        }
    }
    pub(crate) fn get(&self, index: usize) -> Option<f64> {
        match self {
            Series::Small(list) => list.get(index).map(|&x| f64::from(x)),
            Series::Wide(list) => list.get(index).copied(),
        }
    }
    /// The sum of `score` over the numbers of a range, visited in order.
    pub(crate) fn sum(&self, range: Range<usize>, mut score: impl FnMut(f64) -> f64) -> f64 {
        match self {
            Series::Small(list) => list[range].iter().map(|&x| score(f64::from(x))).sum(),
            Series::Wide(list) => list[range].iter().map(|&x| score(x)).sum(),
        }
    }
    /// Visits each number with its place.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, f64)) {
        match self {
            Series::Small(list) => list.iter().enumerate().for_each(|(i, &x)| visit(i, f64::from(x))),
            Series::Wide(list) => list.iter().enumerate().for_each(|(i, &x)| visit(i, x)),
        }
    }
    /// Ascending.
    pub(crate) fn sort(&mut self) {
        match self {
            Series::Small(list) => list.sort_unstable(),
            Series::Wide(list) => list.sort_unstable_by(f64::total_cmp),
        }
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut series = Series::default();
        values.into_iter().for_each(|value| series.push(value));
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_widens_the_list_and_changes_none() {
        let largest = f64::from(u32::MAX);
        for odd in [0.5, largest + 1.0, -1.0, -0.0, f64::INFINITY] {
            let values = [3.0, largest, 0.0, odd, 7.0];
            let mut series: Series = values[..3].iter().copied().collect();
            assert!(matches!(series, Series::Small(_)));
            values[3..].iter().for_each(|&x| series.push(x));
            assert!(matches!(series, Series::Wide(_)), "{odd}");
            let back: Vec<u64> = (0..5).map(|i| series.get(i).unwrap().to_bits()).collect();
            assert_eq!(back, values.map(f64::to_bits));
            series.sort();
            assert!((1..5).all(|i| series.get(i - 1) <= series.get(i)));
        }
    }
}
