//! `pool2d` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_pool2d::Pool2d;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

fn attributes([height, width, window, stride]: [i64; 4], by: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("height", Value::Integer(height)),
        ("width", Value::Integer(width)),
        ("window", Value::Integer(window)),
        ("stride", Value::Integer(stride)),
        ("by", Value::Text(by.to_owned())),
    ]
}

fn open(extents: [i64; 4], by: &str, inputs: &[Vec<u32>]) -> Result<Pool2d> {
    let all = attributes(extents, by).into_iter().map(|(name, value)| (name.to_owned(), value));
    Pool2d::open(inputs, &Attributes::new(all.collect()))
}

#[test]
fn gradients() {
    for by in ["max", "mean"] {
        for extents in [[2, 2, 2, 0], [4, 6, 2, 0], [5, 4, 3, 1], [3, 3, 1, 2], [5, 5, 2, 3]] {
            for rows in [0, 1, 3] {
                let columns = (extents[0] * extents[1] * 2) as u32;
                let attributes = attributes(extents, by);
                let report = check::gradients::<Pool2d>(&[vec![columns]], &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
                assert_eq!(report.checked, (rows * columns) as usize);
            }
        }
    }
}

#[test]
fn forward_is_the_formula() {
    let x: Vec<f64> = (0..12).map(|v| f64::from(v * 5 % 12)).collect();
    // Rows [0, 5, 10, 3], [8, 1, 6, 11], [4, 9, 2, 7].
    for (by, expected) in [("max", [8.0, 11.0]), ("mean", [3.5, 7.5])] {
        let host = Reference::new(Context { rows: 1, ..Context::default() });
        let kernel = open([3, 4, 2, 0], by, &[vec![12]]).unwrap();
        let (input, y) = (host.matrix(&[1, 12], &x).unwrap(), host.output(&[1, 2]).unwrap());
        let io = Forward { inputs: &[&input], parameters: &[], outputs: &[&y], kept: &[] };
        host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
        assert_eq!(host.values(&y).unwrap(), expected, "{by}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (extents, by, inputs) in [
        ([3, 4, 5, 0], "max", vec![vec![12]]),
        ([3, 4, 2, 0], "sum", vec![vec![12]]),
        ([3, 4, 2, 0], "max", vec![vec![13]]),
        ([3, 4, 2, 0], "max", vec![]),
        ([3, 4, 2, -1], "max", vec![vec![12]]),
        ([0, 4, 2, 1], "max", vec![vec![12]]),
    ] {
        assert!(
            matches!(open(extents, by, &inputs), Err(Error::Argument(_))),
            "{extents:?}, {by}, {inputs:?}"
        );
    }
}
