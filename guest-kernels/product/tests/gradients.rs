//! `product` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_product::Product;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

#[test]
fn gradients() {
    for (rows, columns) in [(0, 2), (1, 1), (7, 3)] {
        let report = check::gradients::<Product>(&[vec![columns], vec![columns]], &[], rows, SEED).unwrap();
        assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows: {report:?}");
        assert_eq!(report.checked, 2 * (rows * columns) as usize);
    }
}

#[test]
fn forward_is_the_formula() {
    let host = Reference::new(Context { rows: 1, ..Context::default() });
    let kernel = Product::open(&[vec![2], vec![2]], &Attributes::default()).unwrap();
    let a = host.matrix(&[1, 2], &[3.0, -2.0]).unwrap();
    let b = host.matrix(&[1, 2], &[0.5, 4.0]).unwrap();
    let y = host.output(&[1, 2]).unwrap();
    let io = Forward { inputs: &[&a, &b], parameters: &[], outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    assert_eq!(host.values(&y).unwrap(), [1.5, -8.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let open = |inputs: &[Vec<u32>]| Product::open(inputs, &Attributes::default());
    assert!(matches!(open(&[vec![2]]), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![2], vec![3]]), Err(Error::Shape { .. })));
    assert!(matches!(open(&[vec![2, 2], vec![2, 2]]), Err(Error::Shape { .. })));
}
