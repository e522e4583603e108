//! Operations against cases worked out by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::linalg::{self, LinearGradients};
use crate::{Activation, Dropout, Epilogue, Function, Prologue, Reduction};

const PLAIN: Prologue<'static> = Prologue { bias: None, activation: Activation::Identity, dropout: None };
const AS_IS: Epilogue<'static> = Epilogue { bias: None, activation: Activation::Identity };

fn host(rows: u32) -> Reference {
    Reference::new(Context { seed: 42, epoch: 3, layer: 1, training: true, first_row: 5, rows })
}

/// What an operation writes to a place with this shape.
fn written(host: &Reference, shape: &[u32], work: impl FnOnce(&Out) -> Result<()>) -> Vec<f64> {
    let out = host.output(shape).unwrap();
    host.run(|| work(&out)).unwrap();
    host.values(&out).unwrap()
}

#[track_caller]
fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-12;
    assert!(!found.iter().zip(expected).any(apart), "{found:?}, not {expected:?}");
}

#[track_caller]
fn is_shape(result: Result<()>, operation: &str, operand: &str, expected: &[u32], found: &[u32]) {
    assert_eq!(result, Err(shape_error(operation, operand, expected, found)));
}

#[track_caller]
fn is_argument(result: Result<()>, part: &str) {
    match result {
        Err(Error::Argument(text)) if text.contains(part) => {}
        other => panic!("{other:?} is no Argument error with `{part}`"),
    }
}

#[test]
fn products_of_all_transpositions() {
    let h = host(2);
    let a = h.matrix(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let at = h.matrix(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]).unwrap();
    let b = h.matrix(&[3, 2], &[1.0, 0.0, 2.0, -1.0, 0.0, 3.0]).unwrap();
    let bt = h.matrix(&[2, 3], &[1.0, 2.0, 0.0, 0.0, -1.0, 3.0]).unwrap();
    for (a, ta) in [(&a, false), (&at, true)] {
        for (b, tb) in [(&b, false), (&bt, true)] {
            let ab = written(&h, &[2, 2], |o| linalg::matmul(a, ta, b, tb, false, o));
            assert_eq!(ab, [5.0, 7.0, 14.0, 13.0]);
        }
    }
    let twice = written(&h, &[2, 2], |o| {
        linalg::matmul(&a, false, &b, false, false, o)?;
        linalg::matmul(&a, false, &b, false, true, o)
    });
    assert_eq!(twice, [10.0, 14.0, 28.0, 26.0]);
    let out = h.output(&[2, 2]).unwrap();
    h.run(|| {
        is_argument(linalg::matmul(&a, false, &b, false, true, &out), "never written");
        is_shape(linalg::matmul(&a, false, &a, false, false, &out), "matmul", "b", &[3, 3], &[2, 3]);
        is_shape(linalg::matmul(&a, false, &b, true, false, &out), "matmul", "b", &[3, 3], &[3, 2]);
        is_shape(linalg::matmul(&at, false, &a, false, false, &out), "matmul", "into", &[3, 3], &[2, 2]);
        let flat = h.matrix(&[3], &[1.0; 3]).unwrap();
        is_shape(linalg::matmul(&flat, false, &a, false, false, &out), "matmul", "a", &[0, 0], &[3]);
    });
}

#[test]
fn batched_products() {
    let h = host(2);
    let a = h.matrix(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let b = h.matrix(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 2.0, 0.0]).unwrap();
    let plain = written(&h, &[2, 1, 2], |o| linalg::batched_matmul(&a, false, &b, false, false, o));
    assert_eq!(plain, [1.0, 2.0, 8.0, 3.0]);
    let turned = written(&h, &[2, 1, 2], |o| linalg::batched_matmul(&a, false, &b, true, false, o));
    assert_eq!(turned, [1.0, 2.0, 4.0, 6.0]);
    let outer = written(&h, &[2, 2, 2], |o| linalg::batched_matmul(&a, true, &a, false, false, o));
    assert_eq!(outer, [1.0, 2.0, 2.0, 4.0, 9.0, 12.0, 12.0, 16.0]);
    let c = h.matrix(&[1, 2, 2], &[1.0; 4]).unwrap();
    let out = h.output(&[2, 1, 2]).unwrap();
    let failed = h.run(|| linalg::batched_matmul(&a, false, &c, false, false, &out));
    is_shape(failed, "batched-matmul", "b", &[2, 0, 0], &[1, 2, 2]);
}

#[test]
fn activations_and_their_derivatives() {
    let e = 1f64.exp();
    let (third, two) = (1.0 / (1.0 + e), 2f64);
    let cases = [
        (Activation::Identity, [-1.0, 0.0, 2.0], [1.0, 1.0, 1.0]),
        (Activation::Relu, [0.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
        (Activation::LeakyRelu(0.25), [-0.25, 0.0, 2.0], [0.25, 0.25, 1.0]),
        (Activation::Elu(2.0), [2.0 / e - 2.0, 0.0, 2.0], [2.0 / e, 2.0, 1.0]),
        (
            Activation::Sigmoid,
            [third, 0.5, 1.0 / (1.0 + (-two).exp())],
            [third * (1.0 - third), 0.25, (-two).exp() / (1.0 + (-two).exp()).powi(2)],
        ),
        (
            Activation::Tanh,
            [(-1f64).tanh(), 0.0, two.tanh()],
            [1.0 - 1f64.tanh().powi(2), 1.0, 1.0 - two.tanh().powi(2)],
        ),
    ];
    for (activation, value, slope) in cases {
        let h = host(1);
        let x = h.matrix(&[1, 3], &[-2.0, -1.5, 2.5]).unwrap();
        let bias = h.matrix(&[3], &[1.0, 1.5, -0.5]).unwrap();
        let by = Prologue { bias: Some(&bias), activation, dropout: None };
        near(&written(&h, &[1, 3], |o| linalg::apply(&x, &by, o)), &value);
        let grad = h.matrix(&[1, 3], &[3.0, -1.0, 2.0]).unwrap();
        let expected = [3.0 * slope[0], -slope[1], 2.0 * slope[2]];
        near(&written(&h, &[1, 3], |o| linalg::apply_backward(&x, &by, &grad, o)), &expected);
        // The epilogue computes the same from the value.
        let unit = h.matrix(&[3, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]).unwrap();
        let after = Epilogue { bias: Some(&bias), activation };
        let y = written(&h, &[1, 3], |o| linalg::linear(&x, &PLAIN, &unit, &after, o));
        near(&y, &value);
        let y = h.matrix(&[1, 3], &y).unwrap();
        let sums = written(&h, &[3], |o| {
            let wanted = LinearGradients { after_bias: Some(o), ..Default::default() };
            linalg::linear_backward(&x, &PLAIN, &unit, &after, Some(&y), &grad, wanted)
        });
        near(&sums, &expected);
        let kinked = matches!(activation, Activation::Relu | Activation::LeakyRelu(_) | Activation::Elu(_));
        assert_eq!(h.nearest_kink(), if kinked { 0.0 } else { f64::INFINITY });
    }
}

#[test]
fn linear_and_its_gradients_without_dropout() {
    let h = host(2);
    let x = h.matrix(&[2, 2], &[1.0, -2.0, 0.5, 3.0]).unwrap();
    let c = h.matrix(&[2], &[0.0, 1.0]).unwrap();
    let w = h.matrix(&[2, 1], &[2.0, 3.0]).unwrap();
    let b = h.matrix(&[1], &[-4.0]).unwrap();
    let before = Prologue { bias: Some(&c), activation: Activation::Relu, dropout: None };
    let after = Epilogue { bias: Some(&b), activation: Activation::LeakyRelu(0.5) };
    // u = [1, 0; 0.5, 4], z = [-2; 9]
    let y = written(&h, &[2, 1], |o| linalg::linear(&x, &before, &w, &after, o));
    assert_eq!(y, [-1.0, 9.0]);
    let y = h.matrix(&[2, 1], &y).unwrap();
    let grad = h.matrix(&[2, 1], &[4.0, 1.0]).unwrap();
    let dx = h.output(&[2, 2]).unwrap();
    let (dc, dw, db) = (h.gradient(&[2]).unwrap(), h.gradient(&[2, 1]).unwrap(), h.gradient(&[1]).unwrap());
    let wanted =
        LinearGradients { x: Some(&dx), before_bias: Some(&dc), w: Some(&dw), after_bias: Some(&db) };
    h.run(|| linalg::linear_backward(&x, &before, &w, &after, Some(&y), &grad, wanted)).unwrap();
    // d = [2; 1]
    assert_eq!(h.values(&dx).unwrap(), [4.0, 0.0, 2.0, 3.0]);
    assert_eq!(h.values(&dc).unwrap(), [6.0, 3.0]);
    assert_eq!(h.values(&dw).unwrap(), [2.5, 4.0]);
    assert_eq!(h.values(&db).unwrap(), [3.0]);
    h.run(|| {
        is_argument(linalg::linear_backward(&x, &before, &w, &after, None, &grad, wanted), "y must be given");
        let wanted = LinearGradients { w: Some(&dx), ..Default::default() };
        let failed = linalg::linear_backward(&x, &before, &w, &AS_IS, None, &grad, wanted);
        is_shape(failed, "linear-backward", "grad-w", &[2, 1], &[2, 2]);
    });
}

#[test]
fn wrong_operands_of_linear_are_named() {
    let h = host(2);
    let x = h.matrix(&[2, 3], &[1.0; 6]).unwrap();
    let w = h.matrix(&[3, 2], &[1.0; 6]).unwrap();
    let three = h.matrix(&[3], &[1.0; 3]).unwrap();
    let two = h.matrix(&[2], &[1.0; 2]).unwrap();
    let out = h.output(&[2, 2]).unwrap();
    let biased = |bias| Prologue { bias: Some(bias), ..PLAIN };
    h.run(|| {
        is_shape(linalg::linear(&x, &PLAIN, &x, &AS_IS, &out), "linear", "w", &[3, 0], &[2, 3]);
        is_shape(linalg::linear(&x, &biased(&two), &w, &AS_IS, &out), "linear", "before.bias", &[3], &[2]);
        let after = Epilogue { bias: Some(&three), ..AS_IS };
        is_shape(linalg::linear(&x, &PLAIN, &w, &after, &out), "linear", "after.bias", &[2], &[3]);
        for slope in [-1.0, f32::NAN, f32::INFINITY] {
            let after = Epilogue { bias: None, activation: Activation::LeakyRelu(slope) };
            is_argument(linalg::linear(&x, &PLAIN, &w, &after, &out), "LeakyRelu");
        }
        for probability in [1.0, -0.5, f32::NAN] {
            let before = Prologue { dropout: Some(Dropout { probability, stream: 0 }), ..PLAIN };
            is_argument(linalg::linear(&x, &before, &w, &AS_IS, &out), "probability");
        }
    });
    assert_eq!(h.unwritten(&out).unwrap(), [0, 1], "a failed operation wrote");
}

#[test]
fn dropout_follows_global_rows() {
    let values: Vec<f64> = (1..=40).map(f64::from).collect();
    let dropout = Some(Dropout { probability: 0.25, stream: 2 });
    let by = Prologue { dropout, ..PLAIN };
    let key = random::key(42, random::DROPOUT, 3, 1, 2);
    let kept = |row: u64, column: u32| !random::dropped(random::bits32(key, row, column), 0.25);
    let expected: Vec<f64> = (0..40)
        .map(|i| if kept(5 + i as u64 / 10, i % 10) { f64::from(i + 1) / 0.75 } else { 0.0 })
        .collect();
    let h = host(4);
    let x = h.matrix(&[4, 10], &values).unwrap();
    near(&written(&h, &[4, 10], |o| linalg::apply(&x, &by, o)), &expected);
    assert!((1..40).contains(&expected.iter().filter(|v| **v == 0.0).count()));
    // A block of three dimensions is addressed by position within the row.
    let cube = h.matrix(&[4, 2, 5], &values).unwrap();
    near(&written(&h, &[4, 2, 5], |o| linalg::apply(&cube, &by, o)), &expected);
    // A view of rows keeps its place, and so does another interval.
    let view = written(&h, &[2, 10], |o| linalg::apply(&x.rows(2, 2)?, &by, o));
    near(&view, &expected[20..]);
    let later = Reference::new(Context { first_row: 7, rows: 2, ..h.context() });
    let x = later.matrix(&[2, 10], &values[20..]).unwrap();
    near(&written(&later, &[2, 10], |o| linalg::apply(&x, &by, o)), &expected[20..]);
    let quiet = Reference::new(Context { training: false, ..h.context() });
    let x = quiet.matrix(&[4, 10], &values).unwrap();
    near(&written(&quiet, &[4, 10], |o| linalg::apply(&x, &by, o)), &values);
    let grad = h.matrix(&[4, 10], &[1.0; 40]).unwrap();
    let x = h.matrix(&[4, 10], &[7.0; 40]).unwrap();
    let slope: Vec<f64> = expected.iter().map(|&v| if v == 0.0 { 0.0 } else { 1.0 / 0.75 }).collect();
    near(&written(&h, &[4, 10], |o| linalg::apply_backward(&x, &by, &grad, o)), &slope);
    let long = h.matrix(&[5, 1], &[1.0; 5]).unwrap();
    let out = h.output(&[5, 1]).unwrap();
    is_argument(h.run(|| linalg::apply(&long, &by, &out)), "the interval has 4 rows");
}

#[test]
fn generator_matches_the_oracle() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/random_vectors.json");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(vectors.len() >= 64);
    for v in vectors {
        let large = |name: &str| v[name].as_str().unwrap().parse::<u64>().unwrap();
        let small = |name: &str| u32::try_from(v[name].as_u64().unwrap()).unwrap();
        let purpose = v["purpose"].as_u64().unwrap();
        let key = random::key(large("seed"), purpose, small("epoch"), small("layer"), small("stream"));
        assert_eq!(format!("{key:016x}"), v["key"].as_str().unwrap(), "{v}");
        let bits = random::bits32(key, large("row"), small("column"));
        assert_eq!(bits, small("bits32"), "{v}");
        // serde_json reads a double to within one unit only; these are multiples of 2^-24.
        assert!((random::uniform(bits) - v["uniform"].as_f64().unwrap()).abs() < 1e-15, "{v}");
    }
    // ceil(0.1f32 * 2^32) = 429496736, for 0.1f32 * 2^32 = 429496736 exactly.
    assert!(random::dropped(429_496_735, 0.1) && !random::dropped(429_496_736, 0.1));
    assert!(!random::dropped(0, 0.0) && random::dropped(0, f32::MIN_POSITIVE));
    assert!(random::dropped(u32::MAX - 256, 1.0 - f32::EPSILON / 2.0) && !random::dropped(u32::MAX, 0.99));
}

#[test]
fn combinations() {
    let h = host(2);
    let x = h.matrix(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let y = h.matrix(&[2, 2], &[5.0, 0.0, -1.0, 0.5]).unwrap();
    assert_eq!(written(&h, &[2, 2], |o| linalg::axpby(2.0, &x, -1.0, &y, o)), [-3.0, 4.0, 7.0, 7.5]);
    assert_eq!(written(&h, &[2, 2], |o| linalg::multiply(&x, &y, o)), [5.0, 0.0, -3.0, 2.0]);
    let power = |p| written(&h, &[2, 2], |o| linalg::elementwise(&y, Function::Power(p), o));
    assert_eq!(power(2.0), [25.0, 0.0, 1.0, 0.25]);
    assert!(power(0.5)[2].is_nan());
    for (f, values, slopes) in [
        (Function::Absolute, [5.0, 0.0, 1.0, 0.5], [1.0, 0.0, -3.0, 4.0]),
        (Function::Reciprocal, [0.2, f64::INFINITY, -1.0, 2.0], [-0.04, f64::NEG_INFINITY, -3.0, -16.0]),
        (Function::Power(3.0), [125.0, 0.0, -1.0, 0.125], [75.0, 0.0, 9.0, 3.0]),
        (Function::Power(0.0), [1.0; 4], [0.0; 4]),
    ] {
        let value = written(&h, &[2, 2], |o| linalg::elementwise(&y, f, o));
        let slope = written(&h, &[2, 2], |o| linalg::elementwise_backward(&y, f, &x, o));
        for (found, expected) in value.iter().chain(&slope).zip(values.iter().chain(&slopes)) {
            assert!(found == expected || (found - expected).abs() < 1e-12, "{f:?}: {value:?}, {slope:?}");
        }
    }
    let flat = h.matrix(&[4], &[0.0; 4]).unwrap();
    let out = h.output(&[2, 2]).unwrap();
    h.run(|| {
        is_shape(linalg::elementwise(&flat, Function::Exp, &out), "elementwise", "into", &[4], &[2, 2]);
        let backward = linalg::elementwise_backward(&x, Function::Exp, &flat, &out);
        is_shape(backward, "elementwise-backward", "grad", &[2, 2], &[4]);
        let endless = linalg::elementwise(&x, Function::Power(f32::INFINITY), &out).unwrap_err();
        assert!(endless.to_string().contains("elementwise: the power inf; a finite"), "{endless}");
        is_shape(linalg::axpby(1.0, &x, 1.0, &flat, &out), "axpby", "y", &[2, 2], &[4]);
        is_shape(linalg::multiply(&flat, &flat, &out), "multiply", "into", &[4], &[2, 2]);
    });
}

#[test]
fn softmax_and_cross_entropy() {
    let h = host(3);
    let ln = f64::ln;
    let x = h.matrix(&[3, 2], &[0.0, ln(3.0), 1000.0, 1000.0, 0.0, 0.0]).unwrap();
    near(&written(&h, &[3, 2], |o| linalg::softmax(&x, o)), &[0.25, 0.75, 0.5, 0.5, 0.5, 0.5]);
    let (labels, rows) = (h.ids(&[1, 0, 9]).unwrap(), h.ids(&[0, 1]).unwrap());
    let losses = h.output(&[3, 1]).unwrap();
    let grad = written(&h, &[3, 2], |o| linalg::softmax_cross_entropy(&x, &labels, &rows, 0.5, &losses, o));
    near(&grad, &[0.125, -0.125, -0.25, 0.25, 0.0, 0.0]);
    near(&h.values(&losses).unwrap(), &[0.5 * ln(4.0 / 3.0), 0.5 * ln(2.0), 0.0]);
    let out = h.output(&[3, 2]).unwrap();
    let call = |labels: &[u32], rows: &[u32]| {
        let (labels, rows) = (h.ids(labels).unwrap(), h.ids(rows).unwrap());
        h.run(|| linalg::softmax_cross_entropy(&x, &labels, &rows, 1.0, &losses, &out))
    };
    let name = "softmax-cross-entropy";
    is_shape(call(&[0, 1], &[0]), name, "labels", &[3], &[2]);
    is_argument(call(&[0, 1, 2], &[2]), "row 2 has label 2; there are 2 classes");
    is_argument(call(&[0, 1, 1], &[3]), "rows[0] is 3; there are 3 rows");
    is_argument(call(&[0, 1, 1], &[1, 1]), "rows must ascend");
    is_argument(call(&[0, 1, 1], &[2, 0]), "rows must ascend");
}

#[test]
fn rows_by_index() {
    let h = host(3);
    let x = h.matrix(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let rows = h.ids(&[2, 0, 2]).unwrap();
    let gathered = written(&h, &[3, 2], |o| linalg::gather_rows(&x, &rows, o));
    assert_eq!(gathered, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    let scattered = written(&h, &[4, 2], |o| linalg::scatter_add_rows(&x, &rows, o));
    assert_eq!(scattered, [3.0, 4.0, 0.0, 0.0, 6.0, 8.0, 0.0, 0.0]);
    let (short, none) = (h.output(&[2, 2]).unwrap(), h.ids(&[]).unwrap());
    h.run(|| {
        is_shape(linalg::gather_rows(&x, &rows, &short), "gather-rows", "into", &[3, 2], &[2, 2]);
        is_argument(linalg::scatter_add_rows(&x, &rows, &short), "rows[0] is 2; there are 2 rows of into");
        is_shape(linalg::scatter_add_rows(&x, &none, &short), "scatter-add-rows", "rows", &[3], &[0]);
    });
}

#[test]
fn reductions() {
    let h = host(3);
    let x = h.matrix(&[3, 2], &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]).unwrap();
    assert_eq!(written(&h, &[2], |o| linalg::sum_rows(&x, o)), [9.0, -4.0]);
    assert_eq!(written(&h, &[1, 2], |o| linalg::sum_rows(&x, o)), [9.0, -4.0]);
    let columns = |by| written(&h, &[3, 1], |o| linalg::reduce_columns(&x, by, o));
    assert_eq!(columns(Reduction::Sum), [-1.0, 7.0, -1.0]);
    assert_eq!(columns(Reduction::Mean), [-0.5, 3.5, -0.5]);
    assert_eq!(columns(Reduction::Max), [1.0, 4.0, 5.0]);
    assert_eq!(h.nearest_kink(), 1.0);
    let offsets = h.ids(&[0, 2, 2, 3]).unwrap();
    let segments = |by| written(&h, &[3, 2], |o| linalg::reduce_segments(&x, &offsets, by, o));
    assert_eq!(segments(Reduction::Sum), [4.0, 2.0, 0.0, 0.0, 5.0, -6.0]);
    assert_eq!(segments(Reduction::Mean), [2.0, 1.0, 0.0, 0.0, 5.0, -6.0]);
    assert_eq!(segments(Reduction::Max), [3.0, 4.0, 0.0, 0.0, 5.0, -6.0]);
    let out = h.output(&[3, 2]).unwrap();
    for wrong in [&[][..], &[0], &[0, 2], &[1, 3], &[0, 2, 1, 3], &[0, 4]] {
        let offsets = h.ids(wrong).unwrap();
        let failed = h.run(|| linalg::reduce_segments(&x, &offsets, Reduction::Sum, &out));
        is_argument(failed, "offsets must ascend from 0 to 3");
    }
    is_shape(h.run(|| linalg::sum_rows(&x, &out)), "sum-rows", "into", &[1, 2], &[3, 2]);
}

#[test]
fn runs_of_rows() {
    let h = host(2);
    let x = h.matrix(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
    let y = h.matrix(&[2, 2, 2], &[1.0, 0.0, 0.0, 2.0, 1.0, 1.0, -1.0, 0.5]).unwrap();
    let row = h.matrix(&[4], &[1.0, -1.0, 0.5, 0.0]).unwrap();
    assert_eq!(written(&h, &[2, 2], |o| linalg::inner(&x, &y, o)), [1.0, 8.0, 11.0, -3.0]);
    assert_eq!(written(&h, &[2, 2], |o| linalg::inner(&x, &row, o)), [-1.0, 1.5, -1.0, 3.5]);
    let by = h.matrix(&[2, 2], &[2.0, 0.0, -1.0, 10.0]).unwrap();
    let scaled = written(&h, &[2, 2, 2], |o| linalg::scale(&x, &by, o));
    assert_eq!(scaled, [2.0, 4.0, 0.0, 0.0, -5.0, -6.0, 70.0, 80.0]);
    let scaled = written(&h, &[2, 2, 2], |o| linalg::scale(&row, &by, o));
    assert_eq!(scaled, [2.0, -2.0, 0.0, 0.0, -1.0, 1.0, 5.0, 0.0]);
    h.run(|| {
        // A run a row.
        let flat = x.reshape(&[2, 4]).unwrap();
        assert_eq!(written(&h, &[2, 1], |o| linalg::inner(&flat, &row, o)), [0.5, 2.5]);
        let by = by.columns(0, 1).unwrap();
        let scaled = written(&h, &[2, 4], |o| linalg::scale(&flat, &by, o));
        assert_eq!(scaled, [2.0, 4.0, 6.0, 8.0, -5.0, -6.0, -7.0, -8.0]);
        let out = h.output(&[2, 2]).unwrap();
        is_shape(linalg::inner(&x, &flat, &out), "inner", "y", &[2, 2, 2], &[2, 4]);
        is_shape(linalg::inner(&flat, &row, &out), "inner", "into", &[2, 1], &[2, 2]);
        is_shape(linalg::inner(&row, &row, &out), "inner", "x", &[0, 0, 0], &[4]);
        is_shape(linalg::scale(&flat, &by, &out), "scale", "x", &[2, 2], &[2, 4]);
        let out = h.output(&[2, 2, 2]).unwrap();
        is_shape(linalg::scale(&x, &by, &out), "scale", "by", &[2, 2], &[2, 1]);
    });
}

#[test]
fn softmax_over_segments() {
    let h = host(4);
    let ln = f64::ln;
    let x = h.matrix(&[4, 2], &[0.0, 1.0, ln(3.0), 1.0, 500.0, -7.0, 500.0, -7.0 + ln(4.0)]).unwrap();
    let offsets = h.ids(&[0, 2, 2, 4]).unwrap();
    let state = written(&h, &[3, 4], |o| linalg::softmax_segments(&x, &offsets, o));
    let expected = [ln(3.0), 1.0, 0.75, 0.5, 0.0, 0.0, 0.0, 0.0, 500.0, -7.0 + ln(4.0), 0.5, 0.8];
    near(&state, &expected);
    assert_eq!(h.nearest_kink(), f64::INFINITY, "softmax has none");
    let (state, owners) = (h.matrix(&[3, 4], &state).unwrap(), h.ids(&[0, 0, 2, 2]).unwrap());
    let state = written(&h, &[4, 4], |o| linalg::gather_rows(&state, &owners, o));
    let state = h.matrix(&[4, 4], &state).unwrap();
    let values = written(&h, &[4, 2], |o| linalg::softmax_values(&x, &state, o));
    near(&values, &[0.25, 0.5, 0.75, 0.5, 0.5, 0.2, 0.5, 0.8]);
    let out = h.output(&[3, 2]).unwrap();
    h.run(|| {
        is_shape(linalg::softmax_segments(&x, &offsets, &out), "softmax-segments", "state", &[3, 4], &[3, 2]);
        is_shape(linalg::softmax_values(&x, &x, &out), "softmax-values", "state", &[4, 4], &[4, 2]);
        let short = h.ids(&[0, 3]).unwrap();
        is_argument(linalg::softmax_segments(&x, &short, &out), "offsets must ascend from 0 to 4");
    });
}

#[test]
fn rows_may_have_any_global_ids() {
    let ids = [7, 1 << 40, 7];
    let h = Reference::with_row_ids(Context { training: true, ..Context::default() }, &ids);
    assert_eq!(h.run(|| crate::row_ids(1, 2)).unwrap(), ids[1..]);
    let x = h.matrix(&[3, 64], &[1.0; 192]).unwrap();
    let by = Prologue { dropout: Some(Dropout { probability: 0.5, stream: 0 }), ..PLAIN };
    let y = written(&h, &[3, 64], |o| linalg::apply(&x, &by, o));
    assert_eq!(y[..64], y[128..], "one id, one mask");
    assert_ne!(y[..64], y[64..128]);
}

#[test]
fn gradients_are_reduced_and_not_written() {
    let h = host(3);
    let x = h.matrix(&[3, 1], &[1.0, 2.0, 4.0]).unwrap();
    let part = h.matrix(&[2, 1], &[1.0, 2.0]).unwrap();
    let (sum, square) = (h.gradient(&[1]).unwrap(), h.gradient(&[1, 1]).unwrap());
    h.run(|| {
        assert!(matches!(sum.write_rows(0, &[1.0f32]), Err(Error::Unsupported(_))));
        assert!(matches!(linalg::apply(&x, &PLAIN, &square), Err(Error::Shape { .. })));
        let unit = h.matrix(&[1, 1], &[1.0]).unwrap();
        let failed = linalg::axpby(1.0, &unit, 0.0, &unit, &square);
        assert!(matches!(failed, Err(Error::Unsupported(_))), "{failed:?}");
        is_shape(linalg::sum_rows(&part, &sum), "sum-rows", "rows summed over", &[3], &[2]);
        linalg::sum_rows(&x, &sum).unwrap();
        linalg::matmul(&x, true, &x, false, false, &square).unwrap();
    });
    assert_eq!(h.values(&sum).unwrap(), [7.0]);
    assert_eq!(h.values(&square).unwrap(), [21.0]);
}

#[test]
fn views_and_scratch() {
    let h = host(3);
    let x = h.matrix(&[3, 4], &(0..12).map(f64::from).collect::<Vec<f64>>()).unwrap();
    let before = h.handles();
    h.run(|| {
        let view = x.rows(1, 2).unwrap().columns(1, 2).unwrap();
        assert_eq!(view.shape(), [2, 2]);
        assert_eq!(view.read_rows::<f32>(0, 2).unwrap(), [5.0, 6.0, 9.0, 10.0]);
        assert_eq!(
            x.reshape(&[3, 2, 2]).unwrap().rows(2, 1).unwrap().read_rows::<f64>(0, 1).unwrap(),
            [8.0, 9.0, 10.0, 11.0]
        );
        assert!(matches!(x.reshape(&[4, 3]), Err(Error::Shape { .. })));
        assert!(matches!(x.reshape(&[3, 2, 2, 1, 1]), Err(Error::Argument(_))));
        assert!(matches!(x.columns(3, 2), Err(Error::Argument(_))));
        is_argument(x.rows(3, 1).map(|_| ()), "rows 3 to 4 asked for; there are 3");
        is_argument(x.read_rows::<f64>(u32::MAX, u32::MAX).map(|_| ()), "asked for");
        assert_eq!(x.blocks().map(|b| b.unwrap().0).collect::<Vec<u32>>(), [0]);

        let scratch = Out::create(&[3, 2]).unwrap();
        scratch.rows(1, 2).unwrap().write_rows(0, &[1.0f64, 2.0, 3.0, 4.0]).unwrap();
        let view = scratch.rows(0, 1).unwrap();
        is_argument(scratch.write_rows(2, &[0.0f32; 4]), "asked for");
        is_argument(scratch.write_rows(0, &[0.0f32; 3]), "no whole rows");
        view.write_rows(0, &[0.1f32, 0.0]).unwrap();
        let finished = scratch.finish().unwrap();
        assert_eq!(finished.read_rows::<f64>(0, 3).unwrap(), [f64::from(0.1f32), 0.0, 1.0, 2.0, 3.0, 4.0]);
        is_argument(view.write_rows(0, &[0.0f32; 2]), "finished");
        is_argument(Out::create(&[2, 1]).unwrap().finish().map(|_| ()), "row 0");
        is_argument(h.output(&[1, 1]).unwrap().finish().map(|_| ()), "scratch");

        assert!(matches!(Out::create(&[1 << 20, 1 << 20]), Err(Error::Limit { asked: 0x100_0000_0000, .. })));
        assert!(matches!(Out::create(&[1 << 30, 0]), Err(Error::Limit { .. })));
        is_argument(Out::create(&[]).map(|_| ()), "one to four dimensions");
        is_argument(Out::create(&[1; 5]).map(|_| ()), "one to four dimensions");
        is_argument(Matrix::borrowed(9999).rows(0, 0).map(|_| ()), "names no matrix");
        let ids = Ids::create(&[3, 1, 2]).unwrap();
        assert_eq!((ids.len(), ids.read(1, 2).unwrap()), (3, vec![1, 2]));
        is_argument(ids.read(1, 3).map(|_| ()), "there are 3");
        assert_eq!(crate::row_ids(1, 2).unwrap(), [6, 7]);
        assert_eq!(crate::random_key(4), random::key(42, random::KERNEL, 3, 1, 4));
        crate::log("once");
        crate::log(&"é".repeat(4096));
    });
    assert_eq!(h.handles(), before + 1, "only the output made here is left");
    let lines = h.log_lines();
    assert_eq!((lines[0].as_str(), lines[1].len(), lines.len()), ("once", LOG_LINE_BYTES_MAX, 2));
}

#[test]
fn handles_are_limited() {
    let h = host(1);
    let failed = (0..=HANDLES_MAX).map(|_| h.ids(&[])).find_map(Result::err);
    let expected = (HANDLES_MAX, HANDLES_MAX + 1);
    assert!(matches!(failed, Some(Error::Limit { allowed, asked, .. }) if (allowed, asked) == expected));
}
