//! Data sets of programs in a small language. The label of a program is the number with which it
//! ends. They are for networks that learn to execute programs (Bieber et al. 2020).
//!
//! A row is a program in the form of [`language::Program::encode`]. Its class is the value of v0
//! after the last line. Most programs of the training set have the maximum length. Sets of longer
//! programs show whether a model generalises to them. All sets of a specification have rows of the
//! same width. Every program comes from its own random stream.

pub mod language;

use language::{Program, length};

use super::keyed::{Purpose, stream};
use super::{MAX_FEATURES, whole};
use crate::adjacency::{Graph, Options};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::features::Features;
use crate::labels::Labels;
use crate::split::Split;

/// Maximum number of programs in a data set.
const MAX_PROGRAMS: u64 = 1 << 26;
/// Maximum number of lines of a program.
const MAX_LINES: u64 = 1000;
/// Maximum modulus of v0, which is the number of classes. Up to this limit, f32 represents all
/// tokens exactly.
const MAX_MODULUS: u64 = 1 << 16;
/// Maximum number of steps that a network may take to execute a program of any length.
const MAX_STEPS: u32 = 1000;

/// Specification of data sets of programs, which consist of a training set and sets of longer
/// programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Number of lines of the longest training programs. 9 of 10 programs have this length, and the
    /// others have at least 2 lines.
    pub lines: u32,
    /// Number of programs in the training set. 90 % of them are for training, 5 % for validation
    /// and 5 % for test.
    pub programs: u64,
    /// Numbers of lines of the programs in further sets. All programs of these sets are for test.
    pub lengths: Vec<u32>,
    /// Number of programs in each further set.
    pub each: u64,
    /// Modulus of the variable v0, which is the number of classes.
    pub modulus: u32,
    /// True if one statement of each program is hidden. The label is still the result of the
    /// complete program.
    pub partial: bool,
    /// Random seed of all programs.
    pub seed: u64,
}

impl Default for Programs {
    /// Returns a specification of 20,000 programs of up to 6 lines modulo 10, and of 2,000 programs
    /// each with 8, 12 and 20 lines.
    fn default() -> Self {
        let (lines, programs, each) = (6, 20_000, 2_000);
        Self { lines, programs, lengths: vec![8, 12, 20], each, modulus: 10, partial: false, seed: 0 }
    }
}

impl Programs {
    fn check(&self) -> Result<()> {
        whole("lines", self.lines.into(), 2, MAX_LINES)?;
        whole("programs", self.programs, 20, MAX_PROGRAMS)?;
        whole("programs of each length", self.each, 1, MAX_PROGRAMS)?;
        whole("modulus", self.modulus.into(), 2, MAX_MODULUS)?;
        self.lengths.iter().try_for_each(|&lines| whole("lines", lines.into(), 2, MAX_LINES))?;
        whole("values of a row", self.columns(), 1, MAX_FEATURES.into())
    }

    /// Returns the number of nodes per row. There is one node per line of the longest program, and
    /// one for the exit.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        1 + self.lengths.iter().copied().fold(self.lines, u32::max)
    }

    fn columns(&self) -> u64 {
        u64::from(self.nodes()) * language::NODE as u64
    }

    /// Returns the number of distinct tokens that a row may contain.
    #[must_use]
    pub fn entries(&self) -> u32 {
        Program::entries(self.modulus)
    }

    /// Generates the training set, whose programs have up to [`Programs::lines`] lines.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a parameter is outside its limits.
    pub fn train(&self, name: &str) -> Result<Dataset> {
        let count = self.programs;
        let at = |twentieths: u64| (count * twentieths / 20) as u32;
        let (first, second) = (at(18), at(19));
        let split = Split {
            train: (0..first).collect(),
            validation: (first..second).collect(),
            test: (second..count as u32).collect(),
        };
        self.set(name, None, count, split)
    }

    /// Generates a test set, whose programs have exactly `lines` lines.
    ///
    /// # Errors
    /// Returns the errors of [`Self::train`].
    pub fn test(&self, name: &str, lines: u32) -> Result<Dataset> {
        let test = (0..self.each as u32).collect();
        let split = Split { train: Vec::new(), validation: Vec::new(), test };
        self.set(name, Some(lines), self.each, split)
    }

    fn set(&self, name: &str, exactly: Option<u32>, count: u64, split: Split) -> Result<Dataset> {
        self.check()?;
        let (nodes, columns) = (self.nodes() as usize, self.columns());
        let mut values = Vec::new();
        let mut labels = Vec::new();
        for row in 0..count {
            // Sets have streams by length. Lengths are above 0, so that 0 is used for the training
            // set.
            let position = u64::from(exactly.unwrap_or(0)) << 40 | row;
            let mut numbers = stream(self.seed, Purpose::Programs, position);
            let mut draw = |bound: u32| numbers.below(u64::from(bound)) as u32;
            let lines =
                exactly.map_or_else(|| length(&mut draw, self.lines as usize), |lines| lines as usize);
            let program = Program::draw(&mut draw, lines, self.modulus);
            // Deeply nested loops may not end within the limit.
            let endless = || Error::Parameter {
                name: "lines",
                found: lines.to_string(),
                allowed: "lengths of which every program ends within 2^24 lines".to_owned(),
            };
            labels.push(program.run().ok_or_else(endless)?);
            let program = if self.partial { program.with_hidden(&mut draw) } else { program };
            program.encode(nodes, MAX_STEPS, &mut values).ok_or_else(endless)?;
        }
        Dataset::new(
            name.to_owned(),
            Graph::from_edges(count, std::iter::empty(), Options::default())?,
            Features::dense(columns as u32, &values)?,
            Labels::classes(labels, self.modulus),
            split,
        )
        .checked()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sets_have_rows_of_one_width_and_are_the_same_again() {
        let made = Programs { programs: 200, lengths: vec![8, 12], each: 50, ..Programs::default() };
        let (train, test) = (made.train("a").unwrap(), made.test("b", 12).unwrap());
        assert_eq!((train.features.columns(), test.features.columns()), (13 * 8, 13 * 8));
        assert_eq!(
            [train.split.train.len(), train.split.validation.len(), train.split.test.len()],
            [180, 10, 10]
        );
        assert_eq!([test.split.train.len(), test.split.test.len()], [0, 50]);
        assert!(train.labels == made.train("a").unwrap().labels);
        let partial = Programs { partial: true, ..made.clone() };
        // Hiding a statement changes no result.
        assert!(partial.train("a").unwrap().labels == train.labels);
        assert!(Programs { seed: 1, ..made.clone() }.train("a").unwrap().labels != train.labels);
        let mut row = [0.0; 13 * 8];
        for at in 0..50 {
            test.features.copy_row(at, &mut row);
            assert!(row.iter().all(|&v| v.fract() == 0.0 && v >= 0.0));
            assert_eq!(row[6], 12.0);
        }
        for wrong in [
            Programs { lines: 1, ..made.clone() },
            Programs { modulus: 1, ..made.clone() },
            Programs { programs: 19, ..made.clone() },
            Programs { each: 0, ..made.clone() },
            Programs { lengths: vec![1001], ..made.clone() },
        ] {
            assert!(matches!(wrong.train("a"), Err(Error::Parameter { .. })), "{wrong:?}");
        }
    }
}
