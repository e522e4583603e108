//! Builder of adjacency lists from keys in memory. Keys are distributed to buckets of adjacent
//! vertices. Each bucket fits into the cache and is sorted separately.

use std::sync::{Mutex, PoisonError};

use super::keys::Keys;
use super::lists::trusted;
use crate::adjacency::Adjacency;
use crate::error::Result;
use eciton_input::threads::on_threads;

/// Binary logarithm of the maximum number of buckets. Each bucket is written in a memory page of
/// its own, and the processor's address cache (TLB) must hold all these pages.
const MAX_BUCKETS_LOG2: u32 = 9;
/// Number of keys that are collected for a bucket before they are appended to its current block.
/// They fill four cache lines.
const STAGED: usize = 32;
/// Number of keys in one block of a bucket.
const BLOCK: usize = 4096;

/// Distributor of the keys that one thread reads to buckets.
struct Dealer {
    shift: u32,
    staged: Vec<[u64; STAGED]>,
    counts: Vec<u8>,
    blocks: Vec<Vec<Vec<u64>>>,
}

impl Dealer {
    fn new(buckets: usize, shift: u32) -> Self {
        Self {
            shift,
            staged: vec![[0; STAGED]; buckets],
            counts: vec![0; buckets],
            blocks: vec![Vec::new(); buckets],
        }
    }

    #[inline]
    fn take(&mut self, key: u64) {
        let bucket = (key >> self.shift) as usize;
        let count = &mut self.counts[bucket];
        self.staged[bucket][usize::from(*count)] = key;
        *count += 1;
        if usize::from(*count) == STAGED {
            self.flush(bucket);
        }
    }

    fn flush(&mut self, bucket: usize) {
        let staged = &self.staged[bucket][..usize::from(self.counts[bucket])];
        let blocks = &mut self.blocks[bucket];
        match blocks.last_mut() {
            // A block is a multiple of `STAGED` keys. Only the last flush writes fewer keys.
            Some(block) if block.len() + staged.len() <= BLOCK => block.extend_from_slice(staged),
            _ => {
                let mut block = Vec::with_capacity(BLOCK);
                block.extend_from_slice(staged);
                blocks.push(block);
            }
        }
        self.counts[bucket] = 0;
    }
}

/// Keys of one bucket, and the slices to which its adjacency lists are written.
struct Bucket<'a> {
    first_vertex: u64,
    blocks: Vec<Vec<u64>>,
    /// Number of neighbours of each vertex in the bucket.
    lengths: &'a mut [u64],
    /// Memory for the lists of all vertices in the bucket. It has space for repeats.
    lists: &'a mut [u32],
    kept: usize,
}

/// Builds all adjacency lists from the keys. The lists are sorted and contain no repeats.
pub(super) fn lists(keys: &Keys<'_>, threads: usize) -> Result<Adjacency> {
    let vertices = keys.vertices();
    let bits = u64::BITS - (vertices - 1).leading_zeros();
    let width_log2 = bits.saturating_sub(MAX_BUCKETS_LOG2);
    let buckets = vertices.div_ceil(1 << width_log2) as usize;
    let shift = 32 + width_log2;
    let dealers = (0..threads).map(|_| Dealer::new(buckets, shift)).collect();
    let dealers = keys.share_out(dealers, 0, |dealer, keys| {
        keys.iter().for_each(|&key| dealer.take(key));
        Ok(())
    })?;

    let mut blocks: Vec<Vec<Vec<u64>>> = vec![Vec::new(); buckets];
    for mut dealer in dealers {
        (0..buckets).for_each(|bucket| dealer.flush(bucket));
        for (all, own) in blocks.iter_mut().zip(dealer.blocks) {
            all.extend(own);
        }
    }
    let sizes: Vec<usize> = blocks.iter().map(|b| b.iter().map(Vec::len).sum()).collect();
    let mut neighbours = vec![0u32; sizes.iter().sum()];
    let mut offsets = vec![0u64; vertices as usize + 1];

    let kept = {
        let (mut lists, mut lengths) = (&mut neighbours[..], &mut offsets[1..]);
        let mut work = Vec::with_capacity(buckets);
        for (at, blocks) in blocks.into_iter().enumerate() {
            let (own_lists, rest) = lists.split_at_mut(sizes[at]);
            lists = rest;
            let (own_lengths, rest) = lengths.split_at_mut(lengths.len().min(1 << width_log2));
            lengths = rest;
            let first_vertex = (at as u64) << width_log2;
            work.push(Bucket { first_vertex, blocks, lengths: own_lengths, lists: own_lists, kept: 0 });
        }
        // Large buckets are processed first, so that no thread starts a large one at the end.
        work.sort_by_key(|bucket| bucket.lists.len());
        let work = Mutex::new(work);
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let done = on_threads(vec![(); threads], |()| {
            let (mut ends, mut kept) = (Vec::new(), Vec::new());
            while let Some(mut bucket) = next() {
                bucket.place(&mut ends);
                kept.push((bucket.first_vertex >> width_log2, bucket.kept));
            }
            kept
        });
        let mut kept = vec![0; buckets];
        for (bucket, count) in done.into_iter().flatten() {
            kept[bucket as usize] = count;
        }
        kept
    };
    // Removed repeats have left gaps at the ends of buckets.
    let (mut from, mut to) = (0, 0);
    for (size, kept) in sizes.into_iter().zip(kept) {
        if from != to {
            neighbours.copy_within(from..from + kept, to);
        }
        (from, to) = (from + size, to + kept);
    }
    neighbours.truncate(to);
    neighbours.shrink_to_fit();
    let mut end = 0;
    for offset in &mut offsets {
        end += *offset;
        *offset = end;
    }
    Ok(trusted(offsets, neighbours))
}

impl Bucket<'_> {
    /// Sorts the keys by vertex with a counting sort, then sorts each list and removes repeats.
    /// `ends` is scratch memory that is reused between buckets.
    fn place(&mut self, ends: &mut Vec<usize>) {
        let first = self.first_vertex;
        let vertex = |key: u64| ((key >> 32) - first) as usize;
        let blocks = std::mem::take(&mut self.blocks);
        for &key in blocks.iter().flatten() {
            self.lengths[vertex(key)] += 1;
        }
        // Position of each vertex's next neighbour, which ends as the end of the vertex's list.
        ends.clear();
        let mut end = 0;
        for &length in self.lengths.iter() {
            ends.push(end);
            end += length as usize;
        }
        for block in blocks {
            for key in block {
                let end = &mut ends[vertex(key)];
                self.lists[*end] = key as u32;
                *end += 1;
            }
        }
        let (mut from, mut kept) = (0, 0);
        for (length, &to) in self.lengths.iter_mut().zip(ends.iter()) {
            self.lists[from..to].sort_unstable();
            let start = kept;
            let mut last = None;
            for at in from..to {
                let neighbour = self.lists[at];
                if last != Some(neighbour) {
                    self.lists[kept] = neighbour;
                    kept += 1;
                    last = Some(neighbour);
                }
            }
            *length = (kept - start) as u64;
            from = to;
        }
        self.kept = kept;
    }
}
