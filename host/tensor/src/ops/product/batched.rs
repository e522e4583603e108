//! Batches of small matrix products. Each row of the operands holds one or more matrices.

use super::{Laid, Scratch, lanes, transposed_product};
use crate::view::{View, ViewMut};

/// Minimum number of multiply-adds of a product that uses the routines for large products.
const LARGE: usize = 2048;

/// One factor of a batch of products, with the extents of its matrices.
#[derive(Debug, Clone, Copy)]
pub struct Factor<'a> {
    /// Rows of matrices. Each row holds one or more matrices, one after the other.
    pub rows: View<'a>,
    /// Numbers of rows and columns of a matrix in memory, before it is transposed.
    pub extents: (usize, usize),
    /// True if each matrix is transposed before the product.
    pub transposed: bool,
}

impl<'a> Factor<'a> {
    /// Returns the numbers of rows and columns after the transposition.
    pub fn turned(&self) -> (usize, usize) {
        let (rows, columns) = self.extents;
        if self.transposed { (columns, rows) } else { (rows, columns) }
    }

    fn matrix(&self, row: usize, at: usize) -> View<'a> {
        let (rows, columns) = self.extents;
        View::new(&self.rows.row(row)[at * rows * columns..], rows, columns)
    }
}

/// Computes the products of the matrices of a and b. Each row has `each` matrices. If `accumulate`
/// is true, the products are added to `out`. The routine is selected by the extents alone.
pub fn batched(
    a: Factor<'_>,
    b: Factor<'_>,
    each: usize,
    accumulate: bool,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    let ((p, q), (_, r)) = (a.turned(), b.turned());
    let large = p.saturating_mul(q).saturating_mul(r) >= LARGE;
    for row in 0..out.rows() {
        for at in 0..each {
            let (a_at, b_at) = (a.matrix(row, at), b.matrix(row, at));
            let to = &mut out.row_mut(row)[at * p * r..][..p * r];
            match (large, a.transposed, b.transposed) {
                (false, ..) => small((a_at, a.transposed), (b_at, b.transposed), accumulate, to, (p, q, r)),
                (true, true, false) => sum(a_at, b_at, accumulate, to, (p, r), scratch),
                (true, true, true) => {
                    // Computes (b a)^T, because no routine accepts both factors transposed.
                    let mut turned = std::mem::take(&mut scratch.rows);
                    turned.resize(turned.len().max(p * r), 0.0);
                    let mut product = ViewMut::new(&mut turned[..p * r], r, p);
                    Laid::new(a_at, false, r, &mut scratch.packed).multiply(b_at, false, &mut product);
                    for (i, to) in to.chunks_exact_mut(r.max(1)).enumerate() {
                        for (j, to) in to.iter_mut().enumerate() {
                            let value = turned[j * p + i];
                            *to = if accumulate { *to + value } else { value };
                        }
                    }
                    scratch.rows = turned;
                }
                (true, false, turned) => {
                    let mut to = ViewMut::new(to, p, r);
                    Laid::new(b_at, turned, p, &mut scratch.packed).multiply(a_at, accumulate, &mut to);
                }
            }
        }
    }
}

/// Computes `to` = a^T b as a sum over rows. If `accumulate` is true, the product is added to `to`.
fn sum(
    a: View<'_>,
    b: View<'_>,
    accumulate: bool,
    to: &mut [f32],
    (p, r): (usize, usize),
    scratch: &mut Scratch,
) {
    let stride = lanes(r);
    if stride == r {
        if !accumulate {
            to.fill(0.0);
        }
        transposed_product(a, b, to);
        return;
    }
    let sums = &mut scratch.batched;
    sums.clear();
    sums.resize(p * stride, 0.0);
    transposed_product(a, b, sums);
    for (to, from) in to.chunks_exact_mut(r.max(1)).zip(sums.chunks_exact(stride)) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = if accumulate { *to + from } else { from };
        }
    }
}

/// Computes the product of two small matrices by its definition, one value at a time.
fn small(
    (a, ta): (View<'_>, bool),
    (b, tb): (View<'_>, bool),
    accumulate: bool,
    to: &mut [f32],
    (p, q, r): (usize, usize, usize),
) {
    let (a_columns, b_columns) = (a.columns(), b.columns());
    let (a, b) = (a.data(), b.data());
    for x in 0..p {
        for z in 0..r {
            let at = |y: usize| if ta { a[y * a_columns + x] } else { a[x * a_columns + y] };
            let bt = |y: usize| if tb { b[z * b_columns + y] } else { b[y * b_columns + z] };
            let sum = (0..q).fold(0.0f32, |s, y| s + at(y) * bt(y));
            let to = &mut to[x * r + z];
            *to = if accumulate { *to + sum } else { sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 40) as f32 / (1 << 24) as f32 - 0.5).collect()
    }

    #[test]
    fn every_way_to_transpose_is_the_definition() {
        let mut scratch = Scratch::default();
        for (p, q, r) in [(3, 2, 5), (32, 64, 32), (17, 33, 9), (64, 32, 20), (1, 4096, 1), (40, 8, 130)] {
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                for accumulate in [false, true] {
                    let (each, rows) = (3, 2);
                    let x = values(1, rows * each * p * q);
                    let y = values(2, rows * each * q * r);
                    let before = values(3, rows * each * p * r);
                    let mut found = before.clone();
                    let a = Factor {
                        rows: View::new(&x, rows, each * p * q),
                        extents: if ta { (q, p) } else { (p, q) },
                        transposed: ta,
                    };
                    let b = Factor {
                        rows: View::new(&y, rows, each * q * r),
                        extents: if tb { (r, q) } else { (q, r) },
                        transposed: tb,
                    };
                    let mut out = ViewMut::new(&mut found, rows, each * p * r);
                    batched(a, b, each, accumulate, &mut out, &mut scratch);
                    for (at, &found) in found.iter().enumerate() {
                        let (matrix, i, j) = (at / (p * r), at / r % p, at % r);
                        let (x, y) = (&x[matrix * p * q..], &y[matrix * q * r..]);
                        let term = |k: usize| {
                            let x = if ta { x[k * p + i] } else { x[i * q + k] };
                            let y = if tb { y[j * q + k] } else { y[k * r + j] };
                            f64::from(x) * f64::from(y)
                        };
                        let start = if accumulate { f64::from(before[at]) } else { 0.0 };
                        let wanted = start + (0..q).map(term).sum::<f64>();
                        let close = (f64::from(found) - wanted).abs() < 1e-6 * (q as f64 + 1.0);
                        assert!(close, "{p} {q} {r}, {ta} {tb} {accumulate}: {found}, not {wanted}");
                    }
                }
            }
        }
    }
}
