//! Matrix products, single and batched.

use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::product::{self, Factor, Scratch, Wanted};
use eciton_tensor::ops::prologue::Prologue;
use eciton_tensor::ops::sparse;
use eciton_tensor::{Matrix, View};

use super::{Done, shape_error};
use crate::state::{Failure, State};

impl State {
    /// Computes `into` = op(a) op(b), where op is the identity or the transpose. If `accumulate` is
    /// true, the product is added to `into`.
    pub(crate) fn matmul(&mut self, a: u32, ta: bool, b: u32, tb: bool, accumulate: bool, into: u32) -> Done {
        let op = "matmul";
        let (a_shape, b_shape) = (self.matrix(a)?.shape(), self.matrix(b)?.shape());
        let ([a0, a1], [b0, b1]) = (&a_shape[..], &b_shape[..]) else {
            return Err(shape_error(
                op,
                "a and b (two extents each)",
                vec![0, 0],
                [a_shape, b_shape].concat(),
            ));
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
                    sparse::linear(
                        data,
                        rows,
                        &none,
                        b_held.view(),
                        None,
                        Activation::Identity,
                        out,
                        scratch,
                    );
                    Ok(())
                }
                Matrix::Sparse(_) => Err(Failure::Unsupported(format!(
                    "{op}: sparse rows can only be multiplied by a matrix that is not transposed, and without accumulation"
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
                "{op}: transpose-a cannot be combined with transpose-b or accumulation"
            )));
        }
        // The product is a sum over rows.
        self.sum_to(op, into, (m, n), k, |state, grid, parts| {
            match &a {
                Matrix::Sparse(s) => {
                    let (data, rows) = (&s.data, s.rows.clone());
                    sparse::weight_gradient(data, rows, &none, b_held.view(), grid, parts, scratch);
                }
                Matrix::Dense(d) => {
                    let a = d.hold(Some(state.limits.arrival))?;
                    // No gradient of x is requested, so only the extents of this matrix matter.
                    let extents = vec![0.0; m * n];
                    let wanted = Wanted { w: Some(parts), ..Wanted::default() };
                    let w = View::new(&extents, m, n);
                    product::linear_backward(a.view(), &none, w, b_held.view(), grid, wanted, scratch);
                }
            }
            Ok(())
        })
    }

    /// Computes `into[i]` = op(a[i]) op(b[i]) for each pair of matrices in a batch. If `accumulate`
    /// is true, the products are added to `into`.
    pub(crate) fn batched_matmul(
        &mut self,
        a: u32,
        ta: bool,
        b: u32,
        tb: bool,
        accumulate: bool,
        into: u32,
    ) -> Done {
        let op = "batched-matmul";
        let (a_shape, b_shape) = (self.matrix(a)?.shape(), self.matrix(b)?.shape());
        let (Some((rows, each, a_extents)), Some((b_rows, b_each, b_extents))) =
            (sides(&a_shape), sides(&b_shape))
        else {
            return Err(shape_error(
                op,
                "a and b (three or four extents each)",
                vec![0, 0, 0],
                [a_shape, b_shape].concat(),
            ));
        };
        let extent = |v: u32| v as usize;
        let [a0, a1] = a_extents.map(extent);
        let [b0, b1] = b_extents.map(extent);
        let ((p, q), (bq, r)) = (turned(a0, a1, ta), turned(b0, b1, tb));
        if rows != b_rows || each != b_each || q != bq {
            let (first, last) = if tb { (r, q) } else { (q, r) };
            let mut expected = b_shape.clone();
            (expected[0], expected[b_shape.len() - 2], expected[b_shape.len() - 1]) =
                (rows, first as u32, last as u32);
            return Err(shape_error(op, "b", expected, b_shape));
        }
        let (rows, each) = (rows as usize, each as usize);
        self.work([rows.saturating_mul(each).saturating_mul(p), q, r])?;
        let (a, b) = (self.dense(op, a)?, self.dense(op, b)?);
        let mut scratch = std::mem::take(&mut self.scratch);
        let shape = match a_shape.len() {
            4 => vec![rows, each, p, r],
            _ => vec![rows, p, r],
        };
        let result = self.write_to(op, into, &shape, |_, out| {
            let a = Factor { rows: a.view(), extents: (a0, a1), transposed: ta };
            let b = Factor { rows: b.view(), extents: (b0, b1), transposed: tb };
            product::batched(a, b, each, accumulate, out, &mut scratch);
            Ok(())
        });
        self.scratch = scratch;
        result
    }
}

/// Returns the number of rows, the number of matrices per row, and the extents of one matrix. The
/// shape must be `[n, p, q]` or `[n, g, p, q]`.
fn sides(shape: &[u32]) -> Option<(u32, u32, [u32; 2])> {
    match *shape {
        [rows, p, q] => Some((rows, 1, [p, q])),
        [rows, each, p, q] => Some((rows, each, [p, q])),
        _ => None,
    }
}

fn turned(rows: usize, columns: usize, transposed: bool) -> (usize, usize) {
    if transposed { (columns, rows) } else { (rows, columns) }
}
