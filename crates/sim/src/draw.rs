//! Seeded draws by number: the value depends on seed, stream and number alone, never on the order
//! of the calls, so a request keeps its luck whatever else happens.

use std::f64::consts::TAU;

/// The named streams. The discriminants are part of the format: a seed means the same in every
/// version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Step-time and latency noise.
    Noise = 1,
    /// Output length where the model ends by itself.
    Length = 2,
    /// Words of an answer.
    Words = 3,
    /// Faults that strike with a probability.
    Faults = 4,
}

/// SplitMix64's output function (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014): a bijection with full avalanche.
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 64 random bits: draw `n` of `stream` under `seed`.
pub fn bits(seed: u64, stream: Stream, n: u64) -> u64 {
    mix(mix(mix(seed) ^ stream as u64) ^ n)
}

/// Uniform in `[0, 1)` with 53 bits.
pub fn uniform(seed: u64, stream: Stream, n: u64) -> f64 {
    (bits(seed, stream, n) >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal (Box–Muller on draws `2n` and `2n + 1`).
pub fn normal(seed: u64, stream: Stream, n: u64) -> f64 {
    let u = 1.0 - uniform(seed, stream, n.wrapping_mul(2));
    let v = uniform(seed, stream, n.wrapping_mul(2).wrapping_add(1));
    (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
}

/// A multiplicative error of mean 1 whose coefficient of variation is `cv` (log-normal); exactly 1
/// for `cv` = 0.
pub fn wobble(cv: f64, seed: u64, n: u64) -> f64 {
    if cv <= 0.0 {
        return 1.0;
    }
    let sigma2 = (1.0 + cv * cv).ln();
    (sigma2.sqrt() * normal(seed, Stream::Noise, n) - sigma2 / 2.0).exp()
}

/// Hashes a `u64` key by [`mix`]: quick, and the same in every run.
#[derive(Debug, Clone, Copy, Default)]
pub struct MixHasher(u64);

impl std::hash::Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0 ^ n);
    }
}

/// A map with `u64`-like keys.
pub type IdMap<K, V> = std::collections::HashMap<K, V, std::hash::BuildHasherDefault<MixHasher>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_matches_its_published_first_outputs() {
        // SplitMix64 with state 0 yields these first (reference implementation of S. Vigna).
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn the_wobble_has_mean_one_and_the_asked_spread() {
        let n = 40_000;
        let xs: Vec<f64> = (0..n).map(|i| wobble(0.1, 7, i)).collect();
        let mean = xs.iter().sum::<f64>() / n as f64;
        let var = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        assert!((mean - 1.0).abs() < 4.0 * 0.1 / (n as f64).sqrt(), "{mean}");
        assert!((var.sqrt() - 0.1).abs() < 0.003, "{}", var.sqrt());
        assert!((wobble(0.0, 7, 3) - 1.0).abs() < f64::EPSILON);
    }
}
