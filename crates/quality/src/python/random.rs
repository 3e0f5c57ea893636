use rand_mt::Mt;
use sha2::{Digest, Sha512};

/// `random.Random`: MT19937 seeded by `init_by_array`, and the draws of `Lib/random.py` in their order.
#[derive(Debug, Clone)]
pub struct Random(Mt);

impl Random {
    /// `Random(seed)` with a whole number. Python takes the absolute value of a negative one.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = if high == 0 { vec![low] } else { vec![low, high] };
        Self(Mt::new_with_key(key))
    }

    /// `Random(seed)` with a text (version 2): the text and its SHA-512 as one big-endian number.
    #[must_use]
    pub fn from_text(seed: &str) -> Self {
        let mut bytes = seed.as_bytes().to_vec();
        bytes.extend(Sha512::digest(seed.as_bytes()));
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        let words = bytes[first..]
            .rchunks(4)
            .map(|chunk| chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)));
        Self(Mt::new_with_key(words.collect::<Vec<_>>()))
    }

    /// `random()`: in [0, 1), 53 bits.
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.0.next_u32() >> 5);
        let low = f64::from(self.0.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// `uniform(low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// `getrandbits(count)`, `count` at most 128; more is taken as 128.
    pub fn bits(&mut self, count: u32) -> u128 {
        let count = count.min(128);
        let mut out = 0;
        let mut done = 0;
        while done < count {
            let wanted = (count - done).min(32);
            out |= u128::from(self.0.next_u32() >> (32 - wanted)) << done;
            done += wanted;
        }
        out
    }

    /// `_randbelow(n)`: in [0, n), and 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let draw = self.bits(bits) as u64;
            if draw < n {
                return draw;
            }
        }
    }

    /// `randrange(start, stop)`: in [start, stop); `start` where the range is empty (Python raises).
    pub fn randrange(&mut self, start: i64, stop: i64) -> i64 {
        let width = u64::try_from(i128::from(stop) - i128::from(start)).unwrap_or(0);
        start.wrapping_add_unsigned(self.below(width))
    }

    /// `randint(first, last)`: both ends included.
    pub fn randint(&mut self, first: i64, last: i64) -> i64 {
        self.randrange(first, last.saturating_add(1))
    }

    /// `choice(list)`; `None` of an empty list, without a draw.
    pub fn choice<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let at = if list.is_empty() { 0 } else { self.below(list.len() as u64) };
        list.get(at as usize)
    }

    /// The place that `choices(list, k=1)` takes of `n`: by `random()`, unlike [`Random::choice`].
    pub fn floor_of(&mut self, n: usize) -> usize {
        (self.random() * n as f64) as usize
    }

    /// `shuffle(list)`.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let other = self.below(i as u64 + 1) as usize;
            list.swap(i, other);
        }
    }

    /// The places that `sample(population, count)` takes of `n`, in its order; `None` where `count` is above
    /// `n` (Python raises).
    pub fn sample(&mut self, n: usize, count: usize) -> Option<Vec<usize>> {
        if count > n {
            return None;
        }
        let mut taken = Vec::with_capacity(count);
        if n <= largest_pool(count) {
            let mut pool: Vec<usize> = (0..n).collect();
            for i in 0..count {
                let at = self.below((n - i) as u64) as usize;
                taken.push(pool[at]);
                pool[at] = pool[n - i - 1];
            }
        } else {
            let mut seen = std::collections::BTreeSet::new();
            while taken.len() < count {
                let at = self.below(n as u64) as usize;
                if seen.insert(at) {
                    taken.push(at);
                }
            }
        }
        Some(taken)
    }
}

/// `numpy.random.seed(seed)` and the legacy draws after it: the same generator, seeded and used otherwise.
#[derive(Debug, Clone)]
pub struct NumpyRandom(Mt);

impl NumpyRandom {
    /// `numpy.random.seed(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// `numpy.random.randint(low, high)`: in [low, high), by masked rejection; `low` where the range is empty
    /// (numpy raises).
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        let Ok(widest) = u64::try_from(i128::from(high) - i128::from(low) - 1) else { return low };
        if widest == 0 {
            return low;
        }
        let mask = u64::MAX >> widest.leading_zeros();
        loop {
            let word = u64::from(self.0.next_u32());
            let draw =
                if widest > u64::from(u32::MAX) { word << 32 | u64::from(self.0.next_u32()) } else { word };
            if draw & mask <= widest {
                return low.wrapping_add_unsigned(draw & mask);
            }
        }
    }
}

/// Up to which population `sample` shuffles a list of it; above that it draws until it has enough.
fn largest_pool(count: usize) -> usize {
    let mut table = 1_usize;
    while table < count.saturating_mul(3) {
        table = table.saturating_mul(4);
    }
    if count > 5 { table.saturating_add(21) } else { 21 }
}
