//! Which number stands at a place of a list's ascending order, without sorting the whole list.

use std::sync::OnceLock;

use crate::series::Series;

/// Numbers for each bin, about: sorting so few is cheap, and so is counting into so many bins.
const PER_BIN: usize = 64;
const MOST_BINS: usize = 1 << 16;

/// The order of a [`Series`]: its numbers are counted into bins of equal width, and a bin is sorted
/// when a place in it is asked for. A summary asks for some thirty places of millions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranks {
    /// Key of the smallest and of the largest number.
    ends: Option<(u64, u64)>,
    /// A bin is 2 to this power keys wide.
    shift: u32,
    /// Numbers in each bin and in those before it.
    upto: Vec<usize>,
    sorted: Vec<OnceLock<Box<[f64]>>>,
}

impl Ranks {
    pub(crate) fn new(series: &Series) -> Self {
        let mut ends: Option<(u64, u64)> = None;
        series.for_each_key(|key| {
            ends = Some(ends.map_or((key, key), |(least, most)| (least.min(key), most.max(key))));
        });
        let Some((least, most)) = ends else { return Self::default() };
        let wanted = (series.len() / PER_BIN).clamp(1, MOST_BINS) as u64;
        let shift = (0..64).find(|&shift| (most - least) >> shift < wanted).unwrap_or(63);
        let mut upto = vec![0_usize; ((most - least) >> shift) as usize + 1];
        series.for_each_key(|key| upto[((key - least) >> shift) as usize] += 1);
        let mut total = 0;
        for bin in &mut upto {
            total += *bin;
            *bin = total;
        }
        let sorted = vec![OnceLock::new(); upto.len()];
        Self { ends, shift, upto, sorted }
    }

    /// The number at a zero-based place of the ascending order; `series` is the one it was made of.
    pub(crate) fn at(&self, series: &Series, place: usize) -> Option<f64> {
        let (least, _) = self.ends?;
        let bin = self.upto.partition_point(|&upto| upto <= place);
        let before = bin.checked_sub(1).map_or(0, |before| self.upto[before]);
        let sorted = self.sorted.get(bin)?.get_or_init(|| {
            let mut keys = Vec::with_capacity(self.upto[bin] - before);
            series.for_each_key(|key| {
                if (key - least) >> self.shift == bin as u64 {
                    keys.push(key);
                }
            });
            keys.sort_unstable();
            keys.into_iter().map(|key| series.of_key(key)).collect()
        });
        sorted.get(place - before).copied()
    }

    /// Smallest and largest number.
    pub(crate) fn range(&self, series: &Series) -> Option<(f64, f64)> {
        self.ends.map(|(least, most)| (series.of_key(least), series.of_key(most)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agrees(values: Vec<f64>) {
        let series: Series = values.iter().copied().collect();
        let ranks = Ranks::new(&series);
        let mut sorted = values;
        sorted.sort_unstable_by(f64::total_cmp);
        for (place, value) in sorted.iter().enumerate() {
            assert_eq!(ranks.at(&series, place).map(f64::to_bits), Some(value.to_bits()), "place {place}");
        }
        assert_eq!(ranks.at(&series, sorted.len()), None);
        let ends = sorted.first().copied().zip(sorted.last().copied());
        assert_eq!(
            ranks.range(&series).map(|(a, b)| (a.to_bits(), b.to_bits())),
            ends.map(|(a, b)| (a.to_bits(), b.to_bits()))
        );
    }

    proptest! {
        #[test]
        fn each_place_is_that_of_the_sorted_list(
            values in prop::collection::vec(
                prop_oneof![
                    (0_u32..1_000).prop_map(f64::from),
                    any::<u32>().prop_map(f64::from),
                    prop::num::f64::ANY.prop_filter("a number", |x| !x.is_nan()),
                ],
                0..400,
            )
        ) {
            agrees(values);
        }
    }

    #[test]
    fn one_number_far_away_and_many_equal_ones() {
        agrees([vec![7.0; 5_000], vec![4e9], (0..5_000).map(f64::from).collect()].concat());
        agrees([vec![10_000_000.25; 5_000], vec![f64::INFINITY, -3.5]].concat());
        agrees(Vec::new());
    }
}
