//! Keys, which represent entries of adjacency lists as 64-bit numbers. The high half is the vertex
//! that owns the list, and the low half its neighbour. The adjacency lists of a graph are its keys
//! in ascending order.
//!
//! If edges have values, an entry is a *record* of several 64-bit words. They are the key, the
//! edge's position in the source with its [direction](REVERSE), and the values, two f32 per word.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::adjacency::Options;
use crate::edges::{EdgeSource, MAX_CHUNK_EDGES, MAX_CHUNK_VALUES};
use crate::error::{Error, Place, Result};
use eciton_input::threads::on_threads;

/// Number of edges that are converted to keys at a time. Edges and keys fit into the cache.
const PIECE: usize = 1024;

/// Numbers of edges and self-loops that a builder has read from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listed {
    /// Number of edges, including repeats and self-loops.
    pub edges: u64,
    /// Number of edges from a vertex to itself.
    pub loops: u64,
}

/// Returns the key of the entry `neighbour` in the list of the vertex `owner`.
#[inline]
fn key(owner: u32, neighbour: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(neighbour)
}

/// Edges of a source, converted to keys or records of adjacency-list entries.
pub(super) struct Keys<'a> {
    source: &'a dyn EdgeSource,
    options: Options,
    /// True if the lists contain out-neighbours, false if they contain in-neighbours.
    out: bool,
    /// Number of values per edge in the records. It is 0 if the entries are keys.
    columns: usize,
    /// Number of edges that have been read so far. The next field is the number of self-loops.
    edges: AtomicU64,
    loops: AtomicU64,
}

/// Bit of a record's second word that is set if the record is the reverse of the listed edge. The
/// higher bits of the word are the edge's position in the source.
pub(super) const REVERSE: u64 = 1;

/// Number of words of a record that precede its values.
const HEAD: usize = 2;

/// Returns the number of 64-bit words in the record of an edge with `columns` values. Without
/// values, the record is just the key.
pub(super) fn words(columns: u32) -> usize {
    if columns == 0 { 1 } else { HEAD + (columns as usize).div_ceil(2) }
}

/// Returns the values of a record. If an edge has an odd number of values, the last one is
/// repeated.
pub(super) fn values(record: &[u64]) -> impl Iterator<Item = f32> {
    let pairs = record.get(HEAD..).unwrap_or_default().iter();
    pairs.flat_map(|&pair| [f32::from_bits(pair as u32), f32::from_bits((pair >> 32) as u32)])
}

impl<'a> Keys<'a> {
    /// Creates the keys of the lists of in-neighbours.
    pub(super) fn into(source: &'a dyn EdgeSource, options: Options) -> Self {
        Self::new(source, options, false)
    }

    /// Creates the keys of the lists of out-neighbours.
    pub(super) fn out_of(source: &'a dyn EdgeSource, options: Options) -> Self {
        Self::new(source, options, true)
    }

    fn new(source: &'a dyn EdgeSource, options: Options, out: bool) -> Self {
        Self { source, options, out, columns: 0, edges: AtomicU64::new(0), loops: AtomicU64::new(0) }
    }

    /// Returns true if an edge is dropped when its values add up to 0.
    pub(super) fn zeros_are_no_edges(&self) -> bool {
        self.columns == 1 && self.source.is_weight()
    }

    /// Returns the numbers of edges and self-loops that [`Keys::share_out`] has read.
    pub(super) fn listed(&self) -> Listed {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Listed { edges: count(&self.edges), loops: count(&self.loops) }
    }

    /// Returns the same entries as records that include the values of the source. If the source has
    /// no values, nothing changes.
    pub(super) fn with_values(self) -> Self {
        Self { columns: self.source.columns() as usize, ..self }
    }

    /// Returns the number of values per edge in the records.
    pub(super) fn columns(&self) -> u32 {
        self.columns as u32
    }

    /// Returns the number of 64-bit words per record.
    pub(super) fn words(&self) -> usize {
        words(self.columns())
    }

    /// Returns an upper bound for the second word of a record.
    pub(super) fn last_place(&self) -> u64 {
        self.source.chunks().saturating_mul(2 * MAX_CHUNK_EDGES as u64)
    }

    /// Returns the number of vertices, which the caller of the constructor has checked.
    pub(super) fn vertices(&self) -> u64 {
        self.source.vertices()
    }

    /// Distributes all records to `workers`, each of which runs `take` on its own thread. The
    /// threads read chunks of the source and reserve memory for `reserved` edges beforehand.
    /// Returns the workers, or the error of the first chunk that has one.
    pub(super) fn share_out<W: Send>(
        &self,
        workers: Vec<W>,
        reserved: usize,
        take: impl Fn(&mut W, &[u64]) -> Result<()> + Sync,
    ) -> Result<Vec<W>> {
        let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let fault: Mutex<Option<(u64, Error)>> = Mutex::default();
        let run = |mut worker: W| {
            let (words, piece) = (self.words(), (PIECE / self.words()).max(1));
            let (mut edges, mut keys) = (Vec::with_capacity(reserved), Vec::with_capacity(2 * piece * words));
            let valued = self.columns > 0 && reserved > 0;
            let mut values = Vec::with_capacity(if valued { MAX_CHUNK_VALUES } else { 0 });
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                // Every chunk before the failed one has been taken by a thread that will finish it.
                if chunk >= self.source.chunks() || chunk > failed.load(Ordering::Relaxed) {
                    return worker;
                }
                let read = self.read(chunk, &mut edges, &mut values).and_then(|()| {
                    (0..).zip(edges.chunks(piece)).try_for_each(|(at, edges)| {
                        keys.clear();
                        match self.columns {
                            0 => self.convert(edges, &mut keys),
                            columns => {
                                let from = at * piece;
                                let values = values.get(from * columns..).unwrap_or_default();
                                let place = chunk.saturating_mul(MAX_CHUNK_EDGES as u64) + from as u64;
                                self.convert_with(place, edges, values, &mut keys);
                            }
                        }
                        take(&mut worker, &keys)
                    })
                });
                if let Err(error) = read {
                    failed.fetch_min(chunk, Ordering::Relaxed);
                    let mut first = fault.lock().unwrap_or_else(PoisonError::into_inner);
                    if first.as_ref().is_none_or(|(at, _)| chunk < *at) {
                        *first = Some((chunk, error));
                    }
                    return worker;
                }
            }
        };
        let workers = on_threads(workers, run);
        match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(workers),
        }
    }

    /// Reads the chunk `chunk` of the source and checks its edges and values.
    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>, values: &mut Vec<f32>) -> Result<()> {
        edges.clear();
        values.clear();
        match self.columns {
            0 => self.source.read(chunk, edges)?,
            _ => self.source.read_with_values(chunk, edges, values)?,
        }
        let place = |row: usize| Place::row(format!("edges, chunk {chunk}"), row as u64);
        let limits = [("edges", edges.len(), MAX_CHUNK_EDGES), ("values", values.len(), MAX_CHUNK_VALUES)];
        for (unit, found, allowed) in limits {
            if found > allowed {
                return Err(Error::Limit {
                    place: place(allowed),
                    limit: "chunk",
                    unit,
                    allowed: allowed as u64,
                    found: found as u64,
                    remedy: "divide the source into more chunks",
                });
            }
        }
        if values.len() != edges.len() * self.columns {
            return Err(Error::Mismatch {
                place: Place::whole(format!("edges, chunk {chunk}")),
                what: "values",
                found: values.len() as u64,
                expected: (edges.len() * self.columns) as u64,
                other: format!("{} edges of {} columns", edges.len(), self.columns),
            });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (row, column) = (at / self.columns, at % self.columns);
            return Err(Error::NotFinite { place: place(row), column: column as u64, value: values[at] });
        }
        let vertices = self.source.vertices();
        if let Some(row) = edges.iter().position(|&(s, t)| u64::from(s.max(t)) >= vertices) {
            let (source, target) = edges[row];
            let wrong = if u64::from(source) >= vertices { source } else { target };
            return Err(Error::UnknownVertex {
                place: place(row),
                vertex: wrong.to_string(),
                known: format!("vertices are 0..{vertices}"),
            });
        }
        self.edges.fetch_add(edges.len() as u64, Ordering::Relaxed);
        let loops = edges.iter().filter(|(source, target)| source == target).count();
        self.loops.fetch_add(loops as u64, Ordering::Relaxed);
        Ok(())
    }

    fn convert(&self, edges: &[(u32, u32)], keys: &mut Vec<u64>) {
        let Options { symmetric, keep_self_loops } = self.options;
        let kept = edges.iter().filter(|(s, t)| keep_self_loops || s != t);
        match (symmetric, self.out) {
            (true, _) => keys.extend(kept.flat_map(|&(s, t)| [key(t, s), key(s, t)])),
            (false, false) => keys.extend(kept.map(|&(s, t)| key(t, s))),
            (false, true) => keys.extend(kept.map(|&(s, t)| key(s, t))),
        }
    }

    /// Converts edges to records. `place` is the position of the first edge in the source. A
    /// self-loop has only one list entry.
    fn convert_with(&self, place: u64, edges: &[(u32, u32)], values: &[f32], records: &mut Vec<u64>) {
        let Options { symmetric, keep_self_loops } = self.options;
        for ((place, &(s, t)), values) in (place..).zip(edges).zip(values.chunks_exact(self.columns)) {
            if s == t && !keep_self_loops {
                continue;
            }
            let (to, from) = if self.out { (s, t) } else { (t, s) };
            let back = (symmetric && s != t).then(|| (key(from, to), REVERSE));
            for (key, direction) in std::iter::once((key(to, from), 0)).chain(back) {
                records.extend([key, place << 1 | direction]);
                records.extend(values.chunks(2).map(|pair| {
                    let [first, last] =
                        [pair.first(), pair.last()].map(|value| value.map_or(0, |v| v.to_bits()));
                    u64::from(first) | u64::from(last) << 32
                }));
            }
        }
    }
}
