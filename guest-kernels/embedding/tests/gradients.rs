//! `embedding` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_embedding::Embedding;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

fn attributes(positions: bool, group: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("entries", Value::Integer(5)),
        ("width", Value::Integer(3)),
        ("positions", Value::Flag(positions)),
        ("group", Value::Integer(group)),
    ]
}

fn open(positions: bool, group: i64) -> Result<Embedding> {
    let all = attributes(positions, group).into_iter().map(|(name, value)| (name.to_owned(), value));
    Embedding::open(&[vec![1]], &Attributes::new(all.collect()))
}

#[test]
fn gradients() {
    for (rows, positions, group) in [(0, true, 4), (1, false, 1), (8, true, 4), (12, true, 4), (7, false, 7)]
    {
        let report =
            check::gradients::<Embedding>(&[vec![1]], &attributes(positions, group), rows, SEED).unwrap();
        assert!(report.worst < 1e-7, "seed {SEED}, {rows} rows: {report:?}");
        let places = if positions { 3 * group as usize } else { 0 };
        assert_eq!(report.checked, 15 + places, "ids have no gradient");
    }
    let text =
        check::gradients::<Embedding>(&[vec![1]], &attributes(true, 4), 6, SEED).unwrap_err().to_string();
    assert!(text.contains("no whole groups of 4"), "{text}");
}

fn forward(kernel: &Embedding, ids: &[f64], parameters: &[Matrix], host: &Reference) -> Result<Vec<f64>> {
    let rows = ids.len() as u32;
    let (x, y) = (host.matrix(&[rows, 1], ids)?, host.output(&[rows, 3])?);
    let parameters: Vec<&Matrix> = parameters.iter().collect();
    let io = Forward { inputs: &[&x], parameters: &parameters, outputs: &[&y], kept: &[] };
    host.run(|| kernel.forward::<f64>(&host.context().task(), io))?;
    host.values(&y)
}

#[test]
fn forward_is_the_formula() {
    let ids = [4.0, 0.0, 4.0, 2.0];
    let host = Reference::new(Context { rows: 4, ..Context::default() });
    let weight: Vec<f64> = (0..15).map(f64::from).collect();
    let places = [0.5, 0.25, 0.125, -0.5, -0.25, -0.125];
    let all = || vec![host.matrix(&[5, 3], &weight).unwrap(), host.matrix(&[2, 3], &places).unwrap()];
    let plain = forward(&open(false, 1).unwrap(), &ids, &all()[..1], &host).unwrap();
    assert_eq!(plain, [12.0, 13.0, 14.0, 0.0, 1.0, 2.0, 12.0, 13.0, 14.0, 6.0, 7.0, 8.0]);
    let placed = forward(&open(true, 2).unwrap(), &ids, &all(), &host).unwrap();
    let expected: Vec<f64> = plain.iter().enumerate().map(|(at, v)| v + places[at % 6]).collect();
    assert_eq!(placed, expected);
}

#[test]
fn what_is_no_id_is_refused() {
    let host = Reference::new(Context { rows: 3, ..Context::default() });
    let weight = [host.matrix(&[5, 3], &[0.0; 15]).unwrap()];
    for (wrong, says) in [
        (5.0, "row 1 has the id 5; whole numbers from 0 to 4 are needed, for 5 entries"),
        (-1.0, "row 1 has the id -1"),
        (0.5, "row 1 has the id 0"),
        (f64::NAN, "row 1 has the id no number"),
        (1e30, "row 1 has the id 9223372036854775807"),
    ] {
        let kernel = open(false, 1).unwrap();
        let error = forward(&kernel, &[0.0, wrong, 1.0], &weight, &host).unwrap_err();
        assert!(matches!(&error, Error::Argument(text) if text.contains(says)), "{wrong}: {error}");
    }
    assert!(matches!(open(false, 0), Err(Error::Argument(_))));
    assert!(Embedding::open(&[vec![2]], &Attributes::default()).is_err());
    assert!(Embedding::open(&[], &Attributes::default()).is_err());
}
