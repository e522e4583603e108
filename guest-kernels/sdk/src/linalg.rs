//! Linear algebra of the host. The functions are inlined, so that a component imports only the
//! operations that it calls. `wit/kernel/kernel.wit` documents formulas, shapes and errors.

use crate::handles::{Ids, Matrix, Out, call};
use crate::op::{After, Before, Op};
use crate::types::{Epilogue, Function, Prologue, Reduction, Result};

#[inline(always)]
fn before<'a>(p: &Prologue<'a>) -> Before<'a> {
    Before { bias: p.bias, activation: p.activation, dropout: p.dropout }
}

#[inline(always)]
fn after<'a>(e: &Epilogue<'a>) -> After<'a> {
    After { bias: e.bias, activation: e.activation }
}

/// Computes into = op(a) op(b), where op is the identity or the transpose.
#[inline(always)]
pub fn matmul(
    a: &Matrix,
    transpose_a: bool,
    b: &Matrix,
    transpose_b: bool,
    accumulate: bool,
    into: &Out,
) -> Result<()> {
    call(Op::Matmul { batched: false, a, transpose_a, b, transpose_b, accumulate, into })
}

/// Computes into[i] = op(a[i]) op(b[i]) for each row i.
#[inline(always)]
pub fn batched_matmul(
    a: &Matrix,
    transpose_a: bool,
    b: &Matrix,
    transpose_b: bool,
    accumulate: bool,
    into: &Out,
) -> Result<()> {
    call(Op::Matmul { batched: true, a, transpose_a, b, transpose_b, accumulate, into })
}

/// Computes into = activation(u w + bias), where u = dropout(activation(x + bias)).
#[inline(always)]
pub fn linear(
    x: &Matrix,
    prologue: &Prologue<'_>,
    w: &Matrix,
    epilogue: &Epilogue<'_>,
    into: &Out,
) -> Result<()> {
    call(Op::Linear { x, before: before(prologue), w, after: after(epilogue), into })
}

/// Destinations of the gradients of [`linear`]. `None` if a gradient is not needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinearGradients<'a> {
    /// Gradient of x, of shape [n, k]
    pub x: Option<&'a Out>,
    /// Gradient of the prologue's bias, of shape [k]
    pub before_bias: Option<&'a Out>,
    /// Gradient of the weight, of shape [k, m]
    pub w: Option<&'a Out>,
    /// Gradient of the epilogue's bias, of shape [m]
    pub after_bias: Option<&'a Out>,
}

/// Computes the gradients of [`linear`] from the gradient of its result. If the epilogue has an
/// activation, the result itself is needed as well.
#[inline(always)]
pub fn linear_backward(
    x: &Matrix,
    prologue: &Prologue<'_>,
    w: &Matrix,
    epilogue: &Epilogue<'_>,
    y: Option<&Matrix>,
    grad: &Matrix,
    wanted: LinearGradients<'_>,
) -> Result<()> {
    call(Op::LinearBackward {
        x,
        before: before(prologue),
        w,
        after: after(epilogue),
        y,
        grad,
        grad_x: wanted.x,
        grad_before_bias: wanted.before_bias,
        grad_w: wanted.w,
        grad_after_bias: wanted.after_bias,
    })
}

/// Computes into = dropout(activation(x + bias)).
#[inline(always)]
pub fn apply(x: &Matrix, by: &Prologue<'_>, into: &Out) -> Result<()> {
    call(Op::Apply { x, by: before(by), into })
}

/// Computes into = grad times the derivative of [`apply`] at x.
#[inline(always)]
pub fn apply_backward(x: &Matrix, by: &Prologue<'_>, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::ApplyBackward { x, by: before(by), grad, into })
}

/// Computes into = alpha x + beta y.
#[inline(always)]
pub fn axpby(alpha: f32, x: &Matrix, beta: f32, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Axpby { alpha, x, beta, y, into })
}

/// Computes into = x * y, elementwise.
#[inline(always)]
pub fn multiply(x: &Matrix, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Multiply { x, y, into })
}

/// Computes into = f(x), elementwise.
#[inline(always)]
pub fn elementwise(x: &Matrix, by: Function, into: &Out) -> Result<()> {
    call(Op::Elementwise { x, by, into })
}

/// Computes into = grad times the derivative of f at x, elementwise.
#[inline(always)]
pub fn elementwise_backward(x: &Matrix, by: Function, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::ElementwiseBackward { x, by, grad, into })
}

/// Computes the softmax of each row and its cross-entropy with a mask.
#[inline(always)]
pub fn softmax_cross_entropy(
    x: &Matrix,
    labels: &Ids,
    rows: &Ids,
    weight: f32,
    losses: &Out,
    grad: &Out,
) -> Result<()> {
    call(Op::SoftmaxCrossEntropy { x, labels, rows, weight, losses, grad })
}

/// Computes into = softmax of each row.
#[inline(always)]
pub fn softmax(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::Softmax { x, into })
}

/// Computes into[i] = x[rows[i]].
#[inline(always)]
pub fn gather_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::GatherRows { x, rows, into })
}

/// Computes into[rows[i]] += x[i]. Other rows become zero.
#[inline(always)]
pub fn scatter_add_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::ScatterAddRows { x, rows, into })
}

/// Computes into = the sum of all rows.
#[inline(always)]
pub fn sum_rows(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::SumRows { x, into })
}

/// Computes into [n, 1] = the reduction of each row over its columns.
#[inline(always)]
pub fn reduce_columns(x: &Matrix, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceColumns { x, by, into })
}

/// Computes into[s] = the reduction of rows offsets[s] .. offsets[s + 1].
#[inline(always)]
pub fn reduce_segments(x: &Matrix, offsets: &Ids, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceSegments { x, offsets, by, into })
}

/// Computes into [n, p] = the inner products of the runs of x [n, p, q] and y. y may be a single
/// row, which is used for all.
#[inline(always)]
pub fn inner(x: &Matrix, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Inner { x, y, into })
}

/// Computes into [n, p, q] = x with each run multiplied by one value of `by` [n, p]. x may be a
/// single row, which is used for all.
#[inline(always)]
pub fn scale(x: &Matrix, by: &Matrix, into: &Out) -> Result<()> {
    call(Op::Scale { x, by, into })
}

/// Computes state [s, 2 p] = [largest | 1 / (sum of exp(x - largest))] of each column of x [n, p]
/// over each segment.
#[inline(always)]
pub fn softmax_segments(x: &Matrix, offsets: &Ids, state: &Out) -> Result<()> {
    call(Op::SoftmaxSegments { x, offsets, state })
}

/// Computes into [n, p] = exp(x - largest) * inverse. Each row of x has a row [largest | inverse]
/// of state [n, 2 p].
#[inline(always)]
pub fn softmax_values(x: &Matrix, state: &Matrix, into: &Out) -> Result<()> {
    call(Op::SoftmaxValues { x, state, into })
}
