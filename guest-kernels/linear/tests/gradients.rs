//! Every gradient of `linear` against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_linear::Linear;
use eciton_sdk::{Value, check};

const SEED: u64 = 20_240_607;
/// What differences in f64 leave.
const ALLOWED: f64 = 1e-7;

fn check(rows: u32, (columns, features): (u32, u32), attributes: &[(&str, Value)]) -> check::Report {
    let mut all = vec![("out-features", Value::Integer(i64::from(features)))];
    all.extend_from_slice(attributes);
    let report = check::gradients::<Linear>(&[vec![columns]], &all, rows, SEED)
        .unwrap_or_else(|e| panic!("seed {SEED}, {rows} x {columns} -> {features}, {attributes:?}: {e}"));
    assert!(
        report.worst < ALLOWED,
        "seed {SEED}, {rows} x {columns} -> {features}, {attributes:?}: {report:?}"
    );
    report
}

fn text(v: &str) -> Value {
    Value::Text(v.to_owned())
}

#[test]
fn combinations_of_attributes() {
    let activations = ["identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh"];
    let mut combinations = 0;
    for (bias, transposed) in [(true, false), (false, false), (true, true), (false, true)] {
        for input_bias in [true, false] {
            for dropout in [0.0, 0.5] {
                for activation in activations {
                    for input_activation in activations {
                        let attributes = [
                            ("bias", Value::Flag(bias)),
                            ("transposed", Value::Flag(transposed)),
                            ("input-bias", Value::Flag(input_bias)),
                            ("dropout", Value::Number(dropout)),
                            ("activation", text(activation)),
                            ("input-activation", text(input_activation)),
                        ];
                        let report = check(5, (4, 3), &attributes);
                        let parameters = 12 + if bias { 3 } else { 0 } + if input_bias { 4 } else { 0 };
                        assert_eq!(report.checked, 20 + parameters, "{attributes:?}");
                        combinations += 1;
                    }
                }
            }
        }
    }
    assert_eq!(combinations, 4 * 2 * 2 * 36);
}

#[test]
fn shapes() {
    for rows in [1, 2, 7] {
        for (columns, features) in [(1, 1), (1, 5), (6, 1), (17, 9), (3, 33)] {
            for dropout in [0.0, 0.5] {
                let attributes = [
                    ("input-bias", Value::Flag(true)),
                    ("dropout", Value::Number(dropout)),
                    ("activation", text("tanh")),
                    ("input-activation", text("relu")),
                ];
                check(rows, (columns, features), &attributes);
            }
        }
    }
}

#[test]
fn an_interval_without_rows() {
    let report = check(0, (3, 2), &[]);
    assert_eq!((report.checked, report.worst), (3 * 2 + 2, 0.0));
}
