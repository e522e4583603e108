//! Operators: what a planner cuts into stages.

use std::ops::Add;

use crate::error::{Error, Result};

/// Most operators of a graph.
pub const MAX_OPERATORS: usize = 1024;

/// What something takes as an affine function of rows, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Seconds a call, whatever its rows.
    pub call: f64,
    /// Seconds a row besides.
    pub row: f64,
}

impl Pace {
    /// Seconds of a call on so many rows.
    #[must_use]
    pub fn on(self, rows: f64) -> f64 {
        self.call + self.row * rows
    }
}

impl Add for Pace {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { call: self.call + other.call, row: self.row + other.row }
    }
}

/// An operation, forward and back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operator {
    /// What it is called in plans.
    pub name: String,
    /// The operators whose output it reads, each before it; none: it reads the data.
    pub reads: Vec<usize>,
    /// Forward, on a lane of pace 1.
    pub forward: Pace,
    /// Backward, a loss included.
    pub backward: Pace,
    /// Bytes of its weights. A weight that several operators read counts for each.
    pub weights: f64,
    /// Bytes a row that it keeps from forward to backward, besides what it reads.
    pub kept: f64,
    /// Bytes a row that others read. As many go back as its gradient.
    pub output: f64,
    /// Bytes a row of the data that it reads. Operators of a stage read the same.
    pub data: f64,
}

/// Operators in topological order.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    operators: Vec<Operator>,
    readers: Vec<Vec<usize>>,
}

impl Graph {
    /// The graph of operators.
    ///
    /// # Errors
    /// [`Error::TooMany`] above [`MAX_OPERATORS`]. [`Error::Content`] for none, for none that takes
    /// time, for one that reads itself or a later one, and for a figure that is negative or not
    /// finite.
    pub fn new(mut operators: Vec<Operator>) -> Result<Self> {
        let wrong = |reason: String| Err(Error::Content { what: "a graph of operators", reason });
        if operators.is_empty() {
            return wrong("no operator, where one is needed at least".to_owned());
        }
        if operators.len() > MAX_OPERATORS {
            let (found, most) = (operators.len() as u64, MAX_OPERATORS as u64);
            return Err(Error::TooMany { what: "operators of a graph", found, most });
        }
        let mut readers = vec![Vec::new(); operators.len()];
        for (at, operator) in operators.iter_mut().enumerate() {
            operator.reads.sort_unstable();
            operator.reads.dedup();
            if let Some(read) = operator.reads.iter().find(|&&read| read >= at) {
                return wrong(format!(
                    "operator {at}, {}, reads operator {read}, which is not before it",
                    operator.name
                ));
            }
            let Operator { forward, backward, weights, kept, output, data, .. } = operator;
            let figures =
                [forward.call, forward.row, backward.call, backward.row, *weights, *kept, *output, *data];
            if let Some(figure) = figures.into_iter().find(|figure| !(figure.is_finite() && *figure >= 0.0)) {
                return wrong(format!(
                    "operator {at}, {}, has {figure} where a figure of at least 0 is needed",
                    operator.name
                ));
            }
            operator.reads.iter().for_each(|&read| readers[read].push(at));
        }
        if operators.iter().all(|of| (of.forward + of.backward).on(1.0) == 0.0) {
            return wrong("no operator takes any time, where one has to".to_owned());
        }
        Ok(Self { operators, readers })
    }

    /// The operators.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Bytes of all weights.
    #[must_use]
    pub fn weights(&self) -> f64 {
        self.operators.iter().map(|operator| operator.weights).sum()
    }

    /// How many there are; at least 1.
    pub(super) fn len(&self) -> usize {
        self.operators.len()
    }

    /// The operators that read an operator's output, ascending.
    pub(super) fn readers(&self, at: usize) -> &[usize] {
        self.readers.get(at).map_or(&[], Vec::as_slice)
    }

    /// The operators that an operator reads, ascending.
    pub(super) fn reads(&self, at: usize) -> &[usize] {
        self.operators.get(at).map_or(&[], |operator| &operator.reads)
    }
}
