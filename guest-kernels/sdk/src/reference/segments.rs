//! The operations on runs of a row and on segments of rows, as their formulas have them.

use std::rc::Rc;

use super::linalg::{two, with_rows};
use super::shape_error;
use super::store::{Dense, Store};
use crate::handles::{RawIds, RawMatrix, RawOut};
use crate::types::{Error, Reduction, Result};

/// p of [n, p, q], or 1 of [n, q].
fn runs(operation: &str, operand: &str, shape: &[u32]) -> Result<u32> {
    match shape {
        [_, p, _] => Ok(*p),
        [_, _] => Ok(1),
        _ => Err(shape_error(operation, operand, &[0, 0, 0], shape)),
    }
}

impl Store {
    /// An operand with these extents, or one row of them; whether it is one row.
    fn rows_or_one(
        &self,
        operation: &str,
        operand: &str,
        m: &RawMatrix,
        shape: &[u32],
    ) -> Result<(Rc<Dense>, bool)> {
        let found = self.matrix(operation, operand, m.handle)?;
        let row = shape[1..].iter().map(|&e| e as usize).product::<usize>();
        if found.shape == shape {
            Ok((found, false))
        } else if found.values.len() == row {
            Ok((found, true))
        } else {
            Err(shape_error(operation, operand, shape, &found.shape))
        }
    }

    pub(super) fn inner(&self, x: &RawMatrix, y: &RawMatrix, into: &RawOut) -> Result<()> {
        let x = self.matrix("inner", "x", x.handle)?;
        let p = runs("inner", "x", &x.shape)?;
        let (y, one) = self.rows_or_one("inner", "y", y, &x.shape)?;
        let to = self.place("inner", "into", into.handle, &[x.shape[0], p], None)?;
        let q = x.row_len() / p.max(1) as usize;
        let mut values = Vec::new();
        for at in 0..x.rows() * p as usize {
            let from = if one { at % p as usize } else { at };
            values.push((0..q).map(|k| x.values[at * q + k] * y.values[from * q + k]).sum());
        }
        to.fill(&values);
        Ok(())
    }

    pub(super) fn scale(&self, x: &RawMatrix, by: &RawMatrix, into: &RawOut) -> Result<()> {
        let shape = self.out_shape(into.handle);
        let p = runs("scale", "into", &shape)?;
        let by = self.like("scale", "by", by, &[shape[0], p])?;
        let (x, one) = self.rows_or_one("scale", "x", x, &shape)?;
        let to = self.place("scale", "into", into.handle, &shape, None)?;
        let row = shape[1..].iter().map(|&e| e as usize).product::<usize>();
        let q = row / p.max(1) as usize;
        let values: Vec<f64> = (0..row * by.rows())
            .map(|at| x.values[if one { at % row } else { at }] * by.values[at / q])
            .collect();
        to.fill(&values);
        Ok(())
    }

    /// Offsets that bound the segments of x.
    fn offsets(&self, operation: &str, x: &Dense, offsets: &RawIds) -> Result<Rc<Vec<u32>>> {
        let offsets = self.ids(operation, "offsets", offsets.handle)?;
        let ends_fit = offsets.first() == Some(&0) && offsets.last().is_some_and(|&l| l as usize == x.rows());
        if !ends_fit || offsets.windows(2).any(|w| w[0] > w[1]) {
            return Err(Error::Argument(format!(
                "{operation}: offsets must ascend from 0 to {}, the rows of x",
                x.rows()
            )));
        }
        Ok(offsets)
    }

    pub(super) fn reduce_segments(
        &mut self,
        x: &RawMatrix,
        offsets: &RawIds,
        by: Reduction,
        into: &RawOut,
    ) -> Result<()> {
        let name = "reduce-segments";
        let x = self.matrix(name, "x", x.handle)?;
        let offsets = self.offsets(name, &x, offsets)?;
        let to = self.place(name, "into", into.handle, &with_rows(&x, offsets.len() - 1), None)?;
        let mut values = Vec::new();
        for segment in offsets.windows(2) {
            for j in 0..x.row_len() {
                let column: Vec<f64> = (segment[0]..segment[1]).map(|i| x.row(i as usize)[j]).collect();
                values.push(self.reduced(&column, by));
            }
        }
        to.fill(&values);
        Ok(())
    }

    /// The softmax of a segment is smooth although its state is not: the largest value cancels, so its
    /// kinks are not noted.
    pub(super) fn softmax_segments(&self, x: &RawMatrix, offsets: &RawIds, state: &RawOut) -> Result<()> {
        let name = "softmax-segments";
        let x = self.matrix(name, "x", x.handle)?;
        let (_, p) = two(name, "x", &x)?;
        let offsets = self.offsets(name, &x, offsets)?;
        let shape = [offsets.len() as u32 - 1, 2 * p as u32];
        let to = self.place(name, "state", state.handle, &shape, None)?;
        let mut values = Vec::new();
        for segment in offsets.windows(2) {
            let column = |c: usize| (segment[0]..segment[1]).map(move |i| (i as usize, c));
            let mut inverses = Vec::new();
            for c in 0..p {
                let largest = column(c).map(|(i, c)| x.row(i)[c]).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = column(c).map(|(i, c)| (x.row(i)[c] - largest).exp()).sum();
                let empty = segment[0] == segment[1];
                values.push(if empty { 0.0 } else { largest });
                inverses.push(if empty { 0.0 } else { 1.0 / sum });
            }
            values.extend(inverses);
        }
        to.fill(&values);
        Ok(())
    }

    pub(super) fn softmax_values(&self, x: &RawMatrix, state: &RawMatrix, into: &RawOut) -> Result<()> {
        let name = "softmax-values";
        let x = self.matrix(name, "x", x.handle)?;
        let (n, p) = two(name, "x", &x)?;
        let state = self.like(name, "state", state, &[n as u32, 2 * p as u32])?;
        let to = self.place(name, "into", into.handle, &x.shape, None)?;
        let value = |at: usize| {
            let (row, c) = (state.row(at / p), at % p);
            (x.values[at] - row[c]).exp() * row[p + c]
        };
        to.fill(&(0..n * p).map(value).collect::<Vec<f64>>());
        Ok(())
    }
}
