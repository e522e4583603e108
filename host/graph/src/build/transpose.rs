//! Edge source over existing adjacency lists, from which the reversed lists are built.

use crate::adjacency::Adjacency;
use crate::edges::EdgeSource;
use crate::error::Result;
use eciton_input::threads::{on_threads, shares};

/// Number of edges per chunk of the source [`Lists`].
const CHUNK: u64 = 1 << 20;

/// Edge source over lists of in-neighbours, which need not be sorted. Offsets ascend from 0 to the
/// number of neighbours. Each chunk has the same number of edges.
pub(super) struct Lists<'a> {
    offsets: &'a [u64],
    neighbours: &'a [u32],
}

impl<'a> Lists<'a> {
    pub(super) fn from_adjacency(incoming: &'a Adjacency) -> Self {
        Self::new(incoming.offsets(), incoming.neighbours())
    }

    pub(super) fn new(offsets: &'a [u64], neighbours: &'a [u32]) -> Self {
        Self { offsets, neighbours }
    }
}

impl EdgeSource for Lists<'_> {
    fn vertices(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    fn chunks(&self) -> u64 {
        (self.neighbours.len() as u64).div_ceil(CHUNK)
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        let Self { offsets, neighbours } = *self;
        let span = chunk * CHUNK..((chunk + 1) * CHUNK).min(neighbours.len() as u64);
        let mut target = offsets.partition_point(|&o| o <= span.start).saturating_sub(1);
        for at in span {
            while offsets[target + 1] <= at {
                target += 1;
            }
            edges.push((neighbours[at as usize], target as u32));
        }
        Ok(())
    }
}

/// Returns true if every edge has its reverse. Vertices are visited in ascending order, so the
/// reverse edges of each list occur in the order of that list. One cursor per vertex follows them.
pub(super) fn equals_own(lists: &Adjacency, threads: usize) -> bool {
    let vertices = lists.vertices() as usize;
    on_threads(shares(vertices, threads), |own| {
        let mut cursors = lists.offsets()[own.clone()].to_vec();
        let bounds = own.start as u32..own.end as u32;
        for v in 0..vertices as u32 {
            let list = lists.neighbours_of(v);
            let list = &list[list.partition_point(|&u| u < bounds.start)..];
            for &u in list.iter().take_while(|&&u| u < bounds.end) {
                let cursor = &mut cursors[u as usize - own.start];
                if *cursor == lists.offsets()[u as usize + 1] || lists.neighbours()[*cursor as usize] != v {
                    return false;
                }
                *cursor += 1;
            }
        }
        // Every vertex has the same number of incoming and outgoing edges, so no edge remains.
        cursors.iter().zip(&lists.offsets()[own.start + 1..]).all(|(cursor, end)| cursor == end)
    })
    .into_iter()
    .all(|equal| equal)
}
