//! Fixed summation tree, which determines the order of additions in sums over rows.

use std::ops::Range;

/// Maximum number of levels of the summation tree above the atoms.
pub const MAX_LEVEL: usize = 3;

/// Run of rows that are summed in order. Atoms are the leaves of the summation tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// Rows of the atom, as indices within the interval (a contiguous range of rows).
    pub rows: Range<u32>,
    /// Number of tree levels that end with this atom. It is 0 if more atoms of its group follow.
    pub closes: u8,
}

/// Node of the summation tree that lies completely within an interval (a contiguous range of rows).
/// The interval yields one partial sum for each such node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of tree levels between the node and its atoms. It is 0 if the node is an atom.
    pub level: u8,
    /// Atoms below the node, in the order of their rows.
    pub atoms: Vec<Atom>,
}

impl Part {
    /// Returns the rows that the node covers, as indices within the interval.
    pub fn rows(&self) -> Range<usize> {
        let start = self.atoms.first().map_or(0, |a| a.rows.start);
        let end = self.atoms.last().map_or(0, |a| a.rows.end);
        start as usize..end as usize
    }
}

/// Division of an interval's rows into parts and atoms, which fixes the order of sums over these
/// rows. Each part is a node of the summation tree and yields one partial sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    parts: Vec<Part>,
}

impl Grid {
    /// Creates a grid from its parts. The rows of the parts must be consecutive, starting at 0.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// Creates a grid with all rows in one atom. A sum over this grid adds the rows in order.
    pub fn single(rows: usize) -> Self {
        let rows = 0..u32::try_from(rows).unwrap_or(u32::MAX);
        Self { parts: vec![Part { level: 0, atoms: vec![Atom { rows, closes: 0 }] }] }
    }

    /// Returns the parts, in the order of their rows.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns true if the rows of all atoms are consecutive and start at 0.
    pub fn is_consecutive(&self) -> bool {
        let mut next = 0;
        self.parts.iter().flat_map(|p| &p.atoms).all(|a| {
            let follows = a.rows.start == next && a.rows.end >= next;
            next = a.rows.end;
            follows
        })
    }

    /// Returns the grid for rows that are each split into `by` rows. Returns `None` after an
    /// overflow.
    pub fn cut(&self, by: u32) -> Option<Self> {
        self.scaled(|row| row.checked_mul(by))
    }

    /// Returns the grid for rows that are grouped, `by` rows to one. Returns `None` if the start or
    /// end of an atom is not a multiple of `by`.
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

    /// Returns the number of rows that the grid divides.
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
