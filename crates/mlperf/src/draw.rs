//! The draws of LoadGen: `std::mt19937` under the distributions of libstdc++ 11 and later.
//!
//! GCC up to 10 and libc++ draw other numbers from the same seeds: an order of samples is that of this
//! library, not of the seeds alone.

use rand_mt::Mt;

/// One generator.
#[derive(Debug, Clone)]
pub struct Draws(Mt);

impl Draws {
    /// From a seed; of 64 bits the low 32 count.
    pub fn new(seed: u64) -> Self {
        Self(Mt::new(seed as u32))
    }

    /// 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// `std::generate_canonical<double, 53>`: in [0, 1), from two draws, the low word first.
    pub fn canonical(&mut self) -> f64 {
        const WORD: f64 = 4_294_967_296.0;
        let low = f64::from(self.bits());
        let high = f64::from(self.bits());
        let share = (low + high * WORD) / (WORD * WORD);
        if share < 1.0 { share } else { 1.0_f64.next_down() }
    }

    /// `std::uniform_int_distribution`: below `n`, which is at least 1 (Lemire 2019).
    pub fn below(&mut self, n: u32) -> u32 {
        let mut product = u64::from(self.bits()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.bits()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// `std::shuffle`: where the generator's range allows, one draw gives two places.
    pub fn shuffle(&mut self, list: &mut [u32]) {
        let n = list.len();
        if u32::MAX as usize / n.max(1) < n {
            for i in 1..n {
                let other = self.below(i as u32 + 1) as usize;
                list.swap(i, other);
            }
            return;
        }
        let mut i = 1;
        if n.is_multiple_of(2) && n > 0 {
            list.swap(1, self.below(2) as usize);
            i = 2;
        }
        while i < n {
            let range = i as u32 + 1;
            let both = self.below(range * (range + 1));
            list.swap(i, (both / (range + 1)) as usize);
            list.swap(i + 1, (both % (range + 1)) as usize);
            i += 2;
        }
    }

    /// `std::exponential_distribution` of `rate` per second, in whole nanoseconds, cut.
    pub fn exponential_ns(&mut self, rate: f64) -> u64 {
        let seconds = -libm::log(1.0 - self.canonical()) / rate;
        (seconds * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard names this number: the ten-thousandth of the default seed.
    #[test]
    fn the_generator_is_mt19937() {
        let mut draws = Draws::new(5489);
        let last = (0..10_000).map(|_| draws.bits()).last();
        assert_eq!(last, Some(4_123_659_995));
        // High words of a seed do not count.
        assert_eq!(Draws::new(5489 | 7 << 32).bits(), Draws::new(5489).bits());
    }

    #[test]
    fn draws_stay_within_their_range() {
        let mut draws = Draws::new(1);
        for n in [1, 2, 3, 1000, u32::MAX] {
            assert!((0..1000).all(|_| draws.below(n) < n));
        }
        assert!((0..1000).map(|_| draws.canonical()).all(|share| (0.0..1.0).contains(&share)));
        for n in [0, 1, 2, 3, 4, 65_535, 65_536] {
            let mut list: Vec<u32> = (0..n).collect();
            draws.shuffle(&mut list);
            list.sort_unstable();
            assert!(list.into_iter().eq(0..n), "{n}");
        }
    }
}
