//! `activate` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_activate::Activate;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_121;

fn text(v: &str) -> Value {
    Value::Text(v.to_owned())
}

#[test]
fn gradients() {
    for activation in
        ["identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh", "gelu", "gelu-tanh", "silu", "softplus"]
    {
        for bias in [true, false] {
            for dropout in [0.0, 0.5] {
                for rows in [0, 1, 7] {
                    let attributes = [
                        ("activation", text(activation)),
                        ("input-bias", Value::Flag(bias)),
                        ("dropout", Value::Number(dropout)),
                    ];
                    let report = check::gradients::<Activate>(&[vec![5]], &attributes, rows, SEED)
                        .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                    assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
                    assert_eq!(report.checked, 5 * rows as usize + if bias { 5 } else { 0 });
                }
            }
        }
    }
}

/// y[i][j] = mask / (1 - p) * max(x[i][j] + c[j], 0).
#[test]
fn forward_is_the_formula() {
    let context = Context { seed: SEED, epoch: 2, layer: 3, training: true, first_row: 40, rows: 3 };
    let attributes = Attributes::new(vec![
        ("input-bias".to_owned(), Value::Flag(true)),
        ("activation".to_owned(), text("relu")),
        ("dropout".to_owned(), Value::Number(0.25)),
        ("slope".to_owned(), Value::Number(0.2)),
    ]);
    let kernel = Activate::open(&[vec![2]], &attributes).unwrap();
    let host = Reference::new(context);
    let (x, c) = ([1.0, -2.0, 0.5, 3.0, -0.25, 0.0], [0.5, 1.0]);
    let y = host.output(&[3, 2]).unwrap();
    let (rows, bias) = (host.matrix(&[3, 2], &x).unwrap(), host.matrix(&[2], &c).unwrap());
    let io = Forward { inputs: &[&rows], parameters: &[&bias], outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    let key = random::key(SEED, random::DROPOUT, 2, 3, 0);
    let expected: Vec<f64> = (0..6)
        .map(|at| {
            let dropped = random::bits32(key, 40 + at as u64 / 2, at as u32 % 2) < 1 << 30;
            if dropped { 0.0 } else { (x[at] + c[at % 2]).max(0.0) / 0.75 }
        })
        .collect();
    let found = host.values(&y).unwrap();
    assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?}, not {expected:?}");
}

/// y = x where x > 0, else slope * x; the gradient is 1 or the slope.
#[test]
fn the_slope_of_leaky_relu_is_an_attribute() {
    let leaky = |slope: Option<f64>| {
        let mut attributes = vec![("activation", text("leaky-relu"))];
        attributes.extend(slope.map(|slope| ("slope", Value::Number(slope))));
        attributes
    };
    for slope in [0.0, 0.01, 0.2, 0.9] {
        let report = check::gradients::<Activate>(&[vec![5]], &leaky(Some(slope)), 7, SEED)
            .unwrap_or_else(|e| panic!("seed {SEED}, slope {slope}: {e}"));
        assert!(report.worst < 1e-7, "seed {SEED}, slope {slope}: {report:?}");
    }
    let context = Context { seed: SEED, epoch: 0, layer: 0, training: true, first_row: 0, rows: 1 };
    for (slope, expected) in [(None, [2.0, -0.4]), (Some(0.25), [2.0, -0.5]), (Some(0.0), [2.0, 0.0])] {
        let host = Reference::new(context);
        let defaults = [("input-bias", Value::Flag(false)), ("dropout", Value::Number(0.0))];
        let mut all = leaky(slope);
        all.extend(defaults);
        all.extend(slope.is_none().then_some(("slope", Value::Number(0.2))));
        let attributes = all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let kernel = Activate::open(&[vec![2]], &Attributes::new(attributes)).unwrap();
        let (x, y) = (host.matrix(&[1, 2], &[2.0, -2.0]).unwrap(), host.output(&[1, 2]).unwrap());
        let io = Forward { inputs: &[&x], parameters: &[], outputs: &[&y], kept: &[] };
        host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
        let found = host.values(&y).unwrap();
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-7), "{slope:?}: {found:?}");
    }
    for wrong in [-0.1, 1.0, f64::NAN] {
        assert!(check::gradients::<Activate>(&[vec![5]], &leaky(Some(wrong)), 1, SEED).is_err(), "{wrong}");
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let attributes = Attributes::new(vec![
        ("input-bias".to_owned(), Value::Flag(false)),
        ("activation".to_owned(), text("relu")),
        ("dropout".to_owned(), Value::Number(0.0)),
        ("slope".to_owned(), Value::Number(0.2)),
    ]);
    assert!(Activate::open(&[], &attributes).is_err());
    assert!(Activate::open(&[vec![2], vec![2]], &attributes).is_err());
    assert!(matches!(Activate::open(&[vec![2, 2]], &attributes), Err(Error::Shape { .. })));
}
