//! Random streams and hashes: pure functions of their inputs, the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use spec::seed::{Fnv, mix, stream_key};

/// Version of the derivation, of the word lists and of every draw built on them. A change of any
/// prompt's text raises it; it is part of the corpus's fingerprint.
pub(crate) const VERSION: u32 = 1;

/// The stream `name` of `seed`, for the item `index`: ChaCha with 8 rounds, keyed by
/// [`spec::seed::stream_key`] of `inferometer/VERSION/corpus/NAME` and the index as 8 bytes,
/// little-endian.
pub(crate) fn stream(seed: u64, name: &str, index: u64) -> ChaCha8Rng {
    let mut path = format!("inferometer/{VERSION}/corpus/{name}").into_bytes();
    path.extend_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(stream_key(seed, &path))
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

/// Where `index` goes under a seeded permutation of `0..n`, without a table: a Feistel network over
/// the next even power of two, walked until it falls inside (Black and Rogaway 2002). `index` must
/// be below `n`.
pub(crate) fn permuted(rng: &mut ChaCha8Rng, index: u64, n: u64) -> u64 {
    let half = (64 - n.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let keys: [u64; 6] = std::array::from_fn(|_| rng.next_u64());
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for key in keys {
            (left, right) = (right, (left ^ mix(right ^ key)) & mask);
        }
        value = (left << half) | right;
        if value < n {
            return value;
        }
    }
}

/// Hash of bytes, mixed so that every bit counts.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.bytes(bytes);
    hash.mixed()
}

/// Hash of token ids, mixed likewise.
pub(crate) fn hash_ids(ids: &[u32]) -> u64 {
    let mut hash = Fnv::default();
    for id in ids {
        hash.bytes(&id.to_le_bytes());
    }
    hash.mixed()
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
    fn a_permutation_hits_every_place_once() {
        for n in [1u64, 2, 3, 5, 16, 17, 100, 1000] {
            let places: std::collections::BTreeSet<u64> =
                (0..n).map(|i| permuted(&mut stream(4, "group", 0), i, n)).collect();
            assert_eq!(places.into_iter().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
        }
        let order: Vec<u64> = (0..100).map(|i| permuted(&mut stream(4, "group", 0), i, 100)).collect();
        let steps = order.windows(2).filter(|w| w[1] == w[0] + 1).count();
        assert!(steps < 10, "{order:?}");
        assert!(permuted(&mut stream(4, "group", 0), 7, u64::from(u32::MAX)) < u64::from(u32::MAX));
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
