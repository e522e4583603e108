//! Sums of products over small atoms, in register tiles that the compiler generates. An atom is a
//! run of rows that is summed as one unit.

use crate::simd::{dispatch, madd};
use crate::view::View;

/// Number of columns of a tile.
const LANES: usize = 16;

/// Row of a panel, which is the copy of a few columns. A row occupies one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([f32; LANES]);

dispatch! {
    /// Adds u^T d of each atom to `sums`, atom by atom. u has the shape `[n, k]`, d has the shape
    /// `[n, m]`, and `sums` has k rows of `stride` values. `atoms` lists the number of rows of each
    /// atom. Each value is the earlier sum plus one chain of multiply-adds per atom.
    pub(super) fn transposed(u: View<'_>, d: View<'_>, atoms: &[usize], sums: &mut [f32], stride: usize) = body
}

#[inline(always)]
fn body<const FMA: bool>(u: View<'_>, d: View<'_>, atoms: &[usize], sums: &mut [f32], stride: usize) {
    let (k, m) = (u.columns(), d.columns());
    let mut panel = vec![Line([0.0; LANES]); d.rows()];
    for column in (0..m).step_by(LANES) {
        let columns = column..(column + LANES).min(m);
        for (i, row) in panel.iter_mut().enumerate() {
            row.0[..columns.len()].copy_from_slice(&d.row(i)[columns.clone()]);
        }
        let mut first = 0;
        while first < k {
            let sums = &mut sums[first * stride + column..];
            first += match k - first {
                3.. => tile::<3, FMA>(u, first, &panel, atoms, (sums, stride, columns.len())),
                _ => tile::<1, FMA>(u, first, &panel, atoms, (sums, stride, columns.len())),
            };
        }
    }
}

/// Multiplies R columns of u by the panel, and adds the products to the sums. Returns R.
#[inline(always)]
fn tile<const R: usize, const FMA: bool>(
    u: View<'_>,
    first: usize,
    panel: &[Line],
    atoms: &[usize],
    (into, stride, columns): (&mut [f32], usize, usize),
) -> usize {
    let mut sums = [[0.0; LANES]; R];
    for (r, sum) in sums.iter_mut().enumerate() {
        sum[..columns].copy_from_slice(&into[r * stride..r * stride + columns]);
    }
    let mut row = 0;
    for &count in atoms {
        let mut chains = [[0.0_f32; LANES]; R];
        for (i, values) in (row..).zip(&panel[row..row + count]) {
            // The compiler knows the length, and so it can hold the chains in registers.
            let Some(factors) = u.row(i)[first..].first_chunk::<R>() else { continue };
            for (chain, &factor) in chains.iter_mut().zip(factors) {
                for (sum, &value) in chain.iter_mut().zip(&values.0) {
                    *sum = madd::<FMA>(factor, value, *sum);
                }
            }
        }
        for (sums, chain) in sums.iter_mut().zip(&chains) {
            sums.iter_mut().zip(chain).for_each(|(sum, &value)| *sum += value);
        }
        row += count;
    }
    for (r, sum) in sums.iter().enumerate() {
        into[r * stride..r * stride + columns].copy_from_slice(&sum[..columns]);
    }
    R
}
