//! From the one seed of a spec to keys of named random streams, the same on every machine.

/// The output function of SplitMix64 (Steele, Lea and Flood 2014).
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of the stream that `path` names under `seed`: four outputs of SplitMix64, little-endian,
/// started at `mix(seed) ^ fnv1a64(path)`. A path begins with `inferometer/` and the version of the
/// draws built on it, so that a change of any draw gives other streams.
pub fn stream_key(seed: u64, path: &[u8]) -> [u8; 32] {
    let mut hash = Fnv::default();
    hash.bytes(path);
    let mut state = mix(seed) ^ hash.value();
    let mut key = [0u8; 32];
    for word in key.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mix(state).to_le_bytes());
    }
    key
}

/// The seed of one part of a whole that has `seed`: of 53 bits, so that every reader of JSON keeps it.
pub fn derived(seed: u64, path: &[u8]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = stream_key(seed, path);
    u64::from_le_bytes([a, b, c, d, e, f, g, h]) >> 11
}

/// The 64-bit Fowler–Noll–Vo hash 1a.
#[derive(Debug, Clone)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes bytes in.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    /// Takes a word in, little-endian.
    pub fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }
    /// The hash so far, mixed so that every bit counts.
    pub fn mixed(&self) -> u64 {
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_matches_its_published_vector() {
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    /// Vectors of the FNV reference.
    #[test]
    fn fnv_matches_its_published_vectors() {
        for (text, expected) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8_u64)]
        {
            let mut hash = Fnv::default();
            hash.bytes(text.as_bytes());
            assert_eq!(hash.value(), expected, "{text}");
        }
    }
}
