//! `normalise` against its formulas, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_normalise::Normalise;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_123;

fn given(by: &str, bias: bool) -> [(&'static str, Value); 2] {
    [("by", Value::Text(by.to_owned())), ("input-bias", Value::Flag(bias))]
}

fn forward(by: &str, rows: &[f64], columns: u32, bias: Option<&[f64]>, affine: &[[f64; 3]]) -> Vec<f64> {
    let attributes = given(by, bias.is_some()).map(|(name, value)| (name.to_owned(), value));
    let kernel = Normalise::open(&[vec![columns]], &Attributes::new(attributes.into())).unwrap();
    let count = rows.len() as u32 / columns;
    let host = Reference::new(Context { rows: count, ..Context::default() });
    let x = host.matrix(&[count, columns], rows).unwrap();
    let parameters: Vec<Matrix> = bias
        .into_iter()
        .chain(affine.iter().map(|a| &a[..]))
        .map(|values| host.matrix(&[columns], values).unwrap())
        .collect();
    let parameters: Vec<&Matrix> = parameters.iter().collect();
    let y = host.output(&[count, columns]).unwrap();
    let io = Forward { inputs: &[&x], parameters: &parameters, outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    host.values(&y).unwrap()
}

#[test]
fn gradients() {
    for by in ["layer", "rms", "l2", "batch"] {
        for bias in [true, false] {
            for columns in [1, 2, 5, 33] {
                for rows in [0, 1, 4] {
                    // One column is its own mean: the derivative is zero but for rounding.
                    if (by, columns) == ("l2", 1) {
                        continue;
                    }
                    let attributes = given(by, bias);
                    let report = check::gradients::<Normalise>(&[vec![columns]], &attributes, rows, SEED)
                        .unwrap_or_else(|e| panic!("seed {SEED}, {rows} x {columns}, {attributes:?}: {e}"));
                    assert!(
                        report.worst < 1e-6,
                        "seed {SEED}, {rows} x {columns}, {attributes:?}: {report:?}"
                    );
                    let affine = match by {
                        "l2" => 0,
                        "rms" => 1,
                        _ => 2,
                    };
                    let parameters = columns * (u32::from(bias) + affine);
                    assert_eq!(report.checked as u32, rows * columns + parameters);
                }
            }
        }
    }
}

/// Rows (1, 2, 3) and (-1, 0, 4) + c: by hand.
#[test]
fn forward_is_the_formula() {
    let close = |found: &[f64], expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-9), "{found:?}, not {expected:?}");
    };
    let scale = 1.0 / (2.0 / 3.0 + f64::from(1e-5f32)).sqrt();
    let affine = [[1.0, 2.0, 1.0], [0.0, 0.5, 1.0]];
    close(&forward("layer", &[1.0, 2.0, 3.0], 3, None, &affine), &[-scale, 0.5, 1.0 + scale]);
    let found = forward("layer", &[0.0, 0.0, 0.0], 3, Some(&[1.0, 2.0, 3.0]), &affine);
    close(&found, &[-scale, 0.5, 1.0 + scale]);
    close(&forward("l2", &[3.0, 4.0, 0.0, 0.0], 2, None, &[]), &[0.6, 0.8, 0.0, 0.0]);
    let found = forward("batch", &[0.0, -1.0, 2.0], 3, Some(&[1.0, 1.0, 0.0]), &affine);
    close(&found, &[1.0, 0.5, 3.0]);
    close(&forward("l2", &[2.0, 0.0], 2, Some(&[1.0, 4.0]), &[]), &[0.6, 0.8]);
}

#[test]
fn a_row_of_zeros_has_a_finite_gradient() {
    let attributes = given("l2", false).map(|(name, value)| (name.to_owned(), value));
    let kernel = Normalise::open(&[vec![2]], &Attributes::new(attributes.into())).unwrap();
    let host = Reference::new(Context { rows: 1, ..Context::default() });
    let (x, d) = (host.matrix(&[1, 2], &[0.0, 0.0]).unwrap(), host.matrix(&[1, 2], &[1.0, 2.0]).unwrap());
    let dx = host.output(&[1, 2]).unwrap();
    let io = Backward {
        inputs: &[&x],
        outputs: &[],
        kept: &[],
        parameters: &[],
        gradients: &[&d],
        input_gradients: &[Some(&dx)],
        parameter_gradients: &[],
    };
    host.run(|| kernel.backward::<f64>(&host.context().task(), io)).unwrap();
    assert!(host.values(&dx).unwrap().iter().all(|v| v.is_finite()));
}

#[test]
fn wrong_attributes_are_refused() {
    let open = |inputs: &[Vec<u32>], by: &str| {
        let attributes = given(by, false).map(|(name, value)| (name.to_owned(), value));
        Normalise::open(inputs, &Attributes::new(attributes.into())).unwrap_err()
    };
    assert!(
        matches!(open(&[vec![3]], "all"), Error::Argument(text) if text.contains("layer, rms, l2 and batch"))
    );
    assert!(matches!(open(&[vec![0]], "layer"), Error::Shape { .. }));
    assert!(matches!(open(&[vec![2, 2]], "layer"), Error::Shape { .. }));
    assert!(matches!(open(&[], "layer"), Error::Argument(_)));
}
