//! Column-wise maximum of the neighbours' rows, and its gradient.

use std::ops::Range;

use eciton_tensor::simd::dispatch;
use eciton_tensor::{View, ViewMut};

use super::kernel::{Job, prefetch};
use super::sources::Extents;
use super::{AHEAD, Gather, Reduce, Rows};

/// Index that marks a value without any term, in the argument `places` of [`Gather::run_max`].
pub const NOBODY: u32 = u32::MAX;

/// Number of columns that are compared together.
const LANES: usize = 16;

impl Gather<'_> {
    /// Computes the rows `rows` of the maximum and writes them to `out`. For each value, the index
    /// of the chosen term is written to `places`, row by row and without padding.
    ///
    /// A term is given by its index in the vertex's list. The list's length stands for the vertex
    /// itself, and [`NOBODY`] for no term, in which case the value is 0. Of equal values the first
    /// is chosen. A NaN is chosen over every number, and of several NaNs the first.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ, or if the reduction is not
    /// [`Reduce::Max`](crate::Reduce::Max).
    pub fn run_max<'x>(
        &self,
        input: impl Into<Rows<'x>>,
        rows: Range<usize>,
        out: &mut ViewMut<'_>,
        places: &mut [u32],
    ) {
        assert!(self.reduce == Reduce::Max && self.wanted.is_none(), "not a maximum of all rows");
        let input = input.into();
        let Extents { rows: sources, columns, .. } = input.extents();
        assert!(sources == self.vertices() && rows.start <= rows.end && rows.end <= sources);
        assert!(out.rows() == rows.len() && out.columns() == columns && places.len() == rows.len() * columns);
        let job = self.job();
        for (local, v) in rows.enumerate() {
            let places = &mut places[local * columns..(local + 1) * columns];
            max_row(&job, input, v, out.row_mut(local), places);
        }
    }

    /// Computes the rows `rows` of the gradient of a maximum's input, and writes them to `out`.
    /// `places` are the chosen terms from [`Gather::run_max`], and `gradient` is the gradient of
    /// its output. Both contain all rows. `reversed` contains the lists of the reversed edges, and
    /// the index of each of these edges in this gather's lists. Terms are added in the order of the
    /// reversed list, the vertex itself last.
    ///
    /// # Panics
    /// Panics under the conditions of [`Gather::run_max`]. The values of this gather must be in the
    /// order of its lists.
    pub fn route(
        &self,
        reversed: (&crate::adjacency::Adjacency, &super::Positions),
        places: &[u32],
        gradient: View<'_>,
        rows: Range<usize>,
        out: &mut ViewMut<'_>,
    ) {
        assert!(self.reduce == Reduce::Max && self.wanted.is_none(), "not a maximum of all rows");
        let (reversed, positions) = reversed;
        let (vertices, columns) = (self.vertices(), gradient.columns());
        assert!(gradient.rows() == vertices && places.len() == vertices * columns && rows.end <= vertices);
        assert!(out.rows() == rows.len() && out.columns() == columns && self.positions.is_none());
        assert!(reversed.offsets().len() == vertices + 1 && positions.len() == self.lists.neighbours().len());
        let job = self.job();
        for (local, u) in rows.enumerate() {
            let to = out.row_mut(local);
            to.fill(0.0);
            let mut term = |v: usize, place: u32, value: f32| {
                // d out[v] / d x[u] = t[v] a[e] s[u] if the term was chosen, else 0.
                let factor = job.target.map_or(1.0, |t| t[v]) * (value * job.source.map_or(1.0, |s| s[u]));
                let taken = &places[v * columns..(v + 1) * columns];
                route_row(place, factor, taken, gradient.row(v), to);
            };
            let span = reversed.offsets()[u] as usize..reversed.offsets()[u + 1] as usize;
            for edge in span {
                let v = reversed.neighbours()[edge] as usize;
                let at = positions.get(edge);
                term(v, (at as u64 - job.offsets[v]) as u32, job.values.map_or(1.0, |a| a[at]));
            }
            if job.own {
                term(u, (job.offsets[u + 1] - job.offsets[u]) as u32, 1.0);
            }
        }
    }
}

dispatch! {
    fn route_row(place: u32, factor: f32, taken: &[u32], gradient: &[f32], to: &mut [f32]) = route_body
}

#[inline(always)]
fn route_body<const FMA: bool>(place: u32, factor: f32, taken: &[u32], gradient: &[f32], to: &mut [f32]) {
    for ((to, &gradient), &taken) in to.iter_mut().zip(gradient).zip(taken) {
        *to += if taken == place { factor * gradient } else { 0.0 };
    }
}

dispatch! {
    fn max_row(job: &Job<'_>, input: Rows<'_>, v: usize, out: &mut [f32], places: &mut [u32]) = max_body
}

#[inline(always)]
fn max_body<const FMA: bool>(job: &Job<'_>, input: Rows<'_>, v: usize, out: &mut [f32], places: &mut [u32]) {
    let span = job.offsets[v] as usize..job.offsets[v + 1] as usize;
    out.fill(0.0);
    places.fill(NOBODY);
    let chunks = out.chunks_mut(LANES).zip(places.chunks_mut(LANES));
    for (chunk, (out, places)) in chunks.enumerate() {
        let columns = chunk * LANES..chunk * LANES + out.len();
        let mut term = |u: usize, place: u32, value: f32| {
            let factor = value * job.source.map_or(1.0, |s| s[u]);
            match input {
                Rows::F32(x) => larger(x.row(u)[columns.clone()].iter().copied(), factor, place, out, places),
                Rows::Bf16(x) => {
                    let wide = x.row(u)[columns.clone()].iter().map(|&x| eciton_tensor::half::widen(x));
                    larger(wide, factor, place, out, places);
                }
            }
        };
        for (place, edge) in span.clone().enumerate() {
            if let (Rows::F32(x), Some(&next)) = (input, job.list.get(edge + AHEAD)) {
                prefetch::<f32, LANES>(
                    x.data().as_ptr().wrapping_add(next as usize * x.stride() + columns.start),
                );
            }
            term(
                job.list[edge] as usize,
                place as u32,
                job.values.map_or(1.0, |a| a[job.positions.map_or(edge, |p| p.get(edge))]),
            );
        }
        if job.own {
            term(v, span.len() as u32, 1.0);
        }
        if let Some(target) = job.target {
            out.iter_mut().for_each(|out| *out *= target[v]);
        }
    }
}

/// Replaces each value of `out` by `factor * x` if that is larger. In this case, `place` is
/// recorded as the index of the chosen term.
#[inline(always)]
fn larger(x: impl Iterator<Item = f32>, factor: f32, place: u32, out: &mut [f32], places: &mut [u32]) {
    for ((x, out), taken) in x.zip(out).zip(places) {
        let x = factor * x;
        // A NaN replaces a number, but nothing replaces a NaN.
        let wins = (*taken == NOBODY) | (x > *out) | (x.is_nan() & !out.is_nan());
        *out = if wins { x } else { *out };
        *taken = if wins { place } else { *taken };
    }
}
