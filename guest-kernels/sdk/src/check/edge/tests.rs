//! The check passes a right edge kernel and names what is wrong with a wrong one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::edge_gradients;
use crate::prelude::*;
use crate::row_ids;

const SEED: u64 = 11;

/// What is wrong with [`Products`].
const NONE: i64 = 0;
const WRONG_SOURCE: i64 = 1;
const WRONG_TARGET: i64 = 2;
const UNWRITTEN: i64 = 3;
const LOCAL_EDGES: i64 = 4;
const SINGLE: i64 = 5;
const NEEDS_WANTED: i64 = 6;
const WRONG_PARAMETER: i64 = 7;
const UNWRITTEN_PASSED: i64 = 8;

/// y = the sum of s * source * target, s [k].
struct Products {
    columns: u32,
    fault: i64,
}

fn product(a: &Matrix, b: &Matrix) -> Result<Matrix> {
    let into = Out::create(&a.shape())?;
    linalg::multiply(a, b, &into)?;
    into.finish()
}

impl Products {
    /// s, once for each edge.
    fn each<R: Real>(&self, s: &Matrix, edges: u32) -> Result<Matrix> {
        let s: Vec<R> = s.read_rows(0, self.columns)?;
        let into = Out::create(&[edges, self.columns])?;
        into.write_rows(0, &s.repeat(edges as usize))?;
        into.finish()
    }
}

impl EdgeKernel for Products {
    fn attributes() -> Vec<AttributeSpec> {
        vec![AttributeSpec::new("fault", "what is wrong", Some(Value::Integer(NONE)))]
    }

    fn open(source: &[u32], _: &[u32], _: u32, attributes: &Attributes) -> Result<Self> {
        Ok(Self { columns: source[0], fault: attributes.number("fault")? as i64 })
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.columns];
        let s = EdgeSignature::new().source("u", &row).target("v", &row).output("y", &row);
        s.keep("copy", &row).pass("vg", &row).parameter("s", &row, Initialiser::Zeros)
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        linalg::axpby(1.0, io.target, 0.0, io.target, io.kept[0])?;
        let scaled = product(io.source, &self.each::<R>(io.parameters[0], task.edges)?)?;
        let mut values: Vec<R> = product(&scaled, &task.to_edges(io.target)?)?.read_rows(0, task.edges)?;
        if self.fault == LOCAL_EDGES {
            for (at, value) in values.iter_mut().enumerate() {
                *value += R::from_f32(at as f32);
            }
        }
        if self.fault == SINGLE && size_of::<R>() == 4 {
            values[0] += R::from_f32(0.5);
        }
        let all = Out::create(&[task.edges, self.columns])?;
        all.write_rows(0, &values)?;
        let written = if self.fault == UNWRITTEN {
            io.output.rows(1, task.rows - 1)?
        } else {
            io.output.rows(0, task.rows)?
        };
        if self.fault == UNWRITTEN {
            let rows: Vec<R> = io.source.read_rows(0, task.rows - 1)?;
            return written.write_rows(0, &rows);
        }
        task.sum(&all.finish()?, &written)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        let s = self.each::<R>(io.parameters[0], task.edges)?;
        let gradient = task.to_edges(io.gradient)?;
        if let Some(into) = io.target_gradient {
            task.sum(&product(&product(io.source, &s)?, &gradient)?, into)?;
        }
        if self.fault == WRONG_TARGET {
            if let Some(into) = io.target_gradient {
                linalg::axpby(0.5, io.gradient, 0.0, io.gradient, into)?;
            }
        }
        let kept = task.to_edges(io.kept[0])?;
        let each = product(&product(io.source, &kept)?, &gradient)?;
        let wrong = (self.fault == NEEDS_WANTED && io.target_gradient.is_none())
            || (self.fault == WRONG_PARAMETER && row_ids(0, 1)?[0] != 0);
        linalg::sum_rows(if wrong { &gradient } else { &each }, io.parameter_gradients[0])?;
        if self.fault == UNWRITTEN_PASSED {
            return Ok(());
        }
        linalg::multiply(io.target, io.gradient, io.passed)
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        assert_eq!(io.source.row_count(), task.rows);
        let s = self.each::<R>(io.parameters[0], task.edges)?;
        let each =
            if self.fault == WRONG_SOURCE { product(io.passed, io.passed)? } else { product(io.passed, &s)? };
        task.sum(&each, io.source_gradient)
    }
}

fn check(fault: i64) -> Result<super::Report> {
    edge_gradients::<Products>(&[3], &[3], 0, &[("fault", Value::Integer(fault))], 6, SEED)
}

#[test]
fn a_right_kernel_passes() {
    let report = check(NONE).unwrap();
    assert!(report.worst < 1e-8 && report.worst_f32 < 1e-6, "seed {SEED}: {report:?}");
    assert_eq!(report.checked, 2 * 6 * 3 + 3);
    for rows in 0..3 {
        let report = edge_gradients::<Products>(&[2], &[2], 0, &[], rows, SEED).unwrap();
        assert!(report.worst < 1e-8, "{rows} vertices: {report:?}");
    }
}

#[test]
fn a_wrong_gradient_is_reported() {
    for (fault, name) in
        [(WRONG_SOURCE, "source `u`"), (WRONG_TARGET, "target `v`"), (WRONG_PARAMETER, "parameter `s`")]
    {
        let report = check(fault).unwrap();
        assert!(report.worst > 1e-3, "seed {SEED}: {report:?}");
        assert_eq!(report.worst_name, name);
    }
}

#[test]
fn broken_promises_are_errors() {
    for (fault, part) in [
        (UNWRITTEN, "forward left row 0 of `y` unwritten"),
        (UNWRITTEN_PASSED, "backward-targets left row 0 of `vg` unwritten"),
        (LOCAL_EDGES, "two blocks: outputs: y differs"),
        (SINGLE, "outputs in f32: y differs"),
        (NEEDS_WANTED, "no target's gradient is wanted"),
    ] {
        let error = check(fault).unwrap_err();
        assert!(matches!(&error, Error::Kernel(text) if text.contains(part)), "fault {fault}: {error:?}");
    }
    let error = edge_gradients::<Products>(&[3], &[2], 0, &[], 4, SEED).unwrap_err();
    assert!(error.to_string().contains("opened for [[3], [2]]"), "{error}");
    let error = edge_gradients::<Products>(&[1 << 13], &[1 << 13], 0, &[], 4, SEED).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error:?}");
}
