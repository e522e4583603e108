//! The contract's linear algebra over a task's handles: shapes are checked here, arithmetic is
//! [`eciton_tensor::ops`]'s.

use std::sync::Arc;

use eciton_tensor::matrix::Held;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::ops::{rows, softmax, sparse};
use eciton_tensor::random::{Dropout, Purpose};
use eciton_tensor::{Grid, Matrix, View, ViewMut};

use crate::call::RowNumbers;
use crate::outs::Place;
use crate::state::{Failure, State, limit};

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

/// What a prologue borrows from: its bias row and the rows' ids.
struct BeforeHeld {
    bias: Option<Held>,
    activation: Activation,
    dropout: Option<Dropout>,
    numbers: RowNumbers,
}

impl BeforeHeld {
    fn prologue(&self) -> Prologue<'_> {
        let row_ids = match &self.numbers {
            RowNumbers::From(first) => RowIds::From(*first),
            RowNumbers::List(ids) => RowIds::List(ids),
        };
        let bias = self.bias.as_ref().map(|h| row_of(h.view()));
        Prologue { bias, activation: self.activation, dropout: self.dropout, row_ids }
    }

    /// The same for rows from `start` on.
    fn shifted(&self, start: usize) -> BeforeHeld {
        let numbers = match &self.numbers {
            RowNumbers::From(first) => RowNumbers::From(first + start as u64),
            RowNumbers::List(ids) => RowNumbers::List(ids[start.min(ids.len())..].into()),
        };
        BeforeHeld { bias: self.bias.clone(), numbers, ..*self }
    }
}

/// A vector as one row, whether it is stored as [1, n] or as [n, 1].
fn row_of<'a>(v: View<'a>) -> &'a [f32] {
    if v.rows() == 1 { v.row(0) } else { &v.data()[..v.rows()] }
}

fn shape_error(operation: &str, operand: &str, expected: Vec<u32>, found: Vec<u32>) -> Failure {
    Failure::Shape { operation: operation.to_owned(), operand: operand.to_owned(), expected, found }
}

impl State {
    fn dense(&self, operation: &str, handle: u32) -> Result<Held, Failure> {
        match self.matrix(handle)? {
            Matrix::Dense(d) => Ok(d.hold(Some(self.limits.arrival))?),
            Matrix::Sparse(_) => Err(Failure::Unsupported(format!(
                "{operation}: sparse rows are taken by `linear`, `linear-backward`, `matmul` and `read-rows` only"
            ))),
        }
    }

    fn vector(&self, operation: &str, operand: &str, handle: u32, len: usize) -> Result<Held, Failure> {
        let shape = self.matrix(handle)?.shape();
        let total: u64 = shape.iter().map(|&e| u64::from(e)).product();
        if total != len as u64 || shape.len() > 2 || (shape.len() == 2 && shape[0] != 1 && shape[1] != 1) {
            return Err(shape_error(operation, operand, vec![len as u32], shape));
        }
        self.dense(operation, handle)
    }

    fn work(&self, factors: [usize; 3]) -> Done {
        let asked = factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
        limit("call-work", "multiply-adds", self.limits.call_work, asked)
    }

    fn before(&self, operation: &str, before: Before, columns: usize) -> Result<BeforeHeld, Failure> {
        Self::check_activation(operation, before.activation)?;
        let bias = before.bias.map(|b| self.vector(operation, "before.bias", b, columns)).transpose()?;
        let dropout = match before.dropout.filter(|_| self.training) {
            Some((p, stream)) => {
                let made = Dropout::new(self.key(Purpose::Dropout, stream), p);
                let bad = || Failure::Argument(format!("{operation}: dropout probability {p}; 0 <= p < 1 is needed"));
                Some(made.ok_or_else(bad)?)
            }
            None => None,
        };
        Ok(BeforeHeld { bias, activation: before.activation, dropout, numbers: self.row_numbers.clone() })
    }

    /// Derivatives are taken from the result, which tells the two sides apart only for slopes from 0.
    fn check_activation(operation: &str, activation: Activation) -> Done {
        match activation {
            Activation::LeakyRelu(v) | Activation::Elu(v) if !(v.is_finite() && v >= 0.0) => {
                Err(Failure::Argument(format!("{operation}: slope or alpha {v}; a finite number from 0 is needed")))
            }
            _ => Ok(()),
        }
    }

    /// Random numbers are addressed by the interval's rows: an operand has all of them, or none are drawn.
    fn check_rows(&self, operation: &str, before: &BeforeHeld, rows: usize) -> Done {
        let interval = self.grid.rows();
        if before.dropout.is_some() && rows != interval {
            return Err(shape_error(operation, "x (dropout needs the interval's rows)", vec![interval as u32], vec![
                rows as u32,
            ]));
        }
        Ok(())
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
        let mut taken = self.places[view.place].take();
        let result = match &mut taken {
            Some(Place::Rows { rows, written, .. }) => {
                let mut all = rows.view_mut();
                let result = write(self, &mut all.slice(view.start, view.count));
                if result.is_ok() {
                    written.add(view.start..view.start + view.count);
                }
                result
            }
            Some(Place::Sums { .. }) => Err(Failure::Unsupported(format!(
                "{operation}: a parameter's gradient or a loss is written by a reduction over rows (matmul with transpose-a, sum-rows, linear-backward)"
            ))),
            None => Err(Failure::Argument(format!("{operation}: this out was finished"))),
        };
        self.places[view.place] = taken;
        result
    }

    /// Runs `sum` on the parts of a gradient of exactly this many values, or on one part for scratch.
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
        let total: u64 = found.iter().map(|&e| u64::from(e)).product();
        let last = found.last().map_or(1, |&e| e as usize);
        if total != (len * width) as u64 || (found.len() > 1 && len > 1 && last != width) {
            return Err(shape_error(operation, "into", vec![len as u32, width as u32], found));
        }
        let grid = self.grid.clone();
        let is_sum = matches!(self.place(view)?, Place::Sums { .. });
        if is_sum && rows != grid.rows() {
            return Err(shape_error(operation, "rows summed (the interval's)", vec![grid.rows() as u32], vec![
                rows as u32,
            ]));
        }
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

    /// into = activation(u w + bias).
    pub(crate) fn linear(&mut self, x: u32, before: Before, w: u32, after: After, into: u32) -> Done {
        let op = "linear";
        let (m, k) = (self.matrix(x)?.rows(), self.matrix(x)?.columns());
        let w_shape = self.matrix(w)?.shape();
        let [wk, n] = w_shape[..] else {
            return Err(shape_error(op, "w", vec![k as u32, 0], w_shape));
        };
        if wk as usize != k {
            return Err(shape_error(op, "w", vec![k as u32, n], w_shape));
        }
        let n = n as usize;
        let w = self.dense(op, w)?;
        let held = self.before(op, before, k)?;
        Self::check_activation(op, after.activation)?;
        self.check_rows(op, &held, m)?;
        let bias = after.bias.map(|b| self.vector(op, "after.bias", b, n)).transpose()?;
        let x = self.matrix(x)?.clone();
        match &x {
            Matrix::Sparse(s) => self.work([s.data.stored_in(s.rows.clone()), n, 1])?,
            Matrix::Dense(_) => self.work([m, k, n])?,
        }
        let deadline = Some(self.limits.arrival);
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.write_to(op, into, &[m, n], |_, out| {
            let bias = bias.as_ref().map(|h| row_of(h.view()));
            match &x {
                Matrix::Sparse(s) => {
                    check_sparse(op, before)?;
                    let (p, w) = (held.prologue(), w.view());
                    sparse::linear(&s.data, s.rows.clone(), &p, w, bias, after.activation, out, &mut scratch);
                }
                Matrix::Dense(_) => {
                    // Block by block as rows arrive; one block where all are there.
                    let mut done = 0;
                    while done < m {
                        let there = x.arrived(done, deadline)?;
                        let Matrix::Dense(block) = x.slice_rows(done, there - done)? else { break };
                        let block = block.hold(deadline)?;
                        let shifted = held.shifted(done);
                        let p = shifted.prologue();
                        let mut out = out.slice(done, there - done);
                        product::linear(block.view(), &p, w.view(), bias, after.activation, 0, &mut out, &mut scratch);
                        done = there;
                    }
                }
            }
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Gradients of `linear`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn linear_backward(
        &mut self,
        x: u32,
        before: Before,
        w: u32,
        after: After,
        y: Option<u32>,
        grad: u32,
        wanted: Gradients,
    ) -> Done {
        let op = "linear-backward";
        let (m, k) = (self.matrix(x)?.rows(), self.matrix(x)?.columns());
        let w_shape = self.matrix(w)?.shape();
        let n = match w_shape[..] {
            [wk, n] if wk as usize == k => n as usize,
            _ => return Err(shape_error(op, "w", vec![k as u32, 0], w_shape)),
        };
        let grad_shape = self.matrix(grad)?.shape();
        if grad_shape != [m as u32, n as u32] {
            return Err(shape_error(op, "grad", vec![m as u32, n as u32], grad_shape));
        }
        let w = self.dense(op, w)?;
        let held = self.before(op, before, k)?;
        Self::check_activation(op, after.activation)?;
        self.check_rows(op, &held, m)?;
        let grad = self.dense(op, grad)?;
        // d = grad * activation'(y)
        let mut activated = Vec::new();
        if after.activation != Activation::Identity {
            let Some(y) = y else {
                return Err(Failure::Argument(format!("{op}: y must be given where `after` has an activation")));
            };
            let y_shape = self.matrix(y)?.shape();
            if y_shape != grad_shape {
                return Err(shape_error(op, "y", grad_shape, y_shape));
            }
            let y = self.dense(op, y)?;
            activated.reserve(m * n);
            for i in 0..m {
                let row = grad.view().row(i).iter().zip(y.view().row(i));
                activated.extend(row.map(|(&g, &y)| g * after.activation.derivative(y)));
            }
        }
        let d = if activated.is_empty() { grad.view() } else { View::new(&activated, m, n) };
        let x = self.matrix(x)?.clone();
        match &x {
            Matrix::Sparse(s) => self.work([s.data.stored_in(s.rows.clone()), n, 2])?,
            Matrix::Dense(_) => self.work([m, k, 2 * n])?,
        }
        let deadline = Some(self.limits.arrival);
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.gradients(op, (m, k, n), wanted, |grid, wanted| match &x {
            Matrix::Sparse(s) => {
                check_sparse(op, before)?;
                if wanted.x.is_some() || wanted.before_bias.is_some() {
                    return Err(Failure::Unsupported(format!(
                        "{op}: sparse rows have no gradient; ask for those of w and after.bias only"
                    )));
                }
                let p = held.prologue();
                if let Some(parts) = wanted.w {
                    sparse::weight_gradient(&s.data, s.rows.clone(), &p, d, grid, parts, &mut scratch);
                }
                if let Some(parts) = wanted.after_bias {
                    rows::sum_rows(d, grid, parts);
                }
                Ok(())
            }
            Matrix::Dense(dense) => {
                let x = dense.hold(deadline)?;
                product::linear_backward(x.view(), &held.prologue(), w.view(), d, grid, wanted, &mut scratch);
                Ok(())
            }
        });
        self.scratch = scratch;
        result
    }

    /// Takes the wanted places out, checks them, and hands them to `compute` together.
    fn gradients(
        &mut self,
        op: &str,
        (m, k, n): (usize, usize, usize),
        wanted: Gradients,
        compute: impl FnOnce(&Grid, Wanted<'_, '_>) -> Done,
    ) -> Done {
        let grid = self.grid.clone();
        let sums = [(wanted.before_bias, 1, k), (wanted.w, k, n), (wanted.after_bias, 1, n)];
        let mut handles: Vec<u32> = Vec::new();
        for (handle, len, width) in sums {
            let Some(handle) = handle else { continue };
            let found = self.out_shape(handle)?;
            let total: u64 = found.iter().map(|&e| u64::from(e)).product();
            let is_matrix = len > 1;
            if total != (len * width) as u64 || (is_matrix && found != [len as u32, width as u32]) {
                return Err(shape_error(op, "a gradient to write", vec![len as u32, width as u32], found));
            }
            if !matches!(self.place(self.out(handle)?)?, Place::Sums { .. }) {
                return Err(Failure::Unsupported(format!(
                    "{op}: gradients of w and of biases go to the task's parameter gradients; use matmul with transpose-a for others"
                )));
            }
            handles.push(handle);
        }
        if !handles.is_empty() && m != grid.rows() {
            return Err(shape_error(op, "x (sums need the interval's rows)", vec![grid.rows() as u32, k as u32], vec![
                m as u32, k as u32,
            ]));
        }
        if let Some(x) = wanted.x {
            let found = self.out_shape(x)?;
            if found != [m as u32, k as u32] {
                return Err(shape_error(op, "grad-x", vec![m as u32, k as u32], found));
            }
            handles.push(x);
        }
        let mut places: Vec<usize> = handles.iter().filter_map(|&h| self.outs.get(h)).map(|v| v.place).collect();
        places.sort_unstable();
        places.dedup();
        if places.len() != handles.len() {
            return Err(Failure::Argument(format!("{op}: one place to write was given twice")));
        }
        let mut take = |handle: Option<u32>| -> Option<(u32, usize, Place)> {
            let handle = handle?;
            let at = self.outs.get(handle)?.place;
            Some((handle, at, self.places[at].take()?))
        };
        let mut taken = [take(wanted.x), take(wanted.before_bias), take(wanted.w), take(wanted.after_bias)];
        let x_view = wanted.x.and_then(|h| self.outs.get(h).copied());
        let result = {
            let [x, before_bias, w, after_bias] = &mut taken;
            let mut all_rows = match x {
                Some((_, _, Place::Rows { rows, .. })) => Some(rows.view_mut()),
                Some(_) => return Err(Failure::Argument(format!("{op}: grad-x must be rows"))),
                None => None,
            };
            let mut x_rows = match (&mut all_rows, x_view) {
                (Some(rows), Some(view)) => Some(rows.slice(view.start, view.count)),
                _ => None,
            };
            fn parts(place: &mut Option<(u32, usize, Place)>) -> Option<Vec<ViewMut<'_>>> {
                match place {
                    Some((_, _, Place::Sums { parts, .. })) => Some(parts.iter_mut().map(|p| p.view_mut()).collect()),
                    _ => None,
                }
            }
            let (mut before_bias, mut w, mut after_bias) = (parts(before_bias), parts(w), parts(after_bias));
            compute(&grid, Wanted {
                x: x_rows.as_mut(),
                before_bias: before_bias.as_deref_mut(),
                w: w.as_deref_mut(),
                after_bias: after_bias.as_deref_mut(),
            })
        };
        for (_, at, mut place) in taken.into_iter().flatten() {
            match (&mut place, result.is_ok()) {
                (Place::Sums { written, .. }, true) => *written = true,
                (Place::Rows { written, .. }, true) => {
                    if let Some(view) = x_view {
                        written.add(view.start..view.start + view.count);
                    }
                }
                _ => {}
            }
            self.places[at] = Some(place);
        }
        result
    }

    /// into = op(a) op(b).
    pub(crate) fn matmul(&mut self, a: u32, ta: bool, b: u32, tb: bool, accumulate: bool, into: u32) -> Done {
        let op = "matmul";
        let (a_shape, b_shape) = (self.matrix(a)?.shape(), self.matrix(b)?.shape());
        let ([a0, a1], [b0, b1]) = (&a_shape[..], &b_shape[..]) else {
            return Err(shape_error(op, "a and b (two extents each)", vec![0, 0], [a_shape, b_shape].concat()));
        };
        let (m, k) = if ta { (*a1, *a0) } else { (*a0, *a1) };
        let (bk, n) = if tb { (*b1, *b0) } else { (*b0, *b1) };
        if k != bk {
            return Err(shape_error(op, "b", if tb { vec![n, k] } else { vec![k, n] }, b_shape));
        }
        let (m, k, n) = (m as usize, k as usize, n as usize);
        let a_matrix = self.matrix(a)?.clone();
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.matmul_with(op, a_matrix, ta, b, tb, accumulate, into, (m, k, n), &mut scratch);
        self.scratch = scratch;
        result
    }

    #[allow(clippy::too_many_arguments)]
    fn matmul_with(
        &mut self,
        op: &str,
        a: Matrix,
        ta: bool,
        b: u32,
        tb: bool,
        accumulate: bool,
        into: u32,
        (m, k, n): (usize, usize, usize),
        scratch: &mut Scratch,
    ) -> Done {
        let b_held = self.dense(op, b)?;
        self.work([m, k, n])?;
        let none = Prologue::NONE;
        if !ta {
            return self.write_to(op, into, &[m, n], |state, out| match &a {
                Matrix::Sparse(s) if !accumulate && !tb => {
                    let (data, rows) = (&s.data, s.rows.clone());
                    sparse::linear(data, rows, &none, b_held.view(), None, Activation::Identity, out, scratch);
                    Ok(())
                }
                Matrix::Sparse(_) => Err(Failure::Unsupported(format!(
                    "{op}: sparse rows are multiplied without accumulation by a matrix that is not transposed"
                ))),
                Matrix::Dense(d) => {
                    let a = d.hold(Some(state.limits.arrival))?;
                    product::matmul(a.view(), b_held.view(), tb, accumulate, out, scratch);
                    Ok(())
                }
            });
        }
        if tb || accumulate {
            return Err(Failure::Unsupported(format!(
                "{op}: with transpose-a, b is not transposed and the result is not accumulated"
            )));
        }
        // A sum over rows.
        self.sum_to(op, into, (m, n), k, |state, grid, parts| {
            match &a {
                Matrix::Sparse(s) => {
                    let (data, rows) = (&s.data, s.rows.clone());
                    sparse::weight_gradient(data, rows, &none, b_held.view(), grid, parts, scratch);
                }
                Matrix::Dense(d) => {
                    let a = d.hold(Some(state.limits.arrival))?;
                    // Only its extents are used, for no gradient of x is wanted.
                    let extents = vec![0.0; m * n];
                    let wanted = Wanted { w: Some(parts), ..Wanted::default() };
                    let w = View::new(&extents, m, n);
                    product::linear_backward(a.view(), &none, w, b_held.view(), grid, wanted, scratch);
                }
            }
            Ok(())
        })
    }

    /// into[i] = op(a[i]) op(b[i]).
    pub(crate) fn batched_matmul(&mut self, a: u32, ta: bool, b: u32, tb: bool, accumulate: bool, into: u32) -> Done {
        let op = "batched-matmul";
        let (a_shape, b_shape) = (self.matrix(a)?.shape(), self.matrix(b)?.shape());
        let ([rows, a0, a1], [b_rows, b0, b1]) = (&a_shape[..], &b_shape[..]) else {
            return Err(shape_error(op, "a and b (three extents each)", vec![0, 0, 0], [a_shape, b_shape].concat()));
        };
        let extent = |v: &u32| *v as usize;
        let (p, q) = if ta { (extent(a1), extent(a0)) } else { (extent(a0), extent(a1)) };
        let (bq, r) = if tb { (extent(b1), extent(b0)) } else { (extent(b0), extent(b1)) };
        if rows != b_rows || q != bq {
            return Err(shape_error(op, "b", vec![*rows, q as u32, r as u32], b_shape));
        }
        let (rows, a_cols, b_cols) = (*rows as usize, extent(a1), extent(b1));
        self.work([rows.saturating_mul(p), q, r])?;
        let (a, b) = (self.dense(op, a)?, self.dense(op, b)?);
        self.write_to(op, into, &[rows, p, r], |_, out| {
            for i in 0..rows {
                let (a, b, to) = (a.view().row(i), b.view().row(i), out.row_mut(i));
                for x in 0..p {
                    for z in 0..r {
                        let at = |y: usize| if ta { a[y * a_cols + x] } else { a[x * a_cols + y] };
                        let bt = |y: usize| if tb { b[z * b_cols + y] } else { b[y * b_cols + z] };
                        let sum = (0..q).fold(0.0f32, |s, y| s + at(y) * bt(y));
                        let to = &mut to[x * r + z];
                        *to = if accumulate { *to + sum } else { sum };
                    }
                }
            }
            Ok(())
        })
    }

    fn whole_shape(&self, handle: u32) -> Result<Vec<usize>, Failure> {
        Ok(self.matrix(handle)?.shape().iter().map(|&e| e as usize).collect())
    }

    /// into = dropout(activation(x + bias)).
    pub(crate) fn apply(&mut self, x: u32, by: Before, into: u32) -> Done {
        let op = "apply";
        let shape = self.whole_shape(x)?;
        let (x, held) = (self.dense(op, x)?, self.before(op, by, self.matrix(x)?.columns())?);
        self.check_rows(op, &held, shape[0])?;
        self.write_to(op, into, &shape, |_, out| {
            held.prologue().forward(x.view(), 0, out);
            Ok(())
        })
    }

    /// into = grad times the derivative of `apply` at x.
    pub(crate) fn apply_backward(&mut self, x: u32, by: Before, grad: u32, into: u32) -> Done {
        let op = "apply-backward";
        let shape = self.whole_shape(x)?;
        self.same_shape(op, "grad", grad, x)?;
        let held = self.before(op, by, self.matrix(x)?.columns())?;
        self.check_rows(op, &held, shape[0])?;
        let (x, grad) = (self.dense(op, x)?, self.dense(op, grad)?);
        self.write_to(op, into, &shape, |_, out| {
            for i in 0..out.rows() {
                out.row_mut(i).copy_from_slice(grad.view().row(i));
            }
            held.prologue().backward(x.view(), 0, out);
            Ok(())
        })
    }

    fn same_shape(&self, op: &str, operand: &str, handle: u32, like: u32) -> Done {
        let (found, expected) = (self.matrix(handle)?.shape(), self.matrix(like)?.shape());
        if found != expected {
            return Err(shape_error(op, operand, expected, found));
        }
        Ok(())
    }

    /// into = f(x, y) elementwise.
    pub(crate) fn zip(&mut self, op: &'static str, x: u32, y: u32, into: u32, f: impl Fn(f32, f32) -> f32) -> Done {
        self.same_shape(op, "y", y, x)?;
        let shape = self.whole_shape(x)?;
        let (x, y) = (self.dense(op, x)?, self.dense(op, y)?);
        self.write_to(op, into, &shape, |_, out| {
            rows::zip(x.view(), y.view(), out, f);
            Ok(())
        })
    }

    /// Softmax over rows.
    pub(crate) fn softmax(&mut self, x: u32, into: u32) -> Done {
        let shape = self.whole_shape(x)?;
        let x = self.dense("softmax", x)?;
        self.write_to("softmax", into, &shape, |_, out| {
            softmax::softmax(x.view(), out);
            Ok(())
        })
    }

    /// Softmax and masked cross-entropy.
    pub(crate) fn cross_entropy(
        &mut self,
        x: u32,
        labels: u32,
        rows: u32,
        weight: f32,
        losses: u32,
        grad: u32,
    ) -> Done {
        let op = "softmax-cross-entropy";
        let shape = self.whole_shape(x)?;
        let held = self.dense(op, x)?;
        let (labels, rows) = (self.ids(labels)?.clone(), self.ids(rows)?.clone());
        // Both are computed before either is written, for they may not be one place.
        let (n, c) = (held.view().rows(), held.view().columns());
        let (mut loss_values, mut grad_values) = (vec![0.0; n], vec![0.0; n * c]);
        let mut loss_view = ViewMut::new(&mut loss_values, n, 1);
        let mut grad_view = ViewMut::new(&mut grad_values, n, c);
        softmax::cross_entropy(held.view(), &labels, &rows, weight, &mut loss_view, &mut grad_view)?;
        let copy = |from: View<'_>, out: &mut ViewMut<'_>| {
            for i in 0..out.rows() {
                out.row_mut(i).copy_from_slice(from.row(i));
            }
        };
        self.write_to(op, losses, &[n, 1], |_, out| {
            copy(loss_view.as_view(), out);
            Ok(())
        })?;
        self.write_to(op, grad, &shape, |_, out| {
            copy(grad_view.as_view(), out);
            Ok(())
        })
    }

    /// into[i] = x[rows[i]].
    pub(crate) fn gather_rows(&mut self, x: u32, ids: u32, into: u32) -> Done {
        let op = "gather-rows";
        let ids = self.ids(ids)?.clone();
        let mut shape = self.whole_shape(x)?;
        shape[0] = ids.len();
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| Ok(rows::gather_rows(x.view(), &ids, out)?))
    }

    /// into[rows[i]] += x[i].
    pub(crate) fn scatter_add_rows(&mut self, x: u32, ids: u32, into: u32) -> Done {
        let op = "scatter-add-rows";
        let ids = self.ids(ids)?.clone();
        let mut shape = self.whole_shape(x)?;
        if ids.len() != shape[0] {
            return Err(shape_error(op, "rows", vec![shape[0] as u32], vec![ids.len() as u32]));
        }
        shape[0] = self.out(into)?.count;
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| Ok(rows::scatter_add_rows(x.view(), &ids, out)?))
    }

    /// into = the sum of all rows.
    pub(crate) fn sum_rows(&mut self, x: u32, into: u32) -> Done {
        let op = "sum-rows";
        let (n, m) = (self.matrix(x)?.rows(), self.matrix(x)?.columns());
        let x = self.dense(op, x)?;
        self.sum_to(op, into, (1, m), n, |_, grid, parts| {
            rows::sum_rows(x.view(), grid, parts);
            Ok(())
        })
    }

    /// into [n, 1] = the reduction of each row.
    pub(crate) fn reduce_columns(&mut self, x: u32, by: rows::Reduction, into: u32) -> Done {
        let op = "reduce-columns";
        let n = self.matrix(x)?.rows();
        let x = self.dense(op, x)?;
        self.write_to(op, into, &[n, 1], |_, out| {
            rows::reduce_columns(x.view(), by, out);
            Ok(())
        })
    }

    /// into[s] = the reduction of a segment of rows.
    pub(crate) fn reduce_segments(&mut self, x: u32, offsets: u32, by: rows::Reduction, into: u32) -> Done {
        let op = "reduce-segments";
        let offsets: Arc<[u32]> = self.ids(offsets)?.clone();
        let mut shape = self.whole_shape(x)?;
        shape[0] = offsets.len().saturating_sub(1);
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| Ok(rows::reduce_segments(x.view(), &offsets, by, out)?))
    }
}

/// One part over the same atoms: what a scratch sum is taken over.
fn plain(grid: &Grid) -> Grid {
    if grid.parts().len() == 1 { grid.clone() } else { Grid::single(grid.rows()) }
}

fn check_sparse(op: &str, before: Before) -> Done {
    if before.bias.is_some() || !before.activation.keeps_zero() {
        return Err(Failure::Unsupported(format!(
            "{op}: sparse rows take no before.bias and only activations with f(0) = 0"
        )));
    }
    Ok(())
}
