//! Attention: sums of neighbours' rows with weights that the rows themselves say (Velickovic et al.
//! 2018, "Graph attention networks", eqs. 3 to 6).
//!
//! An input row is `[z | s | t]`: for each of `H` heads `F` values `z`, then its term as a source
//! and its term as a target. Over the in-neighbours u of v and v itself, head by head,
//!
//! ```text
//! a(u, v) = softmax over u of leaky(s_u + t_v)        y_v = sum over u of m(u, v) a(u, v) z_u
//! ```
//!
//! with m dropout's factor. What a forward pass keeps besides y is by row, never by edge: of the
//! softmax its largest term and the inverse of its sum, and the part of y whose terms have `s_u +
//! t_v > 0`. That part is enough for both gradients of the scores without a product for each edge,
//! because leaky' takes two values only. With g the gradient of y, D_v = <g_v, y_v>, and `+` for
//! sums over positive terms:
//!
//! ```text
//! dt_v = (1 - slope) (<g_v, y+_v> - D_v sum+ of a(u, v))
//! dz_u = sum over v of m a g_v = B_u
//! ds_u = (1 - slope) (<z_u, B+_u> - sum+ of a D_v) + slope (<z_u, B_u> - sum of a D_v)
//! ```
//!
//! So backward is first a step by row, [`Attention::turn`], then one pass over the reversed edges
//! that computes a(u, v) anew, [`Attention::backward`]. Both passes are sums in the order of a
//! vertex's list, the vertex itself last: a row's bits depend on the graph alone.

mod sums;
#[cfg(test)]
mod tests;

use std::ops::Range;

use eciton_tensor::random::Dropout;
use eciton_tensor::{View, ViewMut};

use super::Sources;
use crate::adjacency::Adjacency;
use sums::{backward_by, dot, forward_by};

/// The numbers of an attention. `eciton-program` makes slots of the same widths; each call checks that
/// they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads {
    /// H.
    pub heads: usize,
    /// F, values of a head.
    pub features: usize,
    /// True if the result is the mean of the heads. Otherwise it is their concatenation.
    pub average: bool,
    /// leaky(x) = x where x > 0, else this times x; 0 <= slope < 1.
    pub slope: f32,
}

impl Heads {
    /// The same, with constants in place of what is one of the compiler's: 0 is none.
    #[inline(always)]
    const fn fixed<const F: usize, const H: usize>(self) -> Self {
        let features = if F == 0 { self.features } else { F };
        Self { heads: if H == 0 { self.heads } else { H }, features, ..self }
    }

    /// H F: the values of all heads.
    #[must_use]
    pub const fn values(&self) -> usize {
        self.heads * self.features
    }

    /// Columns of an input row, and of its gradient: `[z | s | t]`.
    #[must_use]
    pub const fn input(&self) -> usize {
        self.values() + 2 * self.heads
    }

    /// Columns of a result.
    #[must_use]
    pub const fn output(&self) -> usize {
        if self.average { self.features } else { self.values() }
    }

    /// Columns that a forward pass keeps: `[y+ | largest | inverse | sum+]`, and y by head where
    /// the result is their mean.
    #[must_use]
    pub const fn kept(&self) -> usize {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Columns of what [`Attention::turn`] makes: `[g | t | largest | inverse | D | dt]`.
    #[must_use]
    pub const fn turned(&self) -> usize {
        self.output() + 5 * self.heads
    }
}

/// Dropout of the weights: a weight's number is that of row v and column H u + head, by `numbers`.
#[derive(Debug, Clone, Copy)]
pub struct Drops<'a> {
    /// Dropout of the attention coefficients.
    pub dropout: Dropout,
    /// Vertex of each row, for which its random numbers are drawn. If `None`, it is the row's own
    /// index.
    pub numbers: Option<&'a [u32]>,
}

impl Drops<'_> {
    fn number(&self, row: usize) -> u32 {
        self.numbers.and_then(|numbers| numbers.get(row).copied()).unwrap_or(row as u32)
    }

    /// Returns the two numbers that address a target's random numbers.
    fn row(&self, target: usize) -> (u32, u32) {
        self.dropout.key.row(u64::from(self.number(target)))
    }

    /// Multiplies an edge's weights by their factors.
    #[inline(always)]
    fn apply(&self, target: (u32, u32), source: usize, weights: &mut [f32]) {
        let first = self.number(source).wrapping_mul(weights.len() as u32);
        for (weight, head) in weights.iter_mut().zip(0u32..) {
            *weight *= self.dropout.factor(target, first.wrapping_add(head));
        }
    }
}

/// Lists with the numbers of an attention: incoming edges forward, outgoing ones backward.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Whose rows are summed.
    pub lists: &'a Adjacency,
    /// Number and width of the heads.
    pub heads: Heads,
    /// While training.
    pub drops: Option<Drops<'a>>,
}

impl Attention<'_> {
    fn check(&self, sources: &Sources<'_>, columns: usize, rows: &Range<usize>) {
        let vertices = self.lists.offsets().len() - 1;
        assert!(sources.extents.rows == vertices && sources.extents.columns == columns);
        assert!(sources.extents.value_bytes == 4, "attention reads f32");
        assert!(rows.start <= rows.end && rows.end <= vertices);
    }

    /// Writes rows `rows` of y to `out`, and of what backward needs to `kept` (row 0 of both is row
    /// `rows.start`). `input` has all rows.
    ///
    /// # Panics
    /// If the extents of the arguments differ, or rows are not f32; they come from one program.
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
        assert!(kept.as_ref().is_none_or(|k| k.rows() == rows.len() && k.columns() == self.heads.kept()));
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

    /// Computes the rows of targets that the pass over the reversed edges reads, from rows `[z | s
    /// | t]`, y, the stash of forward, and y's gradient: `[g | t | largest | inverse | D | dt]`, g
    /// a head's share of the gradient. All have the same rows.
    ///
    /// # Panics
    /// As [`Attention::forward`].
    pub fn turn(
        heads: &Heads,
        (input, output, kept): (View<'_>, View<'_>, View<'_>),
        gradient: View<'_>,
        into: &mut ViewMut<'_>,
    ) {
        let rows = into.rows();
        let given = [input.columns(), output.columns(), kept.columns(), gradient.columns(), into.columns()];
        let wanted = [heads.input(), heads.output(), heads.kept(), heads.output(), heads.turned()];
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

    /// Writes rows `rows` of the input's gradient to `out`, `[dz | ds | dt]`. `turned` has all
    /// rows, `input` and `out` these.
    ///
    /// # Panics
    /// As [`Attention::forward`].
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
