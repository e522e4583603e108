//! Products with sparse rows, with optional dropout of their stored values.
#![allow(unsafe_code)]

use std::ops::Range;

use super::activation::Activation;
use super::kept::Kept;
use super::product::Scratch;
use super::prologue::{Prologue, drop_stored, epilogue};
use crate::grid::{Grid, MAX_LEVEL};
use crate::simd::{dispatch, madd};
use crate::sparse::{Entry, PartSlices, SLICE, SparseRows};
use crate::view::{View, ViewMut};

dispatch! {
    /// Computes the stored values of `rows` after activation and dropout, in row order. The result
    /// ends with an additional zero.
    fn stored_values(x: &SparseRows, rows: &Range<usize>, before: &Prologue<'_>, out: &mut Vec<f32>) = stored_values_body
}

#[inline(always)]
fn stored_values_body<const FMA: bool>(
    x: &SparseRows,
    rows: &Range<usize>,
    before: &Prologue<'_>,
    out: &mut Vec<f32>,
) {
    let all = x.values_in(rows.clone());
    out.resize(all.len() + 1, 0.0);
    out[all.len()] = 0.0;
    let mut at = 0;
    for (local, row) in rows.clone().enumerate() {
        let (columns, values) = x.row(row);
        let to = &mut out[at..at + columns.len()];
        at += columns.len();
        match before.dropout {
            Some(d) if before.activation == Activation::Identity => {
                let row_key = d.key.row(before.row_ids.id(local));
                drop_stored(row_key, (d.threshold, d.scale), columns, values, to);
            }
            dropout => {
                let key = dropout.map(|d| (d, d.key.row(before.row_ids.id(local))));
                for ((o, &c), &v) in to.iter_mut().zip(columns).zip(values) {
                    *o = before.activation.apply(v) * key.map_or(1.0, |(d, key)| d.factor(key, c));
                }
            }
        }
    }
}

/// Sparse rows in the layout that products read. Row r has the `columns` and `values` at the
/// indices `ends[r]..ends[r + 1]`, relative to the first end.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) ends: &'a [u64],
    pub(super) columns: &'a [u32],
    pub(super) values: &'a [f32],
}

impl<'a> Stored<'a> {
    /// Returns the rows `rows` of `x` with `values` in place of the stored values.
    fn with_values(x: &'a SparseRows, rows: &Range<usize>, values: &'a [f32]) -> Self {
        let (ends, columns) = x.lists_in(rows.clone());
        Self { ends, columns, values: &values[..columns.len()] }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> (&'a [u32], &'a [f32]) {
        let span = (self.ends[row] - self.ends[0]) as usize..(self.ends[row + 1] - self.ends[0]) as usize;
        (&self.columns[span.clone()], &self.values[span])
    }
}

/// Computes out = activation(u w + bias), where u is the sparse rows after the prologue `before`.
/// The prologue's bias is ignored.
#[allow(clippy::too_many_arguments)]
pub fn linear(
    x: &SparseRows,
    rows: Range<usize>,
    before: &Prologue<'_>,
    w: View<'_>,
    bias: Option<&[f32]>,
    activation: Activation,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    for block in blocks(x, rows.start, 0..rows.len()) {
        let u = prepared(x, &rows, &block, before, &mut scratch.kept, &mut scratch.stored);
        product(u, w, block.start, out);
    }
    epilogue(bias, activation, out);
}

/// Number of stored values that are prepared at a time. They are still in the cache when they are
/// multiplied.
const BLOCK: u64 = 1 << 14;

/// Divides the rows `rows` of an interval into blocks of at most [`BLOCK`] stored values. `start`
/// is the interval's first row in `x`.
fn blocks(x: &SparseRows, start: usize, rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let ends = x.lists_in(start + rows.start..start + rows.end).0;
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = done;
        let begin = ends[from];
        done += ends[from + 1..].partition_point(|end| end - begin <= BLOCK);
        done = done.max(from + 1);
        (from < rows.len()).then(|| rows.start + from..rows.start + done)
    })
}

/// Returns the rows `block` of the interval `rows` after activation and dropout.
fn prepared<'a>(
    x: &'a SparseRows,
    rows: &Range<usize>,
    block: &Range<usize>,
    before: &Prologue<'_>,
    kept: &'a mut Kept,
    memory: &'a mut Vec<f32>,
) -> Stored<'a> {
    if let Some(dropout) = before.dropout {
        return kept.draw(x, rows, block, before, dropout);
    }
    let block = rows.start + block.start..rows.start + block.end;
    if before.is_identity() {
        return Stored::with_values(x, &block, x.values_in(block.clone()));
    }
    stored_values(x, &block, before, memory);
    Stored::with_values(x, &block, memory)
}

/// Computes u w and writes it to the rows of `out` from index `first` on.
fn product(u: Stored<'_>, w: View<'_>, first: usize, out: &mut ViewMut<'_>) {
    let n = w.columns();
    let mut start = 0;
    while start < n {
        // Whole registers if the padding allows it, otherwise the general loop.
        let lanes = if w.stride() >= start + 64 && n - start > 48 {
            64
        } else {
            (n - start).next_multiple_of(16).min(48)
        };
        let lanes = if n <= 8 && w.stride() == 8 { 8 } else { lanes };
        let fits = w.reaches(start, lanes) && out.stride() >= start + lanes;
        match (fits, lanes) {
            (true, 8) => forward_lanes::<8>(u, w, start, first, out),
            (true, 16) => forward_lanes::<16>(u, w, start, first, out),
            (true, 32) => forward_lanes::<32>(u, w, start, first, out),
            (true, 48) => forward_lanes::<48>(u, w, start, first, out),
            (true, 64) => forward_lanes::<64>(u, w, start, first, out),
            _ => forward_any(u, w, start, lanes.min(n - start), first, out),
        }
        start += lanes;
    }
}

dispatch! {
    fn forward_lanes[const L: usize](u: Stored<'_>, w: View<'_>, start: usize, first: usize, out: &mut ViewMut<'_>) = forward_body
}

#[inline(always)]
fn forward_body<const L: usize, const FMA: bool>(
    u: Stored<'_>,
    w: View<'_>,
    start: usize,
    first: usize,
    out: &mut ViewMut<'_>,
) {
    let (weights, w_stride, out_stride) = (w.data(), w.stride(), out.stride());
    for local in 0..u.len() {
        let (columns, values) = u.row(local);
        let mut sum = [0.0f32; L];
        for (&c, &v) in columns.iter().zip(values) {
            let from = c as usize * w_stride + start;
            let w: &[f32; L] = as_lanes(&weights[from..from + L]);
            for l in 0..L {
                sum[l] = madd::<FMA>(v, w[l], sum[l]);
            }
        }
        let to = (first + local) * out_stride + start;
        out.data_mut()[to..to + L].copy_from_slice(&sum);
    }
}

#[inline(always)]
fn as_lanes<const L: usize>(values: &[f32]) -> &[f32; L] {
    // The caller cut the slice to L values. The compiler sees the length and omits the check.
    match values.first_chunk::<L>() {
        Some(lanes) => lanes,
        None => &[0.0; L],
    }
}

dispatch! {
    fn forward_any(u: Stored<'_>, w: View<'_>, start: usize, count: usize, first: usize, out: &mut ViewMut<'_>) = forward_any_body
}

#[inline(always)]
fn forward_any_body<const FMA: bool>(
    u: Stored<'_>,
    w: View<'_>,
    start: usize,
    count: usize,
    first: usize,
    out: &mut ViewMut<'_>,
) {
    for local in 0..u.len() {
        let (columns, values) = u.row(local);
        let to = &mut out.row_mut(first + local)[start..start + count];
        to.fill(0.0);
        for (&c, &v) in columns.iter().zip(values) {
            for (t, &w) in to.iter_mut().zip(&w.row(c as usize)[start..start + count]) {
                *t = madd::<FMA>(v, w, *t);
            }
        }
    }
}

/// Computes u^T d for each part of the grid, where u is the sparse rows after the prologue. The
/// result is the gradient of the weight, of shape `[k, m]`, if d is the gradient of u w.
#[allow(clippy::too_many_arguments)]
pub fn weight_gradient(
    x: &SparseRows,
    rows: Range<usize>,
    before: &Prologue<'_>,
    d: View<'_>,
    grid: &Grid,
    parts: &mut [ViewMut<'_>],
    scratch: &mut Scratch,
) {
    let m = d.columns();
    // The sums below read rows of `d` without checks.
    assert!(grid.rows() <= rows.len() && grid.rows() <= d.rows() && grid.is_consecutive(), "rows of a grid");
    // With many values per column, it is faster to add rows to one matrix per atom. The bits are
    // the same.
    let atoms: usize = grid.parts().iter().map(|p| p.atoms.len()).sum();
    let passes = atoms * x.columns() * m.div_ceil(16);
    if x.stored_in(rows.clone()) > 2 * passes {
        return by_rows(x, &rows, before, d, grid, parts, scratch);
    }
    let mut memory = std::mem::take(&mut scratch.stored);
    stored_values(x, &rows, before, &mut memory);
    let transpose = x.transpose(rows.clone(), grid);
    for ((part, slices), out) in grid.parts().iter().zip(&transpose.parts).zip(parts) {
        let lanes = if m <= 8 { 8 } else { 16 };
        let wide = m.next_multiple_of(lanes);
        match (d.reaches(0, wide) && out.stride() >= wide, lanes) {
            (true, 8) => sum_lanes::<8>(slices, part.level, &memory, d, out),
            (true, _) => sum_lanes::<16>(slices, part.level, &memory, d, out),
            _ => sum_lanes::<1>(slices, part.level, &memory, d, out),
        }
    }
    scratch.stored = memory;
}

/// Computes [`weight_gradient`] row by row. The rows of each atom are added to one matrix, which is
/// then added to the summation tree.
fn by_rows(
    x: &SparseRows,
    rows: &Range<usize>,
    before: &Prologue<'_>,
    d: View<'_>,
    grid: &Grid,
    parts: &mut [ViewMut<'_>],
    scratch: &mut Scratch,
) {
    let m = d.columns();
    let lanes = if m <= 8 { 8 } else { m.next_multiple_of(16) };
    let fits = d.stride() == lanes && d.reaches(0, lanes);
    let mut tree = std::mem::take(&mut scratch.sparse_sums);
    tree.begin(x.columns() * lanes);
    for (part, out) in grid.parts().iter().zip(parts) {
        for atom in &part.atoms {
            for block in blocks(x, rows.start, atom.rows.start as usize..atom.rows.end as usize) {
                let u = prepared(x, rows, &block, before, &mut scratch.kept, &mut scratch.stored);
                let d = (d, block.start);
                // The largest number of values that divides a row is processed at once.
                match (fits, lanes) {
                    (true, 8) => add_rows::<8>(u, d, tree.leaf()),
                    (true, 32) => add_rows::<32>(u, d, tree.leaf()),
                    (true, n) if n % 64 == 0 => add_rows::<64>(u, d, tree.leaf()),
                    (true, n) if n % 16 == 0 => add_rows::<16>(u, d, tree.leaf()),
                    _ => add_any(u, d, lanes, tree.leaf()),
                }
            }
            tree.close(atom.closes);
        }
        tree.finish(lanes, out);
    }
    scratch.sparse_sums = tree;
}

dispatch! {
    fn add_rows[const L: usize](u: Stored<'_>, d: (View<'_>, usize), sums: &mut [f32]) = add_rows_body
}

/// Adds the outer products of the rows of u and of d to `sums`. The rows of d start at the index
/// that is paired with it. L values are processed at a time.
#[inline(always)]
fn add_rows_body<const L: usize, const FMA: bool>(u: Stored<'_>, d: (View<'_>, usize), sums: &mut [f32]) {
    let (d, first) = d;
    let stride = d.stride();
    for row in 0..u.len() {
        let (columns, values) = u.row(row);
        let d = &d.data()[(first + row) * stride..(first + row + 1) * stride];
        for (chunk, g) in d.as_chunks::<L>().0.iter().enumerate() {
            for (&c, &v) in columns.iter().zip(values) {
                let to = c as usize * stride + chunk * L;
                if let Some(sum) = sums[to..to + L].first_chunk_mut::<L>() {
                    for l in 0..L {
                        // The product is rounded before the addition, as in `sum_slice`.
                        sum[l] += v * g[l];
                    }
                }
            }
        }
    }
}

fn add_any(u: Stored<'_>, (d, first): (View<'_>, usize), lanes: usize, sums: &mut [f32]) {
    for row in 0..u.len() {
        let (columns, values) = u.row(row);
        for (&c, &v) in columns.iter().zip(values) {
            let to = &mut sums[c as usize * lanes..][..d.columns()];
            to.iter_mut().zip(d.row(first + row)).for_each(|(s, &g)| *s += v * g);
        }
    }
}

dispatch! {
    fn sum_lanes[const L: usize](slices: &PartSlices, level: u8, values: &[f32], d: View<'_>, out: &mut ViewMut<'_>) = sum_body
}

#[inline(always)]
fn sum_body<const L: usize, const FMA: bool>(
    slices: &PartSlices,
    level: u8,
    values: &[f32],
    d: View<'_>,
    out: &mut ViewMut<'_>,
) {
    let out_stride = out.stride();
    for (columns, span) in slices.columns.iter().zip(slices.starts.windows(2)) {
        let entries = &slices.entries[span[0]..span[1]];
        for start in (0..d.columns()).step_by(L) {
            let sums = match level {
                0 => sum_slice::<L, 0, FMA>(entries, values, d, start),
                1 => sum_slice::<L, 1, FMA>(entries, values, d, start),
                2 => sum_slice::<L, 2, FMA>(entries, values, d, start),
                _ => sum_slice::<L, MAX_LEVEL, FMA>(entries, values, d, start),
            };
            for (&column, sum) in columns.iter().zip(&sums) {
                let to = column as usize * out_stride + start;
                out.data_mut()[to..to + L].copy_from_slice(sum);
            }
        }
    }
}

/// Factors by which a sum is multiplied when it is added to the next level. The first index is the
/// number of levels that close, and the second is the level.
const MOVES: [[f32; MAX_LEVEL]; 4] = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]];
/// Factors by which a sum is multiplied when it stays at its level. The first index is the number
/// of levels that close, and the second is the level.
const STAYS: [[f32; MAX_LEVEL]; 4] = [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]];

/// Sums the columns of a slice along the summation tree. When a level closes, its sum is added to
/// the next level. This uses products with 1 or 0, which are exact. Branches on the graph's
/// structure could not be predicted.
#[inline(always)]
fn sum_slice<const L: usize, const LEVELS: usize, const FMA: bool>(
    entries: &[[Entry; SLICE]],
    values: &[f32],
    d: View<'_>,
    start: usize,
) -> [[f32; L]; SLICE] {
    let (rows, stride) = (d.data(), d.stride());
    let mut atom = [[0.0f32; L]; SLICE];
    let mut above = [[[0.0f32; L]; LEVELS]; SLICE];
    for entry in entries {
        for s in 0..SLICE {
            let Entry { row, place_closed } = entry[s];
            let closed = (place_closed & 3) as usize;
            // SAFETY: the entries were created from the rows and stored values of this interval.
            // `d` has these rows, each with at least start + L values. `values` has one more value
            // than is stored.
            let (v, g) = unsafe {
                let from = row as usize * stride + start;
                debug_assert!(from + L <= rows.len() && (place_closed >> 2) < values.len() as u32);
                let g = &*rows.as_ptr().add(from).cast::<[f32; L]>();
                (*values.get_unchecked((place_closed >> 2) as usize), g)
            };
            let (moves, stays) = (&MOVES[closed], &STAYS[closed]);
            let mut below = atom[s];
            for l in 0..L {
                atom[s][l] = if LEVELS == 0 {
                    // The product is rounded before the addition, as below.
                    v * g[l] + atom[s][l]
                } else {
                    madd::<FMA>(atom[s][l], stays[0], v * g[l])
                };
            }
            for level in 0..LEVELS {
                for l in 0..L {
                    let sum = madd::<FMA>(below[l], moves[level], above[s][level][l]);
                    below[l] = sum;
                    above[s][level][l] = if level + 1 < LEVELS { sum * stays[level + 1] } else { sum };
                }
            }
        }
    }
    for s in 0..SLICE {
        for level in above[s] {
            for l in 0..L {
                atom[s][l] += level[l];
            }
        }
    }
    atom
}
