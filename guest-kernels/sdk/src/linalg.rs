//! The host's linear algebra, inlined so that a kernel holds the calls that it makes and no others. Formulas, shapes and errors stand in `wit/kernel/kernel.wit`.

use crate::handles::{Ids, Matrix, Out, call};
use crate::op::{After, Before, Op};
use crate::types::{Epilogue, Prologue, Reduction, Result};

#[inline(always)]
fn before<'a>(p: &Prologue<'a>) -> Before<'a> {
    Before { bias: p.bias.map(|b| &b.0), activation: p.activation, dropout: p.dropout }
}

#[inline(always)]
fn after<'a>(e: &Epilogue<'a>) -> After<'a> {
    After { bias: e.bias.map(|b| &b.0), activation: e.activation }
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
    call(Op::Matmul { batched: false, a: &a.0, transpose_a, b: &b.0, transpose_b, accumulate, into: &into.0 })
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
    call(Op::Matmul { batched: true, a: &a.0, transpose_a, b: &b.0, transpose_b, accumulate, into: &into.0 })
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
    call(Op::Linear { x: &x.0, before: before(prologue), w: &w.0, after: after(epilogue), into: &into.0 })
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
        x: &x.0,
        before: before(prologue),
        w: &w.0,
        after: after(epilogue),
        y: y.map(|y| &y.0),
        grad: &grad.0,
        grad_x: wanted.x.map(|o| &o.0),
        grad_before_bias: wanted.before_bias.map(|o| &o.0),
        grad_w: wanted.w.map(|o| &o.0),
        grad_after_bias: wanted.after_bias.map(|o| &o.0),
    })
}

/// into = dropout(activation(x + bias)).
#[inline(always)]
pub fn apply(x: &Matrix, by: &Prologue<'_>, into: &Out) -> Result<()> {
    call(Op::Apply { x: &x.0, by: before(by), into: &into.0 })
}

/// into = grad times the derivative of [`apply`] at x.
#[inline(always)]
pub fn apply_backward(x: &Matrix, by: &Prologue<'_>, grad: &Matrix, into: &Out) -> Result<()> {
    call(Op::ApplyBackward { x: &x.0, by: before(by), grad: &grad.0, into: &into.0 })
}

/// into = alpha x + beta y.
#[inline(always)]
pub fn axpby(alpha: f32, x: &Matrix, beta: f32, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Axpby { alpha, x: &x.0, beta, y: &y.0, into: &into.0 })
}

/// into = x * y, elementwise.
#[inline(always)]
pub fn multiply(x: &Matrix, y: &Matrix, into: &Out) -> Result<()> {
    call(Op::Multiply { x: &x.0, y: &y.0, into: &into.0 })
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
    call(Op::SoftmaxCrossEntropy {
        x: &x.0,
        labels: &labels.0,
        rows: &rows.0,
        weight,
        losses: &losses.0,
        grad: &grad.0,
    })
}

/// into = softmax of each row.
#[inline(always)]
pub fn softmax(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::Softmax { x: &x.0, into: &into.0 })
}

/// into[i] = x[rows[i]].
#[inline(always)]
pub fn gather_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::GatherRows { x: &x.0, rows: &rows.0, into: &into.0 })
}

/// into[rows[i]] += x[i]; other rows become zero.
#[inline(always)]
pub fn scatter_add_rows(x: &Matrix, rows: &Ids, into: &Out) -> Result<()> {
    call(Op::ScatterAddRows { x: &x.0, rows: &rows.0, into: &into.0 })
}

/// into = the sum of all rows.
#[inline(always)]
pub fn sum_rows(x: &Matrix, into: &Out) -> Result<()> {
    call(Op::SumRows { x: &x.0, into: &into.0 })
}

/// into [n, 1] = the reduction of each row over its columns.
#[inline(always)]
pub fn reduce_columns(x: &Matrix, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceColumns { x: &x.0, by, into: &into.0 })
}

/// into[s] = the reduction of rows offsets[s] .. offsets[s + 1].
#[inline(always)]
pub fn reduce_segments(x: &Matrix, offsets: &Ids, by: Reduction, into: &Out) -> Result<()> {
    call(Op::ReduceSegments { x: &x.0, offsets: &offsets.0, by, into: &into.0 })
}
