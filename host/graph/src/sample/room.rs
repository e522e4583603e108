//! Scratch memory of one thread for drawing subgraphs, which every draw reuses.

use super::frontier::Dashboard;
use crate::adjacency::{Adjacency, Graph};
use crate::random::SplitMix64;
use eciton_gather::prefetch;

/// Number of rows by which the prefetch of a list is ahead of its use.
const AHEAD: usize = 4;
/// Maximum number of cache lines of a list that are prefetched. The processor prefetches the rest
/// itself.
const LINES: usize = 16;
/// Number of list entries in one cache line.
const LINE: usize = 16;
/// Number of list entries that can be scanned in the time of one row lookup.
const SCANNED: usize = 16;

/// Scratch memory of one thread for drawing subgraphs. It takes 4 1/8 bytes per vertex of the
/// largest graph, plus the memory of the sampling method. It carries no data from one sample to the
/// next.
#[derive(Debug, Default)]
pub struct Room {
    /// Bits of the rows, which are set for the rows in the subgraph. Between samples no bit is set.
    bits: Vec<u64>,
    /// Local row of each row whose bit is set. Most rows that are looked up are not in the
    /// subgraph, so their bits are read first. The bits of a large graph fit into a cache that is
    /// too small for the local rows.
    local: Vec<u32>,
    /// Positions of the entries of a list whose sources are in the subgraph. The next field has the
    /// positions that were drawn.
    hits: Vec<u32>,
    pub(super) chosen: Vec<u32>,
    /// Marks of the positions of a list. A position is taken if its mark equals `now`.
    taken: Vec<u32>,
    now: u32,
    /// Keys by which the entries of a list are sorted.
    pub(super) keys: Vec<u64>,
    pub(super) dashboard: Dashboard,
}

/// Lists of in-neighbours under construction, to which one row after the other is added.
pub(super) struct Lists {
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
    edges: Vec<u64>,
}

impl Lists {
    pub(super) fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, neighbours: Vec::new(), edges: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, source: u32, edge: u64) {
        self.neighbours.push(source);
        self.edges.push(edge);
    }

    /// Ends the list of the current row, which may be empty.
    pub(super) fn end(&mut self) {
        self.offsets.push(self.neighbours.len() as u64);
    }

    pub(super) fn finish(self) -> (Adjacency, Vec<u64>) {
        (crate::build::trusted(self.offsets, self.neighbours), self.edges)
    }
}

/// Prefetches the list of the row at index `at` + [`AHEAD`], and the offset of the row at twice
/// this distance. Rows are spread over the graph, so their lists are in no cache.
#[inline(always)]
pub(super) fn ask_ahead(graph: &Graph, rows: &[u32], at: usize) {
    if let Some(&row) = rows.get(at + 2 * AHEAD) {
        prefetch::<u64, 2>(graph.offsets().as_ptr().wrapping_add(row as usize));
    }
    if let Some(&row) = rows.get(at + AHEAD) {
        let list = graph.in_neighbours(row).chunks(LINE).take(LINES);
        list.for_each(|line| prefetch::<u32, LINE>(line.as_ptr()));
    }
}

impl Room {
    /// Grows the memory to the number of rows of `graph`.
    pub(super) fn fit(&mut self, graph: &Graph) {
        let rows = graph.vertices() as usize;
        if self.local.len() < rows {
            self.local.resize(rows, 0);
            self.bits.resize(rows.div_ceil(64), 0);
        }
    }

    /// Returns the size in bytes of the memory for samples of `graph`.
    pub fn bytes(graph: &Graph) -> u64 {
        u64::from(graph.vertices()) * 4 + u64::from(graph.vertices()).div_ceil(64) * 8
    }

    /// Adds a row to the subgraph. Returns true if the subgraph did not contain it before.
    #[inline(always)]
    pub(super) fn enter(&mut self, row: u32) -> bool {
        let word = &mut self.bits[row as usize / 64];
        let before = *word;
        *word |= 1 << (row % 64);
        *word != before
    }

    /// Adds a row to the subgraph and returns its local row. If the row is new, its local row is
    /// `next`.
    #[inline(always)]
    pub(super) fn place(&mut self, row: u32, next: u32) -> u32 {
        if self.enter(row) {
            self.local[row as usize] = next;
        }
        self.local[row as usize]
    }

    /// Removes the rows `rows`, which are all rows of the subgraph.
    pub(super) fn leave(&mut self, rows: &[u32]) {
        for &row in rows {
            self.bits[row as usize / 64] = 0;
        }
    }

    /// Appends the lists of the rows `ids` to `lists`, without the sources that are not in `ids`.
    /// `ids` must ascend, and its first row has the local row `first`. Afterwards the subgraph is
    /// empty again.
    pub(super) fn induce(&mut self, graph: &Graph, ids: &[u32], first: u32, lists: &mut Lists) {
        for (&id, local) in ids.iter().zip(first..) {
            self.enter(id);
            self.local[id as usize] = local;
        }
        for (at, &id) in ids.iter().enumerate() {
            ask_ahead(graph, ids, at);
            let list = graph.in_neighbours(id);
            let from = graph.offsets()[id as usize];
            if list.len() / SCANNED > ids.len() {
                // A hub's list is much longer than the subgraph, so the subgraph's rows are looked
                // up in the list.
                let mut at = 0;
                for (&source, local) in ids.iter().zip(first..) {
                    at += list[at..].partition_point(|&other| other < source);
                    while list.get(at) == Some(&source) {
                        lists.push(local, from + at as u64);
                        at += 1;
                    }
                }
                lists.end();
                continue;
            }
            if self.hits.len() < list.len() {
                self.hits.resize(list.len(), 0);
            }
            let (bits, hits) = (&self.bits[..], &mut self.hits[..list.len()]);
            let mut found = 0;
            for (&source, at) in list.iter().zip(0..) {
                // The position is always written, because membership is unpredictable for a branch.
                // The next position overwrites it if it is not a member.
                if let Some(to) = hits.get_mut(found) {
                    *to = at;
                }
                found += (bits[source as usize / 64] >> (source % 64) & 1) as usize;
            }
            let hits = &hits[..found];
            lists.neighbours.extend(hits.iter().map(|&at| self.local[list[at as usize] as usize]));
            lists.edges.extend(hits.iter().map(|&at| from + u64::from(at)));
            lists.end();
        }
        self.leave(ids);
    }

    /// Chooses `count` distinct positions of `0..of`, or all positions if there are no more, and
    /// writes them to `chosen`. All sets have the same probability (Floyd's method: Bentley and
    /// Floyd 1987).
    pub(super) fn choose(&mut self, random: &mut SplitMix64, count: u32, of: u32, chosen: &mut Vec<u32>) {
        chosen.clear();
        if of <= count {
            chosen.extend(0..of);
            return;
        }
        if self.taken.len() < of as usize {
            self.taken.resize(of as usize, 0);
        }
        self.now = self.now.wrapping_add(1);
        if self.now == 0 {
            self.taken.fill(0);
            self.now = 1;
        }
        for last in of - count..of {
            let drawn = random.below(u64::from(last) + 1) as u32;
            let position = if self.taken[drawn as usize] == self.now { last } else { drawn };
            self.taken[position as usize] = self.now;
            chosen.push(position);
        }
    }
}
