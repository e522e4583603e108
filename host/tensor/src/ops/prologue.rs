//! Prologue of a product, which computes u = dropout(activation(x + bias)) row by row, and its
//! derivative.
#![allow(unsafe_code)]

use super::activation::Activation;
use super::rows::zip;
use crate::random::{self, Dropout};
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Global vertex ids of an interval's rows, from which random numbers are derived.
#[derive(Debug, Clone, Copy)]
pub enum RowIds<'a> {
    /// Consecutive ids, of which this is the first.
    From(u64),
    /// List of ids, one per row.
    List(&'a [u64]),
}

impl RowIds<'_> {
    /// Returns the id of the row at index `row` of the interval.
    #[inline(always)]
    pub fn id(&self, row: usize) -> u64 {
        match self {
            Self::From(first) => first.wrapping_add(row as u64),
            Self::List(ids) => ids[row],
        }
    }
}

/// Operations that are applied to the rows x of a product's operand. The result is u =
/// dropout(activation(x + bias)).
#[derive(Debug, Clone, Copy)]
pub struct Prologue<'a> {
    /// Bias that is added to each row, or `None` for no bias.
    pub bias: Option<&'a [f32]>,
    /// Activation function, which is applied after the bias.
    pub activation: Activation,
    /// Dropout, which is applied after the activation, or `None` for no dropout.
    pub dropout: Option<Dropout>,
    /// Ids of the rows, from which the dropout masks are derived.
    pub row_ids: RowIds<'a>,
    /// Number of operand rows into which each row of the interval is split. It is 1 if rows are not
    /// split.
    pub cut: usize,
}

impl Prologue<'_> {
    /// Prologue that leaves the rows unchanged.
    pub const NONE: Prologue<'static> = Prologue {
        bias: None,
        activation: Activation::Identity,
        dropout: None,
        row_ids: RowIds::From(0),
        cut: 1,
    };

    /// Returns true if the prologue leaves the rows unchanged.
    pub fn is_identity(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::Identity && self.dropout.is_none()
    }

    /// Computes u for the rows of x from index `first` on, until `out` is filled.
    pub fn forward(&self, x: View<'_>, first: usize, out: &mut ViewMut<'_>) {
        forward_rows(self, x, first, out);
    }

    /// Multiplies `grad`, the gradient of u, by du/dx. Its rows correspond to the rows of x from
    /// index `first` on.
    pub fn backward(&self, x: View<'_>, first: usize, grad: &mut ViewMut<'_>) {
        backward_rows(self, x, first, grad);
    }
}

dispatch! {
    /// Computes out = grad f'(x) from the result y = f(x).
    pub fn derivative(f: Activation, y: View<'_>, grad: View<'_>, out: &mut ViewMut<'_>) = derivative_body
}

#[inline(always)]
fn derivative_body<const _FMA: bool>(f: Activation, y: View<'_>, grad: View<'_>, out: &mut ViewMut<'_>) {
    // Each function has a loop of its own, so that each is vectorised. A closure over a variable with
    // the function took 20 times as long, so these lists are repeated below.
    macro_rules! each {
        ($($f:pat => $g:expr),*) => { match f { $($f => zip(y, grad, out, |y, g| g * $g.derivative(y)),)* } };
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

/// Number of values that are processed at once. They fill one or two registers.
const CHUNK: usize = 16;

dispatch! {
    fn forward_rows(p: &Prologue<'_>, x: View<'_>, first: usize, out: &mut ViewMut<'_>) = forward_rows_body
}

#[inline(always)]
fn forward_rows_body<const FMA: bool>(p: &Prologue<'_>, x: View<'_>, first: usize, out: &mut ViewMut<'_>) {
    // Each function has a loop of its own, so that each is vectorised.
    macro_rules! each {
        ($($f:pat => $g:expr),*) => { match p.activation { $($f => rows_with(p, x, first, out, |v, _| $g.apply(v)),)* } };
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
    fn backward_rows(p: &Prologue<'_>, x: View<'_>, first: usize, grad: &mut ViewMut<'_>) = backward_rows_body
}

#[inline(always)]
fn backward_rows_body<const FMA: bool>(p: &Prologue<'_>, x: View<'_>, first: usize, grad: &mut ViewMut<'_>) {
    macro_rules! each {
        ($($f:pat => $g:expr),*) => {
            match p.activation { $($f => rows_with(p, x, first, grad, |v, g| g * $g.derivative($g.apply(v))),)* }
        };
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

/// Applies f to each value of x + bias and of `rows`, and then dropout. The result is written to
/// `rows`.
#[inline(always)]
fn rows_with(
    p: &Prologue<'_>,
    x: View<'_>,
    first: usize,
    rows: &mut ViewMut<'_>,
    f: impl Fn(f32, f32) -> f32,
) {
    for i in 0..rows.rows() {
        let at = first + i;
        let (from, to) = (x.row(at), rows.row_mut(i));
        let Some(dropout) = p.dropout else {
            // Loops over whole rows are vectorised if they have no further condition.
            match p.bias {
                Some(bias) => {
                    to.iter_mut().zip(from).zip(bias).for_each(|((to, &x), &bias)| *to = f(x + bias, *to));
                }
                None => to.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x, *to)),
            }
            continue;
        };
        let (row, part) = if p.cut > 1 { (at / p.cut, at % p.cut) } else { (at, 0) };
        let key = (dropout.key.row(p.row_ids.id(row)), dropout.threshold, dropout.scale);
        let column = (part * x.columns()) as u32;
        let (whole, rest) = to.as_chunks_mut::<CHUNK>();
        let start = whole.len() * CHUNK;
        let bias = |c: usize| p.bias.map(|bias| chunk_of(&bias[c..]));
        for (c, (to, from)) in (0..).step_by(CHUNK).zip(whole.iter_mut().zip(from.as_chunks().0)) {
            *to = values_with(*from, bias(c), key, column.wrapping_add(c as u32), *to, &f);
        }
        if !rest.is_empty() {
            let (x, old, bias) = (chunk_of(&from[start..]), chunk_of(rest), bias(start));
            let values = values_with(x, bias, key, column.wrapping_add(start as u32), old, &f);
            rest.copy_from_slice(&values[..rest.len()]);
        }
    }
}

/// Values that are processed at once.
type Chunk = [f32; CHUNK];

/// Returns the first values of a row, padded with zeros if there are fewer.
#[inline(always)]
fn chunk_of(values: &[f32]) -> Chunk {
    values.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0.0; CHUNK];
        padded[..values.len()].copy_from_slice(values);
        padded
    })
}

/// Returns `v`, or 0 if dropout drops the value. A mask is used instead of a branch, which the
/// processor could not predict.
#[inline(always)]
pub(super) fn kept(bits: u32, threshold: u32, v: f32) -> f32 {
    f32::from_bits(v.to_bits() & 0u32.wrapping_sub(u32::from(bits >= threshold)))
}

/// Applies f to each value of x + bias and of `old`, and then dropout. The loops over local arrays
/// are vectorised, which loops over references are not.
#[inline(always)]
fn values_with(
    x: Chunk,
    bias: Option<Chunk>,
    (row_key, threshold, scale): ((u32, u32), u32, f32),
    column: u32,
    old: Chunk,
    f: &impl Fn(f32, f32) -> f32,
) -> Chunk {
    let mut values = x;
    if let Some(bias) = bias {
        for l in 0..CHUNK {
            values[l] += bias[l];
        }
    }
    for l in 0..CHUNK {
        values[l] = f(values[l], old[l]);
    }
    for (l, value) in values.iter_mut().enumerate() {
        *value = kept(random::bits32(row_key, column.wrapping_add(l as u32)), threshold, *value * scale);
    }
    values
}

/// Applies dropout to the stored values of one sparse row. `columns` are the columns of these
/// values.
#[inline(always)]
pub(crate) fn drop_stored(
    row_key: (u32, u32),
    (threshold, scale): (u32, f32),
    columns: &[u32],
    values: &[f32],
    out: &mut [f32],
) {
    for ((o, &c), &v) in out.iter_mut().zip(columns).zip(values) {
        *o = kept(random::bits32(row_key, c), threshold, v * scale);
    }
}

/// Computes activation(z + bias) for the rows z, in place.
pub fn epilogue(bias: Option<&[f32]>, activation: Activation, rows: &mut ViewMut<'_>) {
    if bias.is_none() && activation == Activation::Identity {
        return;
    }
    epilogue_rows(bias, activation, rows);
}

dispatch! {
    fn epilogue_rows(bias: Option<&[f32]>, activation: Activation, rows: &mut ViewMut<'_>) = epilogue_rows_body
}

#[inline(always)]
fn epilogue_rows_body<const FMA: bool>(bias: Option<&[f32]>, f: Activation, rows: &mut ViewMut<'_>) {
    // As in `forward_rows_body`.
    macro_rules! each {
        ($($f:pat => $g:expr),*) => { match f { $($f => epilogue_with(bias, rows, |v| $g.apply(v)),)* } };
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

#[inline(always)]
fn epilogue_with(bias: Option<&[f32]>, rows: &mut ViewMut<'_>, f: impl Fn(f32) -> f32) {
    for i in 0..rows.rows() {
        let row = rows.row_mut(i);
        match bias {
            Some(bias) => row.iter_mut().zip(bias).for_each(|(v, &bias)| *v = f(*v + bias)),
            None => row.iter_mut().for_each(|v| *v = f(*v)),
        }
    }
}
