//! Random streams and hashes: pure functions of their inputs, the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// Version of the derivation, of the word lists and of every draw built on them. A change of any
/// prompt's text raises it; it is part of the corpus's fingerprint.
pub(crate) const VERSION: u32 = 1;

/// The stream `name` of `seed`, for the item `index`: ChaCha with 8 rounds.
///
/// The 32-byte key is four outputs of SplitMix64 (Steele, Lea and Flood 2014), little-endian. Its
/// start is `mix(seed) ^ fnv1a64("inferometer/" VERSION "/corpus/" name ‖ index as 8 bytes LE)`.
pub(crate) fn stream(seed: u64, name: &str, index: u64) -> ChaCha8Rng {
    let mut hash = Fnv::new();
    hash.bytes(format!("inferometer/{VERSION}/corpus/{name}").as_bytes());
    hash.bytes(&index.to_le_bytes());
    let mut state = mix(seed) ^ hash.value();
    let mut key = [0u8; 32];
    for word in key.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&mix(state).to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// The output function of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An index below `n` (multiply and shift; the bias is below n/2³²). `n` of 0 gives 0.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// Fisher and Yates's shuffle.
pub(crate) fn shuffle<T>(rng: &mut ChaCha8Rng, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i + 1));
    }
}

/// The 64-bit Fowler–Noll–Vo hash 1a, finished by SplitMix64's mixer so that every bit counts.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    pub(crate) fn value(&self) -> u64 {
        mix(self.0)
    }
}

/// Hash of bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(bytes);
    hash.value()
}

/// Hash of token ids.
pub(crate) fn hash_ids(ids: &[u32]) -> u64 {
    let mut hash = Fnv::new();
    for id in ids {
        hash.bytes(&id.to_le_bytes());
    }
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_name_and_index_and_nothing_else() {
        let first = |seed, name, index| stream(seed, name, index).next_u64();
        assert_eq!(first(1, "text", 7), first(1, "text", 7));
        let all = [first(1, "text", 7), first(2, "text", 7), first(1, "order", 7), first(1, "text", 8)];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn split_mix_matches_its_published_vector() {
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        shuffle(&mut stream(5, "order", 0), &mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
