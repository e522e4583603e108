//! Builder of adjacency lists from keys within a memory limit. Keys are distributed to buckets on
//! disk. Each bucket is sorted separately, and the sorted buckets are written in order.
//!
//! This is a radix sort that starts with the highest digit. The width of a bucket depends on the
//! range of its keys. A bucket that does not fit into memory is divided again. In this way the list
//! of a vertex with very many edges is divided by neighbours. All reads and writes are long and
//! sequential.
//!
//! If edges have values, the sorted items are records of key, position and values. They are sorted
//! by key and then by position. An edge's row of features is computed from its records by the rule
//! of [`crate::edge_rule`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::keys::{self, Keys, REVERSE};
use super::spill::{Bucket, Dealer, Records, Span, Spill};
use crate::edge_rule::Findings;
use crate::edges::{MAX_CHUNK_EDGES, MAX_CHUNK_VALUES};
use crate::error::{Error, Place, Result};
use crate::store::Writer;
use crate::store::section::{Section, SectionWriter, Written};
use eciton_input::threads::on_threads;

/// Minimum memory limit of a build that writes to disk, in bytes.
pub const MIN_MEMORY_BYTES: u64 = 64 << 20;

/// Memory that is reserved for section buffers, file buffers and code, in bytes.
const OVERHEAD_BYTES: u64 = 4 << 20;
/// Memory that one thread needs to read a chunk of the source, in bytes.
const CHUNK_BYTES: u64 = (MAX_CHUNK_EDGES * size_of::<(u32, u32)>()) as u64;
/// Additional memory that one thread needs to read a chunk if edges have values, in bytes.
const CHUNK_VALUES_BYTES: u64 = (MAX_CHUNK_VALUES * size_of::<f32>()) as u64;
/// Maximum length of a block of the temporary file, in bytes.
const MAX_BLOCK_BYTES: u64 = 1 << 20;
/// Binary logarithm of the number of buckets into which a range of keys is divided.
const BUCKETS_LOG2: u32 = 8;

/// Sizes and numbers of threads of the steps of a build, which are derived from its memory limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Number of threads that read chunks of the source.
    pub(super) readers: usize,
    /// Number of edges for which each reading thread reserves memory.
    pub(super) chunk_edges: usize,
    /// Number of threads that sort buckets.
    pub(super) sorters: usize,
    /// Maximum number of 64-bit words in a bucket that is sorted in memory.
    pub(super) bucket_words: usize,
    /// Number of 64-bit words in one block of a bucket.
    pub(super) block_words: usize,
    /// Binary logarithm of the number of buckets into which a range of keys is divided.
    pub(super) buckets_log2: u32,
}

impl Room {
    /// Divides `memory_bytes` among the steps of a build. Each edge has `columns` values.
    pub(super) fn new(memory_bytes: u64, threads: usize, columns: u32) -> Result<Self> {
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
        let chunk = if columns == 0 { CHUNK_BYTES } else { CHUNK_BYTES + CHUNK_VALUES_BYTES };
        let readers = (memory / (chunk + dealt(least_block))).clamp(1, threads.max(1) as u64);
        let block = ((memory / readers - chunk) >> BUCKETS_LOG2).min(MAX_BLOCK_BYTES);
        // Sorting a record needs the record's words and its index in the sorted order.
        let words = keys::words(columns) as u64;
        let record = if columns == 0 { 8 } else { 8 * words + size_of::<u32>() as u64 };
        // A sorting thread holds a bucket, or the blocks of a bucket that it divides again.
        let sorters = (memory / dealt(block)).clamp(1, threads.max(1) as u64);
        Ok(Self {
            readers: readers as usize,
            chunk_edges: MAX_CHUNK_EDGES,
            sorters: sorters as usize,
            bucket_words: (memory / sorters / record * words) as usize,
            block_words: (block / 8) as usize,
            buckets_log2: BUCKETS_LOG2,
        })
    }
}

/// Adjacency lists that a build has written to sections of a store.
pub(super) struct Streamed {
    /// Section of the offsets, and section of the neighbours.
    pub(super) sections: [Written; 2],
    /// Section of the edge features, or `None` if they were not requested.
    pub(super) rows: Option<Written>,
    pub(super) findings: Counted,
}

/// Counts of the edges in the written lists.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) findings: Findings,
    /// Number of self-loops in the written lists.
    pub(super) loops: u64,
}

/// Writes all adjacency lists to the two `sections`, sorted and without repeats. If the keys have
/// values and `rows` is true, the rows of the edges are written to [`Section::EdgeFeatures`].
pub(super) fn lists(
    keys: &Keys<'_>,
    room: &Room,
    writer: &Writer,
    sections: [Section; 2],
    rows: bool,
) -> Result<Streamed> {
    let path = |part: String| writer.folder().join(format!("{}.{part}.spill", sections[1].file()));
    let spill = Spill::create(path("all".to_owned()))?;
    let span = Span::new(0, (keys.vertices() << 32) - 1, room.buckets_log2);
    let of = Records { words: keys.words(), by: KEY };
    let dealers = (0..room.readers).map(|_| Dealer::new(&spill, span, of, room.block_words)).collect();
    let dealers = keys.share_out(dealers, room.chunk_edges, Dealer::take)?;
    let buckets = Dealer::finish(dealers)?;

    let sink = Mutex::new(Lists::create(writer, sections, keys, rows)?);
    let (next, turns) = (AtomicUsize::new(0), Turns::default());
    let work: Vec<usize> = (0..room.sorters).collect();
    let done = on_threads(work, |worker| {
        let _guard = turns.guard();
        let path = |level| path(format!("{worker}.{level}"));
        let last_place = keys.last_place();
        let mut sorter = Sorter { room, of, last_place, held: Vec::new(), order: Vec::new(), path: &path };
        let mut run = || -> Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(bucket) = buckets.get(at) else { return Ok(()) };
                let prepared = sorter.prepare(&spill, bucket, of, 0)?;
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

/// Bucket of keys or records that can now be written to the sections of the store.
enum Prepared {
    /// The sorter holds the records, which are sorted.
    Sorted,
    /// The bucket was too large for memory, so its records were distributed to smaller buckets.
    Dealt(Spill, Vec<Bucket>, Records),
}

/// Index of the key among the words of a record.
const KEY: usize = 0;
/// Index of the word that contains a record's position and direction. Only records with values have
/// this word.
const PLACE: usize = 1;

/// State of a thread that sorts buckets, with the memory that it reuses.
struct Sorter<'a> {
    room: &'a Room,
    of: Records,
    last_place: u64,
    /// Keys or records of the current bucket.
    held: Vec<u64>,
    /// Indices of the records in sorted order, if records have values. Keys without values are
    /// sorted in place instead.
    order: Vec<u32>,
    /// Function that returns the path of the temporary file for each level of repeated division.
    path: &'a dyn Fn(u32) -> std::path::PathBuf,
}

impl Sorter<'_> {
    fn prepare(&mut self, spill: &Spill, bucket: &Bucket, of: Records, level: u32) -> Result<Prepared> {
        let (low, high) = bucket.range();
        let words = of.words;
        // One record is held in memory, whatever its length.
        if bucket.words() <= (self.room.bucket_words.max(words)) as u64 {
            hold(&mut self.held, bucket.words() as usize);
            bucket.read(spill)?.read_exact(&mut self.held)?;
            if words == 1 {
                self.held.sort_unstable();
                self.held.dedup();
            } else {
                let count = self.held.len() / words;
                hold(&mut self.order, count);
                (0..).zip(&mut self.order).for_each(|(at, place)| *place = at);
                let (held, order) = (&self.held, &mut self.order);
                order.sort_unstable_by_key(|&at| {
                    let record = &held[at as usize * words..];
                    (record[KEY], record[PLACE])
                });
            }
            return Ok(Prepared::Sorted);
        }
        (self.held, self.order) = (Vec::new(), Vec::new());
        if low == high && words == 1 {
            self.held.push(low);
            return Ok(Prepared::Sorted);
        }
        // The bucket contains one edge more often than memory allows. It is divided by position,
        // because no two records have the same position.
        let (of, low, high) = match low == high {
            true => (Records { by: PLACE, ..of }, 0, self.last_place),
            false => (of, low, high),
        };
        let own = Spill::create((self.path)(level))?;
        let span = Span::new(low, high, self.room.buckets_log2);
        let mut dealer = Dealer::new(&own, span, of, self.room.block_words);
        let mut records = bucket.read(spill)?;
        let mut piece = vec![0; (self.room.block_words.min(1 << 13) / words).max(1) * words];
        loop {
            let count = records.read_some(&mut piece)?;
            if count == 0 {
                break;
            }
            dealer.take(&piece[..count])?;
        }
        let buckets = Dealer::finish(vec![dealer])?;
        Ok(Prepared::Dealt(own, buckets, of))
    }

    fn emit(&mut self, prepared: Prepared, sink: &mut Lists, level: u32) -> Result<()> {
        match prepared {
            Prepared::Sorted if self.of.words == 1 => sink.write(&self.held),
            Prepared::Sorted => sink.write_records(&self.held, &self.order),
            Prepared::Dealt(spill, buckets, of) => buckets.iter().try_for_each(|bucket| {
                let prepared = self.prepare(&spill, bucket, of, level + 1)?;
                self.emit(prepared, sink, level + 1)
            }),
        }
    }
}

/// Resizes `held` to `count` default values. The capacity grows to exactly `count`, because the
/// usual doubling would exceed the memory limit.
fn hold<T: Copy + Default>(held: &mut Vec<T>, count: usize) {
    held.clear();
    if held.capacity() < count {
        *held = Vec::new();
        held.reserve_exact(count);
    }
    held.resize(count, T::default());
}

/// Synchronisation of the sorting threads, which write their buckets in order.
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    /// Index of the bucket that must be written next.
    next: usize,
    /// True if a thread has failed. No further buckets are then written.
    failed: bool,
}

/// Guard that reports a failure if its thread panics, so that no other thread waits for it for
/// ever.
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

    /// Waits until `bucket` is the next bucket to write. Returns false if another thread has
    /// failed.
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

/// Writers of the offsets and neighbours of adjacency lists. They receive keys in ascending order.
struct Lists {
    offsets: SectionWriter<u64>,
    neighbours: SectionWriter<u32>,
    /// Writer of the edges' rows, or `None` if the records have no values.
    rows: Option<Rows>,
    vertices: u64,
    starts: Vec<u64>,
    entries: Vec<u32>,
    loops: u64,
}

/// Sums of the values of all records of one edge in one direction.
struct Sums {
    values: Vec<f64>,
    records: u64,
}

impl Sums {
    fn new(columns: usize) -> Self {
        // A sum starts at -0.0, so that the values of a single row do not change.
        Self { values: vec![-0.0; columns], records: 0 }
    }

    fn clear(&mut self) {
        self.values.fill(-0.0);
        self.records = 0;
    }
}

/// Writer of edge features, with the sums of the current edge.
struct Rows {
    /// Section to which the rows are written. `None` if the values only decide which edges exist.
    section: Option<SectionWriter<f32>>,
    words: usize,
    zeros_are_no_edges: bool,
    key: Option<u64>,
    /// Sums for the current edge in the listed direction, and in the reverse direction.
    sums: [Sums; 2],
    finished: Vec<f32>,
    findings: Findings,
}

impl Rows {
    /// Completes the row of the current edge. Returns the key of the edge, or `None` if the edge is
    /// dropped because its weight is 0.
    fn close(&mut self) -> Result<Option<u64>> {
        let Some(key) = self.key.take() else { return Ok(None) };
        let [own, other] = &self.sums;
        let present =
            |sums: &Sums| sums.records > 0 && !(self.zeros_are_no_edges && sums.values[0] as f32 == 0.0);
        let from = self.finished.len();
        let mut stays = true;
        match (present(own), present(other)) {
            (true, false) => self.finished.extend(own.values.iter().map(|&sum| sum as f32)),
            (false, true) => self.finished.extend(other.values.iter().map(|&sum| sum as f32)),
            (true, true) => {
                let both = || own.values.iter().zip(&other.values);
                self.finished.extend(both().map(|(one, two)| ((one + two) / 2.0) as f32));
                let once = key >> 32 > u64::from(key as u32);
                self.findings.unequal += u64::from(once && both().any(|(one, two)| one != two));
                stays = !(self.zeros_are_no_edges && self.finished[from] == 0.0);
            }
            (false, false) => stays = false,
        }
        self.findings.repeats += own.records.saturating_sub(1);
        self.findings.zeros += u64::from(own.records > 0 && (!stays || !present(own)));
        let row = self.finished.get(from..).unwrap_or_default();
        if let Some(column) = row.iter().position(|value| !value.is_finite()) {
            return Err(Error::Malformed {
                place: Place::whole("edges"),
                expected: "sums of repeated edges within the range of f32".to_owned(),
                found: format!("{} for an edge of vertex {}, column {column}", row[column], key >> 32),
                remedy: "scale the values, or list each edge once",
            });
        }
        let zero = stays && !self.zeros_are_no_edges && row.iter().all(|&value| value == 0.0);
        self.findings.kept_zeros += u64::from(zero);
        if !stays {
            self.finished.truncate(from);
        }
        self.sums.iter_mut().for_each(Sums::clear);
        if self.section.is_none() || self.finished.len() >= COLLECTED {
            self.flush()?;
        }
        Ok(stays.then_some(key))
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(section) = &mut self.section {
            section.write(&self.finished)?;
        }
        self.finished.clear();
        Ok(())
    }
}

/// Number of values that are collected before they are written to a section.
const COLLECTED: usize = 1 << 14;

impl Lists {
    fn create(
        writer: &Writer,
        [offsets, neighbours]: [Section; 2],
        keys: &Keys<'_>,
        written: bool,
    ) -> Result<Self> {
        let columns = keys.columns() as usize;
        let rows = || -> Result<Rows> {
            Ok(Rows {
                section: written.then(|| writer.section(Section::EdgeFeatures)).transpose()?,
                words: keys.words(),
                zeros_are_no_edges: keys.zeros_are_no_edges(),
                key: None,
                sums: [Sums::new(columns), Sums::new(columns)],
                finished: Vec::with_capacity(COLLECTED + columns),
                findings: Findings { valued: true, ..Findings::default() },
            })
        };
        Ok(Self {
            offsets: writer.section(offsets)?,
            neighbours: writer.section(neighbours)?,
            rows: (columns > 0).then(rows).transpose()?,
            vertices: keys.vertices(),
            starts: Vec::with_capacity(COLLECTED),
            entries: Vec::with_capacity(COLLECTED),
            loops: 0,
        })
    }

    /// Writes the start of the list of each vertex up to `vertex` whose start has not been written.
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

    /// Appends keys to the lists. The keys ascend, and are larger than all keys that were appended
    /// before.
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
            self.loops += u64::from(key >> 32 == u64::from(key as u32));
        }
        Ok(())
    }

    /// Appends records in the order of the indices `order`. In this order, key and position ascend.
    /// All records follow those that were appended before.
    fn write_records(&mut self, records: &[u64], order: &[u32]) -> Result<()> {
        let Some(mut rows) = self.rows.take() else { return Ok(()) };
        for &at in order {
            let record = records.get(at as usize * rows.words..).unwrap_or_default();
            let Some(record) = record.get(..rows.words) else { continue };
            if rows.key != Some(record[KEY]) {
                if let Some(key) = rows.close()? {
                    self.write(&[key])?;
                }
                rows.key = Some(record[KEY]);
            }
            let sums = &mut rows.sums[usize::from(record[PLACE] & REVERSE != 0)];
            sums.records += 1;
            let values = sums.values.iter_mut().zip(keys::values(record));
            values.for_each(|(sum, value)| *sum += f64::from(value));
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn finish(mut self) -> Result<Streamed> {
        let mut rows = self.rows.take();
        if let Some(rows) = &mut rows {
            if let Some(key) = rows.close()? {
                self.write(&[key])?;
            }
            rows.flush()?;
        }
        self.start(self.vertices)?;
        self.offsets.write(&self.starts)?;
        self.neighbours.write(&self.entries)?;
        let findings = rows.as_ref().map(|rows| rows.findings).unwrap_or_default();
        let rows = rows.and_then(|rows| rows.section).map(SectionWriter::finish).transpose()?;
        Ok(Streamed {
            sections: [self.offsets.finish()?, self.neighbours.finish()?],
            rows,
            findings: Counted { findings, loops: self.loops },
        })
    }
}
