//! Operations of layers over sequences and images: the interface `dense` of the contract, since
//! version 0.1.2. `wit/kernel/kernel.wit` documents formulas, shapes and errors.
//!
//! Matrices stay two-dimensional. A row is a token, and consecutive rows are a sequence. Or a row
//! is an image with height x width x channels values. [`Matrix::split_rows`],
//! [`Matrix::group_rows`] and the same functions of [`Out`] convert rows to the form that an
//! operation needs, and back. A component that calls no function of this module does not import the
//! interface.

use crate::handles::{Ids, Matrix, Out, call};
use crate::op::Op;
use crate::types::{Reduction, Result, Smooth, Windows};

/// Writes x with its dimensions in another order to `into`. Dimension i of the result is dimension
/// order[i] of x. Dimension 0, the rows, must stay first.
#[inline(always)]
pub fn permute(x: &Matrix, order: &[u32], into: &Out) -> Result<()> {
    call(Op::Permute { x, order, into })
}

/// Writes the rows of `parts` to `into`, concatenated column-wise.
#[inline(always)]
pub fn concat(parts: &[&Matrix], into: &Out) -> Result<()> {
    call(Op::Concat { parts, into })
}

/// Writes x to the columns of `into` from `at` on, and zeros to the other columns.
#[inline(always)]
pub fn place_columns(x: &Matrix, at: u32, into: &Out) -> Result<()> {
    call(Op::PlaceColumns { x, at, into })
}

/// Computes into = softmax(scale x) over the last extent. With `causal`, run i reads only its first
/// i + 1 values.
#[inline(always)]
pub fn softmax_masked(x: &Matrix, causal: bool, scale: f32, into: &Out) -> Result<()> {
    call(Op::SoftmaxMasked { x, causal, scale, into })
}

/// Computes into = the gradient of x of [`softmax_masked`], from its result y and the gradient of
/// y.
#[inline(always)]
pub fn softmax_backward(y: &Matrix, grad: &Matrix, scale: f32, into: &Out) -> Result<()> {
    call(Op::SoftmaxBackward { y, grad, scale, into })
}

/// Computes into[v] = the sum of the rows i of x with rows[i] = v. This is a reduction over rows,
/// for the gradient of a parameter.
#[inline(always)]
pub fn scatter_sum(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::ScatterSum { x, rows, into })
}

/// Computes into = the windows of the images x [n, height, width, channels]. The shape of the
/// result is [n windows, values] or [n, windows values].
#[inline(always)]
pub fn patches(x: &Matrix, by: Windows, into: &Out) -> Result<()> {
    call(Op::Patches { x, by, into })
}

/// Computes the transpose of [`patches`]: each pixel of into [n, height, width, channels] is the
/// sum over the windows that contain it.
#[inline(always)]
pub fn patches_sum(x: &Matrix, by: Windows, into: &Out) -> Result<()> {
    call(Op::PatchesSum { x, by, into })
}

/// Computes into [n, windows channels] = the windows of the images x, reduced per channel with
/// [`Reduction::Max`] or [`Reduction::Mean`].
#[inline(always)]
pub fn pool(x: &Matrix, by: Windows, with: Reduction, into: &Out) -> Result<()> {
    call(Op::Pool { x, by, with, into })
}

/// Computes into = the gradient of x of [`pool`].
#[inline(always)]
pub fn pool_backward(x: &Matrix, by: Windows, with: Reduction, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::PoolBackward { x, by, with, grad, into })
}

/// Computes into = f(x), elementwise.
#[inline(always)]
pub fn smoothed(x: &Matrix, by: Smooth, into: &Out) -> Result<()> {
    call(Op::Smoothed { x, by, into })
}

/// Computes into = grad f'(x), elementwise.
#[inline(always)]
pub fn smoothed_backward(x: &Matrix, by: Smooth, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::SmoothedBackward { x, by, grad, into })
}
