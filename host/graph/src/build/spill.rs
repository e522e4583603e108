//! Buckets of keys or records in one temporary file. Blocks are written when they are full, and
//! read back bucket by bucket.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use eciton_tensor::{bytes_of, bytes_of_mut};

use crate::error::{Error, Result};

/// Temporary file that consists of blocks. It is removed when this value is dropped.
pub(super) struct Spill {
    path: PathBuf,
    /// Open file, and its length in bytes.
    end: Mutex<(File, u64)>,
}

impl Spill {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(Self { path, end: Mutex::new((file, 0)) })
    }

    /// Appends a block to the file, and returns its position in bytes.
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
        // If the removal fails, the enclosing folder is removed or reports an error.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Range of keys that is divided into buckets of equal width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    low: u64,
    shift: u32,
    buckets: usize,
}

impl Span {
    /// Divides the keys from `low` to `high` (inclusive) into at most 2^`buckets_log2` buckets.
    /// There are at least two buckets unless `low` and `high` are equal.
    pub(super) fn new(low: u64, high: u64, buckets_log2: u32) -> Self {
        let bits = u64::BITS - (high - low).leading_zeros();
        let shift = bits.saturating_sub(buckets_log2);
        Self { low, shift, buckets: ((high - low) >> shift) as usize + 1 }
    }
}

/// Blocks of one bucket in the temporary file, and the range of its keys.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// Position in bytes, and number of 64-bit words, of each block.
    blocks: Vec<(u64, u32)>,
    low: u64,
    high: u64,
}

impl Bucket {
    fn new() -> Self {
        Self { blocks: Vec::new(), low: u64::MAX, high: 0 }
    }

    /// Returns the number of 64-bit words in the bucket.
    pub(super) fn words(&self) -> u64 {
        self.blocks.iter().map(|b| u64::from(b.1)).sum()
    }

    /// Returns the lowest and the highest value by which the bucket's records were selected.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// Returns a reader of the bucket's words in the file `spill`.
    pub(super) fn read<'a>(&'a self, spill: &'a Spill) -> Result<BucketReader<'a>> {
        let file =
            File::open(&spill.path).map_err(|source| Error::Read { path: spill.path.clone(), source })?;
        Ok(BucketReader { spill, file, blocks: &self.blocks, done: 0 })
    }
}

/// Reader of the words of a bucket, which reads one block after the other.
pub(super) struct BucketReader<'a> {
    spill: &'a Spill,
    file: File,
    /// Blocks that have not been read to their end.
    blocks: &'a [(u64, u32)],
    /// Number of words that have been read of the first entry of `blocks`.
    done: u32,
}

impl BucketReader<'_> {
    /// Reads words to the start of `into`, whose length is a multiple of the record length. Returns
    /// the number of words that were read, or 0 at the end.
    pub(super) fn read_some(&mut self, into: &mut [u64]) -> Result<usize> {
        let Some(&(start, words)) = self.blocks.first() else { return Ok(0) };
        let count = into.len().min((words - self.done) as usize);
        let from = SeekFrom::Start(start + 8 * u64::from(self.done));
        let into = bytes_of_mut(&mut into[..count]);
        let read = self.file.seek(from).and_then(|_| self.file.read_exact(into));
        read.map_err(|source| Error::Read { path: self.spill.path.clone(), source })?;
        self.done += count as u32;
        if self.done == words {
            (self.blocks, self.done) = (&self.blocks[1..], 0);
        }
        Ok(count)
    }

    /// Reads all words of the bucket to `into`, which must have exactly that length.
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

/// Layout of the records that are distributed to buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// Number of 64-bit words per record.
    pub(super) words: usize,
    /// Index of the word that determines a record's bucket.
    pub(super) by: usize,
}

/// Distributor of one thread's records to buckets, with one open block per bucket.
pub(super) struct Dealer<'a> {
    spill: &'a Spill,
    span: Span,
    of: Records,
    /// Number of words per block, which is a multiple of the record length.
    block_words: usize,
    open: Vec<Vec<u64>>,
    buckets: Vec<Bucket>,
}

impl<'a> Dealer<'a> {
    /// Creates a distributor for the buckets of `span`. A block has at most `block_words` words,
    /// but at least one record.
    pub(super) fn new(spill: &'a Spill, span: Span, of: Records, block_words: usize) -> Self {
        let block_words = (block_words / of.words).max(1) * of.words;
        let buckets = vec![Bucket::new(); span.buckets];
        Self { spill, span, of, block_words, open: vec![Vec::new(); span.buckets], buckets }
    }

    /// Distributes records to their buckets. Full blocks are written to the file.
    pub(super) fn take(&mut self, records: &[u64]) -> Result<()> {
        match self.of.words {
            1 => records.iter().try_for_each(|&key| self.deal(key, [key])),
            words => {
                let by = self.of.by;
                records.chunks_exact(words).try_for_each(|one| self.deal(one[by], one.iter().copied()))
            }
        }
    }

    #[inline]
    fn deal(&mut self, by: u64, record: impl IntoIterator<Item = u64>) -> Result<()> {
        let bucket = ((by - self.span.low) >> self.span.shift) as usize;
        let open = &mut self.open[bucket];
        if open.capacity() == 0 {
            open.reserve_exact(self.block_words);
        }
        open.extend(record);
        if open.len() == self.block_words {
            self.flush(bucket)?;
        }
        Ok(())
    }

    fn flush(&mut self, bucket: usize) -> Result<()> {
        let (open, bucket) = (&mut self.open[bucket], &mut self.buckets[bucket]);
        if !open.is_empty() {
            let dealt_by = || open.iter().skip(self.of.by).step_by(self.of.words);
            bucket.low = dealt_by().fold(bucket.low, |low, &by| low.min(by));
            bucket.high = dealt_by().fold(bucket.high, |high, &by| high.max(by));
            bucket.blocks.push((self.spill.append(open)?, open.len() as u32));
            open.clear();
        }
        Ok(())
    }

    /// Writes the open blocks of all distributors, and merges their buckets. Buckets without
    /// records are left out.
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
