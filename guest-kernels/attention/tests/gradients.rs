//! `attention` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_attention::Attention;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_122;

fn attributes(heads: i64, features: i64, input_bias: bool, dropout: f64) -> [(&'static str, Value); 5] {
    let activation = if input_bias { "elu" } else { "identity" };
    [
        ("heads", Value::Integer(heads)),
        ("features", Value::Integer(features)),
        ("input-bias", Value::Flag(input_bias)),
        ("input-activation", Value::Text(activation.to_owned())),
        ("dropout", Value::Number(dropout)),
    ]
}

fn open(input: &[u32], all: [(&'static str, Value); 5]) -> Result<Attention> {
    Attention::open(&[input.to_vec()], &Attributes::new(all.map(|(n, v)| (n.to_owned(), v)).into()))
}

#[test]
fn gradients() {
    for (heads, features) in [(1, 1), (1, 4), (3, 2), (8, 8)] {
        for (input_bias, dropout) in [(false, 0.0), (true, 0.0), (true, 0.4)] {
            for rows in [0, 1, 5] {
                let attributes = attributes(heads, features, input_bias, dropout);
                let report = check::gradients::<Attention>(&[vec![3]], &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
            }
        }
    }
}

#[test]
fn forward_is_the_formula() {
    let kernel = open(&[2], attributes(2, 2, false, 0.0)).unwrap();
    let host = Reference::new(Context { rows: 1, ..Context::default() });
    let x = host.matrix(&[1, 2], &[1.0, 2.0]).unwrap();
    let w = host.matrix(&[2, 4], &[1.0, 0.0, 2.0, 1.0, 0.0, 1.0, -1.0, 3.0]).unwrap();
    let a = host.matrix(&[4], &[1.0, 10.0, 100.0, 1000.0]).unwrap();
    let b = host.matrix(&[4], &[0.5, 0.25, -1.0, 1.0]).unwrap();
    let y = host.output(&[1, 8]).unwrap();
    let io = Forward { inputs: &[&x], parameters: &[&w, &a, &b], outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    assert_eq!(host.values(&y).unwrap(), [1.0, 2.0, 0.0, 7.0, 21.0, 7000.0, 1.0, 7.0]);
}

#[test]
fn wrong_inputs_are_refused() {
    let given = || attributes(2, 2, false, 0.0);
    assert!(matches!(open(&[2, 2], given()), Err(Error::Shape { .. })));
    assert!(matches!(open(&[2], attributes(65_536, 65_536, false, 0.0)), Err(Error::Argument(_))));
    assert!(matches!(open(&[2], attributes(0, 2, false, 0.0)), Err(Error::Argument(_))));
    assert!(Attention::open(&[], &Attributes::new(given().map(|(n, v)| (n.to_owned(), v)).into())).is_err());
}
