//! Long lists of numbers, kept small: gaps of a long run are millions.

use std::ops::Range;

/// The bit of a number's sign.
const SIGN: u64 = 1 << 63;

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
    /// With room for so many small numbers.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Series::Small(Vec::with_capacity(count))
    }
    #[inline]
    pub(crate) fn push(&mut self, value: f64) {
        let small = value as u32;
        match self {
            Series::Small(list) if f64::from(small).to_bits() == value.to_bits() => list.push(small),
            Series::Small(_) => self.widen(value),
            Series::Wide(list) => list.push(value),
        }
    }
    #[cold]
    fn widen(&mut self, value: f64) {
        let Series::Small(list) = self else { return };
        let mut wide = Vec::with_capacity(list.capacity().max(list.len() + 1));
        wide.extend(list.iter().map(|&x| f64::from(x)));
        wide.push(value);
        *self = Series::Wide(wide);
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Series::Small(list) => list.len(),
            Series::Wide(list) => list.len(),
        }
    }
    /// Visits a whole number for each, ordered as the numbers are ([`f64::total_cmp`]).
    pub(crate) fn for_each_key(&self, mut visit: impl FnMut(u64)) {
        match self {
            Series::Small(list) => list.iter().for_each(|&x| visit(u64::from(x))),
            Series::Wide(list) => list.iter().for_each(|&x| {
                let bits = x.to_bits();
                visit(if bits & SIGN == 0 { bits | SIGN } else { !bits });
            }),
        }
    }
    /// The number of a key.
    pub(crate) fn of_key(&self, key: u64) -> f64 {
        match self {
            Series::Small(_) => key as f64,
            Series::Wide(_) => f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN }),
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
            let mut back = Vec::new();
            series.for_each(|_, x| back.push(x.to_bits()));
            assert_eq!(back, values.map(f64::to_bits));
            back.clear();
            series.for_each_key(|key| back.push(series.of_key(key).to_bits()));
            assert_eq!(back, values.map(f64::to_bits));
        }
    }
}
