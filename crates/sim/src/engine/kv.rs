//! KV blocks: a fixed number of them, reference-counted, found again by hash until they are needed
//! for something else (least recently freed goes first).

use std::collections::VecDeque;

use crate::draw::IdMap;

/// Index of a block.
pub type Block = u32;

#[derive(Debug, Clone, Default)]
struct Slot {
    refs: u32,
    hash: Option<u64>,
    /// Bumped whenever the block leaves the free list, so that stale entries there are recognised.
    stamp: u32,
}

/// A pool of KV blocks with a prefix cache.
#[derive(Debug)]
pub struct KvPool {
    slots: Vec<Slot>,
    /// Blocks without a user, the next to be taken at the front; entries with an old stamp are void.
    free: VecDeque<(Block, u32)>,
    free_count: u32,
    by_hash: IdMap<u64, Block>,
    caching: bool,
}

impl KvPool {
    /// `total` free blocks; `caching`: blocks keep their hash when they are freed.
    pub fn new(total: u32, caching: bool) -> Self {
        Self {
            slots: vec![Slot::default(); total as usize],
            free: (0..total).map(|b| (b, 0)).collect(),
            free_count: total,
            by_hash: IdMap::default(),
            caching,
        }
    }

    /// Blocks without a user.
    pub fn free(&self) -> u32 {
        self.free_count
    }

    /// All blocks.
    pub fn total(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Length of the longest run of blocks, from the first hash on, that is held, and how many of
    /// these have no user (taking them uses up free blocks).
    pub fn lookup(&self, hashes: &[u64]) -> (usize, u32) {
        let mut idle = 0;
        for (i, hash) in hashes.iter().enumerate() {
            match self.by_hash.get(hash) {
                Some(block) => idle += u32::from(self.slots[*block as usize].refs == 0),
                None => return (i, idle),
            }
        }
        (hashes.len(), idle)
    }

    /// Takes the blocks of these hashes, all of which `lookup` has just found.
    pub fn share(&mut self, hashes: &[u64], into: &mut Vec<Block>) {
        for hash in hashes {
            let Some(&block) = self.by_hash.get(hash) else { return };
            let slot = &mut self.slots[block as usize];
            if slot.refs == 0 {
                slot.stamp = slot.stamp.wrapping_add(1);
                self.free_count -= 1;
            }
            slot.refs += 1;
            into.push(block);
        }
    }

    /// Takes `n` blocks without content; `false` and nothing taken when there are too few.
    pub fn take(&mut self, n: u32, into: &mut Vec<Block>) -> bool {
        if n > self.free_count {
            return false;
        }
        let mut left = n;
        while left > 0 {
            let Some((block, stamp)) = self.free.pop_front() else { return false };
            let slot = &mut self.slots[block as usize];
            if slot.stamp != stamp || slot.refs > 0 {
                continue;
            }
            slot.stamp = slot.stamp.wrapping_add(1);
            slot.refs = 1;
            if let Some(hash) = slot.hash.take() {
                self.by_hash.remove(&hash);
            }
            self.free_count -= 1;
            into.push(block);
            left -= 1;
        }
        true
    }

    /// Says what a full, computed block holds. When another block holds the same already, that one
    /// stays the one that is found.
    pub fn name(&mut self, block: Block, hash: u64) {
        if self.caching && self.slots[block as usize].hash.is_none() && !self.by_hash.contains_key(&hash) {
            self.slots[block as usize].hash = Some(hash);
            self.by_hash.insert(hash, block);
        }
    }

    /// Gives blocks back; the last of a sequence is taken again first, because a prefix is worth
    /// more than its tail.
    pub fn give_back(&mut self, blocks: &mut Vec<Block>) {
        while let Some(block) = blocks.pop() {
            let slot = &mut self.slots[block as usize];
            slot.refs -= 1;
            if slot.refs == 0 {
                self.free.push_back((block, slot.stamp));
                self.free_count += 1;
            }
        }
        // Void entries pile up when cached blocks are shared again and again.
        if self.free.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.free.retain(|(b, stamp)| {
                let slot = &slots[*b as usize];
                slot.refs == 0 && slot.stamp == *stamp
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_found_again_until_they_are_needed() {
        let mut pool = KvPool::new(4, true);
        let mut a = Vec::new();
        assert!(pool.take(3, &mut a));
        for (block, hash) in a.clone().into_iter().zip([11, 12, 13]) {
            pool.name(block, hash);
        }
        assert!(!pool.take(2, &mut Vec::new()), "only one is free");
        pool.give_back(&mut a);
        assert_eq!(pool.free(), 4);
        assert_eq!(pool.lookup(&[11, 12, 99]), (2, 2));
        let mut b = Vec::new();
        pool.share(&[11, 12], &mut b);
        assert_eq!((b.len(), pool.free()), (2, 2));
        // The unused block goes first, then the freed tail (13).
        let mut c = Vec::new();
        assert!(pool.take(1, &mut c));
        assert_eq!(pool.lookup(&[11, 12, 13]).0, 3);
        assert!(pool.take(1, &mut c));
        assert_eq!(pool.lookup(&[11, 12, 13]).0, 2);
        pool.give_back(&mut b);
        pool.give_back(&mut c);
        assert_eq!(pool.free(), 4);
    }

    #[test]
    fn without_caching_nothing_is_found() {
        let mut pool = KvPool::new(2, false);
        let mut a = Vec::new();
        assert!(pool.take(1, &mut a));
        pool.name(a[0], 5);
        pool.give_back(&mut a);
        assert_eq!(pool.lookup(&[5]), (0, 0));
    }
}
