//! Dense products. A routine is chosen by the widths alone, so a row's bits do not depend on how many
//! rows there are; sums over rows follow the [`Grid`].
//!
//! Narrow products (a weight that stays in the first-level cache) use register tiles of our own:
//! packing, which a general product does, costs more than they do. Wide ones go to `matrixmultiply`,
//! whose results do not depend on how rows are cut.
#![allow(unsafe_code)]

use super::activation::Activation;
use super::prologue::{Prologue, epilogue};
use crate::grid::Grid;
use crate::simd::{dispatch, madd};
use crate::view::{View, ViewMut};

/// Lanes that a narrow product may have: measured, `matrixmultiply` is quicker from 33 on
/// (`tests/products-bench`).
const NARROW_LANES: usize = 32;
/// Values that a narrow weight may have: 32 KiB.
const NARROW_VALUES: usize = 8192;
/// Values that a narrow gradient of a weight may have. `matrixmultiply` is quicker over many rows,
/// but an atom of a small graph has some forty, fewer than its packing is worth.
const NARROW_GRADIENT: usize = 512;
/// Rows of a block whose prologue is computed ahead of a wide product.
const BLOCK_ROWS: usize = 512;
/// Rows of a block of a sum over rows.
const SUM_BLOCK_ROWS: usize = 256;

fn lanes(columns: usize) -> usize {
    if columns <= 8 { 8 } else { columns.next_multiple_of(16) }
}

/// Whether a [k, n] weight is narrow.
fn is_narrow(k: usize, n: usize) -> bool {
    lanes(n) <= NARROW_LANES && k * lanes(n) <= NARROW_VALUES
}

/// Reusable memory of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    rows: Vec<f32>,
    packed: Vec<f32>,
    sums: [Vec<f32>; 5],
    pub(crate) stored: Vec<f32>,
    pub(crate) sparse_sums: Vec<f32>,
    pub(crate) kept: super::sparse::Kept,
}

/// Rows of `w` (or of its transpose) with exactly `lanes` values each, zero-padded.
fn pack<'s>(w: View<'s>, transpose: bool, lanes: usize, into: &'s mut Vec<f32>) -> &'s [f32] {
    if !transpose && w.stride() == lanes && w.data().len() >= w.rows() * lanes {
        return w.data();
    }
    let (k, n) = if transpose { (w.columns(), w.rows()) } else { (w.rows(), w.columns()) };
    into.clear();
    into.resize(k * lanes, 0.0);
    for i in 0..w.rows() {
        let row = w.row(i);
        if transpose {
            for (c, &v) in row.iter().enumerate() {
                into[c * lanes + i] = v;
            }
        } else {
            into[i * lanes..i * lanes + n].copy_from_slice(row);
        }
    }
    into
}

/// out = x w (or x w^T), added to out if `accumulate`.
pub fn matmul(
    x: View<'_>,
    w: View<'_>,
    transpose_w: bool,
    accumulate: bool,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    let (k, n) = if transpose_w { (w.columns(), w.rows()) } else { (w.rows(), w.columns()) };
    debug_assert!(x.columns() == k && out.columns() == n && out.rows() == x.rows());
    if k == 0 {
        if !accumulate {
            (0..out.rows()).for_each(|i| out.row_mut(i).fill(0.0));
        }
        return;
    }
    if is_narrow(k, n) {
        let packed = pack(w, transpose_w, lanes(n), &mut scratch.packed);
        narrow(x, packed, accumulate, out);
    } else {
        let (row, column) = if transpose_w { (1, w.stride()) } else { (w.stride(), 1) };
        wide(x, (w, row, column), accumulate, out);
    }
}

fn wide(
    x: View<'_>,
    (w, w_row, w_column): (View<'_>, usize, usize),
    accumulate: bool,
    out: &mut ViewMut<'_>,
) {
    let (m, k, n) = (x.rows(), x.columns(), out.columns());
    if m == 0 || n == 0 {
        return;
    }
    let stride = out.stride();
    let beta = if accumulate { 1.0 } else { 0.0 };
    // SAFETY: the views bound every address: rows * stride values each, with columns <= stride.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            x.data().as_ptr(),
            x.stride() as isize,
            1,
            w.data().as_ptr(),
            w_row as isize,
            w_column as isize,
            beta,
            out.data_mut().as_mut_ptr(),
            stride as isize,
            1,
        );
    }
}

fn narrow(x: View<'_>, packed: &[f32], accumulate: bool, out: &mut ViewMut<'_>) {
    match lanes(out.columns()) {
        8 => narrow_lanes::<8>(x, packed, accumulate, out),
        16 => narrow_lanes::<16>(x, packed, accumulate, out),
        _ => narrow_lanes::<32>(x, packed, accumulate, out),
    }
}

dispatch! {
    fn narrow_lanes[const L: usize](x: View<'_>, packed: &[f32], accumulate: bool, out: &mut ViewMut<'_>) = narrow_body
}

#[inline(always)]
fn narrow_body<const L: usize, const FMA: bool>(
    x: View<'_>,
    packed: &[f32],
    accumulate: bool,
    out: &mut ViewMut<'_>,
) {
    let mut i = 0;
    while i + 4 <= x.rows() {
        narrow_rows::<L, 4, FMA>(x, packed, accumulate, out, i);
        i += 4;
    }
    while i < x.rows() {
        narrow_rows::<L, 1, FMA>(x, packed, accumulate, out, i);
        i += 1;
    }
}

#[inline(always)]
fn narrow_rows<const L: usize, const R: usize, const FMA: bool>(
    x: View<'_>,
    packed: &[f32],
    accumulate: bool,
    out: &mut ViewMut<'_>,
    first: usize,
) {
    let k = x.columns();
    let from: [&[f32]; R] = std::array::from_fn(|r| &x.row(first + r)[..k]);
    let mut sums = [[0.0f32; L]; R];
    for (j, w) in packed.as_chunks::<L>().0.iter().take(k).enumerate() {
        for r in 0..R {
            let v = from[r][j];
            for l in 0..L {
                sums[r][l] = madd::<FMA>(v, w[l], sums[r][l]);
            }
        }
    }
    let padded = out.stride() == L;
    let n = if padded { L } else { out.columns() };
    let stride = out.stride();
    for (r, sum) in sums.iter().enumerate() {
        let start = (first + r) * stride;
        let to = &mut out.data_mut()[start..start + n];
        if accumulate {
            to.iter_mut().zip(sum).for_each(|(t, s)| *t += s);
        } else {
            to.copy_from_slice(&sum[..n]);
        }
    }
}

/// out = activation(u w + bias), u the prologue of x.
#[allow(clippy::too_many_arguments)]
pub fn linear(
    x: View<'_>,
    before: &Prologue<'_>,
    w: View<'_>,
    bias: Option<&[f32]>,
    activation: Activation,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    if before.is_identity() {
        matmul(x, w, false, false, out, scratch);
        epilogue(bias, activation, out);
        return;
    }
    let k = x.columns();
    let mut rows = std::mem::take(&mut scratch.rows);
    rows.resize(rows.len().max(BLOCK_ROWS.min(x.rows()) * k), 0.0);
    let mut i = 0;
    while i < x.rows() {
        let count = BLOCK_ROWS.min(x.rows() - i);
        let mut u = ViewMut::new(&mut rows[..count * k], count, k);
        before.forward(x, i, &mut u);
        matmul(u.as_view(), w, false, false, &mut out.slice(i, count), scratch);
        i += count;
    }
    scratch.rows = rows;
    epilogue(bias, activation, out);
}

/// What [`linear_backward`] is asked for. Gradients of parameters hold one matrix for each part of
/// the grid.
#[derive(Debug, Default)]
pub struct Wanted<'a, 'b> {
    /// [n, k]
    pub x: Option<&'a mut ViewMut<'b>>,
    /// parts x [1, k]: column sums of `x`'s gradient
    pub before_bias: Option<&'a mut [ViewMut<'b>]>,
    /// parts x [k, m]
    pub w: Option<&'a mut [ViewMut<'b>]>,
    /// parts x [1, m]
    pub after_bias: Option<&'a mut [ViewMut<'b>]>,
}

/// The gradients of u w + b, u the prologue of x, given `d`, the gradient of the result.
pub fn linear_backward(
    x: View<'_>,
    before: &Prologue<'_>,
    w: View<'_>,
    d: View<'_>,
    grid: &Grid,
    wanted: Wanted<'_, '_>,
    scratch: &mut Scratch,
) {
    let (k, m) = (w.rows(), w.columns());
    let Wanted { x: mut grad_x, mut before_bias, w: mut grad_w, mut after_bias } = wanted;
    let mut tree_w = Tree::new(std::mem::take(&mut scratch.sums[0]), k * lanes(m));
    let mut tree_before = Tree::new(std::mem::take(&mut scratch.sums[1]), k);
    let mut tree_after = Tree::new(std::mem::take(&mut scratch.sums[2]), m);
    let mut u_rows = std::mem::take(&mut scratch.rows);
    let mut grad_rows = std::mem::take(&mut scratch.sums[3]);
    let identity = before.is_identity();
    for (p, part) in grid.parts().iter().enumerate() {
        for atom in &part.atoms {
            let (mut at, end) = (atom.rows.start as usize, atom.rows.end as usize);
            while at < end {
                let count = SUM_BLOCK_ROWS.min(end - at);
                let d_block = d.slice(at, count);
                let mut u_block = None;
                if grad_w.is_some() {
                    let u = if identity {
                        x.slice(at, count)
                    } else {
                        u_rows.resize(u_rows.len().max(count * k), 0.0);
                        let mut u = ViewMut::new(&mut u_rows[..count * k], count, k);
                        before.forward(x, at, &mut u);
                        View::new(&u_rows[..count * k], count, k)
                    };
                    transposed_product(u, d_block, tree_w.leaf());
                    u_block = Some(u);
                }
                if after_bias.is_some() {
                    column_sums(d_block, tree_after.leaf());
                }
                if grad_x.is_some() || before_bias.is_some() {
                    let needs_rows = grad_x.is_none();
                    if needs_rows {
                        grad_rows.resize(grad_rows.len().max(count * k), 0.0);
                    }
                    let mut own = ViewMut::new(
                        &mut grad_rows[..if needs_rows { count * k } else { 0 }],
                        if needs_rows { count } else { 0 },
                        k,
                    );
                    let mut target = match &mut grad_x {
                        Some(g) => g.slice(at, count),
                        None => own.slice(0, count),
                    };
                    matmul(d_block, w, true, false, &mut target, scratch);
                    match (u_block, before.activation) {
                        // Where u is positive, relu and dropout let the gradient pass.
                        (Some(u), Activation::Relu) => {
                            pass_positive(u, before.dropout.map_or(1.0, |d| d.scale), &mut target)
                        }
                        _ => before.backward(x, at, &mut target),
                    }
                    if before_bias.is_some() {
                        column_sums(target.as_view(), tree_before.leaf());
                    }
                }
                at += count;
            }
            tree_w.close(atom.closes);
            tree_before.close(atom.closes);
            tree_after.close(atom.closes);
        }
        if let Some(parts) = &mut grad_w {
            tree_w.finish(lanes(m), &mut parts[p]);
        }
        if let Some(parts) = &mut before_bias {
            tree_before.finish(k, &mut parts[p]);
        }
        if let Some(parts) = &mut after_bias {
            tree_after.finish(m, &mut parts[p]);
        }
    }
    scratch.sums[0] = tree_w.levels;
    scratch.sums[1] = tree_before.levels;
    scratch.sums[2] = tree_after.levels;
    scratch.sums[3] = grad_rows;
    scratch.rows = u_rows;
}

dispatch! {
    /// rows = rows * scale where u > 0, else 0.
    fn pass_positive(u: View<'_>, scale: f32, rows: &mut ViewMut<'_>) = pass_positive_body
}

#[inline(always)]
fn pass_positive_body<const FMA: bool>(u: View<'_>, scale: f32, rows: &mut ViewMut<'_>) {
    // A mask rather than a branch, which nothing could predict.
    let pass = |t: f32, u: f32| f32::from_bits((t * scale).to_bits() & 0u32.wrapping_sub(u32::from(u > 0.0)));
    for i in 0..rows.rows() {
        let (to, rest) = rows.row_mut(i).as_chunks_mut::<16>();
        let (from, from_rest) = u.row(i).as_chunks::<16>();
        for (to, from) in to.iter_mut().zip(from) {
            *to = std::array::from_fn(|l| pass(to[l], from[l]));
        }
        rest.iter_mut().zip(from_rest).for_each(|(t, &u)| *t = pass(*t, u));
    }
}

/// A sum over rows on its way up the grid's tree: one accumulator a level.
#[derive(Debug)]
pub(crate) struct Tree {
    levels: Vec<f32>,
    len: usize,
}

impl Tree {
    /// A tree over sums of `len` values, reusing memory.
    pub(crate) fn new(mut memory: Vec<f32>, len: usize) -> Self {
        memory.clear();
        memory.resize((crate::grid::MAX_LEVEL + 1) * len, 0.0);
        Self { levels: memory, len }
    }

    /// The memory, for another tree.
    pub(crate) fn into_memory(self) -> Vec<f32> {
        self.levels
    }

    /// The atom's accumulator.
    pub(crate) fn leaf(&mut self) -> &mut [f32] {
        &mut self.levels[..self.len]
    }

    /// An atom ends, and with it `closes` levels above it.
    pub(crate) fn close(&mut self, closes: u8) {
        for level in 0..=(closes as usize).min(crate::grid::MAX_LEVEL - 1) {
            let (low, high) = self.levels[level * self.len..].split_at_mut(self.len);
            add_and_clear(low, &mut high[..self.len]);
        }
    }

    /// Writes the part's sum (rows of `stride` values) and starts anew.
    pub(crate) fn finish(&mut self, stride: usize, into: &mut ViewMut<'_>) {
        for level in 0..crate::grid::MAX_LEVEL {
            let (low, high) = self.levels[level * self.len..].split_at_mut(self.len);
            add_and_clear(low, &mut high[..self.len]);
        }
        let root = &mut self.levels[crate::grid::MAX_LEVEL * self.len..];
        let columns = into.columns();
        if columns == 1 && into.stride() == 1 && into.rows() == self.len {
            // A vector of one extent: its values are its rows.
            into.data_mut()[..self.len].copy_from_slice(root);
            root.fill(0.0);
            return;
        }
        for i in 0..into.rows() {
            into.row_mut(i).copy_from_slice(&root[i * stride..i * stride + columns]);
        }
        root.fill(0.0);
    }
}

fn add_and_clear(from: &mut [f32], to: &mut [f32]) {
    for (f, t) in from.iter_mut().zip(to) {
        *t += *f;
        *f = 0.0;
    }
}

/// sums [k, lanes(m)] += u^T d over the rows of u [rows, k] and d [rows, m].
pub(crate) fn transposed_product(u: View<'_>, d: View<'_>, sums: &mut [f32]) {
    let (k, m) = (u.columns(), d.columns());
    if lanes(m) > NARROW_LANES || k * lanes(m) > NARROW_GRADIENT {
        let mut out = ViewMut::padded(sums, k, m, lanes(m));
        // SAFETY of the addresses is as in `wide`: u^T has row stride 1 and column stride u.stride().
        let stride = out.stride();
        // SAFETY: u holds rows * stride values, d likewise, sums k * lanes(m).
        unsafe {
            matrixmultiply::sgemm(
                k,
                u.rows(),
                m,
                1.0,
                u.data().as_ptr(),
                1,
                u.stride() as isize,
                d.data().as_ptr(),
                d.stride() as isize,
                1,
                1.0,
                out.data_mut().as_mut_ptr(),
                stride as isize,
                1,
            );
        }
        return;
    }
    match lanes(m) {
        8 => outer_lanes::<8>(u, d, sums),
        16 => outer_lanes::<16>(u, d, sums),
        _ => outer_lanes::<32>(u, d, sums),
    }
}

dispatch! {
    fn outer_lanes[const L: usize](u: View<'_>, d: View<'_>, sums: &mut [f32]) = outer_body
}

#[inline(always)]
fn outer_body<const L: usize, const FMA: bool>(u: View<'_>, d: View<'_>, sums: &mut [f32]) {
    let k = u.columns();
    let mut j = 0;
    while j + 4 <= k {
        outer_columns::<L, 4, FMA>(u, d, sums, j);
        j += 4;
    }
    while j < k {
        outer_columns::<L, 1, FMA>(u, d, sums, j);
        j += 1;
    }
}

#[inline(always)]
fn outer_columns<const L: usize, const C: usize, const FMA: bool>(
    u: View<'_>,
    d: View<'_>,
    sums: &mut [f32],
    j: usize,
) {
    let mut tile = [[0.0f32; L]; C];
    for (c, t) in tile.iter_mut().enumerate() {
        t.copy_from_slice(&sums[(j + c) * L..(j + c + 1) * L]);
    }
    // Rows with exactly L lanes are read whole; what stands in the padding never leaves it.
    let padded = d.stride() == L && d.data().len() >= d.rows() * L;
    for i in 0..u.rows() {
        let from = &u.row(i)[j..j + C];
        let mut row = [0.0f32; L];
        if padded {
            row.copy_from_slice(&d.data()[i * L..(i + 1) * L]);
        } else {
            row[..d.columns()].copy_from_slice(d.row(i));
        }
        for c in 0..C {
            for l in 0..L {
                tile[c][l] = madd::<FMA>(from[c], row[l], tile[c][l]);
            }
        }
    }
    for (c, t) in tile.iter().enumerate() {
        sums[(j + c) * L..(j + c + 1) * L].copy_from_slice(t);
    }
}

dispatch! {
    /// sums [columns] += each row of x, in order.
    pub(crate) fn column_sums(x: View<'_>, sums: &mut [f32]) = column_sums_body
}

#[inline(always)]
fn column_sums_body<const FMA: bool>(x: View<'_>, sums: &mut [f32]) {
    let (chunks, rest) = sums.as_chunks_mut::<16>();
    let start = chunks.len() * 16;
    for (c, sums) in chunks.iter_mut().enumerate() {
        let mut sum = *sums;
        for i in 0..x.rows() {
            if let Some(row) = x.row(i)[c * 16..].first_chunk::<16>() {
                for l in 0..16 {
                    sum[l] += row[l];
                }
            }
        }
        *sums = sum;
    }
    if rest.len() > 1 && rest.len() <= 8 && x.reaches(start, 8) {
        tail_sums::<8>(x, start, rest);
    } else if rest.len() > 8 && x.reaches(start, 16) {
        tail_sums::<16>(x, start, rest);
    } else {
        for (c, sum) in rest.iter_mut().enumerate() {
            *sum = (0..x.rows()).fold(*sum, |s, i| s + x.row(i)[start + c]);
        }
    }
}

/// The last columns, padding read along: whole registers have no store that the next row waits for.
#[inline(always)]
fn tail_sums<const L: usize>(x: View<'_>, start: usize, sums: &mut [f32]) {
    let mut sum = [0.0f32; L];
    sum[..sums.len()].copy_from_slice(sums);
    for i in 0..x.rows() {
        if let Some(row) = x.data()[i * x.stride() + start..].first_chunk::<L>() {
            for l in 0..L {
                sum[l] += row[l];
            }
        }
    }
    let n = sums.len();
    sums.copy_from_slice(&sum[..n]);
}
