//! A source's edges as 64-bit keys: whose list in the high half, which neighbour in the low one. The
//! lists of a graph are its keys in ascending order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::threads::on_threads;
use crate::adjacency::Options;
use crate::edges::{EdgeSource, MAX_CHUNK_EDGES};
use crate::error::{Error, Place, Result};

/// Edges that are turned into keys at a time: both fit the cache.
const PIECE: usize = 1024;

/// The key of one entry of a list.
#[inline]
fn key(owner: u32, neighbour: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(neighbour)
}

/// The edges of a source, as entries of lists.
pub(super) struct Keys<'a> {
    source: &'a dyn EdgeSource,
    options: Options,
    /// Whether lists are of out-neighbours.
    out: bool,
}

impl<'a> Keys<'a> {
    /// Entries of lists of in-neighbours.
    pub(super) fn into(source: &'a dyn EdgeSource, options: Options) -> Self {
        Self { source, options, out: false }
    }

    /// Entries of lists of out-neighbours.
    pub(super) fn out_of(source: &'a dyn EdgeSource, options: Options) -> Self {
        Self { source, options, out: true }
    }

    /// The number of vertices: checked by whoever made this.
    pub(super) fn vertices(&self) -> u64 {
        self.source.vertices()
    }

    /// Hands every key to a worker, chunks shared out among all of them; each runs on a thread of its
    /// own, which reserves room for `reserved` edges beforehand. Returns the workers, or the fault of the
    /// first chunk that has one.
    pub(super) fn share_out<W: Send>(
        &self,
        workers: Vec<W>,
        reserved: usize,
        take: impl Fn(&mut W, &[u64]) -> Result<()> + Sync,
    ) -> Result<Vec<W>> {
        let (next, failed) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        let fault: Mutex<Option<(u64, Error)>> = Mutex::default();
        let run = |mut worker: W| {
            let (mut edges, mut keys) = (Vec::with_capacity(reserved), Vec::with_capacity(2 * PIECE));
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                // Every chunk before the failed one has been taken by somebody who will finish it.
                if chunk >= self.source.chunks() || chunk > failed.load(Ordering::Relaxed) {
                    return worker;
                }
                let read = self.read(chunk, &mut edges).and_then(|()| {
                    edges.chunks(PIECE).try_for_each(|piece| {
                        keys.clear();
                        self.convert(piece, &mut keys);
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

    /// Reads and checks a chunk.
    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        edges.clear();
        self.source.read(chunk, edges)?;
        let place = |row: usize| Place::row(format!("edges, chunk {chunk}"), row as u64);
        if edges.len() > MAX_CHUNK_EDGES {
            return Err(Error::Limit {
                place: place(MAX_CHUNK_EDGES),
                limit: "chunk",
                unit: "edges",
                allowed: MAX_CHUNK_EDGES as u64,
                found: edges.len() as u64,
                remedy: "cut the source into more chunks",
            });
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
}
