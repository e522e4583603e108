//! Derived gradients of operations over sequences and images, against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_sdk::prelude::*;
use eciton_sdk::{Attributes, Reduction, check};

const SEED: u64 = 20_261_125;
const PLAIN: Prologue<'static> = Prologue { bias: None, activation: Activation::Identity, dropout: None };
const COLUMNS: u32 = 12;
/// Rows of a sequence.
const GROUP: u32 = 3;
const WINDOWS: Windows = Windows { kernel: 2, stride: 1, padding: 1, dilation: 1 };

/// A forward pass of one input of [`COLUMNS`] values, of sequences of [`GROUP`] rows, some parameters and one output.
macro_rules! kernel {
    ($name:ident, [$($parameter:expr),*], $out:expr, $forward:expr) => {
        struct $name;

        impl ForwardKernel for $name {
            fn attributes() -> Vec<AttributeSpec> {
                vec![AttributeSpec::new("group", "rows of a sequence", Some(Value::Integer(GROUP.into())))]
            }

            fn open(_: &[Vec<u32>], _: &Attributes) -> Result<Self> {
                Ok(Self)
            }

            fn signature(&self) -> Signature {
                let mut s = Signature::new().input("x", &[COLUMNS]).output("y", &[$out]);
                let shapes: &[&[u32]] = &[$(&$parameter),*];
                for (at, shape) in shapes.iter().enumerate() {
                    s = s.parameter(&format!("p{at}"), shape, Initialiser::GlorotUniform);
                }
                s
            }

            fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
                let forward: fn(&Matrix, &[&Matrix], &Out) -> Result<()> = $forward;
                forward(io.inputs[0], io.parameters, io.outputs[0])
            }
        }
    };
}

fn passes<K: ForwardKernel>() {
    for rows in [0, 3, 9] {
        let report = check::gradients::<Derived<K>>(&[vec![COLUMNS]], &[], rows, SEED)
            .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows: {e}"));
        assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows: {report:?}");
    }
}

fn refused<K: ForwardKernel>(part: &str) {
    let error = check::gradients::<Derived<K>>(&[vec![COLUMNS]], &[], 3, SEED).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(text) if text.contains(part)), "{error:?}");
}

// Attention over sequences with two heads of two values, projected first.
kernel!(ByProducts, [[12, 12]], 4, |x, p, y| {
    let rows = x.row_count();
    let qkv = scratch(&[rows, 12], |into| linalg::matmul(x, false, p[0], false, false, into))?;
    let n = rows / GROUP;
    let grouped = qkv.group_rows(GROUP)?.reshape(&[n, GROUP, 6, 2])?;
    let all = scratch(&[n, 6, GROUP, 2], |into| dense::permute(&grouped, &[0, 2, 1, 3], into))?;
    let all = all.reshape(&[n, 6 * GROUP * 2])?;
    let part = |at: u32| all.columns(at * 4 * GROUP, 4 * GROUP)?.reshape(&[n, 2, GROUP, 2]);
    let (q, k, v) = (part(0)?, part(1)?, part(2)?);
    let shape = [n, 2, GROUP, GROUP];
    let scores = scratch(&shape, |into| linalg::batched_matmul(&q, false, &k, true, false, into))?;
    let shares = scratch(&shape, |into| dense::softmax_masked(&scores, true, 0.5, into))?;
    let mixed =
        scratch(&[n, 2, GROUP, 2], |into| linalg::batched_matmul(&shares, false, &v, false, false, into))?;
    dense::permute(&mixed, &[0, 2, 1, 3], &y.group_rows(GROUP)?)
});

// The same in one operation, with all tokens seen in its second half.
kernel!(Attended, [[12, 12]], 4, |x, p, y| {
    let rows = x.row_count();
    let qkv = scratch(&[rows, 12], |into| linalg::matmul(x, false, p[0], false, false, into))?;
    let one = |causal, scale| {
        let by = Attention { heads: 2, group: GROUP, causal, scale };
        scratch(&[rows, 4], |into| dense::attend(&qkv, by, into))
    };
    linalg::axpby(1.0, &one(true, 0.5)?, 0.5, &one(false, 0.3)?, y)
});

// A convolution of images of 2 x 3 pixels with two channels, its pooling beside its smooth activation, and a bias.
kernel!(Convolution, [[8, 2], [2]], 40, |x, p, y| {
    let rows = x.row_count();
    let images = x.reshape(&[rows, 2, 3, 2])?;
    let windows = scratch(&[rows * 12, 8], |into| dense::patches(&images, WINDOWS, into))?;
    let after = Epilogue { bias: Some(p[1]), activation: Activation::Tanh };
    let made = Out::create(&[rows, 24])?;
    linalg::linear(&windows, &PLAIN, p[0], &after, &made.split_rows(12)?)?;
    let made = made.finish()?;
    let smooth = scratch(&[rows, 24], |into| dense::smoothed(&made, Smooth::Gelu, into))?;
    let pool = Windows { kernel: 2, stride: 2, padding: 0, dilation: 1 };
    let images = made.reshape(&[rows, 3, 4, 2])?;
    let largest = scratch(&[rows, 4], |into| dense::pool(&images, pool, Reduction::Max, into))?;
    let back = scratch(&[rows, 2, 3, 2], |into| dense::patches_sum(&windows, WINDOWS, into))?;
    let back = back.reshape(&[rows, 12])?;
    dense::concat(&[&smooth, &largest, &back], y)
});

// Rows cut into parts with one weight for all, dropout and smooth activations; columns among zeros.
kernel!(Parts, [[4, 2]], 12, |x, p, y| {
    let rows = x.row_count();
    let parts = x.split_rows(3)?;
    let before = Prologue { dropout: Some(Dropout { probability: 0.4, stream: 0 }), ..PLAIN };
    let bare = Epilogue { bias: None, activation: Activation::Identity };
    let z = scratch(&[rows * 3, 2], |into| linalg::linear(&parts, &before, p[0], &bare, into))?;
    let z = scratch(&[rows * 3, 2], |into| dense::smoothed(&z, Smooth::Softplus, into))?;
    let z = scratch(&[rows * 3, 2], |into| dense::smoothed(&z, Smooth::Silu, into))?;
    let z = scratch(&[rows * 3, 2], |into| dense::smoothed(&z, Smooth::GeluTanh, into))?;
    let z = z.group_rows(3)?;
    let wide = scratch(&[rows, 12], |into| dense::place_columns(&z, 5, into))?;
    let two = x.columns(3, 2)?;
    let both = scratch(&[rows, 8], |into| dense::concat(&[&two, &z], into))?;
    let both = scratch(&[rows, 12], |into| dense::place_columns(&both, 0, into))?;
    linalg::axpby(1.0, &wide, 0.5, &both, y)
});

// Two tables, one by places in the sequence, one by what rows are; and a weight of whole sequences.
kernel!(Tables, [[3, 12], [4, 12], [36, 2]], 14, |x, p, y| {
    let rows = x.row_count();
    let places = Ids::create(&(0..rows).map(|row| row % GROUP).collect::<Vec<u32>>())?;
    let kinds: Vec<u32> = eciton_sdk::row_ids(0, rows)?.into_iter().map(|id| (id % 4) as u32).collect();
    let kinds = Ids::create(&kinds)?;
    let a = scratch(&[rows, 12], |into| linalg::gather_rows(p[0], &places, into))?;
    let b = scratch(&[rows, 12], |into| linalg::gather_rows(p[1], &kinds, into))?;
    let sum = scratch(&[rows, 12], |into| linalg::axpby(1.0, &a, 1.0, &b, into))?;
    let product = scratch(&[rows, 12], |into| linalg::multiply(&sum, x, into))?;
    let whole = product.group_rows(GROUP)?;
    let of_whole =
        scratch(&[rows / GROUP, 2], |into| linalg::matmul(&whole, false, p[2], false, false, into))?;
    let owners = Ids::create(&(0..rows).map(|row| row / GROUP).collect::<Vec<u32>>())?;
    let of_whole = scratch(&[rows, 2], |into| linalg::gather_rows(&of_whole, &owners, into))?;
    dense::concat(&[&product, &of_whole], y)
});

kernel!(OfParameter, [[4, 12]], 4, |x, p, y| {
    let cut = p[0].split_rows(3)?;
    linalg::matmul(x, false, &cut.reshape(&[12, 4])?, false, false, y)
});

kernel!(Sum, [], 12, |x, _, y| {
    let zeros = Ids::create(&vec![0; x.row_count() as usize])?;
    let sum = scratch(&[1, 12], |into| dense::scatter_sum(x, &zeros, into))?;
    linalg::gather_rows(&sum, &zeros, y)
});

kernel!(Twice, [], 12, |x, _, y| dense::smoothed_backward(x, Smooth::Gelu, x, y));

// Rows brought to one scale in all ways, with scale and shift of parameters, or one of them, or neither.
kernel!(Scaled, [[12], [12], [12]], 12, |x, p, y| {
    let one = |x: &Matrix, by, scale, shift| {
        scratch(&[x.row_count(), 12], |into| dense::normalise(x, by, scale, shift, into))
    };
    let layer = one(x, RowScale::Layer(1e-5), Some(p[0]), Some(p[1]))?;
    let rms = one(&layer, RowScale::Rms(1e-5), Some(p[2]), None)?;
    let length = one(&rms, RowScale::Length(1e-12), None, Some(p[1]))?;
    let plain = one(&length, RowScale::None, Some(p[0]), None)?;
    linalg::axpby(1.0, &plain, 0.5, &layer, y)
});

#[test]
fn rows_of_one_scale() {
    passes::<Scaled>();
}

#[test]
fn sequences() {
    passes::<ByProducts>();
    passes::<Attended>();
    passes::<Tables>();
}

#[test]
fn images() {
    passes::<Convolution>();
}

#[test]
fn parts_of_rows() {
    passes::<Parts>();
}

#[test]
fn what_has_no_derivation_says_so() {
    refused::<OfParameter>("split-rows, group-rows: of what is made of parameters");
    refused::<Sum>("scatter-sum: it sums over rows");
    refused::<Twice>("the derivative of a derivative");
}
