//! Elementwise operations, softmax, gathers and reductions.
//!
//! In the comments, `into` is the output of an operation, and the other names are its operands.

use std::sync::Arc;

use eciton_tensor::matrix::Held;
use eciton_tensor::ops::function::{self, Function};
use eciton_tensor::ops::{rows, softmax};
use eciton_tensor::{Buffer, Matrix, View, ViewMut};

use super::{Before, Done, shape_error};
use crate::state::{Failure, State};

impl State {
    fn whole_shape(&self, handle: u32) -> Result<Vec<usize>, Failure> {
        Ok(self.matrix(handle)?.shape().iter().map(|&e| e as usize).collect())
    }

    /// Computes `into` = dropout(activation(x + bias)).
    pub(crate) fn apply(&mut self, x: u32, by: Before, into: u32) -> Done {
        let op = "apply";
        let shape = self.whole_shape(x)?;
        let mut held = self.before(op, by, self.matrix(x)?.columns())?;
        self.check_rows(op, &mut held, shape[0])?;
        if let Matrix::Sparse(_) = self.matrix(x)? {
            let (mut values, rows) = (Vec::new(), shape[0]);
            self.matrix(x)?.read_rows(0, rows, Some(self.limits.arrival), &mut values)?;
            let columns = self.matrix(x)?.columns();
            return self.write_to(op, into, &shape, |_, out| {
                held.prologue().forward(View::new(&values, rows, columns), 0, out);
                Ok(())
            });
        }
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| {
            held.prologue().forward(x.view(), 0, out);
            Ok(())
        })
    }

    /// Computes `into` = grad times the derivative of `apply` at x.
    pub(crate) fn apply_backward(&mut self, x: u32, by: Before, grad: u32, into: u32) -> Done {
        let op = "apply-backward";
        let shape = self.whole_shape(x)?;
        self.same_shape(op, "grad", grad, x)?;
        let mut held = self.before(op, by, self.matrix(x)?.columns())?;
        self.check_rows(op, &mut held, shape[0])?;
        let (x, grad) = (self.dense(op, x)?, self.dense(op, grad)?);
        self.write_to(op, into, &shape, |_, out| {
            for i in 0..out.rows() {
                out.row_mut(i).copy_from_slice(grad.view().row(i));
            }
            held.prologue().backward(x.view(), 0, out);
            Ok(())
        })
    }

    pub(super) fn same_shape(&self, op: &str, operand: &str, handle: u32, like: u32) -> Done {
        let (found, expected) = (self.matrix(handle)?.shape(), self.matrix(like)?.shape());
        if found != expected {
            return Err(shape_error(op, operand, expected, found));
        }
        Ok(())
    }

    /// Computes `into` = f(x, y), elementwise. Both operands must have the same shape.
    fn zip(
        &mut self,
        op: &'static str,
        x: u32,
        y: u32,
        into: u32,
        f: impl Fn(View<'_>, View<'_>, &mut ViewMut<'_>),
    ) -> Done {
        self.same_shape(op, "y", y, x)?;
        let shape = self.whole_shape(x)?;
        let (x, y) = (self.dense(op, x)?, self.dense(op, y)?);
        self.write_to(op, into, &shape, |_, out| {
            f(x.view(), y.view(), out);
            Ok(())
        })
    }

    /// Computes `into` = alpha x + beta y.
    pub(crate) fn axpby(&mut self, alpha: f32, x: u32, beta: f32, y: u32, into: u32) -> Done {
        self.zip("axpby", x, y, into, |x, y, out| rows::axpby(alpha, x, beta, y, out))
    }

    /// Computes `into` = x y, elementwise.
    pub(crate) fn multiply(&mut self, x: u32, y: u32, into: u32) -> Done {
        self.zip("multiply", x, y, into, rows::multiply)
    }

    /// Computes `into` = f(x), elementwise, where f is the function `by`.
    pub(crate) fn elementwise(&mut self, x: u32, by: Function, into: u32) -> Done {
        let op = "elementwise";
        check_function(op, by)?;
        let shape = self.whole_shape(x)?;
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| {
            function::forward(x.view(), by, out);
            Ok(())
        })
    }

    /// Computes `into` = grad f'(x), elementwise, where f is the function `by`.
    pub(crate) fn elementwise_backward(&mut self, x: u32, by: Function, grad: u32, into: u32) -> Done {
        let op = "elementwise-backward";
        check_function(op, by)?;
        let shape = self.whole_shape(x)?;
        self.same_shape(op, "grad", grad, x)?;
        let (x, grad) = (self.dense(op, x)?, self.dense(op, grad)?);
        self.write_to(op, into, &shape, |_, out| {
            function::backward(x.view(), by, grad.view(), out);
            Ok(())
        })
    }

    /// Computes `into` = the softmax of each row of x.
    pub(crate) fn softmax(&mut self, x: u32, into: u32) -> Done {
        let shape = self.whole_shape(x)?;
        let x = self.dense("softmax", x)?;
        self.write_to("softmax", into, &shape, |_, out| {
            softmax::softmax(x.view(), out);
            Ok(())
        })
    }

    /// Computes the cross-entropy loss of softmax(x), and its gradient. Only the rows in `rows`
    /// count, each with the weight `weight`.
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
        // Both results are computed before either is written, because the two outputs must not
        // share memory with each other.
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

    /// Computes `into[i] = x[ids[i]]` for each index i.
    pub(crate) fn gather_rows(&mut self, x: u32, ids: u32, into: u32) -> Done {
        let op = "gather-rows";
        let ids = self.ids(ids)?.clone();
        let mut shape = self.whole_shape(x)?;
        shape[0] = ids.len();
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| Ok(rows::gather_rows(x.view(), &ids, out)?))
    }

    /// Computes `into[ids[i]] += x[i]` for each row i of x.
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

    /// Computes `into` = the sum of all rows of x.
    pub(crate) fn sum_rows(&mut self, x: u32, into: u32) -> Done {
        let op = "sum-rows";
        let (n, m) = (self.matrix(x)?.rows(), self.matrix(x)?.columns());
        let x = self.dense(op, x)?;
        self.sum_to(op, into, (1, m), n, |_, grid, parts| {
            rows::sum_rows(x.view(), grid, parts);
            Ok(())
        })
    }

    /// Returns an operand that has the extents `like`, or the extents of a single row that applies
    /// to all rows.
    fn rows_or_one(&self, op: &str, operand: &str, handle: u32, like: &[u32]) -> Result<Held, Failure> {
        let matrix = self.matrix(handle)?;
        let shape = matrix.shape();
        let row: u64 = like[1..].iter().map(|&e| u64::from(e)).product();
        let one = shape.iter().map(|&e| u64::from(e)).product::<u64>() == row;
        if shape == like || (one && matrix.rows() == 1) {
            self.dense(op, handle)
        } else if one && matrix.columns() == 1 {
            // The operand is a vector, with one value per row.
            let values = self.vector(op, operand, handle, row as usize)?;
            let buffer = Buffer::from_rows(1, row as usize, &values)?;
            match Matrix::from(buffer.read(0..1)?) {
                Matrix::Dense(one) => Ok(one.hold(None)?),
                Matrix::Sparse(_) => Err(shape_error(op, operand, like.to_vec(), shape)),
            }
        } else {
            Err(shape_error(op, operand, like.to_vec(), shape))
        }
    }

    /// Computes `into` of shape `[n, p]` = the inner products of x and y over the last extent.
    pub(crate) fn inner(&mut self, x: u32, y: u32, into: u32) -> Done {
        let op = "inner";
        let shape = self.matrix(x)?.shape();
        let runs = runs(op, "x", &shape)?;
        let y = self.rows_or_one(op, "y", y, &shape)?;
        let x = self.dense(op, x)?;
        self.write_to(op, into, &[shape[0] as usize, runs], |_, out| {
            rows::inner(x.view(), y.view(), runs, out);
            Ok(())
        })
    }

    /// Computes `into` = x, with each run of q values of a row multiplied by one value of `by`. The
    /// shape of `into` is `[n, p, q]`, and that of `by` is `[n, p]`.
    pub(crate) fn scale(&mut self, x: u32, by: u32, into: u32) -> Done {
        let op = "scale";
        let shape = self.out_shape(into)?;
        let runs = runs(op, "into", &shape)?;
        let found = self.matrix(by)?.shape();
        if found != [shape[0], runs as u32] {
            return Err(shape_error(op, "by", vec![shape[0], runs as u32], found));
        }
        let x = self.rows_or_one(op, "x", x, &shape)?;
        let by = self.dense(op, by)?;
        let expected: Vec<usize> = shape.iter().map(|&e| e as usize).collect();
        self.write_to(op, into, &expected, |_, out| {
            rows::scale(x.view(), by.view(), out);
            Ok(())
        })
    }

    /// Computes `state` of shape `[s, 2 p]` = the maximum and the sum of each segment's softmax.
    /// The function `softmax_values` reads this result.
    pub(crate) fn softmax_segments(&mut self, x: u32, offsets: u32, state: u32) -> Done {
        let op = "softmax-segments";
        let offsets: Arc<[u32]> = self.ids(offsets)?.clone();
        let shape = self.whole_shape(x)?;
        let [_, columns] = shape[..] else {
            return Err(shape_error(op, "x (two extents)", vec![0, 0], self.matrix(x)?.shape()));
        };
        let x = self.dense(op, x)?;
        let shape = [offsets.len().saturating_sub(1), 2 * columns];
        self.write_to(op, state, &shape, |_, out| Ok(rows::softmax_segments(x.view(), &offsets, out)?))
    }

    /// Computes `into` of shape `[n, p]` = the softmax of x, from the maxima and sums in `state`.
    pub(crate) fn softmax_values(&mut self, x: u32, state: u32, into: u32) -> Done {
        let op = "softmax-values";
        let shape = self.whole_shape(x)?;
        let [rows, columns] = shape[..] else {
            return Err(shape_error(op, "x (two extents)", vec![0, 0], self.matrix(x)?.shape()));
        };
        let found = self.matrix(state)?.shape();
        let expected = vec![rows as u32, 2 * columns as u32];
        if found != expected {
            return Err(shape_error(op, "state", expected, found));
        }
        let (x, state) = (self.dense(op, x)?, self.dense(op, state)?);
        self.write_to(op, into, &shape, |_, out| {
            rows::softmax_values(x.view(), state.view(), out);
            Ok(())
        })
    }

    /// Computes `into` of shape `[n, 1]` = the sum, mean or maximum of each row of x.
    pub(crate) fn reduce_columns(&mut self, x: u32, by: rows::Reduction, into: u32) -> Done {
        let op = "reduce-columns";
        let n = self.matrix(x)?.rows();
        let x = self.dense(op, x)?;
        self.write_to(op, into, &[n, 1], |_, out| {
            rows::reduce_columns(x.view(), by, out);
            Ok(())
        })
    }

    /// Computes `into[s]` = the sum, mean or maximum of the rows of x in segment s.
    pub(crate) fn reduce_segments(&mut self, x: u32, offsets: u32, by: rows::Reduction, into: u32) -> Done {
        let op = "reduce-segments";
        let offsets: Arc<[u32]> = self.ids(offsets)?.clone();
        let mut shape = self.whole_shape(x)?;
        shape[0] = offsets.len().saturating_sub(1);
        let x = self.dense(op, x)?;
        self.write_to(op, into, &shape, |_, out| Ok(rows::reduce_segments(x.view(), &offsets, by, out)?))
    }
}

fn check_function(op: &str, by: Function) -> Done {
    match by {
        Function::Power(p) if !p.is_finite() => {
            Err(Failure::Argument(format!("{op}: the power is {p}, but must be finite")))
        }
        _ => Ok(()),
    }
}

/// Returns p for the extents `[n, p, q]`, and 1 for the extents `[n, q]`.
fn runs(op: &str, operand: &str, shape: &[u32]) -> Result<usize, Failure> {
    match shape {
        [_, p, _] => Ok(*p as usize),
        [_, _] => Ok(1),
        _ => {
            Err(shape_error(op, &format!("{operand} (two or three extents)"), vec![0, 0, 0], shape.to_vec()))
        }
    }
}
