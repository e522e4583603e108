//! Elementwise operations, softmax, gathers and reductions.

use std::sync::Arc;

use eciton_tensor::ops::{rows, softmax};
use eciton_tensor::{View, ViewMut};

use super::{Before, Done, shape_error};
use crate::state::{Failure, State};

impl State {
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
    pub(crate) fn zip(
        &mut self,
        op: &'static str,
        x: u32,
        y: u32,
        into: u32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Done {
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
