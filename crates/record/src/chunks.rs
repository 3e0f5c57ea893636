//! The chunks of one answer, kept small: a run of a million answers fits into memory.
//!
//! A chunk takes 48 bytes as a struct and about 10 here: what it shares with the chunk before it, or
//! with itself, is not written again. The form is exact for every value and lives in memory only; the
//! journal's form is in `columns`.

use std::ops::{Deref, DerefMut};

use spec::Nanos;

use crate::row::{Chunk, Kind};

/// Bits of the byte that a chunk begins with.
mod has {
    /// The arrival is the kernel's stamp.
    pub const KERNEL: u8 = 1;
    /// Two bits of the kind.
    pub const KIND: u8 = 0b110;
    /// An earliest arrival that is not the arrival.
    pub const EARLIEST: u8 = 1 << 3;
    /// A token count.
    pub const TOKENS: u8 = 1 << 4;
    /// A choice that is not 0.
    pub const CHOICE: u8 = 1 << 5;
    /// A read that is not the one after the chunk's before (for the first chunk: not read 0).
    pub const READ: u8 = 1 << 6;
}

/// The chunks of one answer in the order in which they came. Reads as an iterator of [`Chunk`]s.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Chunks {
    count: u32,
    /// Where the last chunk begins, and what it is told against.
    last: (u32, Before),
    /// The largest arrival.
    latest: u64,
    bytes: Box<[u8]>,
}

impl Chunks {
    /// How many.
    pub fn len(&self) -> usize {
        self.count as usize
    }
    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// In order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { left: self.count, bytes: &self.bytes, before: Before::default() }
    }
    /// The first.
    pub fn first(&self) -> Option<Chunk> {
        self.iter().next()
    }
    /// The last.
    pub fn last(&self) -> Option<Chunk> {
        let (at, before) = self.last;
        Iter { left: self.count.min(1), bytes: self.bytes.get(at as usize..)?, before }.next()
    }
    /// The largest arrival: that of the last chunk, unless stamps ran backwards.
    pub fn latest(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.latest))
    }
    /// The chunk at a place; reads all before it.
    pub fn get(&self, place: usize) -> Option<Chunk> {
        self.iter().nth(place)
    }
    /// Each chunk with the one after it.
    pub fn pairs(&self) -> impl Iterator<Item = (Chunk, Chunk)> {
        let mut before = None;
        self.iter().filter_map(move |chunk| Some((before.replace(chunk)?, chunk)))
    }
    /// Each chunk with its place among those of the same read, from 1.
    pub fn within_reads(&self) -> impl Iterator<Item = (Chunk, u32)> {
        let (mut read, mut place) = (None, 0);
        self.iter().map(move |chunk| {
            place = if read == Some(chunk.read) { place + 1 } else { 1 };
            read = Some(chunk.read);
            (chunk, place)
        })
    }
    /// A list that can be changed; it is packed again when it is dropped.
    pub fn edit(&mut self) -> Edit<'_> {
        Edit { list: self.iter().collect(), chunks: self }
    }
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl FromIterator<Chunk> for Chunks {
    /// Packs up to 2³² − 1 chunks; no answer has more.
    fn from_iter<I: IntoIterator<Item = Chunk>>(chunks: I) -> Self {
        let chunks = chunks.into_iter();
        let mut bytes = Vec::with_capacity(chunks.size_hint().0.saturating_mul(12));
        let mut packed = Self::default();
        let mut before = Before::default();
        for chunk in chunks.take(u32::MAX as usize) {
            // An answer whose chunks take 4 GiB could not have been received.
            packed.last = (bytes.len() as u32, before);
            packed.latest = packed.latest.max(chunk.arrival.0);
            packed.count += 1;
            pack(&mut bytes, before, &chunk);
            before.then(&chunk);
        }
        Self { bytes: bytes.into_boxed_slice(), ..packed }
    }
}

impl From<Vec<Chunk>> for Chunks {
    fn from(chunks: Vec<Chunk>) -> Self {
        chunks.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Chunks {
    type Item = Chunk;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// What the next chunk is told against.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Before {
    arrival: u64,
    /// The read that is expected next.
    read: u32,
}

impl Before {
    fn then(&mut self, chunk: &Chunk) {
        *self = Before { arrival: chunk.arrival.0, read: chunk.read.wrapping_add(1) };
    }
}

fn pack(bytes: &mut Vec<u8>, before: Before, chunk: &Chunk) {
    let kind = match chunk.kind {
        Kind::Answer => 0,
        Kind::Reasoning => 1,
        Kind::ToolCall => 2,
        Kind::Refusal => 3,
    };
    let when = |given: bool, bit: u8| if given { bit } else { 0 };
    bytes.push(
        when(chunk.kernel, has::KERNEL)
            | (kind << has::KIND.trailing_zeros())
            | when(chunk.earliest != chunk.arrival, has::EARLIEST)
            | when(chunk.tokens.is_some(), has::TOKENS)
            | when(chunk.choice != 0, has::CHOICE)
            | when(chunk.read != before.read, has::READ),
    );
    // Differences wrap, so that every value is exact.
    put(bytes, zigzag(chunk.arrival.0.wrapping_sub(before.arrival)));
    put(bytes, zigzag(chunk.seen.0.wrapping_sub(chunk.arrival.0)));
    put(bytes, u64::from(chunk.text_bytes));
    if chunk.earliest != chunk.arrival {
        put(bytes, zigzag(chunk.arrival.0.wrapping_sub(chunk.earliest.0)));
    }
    if let Some(tokens) = chunk.tokens {
        put(bytes, u64::from(tokens));
    }
    if chunk.choice != 0 {
        put(bytes, u64::from(chunk.choice));
    }
    if chunk.read != before.read {
        put(bytes, u64::from(chunk.read));
    }
}

/// Small differences of either sign become small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Seven bits for each byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The number in the low seven bits of each byte.
fn join_sevens(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// The chunks of one answer, one after another.
#[derive(Clone)]
pub struct Iter<'a> {
    left: u32,
    bytes: &'a [u8],
    before: Before,
}

impl Iter<'_> {
    /// The next byte. What was packed is never short of one: 0 stands for what cannot happen.
    #[inline(always)]
    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((byte, rest)) => {
                self.bytes = rest;
                *byte
            }
            None => 0,
        }
    }
    #[inline(always)]
    fn value(&mut self) -> u64 {
        // Up to 8 bytes at once: a report reads the chunks of a run some twenty times.
        if let Some((word, _)) = self.bytes.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            let last = !word & 0x8080_8080_8080_8080;
            if last != 0 {
                let bits = last.trailing_zeros() + 1;
                self.bytes = &self.bytes[bits as usize / 8..];
                return join_sevens(word & (u64::MAX >> (64 - bits)));
            }
        }
        self.long_value()
    }
    /// One that takes more, or stands near the end.
    #[cold]
    fn long_value(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift = (shift + 7) & 63;
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Chunk;

    // Inlined, what a reader does not ask for is not computed; a summary reads millions a dozen times.
    #[inline(always)]
    fn next(&mut self) -> Option<Chunk> {
        self.left = self.left.checked_sub(1)?;
        let flags = self.byte();
        let arrival = self.before.arrival.wrapping_add(unzigzag(self.value()));
        let seen = arrival.wrapping_add(unzigzag(self.value()));
        let text_bytes = self.value() as u32;
        let given = |bit| flags & bit != 0;
        let earliest =
            if given(has::EARLIEST) { arrival.wrapping_sub(unzigzag(self.value())) } else { arrival };
        let chunk = Chunk {
            arrival: Nanos(arrival),
            seen: Nanos(seen),
            earliest: Nanos(earliest),
            kernel: given(has::KERNEL),
            kind: match (flags & has::KIND) >> has::KIND.trailing_zeros() {
                0 => Kind::Answer,
                1 => Kind::Reasoning,
                2 => Kind::ToolCall,
                _ => Kind::Refusal,
            },
            tokens: given(has::TOKENS).then(|| self.value() as u32),
            text_bytes,
            choice: if given(has::CHOICE) { self.value() as u16 } else { 0 },
            read: if given(has::READ) { self.value() as u32 } else { self.before.read },
        };
        self.before.then(&chunk);
        Some(chunk)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The chunks as a list that can be changed.
pub struct Edit<'a> {
    chunks: &'a mut Chunks,
    list: Vec<Chunk>,
}

impl Deref for Edit<'_> {
    type Target = Vec<Chunk>;
    fn deref(&self) -> &Vec<Chunk> {
        &self.list
    }
}

impl DerefMut for Edit<'_> {
    fn deref_mut(&mut self) -> &mut Vec<Chunk> {
        &mut self.list
    }
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        *self.chunks = std::mem::take(&mut self.list).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(at: u64, read: u32) -> Chunk {
        Chunk {
            arrival: Nanos(at),
            seen: Nanos(at + 15_000),
            earliest: Nanos(at),
            kernel: true,
            read,
            kind: Kind::Answer,
            tokens: None,
            text_bytes: 6,
            choice: 0,
        }
    }

    #[test]
    fn a_usual_chunk_takes_nine_bytes() {
        let list: Vec<Chunk> = (0..64).map(|i| chunk(100_000_000 + u64::from(i) * 10_000_000, i)).collect();
        let chunks = Chunks::from(list.clone());
        // A flag byte; 10 ms in 4; 15 µs in 3; 6 in 1. The first differs by 100 ms, which takes 4 too.
        assert_eq!(chunks.bytes.len(), 64 * 9);
        assert_eq!(chunks.iter().collect::<Vec<_>>(), list);
        assert_eq!((chunks.first(), chunks.last()), (list.first().copied(), list.last().copied()));
        assert_eq!((chunks.get(7), chunks.get(64)), (Some(list[7]), None));
        assert!(chunks.pairs().eq(list.windows(2).map(|pair| (pair[0], pair[1]))));
    }

    #[test]
    fn chunks_of_one_read_are_counted() {
        let chunks: Chunks = [0, 0, 0, 1, 2, 2].into_iter().map(|read| chunk(1, read)).collect();
        assert!(chunks.within_reads().map(|(_, place)| place).eq([1, 2, 3, 1, 1, 2]));
    }

    #[test]
    fn every_extreme_is_exact() {
        let extreme = |at: u64, seen: u64, earliest: u64| {
            Chunk {
                seen: Nanos(seen),
                earliest: Nanos(earliest),
                kernel: false,
                kind: Kind::Refusal,
                tokens: Some(u32::MAX),
                text_bytes: u32::MAX,
                choice: u16::MAX,
                ..chunk(0, u32::MAX)
            }
            .at(at)
        };
        let list = [
            extreme(u64::MAX, 0, 1),
            extreme(0, u64::MAX, u64::MAX),
            extreme(1 << 63, 0, (1 << 63) + 1),
            extreme(0, 1 << 63, 0),
            Chunk { tokens: Some(0), kind: Kind::ToolCall, ..chunk(5, 0) },
            Chunk { kind: Kind::Reasoning, ..chunk(4, 0) },
        ];
        for n in 1..=list.len() {
            let chunks: Chunks = list[..n].iter().copied().collect();
            assert!(chunks.iter().eq(list[..n].iter().copied()));
            assert_eq!(chunks.last(), Some(list[n - 1]));
            assert_eq!(chunks.latest(), list[..n].iter().map(|chunk| chunk.arrival).max());
        }
        assert!((Chunks::default().last(), Chunks::default().latest()) == (None, None));
        assert!(Chunks::default().is_empty() && Chunks::default().first().is_none());
    }

    impl Chunk {
        fn at(self, at: u64) -> Chunk {
            Chunk { arrival: Nanos(at), ..self }
        }
    }

    #[test]
    fn what_is_edited_is_packed_again() {
        let mut chunks: Chunks = (0..3).map(|i| chunk(u64::from(i) * 1_000, i)).collect();
        chunks.edit()[1].tokens = Some(4);
        chunks.edit().truncate(2);
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks.last().map(|c| c.tokens), Some(Some(4)));
    }
}
