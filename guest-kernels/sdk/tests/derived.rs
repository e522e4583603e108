//! Gradients that are derived, against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, Work};
use eciton_sdk::{Attributes, Reduction, check, row_ids};

const SEED: u64 = 20_261_122;
const PLAIN: Prologue<'static> = Prologue { bias: None, activation: Activation::Identity, dropout: None };
const BARE: Epilogue<'static> = Epilogue { bias: None, activation: Activation::Identity };

/// A forward pass of one input of [`COLUMNS`] values, some parameters and one output.
macro_rules! kernel {
    ($name:ident, [$($parameter:expr),*], $out:expr, $forward:expr) => {
        struct $name;

        impl ForwardKernel for $name {
            fn attributes() -> Vec<AttributeSpec> {
                vec![]
            }

            fn open(_: &[Vec<u32>], _: &Attributes) -> Result<Self> {
                Ok(Self)
            }

            fn signature(&self) -> Signature {
                let mut s = Signature::new().input("x", &[COLUMNS]).output("y", &$out);
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

const COLUMNS: u32 = 6;

fn passes<K: ForwardKernel>() {
    for rows in [0, 1, 2, 5] {
        let report = check::gradients::<Derived<K>>(&[vec![COLUMNS]], &[], rows, SEED)
            .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows: {e}"));
        assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows: {report:?}");
    }
}

fn refused<K: ForwardKernel>(part: &str) {
    let error = check::gradients::<Derived<K>>(&[vec![COLUMNS]], &[], 3, SEED).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(text) if text.contains(part)), "{error:?}");
}

// Two products with dropout, activations and biases on both sides, and the input added.
kernel!(Perceptron, [[6, 4], [4], [4], [4, 6], [6]], [6], |x, p, y| {
    let rows = x.row_count();
    let after = Epilogue { bias: Some(p[1]), activation: Activation::Elu(1.0) };
    let before = Prologue { dropout: Some(Dropout { probability: 0.3, stream: 0 }), ..PLAIN };
    let hidden = scratch(&[rows, 4], |into| linalg::linear(x, &before, p[0], &after, into))?;
    let dropout = Some(Dropout { probability: 0.5, stream: 1 });
    let before = Prologue { bias: Some(p[2]), activation: Activation::Tanh, dropout };
    let after = Epilogue { bias: Some(p[4]), activation: Activation::Identity };
    let z = scratch(&[rows, 6], |into| linalg::linear(&hidden, &before, p[3], &after, into))?;
    linalg::axpby(0.5, x, 2.0, &z, y)
});

// sigmoid(x w + b) * tanh(x v + b), with one bias for both, and matmul rather than linear.
kernel!(GatedUnit, [[6, 3], [6, 3], [3]], [3], |x, p, y| {
    let shape = [x.row_count(), 3];
    let half = |w, activation| {
        let z = scratch(&shape, |into| linalg::matmul(x, false, w, false, false, into))?;
        let by = Prologue { bias: Some(p[2]), activation, dropout: None };
        scratch(&shape, |into| linalg::apply(&z, &by, into))
    };
    linalg::multiply(&half(p[0], Activation::Sigmoid)?, &half(p[1], Activation::Tanh)?, y)
});

// Scores of three heads, their softmax over the heads, and the heads weighted by it.
kernel!(Heads, [[6], [1, 6]], [6], |x, p, y| {
    let rows = x.row_count();
    let heads = x.reshape(&[rows, 3, 2])?;
    let scores = scratch(&[rows, 3], |into| linalg::inner(&heads, p[0], into))?;
    let weights = scratch(&[rows, 3], |into| linalg::softmax(&scores, into))?;
    let row = p[1].reshape(&[1, 3, 2])?;
    let all = scratch(&[rows, 3, 2], |into| linalg::scale(&row, &weights, into))?;
    let own = scratch(&[rows, 3, 2], |into| linalg::scale(&heads, &scores, into))?;
    let (all, own) = (all.reshape(&[rows, 6])?, own.reshape(&[rows, 6])?);
    linalg::multiply(&all, &own, y)
});

// A parameter made of two, one with a factor, and a product with its transpose.
kernel!(Mixture, [[6, 3], [6, 3], [3, 3], [3]], [6], |x, p, y| {
    let rows = x.row_count();
    let w = scratch(&[6, 3], |into| linalg::axpby(0.5, p[0], -2.0, p[1], into))?;
    let z = scratch(&[rows, 3], |into| linalg::linear(x, &PLAIN, &w, &BARE, into))?;
    let by = Prologue { activation: Activation::Sigmoid, ..PLAIN };
    let z = scratch(&[rows, 3], |into| linalg::apply(&z, &by, into))?;
    let w = p[2];
    let z = scratch(&[rows, 3], |into| linalg::matmul(&z, false, w, true, false, into))?;
    let column = p[3].reshape(&[3, 1])?;
    let by = scratch(&[rows, 1], |into| linalg::matmul(&z, false, &column, false, false, into))?;
    linalg::scale(x, &by, y)
});

// Rows in parts, products of each row, reductions of columns, a row of a parameter for each, a constant.
kernel!(Pieces, [[1, 3], [4, 2], [2]], [6], |x, p, y| {
    let rows = x.row_count();
    let cut = rows / 2;
    let whole = Out::create(&[rows, 6])?;
    for (start, count) in [(0, cut), (cut, rows - cut)] {
        let by = Prologue { activation: Activation::Tanh, ..PLAIN };
        linalg::apply(&x.rows(start, count)?, &by, &whole.rows(start, count)?)?;
    }
    let whole = whole.finish()?;
    let (a, b) = (x.reshape(&[rows, 2, 3])?, whole.reshape(&[rows, 3, 2])?);
    let square = scratch(&[rows, 2, 2], |into| linalg::batched_matmul(&a, false, &b, false, false, into))?;
    let back = scratch(&[rows, 3, 2], |into| linalg::batched_matmul(&a, true, &square, true, false, into))?;
    let back = back.reshape(&[rows, 6])?;
    let zeros = Ids::create(&vec![0; rows as usize])?;
    let row = scratch(&[rows, 3], |into| linalg::gather_rows(p[0], &zeros, into))?;
    let kinds: Vec<u32> = row_ids(0, rows)?.into_iter().map(|id| (id % 2) as u32).collect();
    let kinds = Ids::create(&kinds)?;
    let embedded = scratch(&[rows, 2], |into| linalg::gather_rows(&p[1].rows(1, 2)?, &kinds, into))?;
    let mean = scratch(&[rows, 1], |into| linalg::reduce_columns(&row, Reduction::Mean, into))?;
    let inner = scratch(&[rows, 1], |into| linalg::inner(&embedded, p[2], into))?;
    let by = scratch(&[rows, 1], |into| linalg::axpby(1.0, &mean, 1.0, &inner, into))?;
    let scaled = scratch(&[rows, 6], |into| linalg::scale(&back, &by, into))?;
    let constant = scratch(&[rows, 6], |into| into.write_rows(0, &vec![0.25f32; rows as usize * 6]))?;
    linalg::multiply(&scaled, &constant, y)
});

// Two rows of each row's six values as segments of a softmax.
kernel!(Segments, [[2]], [2], |x, p, y| {
    let rows = x.row_count();
    let z = scratch(&[rows, 2], |into| linalg::linear(x, &PLAIN, &constant()?, &BARE, into))?;
    let each = Ids::create(&(0..=rows).collect::<Vec<u32>>())?;
    let by = Prologue { bias: Some(p[0]), ..PLAIN };
    let biased = scratch(&[rows, 2], |into| linalg::apply(&z, &by, into))?;
    let twice: Vec<u32> = (0..rows).flat_map(|row| [row, row]).collect();
    let twice = Ids::create(&twice)?;
    let both = scratch(&[2 * rows, 2], |into| linalg::gather_rows(&biased, &twice, into))?;
    let both = scratch(&[2 * rows, 2], |into| linalg::multiply(&both, &alternating(2 * rows)?, into))?;
    let pairs = Ids::create(&(0..=rows).map(|row| 2 * row).collect::<Vec<u32>>())?;
    let state = scratch(&[rows, 4], |into| linalg::softmax_segments(&both, &pairs, into))?;
    let state = scratch(&[2 * rows, 4], |into| linalg::gather_rows(&state, &twice, into))?;
    let values = scratch(&[2 * rows, 2], |into| linalg::softmax_values(&both, &state, into))?;
    let weighted = scratch(&[2 * rows, 2], |into| linalg::multiply(&values, &both, into))?;
    let mean = scratch(&[rows, 2], |into| linalg::reduce_segments(&weighted, &pairs, Reduction::Mean, into))?;
    let sum = scratch(&[rows, 2], |into| linalg::reduce_segments(&biased, &each, Reduction::Sum, into))?;
    linalg::axpby(1.0, &mean, 0.5, &sum, y)
});

fn constant() -> Result<Matrix> {
    scratch(&[6, 2], |into| {
        into.write_rows(0, &[0.5f32, 1.0, -1.0, 0.25, 2.0, 0.5, -0.5, 1.5, 1.0, -2.0, 0.75, 0.5])
    })
}

fn alternating(rows: u32) -> Result<Matrix> {
    let values: Vec<f32> = (0..rows * 2).map(|at| if at % 4 < 2 { 1.0 } else { -0.5 }).collect();
    scratch(&[rows, 2], |into| into.write_rows(0, &values))
}

// The functions, each where it has a derivative: (|x| + 1/2)^(3/2) / sqrt(exp(-x) + 1) + ln(x^2 + 1/4).
kernel!(Functions, [[6]], [6], |x, p, y| {
    let shape = x.shape();
    let f = |x: &Matrix, by| scratch(&shape, |into| linalg::elementwise(x, by, into));
    let plus = |x: &Matrix, c: f32| {
        let constant = scratch(&shape, |into| into.write_rows(0, &vec![c; (shape[0] * shape[1]) as usize]))?;
        scratch(&shape, |into| linalg::axpby(1.0, x, 1.0, &constant, into))
    };
    let power = f(&plus(&f(x, Function::Absolute)?, 0.5)?, Function::Power(1.5))?;
    let minus = scratch(&shape, |into| linalg::axpby(-1.0, x, 0.0, x, into))?;
    let root = f(&plus(&f(&minus, Function::Exp)?, 1.0)?, Function::Sqrt)?;
    let ratio = scratch(&shape, |into| linalg::multiply(&power, &f(&root, Function::Reciprocal)?, into))?;
    let log = f(&plus(&f(x, Function::Power(2.0))?, 0.25)?, Function::Log)?;
    let log = scratch(&shape, |into| linalg::apply(&log, &Prologue { bias: Some(p[0]), ..PLAIN }, into))?;
    linalg::axpby(1.0, &ratio, 0.5, &log, y)
});

/// y_v = the standard deviation of the sources' values, sqrt(mean of squares - square of the mean + 1/8).
struct Deviation;

impl ForwardEdgeKernel for Deviation {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(_: &[u32], _: &[u32], _: u32, _: &Attributes) -> Result<Self> {
        Ok(Self)
    }

    fn signature(&self) -> EdgeSignature {
        let row = [COLUMNS];
        EdgeSignature::new().source("x", &row).target("t", &row).output("y", &row)
    }

    fn forward<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        source: &Matrix,
        _: &Matrix,
        _: &[&Matrix],
        output: &Out,
    ) -> Result<()> {
        let shape = output.shape();
        let mean = |x: &Matrix| {
            scratch(&shape, |into| linalg::reduce_segments(x, task.offsets, Reduction::Mean, into))
        };
        let square =
            |x: &Matrix| scratch(&x.shape(), |into| linalg::elementwise(x, Function::Power(2.0), into));
        let (of_squares, of_mean) = (mean(&square(source)?)?, square(&mean(source)?)?);
        let variance = scratch(&shape, |into| linalg::axpby(1.0, &of_squares, -1.0, &of_mean, into))?;
        let eighths = vec![0.125f32; (shape[0] * shape[1]) as usize];
        let eighths = scratch(&shape, |into| into.write_rows(0, &eighths))?;
        let variance = scratch(&shape, |into| linalg::axpby(1.0, &variance, 1.0, &eighths, into))?;
        linalg::elementwise(&variance, Function::Sqrt, output)
    }
}

#[test]
fn a_standard_deviation_over_edges_is_derived() {
    for rows in [1, 2, 5, 12] {
        let row = [COLUMNS];
        let report = check::edge_gradients::<DerivedEdges<Deviation>>(&row, &row, 0, &[], rows, SEED)
            .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows: {e}"));
        assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows: {report:?}");
    }
}

#[test]
fn gradients_are_those_of_differences() {
    passes::<Perceptron>();
    passes::<GatedUnit>();
    passes::<Heads>();
    passes::<Mixture>();
    passes::<Pieces>();
    passes::<Segments>();
    passes::<Functions>();
}

// Columns and rows of weights in several products: only where the sum is one reduction.
kernel!(Columns, [[6, 4], [4, 2], [5]], [2], |x, p, y| {
    let rows = x.row_count();
    let left =
        scratch(&[rows, 2], |into| linalg::matmul(x, false, &p[0].columns(0, 2)?, false, false, into))?;
    let right = scratch(&[rows, 2], |into| linalg::linear(x, &PLAIN, &p[0].columns(2, 2)?, &BARE, into))?;
    let product = scratch(&[rows, 2], |into| linalg::multiply(&left, &right, into))?;
    let (first, last) = (p[1].rows(0, 2)?, p[1].rows(2, 2)?);
    let sum = Out::create(&[rows, 2])?;
    linalg::matmul(&x.columns(0, 2)?, false, &first, false, false, &sum)?;
    linalg::matmul(&x.columns(3, 2)?, false, &last, false, true, &sum)?;
    let bias = p[2].rows(1, 2)?;
    let by = Prologue { bias: Some(&bias), activation: Activation::Tanh, dropout: None };
    let sum = sum.finish()?;
    let sum = scratch(&[rows, 2], |into| linalg::apply(&sum, &by, into))?;
    linalg::axpby(1.0, &product, -0.5, &sum, y)
});

#[test]
fn parameters_in_parts_have_one_reduction() {
    passes::<Columns>();
}

kernel!(Reads, [[6, 6]], [6], |x, p, y| {
    let z = scratch(&x.shape(), |into| linalg::matmul(x, false, p[0], false, false, into))?;
    let rows = z.row_count();
    y.write_rows::<f32>(0, &z.read_rows(0, rows)?)
});
kernel!(Twice, [[6, 6]], [6], |x, p, y| {
    let z = scratch(&x.shape(), |into| linalg::matmul(x, false, p[0], false, false, into))?;
    linalg::matmul(&z, false, p[0], false, false, y)
});
kernel!(Largest, [], [1], |x, _, y| linalg::reduce_columns(x, Reduction::Max, y));

#[test]
fn what_cannot_be_derived_is_an_error_that_names_it() {
    refused::<Reads>("read-rows: values that a gradient must flow through");
    refused::<Twice>("linear, matmul: a parameter is the weight of several products");
    refused::<Largest>("reduce-columns: of a maximum");
}

#[test]
fn every_handle_is_given_back() {
    let kernel = Derived::<Twice>::open(&[vec![6]], &Attributes::default()).unwrap();
    let host = Reference::new(Context { rows: 2, ..Context::default() });
    let x = host.matrix(&[2, 6], &[0.5; 12]).unwrap();
    let (w, up) = (host.matrix(&[6, 6], &[0.25; 36]).unwrap(), host.matrix(&[2, 6], &[1.0; 12]).unwrap());
    let (dx, dw) = (host.output(&[2, 6]).unwrap(), host.gradient(&[6, 6]).unwrap());
    let before = host.handles();
    let task = host.context().task();
    let io = eciton_sdk::Backward {
        inputs: &[&x],
        outputs: &[],
        kept: &[],
        parameters: &[&w],
        gradients: &[&up],
        input_gradients: &[Some(&dx)],
        parameter_gradients: &[&dw],
    };
    assert!(host.run(|| kernel.backward::<f64>(&task, io)).is_err());
    assert_eq!(host.handles(), before);
}

/// What `backward` costs on two rows.
fn work<K: ForwardKernel>() -> Work {
    let kernel = Derived::<K>::open(&[vec![COLUMNS]], &Attributes::default()).unwrap();
    let host = Reference::new(Context { rows: 2, ..Context::default() });
    let full = |shape: &[u32]| {
        let values = shape.iter().product::<u32>() as usize;
        host.matrix(shape, &vec![0.5; values]).unwrap()
    };
    let signature = kernel.signature();
    let up_shape = [&[2], &signature.outputs[0].extents[..]].concat();
    let (x, up) = (full(&[2, COLUMNS]), full(&up_shape));
    let parameters: Vec<Matrix> = signature.parameters.iter().map(|p| full(&p.shape)).collect();
    let dx = host.output(&[2, COLUMNS]).unwrap();
    let into: Vec<Out> = signature.parameters.iter().map(|p| host.gradient(&p.shape).unwrap()).collect();
    let io = eciton_sdk::Backward {
        inputs: &[&x],
        outputs: &[],
        kept: &[],
        parameters: &parameters.iter().collect::<Vec<_>>(),
        gradients: &[&up],
        input_gradients: &[Some(&dx)],
        parameter_gradients: &into.iter().collect::<Vec<_>>(),
    };
    host.run(|| kernel.backward::<f64>(&host.context().task(), io)).unwrap();
    assert!(host.unwritten(&dx).unwrap().is_empty());
    host.work()
}

kernel!(Product, [[6, 4]], [4], |x, p, y| linalg::linear(x, &PLAIN, p[0], &BARE, y));

// tanh(x)^2, from two tanh.
kernel!(Square, [], [6], |x, _, y| {
    let by = Prologue { activation: Activation::Tanh, ..PLAIN };
    let tanh = || scratch(&x.shape(), |into| linalg::apply(x, &by, into));
    linalg::multiply(&tanh()?, &tanh()?, y)
});

// A chain that is longer than what is put off.
kernel!(Chain, [], [6], |x, _, y| {
    let mut z = x.rows(0, x.row_count())?;
    for _ in 0..200 {
        z = scratch(&x.shape(), |into| linalg::axpby(0.75, &z, 0.25, x, into))?;
    }
    linalg::multiply(&z, &z, y)
});

// A matrix is written twice, and read in between by nobody.
kernel!(Over, [], [6], |x, _, y| {
    let (rows, shape) = (x.row_count(), x.shape());
    let both = Out::create(&shape)?;
    linalg::axpby(2.0, x, 0.0, x, &both)?;
    linalg::multiply(x, x, &both)?;
    let both = both.finish()?.reshape(&[rows, 2, 3])?;
    linalg::multiply(&both.reshape(&shape)?, x, y)
});

// The same sum as a vector and as one row.
kernel!(Shapes, [], [6], |x, _, y| {
    let rows = x.row_count();
    let constant = scratch(&[2, 6], |into| into.write_rows(0, &[0.5f32; 12]))?;
    let vector = scratch(&[6], |into| linalg::sum_rows(&constant, into))?;
    let row = scratch(&[1, 6], |into| linalg::sum_rows(&constant, into))?.reshape(&[1, 2, 3])?;
    let both = x.reshape(&[rows, 2, 3])?;
    let by = scratch(&[rows, 2], |into| linalg::inner(&both, &vector, into))?;
    let scaled = scratch(&[rows, 2, 3], |into| linalg::scale(&row, &by, into))?;
    linalg::multiply(&scaled.reshape(&[rows, 6])?, x, y)
});

#[test]
fn what_no_gradient_needs_is_not_computed() {
    // The product's gradients at once; the product itself is not needed.
    assert_eq!(work::<Product>().operations, 1);
    passes::<Product>();
}

#[test]
fn nothing_is_computed_twice() {
    // tanh; one factor's gradient, which is the other's; the way back through tanh; the sum of both.
    assert_eq!(work::<Square>().operations, 4);
    passes::<Square>();
}

#[test]
fn what_is_put_off_is_what_was_asked_for() {
    passes::<Chain>();
    passes::<Over>();
    passes::<Shapes>();
}

// What rows count is a constant of the task: y = w_i tanh(x v), and y = tanh(x v) where they count alike.
kernel!(Weighed, [[6, 6]], [6], |x, p, y| {
    let after = Epilogue { bias: None, activation: Activation::Tanh };
    let plain = scratch(&x.shape(), |into| linalg::linear(x, &PLAIN, p[0], &after, into))?;
    match given::row_weights()? {
        Some(weights) => linalg::scale(&plain, &weights, y),
        None => linalg::axpby(1.0, &plain, 0.0, &plain, y),
    }
});

#[test]
fn weights_of_rows_are_constants_of_a_tape() {
    let (x, v) = ([0.5, -0.25, 1.0, 0.0, 2.0, -1.0, 0.75, 0.5, -0.5, 0.25, 1.5, -2.0], vec![0.125; 36]);
    let found = |weights: Option<&[f64]>, up: &[f64]| {
        let host = Reference::new(Context { rows: 2, training: true, ..Context::default() });
        weights.into_iter().for_each(|weights| host.weigh_rows(weights).unwrap());
        let (x, v) = (host.matrix(&[2, 6], &x).unwrap(), host.matrix(&[6, 6], &v).unwrap());
        let up = host.matrix(&[2, 6], up).unwrap();
        let (dx, dv) = (host.output(&[2, 6]).unwrap(), host.gradient(&[6, 6]).unwrap());
        let kernel = Derived::<Weighed>::open(&[vec![6]], &Attributes::default()).unwrap();
        let io = Backward {
            inputs: &[&x],
            outputs: &[],
            kept: &[],
            parameters: &[&v],
            gradients: &[&up],
            input_gradients: &[Some(&dx)],
            parameter_gradients: &[&dv],
        };
        host.run(|| kernel.backward::<f64>(&host.context().task(), io)).unwrap();
        (host.values(&dx).unwrap(), host.values(&dv).unwrap())
    };
    passes::<Weighed>();
    // Weights of the rows, or the gradient times them.
    let up: Vec<f64> = (0..12).map(|i| if i < 6 { 2.0 } else { 0.5 }).collect();
    assert_eq!(found(Some(&[2.0, 0.5]), &[1.0; 12]), found(None, &up));
    assert_ne!(found(Some(&[2.0, 0.5]), &[1.0; 12]), found(None, &[1.0; 12]));
}
