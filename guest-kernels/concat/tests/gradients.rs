//! `concat` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_concat::Concat;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

#[test]
fn gradients() {
    for inputs in [vec![vec![3]], vec![vec![3], vec![1]], vec![vec![2], vec![5], vec![4]]] {
        for rows in [0, 1, 7] {
            let report = check::gradients::<Concat>(&inputs, &[], rows, SEED).unwrap();
            assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {inputs:?}: {report:?}");
        }
    }
}

#[test]
fn forward_is_the_formula() {
    let host = Reference::new(Context { rows: 2, ..Context::default() });
    let kernel = Concat::open(&[vec![2], vec![1]], &Attributes::default()).unwrap();
    let a = host.matrix(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let b = host.matrix(&[2, 1], &[5.0, 6.0]).unwrap();
    let y = host.output(&[2, 3]).unwrap();
    let io = Forward { inputs: &[&a, &b], parameters: &[], outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    assert_eq!(host.values(&y).unwrap(), [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let open = |inputs: &[Vec<u32>]| Concat::open(inputs, &Attributes::default());
    assert!(matches!(open(&[]), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![u32::MAX], vec![1]]), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![2], vec![2, 2]]), Err(Error::Shape { .. })));
}
