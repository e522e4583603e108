//! The fixed tree over which sums over rows are taken.
//!
//! Floating-point sums depend on their order. A graph's rows are cut once into *atoms*; a sum over
//! rows adds an atom's rows in order, then atoms into groups and groups into the root, each in
//! order and from +0. An interval is a run of whole atoms and yields one partial sum for each
//! maximal complete node of the tree that it covers, so that putting partials together gives the
//! same bits for any number of intervals. (An atom that contributes nothing may be left out: a sum
//! that starts at +0 is never -0, and adding +0 is exact.)

use std::ops::Range;

/// Levels a tree may have above its atoms.
pub const MAX_LEVEL: usize = 3;

/// One atom of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// Its rows, local to the interval.
    pub rows: Range<u32>,
    /// Number of levels of the tree that end with the atom. 0 if its group continues.
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

    /// Returns whether each atom's rows start where the last one's end, the first one's at 0.
    pub fn is_consecutive(&self) -> bool {
        let mut next = 0;
        self.parts.iter().flat_map(|p| &p.atoms).all(|a| {
            let follows = a.rows.start == next && a.rows.end >= next;
            next = a.rows.end;
            follows
        })
    }

    /// The grid of rows that are each `by` of this one's rows cut from them.
    pub fn cut(&self, by: u32) -> Option<Self> {
        self.scaled(|row| row.checked_mul(by))
    }

    /// The grid of rows that are `by` of this one's rows put together; none where an atom ends
    /// within such a row.
    pub fn joined(&self, by: u32) -> Option<Self> {
        self.scaled(|row| if row.checked_rem(by)? == 0 { row.checked_div(by) } else { None })
    }

    fn scaled(&self, of: impl Fn(u32) -> Option<u32>) -> Option<Self> {
        let atom = |a: &Atom| Some(Atom { rows: of(a.rows.start)?..of(a.rows.end)?, closes: a.closes });
        let part = |p: &Part| {
            let atoms = p.atoms.iter().map(&atom).collect::<Option<Vec<_>>>()?;
            Some(Part { level: p.level, atoms })
        };
        Some(Self { parts: self.parts.iter().map(part).collect::<Option<Vec<_>>>()? })
    }

    /// Rows covered.
    pub fn rows(&self) -> usize {
        self.parts.last().map_or(0, |p| p.rows().end)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn grids_of_cut_and_of_joined_rows() {
        let atom = |rows, closes| Atom { rows, closes };
        let grid = |k: u32| {
            let first = Part { level: 1, atoms: vec![atom(0..4 * k, 0), atom(4 * k..8 * k, 1)] };
            Grid::new(vec![first, Part { level: 0, atoms: vec![atom(8 * k..10 * k, 0)] }])
        };
        assert_eq!(grid(1).cut(3).unwrap(), grid(3));
        assert_eq!(grid(3).joined(3).unwrap(), grid(1));
        assert_eq!(grid(1).joined(2).unwrap().rows(), 5);
        assert!(grid(1).joined(4).is_none() && grid(1).joined(0).is_none());
        assert!(grid(1).cut(u32::MAX).is_none());
    }
}
