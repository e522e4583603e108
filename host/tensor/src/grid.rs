//! The fixed tree over which sums over rows are taken.
//!
//! Floating-point sums depend on their order. A graph's rows are cut once into *atoms*; a sum over
//! rows adds an atom's rows in order, then atoms into groups and groups into the root, each in order
//! and from +0. An interval is a run of whole atoms and yields one partial sum for each maximal
//! complete node of the tree that it covers, so that putting partials together gives the same bits
//! for any number of intervals. (An atom that contributes nothing may be left out: a sum that starts
//! at +0 is never -0, and adding +0 is exact.)

use std::ops::Range;

/// Levels a tree may have above its atoms.
pub const MAX_LEVEL: usize = 3;

/// One atom of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// Its rows, local to the interval.
    pub rows: Range<u32>,
    /// How many levels of the tree end with it (0: its group goes on).
    pub closes: u8,
}

/// A complete node of the tree: one partial sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Levels between the node and its atoms; 0 for an atom.
    pub level: u8,
    /// Its atoms in order.
    pub atoms: Vec<Atom>,
}

impl Part {
    /// The rows it covers.
    pub fn rows(&self) -> Range<usize> {
        let start = self.atoms.first().map_or(0, |a| a.rows.start);
        let end = self.atoms.last().map_or(0, |a| a.rows.end);
        start as usize..end as usize
    }
}

/// The partial sums that an interval yields, in row order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    parts: Vec<Part>,
}

impl Grid {
    /// A grid from its parts; rows must be consecutive from 0.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// All rows as one atom: the plain sum in row order.
    pub fn single(rows: usize) -> Self {
        let rows = 0..u32::try_from(rows).unwrap_or(u32::MAX);
        Self { parts: vec![Part { level: 0, atoms: vec![Atom { rows, closes: 0 }] }] }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether each atom's rows start where the last one's end, the first one's at 0.
    pub fn is_consecutive(&self) -> bool {
        let mut next = 0;
        self.parts.iter().flat_map(|p| &p.atoms).all(|a| {
            let follows = a.rows.start == next && a.rows.end >= next;
            next = a.rows.end;
            follows
        })
    }

    /// Rows covered.
    pub fn rows(&self) -> usize {
        self.parts.last().map_or(0, |p| p.rows().end)
    }
}
