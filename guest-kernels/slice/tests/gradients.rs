//! `slice` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};
use eciton_slice::Slice;

const SEED: u64 = 20_261_125;

fn attributes(start: i64, count: i64) -> Vec<(&'static str, Value)> {
    vec![("start", Value::Integer(start)), ("count", Value::Integer(count))]
}

fn open(inputs: &[Vec<u32>], start: i64, count: i64) -> Result<Slice> {
    let all = attributes(start, count).into_iter().map(|(name, value)| (name.to_owned(), value));
    Slice::open(inputs, &Attributes::new(all.collect()))
}

#[test]
fn gradients() {
    for (start, count) in [(0, 5), (0, 2), (3, 2), (1, 1)] {
        for rows in [0, 1, 7] {
            let report =
                check::gradients::<Slice>(&[vec![5]], &attributes(start, count), rows, SEED).unwrap();
            assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows, {start} {count}: {report:?}");
            assert_eq!(report.checked, 5 * rows as usize);
        }
    }
}

#[test]
fn forward_is_the_formula() {
    let host = Reference::new(Context { rows: 2, ..Context::default() });
    let kernel = open(&[vec![3]], 1, 2).unwrap();
    let x = host.matrix(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let y = host.output(&[2, 2]).unwrap();
    let io = Forward { inputs: &[&x], parameters: &[], outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
    assert_eq!(host.values(&y).unwrap(), [2.0, 3.0, 5.0, 6.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (start, count) in [(0, 4), (2, 2), (3, 1), (-1, 1), (0, 0), (1 << 31, 1 << 31)] {
        assert!(matches!(open(&[vec![3]], start, count), Err(Error::Argument(_))), "{start} {count}");
    }
    assert!(matches!(open(&[vec![3, 1]], 0, 1), Err(Error::Shape { .. })));
    assert!(matches!(open(&[], 0, 1), Err(Error::Argument(_))));
}
