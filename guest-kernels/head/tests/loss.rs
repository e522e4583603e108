//! The loss of `head` against its formula, against the host's operation, and at its edges.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_head::Head;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel};

/// Of the values.
const SEED: u64 = 5;

/// In (-4, 4), from the contract's generator with a purpose that no host uses.
fn values(count: usize, stream: u32) -> Vec<f64> {
    let key = random::key(SEED, 9, 0, 0, stream);
    (0..count as u64).map(|i| random::uniform(random::bits32(key, i, 0)) * 8.0 - 4.0).collect()
}

fn attributes(bias: bool, of: &str, focal: f64) -> Attributes {
    let of = ("of".to_owned(), Value::Text(of.to_owned()));
    let focal = ("focal".to_owned(), Value::Number(focal));
    Attributes::new(vec![("bias".to_owned(), Value::Flag(bias)), of, focal])
}

struct Case {
    classes: u32,
    x: Vec<f64>,
    /// None: without one.
    bias: Option<Vec<f64>>,
    labels: Vec<u32>,
    rows: Vec<u32>,
    weight: f32,
    /// What each row counts beside it; none: each 1.
    row_weights: Option<Vec<f64>>,
    focal: f64,
}

impl Case {
    fn random(rows: u32, classes: u32, bias: bool) -> Self {
        let key = random::key(SEED, 9, 0, 0, 7);
        let bits = |i, column| random::bits32(key, u64::from(i), column);
        Self {
            classes,
            x: values((rows * classes) as usize, 0),
            bias: bias.then(|| values(classes as usize, 1)),
            labels: (0..rows).map(|i| bits(i, 0) % classes).collect(),
            rows: (0..rows).filter(|&i| bits(i, 1) % 3 == 0).collect(),
            weight: 0.125,
            row_weights: None,
            focal: 0.0,
        }
    }

    fn row(&self, i: usize) -> Vec<f64> {
        let c = self.classes as usize;
        let bias = |j| self.bias.as_ref().map_or(0.0, |b| b[j]);
        (0..c).map(|j| self.x[i * c + j] + bias(j)).collect()
    }

    /// The loss, its gradient by x and by the bias: each from the definition of the softmax.
    fn formula(&self) -> (f64, Vec<f64>, Vec<f64>) {
        let c = self.classes as usize;
        let (mut loss, mut dx, mut db) = (0.0, vec![0.0; self.x.len()], vec![0.0; c]);
        for i in self.rows.iter().map(|&i| i as usize) {
            let e: Vec<f64> = self.row(i).into_iter().map(f64::exp).collect();
            let sum: f64 = e.iter().sum();
            let label = self.labels[i] as usize;
            let weight = f64::from(self.weight) * self.row_weights.as_ref().map_or(1.0, |w| w[i]);
            let (p, gamma) = (e[label] / sum, self.focal);
            loss -= weight * (1.0 - p).powf(gamma) * p.ln();
            // d/dp of (1 - p)^gamma log p, times p.
            let by_p = (1.0 - p).powf(gamma) - gamma * p * (1.0 - p).powf(gamma - 1.0) * p.ln();
            for j in 0..c {
                let by_p = if gamma == 0.0 { 1.0 } else { by_p };
                let d = weight * by_p * (e[j] / sum - f64::from(u8::from(j == label)));
                dx[i * c + j] = d;
                db[j] += d;
            }
        }
        (loss, dx, db)
    }

    fn host(&self) -> Reference {
        Reference::new(Context { rows: self.labels.len() as u32, training: true, ..Context::default() })
    }

    /// What the kernel computes in `R`.
    fn run<R: Real>(&self) -> Result<(f64, Vec<f64>, Vec<f64>)> {
        let attributes = attributes(self.bias.is_some(), "cross-entropy", self.focal);
        let kernel = Head::open(&[vec![self.classes]], &attributes)?;
        assert_eq!(kernel.signature().loss, Some(TargetKind::Classes));
        let host = self.host();
        if let Some(weights) = &self.row_weights {
            host.weigh_rows(weights)?;
        }
        let shape = [host.context().rows, self.classes];
        let x = host.matrix(&shape, &self.x)?;
        let bias = self.bias.as_ref().map(|b| host.matrix(&[self.classes], b)).transpose()?;
        let (loss, dx, db) = (host.gradient(&[1])?, host.output(&shape)?, host.gradient(&[self.classes])?);
        let io = LastLayer {
            inputs: &[&x],
            parameters: &bias.iter().collect::<Vec<_>>(),
            targets: Targets::Classes(&host.ids(&self.labels)?),
            rows: &host.ids(&self.rows)?,
            weight: self.weight,
            loss: &loss,
            input_gradients: &[Some(&dx)],
            parameter_gradients: if self.bias.is_some() { &[&db] } else { &[] },
        };
        host.run(|| kernel.loss::<R>(&host.context().task(), io))?;
        let db = if self.bias.is_some() { host.values(&db)? } else { vec![] };
        Ok((host.values(&loss)?[0], host.values(&dx)?, db))
    }
}

#[track_caller]
fn near(found: &[f64], expected: &[f64], allowed: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (found - expected).abs();
        assert!(apart <= allowed * expected.abs().max(1.0), "seed {SEED}, [{at}]: {found}, not {expected}");
    }
}

#[test]
fn the_loss_is_the_formula() {
    // 2500 rows are three tiles.
    for (rows, classes) in [(1, 1), (1, 6), (10, 1), (40, 7), (1024, 2), (1025, 3), (2500, 5)] {
        for bias in [true, false] {
            let case = Case::random(rows, classes, bias);
            let (loss, dx, db) = case.formula();
            let found = case.run::<f64>().unwrap();
            near(&[found.0], &[loss], 1e-12);
            near(&found.1, &dx, 1e-12);
            near(&found.2, if bias { &db } else { &[] }, 1e-12);
            let found = case.run::<f32>().unwrap();
            near(&[found.0], &[loss], 1e-5);
            near(&found.1, &dx, 1e-6);
        }
    }
}

#[test]
fn rows_count_by_their_weights() {
    for (rows, classes, focal) in [(1, 6, 0.0), (40, 7, 0.0), (2500, 5, 0.0), (40, 7, 2.0)] {
        let weights = (0..rows).map(|i| f64::from(i % 5) / 2.0).collect();
        let case = Case { row_weights: Some(weights), focal, ..Case::random(rows, classes, true) };
        let (loss, dx, db) = case.formula();
        let found = case.run::<f64>().unwrap();
        near(&[found.0], &[loss], 1e-12);
        near(&found.1, &dx, 1e-12);
        near(&found.2, &db, 1e-12);
    }
    // Of 1 they change no bit.
    let plain = Case::random(300, 4, true);
    let ones = Case { row_weights: Some(vec![1.0; 300]), ..Case::random(300, 4, true) };
    assert_eq!(plain.run::<f32>().unwrap(), ones.run::<f32>().unwrap());
}

#[test]
fn the_focal_loss_is_the_formula() {
    for focal in [0.5, 1.0, 2.0, 5.0] {
        for (rows, classes) in [(1, 6), (10, 2), (1100, 5)] {
            let case = Case { focal, ..Case::random(rows, classes, true) };
            let (loss, dx, db) = case.formula();
            let found = case.run::<f64>().unwrap();
            near(&[found.0], &[loss], 1e-12);
            near(&found.1, &dx, 1e-12);
            near(&found.2, &db, 1e-12);
            let found = case.run::<f32>().unwrap();
            near(&[found.0], &[loss], 1e-5);
            near(&found.1, &dx, 1e-6);
        }
    }
    // An exponent that is nearly 0 gives what the cross-entropy gives.
    let near_none = Case { focal: 1e-9, ..Case::random(40, 7, true) }.run::<f64>().unwrap();
    let none = Case::random(40, 7, true).run::<f64>().unwrap();
    near(&[near_none.0], &[none.0], 1e-7);
    near(&near_none.1, &none.1, 1e-7);
}

/// Where p is near 1, 1 - p and log p are of a few bits in f32 unless they are computed apart.
#[test]
fn the_focal_loss_of_what_is_right_already_keeps_its_digits() {
    for (apart, focal) in [(3.0, 0.5), (4.0, 2.0), (10.0, 0.5), (20.0, 1.0), (200.0, 0.5), (1e4, 2.0)] {
        let two = |x: Vec<f64>| Case {
            classes: 2,
            x,
            bias: None,
            labels: vec![0],
            rows: vec![0],
            weight: 1.0,
            row_weights: None,
            focal,
        };
        let right = two(vec![apart, 0.0]);
        let q = 1.0 / (1.0 + apart.exp());
        let (unlikely, scale) = (-(-q).ln_1p(), q.powf(focal));
        let ratio = if q > 0.0 { unlikely / q } else { 1.0 };
        let (loss, slope) = (scale * unlikely, scale * q * (1.0 + focal * (1.0 - q) * ratio));
        for (found, allowed) in [(right.run::<f64>().unwrap(), 1e-9), (right.run::<f32>().unwrap(), 1e-5)] {
            // What f32 cannot hold is 0 there.
            let close = |found: f64, expected: f64| (found - expected).abs() <= allowed * expected + 1e-37;
            assert!(close(found.0, loss), "apart {apart}: {}, not {loss}", found.0);
            assert!(close(found.1[1], slope) && close(-found.1[0], slope), "apart {apart}: {:?}", found.1);
        }
        // And what is as wrong as can be counts in full.
        let wrong = two(vec![-apart, 0.0]).run::<f32>().unwrap();
        assert!(wrong.0.is_finite() && wrong.1.iter().all(|g| g.is_finite()), "{wrong:?}");
    }
}

#[test]
fn the_loss_is_that_of_the_host() {
    for bias in [true, false] {
        let case = Case::random(60, 9, bias);
        let host = case.host();
        let scores: Vec<f64> = (0..60).flat_map(|i| case.row(i)).collect();
        let x = host.matrix(&[60, 9], &scores).unwrap();
        let (labels, rows) = (host.ids(&case.labels).unwrap(), host.ids(&case.rows).unwrap());
        let (losses, grad) = (host.output(&[60, 1]).unwrap(), host.output(&[60, 9]).unwrap());
        host.run(|| linalg::softmax_cross_entropy(&x, &labels, &rows, case.weight, &losses, &grad)).unwrap();
        let (loss, dx, _) = case.run::<f64>().unwrap();
        near(&[loss], &[host.values(&losses).unwrap().iter().sum()], 1e-12);
        near(&dx, &host.values(&grad).unwrap(), 1e-12);
    }
}

#[test]
fn without_labelled_rows_it_is_zero() {
    let case = Case { rows: vec![], ..Case::random(30, 4, true) };
    assert_eq!(case.run::<f64>().unwrap(), (0.0, vec![0.0; 120], vec![0.0; 4]));
    let empty = Case::random(0, 4, true);
    assert_eq!(empty.run::<f32>().unwrap(), (0.0, vec![], vec![0.0; 4]));
}

#[test]
fn large_scores_do_not_overflow() {
    let case = Case {
        classes: 2,
        x: vec![1e4, -1e4, -1e4, 1e4],
        bias: None,
        labels: vec![0, 0],
        rows: vec![0, 1],
        weight: 1.0,
        row_weights: None,
        focal: 0.0,
    };
    for found in [case.run::<f64>().unwrap(), case.run::<f32>().unwrap()] {
        assert_eq!((found.0, found.1.len()), (2e4, 4));
        // The f32 exponential stops at e^-87.
        near(&found.1, &[0.0, 0.0, -1.0, 1.0], 1e-37);
    }
}

#[test]
fn wrong_labels_and_rows_are_typed_errors() {
    let with = |labels: &[u32], rows: &[u32]| {
        let case = Case { labels: labels.to_vec(), rows: rows.to_vec(), ..Case::random(3, 4, true) };
        case.run::<f32>().unwrap_err()
    };
    let argument = |error: Error, part: &str| {
        assert!(matches!(&error, Error::Argument(text) if text.contains(part)), "{error:?}");
    };
    argument(with(&[0, 1, 4], &[0, 2]), "row 2 has label 4; there are 4 classes");
    argument(with(&[0, u32::MAX, 3], &[1]), "row 1 has label 4294967295");
    argument(with(&[0, 1, 2], &[0, 3]), "row 3 is labelled; there are 3 rows");
    argument(with(&[0, 1, 2], &[2, 0]), "must ascend");
    argument(with(&[0, 1, 2], &[1, 1]), "must ascend");
    // A label of a row that does not count is not looked at.
    let case = Case { labels: vec![0, 9, 1], rows: vec![0, 2], ..Case::random(3, 4, true) };
    assert!(case.run::<f64>().is_ok());
}

#[test]
fn wrong_attributes_and_inputs_are_typed_errors() {
    let text = |value: &str| ("of".to_owned(), Value::Text(value.to_owned()));
    let focal = |value| ("focal".to_owned(), Value::Number(value));
    let flag = |value| Attributes::new(vec![("bias".to_owned(), value), text("cross-entropy"), focal(0.0)]);
    let open = |inputs: &[Vec<u32>], value| Head::open(inputs, &flag(value)).unwrap_err();
    assert!(matches!(open(&[vec![3]], Value::Integer(1)), Error::Argument(t) if t.contains("bias")));
    assert!(matches!(open(&[], Value::Flag(true)), Error::Argument(t) if t.contains("one input")));
    assert!(matches!(open(&[vec![2, 3]], Value::Flag(true)), Error::Shape { .. }));
    for (of, gamma, part) in [
        ("cross-entropy", -1.0, "`focal` is -1, but must be a number from 0"),
        ("cross-entropy", 1e39, "within f32"),
        ("squared-error", 2.0, "only cross-entropy has a focal form"),
    ] {
        let error = Head::open(&[vec![3]], &attributes(true, of, gamma)).unwrap_err();
        assert!(matches!(&error, Error::Argument(t) if t.contains(part)), "{error:?}");
    }
    let error = Head::open(&[vec![3]], &Attributes::default()).unwrap_err();
    assert!(matches!(error, Error::Argument(t) if t.contains("must be given")));
}

/// The loss over values and its gradient by x, in `R`.
fn over_values<R: Real>(of: &str, x: &[f64], known: &[f64], rows: &[u32]) -> Result<(f64, Vec<f64>)> {
    let columns = 2;
    let kernel = Head::open(&[vec![columns]], &attributes(false, of, 0.0))?;
    assert_eq!(kernel.signature().loss, Some(TargetKind::Values));
    let count = x.len() as u32 / columns;
    let host = Reference::new(Context { rows: count, training: true, ..Context::default() });
    let (loss, dx) = (host.gradient(&[1])?, host.output(&[count, columns])?);
    let io = LastLayer {
        inputs: &[&host.matrix(&[count, columns], x)?],
        parameters: &[],
        targets: Targets::Values(&host.matrix(&[count, columns], known)?),
        rows: &host.ids(rows)?,
        weight: 0.5,
        loss: &loss,
        input_gradients: &[Some(&dx)],
        parameter_gradients: &[],
    };
    host.run(|| kernel.loss::<R>(&host.context().task(), io))?;
    Ok((host.values(&loss)?[0], host.values(&dx)?))
}

#[test]
fn losses_over_values_are_the_formulas() {
    // The second row does not count; of the third one value is unknown.
    let (x, known) = ([1.0, -2.0, 9.0, 9.0, 0.5, 3.0], [0.0, 1.0, 0.0, 0.0, f64::NAN, 1.0]);
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let binary = -((1.0 - sigmoid(1.0)).ln() + sigmoid(-2.0).ln() + sigmoid(3.0).ln()) / 2.0;
    let slopes = [sigmoid(1.0) / 2.0, (sigmoid(-2.0) - 1.0) / 2.0, 0.0, 0.0, 0.0, (sigmoid(3.0) - 1.0) / 2.0];
    for (of, loss, dx) in [
        ("binary-cross-entropy", binary, slopes),
        ("squared-error", (1.0 + 9.0 + 4.0) / 2.0, [1.0, -3.0, 0.0, 0.0, 0.0, 2.0]),
        ("absolute-error", (1.0 + 3.0 + 2.0) / 2.0, [0.5, -0.5, 0.0, 0.0, 0.0, 0.5]),
    ] {
        let found = over_values::<f64>(of, &x, &known, &[0, 2]).unwrap();
        near(&[found.0], &[loss], 1e-12);
        near(&found.1, &dx, 1e-12);
        let found = over_values::<f32>(of, &x, &known, &[0, 2]).unwrap();
        near(&[found.0], &[loss], 1e-6);
        near(&found.1, &dx, 1e-6);
        assert_eq!(over_values::<f64>(of, &x, &known, &[]).unwrap(), (0.0, vec![0.0; 6]));
    }
    // Scores of any size: no overflow, and where both agree nothing is lost.
    let (loss, dx) = over_values::<f32>("binary-cross-entropy", &[1e4, -1e4], &[0.0, 0.0], &[0]).unwrap();
    assert_eq!(loss, 5e3);
    // The f32 exponential stops at e^-87.
    near(&dx, &[0.5, 0.0], 1e-37);
}

#[test]
fn targets_of_another_kind_or_shape_are_typed_errors() {
    let error = over_values::<f32>("squared-error", &[0.0; 4], &[0.0; 4], &[2]).unwrap_err();
    assert!(matches!(&error, Error::Argument(text) if text.contains("there are 2 rows")), "{error:?}");
    let error = over_values::<f32>("cross-entropy-of-two", &[], &[], &[]).unwrap_err();
    assert!(
        matches!(&error, Error::Argument(text) if text.contains("one of cross-entropy, binary")),
        "{error:?}"
    );
    let kernel = Head::open(&[vec![2]], &attributes(false, "squared-error", 0.0)).unwrap();
    let host = Reference::new(Context { rows: 3, training: true, ..Context::default() });
    let with = |targets: Targets<'_>| {
        let io = LastLayer {
            inputs: &[&host.matrix(&[3, 2], &[0.0; 6]).unwrap()],
            parameters: &[],
            targets,
            rows: &host.ids(&[0]).unwrap(),
            weight: 1.0,
            loss: &host.gradient(&[1]).unwrap(),
            input_gradients: &[None],
            parameter_gradients: &[],
        };
        host.run(|| kernel.loss::<f32>(&host.context().task(), io)).unwrap_err()
    };
    let error = with(Targets::Classes(&host.ids(&[0, 0, 0]).unwrap()));
    assert!(matches!(&error, Error::Argument(text) if text.contains("values are compared")), "{error:?}");
    let error = with(Targets::Values(&host.matrix(&[3, 1], &[0.0; 3]).unwrap()));
    assert!(
        matches!(&error, Error::Shape { expected, found, .. } if (&expected[..], &found[..]) == (&[3, 2], &[3, 1]))
    );
}
