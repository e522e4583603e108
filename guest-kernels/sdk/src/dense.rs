//! Operations of layers over sequences and images: interface `dense` of the contract, since 0.1.2. Formulas, shapes
//! and errors stand in `wit/kernel/kernel.wit`.
//!
//! Rows stay flat: a row is a token, and consecutive rows are a sequence; or it is an image of height x width x
//! channels values. [`Matrix::split_rows`], [`Matrix::group_rows`] and the same of [`Out`] bring rows to what an
//! operation works on and back. A component that calls nothing of this does not import the interface.

use crate::handles::{Ids, Matrix, Out, call};
use crate::op::Op;
use crate::types::{Attention, Reduction, Result, RowScale, Smooth, Windows};

/// into = x with its dimensions in another order: dimension i is dimension order[i] of x. Rows, 0, stay first.
#[inline(always)]
pub fn permute(x: &Matrix, order: &[u32], into: &Out) -> Result<()> {
    call(Op::Permute { x, order, into })
}

/// into = the rows of `parts` side by side.
#[inline(always)]
pub fn concat(parts: &[&Matrix], into: &Out) -> Result<()> {
    call(Op::Concat { parts, into })
}

/// into = zeros, but for x in the columns from `at`.
#[inline(always)]
pub fn place_columns(x: &Matrix, at: u32, into: &Out) -> Result<()> {
    call(Op::PlaceColumns { x, at, into })
}

/// into = softmax(scale x) over the last extent; with `causal`, run i sees the first i + 1 values alone.
#[inline(always)]
pub fn softmax_masked(x: &Matrix, causal: bool, scale: f32, into: &Out) -> Result<()> {
    call(Op::SoftmaxMasked { x, causal, scale, into })
}

/// into = the gradient of x of [`softmax_masked`], given its result y and that one's gradient.
#[inline(always)]
pub fn softmax_backward(y: &Matrix, grad: &Matrix, scale: f32, into: &Out) -> Result<()> {
    call(Op::SoftmaxBackward { y, grad, scale, into })
}

/// into = scale h + shift, h each row of x brought to one scale; ones and zeros if not given.
#[inline(always)]
pub fn normalise(
    x: &Matrix,
    by: RowScale,
    scale: Option<&Matrix>,
    shift: Option<&Matrix>,
    into: &Out,
) -> Result<()> {
    call(Op::Normalise { x, by, scale, shift, into })
}

/// into = the gradient of x of [`normalise`], given that of its result.
#[inline(always)]
pub fn normalise_backward(
    x: &Matrix,
    by: RowScale,
    scale: Option<&Matrix>,
    grad: &Matrix,
    into: &Out,
) -> Result<()> {
    call(Op::NormaliseBackward { x, by, scale, grad, into })
}

/// into [n, d] = softmax(scale Q K^T) V of each sequence and head; x [n, 3 d] = [q | k | v].
#[inline(always)]
pub fn attend(x: &Matrix, by: Attention, into: &Out) -> Result<()> {
    call(Op::Attend { x, by, into })
}

/// into [n, 3 d] = the gradient of x of [`attend`], given that of its result.
#[inline(always)]
pub fn attend_backward(x: &Matrix, by: Attention, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::AttendBackward { x, by, grad, into })
}

/// into[v] = the sum of the rows i of x with rows[i] = v: a reduction over rows, for a parameter's gradient.
#[inline(always)]
pub fn scatter_sum(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::ScatterSum { x, rows, into })
}

/// into [n windows, values] or [n, windows values] = the windows of images x [n, height, width, channels].
#[inline(always)]
pub fn patches(x: &Matrix, by: Windows, into: &Out) -> Result<()> {
    call(Op::Patches { x, by, into })
}

/// The transpose of [`patches`]: into [n, height, width, channels] = sums of what windows have of each value.
#[inline(always)]
pub fn patches_sum(x: &Matrix, by: Windows, into: &Out) -> Result<()> {
    call(Op::PatchesSum { x, by, into })
}

/// into [n, windows channels] = the windows of images x reduced by channel: [`Reduction::Max`] or [`Reduction::Mean`].
#[inline(always)]
pub fn pool(x: &Matrix, by: Windows, with: Reduction, into: &Out) -> Result<()> {
    call(Op::Pool { x, by, with, into })
}

/// into = the gradient of x of [`pool`].
#[inline(always)]
pub fn pool_backward(x: &Matrix, by: Windows, with: Reduction, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::PoolBackward { x, by, with, grad, into })
}

/// into = f(x), elementwise.
#[inline(always)]
pub fn smoothed(x: &Matrix, by: Smooth, into: &Out) -> Result<()> {
    call(Op::Smoothed { x, by, into })
}

/// into = grad f'(x), elementwise.
#[inline(always)]
pub fn smoothed_backward(x: &Matrix, by: Smooth, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::SmoothedBackward { x, by, grad, into })
}
