//! `self-attention` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};
use eciton_self_attention::SelfAttention;

const SEED: u64 = 20_261_125;

fn attributes(heads: i64, causal: bool, group: i64) -> Vec<(&'static str, Value)> {
    vec![("heads", Value::Integer(heads)), ("causal", Value::Flag(causal)), ("group", Value::Integer(group))]
}

fn open(inputs: &[Vec<u32>], heads: i64, group: i64) -> Result<SelfAttention> {
    let all = attributes(heads, true, group).into_iter().map(|(name, value)| (name.to_owned(), value));
    SelfAttention::open(inputs, &Attributes::new(all.collect()))
}

#[test]
fn gradients() {
    for causal in [false, true] {
        for (rows, heads, features, group) in
            [(0, 2, 2, 3), (1, 1, 1, 1), (6, 2, 2, 3), (8, 1, 3, 4), (10, 3, 1, 5), (7, 2, 4, 7)]
        {
            let inputs = [vec![3 * heads * features]];
            let attributes = attributes(heads.into(), causal, group);
            let report = check::gradients::<SelfAttention>(&inputs, &attributes, rows, SEED)
                .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
            assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
            assert_eq!(report.checked, (rows * 3 * heads * features) as usize);
        }
    }
}

/// Short sequences, and one of several blocks.
#[test]
fn forward_is_the_formula() {
    for (rows, heads, features, group) in [(12, 2, 3, 4), (1536, 1, 2, 512)] {
        for causal in [false, true] {
            let d = heads * features;
            let context = Context { rows, ..Context::default() };
            let host = Reference::new(context);
            let key = random::key(SEED, 9, 0, 0, 0);
            let x: Vec<f64> = (0..u64::from(rows * 3 * d))
                .map(|i| random::uniform(random::bits32(key, i, 0)) * 4.0 - 2.0)
                .collect();
            let all = attributes(heads.into(), causal, group.into());
            let all = all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let kernel = SelfAttention::open(&[vec![3 * d]], &Attributes::new(all)).unwrap();
            let (input, y) = (host.matrix(&[rows, 3 * d], &x).unwrap(), host.output(&[rows, d]).unwrap());
            let io = Forward { inputs: &[&input], parameters: &[], outputs: &[&y], kept: &[] };
            host.run(|| kernel.forward::<f64>(&context.task(), io)).unwrap();
            let found = host.values(&y).unwrap();
            let (d, features, group) = (d as usize, features as usize, group as usize);
            let at = |row: usize, part: usize, head: usize| {
                &x[row * 3 * d + part * d + head * features..][..features]
            };
            for row in (0..rows as usize).step_by(7) {
                let first = row / group * group;
                let seen = first..if causal { row + 1 } else { first + group };
                for head in 0..heads as usize {
                    let score = |other: usize| {
                        let dot: f64 =
                            at(row, 0, head).iter().zip(at(other, 1, head)).map(|(q, k)| q * k).sum();
                        (dot * f64::from(1.0 / (features as f32).sqrt())).exp()
                    };
                    let sum: f64 = seen.clone().map(score).sum();
                    for f in 0..features {
                        let expected: f64 =
                            seen.clone().map(|other| score(other) / sum * at(other, 2, head)[f]).sum();
                        let found = found[row * d + head * features + f];
                        assert!(
                            (found - expected).abs() < 1e-9,
                            "row {row}, head {head}: {found}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(open(&[vec![12]], 2, 4).is_ok());
    for inputs in [vec![], vec![vec![12]; 2], vec![vec![10]], vec![vec![3, 4]], vec![vec![0]]] {
        assert!(matches!(open(&inputs, 2, 4), Err(Error::Argument(_))), "{inputs:?}");
    }
    assert!(matches!(open(&[vec![12]], 4, 0), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![12]], 4, 1 << 30), Err(Error::Argument(_))));
    let host = Reference::new(Context { rows: 6, ..Context::default() });
    let (x, y) = (host.matrix(&[6, 12], &[0.0; 72]).unwrap(), host.output(&[6, 4]).unwrap());
    let io = Forward { inputs: &[&x], parameters: &[], outputs: &[&y], kept: &[] };
    let kernel = open(&[vec![12]], 2, 4).unwrap();
    let error = host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap_err();
    assert!(error.to_string().contains("6 rows of 12 values are no whole sequences of 4 rows"), "{error}");
}
