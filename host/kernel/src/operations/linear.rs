//! Fused linear layer, which combines product, bias, activation and dropout, and its gradients.

use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::product::{self, Wanted};
use eciton_tensor::ops::{prologue, rows, sparse};
use eciton_tensor::{Grid, Matrix, View, ViewMut};

use super::{After, Before, Done, Gradients, lies_as, shape_error};
use crate::outs::{Place, put_back};
use crate::state::{Failure, State};

impl State {
    /// Computes `into` = activation(u w + bias), where u is x after the prologue `before`.
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
        let mut held = self.before(op, before, k)?;
        Self::check_activation(op, after.activation)?;
        self.check_rows(op, &mut held, m)?;
        let bias = after.bias.map(|b| self.vector(op, "after.bias", b, n)).transpose()?;
        let x = self.matrix(x)?.clone();
        match &x {
            Matrix::Sparse(s) => self.work([s.data.stored_in(s.rows.clone()), n, 1])?,
            Matrix::Dense(_) => self.work([m, k, n])?,
        }
        let deadline = Some(self.limits.arrival);
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.write_to(op, into, &[m, n], |_, out| {
            let bias = bias.as_deref();
            match &x {
                Matrix::Sparse(s) => {
                    check_sparse(op, before)?;
                    let (p, w) = (held.prologue(), w.view());
                    sparse::linear(&s.data, s.rows.clone(), &p, w, bias, after.activation, out, &mut scratch);
                }
                Matrix::Dense(_) => {
                    // Rows are processed block by block as they arrive, or in one block if all have
                    // arrived.
                    let mut done = 0;
                    while done < m {
                        let there = x.arrived(done, deadline)?;
                        let Matrix::Dense(block) = x.slice_rows(done, there - done)? else { break };
                        let block = block.hold(deadline)?;
                        let shifted = held.shifted(done);
                        let p = shifted.prologue();
                        let mut out = out.slice(done, there - done);
                        product::linear(
                            block.view(),
                            &p,
                            w.view(),
                            bias,
                            after.activation,
                            &mut out,
                            &mut scratch,
                        );
                        done = there;
                    }
                }
            }
            Ok(())
        });
        self.scratch = scratch;
        result
    }

    /// Computes the gradients of `linear` that the kernel requests.
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
        let mut held = self.before(op, before, k)?;
        Self::check_activation(op, after.activation)?;
        self.check_rows(op, &mut held, m)?;
        let grad = self.dense(op, grad)?;
        // d = grad * activation'(y)
        let mut activated = Vec::new();
        if after.activation != Activation::Identity {
            let Some(y) = y else {
                return Err(Failure::Argument(format!(
                    "{op}: y must be given where `after` has an activation"
                )));
            };
            let y_shape = self.matrix(y)?.shape();
            if y_shape != grad_shape {
                return Err(shape_error(op, "y", grad_shape, y_shape));
            }
            let y = self.dense(op, y)?;
            activated.resize(m * n, 0.0);
            let into = &mut ViewMut::new(&mut activated, m, n);
            prologue::derivative(after.activation, y.view(), grad.view(), into);
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
                        "{op}: sparse rows have no gradient; request the gradients of w and after.bias only"
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

    /// Takes the requested outputs out of the table, checks their shapes, and passes all of them to
    /// `compute` in one call.
    fn gradients(
        &mut self,
        op: &str,
        (m, k, n): (usize, usize, usize),
        wanted: Gradients,
        compute: impl FnOnce(&Grid, Wanted<'_, '_>) -> Done,
    ) -> Done {
        // (output, rows, columns, true for a vector, which may lie along either dimension)
        let sums =
            [(wanted.before_bias, 1, k, true), (wanted.w, k, n, false), (wanted.after_bias, 1, n, true)];
        let mut handles: Vec<u32> = Vec::new();
        for (handle, len, width, vector) in sums {
            let Some(handle) = handle else { continue };
            let found = self.out_shape(handle)?;
            if !lies_as(&found, len, width, vector) {
                return Err(shape_error(op, "a gradient to write", vec![len as u32, width as u32], found));
            }
            if !matches!(self.place(self.out(handle)?)?, Place::Sums { .. }) {
                return Err(Failure::Unsupported(format!(
                    "{op}: the outputs for the gradients of w and of biases must be parameter gradients of the task; use matmul with transpose-a for other outputs"
                )));
            }
            handles.push(handle);
        }
        // If no sum is requested, the grid only determines the row blocks.
        let grid = match handles[..] {
            [] => self.grid_of(op, m).unwrap_or_else(|_| Grid::single(m).into()),
            _ => self.grid_of(op, m)?,
        };
        if let Some(x) = wanted.x {
            let found = self.out_shape(x)?;
            if found != [m as u32, k as u32] {
                return Err(shape_error(op, "grad-x", vec![m as u32, k as u32], found));
            }
            handles.push(x);
        }
        let mut places: Vec<usize> =
            handles.iter().filter_map(|&h| self.outs.get(h)).map(|v| v.place).collect();
        places.sort_unstable();
        places.dedup();
        if places.len() != handles.len() {
            return Err(Failure::Argument(format!("{op}: one output was passed twice")));
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
                (Some(rows), Some(view)) => Some((rows.slice(view.start, view.count), view.laid)),
                _ => None,
            };
            fn parts(place: &mut Option<(u32, usize, Place)>) -> Option<Vec<ViewMut<'_>>> {
                match place {
                    Some((_, _, Place::Sums { parts, .. })) => {
                        Some(parts.iter_mut().map(|p| p.view_mut()).collect())
                    }
                    _ => None,
                }
            }
            let (mut before_bias, mut w, mut after_bias) = (parts(before_bias), parts(w), parts(after_bias));
            let mut copy = None;
            let mut seen = x_rows.as_mut().map(|(rows, laid)| laid.seen(rows, &mut copy));
            let result = compute(
                &grid,
                Wanted {
                    x: seen.as_mut(),
                    before_bias: before_bias.as_deref_mut(),
                    w: w.as_deref_mut(),
                    after_bias: after_bias.as_deref_mut(),
                },
            );
            if let Some((rows, _)) = &mut x_rows {
                put_back(copy, rows);
            }
            result
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
}

fn check_sparse(op: &str, before: Before) -> Done {
    if before.bias.is_some() || !before.activation.keeps_zero() {
        return Err(Failure::Unsupported(format!(
            "{op}: sparse rows support no before.bias, and only activations with f(0) = 0"
        )));
    }
    Ok(())
}
