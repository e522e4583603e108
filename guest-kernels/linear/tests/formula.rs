//! `linear` against its formula written down without the host's linear algebra, in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_linear::Linear;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel};

/// Of the run; the values follow it.
const SEED: u64 = 77;
const CONTEXT: Context = Context { seed: SEED, epoch: 9, layer: 2, training: true, first_row: 100, rows: 6 };

#[derive(Debug, Clone, Copy)]
struct Case {
    columns: u32,
    features: u32,
    bias: bool,
    activation: &'static str,
    input_bias: bool,
    input_activation: &'static str,
    dropout: f64,
    training: bool,
}

/// In (-2, 2), from the contract's generator with a purpose that no host uses.
fn values(count: usize, stream: u32) -> Vec<f64> {
    let key = random::key(SEED, 9, 0, 0, stream);
    (0..count as u64).map(|i| random::uniform(random::bits32(key, i, 0)) * 4.0 - 2.0).collect()
}

fn f(name: &str, v: f64) -> f64 {
    match name {
        "identity" => v,
        "relu" => v.max(0.0),
        "leaky-relu" => v.max(f64::from(0.2f32) * v),
        "elu" => v.max(0.0) + (v.min(0.0).exp() - 1.0),
        "sigmoid" => 1.0 / (1.0 + (-v).exp()),
        "tanh" => (v.exp() - (-v).exp()) / (v.exp() + (-v).exp()),
        _ => panic!("{name}"),
    }
}

/// y[i][j] = f(sum over l of u[i][l] w[l][j] + b[j]), u[i][l] = mask / (1 - p) * g(x[i][l] + c[l]).
fn formula(case: &Case, x: &[f64], c: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let (k, m) = (case.columns as usize, case.features as usize);
    let key = random::key(SEED, random::DROPOUT, CONTEXT.epoch, CONTEXT.layer, 0);
    let mut y = vec![];
    for i in 0..CONTEXT.rows as usize {
        for j in 0..m {
            let mut z = if case.bias { b[j] } else { 0.0 };
            for l in 0..k {
                let bits = random::bits32(key, CONTEXT.first_row + i as u64, l as u32);
                let drops = case.training && f64::from(bits) < (case.dropout * 4_294_967_296.0).ceil();
                let scale = if case.training { 1.0 / (1.0 - case.dropout) } else { 1.0 };
                let shift = if case.input_bias { c[l] } else { 0.0 };
                let u = f(case.input_activation, x[i * k + l] + shift) * scale;
                z += if drops { 0.0 } else { u * w[l * m + j] };
            }
            y.push(f(case.activation, z));
        }
    }
    y
}

/// What the kernel's forward writes, computed in `R`.
fn forward<R: Real>(case: &Case, x: &[f64], c: &[f64], w: &[f64], b: &[f64], transposed: bool) -> Vec<f64> {
    let attributes = Attributes::new(vec![
        ("out-features".to_owned(), Value::Integer(i64::from(case.features))),
        ("bias".to_owned(), Value::Flag(case.bias)),
        ("activation".to_owned(), Value::Text(case.activation.to_owned())),
        ("input-bias".to_owned(), Value::Flag(case.input_bias)),
        ("input-activation".to_owned(), Value::Text(case.input_activation.to_owned())),
        ("dropout".to_owned(), Value::Number(case.dropout)),
        ("transposed".to_owned(), Value::Flag(transposed)),
    ]);
    let kernel = Linear::open(&[vec![case.columns]], &attributes).unwrap();
    let host = Reference::new(Context { training: case.training, ..CONTEXT });
    let x = host.matrix(&[CONTEXT.rows, case.columns], x).unwrap();
    let c = host.matrix(&[case.columns], c).unwrap();
    let (columns, features) = (case.columns, case.features);
    let shape = if transposed { [features, columns] } else { [columns, features] };
    let w = host.matrix(&shape, w).unwrap();
    let b = host.matrix(&[case.features], b).unwrap();
    let mut parameters = vec![];
    parameters.extend(case.input_bias.then_some(&c));
    parameters.push(&w);
    parameters.extend(case.bias.then_some(&b));
    let names: Vec<String> = kernel.signature().parameters.into_iter().map(|p| p.name).collect();
    assert_eq!(names.len(), parameters.len(), "{names:?}");
    let y = host.output(&[CONTEXT.rows, case.features]).unwrap();
    let io = Forward { inputs: &[&x], parameters: &parameters, outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<R>(&host.context().task(), io)).unwrap();
    host.values(&y).unwrap()
}

#[test]
fn forward_is_the_formula() {
    let activations = ["identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh"];
    let mut compared = 0;
    for (columns, features) in [(1, 1), (1, 4), (5, 1), (8, 3)] {
        for (at, activation) in activations.into_iter().enumerate() {
            for (bias, input_bias) in [(true, true), (true, false), (false, true), (false, false)] {
                for (dropout, training) in [(0.0, true), (0.5, true), (0.5, false)] {
                    let input_activation = activations[(at + compared) % activations.len()];
                    let case = Case {
                        columns,
                        features,
                        bias,
                        activation,
                        input_bias,
                        input_activation,
                        dropout,
                        training,
                    };
                    let x = values((CONTEXT.rows * columns) as usize, 0);
                    let (c, w) = (values(columns as usize, 1), values((columns * features) as usize, 2));
                    let b = values(features as usize, 3);
                    let expected = formula(&case, &x, &c, &w, &b);
                    let found = forward::<f64>(&case, &x, &c, &w, &b, false);
                    assert_eq!(found.len(), expected.len());
                    for (found, expected) in found.iter().zip(&expected) {
                        let apart = (found - expected).abs();
                        assert!(
                            apart <= 1e-12 * expected.abs().max(1.0),
                            "{case:?}: {found}, not {expected}"
                        );
                    }
                    assert_eq!(
                        found,
                        forward::<f32>(&case, &x, &c, &w, &b, false),
                        "the host does all of it"
                    );
                    let turned =
                        |at: usize| w[at % columns as usize * features as usize + at / columns as usize];
                    let turned: Vec<f64> = (0..w.len()).map(turned).collect();
                    let transposed = forward::<f64>(&case, &x, &c, &turned, &b, true);
                    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
                    assert!(transposed.iter().zip(&expected).all(near), "{case:?}: {transposed:?}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 4 * 6 * 4 * 3);
}
