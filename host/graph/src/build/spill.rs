//! Buckets of keys in one temporary file: written in blocks as they fill, read back bucket by bucket.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use eciton_tensor::{bytes_of, bytes_of_mut};

use crate::error::{Error, Result};

/// A temporary file of blocks, one after the other; removed when dropped.
pub(super) struct Spill {
    path: PathBuf,
    /// The file and its length.
    end: Mutex<(File, u64)>,
}

impl Spill {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(Self { path, end: Mutex::new((file, 0)) })
    }

    /// Appends a block and says where it starts.
    fn append(&self, keys: &[u64]) -> Result<u64> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes_of(keys);
        let start = end.1;
        end.0.write_all(bytes).map_err(|source| Error::Write { path: self.path.clone(), source })?;
        end.1 += bytes.len() as u64;
        Ok(start)
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // If this fails the folder around it is removed, or tells so.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A range of keys, cut into buckets of one width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    low: u64,
    shift: u32,
    buckets: usize,
}

impl Span {
    /// Keys from `low` to `high`, both included, in at most 2^`buckets_log2` buckets, and in at least
    /// two unless there is only one key.
    pub(super) fn new(low: u64, high: u64, buckets_log2: u32) -> Self {
        let bits = u64::BITS - (high - low).leading_zeros();
        let shift = bits.saturating_sub(buckets_log2);
        Self { low, shift, buckets: ((high - low) >> shift) as usize + 1 }
    }
}

/// A bucket's blocks, and what is known of its keys.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// First byte and number of keys of each block.
    blocks: Vec<(u64, u32)>,
    low: u64,
    high: u64,
}

impl Bucket {
    fn new() -> Self {
        Self { blocks: Vec::new(), low: u64::MAX, high: 0 }
    }

    /// How many keys there are.
    pub(super) fn keys(&self) -> u64 {
        self.blocks.iter().map(|b| u64::from(b.1)).sum()
    }

    /// The lowest and the highest key.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// The keys, to be read.
    pub(super) fn read<'a>(&'a self, spill: &'a Spill) -> Result<BucketReader<'a>> {
        let file =
            File::open(&spill.path).map_err(|source| Error::Read { path: spill.path.clone(), source })?;
        Ok(BucketReader { spill, file, blocks: &self.blocks, done: 0 })
    }
}

/// Reads a bucket's keys, block after block.
pub(super) struct BucketReader<'a> {
    spill: &'a Spill,
    file: File,
    /// Those that are left.
    blocks: &'a [(u64, u32)],
    /// Keys of the first of these that have been read.
    done: u32,
}

impl BucketReader<'_> {
    /// Fills the start of `into`; returns how many keys it got, 0 at the end.
    pub(super) fn read_some(&mut self, into: &mut [u64]) -> Result<usize> {
        let Some(&(start, keys)) = self.blocks.first() else { return Ok(0) };
        let count = into.len().min((keys - self.done) as usize);
        let from = SeekFrom::Start(start + 8 * u64::from(self.done));
        let into = bytes_of_mut(&mut into[..count]);
        let read = self.file.seek(from).and_then(|_| self.file.read_exact(into));
        read.map_err(|source| Error::Read { path: self.spill.path.clone(), source })?;
        self.done += count as u32;
        if self.done == keys {
            (self.blocks, self.done) = (&self.blocks[1..], 0);
        }
        Ok(count)
    }

    /// Fills `into`, which has room for all keys.
    pub(super) fn read_exact(&mut self, mut into: &mut [u64]) -> Result<()> {
        loop {
            let count = self.read_some(into)?;
            if count == 0 {
                return Ok(());
            }
            into = &mut into[count..];
        }
    }
}

/// A thread's open blocks, one a bucket.
pub(super) struct Dealer<'a> {
    spill: &'a Spill,
    span: Span,
    block_keys: usize,
    open: Vec<Vec<u64>>,
    buckets: Vec<Bucket>,
}

impl<'a> Dealer<'a> {
    pub(super) fn new(spill: &'a Spill, span: Span, block_keys: usize) -> Self {
        let buckets = vec![Bucket::new(); span.buckets];
        Self { spill, span, block_keys, open: vec![Vec::new(); span.buckets], buckets }
    }

    /// Deals keys of the span.
    pub(super) fn take(&mut self, keys: &[u64]) -> Result<()> {
        let Span { low, shift, .. } = self.span;
        for &key in keys {
            let bucket = ((key - low) >> shift) as usize;
            let open = &mut self.open[bucket];
            if open.capacity() == 0 {
                open.reserve_exact(self.block_keys);
            }
            open.push(key);
            if open.len() == self.block_keys {
                self.flush(bucket)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, bucket: usize) -> Result<()> {
        let (open, bucket) = (&mut self.open[bucket], &mut self.buckets[bucket]);
        if !open.is_empty() {
            bucket.low = open.iter().fold(bucket.low, |low, &key| low.min(key));
            bucket.high = open.iter().fold(bucket.high, |high, &key| high.max(key));
            bucket.blocks.push((self.spill.append(open)?, open.len() as u32));
            open.clear();
        }
        Ok(())
    }

    /// What all dealers of a span have dealt; buckets without keys are left out.
    pub(super) fn finish(dealers: Vec<Self>) -> Result<Vec<Bucket>> {
        let mut all: Vec<Bucket> = Vec::new();
        for mut dealer in dealers {
            (0..dealer.open.len()).try_for_each(|bucket| dealer.flush(bucket))?;
            all.resize(dealer.buckets.len(), Bucket::new());
            for (all, own) in all.iter_mut().zip(dealer.buckets) {
                all.low = all.low.min(own.low);
                all.high = all.high.max(own.high);
                all.blocks.extend(own.blocks);
            }
        }
        all.retain(|bucket| !bucket.blocks.is_empty());
        Ok(all)
    }
}
