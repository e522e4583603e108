//! The contract's linear algebra over a task's handles: shapes are checked here, arithmetic is
//! [`eciton_tensor::ops`]'s.

use eciton_tensor::matrix::Held;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::random::{Dropout, Purpose};
use eciton_tensor::{Grid, Matrix, ViewMut};

use crate::outs::{Laid, Place};
use crate::state::{Failure, OutView, RowNumbers, State, limit};

mod dense;
mod elementwise;
mod linear;
mod products;

pub(crate) use dense::Window;

type Done = Result<(), Failure>;

/// A prologue over handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub bias: Option<u32>,
    pub activation: Activation,
    /// Probability and stream.
    pub dropout: Option<(f32, u32)>,
}

/// An epilogue over handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct After {
    pub bias: Option<u32>,
    pub activation: Activation,
}

/// The wanted gradients of `linear`, as handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gradients {
    pub x: Option<u32>,
    pub before_bias: Option<u32>,
    pub w: Option<u32>,
    pub after_bias: Option<u32>,
}

/// Owner of the data that a prologue borrows: its bias row and the row ids.
struct BeforeHeld {
    bias: Option<Vec<f32>>,
    activation: Activation,
    dropout: Option<Dropout>,
    numbers: RowNumbers,
    /// The first row's place among `numbers`.
    first: usize,
    /// Number of operand rows into which each numbered row is cut.
    cut: usize,
}

impl BeforeHeld {
    fn prologue(&self) -> Prologue<'_> {
        let first = self.first / self.cut.max(1);
        let row_ids = match &self.numbers {
            RowNumbers::From(from) => RowIds::From(from + first as u64),
            RowNumbers::List(ids) => RowIds::List(&ids[first.min(ids.len())..]),
        };
        // One that drops nothing draws no numbers.
        let dropout = self.dropout.filter(|dropout| dropout.threshold > 0);
        let cut = self.cut;
        Prologue { bias: self.bias.as_deref(), activation: self.activation, dropout, row_ids, cut }
    }

    /// The same for rows from `start` on.
    fn shifted(&self, start: usize) -> BeforeHeld {
        BeforeHeld {
            bias: self.bias.clone(),
            numbers: self.numbers.clone(),
            first: self.first + start,
            ..*self
        }
    }
}

fn shape_error(operation: &str, operand: &str, expected: Vec<u32>, found: Vec<u32>) -> Failure {
    Failure::Shape { operation: operation.to_owned(), operand: operand.to_owned(), expected, found }
}

impl State {
    fn dense(&self, operation: &str, handle: u32) -> Result<Held, Failure> {
        match self.matrix(handle)? {
            Matrix::Dense(d) => Ok(d.hold(Some(self.limits.arrival))?),
            Matrix::Sparse(_) => Err(Failure::Unsupported(format!(
                "{operation}: sparse rows are taken by `linear`, `linear-backward`, `matmul`, `apply` and `read-rows` only"
            ))),
        }
    }

    /// The values of a vector, stored as [n], [1, n] or [n, 1] or a view of one.
    fn vector(&self, operation: &str, operand: &str, handle: u32, len: usize) -> Result<Vec<f32>, Failure> {
        let shape = self.matrix(handle)?.shape();
        let total: u64 = shape.iter().map(|&e| u64::from(e)).product();
        if total != len as u64 || shape.len() > 2 || (shape.len() == 2 && shape[0] != 1 && shape[1] != 1) {
            return Err(shape_error(operation, operand, vec![len as u32], shape));
        }
        let held = self.dense(operation, handle)?;
        let view = held.view();
        Ok((0..view.rows()).flat_map(|i| view.row(i)).copied().collect())
    }

    fn work(&self, factors: [usize; 3]) -> Done {
        self.check_time()?;
        let asked = factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
        limit("call-work", "multiply-adds", self.limits.call_work, asked)
    }

    fn before(&self, operation: &str, before: Before, columns: usize) -> Result<BeforeHeld, Failure> {
        Self::check_activation(operation, before.activation)?;
        let bias = before.bias.map(|b| self.vector(operation, "before.bias", b, columns)).transpose()?;
        let dropout = match before.dropout.filter(|_| self.training) {
            Some((p, stream)) => {
                let made = Dropout::new(self.key(Purpose::Dropout, stream), p);
                let bad = || {
                    Failure::Argument(format!("{operation}: dropout probability {p}; 0 <= p < 1 is needed"))
                };
                Some(made.ok_or_else(bad)?)
            }
            None => None,
        };
        let numbers = self.row_numbers.clone();
        Ok(BeforeHeld { bias, activation: before.activation, dropout, numbers, first: 0, cut: 1 })
    }

    /// Derivatives are taken from the result, which tells the two sides apart only for slopes from
    /// 0.
    fn check_activation(operation: &str, activation: Activation) -> Done {
        match activation {
            Activation::LeakyRelu(v) | Activation::Elu(v) if !(v.is_finite() && v >= 0.0) => {
                Err(Failure::Argument(format!(
                    "{operation}: slope or alpha {v}; a finite number from 0 is needed"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Random numbers are addressed by the interval's rows: an operand has all of them, whole or
    /// each cut into several, or none are drawn.
    fn check_rows(&self, operation: &str, before: &mut BeforeHeld, rows: usize) -> Done {
        let interval = self.grid.rows();
        if before.dropout.is_none() || rows == interval {
            return Ok(());
        }
        if self.given.is_some() && rows.checked_rem(interval) == Some(0) && rows > 0 {
            before.cut = rows / interval;
            return Ok(());
        }
        Err(shape_error(
            operation,
            "x (dropout needs the interval's rows)",
            vec![interval as u32],
            vec![rows as u32],
        ))
    }

    /// Runs `write` on an out of exactly this shape and marks it written.
    fn write_to<T>(
        &mut self,
        operation: &str,
        handle: u32,
        expected: &[usize],
        write: impl FnOnce(&Self, &mut ViewMut<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let view = self.out(handle)?;
        let found = self.out_shape(handle)?;
        if found.len() != expected.len() || found.iter().zip(expected).any(|(&f, &e)| f as usize != e) {
            return Err(shape_error(operation, "into", expected.iter().map(|&e| e as u32).collect(), found));
        }
        self.write_place(operation, view, write)
    }

    /// Runs `write` on an out of so many rows of so many values, whatever extents a row has, and
    /// marks it written.
    fn write_values<T>(
        &mut self,
        operation: &str,
        handle: u32,
        (rows, columns): (usize, usize),
        write: impl FnOnce(&Self, &mut ViewMut<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let view = self.out(handle)?;
        let found = self.out_shape(handle)?;
        if !holds(&found, rows, columns) {
            return Err(shape_error(operation, "into", vec![rows as u32, columns as u32], found));
        }
        self.write_place(operation, view, write)
    }

    fn write_place<T>(
        &mut self,
        operation: &str,
        view: OutView,
        write: impl FnOnce(&Self, &mut ViewMut<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut taken = self.places[view.place].take();
        let result = match &mut taken {
            Some(Place::Rows { rows, written, .. }) => {
                let mut all = rows.view_mut();
                let result = view.laid.with(&mut all.slice(view.start, view.count), |rows| write(self, rows));
                if result.is_ok() {
                    written.add(view.start..view.start + view.count);
                }
                result
            }
            Some(Place::Sums { .. }) => Err(Failure::Unsupported(format!(
                "{operation}: a parameter's gradient or a loss is written by a reduction over rows (matmul with transpose-a, sum-rows, linear-backward, scatter-sum)"
            ))),
            None => Err(Failure::Argument(format!("{operation}: this out was finished"))),
        };
        self.places[view.place] = taken;
        result
    }

    /// Runs `sum` on the parts of a gradient of exactly this many values, or on one part for
    /// scratch.
    fn sum_to(
        &mut self,
        operation: &str,
        handle: u32,
        (len, width): (usize, usize),
        rows: usize,
        sum: impl FnOnce(&Self, &Grid, &mut [ViewMut<'_>]) -> Done,
    ) -> Done {
        let view = self.out(handle)?;
        let found = self.out_shape(handle)?;
        if !lies_as(&found, len, width, len == 1) {
            return Err(shape_error(operation, "into", vec![len as u32, width as u32], found));
        }
        if view.laid != Laid::AsTheyAre {
            return Err(Failure::Unsupported(format!("{operation}: a sum has no split or grouped rows")));
        }
        let is_sum = matches!(self.place(view)?, Place::Sums { .. });
        let grid = if is_sum { self.grid_of(operation, rows)? } else { self.grid.clone() };
        let mut taken = self.places[view.place].take();
        let result = match &mut taken {
            Some(Place::Sums { parts, written, .. }) => {
                let mut views: Vec<ViewMut<'_>> = parts.iter_mut().map(|p| p.view_mut()).collect();
                let result = sum(self, &grid, &mut views);
                *written |= result.is_ok();
                result
            }
            Some(Place::Rows { rows: target, written, .. }) => {
                let single = if rows == grid.rows() { plain(&grid) } else { Grid::single(rows) };
                let mut all = target.view_mut();
                let result = sum(self, &single, &mut [all.slice(view.start, view.count)]);
                if result.is_ok() {
                    written.add(view.start..view.start + view.count);
                }
                result
            }
            None => Err(Failure::Argument(format!("{operation}: this out was finished"))),
        };
        self.places[view.place] = taken;
        result
    }
}

/// One part over the same atoms: what a scratch sum is taken over.
fn plain(grid: &Grid) -> Grid {
    if grid.parts().len() == 1 { grid.clone() } else { Grid::single(grid.rows()) }
}

/// Returns whether a place of these extents has so many rows of so many values.
fn holds(extents: &[u32], rows: usize, columns: usize) -> bool {
    let found = extents.iter().skip(1).try_fold(1usize, |n, &e| n.checked_mul(e as usize));
    extents.first().is_some_and(|&e| e as usize == rows) && found == Some(columns)
}

/// Returns whether a place of these extents holds `len` rows of `width` values as its buffer has
/// them: the first extent are its rows, the others its columns. A vector may lie along either.
fn lies_as(extents: &[u32], len: usize, width: usize, vector: bool) -> bool {
    let rows = extents.first().map_or(1, |&e| e as usize);
    let columns = extents.iter().skip(1).try_fold(1usize, |n, &e| n.checked_mul(e as usize));
    match columns {
        Some(columns) if vector => {
            (rows == 1 || columns == 1) && rows.checked_mul(columns) == len.checked_mul(width)
        }
        columns => rows == len && columns == Some(width),
    }
}

#[cfg(test)]
mod tests {
    use super::lies_as;

    #[test]
    fn sums_go_only_where_their_rows_and_columns_fit() {
        // Once, as many values in another shape were taken for a fit, and written past a row's end.
        for (extents, fits) in [
            (&[4, 6][..], true),
            (&[4, 2, 3], true),
            (&[6, 4], false),
            (&[24], false),
            (&[24, 1], false),
            (&[1, 24], false),
            (&[2, 12], false),
            (&[], false),
            (&[4, u32::MAX, u32::MAX, u32::MAX], false),
        ] {
            assert_eq!(lies_as(extents, 4, 6, false), fits, "{extents:?}");
        }
        for (extents, fits) in [
            (&[6][..], true),
            (&[1, 6], true),
            (&[6, 1], true),
            (&[2, 3], false),
            (&[5], false),
            (&[u32::MAX, u32::MAX, u32::MAX], false),
        ] {
            assert_eq!(lies_as(extents, 1, 6, true), fits, "a vector in {extents:?}");
        }
    }
}
