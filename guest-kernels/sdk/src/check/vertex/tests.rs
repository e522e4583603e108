//! The check of a loss that asks what its rows count.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::gradients;
use crate::prelude::*;
use crate::reference::{Context, Reference};
use crate::{Attributes, native};

const SEED: u64 = 12;

const RIGHT: i64 = 0;
const SQUARED: i64 = 1;
const NOT_THE_GRADIENT: i64 = 2;
const LATER_ROW: i64 = 3;
const NEVER_ASKS: i64 = 4;
const ASKS_IN_OPEN: i64 = 5;

/// Loss: weight * the sum of w_i x_i^2 over rows that count; dx_i = 2 weight w_i x_i.
struct Squares(i64);

impl Squares {
    /// What each row adds, by this kernel.
    fn weights<R: Real>(&self, task: &Task, io: &LastLayer<'_>) -> Result<Vec<R>> {
        let mut of = vec![R::ONE; task.rows as usize];
        if self.0 != NEVER_ASKS
            && let Some(weights) = given::row_weights()?
        {
            of = weights.read_rows(0, task.rows)?;
        }
        if self.0 == SQUARED {
            of.iter_mut().for_each(|w| *w *= *w);
        }
        if self.0 == LATER_ROW {
            let count = of.len();
            of.rotate_left(1.min(count));
        }
        let counting = io.rows.read(0, io.rows.len())?;
        let weight =
            |(row, w): (u32, R)| if counting.contains(&row) { w * R::from_f32(io.weight) } else { R::ZERO };
        Ok((0..task.rows).zip(of).map(weight).collect())
    }
}

impl Kernel for Squares {
    fn attributes() -> Vec<AttributeSpec> {
        vec![AttributeSpec::new("fault", "what is wrong", Some(Value::Integer(RIGHT)))]
    }

    fn open(_: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let fault = attributes.number("fault")? as i64;
        if fault == ASKS_IN_OPEN {
            given::row_weights()?;
        }
        Ok(Self(fault))
    }

    fn signature(&self) -> Signature {
        Signature::new().input("x", &[1]).output("y", &[1]).with_loss(TargetKind::Classes)
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        linalg::axpby(1.0, io.inputs[0], 0.0, io.inputs[0], io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        linalg::axpby(1.0, io.gradients[0], 0.0, io.gradients[0], into)
    }

    fn loss<R: Real>(&self, task: &Task, io: LastLayer<'_>) -> Result<()> {
        let (x, weights) = (io.inputs[0].read_rows::<R>(0, task.rows)?, self.weights::<R>(task, &io)?);
        let losses: Vec<R> = x.iter().zip(&weights).map(|(&x, &w)| w * x * x).collect();
        let each = scratch(&[task.rows, 1], |into| into.write_rows(0, &losses))?;
        linalg::sum_rows(&each, io.loss)?;
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        let plain = Self(NEVER_ASKS).weights::<R>(task, &io)?;
        let weights = if self.0 == NOT_THE_GRADIENT { plain } else { weights };
        let slopes: Vec<R> = x.iter().zip(weights).map(|(&x, w)| w * (x + x)).collect();
        into.write_rows(0, &slopes)
    }
}

fn checked(fault: i64) -> Result<crate::check::Report> {
    gradients::<Squares>(&[vec![1]], &[("fault", Value::Integer(fault))], 9, SEED)
}

#[test]
fn a_loss_that_weighs_its_rows_passes() {
    let report = checked(RIGHT).unwrap();
    assert!(report.worst < 1e-7, "seed {SEED}: {report:?}");
    // Of the output, of the loss, and of the loss of rows with weights.
    assert_eq!(report.checked, 27);
    // Nobody expects of a loss that does not ask what it cannot know.
    assert_eq!(checked(NEVER_ASKS).unwrap().checked, 18);
}

#[test]
fn wrong_uses_of_weights_are_found() {
    for (fault, part) in [(SQUARED, "weights of 2"), (LATER_ROW, "weights of 0 in every other row")] {
        let error = checked(fault).unwrap_err();
        assert!(matches!(&error, Error::Kernel(text) if text.contains(part)), "seed {SEED}: {error:?}");
    }
    let error = checked(NOT_THE_GRADIENT).unwrap_err();
    assert!(matches!(&error, Error::Kernel(text) if text.contains("weights of 2")), "seed {SEED}: {error:?}");
}

#[test]
fn weights_are_given_in_a_task_alone() {
    let error = checked(ASKS_IN_OPEN).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(text) if text.contains("only a task has rows")), "{error:?}");
    let idle = Reference::idle();
    assert!(matches!(idle.weigh_rows(&[]), Err(Error::Unsupported(_))));
    let host = Reference::new(Context { rows: 2, ..Context::default() });
    assert!(matches!(host.weigh_rows(&[1.0]), Err(Error::Shape { .. })));
    let ask = || {
        given::row_weights()
            .unwrap()
            .map(|weights| (weights.shape(), weights.read_rows::<f64>(0, 2).unwrap()))
    };
    assert!(!host.asked_row_weights());
    assert_eq!(host.run(ask), None);
    assert!(host.asked_row_weights());
    host.weigh_rows(&[0.5, 2.0]).unwrap();
    assert_eq!(host.run(ask), Some((vec![2, 1], vec![0.5, 2.0])));
    // Each handle was given back.
    assert_eq!(host.handles(), 0);
    assert!(native::with_host(Box::new(idle), given::row_weights).is_err());
}
