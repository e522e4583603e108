//! The derivatives of operations of interface `dense`.

use super::rules::{held, none, rows, rows_or_parameter};
use super::walk::{Walk, flat, multiplied};
use super::{Tape, refuse};
use crate::compose::scratch;
use crate::dense;
use crate::handles::{Matrix, Out};
use crate::op::Op;
use crate::types::{Error, Result};

const SECOND: &str = "the derivative of a derivative is not derived";

/// Extents as an order has them.
fn turned(shape: &[u32], order: &[u32]) -> Result<Vec<u32>> {
    let extent = |&d: &u32| shape.get(d as usize).copied();
    let turned = order.iter().map(extent).collect::<Option<Vec<u32>>>();
    turned.ok_or_else(|| Error::Argument("permute: a dimension that there is not".to_owned()))
}

impl Tape {
    /// Writes an operation of `dense` down.
    pub(super) fn dense_rule(&self, op: &Op<'_>) -> Result<()> {
        match *op {
            Op::Permute { x, order, into } => {
                let made = turned(x.extents(), order)?;
                let place = |d: u32| order.iter().position(|&o| o == d).map_or(0, |at| at as u32);
                let back: Vec<u32> = (0..order.len() as u32).map(place).collect();
                self.of_one("permute", x, into, move |x, g| {
                    let g = g.reshape(&made)?;
                    scratch(x.extents(), |into| dense::permute(&g, &back, into))
                })
            }
            Op::Concat { parts, into } => {
                let from: Vec<_> = parts.iter().map(|part| self.of(part)).collect();
                from.iter().try_for_each(|&of| rows("concat", "parts", of))?;
                let parts: Vec<Matrix> = parts.iter().map(|part| held(part)).collect();
                self.rows_step(into, &from, move |walk, g| {
                    let (g, mut start) = (flat(g)?, 0);
                    for part in &parts {
                        let width = part.extents().iter().skip(1).product();
                        if walk.wants(part) {
                            walk.add(part, g.columns(start, width)?.reshape(part.extents())?);
                        }
                        start += width;
                    }
                    Ok(())
                })
            }
            Op::PlaceColumns { x, at, into } => self.of_one("place-columns", x, into, move |x, g| {
                let width = x.extents().iter().skip(1).product();
                flat(g)?.columns(at, width)?.reshape(x.extents())
            }),
            Op::SoftmaxMasked { x, causal, scale, into } => {
                self.of_one("softmax-masked", x, into, move |x, g| {
                    let g = g.reshape(x.extents())?;
                    let y = scratch(x.extents(), |into| dense::softmax_masked(x, causal, scale, into))?;
                    scratch(x.extents(), |into| dense::softmax_backward(&y, &g, scale, into))
                })
            }
            Op::Normalise { x, by, scale, shift, into } => {
                let from = [Some(x), scale, shift].map(|m| self.maybe(m));
                rows("normalise", "x", from[0])?;
                rows_or_parameter("normalise", "scale", from[1])?;
                rows_or_parameter("normalise", "shift", from[2])?;
                let (x, scale, shift) = (held(x), scale.map(held), shift.map(held));
                self.rows_step(into, &from, move |walk, g| {
                    let g = g.reshape(x.extents())?;
                    if let Some(scale) = scale.as_ref().filter(|scale| walk.wants(scale)) {
                        let h = scratch(x.extents(), |into| dense::normalise(&x, by, None, None, into))?;
                        walk.add_row("normalise", scale, multiplied(&g, &h)?)?;
                    }
                    if let Some(shift) = &shift {
                        walk.add_row("normalise", shift, g.shared(0))?;
                    }
                    if walk.wants(&x) {
                        let dx = scratch(x.extents(), |into| {
                            dense::normalise_backward(&x, by, scale.as_ref(), &g, into)
                        })?;
                        walk.add(&x, dx);
                    }
                    Ok(())
                })
            }
            Op::Attend { x, by, into } => self.of_one("attend", x, into, move |x, g| {
                scratch(x.extents(), |into| dense::attend_backward(x, by, &g, into))
            }),
            Op::Patches { x, by, into } => self.of_one("patches", x, into, move |x, g| {
                scratch(x.extents(), |into| dense::patches_sum(&g, by, into))
            }),
            Op::PatchesSum { x, by, into } => self.of_one("patches-sum", x, into, move |x, g| {
                scratch(x.extents(), |into| dense::patches(&g, by, into))
            }),
            Op::Pool { x, by, with, into } => self.of_one("pool", x, into, move |x, g| {
                scratch(x.extents(), |into| dense::pool_backward(x, by, with, &g, into))
            }),
            Op::Smoothed { x, by, into } => self.of_one("smoothed", x, into, move |x, g| {
                let g = g.reshape(x.extents())?;
                scratch(x.extents(), |into| dense::smoothed_backward(x, by, &g, into))
            }),
            Op::ScatterSum { x, .. } => {
                none("scatter-sum", &[self.of(x)], "it sums over rows, and a row's result is its own")
            }
            Op::SoftmaxBackward { y: x, grad, .. }
            | Op::PoolBackward { x, grad, .. }
            | Op::AttendBackward { x, grad, .. }
            | Op::NormaliseBackward { x, grad, .. }
            | Op::SmoothedBackward { x, grad, .. } => {
                none("a backward operation", &[self.of(x), self.of(grad)], SECOND)
            }
            _ => Err(refuse("an operation", "without a rule")),
        }
    }

    /// An operation of one operand by rows, with what makes its gradient of that of the result.
    fn of_one(
        &self,
        name: &'static str,
        x: &Matrix,
        into: &Out,
        gradient: impl FnOnce(&Matrix, Matrix) -> Result<Matrix> + 'static,
    ) -> Result<()> {
        let from = [self.of(x)];
        rows(name, "x", from[0])?;
        let x = held(x);
        self.rows_step(into, &from, move |walk: &mut Walk<'_>, g| {
            let dx = gradient(&x, g)?;
            walk.add(&x, dx);
            Ok(())
        })
    }
}
