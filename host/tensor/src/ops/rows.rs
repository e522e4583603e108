//! Operations on whole rows, such as sums over rows, gathers, reductions and elementwise
//! combinations.
#![allow(unsafe_code)]

mod runs;
mod segments;

pub use runs::{inner, scale};
pub use segments::{reduce_segments, softmax_segments, softmax_values};

use super::product::{Tree, column_sums};
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Computes the sum of all rows of x, with one partial sum for each part of the grid. Each partial
/// sum has the shape `[1, m]` or `[m]`.
pub fn sum_rows(x: View<'_>, grid: &Grid, parts: &mut [ViewMut<'_>]) {
    let mut tree = Tree::new(x.columns());
    for (part, out) in grid.parts().iter().zip(parts) {
        for atom in &part.atoms {
            column_sums(x.slice(atom.rows.start as usize, atom.rows.len()), tree.leaf());
            tree.close(atom.closes);
        }
        tree.finish(x.columns(), out);
    }
}

/// Method by which several values are reduced to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The sum of the values, which are added in order.
    Sum,
    /// The sum of the values, divided by their number.
    Mean,
    /// The maximum. If a value is NaN, the first NaN is the result.
    Max,
}

fn reduce_into(rows: impl ExactSizeIterator<Item = f32>, by: Reduction) -> f32 {
    let count = rows.len();
    if count == 0 {
        return 0.0;
    }
    match by {
        Reduction::Sum => rows.fold(0.0, |a, v| a + v),
        Reduction::Mean => rows.fold(0.0, |a, v| a + v) / count as f32,
        Reduction::Max => rows.fold(f32::NEG_INFINITY, |a, v| if v > a || v.is_nan() { v } else { a }),
    }
}

/// Computes out of shape `[n, 1]` = the sum, mean or maximum of each row of x.
pub fn reduce_columns(x: View<'_>, by: Reduction, out: &mut ViewMut<'_>) {
    for i in 0..x.rows() {
        out.row_mut(i)[0] = reduce_into(x.row(i).iter().copied(), by);
    }
}

fn check_ids(operation: &'static str, ids: &[u32], below: usize) -> Result<()> {
    match ids.iter().position(|&i| i as usize >= below) {
        Some(at) => Err(Error::Argument {
            operation,
            reason: format!("rows[{at}] is {}, but there are {below} rows", ids[at]),
        }),
        None => Ok(()),
    }
}

/// Computes out[i] = x[ids[i]] for each index i.
pub fn gather_rows(x: View<'_>, ids: &[u32], out: &mut ViewMut<'_>) -> Result<()> {
    check_ids("gather-rows", ids, x.rows())?;
    copy_rows(x, ids, out);
    Ok(())
}

dispatch! {
    fn copy_rows(x: View<'_>, ids: &[u32], out: &mut ViewMut<'_>) = copy_rows_body
}

/// Copies the rows `ids` of x. Rows of common widths are copied in registers, because a function
/// call per short row would take as long as the copy.
#[inline(always)]
fn copy_rows_body<const _FMA: bool>(x: View<'_>, ids: &[u32], out: &mut ViewMut<'_>) {
    match x.columns() {
        8 => copy_wide::<8>(x, ids, out),
        16 => copy_wide::<16>(x, ids, out),
        32 => copy_wide::<32>(x, ids, out),
        64 => copy_wide::<64>(x, ids, out),
        _ => {
            for (i, &id) in ids.iter().enumerate() {
                out.row_mut(i).copy_from_slice(x.row(id as usize));
            }
        }
    }
}

#[inline(always)]
fn copy_wide<const W: usize>(x: View<'_>, ids: &[u32], out: &mut ViewMut<'_>) {
    for (i, &id) in ids.iter().enumerate() {
        if let (Some(to), Some(from)) =
            (out.row_mut(i).first_chunk_mut::<W>(), x.row(id as usize).first_chunk::<W>())
        {
            *to = *from;
        }
    }
}

/// Computes out[ids[i]] += x[i], in the order of i. All rows of out start at zero.
pub fn scatter_add_rows(x: View<'_>, ids: &[u32], out: &mut ViewMut<'_>) -> Result<()> {
    check_ids("scatter-add-rows", ids, out.rows())?;
    for i in 0..out.rows() {
        out.row_mut(i).fill(0.0);
    }
    for (i, &id) in ids.iter().enumerate() {
        for (t, &v) in out.row_mut(id as usize).iter_mut().zip(x.row(i)) {
            *t += v;
        }
    }
    Ok(())
}

/// Computes out = f(x, y), elementwise, for rows of the same shape.
#[inline(always)]
pub fn zip(x: View<'_>, y: View<'_>, out: &mut ViewMut<'_>, f: impl Fn(f32, f32) -> f32) {
    for i in 0..x.rows() {
        for ((o, &x), &y) in out.row_mut(i).iter_mut().zip(x.row(i)).zip(y.row(i)) {
            *o = f(x, y);
        }
    }
}

dispatch! {
    /// Computes out = alpha x + beta y, elementwise.
    pub fn axpby(alpha: f32, x: View<'_>, beta: f32, y: View<'_>, out: &mut ViewMut<'_>) = axpby_body
}

#[inline(always)]
fn axpby_body<const _FMA: bool>(alpha: f32, x: View<'_>, beta: f32, y: View<'_>, out: &mut ViewMut<'_>) {
    // Not fused, so that the bits are the same at every vector level.
    zip(x, y, out, |x, y| alpha * x + beta * y);
}

dispatch! {
    /// Computes out = x y, elementwise.
    pub fn multiply(x: View<'_>, y: View<'_>, out: &mut ViewMut<'_>) = multiply_body
}

#[inline(always)]
fn multiply_body<const _FMA: bool>(x: View<'_>, y: View<'_>, out: &mut ViewMut<'_>) {
    zip(x, y, out, |x, y| x * y);
}
