//! Lists from keys within a stated memory: keys are dealt into buckets on disk, each bucket is sorted
//! by itself, and the sorted buckets are the lists.
//!
//! This is a radix sort from the highest digit on, with buckets as wide as their keys' range asks for:
//! a bucket that does not fit the memory is dealt again, a hub's list by its neighbours. All reading
//! and writing is of long runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::keys::Keys;
use super::spill::{Bucket, Dealer, Span, Spill};
use super::threads::on_threads;
use crate::edges::MAX_CHUNK_EDGES;
use crate::error::{Error, Place, Result};
use crate::store::Writer;
use crate::store::section::{Section, SectionWriter, Written};

/// The least memory that a build takes.
pub const MIN_MEMORY_BYTES: u64 = 64 << 20;

/// What buffers of sections, files and the code around them take at most.
const OVERHEAD_BYTES: u64 = 4 << 20;
/// What a thread needs to read the source.
const CHUNK_BYTES: u64 = (MAX_CHUNK_EDGES * size_of::<(u32, u32)>()) as u64;
/// The longest block that is written at a time.
const MAX_BLOCK_BYTES: u64 = 1 << 20;
/// Digits of a deal.
const BUCKETS_LOG2: u32 = 8;

/// What each step of a build may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Threads that read the source.
    pub(super) readers: usize,
    /// Edges that each of them reserves room for.
    pub(super) chunk_edges: usize,
    /// Threads that sort.
    pub(super) sorters: usize,
    /// Keys of a bucket that is sorted at once.
    pub(super) bucket_keys: usize,
    /// Keys of a block of a bucket.
    pub(super) block_keys: usize,
    /// Digits of a deal.
    pub(super) buckets_log2: u32,
}

impl Room {
    /// Shares `memory_bytes` out.
    pub(super) fn new(memory_bytes: u64, threads: usize) -> Result<Self> {
        if memory_bytes < MIN_MEMORY_BYTES {
            return Err(Error::Malformed {
                place: Place::whole("memory"),
                expected: format!("at least {} MiB", MIN_MEMORY_BYTES >> 20),
                found: format!("{memory_bytes} bytes"),
                remedy: "give the build more memory",
            });
        }
        let memory = memory_bytes - OVERHEAD_BYTES;
        let least_block = 32 << 10;
        let dealt = |block: u64| block << BUCKETS_LOG2;
        let readers = (memory / (CHUNK_BYTES + dealt(least_block))).clamp(1, threads.max(1) as u64);
        let block = ((memory / readers - CHUNK_BYTES) >> BUCKETS_LOG2).min(MAX_BLOCK_BYTES);
        // A sorter holds a bucket, or the blocks of one that it deals again.
        let sorters = (memory / dealt(block)).clamp(1, threads.max(1) as u64);
        Ok(Self {
            readers: readers as usize,
            chunk_edges: MAX_CHUNK_EDGES,
            sorters: sorters as usize,
            bucket_keys: (memory / sorters / 8) as usize,
            block_keys: (block / 8) as usize,
            buckets_log2: BUCKETS_LOG2,
        })
    }
}

/// Streams all lists, sorted and without repeats, into two sections; returns these.
pub(super) fn lists(
    keys: &Keys<'_>,
    room: &Room,
    writer: &Writer,
    sections: [Section; 2],
) -> Result<[Written; 2]> {
    let path = |part: String| writer.folder().join(format!("{}.{part}.spill", sections[1].file()));
    let spill = Spill::create(path("all".to_owned()))?;
    let span = Span::new(0, (keys.vertices() << 32) - 1, room.buckets_log2);
    let dealers = (0..room.readers).map(|_| Dealer::new(&spill, span, room.block_keys)).collect();
    let dealers = keys.share_out(dealers, room.chunk_edges, Dealer::take)?;
    let buckets = Dealer::finish(dealers)?;

    let sink = Mutex::new(Lists::create(writer, sections, keys.vertices())?);
    let (next, turns) = (AtomicUsize::new(0), Turns::default());
    let work: Vec<usize> = (0..room.sorters).collect();
    let done = on_threads(work, |worker| {
        let _guard = turns.guard();
        let mut sorter = Sorter { room, keys: Vec::new(), path: &|level| path(format!("{worker}.{level}")) };
        let mut run = || -> Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(bucket) = buckets.get(at) else { return Ok(()) };
                let prepared = sorter.prepare(&spill, bucket, 0)?;
                if !turns.wait(at) {
                    return Ok(());
                }
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sorter.emit(prepared, &mut sink, 0)?;
                drop(sink);
                turns.pass();
            }
        };
        run().inspect_err(|_| turns.fail())
    });
    done.into_iter().collect::<Result<()>>()?;
    sink.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
}

/// A bucket that is ready to be written out.
enum Prepared {
    /// Its keys are sorted, in the sorter.
    Sorted,
    /// It was too large, and has been dealt again.
    Dealt(Spill, Vec<Bucket>),
}

/// A thread that sorts buckets.
struct Sorter<'a> {
    room: &'a Room,
    keys: Vec<u64>,
    /// A file of its own for each level of dealing again.
    path: &'a dyn Fn(u32) -> std::path::PathBuf,
}

impl Sorter<'_> {
    fn prepare(&mut self, spill: &Spill, bucket: &Bucket, level: u32) -> Result<Prepared> {
        let (low, high) = bucket.range();
        if bucket.keys() <= self.room.bucket_keys as u64 {
            let count = bucket.keys() as usize;
            self.keys.clear();
            if self.keys.capacity() < count {
                // Not the double of what is there.
                self.keys = Vec::new();
                self.keys.reserve_exact(count);
            }
            self.keys.resize(count, 0);
            bucket.read(spill)?.read_exact(&mut self.keys)?;
            self.keys.sort_unstable();
            self.keys.dedup();
            return Ok(Prepared::Sorted);
        }
        self.keys = Vec::new();
        if low == high {
            self.keys.push(low);
            return Ok(Prepared::Sorted);
        }
        let own = Spill::create((self.path)(level))?;
        let span = Span::new(low, high, self.room.buckets_log2);
        let mut dealer = Dealer::new(&own, span, self.room.block_keys);
        let mut keys = bucket.read(spill)?;
        let mut piece = vec![0; self.room.block_keys.min(1 << 13)];
        loop {
            let count = keys.read_some(&mut piece)?;
            if count == 0 {
                break;
            }
            dealer.take(&piece[..count])?;
        }
        let buckets = Dealer::finish(vec![dealer])?;
        Ok(Prepared::Dealt(own, buckets))
    }

    fn emit(&mut self, prepared: Prepared, sink: &mut Lists, level: u32) -> Result<()> {
        match prepared {
            Prepared::Sorted => sink.write(&self.keys),
            Prepared::Dealt(spill, buckets) => buckets.iter().try_for_each(|bucket| {
                let prepared = self.prepare(&spill, bucket, level + 1)?;
                self.emit(prepared, sink, level + 1)
            }),
        }
    }
}

/// Whose turn it is to write: buckets come in order.
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    /// The bucket whose turn it is.
    next: usize,
    /// Nobody's turn comes any more.
    failed: bool,
}

/// Lets nobody wait for a thread that has panicked.
struct Guard<'a>(&'a Turns);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

impl Turns {
    fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    fn change(&self, change: impl FnOnce(&mut Turn)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits until it is this bucket's turn; false where it never will be.
    fn wait(&self, bucket: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |turn: &mut Turn| turn.next < bucket && !turn.failed;
        !self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner).failed
    }

    fn pass(&self) {
        self.change(|turn| turn.next += 1);
    }

    fn fail(&self) {
        self.change(|turn| turn.failed = true);
    }
}

/// The two sections of lists that keys in ascending order become.
struct Lists {
    offsets: SectionWriter<u64>,
    neighbours: SectionWriter<u32>,
    vertices: u64,
    starts: Vec<u64>,
    entries: Vec<u32>,
}

/// Numbers that are collected for a section.
const COLLECTED: usize = 1 << 14;

impl Lists {
    fn create(writer: &Writer, [offsets, neighbours]: [Section; 2], vertices: u64) -> Result<Self> {
        Ok(Self {
            offsets: writer.section(offsets)?,
            neighbours: writer.section(neighbours)?,
            vertices,
            starts: Vec::with_capacity(COLLECTED),
            entries: Vec::with_capacity(COLLECTED),
        })
    }

    /// Notes where the lists of all vertices up to `vertex` start which have not yet.
    fn start(&mut self, vertex: u64) -> Result<()> {
        let entry = self.neighbours.values() + self.entries.len() as u64;
        while self.offsets.values() + self.starts.len() as u64 <= vertex {
            if self.starts.len() == COLLECTED {
                self.offsets.write(&self.starts)?;
                self.starts.clear();
            }
            self.starts.push(entry);
        }
        Ok(())
    }

    /// Appends keys that ascend, from above all that came before.
    fn write(&mut self, keys: &[u64]) -> Result<()> {
        let mut owner = None;
        for &key in keys {
            if owner != Some(key >> 32) {
                self.start(key >> 32)?;
                owner = Some(key >> 32);
            }
            if self.entries.len() == COLLECTED {
                self.neighbours.write(&self.entries)?;
                self.entries.clear();
            }
            self.entries.push(key as u32);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<[Written; 2]> {
        self.start(self.vertices)?;
        self.offsets.write(&self.starts)?;
        self.neighbours.write(&self.entries)?;
        Ok([self.offsets.finish()?, self.neighbours.finish()?])
    }
}
