//! Arrangement of the vertices of a generated graph, which maps between ranks, classes and vertex
//! ids.
//!
//! A model draws ranks, because its distribution of degrees is a function of the rank. Each block
//! of C successive ranks has one vertex of each of the C classes. A hash of the block rotates their
//! order, so that a class does not depend on the low bits of a rank. The rank of the vertex of
//! class c in block b is then a sum, and so is the class of a rank. No table is needed. Ids are
//! ranks, which are scattered if requested.

use super::keyed::{Purpose, below, stream};
use super::scramble::Scramble;
use crate::random::SplitMix64;

/// Mapping between ranks, classes and vertex ids of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    vertices: u32,
    /// Number of ranks per block. It is the number of classes, or of vertices if there are fewer.
    width: u32,
    turn: u64,
    scramble: Option<Scramble>,
}

impl Layout {
    /// Creates the arrangement. `vertices` and `classes` must be at least 1. If `scramble` is true,
    /// vertex ids are scattered.
    pub(crate) fn new(vertices: u32, classes: u32, scramble: bool, seed: u64) -> Self {
        Self {
            vertices,
            width: classes.min(vertices).max(1),
            turn: stream(seed, Purpose::Turn, 0).next_u64(),
            scramble: scramble.then(|| Scramble::new(u64::from(vertices), seed)),
        }
    }

    /// Returns the number of vertices.
    pub(crate) fn vertices(&self) -> u32 {
        self.vertices
    }

    /// Returns the number of ranks per block, which is the number of classes that have a vertex.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of blocks of ranks. The last block may lack some classes.
    pub(crate) fn blocks(&self) -> u32 {
        self.vertices.div_ceil(self.width)
    }

    /// Returns the number of positions by which the order of classes in a block is rotated.
    #[inline(always)]
    fn turned(&self, block: u32) -> u32 {
        below((SplitMix64::new(self.turn ^ u64::from(block)).next_u64() >> 32) as u32, self.width)
    }

    /// Returns the rank of the vertex of class `class` in the block `block`. If the last block
    /// lacks the class, returns the rank in the previous block.
    #[inline(always)]
    pub(crate) fn rank_of(&self, block: u32, class: u32) -> u32 {
        let within = |block: u32| {
            let place = u64::from(class) + u64::from(self.turned(block));
            let place = if place >= u64::from(self.width) { place - u64::from(self.width) } else { place };
            u64::from(block) * u64::from(self.width) + place
        };
        let rank = within(block);
        if rank < u64::from(self.vertices) { rank as u32 } else { within(block.saturating_sub(1)) as u32 }
    }

    /// Returns true if [`Layout::rank_of`] also returns this rank for the last block, because that
    /// block lacks the class.
    pub(crate) fn stands_in(&self, rank: u32) -> bool {
        let last = self.blocks() - 1;
        self.block(rank) + 1 == last && self.rank_of(last, self.class(rank)) == rank
    }

    /// Returns the block that contains the rank `rank`.
    #[inline(always)]
    pub(crate) fn block(&self, rank: u32) -> u32 {
        rank / self.width
    }

    /// Returns the class of the vertex with the rank `rank`.
    #[inline(always)]
    pub(crate) fn class(&self, rank: u32) -> u32 {
        let block = self.block(rank);
        let place = rank - block * self.width;
        let turned = self.turned(block);
        if place >= turned { place - turned } else { place + (self.width - turned) }
    }

    /// Returns the id of the vertex with the rank `rank`.
    #[inline(always)]
    pub(crate) fn id(&self, rank: u32) -> u32 {
        self.scramble.as_ref().map_or(rank, |scramble| scramble.id(rank))
    }

    /// Returns the rank of the vertex with the id `id`.
    #[inline]
    pub(crate) fn rank(&self, id: u32) -> u32 {
        self.scramble.as_ref().map_or(id, |scramble| scramble.rank(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_each_class_once() {
        for (vertices, classes) in [(1, 1), (1, 7), (5, 7), (7, 7), (8, 7), (1000, 41), (1025, 8), (9, 1)] {
            let layout = Layout::new(vertices, classes, true, 3);
            let width = layout.width();
            for block in 0..layout.blocks() {
                let first = block * width;
                let mut seen = vec![0; width as usize];
                for rank in first..(first + width).min(vertices) {
                    let class = layout.class(rank);
                    seen[class as usize] += 1;
                    assert_eq!(layout.rank_of(block, class), rank);
                    assert_eq!(layout.rank(layout.id(rank)), rank);
                }
                assert!(seen.iter().all(|&n| n <= 1));
                for class in 0..width {
                    let rank = layout.rank_of(block, class);
                    assert!(rank < vertices);
                    assert_eq!(layout.class(rank), class);
                }
            }
        }
        let largest = Layout::new(u32::MAX - 1, 8, false, 3);
        let last = largest.blocks() - 1;
        assert!((0..8).all(|class| largest.rank_of(last, class) < u32::MAX - 1));
    }
}
