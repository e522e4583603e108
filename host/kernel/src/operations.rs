//! Linear algebra functions of the kernel contract. This module checks the shapes of the operands,
//! and [`eciton_tensor::ops`] does the arithmetic.

use eciton_tensor::matrix::Held;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::random::{Dropout, Purpose};
use eciton_tensor::{Grid, Matrix, View, ViewMut};

use crate::outs::{Laid, Place};
use crate::state::{Failure, OutView, RowNumbers, State, limit};

mod dense;
mod elementwise;
mod linear;
mod products;

pub(crate) use dense::{Attended, Window};

type Done = Result<(), Failure>;

/// Prologue of an operation, which adds a bias and applies an activation and dropout to an operand.
/// The bias is given by its handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub bias: Option<u32>,
    pub activation: Activation,
    /// Dropout probability, and index of the random stream that draws the mask.
    pub dropout: Option<(f32, u32)>,
}

/// Epilogue of an operation, which adds a bias and applies an activation to the result. The bias is
/// given by its handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct After {
    pub bias: Option<u32>,
    pub activation: Activation,
}

/// Handles of the outputs that receive the gradients of `linear`. An entry is `None` if the kernel
/// does not request that gradient.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gradients {
    pub x: Option<u32>,
    pub before_bias: Option<u32>,
    pub w: Option<u32>,
    pub after_bias: Option<u32>,
}

/// Owned data of a prologue, from which a [`Prologue`] borrows the bias and the row ids.
struct BeforeHeld {
    bias: Option<Vec<f32>>,
    activation: Activation,
    dropout: Option<Dropout>,
    numbers: RowNumbers,
    /// Index in `numbers` of the operand's first row.
    first: usize,
    /// Number of operand rows into which each row of the interval is split.
    cut: usize,
}

impl BeforeHeld {
    fn prologue(&self) -> Prologue<'_> {
        let first = self.first / self.cut.max(1);
        let row_ids = match &self.numbers {
            RowNumbers::From(from) => RowIds::From(from + first as u64),
            RowNumbers::List(ids) => RowIds::List(&ids[first.min(ids.len())..]),
        };
        // A dropout that drops nothing draws no random numbers.
        let dropout = self.dropout.filter(|dropout| dropout.threshold > 0);
        let cut = self.cut;
        Prologue { bias: self.bias.as_deref(), activation: self.activation, dropout, row_ids, cut }
    }

    /// Returns the same prologue for the operand's rows from `start` on.
    fn shifted(&self, start: usize) -> BeforeHeld {
        BeforeHeld {
            bias: self.bias.clone(),
            numbers: self.numbers.clone(),
            first: self.first + start,
            ..*self
        }
    }
}

/// Rows of an operand, which were dense or were copied.
enum AnyRows {
    Held(Held),
    Copied(Vec<f32>, [usize; 2]),
}

impl AnyRows {
    fn view(&self) -> View<'_> {
        match self {
            Self::Held(held) => held.view(),
            Self::Copied(values, [rows, columns]) => View::new(values, *rows, *columns),
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
                "{operation}: sparse rows are accepted by `linear`, `linear-backward`, `matmul`, `apply` and `read-rows` only"
            ))),
        }
    }

    /// Returns the rows of an operand. Sparse rows are copied to dense ones.
    fn any_rows(&self, operation: &str, handle: u32) -> Result<AnyRows, Failure> {
        if let Matrix::Dense(_) = self.matrix(handle)? {
            return self.dense(operation, handle).map(AnyRows::Held);
        }
        let (matrix, mut values) = (self.matrix(handle)?, Vec::new());
        let rows = matrix.shape().first().copied().unwrap_or(0) as usize;
        matrix.read_rows(0, rows, Some(self.limits.arrival), &mut values)?;
        Ok(AnyRows::Copied(values, [rows, matrix.columns()]))
    }

    /// Returns the values of an operand that is a vector of length `len`. Its shape is `[n]`, `[1,
    /// n]` or `[n, 1]`.
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
                    Failure::Argument(format!(
                        "{operation}: the dropout probability is {p}, but must be at least 0 and below 1"
                    ))
                };
                Some(made.ok_or_else(bad)?)
            }
            None => None,
        };
        let numbers = self.row_numbers.clone();
        Ok(BeforeHeld { bias, activation: before.activation, dropout, numbers, first: 0, cut: 1 })
    }

    /// Returns an error for a leaky ReLU or ELU with a negative slope. The derivative is computed
    /// from the activation's result, whose sign is ambiguous for negative slopes.
    fn check_activation(operation: &str, activation: Activation) -> Done {
        match activation {
            Activation::LeakyRelu(v) | Activation::Elu(v) if !(v.is_finite() && v >= 0.0) => {
                Err(Failure::Argument(format!(
                    "{operation}: the slope or alpha is {v}, but must be a finite number of at least 0"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that dropout has a random number for each of the operand's `rows` rows. The operand
    /// must have the interval's rows, or each of them split into the same number of rows.
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

    /// Calls `write` on the output `handle`, which must have exactly the shape `expected`, and
    /// marks its rows as written.
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

    /// Calls `write` on the output `handle`, which must have this number of rows and values per
    /// row. Its extents may differ. The rows are then marked as written.
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
            None => Err(Failure::Argument(format!("{operation}: this output is already finished"))),
        };
        self.places[view.place] = taken;
        result
    }

    /// Calls `sum` on the buffers of a parameter gradient, of which there is one per grid part. A
    /// scratch output has a single buffer. The output must have `len` rows of `width` values.
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
            return Err(Failure::Unsupported(format!(
                "{operation}: the output of a sum cannot be split or grouped rows"
            )));
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
            None => Err(Failure::Argument(format!("{operation}: this output is already finished"))),
        };
        self.places[view.place] = taken;
        result
    }
}

/// Returns a grid with a single part over the same rows, for sums into a scratch output.
fn plain(grid: &Grid) -> Grid {
    if grid.parts().len() == 1 { grid.clone() } else { Grid::single(grid.rows()) }
}

/// Returns true if an output with these extents has `rows` rows of `columns` values.
fn holds(extents: &[u32], rows: usize, columns: usize) -> bool {
    let found = extents.iter().skip(1).try_fold(1usize, |n, &e| n.checked_mul(e as usize));
    extents.first().is_some_and(|&e| e as usize == rows) && found == Some(columns)
}

/// Returns true if a buffer with these extents can hold `len` rows of `width` values without a
/// change of layout. The first extent is the number of rows, and the product of the others is the
/// number of columns. A vector may lie along either dimension.
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
        // Regression test: an output of another shape with the same number of values was accepted,
        // and rows were written past their end.
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
