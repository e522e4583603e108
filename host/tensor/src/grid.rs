//! Fixed summation tree for sums over rows.
//!
//! Floating-point sums depend on their order. For this reason the rows of a graph are divided once
//! into *atoms*. The rows of an atom are added in order, then atoms to groups, and groups to the
//! root. Each of these sums starts from +0. An interval (a run of rows that is scheduled as one
//! unit) consists of whole atoms. It yields one partial sum per maximal complete node of the tree
//! that it covers. Adding the partial sums gives the same bits for any number of intervals. (An
//! atom that contributes nothing may be left out: a sum that starts at +0 is never -0, and adding
//! +0 is exact.)

use std::ops::Range;

/// Maximum number of tree levels above the atoms.
pub const MAX_LEVEL: usize = 3;

/// Atom: a run of rows that is summed in order, the leaf of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// Rows of the atom, as indices within the interval.
    pub rows: Range<u32>,
    /// Number of tree levels that end with this atom. It is 0 if the atom's group continues.
    pub closes: u8,
}

/// Complete node of the tree, for which an interval yields one partial sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of levels between the node and its atoms. It is 0 if the node is an atom.
    pub level: u8,
    /// Atoms below the node, in order.
    pub atoms: Vec<Atom>,
}

impl Part {
    /// Returns the rows that the node covers.
    pub fn rows(&self) -> Range<usize> {
        let start = self.atoms.first().map_or(0, |a| a.rows.start);
        let end = self.atoms.last().map_or(0, |a| a.rows.end);
        start as usize..end as usize
    }
}

/// Nodes of the tree for which an interval yields partial sums, in row order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    parts: Vec<Part>,
}

impl Grid {
    /// Creates a grid from its parts. The rows of the parts must be consecutive from 0.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// Creates a grid with all rows in one atom, for a plain sum in row order.
    pub fn single(rows: usize) -> Self {
        let rows = 0..u32::try_from(rows).unwrap_or(u32::MAX);
        Self { parts: vec![Part { level: 0, atoms: vec![Atom { rows, closes: 0 }] }] }
    }

    /// Returns the parts, in row order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns true if the rows of all atoms are consecutive, starting at 0.
    pub fn is_consecutive(&self) -> bool {
        let mut next = 0;
        self.parts.iter().flat_map(|p| &p.atoms).all(|a| {
            let follows = a.rows.start == next && a.rows.end >= next;
            next = a.rows.end;
            follows
        })
    }

    /// Returns the grid after each row is split into `by` rows. `None` after an overflow.
    pub fn cut(&self, by: u32) -> Option<Self> {
        self.scaled(|row| row.checked_mul(by))
    }

    /// Returns the grid after every `by` rows are joined to one row. `None` if an atom ends within
    /// a joined row.
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

    /// Returns the number of rows that the grid covers.
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
