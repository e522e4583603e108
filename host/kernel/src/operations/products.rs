//! Plain and batched products.

use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::prologue::Prologue;
use eciton_tensor::ops::sparse;
use eciton_tensor::{Matrix, View};

use super::{Done, shape_error};
use crate::state::{Failure, State};

impl State {
    /// into = op(a) op(b).
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
        let ([rows, a0, a1], [b_rows, b0, b1]) = (&a_shape[..], &b_shape[..]) else {
            return Err(shape_error(
                op,
                "a and b (three extents each)",
                vec![0, 0, 0],
                [a_shape, b_shape].concat(),
            ));
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
}
