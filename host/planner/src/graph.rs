//! Graph of operators, which are the units that a planner groups into stages.

use std::ops::Add;

use crate::error::{Error, Result};
use eciton_recipe::Error as Refused;

/// Maximum number of operators of a graph.
pub const MAX_OPERATORS: usize = 1024;

/// Time of an operation in seconds, as an affine function of the number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Time of a call in seconds that does not depend on its rows.
    pub call: f64,
    /// Additional time per row, in seconds.
    pub row: f64,
}

impl Pace {
    /// Returns the time of a call on this number of rows, in seconds.
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

/// Operator: an operation of a model, forward and backward, with its times and sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operator {
    /// Name of the operator in plans.
    pub name: String,
    /// Indices of the operators whose output this one reads. All of them precede it in the list. If
    /// empty, the operator reads the data.
    pub reads: Vec<usize>,
    /// Forward time on a lane of pace 1.
    pub forward: Pace,
    /// Backward time on a lane of pace 1, including a loss.
    pub backward: Pace,
    /// Size of the operator's weights, in bytes. A weight that several operators read counts for
    /// each of them.
    pub weights: f64,
    /// Size of the rows that the operator stashes from forward to backward, in bytes per row,
    /// without its inputs.
    pub kept: f64,
    /// Size of the output that other operators read, in bytes per row. The gradient of the output
    /// has the same size.
    pub output: f64,
    /// Size of the data that the operator reads, in bytes per row. All operators of a stage read
    /// the same data.
    pub data: f64,
}

/// Graph of operators, in topological order.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    operators: Vec<Operator>,
    readers: Vec<Vec<usize>>,
}

impl Graph {
    /// Creates the graph of some operators.
    ///
    /// # Errors
    /// Returns [`Error::TooMany`] for more than [`MAX_OPERATORS`] operators. Returns
    /// [`Error::Content`] if the list is empty, if no operator takes time, if an operator reads
    /// itself or a later one, or if a value is negative or not finite.
    pub fn new(mut operators: Vec<Operator>) -> Result<Self> {
        let wrong =
            |reason: String| Err(Error::from(Refused::Content { what: "a graph of operators", reason }));
        if operators.is_empty() {
            return wrong("found no operator, expected at least one".to_owned());
        }
        if operators.len() > MAX_OPERATORS {
            let (found, most) = (operators.len() as u64, MAX_OPERATORS as u64);
            return Err(Error::from(Refused::TooMany { what: "operators of a graph", found, most }));
        }
        let mut readers = vec![Vec::new(); operators.len()];
        for (at, operator) in operators.iter_mut().enumerate() {
            operator.reads.sort_unstable();
            operator.reads.dedup();
            if let Some(read) = operator.reads.iter().find(|&&read| read >= at) {
                return wrong(format!(
                    "operator {at}, {}, reads operator {read}, which does not precede it",
                    operator.name
                ));
            }
            let Operator { forward, backward, weights, kept, output, data, .. } = operator;
            let figures =
                [forward.call, forward.row, backward.call, backward.row, *weights, *kept, *output, *data];
            if let Some(figure) = figures.into_iter().find(|figure| !(figure.is_finite() && *figure >= 0.0)) {
                return wrong(format!(
                    "operator {at}, {}, has the value {figure}, expected a number of at least 0",
                    operator.name
                ));
            }
            operator.reads.iter().for_each(|&read| readers[read].push(at));
        }
        if operators.iter().all(|of| (of.forward + of.backward).on(1.0) == 0.0) {
            return wrong(
                "all operators take 0 seconds, expected a time above 0 for at least one".to_owned(),
            );
        }
        Ok(Self { operators, readers })
    }

    /// Returns the operators, in topological order.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Returns the size of all weights, in bytes.
    #[must_use]
    pub fn weights(&self) -> f64 {
        self.operators.iter().map(|operator| operator.weights).sum()
    }

    /// Returns the number of operators, which is at least 1.
    pub(super) fn len(&self) -> usize {
        self.operators.len()
    }

    /// Returns the indices of the operators that read an operator's output, in ascending order.
    pub(super) fn readers(&self, at: usize) -> &[usize] {
        self.readers.get(at).map_or(&[], Vec::as_slice)
    }

    /// Returns the indices of the operators that an operator reads, in ascending order.
    pub(super) fn reads(&self, at: usize) -> &[usize] {
        self.operators.get(at).map_or(&[], |operator| &operator.reads)
    }
}
