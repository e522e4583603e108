//! The host's linear algebra, inlined so that a kernel holds the calls that it makes and no others. Formulas, shapes and errors stand in `wit/kernel/kernel.wit`.

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

/// into = op(a) op(b).
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

/// into[i] = op(a[i]) op(b[i]) for each row i.
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

/// into = activation(u w + bias), u = dropout(activation(x + bias)).
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

/// Which gradients of [`linear`] are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinearGradients<'a> {
    /// [n, k]
    pub x: Option<&'a Out>,
    /// [k]
    pub before_bias: Option<&'a Out>,
    /// [k, m]
    pub w: Option<&'a Out>,
    /// [m]
    pub after_bias: Option<&'a Out>,
}

/// The gradients of [`linear`], given that of its result (and the result, where the epilogue has an
/// activation).
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

/// into = dropout(activation(x + bias)).
#[inline(always)]
pub fn apply(x: &Matrix, by: &Prologue<'_>, into: &Out) -> Result<()> {
    call(Op::Apply { x, by: before(by), into })
}

/// into = grad times the derivative of [`apply`] at x.
#[inline(always)]
pub fn apply_backward(x: &Matrix, by: &Prologue<'_>, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::ApplyBackward { x, by: before(by), grad, into })
}

/// into = alpha x + beta y.
#[inline(always)]
pub fn axpby(alpha: f32, x: &Matrix, beta: f32, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Axpby { alpha, x, beta, y, into })
}

/// into = x * y, elementwise.
#[inline(always)]
pub fn multiply(x: &Matrix, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Multiply { x, y, into })
}

/// into = f(x), elementwise.
#[inline(always)]
pub fn elementwise(x: &Matrix, by: Function, into: &Out) -> Result<()> {
    call(Op::Elementwise { x, by, into })
}

/// into = grad times the derivative of f at x, elementwise.
#[inline(always)]
pub fn elementwise_backward(x: &Matrix, by: Function, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::ElementwiseBackward { x, by, grad, into })
}

/// Softmax of each row and its masked cross-entropy.
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

/// into = softmax of each row.
#[inline(always)]
pub fn softmax(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::Softmax { x, into })
}

/// into[i] = x[rows[i]].
#[inline(always)]
pub fn gather_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::GatherRows { x, rows, into })
}

/// into[rows[i]] += x[i]; other rows become zero.
#[inline(always)]
pub fn scatter_add_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::ScatterAddRows { x, rows, into })
}

/// into = the sum of all rows.
#[inline(always)]
pub fn sum_rows(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::SumRows { x, into })
}

/// into [n, 1] = the reduction of each row over its columns.
#[inline(always)]
pub fn reduce_columns(x: &Matrix, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceColumns { x, by, into })
}

/// into[s] = the reduction of rows offsets[s] .. offsets[s + 1].
#[inline(always)]
pub fn reduce_segments(x: &Matrix, offsets: &Ids, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceSegments { x, offsets, by, into })
}

/// into [n, p] = the inner products of the runs of x [n, p, q] and y, which may be one row for all.
#[inline(always)]
pub fn inner(x: &Matrix, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Inner { x, y, into })
}

/// into [n, p, q] = x, which may be one row for all, with its runs multiplied by the values of `by` [n, p].
#[inline(always)]
pub fn scale(x: &Matrix, by: &Matrix, into: &Out) -> Result<()> {
    call(Op::Scale { x, by, into })
}

/// state [s, 2 p] = [largest | 1 / (sum of exp(x - largest))] of each column of x [n, p] over each segment.
#[inline(always)]
pub fn softmax_segments(x: &Matrix, offsets: &Ids, state: &Out) -> Result<()> {
    call(Op::SoftmaxSegments { x, offsets, state })
}

/// into [n, p] = exp(x - largest) * inverse, with a row [largest | inverse] of state [n, 2 p] for each row of x.
#[inline(always)]
pub fn softmax_values(x: &Matrix, state: &Matrix, into: &Out) -> Result<()> {
    call(Op::SoftmaxValues { x, state, into })
}
