//! The check passes a right kernel and names what is wrong with a wrong one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::gradients;
use crate::prelude::*;
use crate::{native, row_ids};

const SEED: u64 = 11;

/// What is wrong with [`Scale`].
const NONE: i64 = 0;
const WRONG_GRADIENT: i64 = 1;
const UNWRITTEN: i64 = 2;
const IMPURE: i64 = 3;
const LOCAL_ROWS: i64 = 4;
const SINGLE: i64 = 5;
const NAN: i64 = 6;
const NEEDS_WANTED: i64 = 7;
const NOT_LINEAR: i64 = 8;

/// y = s x, s [k]; computed in the guest. dx = s dy, ds = column sums of x dy.
struct Scale {
    columns: u32,
    fault: i64,
}

impl Kernel for Scale {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("fault", "what is wrong", Some(Value::Integer(NONE))),
            AttributeSpec::new("slope", "not used", Some(Value::Number(0.5))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let fault = attributes.number("fault")? as i64;
        Ok(Self { columns: inputs[0].iter().product(), fault })
    }

    fn signature(&self) -> Signature {
        let s = Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.columns])
            .keep("copy", &[self.columns]);
        s.parameter("s", &[self.columns], crate::Initialiser::Zeros)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let x: Vec<R> = io.inputs[0].read_rows(0, task.rows)?;
        let s: Vec<R> = io.parameters[0].read_rows(0, self.columns)?;
        let mut y: Vec<R> = x.iter().enumerate().map(|(i, &x)| x * s[i % s.len()]).collect();
        match self.fault {
            IMPURE => y[0] += R::from_f32(COUNT.with(|c| c.replace(c.get() + 1)) as f32),
            LOCAL_ROWS => {
                for (i, y) in y.iter_mut().enumerate() {
                    *y += R::from_f32((i / self.columns as usize) as f32);
                }
            }
            SINGLE if size_of::<R>() == 4 => y[0] += R::from_f32(0.5),
            NAN => y[0] += R::from_f32(f32::NAN),
            _ => {}
        }
        io.kept[0].write_rows(0, &x)?;
        let end = if self.fault == UNWRITTEN { y.len() - self.columns as usize } else { y.len() };
        io.outputs[0].write_rows(0, &y[..end])
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        assert!(io.inputs.is_empty() && io.outputs.is_empty(), "not asked for");
        let s: Vec<R> = io.parameters[0].read_rows(0, self.columns)?;
        let up: Vec<R> = io.gradients[0].read_rows(0, task.rows)?;
        if let Some(into) = io.input_gradients[0] {
            let mut dx: Vec<R> = up.iter().enumerate().map(|(i, &up)| up * s[i % s.len()]).collect();
            if self.fault == WRONG_GRADIENT {
                dx.iter_mut().for_each(|dx| *dx *= R::from_f32(1.001));
            }
            into.write_rows(0, &dx)?;
        }
        let products = Out::create(&[task.rows, self.columns])?;
        linalg::multiply(io.kept[0], io.gradients[0], &products)?;
        let into = io.parameter_gradients[0];
        match (self.fault, io.input_gradients[0]) {
            (NEEDS_WANTED, None) => linalg::sum_rows(io.gradients[0], into),
            (NOT_LINEAR, _) if row_ids(0, 1)?[0] != 5 => linalg::sum_rows(io.gradients[0], into),
            _ => linalg::sum_rows(&products.finish()?, into),
        }
    }
}

thread_local! {
    static COUNT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn check(fault: i64) -> Result<super::Report> {
    gradients::<Scale>(&[vec![3]], &[("fault", Value::Integer(fault))], 5, SEED)
}

#[test]
fn a_right_kernel_passes() {
    let report = check(NONE).unwrap();
    assert!(report.worst < 1e-8 && report.worst_f32 < 1e-6, "seed {SEED}: {report:?}");
    assert_eq!(report.checked, 5 * 3 + 3);
    assert!(["input `x`", "parameter `s`"].contains(&report.worst_name.as_str()), "{report:?}");
}

#[test]
fn a_wrong_gradient_is_reported() {
    let report = check(WRONG_GRADIENT).unwrap();
    assert!(report.worst > 1e-5, "seed {SEED}: {report:?}");
    assert_eq!(report.worst_name, "input `x`");
    assert_eq!(check(NAN).unwrap_err().to_string(), "check: a second forward gave other values");
}

#[test]
fn broken_promises_are_errors() {
    for (fault, part) in [
        (UNWRITTEN, "forward left row 4 of `y` unwritten"),
        (IMPURE, "second forward"),
        (LOCAL_ROWS, "two intervals: outputs"),
        (SINGLE, "outputs in f32: y differs"),
        (NEEDS_WANTED, "no"),
        (NOT_LINEAR, "two intervals: gradients: s differs"),
    ] {
        let error = check(fault).unwrap_err();
        assert!(matches!(&error, Error::Kernel(text) if text.contains(part)), "fault {fault}: {error:?}");
    }
}

#[test]
fn attributes_are_checked() {
    let with = |name, value| gradients::<Scale>(&[vec![2]], &[(name, value)], 2, SEED);
    assert!(with("slope", Value::Integer(1)).is_ok());
    let error = with("slop", Value::Integer(1)).unwrap_err();
    assert_eq!(error.to_string(), "attribute `slop` is unknown; known are fault, slope");
    let error = with("fault", Value::Flag(true)).unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error:?}");
}

#[test]
fn limits_and_mismatches_are_errors() {
    let wide = gradients::<Scale>(&[vec![1 << 13]], &[], 3, SEED).unwrap_err();
    let expected = (super::VALUES_MAX, 4 << 13);
    assert!(matches!(wide, Error::Limit { allowed, asked, .. } if (allowed, asked) == expected), "{wide:?}");
    let flat = gradients::<Scale>(&[vec![2, 2]], &[], 3, SEED).unwrap_err();
    assert!(flat.to_string().contains("[[4]]"), "{flat}");
}

/// y = relu(x - x), whose every point is a kink.
struct Kinked;

impl Kernel for Kinked {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(_: &[Vec<u32>], _: &Attributes) -> Result<Self> {
        Ok(Self)
    }

    fn signature(&self) -> Signature {
        Signature::new().input("x", &[1]).output("y", &[1])
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let zero = Out::create(&[task.rows, 1])?;
        linalg::axpby(1.0, io.inputs[0], -1.0, io.inputs[0], &zero)?;
        let by = Prologue { bias: None, activation: Activation::Relu, dropout: None };
        linalg::apply(&zero.finish()?, &by, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, _: Backward<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_point_that_cannot_be_found_is_an_error() {
    let error = gradients::<Kinked>(&[vec![1]], &[], 1, SEED).unwrap_err();
    assert!(error.to_string().contains("of a kink"), "{error}");
}

#[test]
fn a_handle_without_a_host_is_an_error() {
    let error = crate::Matrix::borrowed(0).rows(0, 1).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)));
    let host = crate::reference::Reference::new(Default::default());
    assert_eq!(native::with_host(Box::new(host), || 7), 7);
}
