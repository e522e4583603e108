//! The operations of the contract as data, over handles: what [`crate::linalg`] and [`crate::dense`] hand to the host.

use crate::handles::{Ids, Matrix, Out};
use crate::types::{Activation, Attention, Dropout, Function, Reduction, RowScale, Smooth, Windows};

/// A prologue over handles.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// [k]
    pub bias: Option<&'a Matrix>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Applied last.
    pub dropout: Option<Dropout>,
}

impl Before<'_> {
    /// Whether rows stay as they are.
    pub(crate) fn is_identity(&self) -> bool {
        let drops = self.dropout.is_some_and(|dropout| dropout.probability != 0.0);
        self.bias.is_none() && self.activation == Activation::Identity && !drops
    }
}

/// An epilogue over handles.
#[derive(Debug, Clone, Copy)]
pub struct After<'a> {
    /// [m]
    pub bias: Option<&'a Matrix>,
    /// Applied after the bias.
    pub activation: Activation,
}

type M<'a> = &'a Matrix;
type O<'a> = &'a Out;
type I<'a> = &'a Ids;

/// One call of interface `linalg` or `dense`; fields as there.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "wit/kernel/kernel.wit documents each")]
pub enum Op<'a> {
    Matmul {
        batched: bool,
        a: M<'a>,
        transpose_a: bool,
        b: M<'a>,
        transpose_b: bool,
        accumulate: bool,
        into: O<'a>,
    },
    Linear {
        x: M<'a>,
        before: Before<'a>,
        w: M<'a>,
        after: After<'a>,
        into: O<'a>,
    },
    LinearBackward {
        x: M<'a>,
        before: Before<'a>,
        w: M<'a>,
        after: After<'a>,
        y: Option<M<'a>>,
        grad: M<'a>,
        grad_x: Option<O<'a>>,
        grad_before_bias: Option<O<'a>>,
        grad_w: Option<O<'a>>,
        grad_after_bias: Option<O<'a>>,
    },
    Apply {
        x: M<'a>,
        by: Before<'a>,
        into: O<'a>,
    },
    ApplyBackward {
        x: M<'a>,
        by: Before<'a>,
        grad: M<'a>,
        into: O<'a>,
    },
    Axpby {
        alpha: f32,
        x: M<'a>,
        beta: f32,
        y: M<'a>,
        into: O<'a>,
    },
    Multiply {
        x: M<'a>,
        y: M<'a>,
        into: O<'a>,
    },
    Elementwise {
        x: M<'a>,
        by: Function,
        into: O<'a>,
    },
    ElementwiseBackward {
        x: M<'a>,
        by: Function,
        grad: M<'a>,
        into: O<'a>,
    },
    SoftmaxCrossEntropy {
        x: M<'a>,
        labels: I<'a>,
        rows: I<'a>,
        weight: f32,
        losses: O<'a>,
        grad: O<'a>,
    },
    Softmax {
        x: M<'a>,
        into: O<'a>,
    },
    GatherRows {
        x: M<'a>,
        rows: I<'a>,
        into: O<'a>,
    },
    ScatterAddRows {
        x: M<'a>,
        rows: I<'a>,
        into: O<'a>,
    },
    SumRows {
        x: M<'a>,
        into: O<'a>,
    },
    ReduceColumns {
        x: M<'a>,
        by: Reduction,
        into: O<'a>,
    },
    ReduceSegments {
        x: M<'a>,
        offsets: I<'a>,
        by: Reduction,
        into: O<'a>,
    },
    Inner {
        x: M<'a>,
        y: M<'a>,
        into: O<'a>,
    },
    Scale {
        x: M<'a>,
        by: M<'a>,
        into: O<'a>,
    },
    SoftmaxSegments {
        x: M<'a>,
        offsets: I<'a>,
        state: O<'a>,
    },
    SoftmaxValues {
        x: M<'a>,
        state: M<'a>,
        into: O<'a>,
    },
    Permute {
        x: M<'a>,
        order: &'a [u32],
        into: O<'a>,
    },
    Concat {
        parts: &'a [M<'a>],
        into: O<'a>,
    },
    PlaceColumns {
        x: M<'a>,
        at: u32,
        into: O<'a>,
    },
    SoftmaxMasked {
        x: M<'a>,
        causal: bool,
        scale: f32,
        into: O<'a>,
    },
    SoftmaxBackward {
        y: M<'a>,
        grad: M<'a>,
        scale: f32,
        into: O<'a>,
    },
    Normalise {
        x: M<'a>,
        by: RowScale,
        scale: Option<M<'a>>,
        shift: Option<M<'a>>,
        into: O<'a>,
    },
    NormaliseBackward {
        x: M<'a>,
        by: RowScale,
        scale: Option<M<'a>>,
        grad: M<'a>,
        into: O<'a>,
    },
    Attend {
        x: M<'a>,
        by: Attention,
        into: O<'a>,
    },
    AttendBackward {
        x: M<'a>,
        by: Attention,
        grad: M<'a>,
        into: O<'a>,
    },
    ScatterSum {
        x: M<'a>,
        rows: I<'a>,
        into: O<'a>,
    },
    Patches {
        x: M<'a>,
        by: Windows,
        into: O<'a>,
    },
    PatchesSum {
        x: M<'a>,
        by: Windows,
        into: O<'a>,
    },
    Pool {
        x: M<'a>,
        by: Windows,
        with: Reduction,
        into: O<'a>,
    },
    PoolBackward {
        x: M<'a>,
        by: Windows,
        with: Reduction,
        grad: M<'a>,
        into: O<'a>,
    },
    Smoothed {
        x: M<'a>,
        by: Smooth,
        into: O<'a>,
    },
    SmoothedBackward {
        x: M<'a>,
        by: Smooth,
        grad: M<'a>,
        into: O<'a>,
    },
}

impl<'a> Op<'a> {
    /// What is read.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &'a Matrix> + use<'a> {
        let all = match *self {
            Op::Matmul { a: x, b: y, .. }
            | Op::Axpby { x, y, .. }
            | Op::Multiply { x, y, .. }
            | Op::Inner { x, y, .. }
            | Op::Scale { x, by: y, .. }
            | Op::SoftmaxValues { x, state: y, .. } => [Some(x), Some(y), None, None, None, None],
            Op::Linear { x, before, w, after, .. } => [Some(x), before.bias, Some(w), after.bias, None, None],
            Op::LinearBackward { x, before, w, after, y, grad, .. } => {
                [Some(x), before.bias, Some(w), after.bias, y, Some(grad)]
            }
            Op::Apply { x, by, .. } => [Some(x), by.bias, None, None, None, None],
            Op::ApplyBackward { x, by, grad, .. } => [Some(x), by.bias, Some(grad), None, None, None],
            Op::Normalise { x, scale, shift, .. } => [Some(x), scale, shift, None, None, None],
            Op::NormaliseBackward { x, scale, grad, .. } => [Some(x), scale, Some(grad), None, None, None],
            Op::ElementwiseBackward { x, grad, .. }
            | Op::AttendBackward { x, grad, .. }
            | Op::SoftmaxBackward { y: x, grad, .. }
            | Op::PoolBackward { x, grad, .. }
            | Op::SmoothedBackward { x, grad, .. } => [Some(x), Some(grad), None, None, None, None],
            Op::Concat { .. } => [None; 6],
            Op::Permute { x, .. }
            | Op::PlaceColumns { x, .. }
            | Op::Attend { x, .. }
            | Op::SoftmaxMasked { x, .. }
            | Op::ScatterSum { x, .. }
            | Op::Patches { x, .. }
            | Op::PatchesSum { x, .. }
            | Op::Pool { x, .. }
            | Op::Smoothed { x, .. }
            | Op::Elementwise { x, .. }
            | Op::SoftmaxCrossEntropy { x, .. }
            | Op::Softmax { x, .. }
            | Op::GatherRows { x, .. }
            | Op::ScatterAddRows { x, .. }
            | Op::SumRows { x, .. }
            | Op::ReduceColumns { x, .. }
            | Op::ReduceSegments { x, .. }
            | Op::SoftmaxSegments { x, .. } => [Some(x), None, None, None, None, None],
        };
        let parts: &'a [&'a Matrix] = if let Op::Concat { parts, .. } = *self { parts } else { &[] };
        all.into_iter().flatten().chain(parts.iter().copied())
    }

    /// What is written.
    pub(crate) fn places(&self) -> impl Iterator<Item = &'a Out> + use<'a> {
        let all = match *self {
            Op::LinearBackward { grad_x, grad_before_bias, grad_w, grad_after_bias, .. } => {
                [grad_x, grad_before_bias, grad_w, grad_after_bias]
            }
            Op::SoftmaxCrossEntropy { losses, grad, .. } => [Some(losses), Some(grad), None, None],
            Op::Matmul { into, .. }
            | Op::Linear { into, .. }
            | Op::Apply { into, .. }
            | Op::ApplyBackward { into, .. }
            | Op::Axpby { into, .. }
            | Op::Multiply { into, .. }
            | Op::Elementwise { into, .. }
            | Op::ElementwiseBackward { into, .. }
            | Op::Softmax { into, .. }
            | Op::GatherRows { into, .. }
            | Op::ScatterAddRows { into, .. }
            | Op::SumRows { into, .. }
            | Op::ReduceColumns { into, .. }
            | Op::ReduceSegments { into, .. }
            | Op::Inner { into, .. }
            | Op::Scale { into, .. }
            | Op::SoftmaxSegments { state: into, .. }
            | Op::SoftmaxValues { into, .. }
            | Op::Permute { into, .. }
            | Op::Concat { into, .. }
            | Op::PlaceColumns { into, .. }
            | Op::SoftmaxMasked { into, .. }
            | Op::SoftmaxBackward { into, .. }
            | Op::Normalise { into, .. }
            | Op::NormaliseBackward { into, .. }
            | Op::Attend { into, .. }
            | Op::AttendBackward { into, .. }
            | Op::ScatterSum { into, .. }
            | Op::Patches { into, .. }
            | Op::PatchesSum { into, .. }
            | Op::Pool { into, .. }
            | Op::PoolBackward { into, .. }
            | Op::Smoothed { into, .. }
            | Op::SmoothedBackward { into, .. } => [Some(into), None, None, None],
        };
        all.into_iter().flatten()
    }
}
