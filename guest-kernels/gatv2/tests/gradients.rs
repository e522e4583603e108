//! `gatv2` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_gatv2::Gatv2;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, check};

const SEED: u64 = 20_261_122;

fn attributes(heads: i64, features: i64, average: bool, dropout: f64) -> [(&'static str, Value); 5] {
    [
        ("heads", Value::Integer(heads)),
        ("features", Value::Integer(features)),
        ("average", Value::Flag(average)),
        ("negative-slope", Value::Number(0.25)),
        ("dropout", Value::Number(dropout)),
    ]
}

fn open(source: u32, target: u32, all: [(&'static str, Value); 5]) -> Result<Gatv2> {
    let all = Attributes::new(all.map(|(n, v)| (n.to_owned(), v)).into());
    Gatv2::open(&[source], &[target], 0, &all)
}

#[test]
fn gradients() {
    for (heads, features) in [(1, 1), (1, 4), (3, 2), (8, 1)] {
        for (average, dropout) in [(false, 0.0), (false, 0.4), (true, 0.0), (true, 0.4)] {
            for (rows, known) in [(0, 2), (1, 0), (2, 1), (5, 0), (5, 3)] {
                let attributes = attributes(heads, features, average, dropout);
                let row = [(heads * features) as u32];
                let report = check::edge_gradients::<Gatv2>(&row, &row, known, &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
            }
        }
    }
}

/// Two edges into the first target and none into the second, two heads of two values.
fn forward(average: bool) -> Vec<f64> {
    let kernel = open(4, 4, attributes(2, 2, average, 0.9)).unwrap();
    let host = Reference::with_row_ids(Context::default(), &[1, 2]);
    let z = host.matrix(&[2, 4], &[1.0, 2.0, 3.0, 4.0, -5.0, 6.0, 7.0, -8.0]).unwrap();
    let t = host.matrix(&[2, 4], &[1.0, -2.0, 0.0, 0.0, 9.0, 9.0, 9.0, 9.0]).unwrap();
    let a = host.matrix(&[4], &[0.5, 1.0, -1.0, 1.0]).unwrap();
    let (offsets, owners) = (host.ids(&[0, 2, 2]).unwrap(), host.ids(&[0, 0]).unwrap());
    let y = host.output(&[2, if average { 2 } else { 4 }]).unwrap();
    let kept = host.output(&[2, 4]).unwrap();
    let io = EdgeForward { source: &z, target: &t, parameters: &[&a], output: &y, kept: &[&kept] };
    let (offsets, owners) = (&offsets, &owners);
    let (rows, edges, features) = (2, 2, None);
    let task = EdgeTask { training: false, epoch: 0, layer: 0, rows, edges, offsets, owners, features };
    host.run(|| kernel.forward::<f64>(&task, io)).unwrap();
    host.values(&y).unwrap()
}

#[test]
fn forward_is_the_formula() {
    // z + t = [2, 0 | 3, 4] and [-4, 4 | 7, -8]; leaky: [2, 0 | 3, 4] and [-1, 4 | 7, -2].
    // Scores: [1 | 1] and [3.5 | -9].
    let (near, far) = (1.0 / (1.0 + 2.5f64.exp()), 1.0 / (1.0 + 10f64.exp()));
    let head = |w: f64, one: [f64; 2], two: [f64; 2]| [0, 1].map(|i| w * one[i] + (1.0 - w) * two[i]);
    let first = head(near, [1.0, 2.0], [-5.0, 6.0]);
    let second = head(1.0 - far, [3.0, 4.0], [7.0, -8.0]);
    let close = |found: Vec<f64>, expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        let apart = found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-12, "{found:?}, not {expected:?}");
    };
    close(forward(false), &[first[0], first[1], second[0], second[1], 0.0, 0.0, 0.0, 0.0]);
    close(forward(true), &[(first[0] + second[0]) / 2.0, (first[1] + second[1]) / 2.0, 0.0, 0.0]);
}

#[test]
fn wrong_rows_and_attributes_are_refused() {
    let given = || attributes(2, 2, false, 0.0);
    assert!(open(4, 4, given()).is_ok());
    let error = open(4, 2, given()).unwrap_err();
    assert!(matches!(&error, Error::Shape { operand, .. } if operand == "one row of a target"), "{error}");
    assert!(matches!(open(3, 4, given()), Err(Error::Shape { .. })));
    for (heads, features) in [(65_536, 65_536), (1 << 15, 1 << 16), (0, 2)] {
        let error = open(4, 4, attributes(heads, features, false, 0.0)).unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{heads} x {features}: {error}");
    }
    for slope in [1.0, -0.1, f64::NAN] {
        let mut all = given();
        all[3].1 = Value::Number(slope);
        let error = open(4, 4, all).unwrap_err();
        assert!(error.to_string().contains("negative-slope"), "{error}");
    }
}
