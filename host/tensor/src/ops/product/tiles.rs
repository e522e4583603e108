//! Matrix products in tiles of 512-bit registers. A tile consists of several rows and up to 64
//! columns of the result, which are summed in registers.
//!
//! With 24 accumulators, a multiply-add starts in every cycle, whatever its latency. Rows of the left
//! factor are broadcast value by value. The right factor is read in place, or copied to panels
//! ([`Right`]). Every value is one chain of fused multiply-adds in the order of the
//! sum (split every [`DEPTH`] terms). So its bits do not depend on how rows are cut, or on the tile
//! that computes it.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use std::cell::Cell;

use super::lines::Lines;
use crate::ops::permute::{Lies, transpose as transpose_block};
use crate::simd::{Level, level};
use crate::view::{View, ViewMut};

/// Number of f32 values in a register.
const LANES: usize = 16;
/// Maximum width of a tile, in registers.
const WIDEST: usize = 4;
/// Maximum number of terms in a chain of multiply-adds. A panel with this number of rows of the
/// right factor fits into the second-level cache.
const DEPTH: usize = 1024;
/// Number of values of the left factor that are processed at a time. They stay in the second-level
/// cache while all panels of the right factor are processed.
const BLOCK_VALUES: usize = 1 << 16;
/// Number of columns of the right factor that are processed at a time.
const COLUMNS: usize = 512;
/// Minimum number of rows of the left factor for which the right factor is copied.
const PACKED_ROWS: usize = 128;

/// Maximum number of rows of atoms that are processed together. A panel of these rows fits into the
/// first-level cache.
const ATOMS_ROWS: usize = 64;

thread_local! {
    /// Memory for panels of the right factor of a transposed product, which the products of a
    /// thread reuse.
    static ROOM: Cell<Lines> = Cell::default();
}

/// Returns true if this processor has 512-bit registers.
pub(super) fn available() -> bool {
    level() == Level::Avx512
}

/// Factor of a tile's product in memory. Row i of the matrix starts at `first + i * stride`.
#[derive(Clone, Copy)]
struct Side {
    first: *const f32,
    stride: usize,
}

/// Destination of a tile in memory, with a mask of the valid columns in its last register.
#[derive(Clone, Copy)]
struct Target {
    first: *mut f32,
    stride: usize,
    mask: u16,
    accumulate: bool,
}

/// Right factor of shape `[k, m]` in the layout of [`multiply`]. Its columns are divided into panels
/// of at most [`WIDEST`] registers.
///
/// If many rows are multiplied with it, its panels are copied one after the other. Rows in place are
/// often a power of two apart, and a few such rows fill a set of the first-level cache. A transposed
/// factor, and a panel whose last register is incomplete, are always copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Right<'s> {
    /// The factor in place. It is not used if all panels are copied.
    place: View<'s>,
    /// Copies of the panels. That of the panel from column c on starts at c k, with the original k.
    copies: &'s [f32],
    is_copied: bool,
    /// Numbers of rows and columns of the original factor, from which the layout of copies follows.
    laid: [usize; 2],
    k: usize,
    m: usize,
}

impl<'s> Right<'s> {
    /// Prepares `w`, or its transpose, as the right factor for `rows` rows. Panels are copied to
    /// `room`.
    pub(super) fn new(w: View<'s>, transpose: bool, rows: usize, room: &'s mut Lines) -> Self {
        let [k, m] = if transpose { [w.columns(), w.rows()] } else { [w.rows(), w.columns()] };
        // As in `multiply`.
        assert!(available() && holds(w));
        let is_copied = transpose
            || rows >= PACKED_ROWS && (m > WIDEST * LANES || w.stride() > m.next_multiple_of(LANES));
        let room = match is_copied || !m.is_multiple_of(LANES) {
            true => room.take(k * m.next_multiple_of(LANES)),
            false => &mut [],
        };
        for (column, width, mask) in panels(m).filter(|(.., mask)| is_copied || *mask != u16::MAX) {
            let panel = &mut room[column * k..][..k * width * LANES];
            if transpose {
                if mask != u16::MAX {
                    panel.fill(0.0);
                }
                let from = Lies { first: column * w.stride(), stride: w.stride() };
                let to = Lies { first: 0, stride: width * LANES };
                transpose_block((w.data(), from), (m.min(column + width * LANES) - column, k), (panel, to));
            } else {
                let from =
                    Side { first: w.data()[column.min(w.data().len())..].as_ptr(), stride: w.stride() };
                // SAFETY: the columns of the panel are columns of w, and all rows exist.
                unsafe { pack(from, (width, mask), k, panel) };
            }
        }
        Self { place: w, copies: room, is_copied, laid: [k, m], k, m }
    }

    /// Returns the factor without the rows from `rows` on.
    pub(super) fn first_rows(self, rows: usize) -> Self {
        Self { k: rows.min(self.k), ..self }
    }

    /// Returns the factor without the columns from `columns` on.
    pub(super) fn first_columns(self, columns: usize) -> Self {
        Self { m: columns.min(self.m), ..self }
    }

    /// Returns the place of the panel from `column` on, with its rows from `row` on.
    fn panel(&self, column: usize, row: usize) -> Side {
        let [k, m] = self.laid;
        let width = (m - column).div_ceil(LANES).min(WIDEST) * LANES;
        let (values, stride, first) = match self.is_copied || m - column < width {
            true => (self.copies, width, column * k + row * width),
            false => (self.place.data(), self.place.stride(), row * self.place.stride() + column),
        };
        Side { first: values[first.min(values.len())..].as_ptr(), stride }
    }
}

/// Computes out = x w, or adds x w to out. x has the shape `[n, k]`, w has the shape `[k, m]`, and
/// out has the shape `[n, m]`.
pub(super) fn multiply(x: View<'_>, w: Right<'_>, accumulate: bool, out: &mut ViewMut<'_>) {
    let (n, k, m) = (x.rows(), w.k, w.m);
    // The unsafe code below relies on these conditions. Operations check the shapes that a kernel
    // passes, so a failure is a defect of this crate. It panics before memory is accessed.
    assert!(available() && x.columns() == k && out.rows() == n && out.columns() == m);
    if n == 0 || m == 0 {
        return;
    }
    for (block, start) in (0..m).step_by(COLUMNS).flat_map(|c| (0..k).step_by(DEPTH).map(move |i| (c, i))) {
        let (columns, depth) = (COLUMNS.min(m - block), DEPTH.min(k - start));
        let accumulate = accumulate || start > 0;
        let rows = (BLOCK_VALUES / depth / 24 * 24).max(24);
        for first in (0..n).step_by(rows) {
            let count = rows.min(n - first);
            let left = x.slice(first, count).columns_from(start, depth);
            let mut into = out.slice(first, count);
            // The memory of each matrix extends at least to the last column of its last row.
            assert!(holds(left) && holds(into.as_view()));
            let stride = into.stride();
            let left = Side { first: left.data().as_ptr(), stride: left.stride() };
            for (column, width, mask) in panels(columns) {
                let column = block + column;
                let right = w.panel(column, start);
                // SAFETY: the columns of the tile are columns of w and of out, and all rows exist.
                unsafe {
                    let first = into.data_mut().as_mut_ptr().add(column);
                    let target = Target { first, stride, mask, accumulate };
                    match width {
                        1 => strip::<1, 24, 8>(left, right, target, count, depth),
                        2 => strip::<2, 12, 4>(left, right, target, count, depth),
                        3 => strip::<3, 8, 4>(left, right, target, count, depth),
                        _ => strip::<4, 6, 4>(left, right, target, count, depth),
                    }
                }
            }
        }
    }
}

/// Adds u^T d of each atom to `sums`, atom by atom. u has the shape `[n, k]`, d has the shape
/// `[n, m]`, and `sums` has k rows that are `stride` values apart. `atoms` lists the number of rows
/// of each atom. Each value is the earlier sum plus one chain of multiply-adds per atom.
pub(super) fn transposed(u: View<'_>, d: View<'_>, mut atoms: &[usize], sums: &mut [f32], stride: usize) {
    let mut first = 0;
    while !atoms.is_empty() {
        let mut rows = 0;
        let fit = |atom: &&usize| {
            rows += **atom;
            rows <= ATOMS_ROWS
        };
        let count = atoms.iter().take_while(fit).count().max(1);
        let (now, later) = atoms.split_at(count);
        let rows: usize = now.iter().sum();
        block_of_atoms(u.slice(first, rows), d.slice(first, rows), now, sums, stride);
        (first, atoms) = (first + rows, later);
    }
}

/// Computes [`transposed`] for atoms and columns that are processed together.
fn block_of_atoms(u: View<'_>, d: View<'_>, atoms: &[usize], sums: &mut [f32], stride: usize) {
    let (n, k, m) = (u.rows(), u.columns(), d.columns());
    // As in `multiply`.
    assert!(available() && d.rows() == n && holds(u) && holds(d) && atoms.iter().sum::<usize>() == n);
    assert!(m <= stride && (k == 0 || sums.len() >= (k - 1) * stride + m));
    let left = Side { first: u.data().as_ptr(), stride: u.stride() };
    let mut room = ROOM.take();
    // Each atom multiplies its rows with the panel.
    let right = Right::new(d, false, k * atoms.len(), &mut room);
    for (column, width, mask) in panels(m) {
        let right = right.panel(column, 0);
        // SAFETY: the columns of the tile are columns of d and of sums, and all rows exist.
        unsafe {
            let target = Target { first: sums.as_mut_ptr().add(column), stride, mask, accumulate: true };
            match width {
                1 => strip_of_atoms::<1, 24, 8>(left, right, target, k, atoms),
                2 => strip_of_atoms::<2, 12, 4>(left, right, target, k, atoms),
                3 => strip_of_atoms::<3, 8, 4>(left, right, target, k, atoms),
                _ => strip_of_atoms::<4, 6, 4>(left, right, target, k, atoms),
            }
        }
    }
    ROOM.set(room);
}

/// Returns true if the slice of a view is long enough for all of its values.
fn holds(view: View<'_>) -> bool {
    view.rows() == 0 || view.data().len() >= (view.rows() - 1) * view.stride() + view.columns()
}

/// Divides columns into panels of at most [`WIDEST`] registers. Each item is the first column of a
/// panel, its number of registers, and the mask of its last register.
fn panels(columns: usize) -> impl Iterator<Item = (usize, usize, u16)> {
    (0..columns).step_by(WIDEST * LANES).map(move |first| {
        let count = (columns - first).min(WIDEST * LANES);
        let width = count.div_ceil(LANES);
        (first, width, u16::MAX >> (width * LANES - count))
    })
}

/// Computes all rows of a panel in tiles of R rows, then of S rows, then of one row.
///
/// # Safety
/// The conditions of [`tile`] must hold for all rows.
#[target_feature(enable = "avx512f")]
unsafe fn strip<const V: usize, const R: usize, const S: usize>(
    left: Side,
    right: Side,
    into: Target,
    rows: usize,
    depth: usize,
) {
    let mut row = 0;
    while row < rows {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let left = Side { first: left.first.add(row * left.stride), ..left };
            let target = Target { first: into.first.add(row * into.stride), ..into };
            row += match rows - row {
                left_over if left_over >= R => tile::<V, R>(left, right, target, depth),
                left_over if left_over >= S => tile::<V, S>(left, right, target, depth),
                _ => tile::<V, 1>(left, right, target, depth),
            };
        }
    }
}

/// Copies the columns of a panel, row by row. The panel has `width` registers, and `last` is the
/// mask of the last one.
///
/// # Safety
/// There must be `rows` rows with these columns, and the panel must have space for them.
#[target_feature(enable = "avx512f")]
unsafe fn pack(from: Side, (width, last): (usize, u16), rows: usize, panel: &mut [f32]) {
    debug_assert!(panel.len() >= rows * width * LANES);
    for row in 0..rows {
        for v in 0..width {
            let mask = if v + 1 == width { last } else { u16::MAX };
            // SAFETY: guaranteed by the caller. A masked load does not access values outside its
            // mask.
            unsafe {
                let values = _mm512_maskz_loadu_ps(mask, from.first.add(row * from.stride + v * LANES));
                _mm512_storeu_ps(panel.as_mut_ptr().add((row * width + v) * LANES), values);
            }
        }
    }
}

/// Computes all rows of a panel of sums over atoms, in tiles of R rows, then of S rows, then of one
/// row. The rows are columns of the left factor.
///
/// # Safety
/// The conditions of [`tile_of_atoms`] must hold for all rows.
#[target_feature(enable = "avx512f")]
unsafe fn strip_of_atoms<const V: usize, const R: usize, const S: usize>(
    left: Side,
    right: Side,
    into: Target,
    rows: usize,
    atoms: &[usize],
) {
    let mut row = 0;
    while row < rows {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let left = Side { first: left.first.add(row), ..left };
            let target = Target { first: into.first.add(row * into.stride), ..into };
            row += match rows - row {
                left_over if left_over >= R => tile_of_atoms::<V, R>(left, right, target, atoms),
                left_over if left_over >= S => tile_of_atoms::<V, S>(left, right, target, atoms),
                _ => tile_of_atoms::<V, 1>(left, right, target, atoms),
            };
        }
    }
}

/// Computes one tile of a transposed product. To each earlier sum it adds one chain of
/// multiply-adds per atom. Chains stay in registers, and sums in the first-level cache. Returns R.
///
/// # Safety
/// Both factors must have as many terms as all atoms together. The left one and the target must
/// have R rows. The right factor must have V registers of columns, and the target too, except those
/// that the mask excludes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tile_of_atoms<const V: usize, const R: usize>(
    left: Side,
    right: Side,
    into: Target,
    atoms: &[usize],
) -> usize {
    let mut i = 0;
    for &count in atoms {
        let mut chains = [[_mm512_setzero_ps(); V]; R];
        for _ in 0..count {
            // SAFETY: as above.
            unsafe {
                let from = right.first.add(i * right.stride);
                let mut values: [__m512; V] = [_mm512_setzero_ps(); V];
                for (v, value) in values.iter_mut().enumerate() {
                    *value = _mm512_loadu_ps(from.add(v * LANES));
                }
                for (r, chains) in chains.iter_mut().enumerate() {
                    let factor = _mm512_set1_ps(*left.first.add(i * left.stride + r));
                    for (chain, value) in chains.iter_mut().zip(values) {
                        *chain = _mm512_fmadd_ps(factor, value, *chain);
                    }
                }
            }
            i += 1;
        }
        for (r, chains) in chains.iter().enumerate() {
            for (v, &chain) in chains.iter().enumerate() {
                // SAFETY: as above. A masked access does not touch values outside its mask.
                unsafe {
                    let at = into.first.add(r * into.stride + v * LANES);
                    if v + 1 == V {
                        let sum = _mm512_add_ps(_mm512_maskz_loadu_ps(into.mask, at), chain);
                        _mm512_mask_storeu_ps(at, into.mask, sum);
                    } else {
                        _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), chain));
                    }
                }
            }
        }
    }
    R
}

/// Computes one tile of R rows and V registers as a sum over `depth` terms. Returns R.
///
/// # Safety
/// Both factors must have `depth` terms, and the left one R rows. The target must have R rows. The
/// right factor must have V registers of columns, and the target too, except those that the mask
/// excludes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tile<const V: usize, const R: usize>(left: Side, right: Side, into: Target, depth: usize) -> usize {
    let mask = |v: usize| if v + 1 == V { into.mask } else { u16::MAX };
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    for i in 0..depth {
        // SAFETY: guaranteed by the caller. A masked load does not access values outside its mask.
        unsafe {
            let from = right.first.add(i * right.stride);
            let mut values: [__m512; V] = [_mm512_setzero_ps(); V];
            for (v, value) in values.iter_mut().enumerate() {
                *value = _mm512_loadu_ps(from.add(v * LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let factor = _mm512_set1_ps(*left.first.add(r * left.stride + i));
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = _mm512_fmadd_ps(factor, value, *sum);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let at = into.first.add(r * into.stride + v * LANES);
                let sum = match into.accumulate {
                    true => _mm512_add_ps(_mm512_maskz_loadu_ps(mask(v), at), sum),
                    false => sum,
                };
                _mm512_mask_storeu_ps(at, mask(v), sum);
            }
        }
    }
    R
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 40) as f32 / (1 << 24) as f32 - 0.5).collect()
    }

    /// Returns a view of `columns` columns in rows of `stride` values, whose memory ends with the
    /// last column.
    fn view(data: &[f32], rows: usize, columns: usize, stride: usize) -> View<'_> {
        View::padded(&data[..(rows.max(1) - 1) * stride + columns], rows, columns, stride)
    }

    /// Test shapes (n, k, m, stride of x, of w, of out): every width of a tile, remainders of rows,
    /// and two chains.
    const SHAPES: [[usize; 6]; 9] = [
        [1, 1, 1, 1, 1, 1],
        [49, 7, 7, 9, 8, 8],
        [24, 33, 16, 33, 16, 17],
        [35, 16, 17, 16, 20, 32],
        [13, 41, 48, 48, 48, 48],
        [23, 5, 64, 5, 64, 64],
        [17, 3, 130, 4, 131, 144],
        [9, DEPTH + 1, 41, DEPTH + 3, 41, 48],
        [257, 2 * DEPTH, 3, 2 * DEPTH, 3, 3],
    ];

    #[test]
    fn products_are_right_for_any_cut_of_rows_and_padding_is_left_alone() {
        if !available() {
            // The processor has no 512-bit registers, or `ECITON_SIMD` disables them. Then nothing
            // in this module is called.
            return;
        }
        for (seed, &[n, k, m, xs, ws, os]) in (1..).zip(&SHAPES) {
            let (x, w) = (values(seed, n * xs), values(seed + 100, k * ws));
            let (x, w) = (view(&x, n, k, xs), view(&w, k, m, ws));
            for accumulate in [false, true] {
                let before = values(seed + 200, n * os);
                let mut whole = before.clone();
                let mut room = Lines::default();
                let right = Right::new(w, false, n, &mut room);
                multiply(x, right, accumulate, &mut ViewMut::padded(&mut whole, n, m, os));
                for i in 0..n {
                    for j in 0..os {
                        let (found, old) = (whole[i * os + j], before[i * os + j]);
                        if j >= m {
                            assert_eq!(found.to_bits(), old.to_bits(), "padding of shape {seed}");
                            continue;
                        }
                        let start = if accumulate { f64::from(old) } else { 0.0 };
                        let terms = (0..k).map(|t| f64::from(x.row(i)[t]) * f64::from(w.row(t)[j]));
                        let wanted: f64 = start + terms.sum::<f64>();
                        let close = (f64::from(found) - wanted).abs() < 1e-6 * (k as f64 + 1.0);
                        assert!(close, "shape {seed}, {i} {j}: {found}, not {wanted}");
                    }
                }
                let mut cut = before.clone();
                let (mut first, mut count) = (0, 1);
                while first < n {
                    let rows = count.min(n - first);
                    let mut into = ViewMut::padded(&mut cut[first * os..], rows, m, os);
                    let mut room = Lines::default();
                    let right = Right::new(w, false, rows, &mut room);
                    multiply(x.slice(first, rows), right, accumulate, &mut into);
                    (first, count) = (first + rows, count + 1);
                }
                assert!(cut.iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits()), "shape {seed}");
            }
        }
    }

    #[test]
    fn transposed_products_add_to_their_sums() {
        if !available() {
            return;
        }
        for (seed, &[n, k, m, us, ds, ss]) in (1..).zip(&SHAPES) {
            // n terms, and k rows of the result.
            let (u, d) = (values(seed, n * us), values(seed + 100, n * ds));
            let (u, d) = (view(&u, n, k, us), view(&d, n, m, ds));
            let before = values(seed + 200, k * ss);
            let mut sums = before.clone();
            transposed(u, d, &[n], &mut sums, ss);
            for i in 0..k {
                for j in 0..ss {
                    let (found, old) = (sums[i * ss + j], before[i * ss + j]);
                    let terms = (0..n).map(|t| f64::from(u.row(t)[i]) * f64::from(d.row(t)[j.min(m - 1)]));
                    let wanted = f64::from(old) + if j < m { terms.sum::<f64>() } else { 0.0 };
                    let close = (f64::from(found) - wanted).abs() < 1e-6 * (n as f64 + 1.0);
                    assert!(close && (j < m || found.to_bits() == old.to_bits()), "shape {seed}, {i} {j}");
                }
            }
        }
    }

    #[test]
    fn sums_of_atoms_have_the_bits_of_one_call_an_atom() {
        if !available() {
            return;
        }
        for (seed, &[n, k, m, us, ds, ss]) in (1..).zip(&SHAPES) {
            let (u, d) = (values(seed, n * us), values(seed + 100, n * ds));
            let (u, d) = (view(&u, n, k, us), view(&d, n, m, ds));
            for each in [1, 8, 13, 70] {
                let mut atoms = vec![each; n / each];
                atoms.extend([n % each, 0]);
                let mut sums = values(seed + 200, k * ss);
                let mut wanted = sums.clone();
                transposed(u, d, &atoms, &mut sums, ss);
                let mut start = 0;
                for &rows in &atoms {
                    transposed(u.slice(start, rows), d.slice(start, rows), &[rows], &mut wanted, ss);
                    start += rows;
                }
                let same = sums.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "shape {seed}, atoms of {each} rows");
            }
        }
    }

    #[test]
    fn nothing_is_a_product_too() {
        if !available() {
            return;
        }
        let mut room = Lines::default();
        let right = Right::new(View::new(&[0.0; 8], 4, 2), false, 0, &mut room);
        multiply(View::new(&[], 0, 4), right, false, &mut ViewMut::new(&mut [], 0, 2));
        let mut sums = [1.0; 8];
        transposed(View::new(&[], 0, 4), View::new(&[], 0, 2), &[0], &mut sums, 2);
        assert_eq!(sums, [1.0; 8]);
    }
}
