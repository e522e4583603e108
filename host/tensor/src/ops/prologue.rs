//! u = dropout(activation(x + bias)), row by row, and its derivative.
#![allow(unsafe_code)]

use super::activation::Activation;
use crate::random::{self, Dropout};
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// The global ids of an interval's rows: what random numbers are addressed by.
#[derive(Debug, Clone, Copy)]
pub enum RowIds<'a> {
    /// Consecutive from here.
    From(u64),
    /// Listed.
    List(&'a [u64]),
}

impl RowIds<'_> {
    /// The id of local row `row`.
    #[inline(always)]
    pub fn id(&self, row: usize) -> u64 {
        match self {
            Self::From(first) => first + row as u64,
            Self::List(ids) => ids[row],
        }
    }
}

/// What happens to rows on their way into a product.
#[derive(Debug, Clone, Copy)]
pub struct Prologue<'a> {
    /// Added to each row.
    pub bias: Option<&'a [f32]>,
    /// Applied next.
    pub activation: Activation,
    /// Applied last.
    pub dropout: Option<Dropout>,
    /// Addresses of the dropout's rows.
    pub row_ids: RowIds<'a>,
}

impl Prologue<'_> {
    /// Nothing happens.
    pub const NONE: Prologue<'static> =
        Prologue { bias: None, activation: Activation::Identity, dropout: None, row_ids: RowIds::From(0) };

    /// Whether u = x.
    pub fn is_identity(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::Identity && self.dropout.is_none()
    }

    /// u for rows `first..first + out.rows()` of x.
    pub fn forward(&self, x: View<'_>, first: usize, out: &mut ViewMut<'_>) {
        for i in 0..out.rows() {
            let to = out.row_mut(i);
            bias_activation(x.row(first + i), self.bias, self.activation, to);
            if let Some(dropout) = self.dropout {
                drop_row(dropout.key.row(self.row_ids.id(first + i)), dropout.threshold, dropout.scale, to);
            }
        }
    }

    /// Multiplies `grad`, the gradient of u, by du/dx; for rows from `first` of x.
    pub fn backward(&self, x: View<'_>, first: usize, grad: &mut ViewMut<'_>) {
        for i in 0..grad.rows() {
            let to = grad.row_mut(i);
            if self.activation != Activation::Identity {
                times_derivative(x.row(first + i), self.bias, self.activation, to);
            }
            if let Some(dropout) = self.dropout {
                drop_row(dropout.key.row(self.row_ids.id(first + i)), dropout.threshold, dropout.scale, to);
            }
        }
    }
}

dispatch! {
    fn bias_activation(x: &[f32], bias: Option<&[f32]>, activation: Activation, out: &mut [f32]) = bias_activation_body
}

#[inline(always)]
fn bias_activation_body<const FMA: bool>(x: &[f32], bias: Option<&[f32]>, activation: Activation, out: &mut [f32]) {
    match bias {
        Some(bias) => {
            for ((o, &x), &b) in out.iter_mut().zip(x).zip(bias) {
                *o = x + b;
            }
        }
        None => out.copy_from_slice(x),
    }
    // One loop for each function, so that each is vectorised.
    macro_rules! each {
        ($($f:pat => $g:expr),*) => { match activation { $($f => for o in out.iter_mut() { *o = $g.apply(*o) },)* } };
    }
    each!(
        Activation::Identity => Activation::Identity,
        Activation::Relu => Activation::Relu,
        Activation::LeakyRelu(s) => Activation::LeakyRelu(s),
        Activation::Elu(a) => Activation::Elu(a),
        Activation::Sigmoid => Activation::Sigmoid,
        Activation::Tanh => Activation::Tanh
    );
}

dispatch! {
    fn times_derivative(x: &[f32], bias: Option<&[f32]>, activation: Activation, grad: &mut [f32]) = times_derivative_body
}

#[inline(always)]
fn times_derivative_body<const FMA: bool>(x: &[f32], bias: Option<&[f32]>, f: Activation, grad: &mut [f32]) {
    match bias {
        Some(bias) => {
            for ((g, &x), &b) in grad.iter_mut().zip(x).zip(bias) {
                *g *= f.derivative(f.apply(x + b));
            }
        }
        None => {
            for (g, &x) in grad.iter_mut().zip(x) {
                *g *= f.derivative(f.apply(x));
            }
        }
    }
}

dispatch! {
    fn drop_row(row_key: (u32, u32), threshold: u32, scale: f32, row: &mut [f32]) = drop_row_body
}

#[inline(always)]
fn drop_row_body<const FMA: bool>(row_key: (u32, u32), threshold: u32, scale: f32, row: &mut [f32]) {
    for (c, v) in row.iter_mut().enumerate() {
        let dropped = random::bits32(row_key, c as u32) < threshold;
        *v = if dropped { 0.0 } else { *v * scale };
    }
}

dispatch! {
    /// The stored values of one sparse row, dropped out; `columns` address them.
    pub(crate) fn drop_stored(row_key: (u32, u32), threshold: u32, scale: f32, columns: &[u32], values: &[f32], out: &mut [f32]) = drop_stored_body
}

#[inline(always)]
fn drop_stored_body<const FMA: bool>(
    row_key: (u32, u32),
    threshold: u32,
    scale: f32,
    columns: &[u32],
    values: &[f32],
    out: &mut [f32],
) {
    for ((o, &c), &v) in out.iter_mut().zip(columns).zip(values) {
        let dropped = random::bits32(row_key, c) < threshold;
        *o = if dropped { 0.0 } else { v * scale };
    }
}

/// y = activation(z + bias) in place.
pub fn epilogue(bias: Option<&[f32]>, activation: Activation, rows: &mut ViewMut<'_>) {
    if bias.is_none() && activation == Activation::Identity {
        return;
    }
    for i in 0..rows.rows() {
        epilogue_row(bias, activation, rows.row_mut(i));
    }
}

dispatch! {
    fn epilogue_row(bias: Option<&[f32]>, activation: Activation, row: &mut [f32]) = epilogue_row_body
}

#[inline(always)]
fn epilogue_row_body<const FMA: bool>(bias: Option<&[f32]>, f: Activation, row: &mut [f32]) {
    if let Some(bias) = bias {
        for (v, &b) in row.iter_mut().zip(bias) {
            *v += b;
        }
    }
    if f != Activation::Identity {
        for v in row.iter_mut() {
            *v = f.apply(*v);
        }
    }
}
