//! `sum` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};
use eciton_sum::Sum;

const SEED: u64 = 20_261_122;

fn attributes(first: f64, others: f64, trained: bool) -> [(&'static str, Value); 3] {
    [("first", Value::Number(first)), ("others", Value::Number(others)), ("trained", Value::Flag(trained))]
}

fn open(inputs: usize, first: f64, others: f64, trained: bool) -> Sum {
    let all = attributes(first, others, trained).map(|(name, value)| (name.to_owned(), value));
    Sum::open(&vec![vec![2]; inputs], &Attributes::new(all.into())).unwrap()
}

#[test]
fn gradients() {
    for inputs in [1, 2, 3, 5] {
        for (first, others, trained) in [(1.0, 1.0, false), (0.9, 0.1, false), (1.5, 1.0, true)] {
            for rows in [0, 1, 6] {
                let attributes = attributes(first, others, trained);
                let report = check::gradients::<Sum>(&vec![vec![3]; inputs], &attributes, rows, SEED)
                    .unwrap_or_else(|e| panic!("seed {SEED}, {inputs} x {rows}, {attributes:?}: {e}"));
                assert!(report.worst < 1e-7, "seed {SEED}, {inputs} x {rows}, {attributes:?}: {report:?}");
                assert_eq!(report.checked, 3 * rows as usize * inputs + usize::from(trained));
            }
        }
    }
}

/// y = f x_0 + g (x_1 + x_2); trained, f is 1 + epsilon whatever was given.
#[test]
fn forward_is_the_formula() {
    for trained in [false, true] {
        let kernel = open(3, 0.5, 0.25, trained);
        let host = Reference::new(Context { rows: 2, ..Context::default() });
        let x = [[1.0, 2.0, 3.0, 4.0], [8.0, 0.0, -4.0, 2.0], [4.0, 4.0, 8.0, -2.0]];
        let x: Vec<Matrix> = x.iter().map(|x| host.matrix(&[2, 2], x).unwrap()).collect();
        let x: Vec<&Matrix> = x.iter().collect();
        let epsilon = host.matrix(&[1], &[1.0]).unwrap();
        let parameters: &[&Matrix] = if trained { &[&epsilon] } else { &[] };
        let y = host.output(&[2, 2]).unwrap();
        let io = Forward { inputs: &x, parameters, outputs: &[&y], kept: &[] };
        host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
        let expected = if trained { [5.0, 5.0, 7.0, 8.0] } else { [3.5, 2.0, 2.5, 2.0] };
        assert_eq!(host.values(&y).unwrap(), expected);
    }
}

#[test]
fn what_is_trained_starts_at_what_is_given() {
    let parameters = open(2, 1.25, 1.0, true).signature().parameters;
    assert_eq!(parameters.len(), 1);
    assert_eq!(
        (parameters[0].shape.clone(), parameters[0].initialiser),
        (vec![1], Initialiser::Constant(0.25))
    );
    assert!(open(2, 1.25, 1.0, false).signature().parameters.is_empty());
}

#[test]
fn wrong_inputs_are_refused() {
    let given = || Attributes::new(attributes(1.0, 1.0, false).map(|(n, v)| (n.to_owned(), v)).into());
    assert!(Sum::open(&[], &given()).is_err());
    assert!(matches!(Sum::open(&[vec![2], vec![3]], &given()), Err(Error::Shape { .. })));
    assert!(matches!(Sum::open(&[vec![2, 2]], &given()), Err(Error::Shape { .. })));
    let wide = attributes(1e300, 1.0, false).map(|(n, v)| (n.to_owned(), v));
    assert!(matches!(Sum::open(&[vec![2]], &Attributes::new(wide.into())), Err(Error::Argument(_))));
}
