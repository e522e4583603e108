//! The linear algebra of the contract as data, over handles: what [`crate::linalg`] hands to the host.

use crate::handles::{Ids, Matrix, Out};
use crate::types::{Activation, Dropout, Reduction};

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

/// One call of interface `linalg`; fields as there.
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
}
