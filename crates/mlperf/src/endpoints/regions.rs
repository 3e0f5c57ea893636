//! Regions of concurrency, drawn in the logarithm of a curve's own smallest and largest.

use serde::Serialize;

use super::Rules;

/// A region of concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// From 1 up to a fixed number.
    #[serde(rename = "low_latency")]
    UltraLow,
    /// The first third.
    #[serde(rename = "low_concurrency")]
    Low,
    /// The second.
    #[serde(rename = "med_concurrency")]
    Medium,
    /// The third.
    #[serde(rename = "high_concurrency")]
    High,
    /// Beyond the largest concurrency: legal, and counts for none.
    Margin,
}

/// The boundaries of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Regions {
    /// The smallest concurrency.
    pub c_min: u64,
    /// Where Low ends, itself part of it.
    pub low_end: u64,
    /// Where Medium ends.
    pub medium_end: u64,
    /// The largest concurrency, where High ends.
    pub c_max: u64,
    /// Where the margin ends.
    pub margin_end: u64,
    ultra_low_most: u64,
}

/// A concurrency beyond this is a slip.
const MOST: u64 = 1 << 32;

impl Regions {
    /// Three equal parts of the logarithm of what lies between the two.
    ///
    /// # Errors
    /// A largest concurrency that the rules do not allow, or not above the smallest.
    pub fn new(rules: &Rules, c_min: u64, c_max: u64) -> Result<Self, String> {
        if c_max <= rules.ultra_low_most || c_max > MOST {
            return Err(format!(
                "the largest concurrency must be above {} and no slip of the pen: {c_max}",
                rules.ultra_low_most
            ));
        }
        if c_min == 0 || c_min >= c_max {
            return Err(format!("the smallest concurrency must lie between 1 and {c_max}: {c_min}"));
        }
        let third = ((c_max - c_min) as f64).log2() / 3.0;
        let end = |thirds: f64| (c_min as f64 + (thirds * third).exp2()).round_ties_even() as u64;
        Ok(Self {
            c_min,
            low_end: end(1.0),
            medium_end: end(2.0),
            c_max,
            margin_end: (rules.margin * c_max as f64).ceil() as u64,
            ultra_low_most: rules.ultra_low_most,
        })
    }

    /// The regions that a concurrency lies in; none: it is not legal. That of ultra-low concurrency is fixed
    /// and may overlap the others.
    pub fn of(&self, concurrency: u64) -> Vec<Region> {
        let mut of = Vec::new();
        if (1..=self.ultra_low_most).contains(&concurrency) {
            of.push(Region::UltraLow);
        }
        if concurrency > self.c_min {
            let ends = [
                (self.low_end, Region::Low),
                (self.medium_end, Region::Medium),
                (self.c_max, Region::High),
                (self.margin_end, Region::Margin),
            ];
            of.extend(ends.into_iter().find(|(end, _)| concurrency <= *end).map(|(_, region)| region));
        }
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_by_hand() {
        let rules = Rules::v1_0().expect("data");
        // log2(1008) / 3 = 3.32579: 16 + 10.03, 16 + 100.5.
        let regions = Regions::new(rules, 16, 1024).expect("regions");
        assert_eq!((regions.low_end, regions.medium_end, regions.margin_end), (26, 117, 1127));
        // 64 between them: 4 and 16 beyond the smallest.
        let regions = Regions::new(rules, 1, 65).expect("regions");
        assert_eq!((regions.low_end, regions.medium_end, regions.margin_end), (5, 17, 72));
        assert_eq!(regions.of(1), [Region::UltraLow]);
        assert_eq!(regions.of(5), [Region::UltraLow, Region::Low]);
        assert_eq!(
            (regions.of(17), regions.of(18)),
            (vec![Region::UltraLow, Region::Medium], vec![Region::UltraLow, Region::High])
        );
        assert_eq!((regions.of(65), regions.of(66)), (vec![Region::High], vec![Region::Margin]));
        assert_eq!((regions.of(0), regions.of(73)), (vec![], vec![]));
        for (min, max) in [(1, 32), (0, 100), (100, 100), (1, u64::MAX)] {
            assert!(Regions::new(rules, min, max).is_err(), "{min} {max}");
        }
    }
}
