//! Graph attention, which computes weighted sums of neighbours' rows. The weights are computed from
//! the rows (Velickovic et al. 2018, "Graph attention networks", eqs. 3 to 6).
//!
//! An input row is `[z | s | t]`: for each of `H` heads `F` values `z`, then the score `s` of the
//! row as a source and its score `t` as a target. Over the in-neighbours u of v and v itself, head
//! by head,
//!
//! ```text
//! a(u, v) = softmax over u of leaky(s_u + t_v)        y_v = sum over u of m(u, v) a(u, v) z_u
//! ```
//!
//! with m the dropout factor. Besides y, the forward pass stores values per row, never per edge:
//! the largest term of the softmax, the inverse of its sum, and the partial sum y+ of the terms
//! with `s_u + t_v > 0`. This partial sum suffices for the gradients of both scores, without a
//! product per edge, because leaky' takes only two values. With g the gradient of y, D_v = <g_v,
//! y_v>, and `+` for sums over positive terms:
//!
//! ```text
//! dt_v = (1 - slope) (<g_v, y+_v> - D_v sum+ of a(u, v))
//! dz_u = sum over v of m a g_v = B_u
//! ds_u = (1 - slope) (<z_u, B+_u> - sum+ of a D_v) + slope (<z_u, B_u> - sum of a D_v)
//! ```
//!
//! The backward step has two parts: [`Attention::turn`] works row by row, then
//! [`Attention::backward`] makes one pass over the reversed edges and computes a(u, v) again. Both
//! passes add terms in the order of a vertex's list, the vertex itself last. So the bits of a row
//! depend only on the graph and the input.

mod sums;
#[cfg(test)]
mod tests;

use std::ops::Range;

use eciton_tensor::random::Dropout;
use eciton_tensor::{View, ViewMut};

use super::Sources;
use crate::adjacency::Adjacency;
use sums::{backward_by, dot, forward_by};

/// Dimensions of an attention layer. They determine the widths of its buffers, which each call
/// checks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads {
    /// Number of heads, H.
    pub heads: usize,
    /// Number of values per head, F.
    pub features: usize,
    /// True if the result is the mean of the heads, false if it is their concatenation.
    pub average: bool,
    /// Slope of the leaky ReLU that is applied to scores, where leaky(x) = `slope` x for x < 0. It
    /// is at least 0 and below 1.
    pub slope: f32,
}

impl Heads {
    /// Returns the same dimensions with `features` and `heads` replaced by the constants F and H. A
    /// constant of 0 replaces nothing. Known dimensions allow the compiler to unroll loops.
    #[inline(always)]
    const fn fixed<const F: usize, const H: usize>(self) -> Self {
        let features = if F == 0 { self.features } else { F };
        Self { heads: if H == 0 { self.heads } else { H }, features, ..self }
    }

    /// Returns the number of values of all heads, H times F.
    #[must_use]
    pub const fn values(&self) -> usize {
        self.heads * self.features
    }

    /// Returns the number of columns of an input row `[z | s | t]`, and of its gradient.
    #[must_use]
    pub const fn input(&self) -> usize {
        self.values() + 2 * self.heads
    }

    /// Returns the number of columns of a result row. It is F if heads are averaged, otherwise H
    /// times F.
    #[must_use]
    pub const fn output(&self) -> usize {
        if self.average { self.features } else { self.values() }
    }

    /// Returns the number of columns per row that the forward pass stores for the backward pass.
    /// These are `[y+ | largest | inverse | sum+]`, and y of each head if the heads are averaged.
    #[must_use]
    pub const fn stashed(&self) -> usize {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Returns the number of columns of a row that [`Attention::turn`] computes. These are `[g | t
    /// | largest | inverse | D | dt]`.
    #[must_use]
    pub const fn turned(&self) -> usize {
        self.output() + 5 * self.heads
    }
}

/// Dropout of attention coefficients. The random number of the edge (u, v) and head h has the row v
/// and the column H u + h in the matrix of random numbers.
#[derive(Debug, Clone, Copy)]
pub struct Drops<'a> {
    /// Dropout probability and key of the random numbers.
    pub dropout: Dropout,
    /// Vertex id of each row, from which its random numbers are derived. If `None`, a row's own
    /// index is used.
    pub numbers: Option<&'a [u32]>,
}

impl Drops<'_> {
    fn number(&self, row: usize) -> u32 {
        self.numbers.and_then(|numbers| numbers.get(row).copied()).unwrap_or(row as u32)
    }

    /// Returns the key of the random numbers for the edges into the row `target`.
    fn row(&self, target: usize) -> (u32, u32) {
        self.dropout.key.row(u64::from(self.number(target)))
    }

    /// Multiplies the weights of an edge, one per head, by their dropout factors.
    #[inline(always)]
    fn apply(&self, target: (u32, u32), source: usize, weights: &mut [f32]) {
        let first = self.number(source).wrapping_mul(weights.len() as u32);
        for (weight, head) in weights.iter_mut().zip(0u32..) {
            *weight *= self.dropout.factor(target, first.wrapping_add(head));
        }
    }
}

/// Attention over adjacency lists. The forward pass follows incoming edges, and the backward pass
/// follows reversed edges.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Adjacency lists. A result row is computed from the rows that its list names, and its own
    /// row.
    pub lists: &'a Adjacency,
    /// Number and width of the heads.
    pub heads: Heads,
    /// Dropout of the attention coefficients in training. `None` in evaluation.
    pub drops: Option<Drops<'a>>,
}

impl Attention<'_> {
    fn check(&self, sources: &Sources<'_>, columns: usize, rows: &Range<usize>) {
        let vertices = self.lists.offsets().len() - 1;
        assert!(sources.extents.rows == vertices && sources.extents.columns == columns);
        assert!(sources.extents.value_bytes == 4, "attention reads f32");
        assert!(rows.start <= rows.end && rows.end <= vertices);
    }

    /// Computes the rows `rows` of the result y from `input`, which contains all rows. y is written
    /// to `out`, and the values that the backward pass needs are written to `kept`. The first row
    /// of both is row `rows.start`.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ or if the rows are not f32. The arguments
    /// come from one compiled program, so this is a fault of the caller.
    pub fn forward<'x>(
        &self,
        input: impl Into<Sources<'x>>,
        rows: Range<usize>,
        out: &mut ViewMut<'_>,
        kept: Option<&mut ViewMut<'_>>,
    ) {
        let input = input.into();
        self.check(&input, self.heads.input(), &rows);
        assert!(out.rows() == rows.len() && out.columns() == self.heads.output());
        assert!(kept.as_ref().is_none_or(|k| k.rows() == rows.len() && k.columns() == self.heads.stashed()));
        match (self.heads.features, self.heads.heads) {
            (8, 8) => forward_by::<8, 8>(self, input, rows, out, kept),
            (16, 8) => forward_by::<16, 8>(self, input, rows, out, kept),
            (32, 8) => forward_by::<32, 8>(self, input, rows, out, kept),
            (16, 1) => forward_by::<16, 1>(self, input, rows, out, kept),
            (64, 1) => forward_by::<64, 1>(self, input, rows, out, kept),
            (_, 1) => forward_by::<0, 1>(self, input, rows, out, kept),
            _ => forward_by::<0, 0>(self, input, rows, out, kept),
        }
    }

    /// Computes the rows `[g | t | largest | inverse | D | dt]` that [`Attention::backward`] reads.
    /// The arguments are rows `[z | s | t]`, the result y, the stored values of
    /// [`Attention::forward`], and the gradient of y. Here g is one head's share of the gradient.
    /// All arguments have the same rows.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ or if the rows are not f32.
    pub fn turn(
        heads: &Heads,
        (input, output, kept): (View<'_>, View<'_>, View<'_>),
        gradient: View<'_>,
        into: &mut ViewMut<'_>,
    ) {
        let rows = into.rows();
        let given = [input.columns(), output.columns(), kept.columns(), gradient.columns(), into.columns()];
        let wanted = [heads.input(), heads.output(), heads.stashed(), heads.output(), heads.turned()];
        assert!(given == wanted && [input, output, kept, gradient].iter().all(|view| view.rows() == rows));
        let (count, each, values) = (heads.heads, heads.features, heads.values());
        let share = if heads.average { 1.0 / count as f32 } else { 1.0 };
        for row in 0..rows {
            let to = into.row_mut(row);
            let (g, rest) = to.split_at_mut(heads.output());
            g.iter_mut().zip(gradient.row(row)).for_each(|(g, &value)| *g = share * value);
            let kept = kept.row(row);
            let (plus, of_softmax) = kept.split_at(values);
            let y = if heads.average { &kept[values + 3 * count..] } else { output.row(row) };
            rest[..count].copy_from_slice(&input.row(row)[values + count..]);
            rest[count..3 * count].copy_from_slice(&of_softmax[..2 * count]);
            for head in 0..count {
                let span = head * each..(head + 1) * each;
                let g = if heads.average { &g[..] } else { &g[span.clone()] };
                let along = dot(g, &y[span.clone()]);
                rest[3 * count + head] = along;
                rest[4 * count + head] =
                    (1.0 - heads.slope) * (dot(g, &plus[span]) - along * of_softmax[2 * count + head]);
            }
        }
    }

    /// Computes the rows `rows` of the input's gradient `[dz | ds | dt]`, and writes them to `out`.
    /// `turned` contains all rows, whereas `input` and `out` contain only the rows `rows`.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ or if the rows are not f32.
    pub fn backward<'x>(
        &self,
        turned: impl Into<Sources<'x>>,
        input: View<'_>,
        rows: Range<usize>,
        out: &mut ViewMut<'_>,
    ) {
        let turned = turned.into();
        self.check(&turned, self.heads.turned(), &rows);
        assert!(input.rows() == rows.len() && input.columns() == self.heads.input());
        assert!(out.rows() == rows.len() && out.columns() == self.heads.input());
        match (self.heads.features, self.heads.heads) {
            (8, 8) => backward_by::<8, 8>(self, turned, input, rows, out),
            (16, 8) => backward_by::<16, 8>(self, turned, input, rows, out),
            (32, 8) => backward_by::<32, 8>(self, turned, input, rows, out),
            (16, 1) => backward_by::<16, 1>(self, turned, input, rows, out),
            (64, 1) => backward_by::<64, 1>(self, turned, input, rows, out),
            (_, 1) => backward_by::<0, 1>(self, turned, input, rows, out),
            _ => backward_by::<0, 0>(self, turned, input, rows, out),
        }
    }
}
