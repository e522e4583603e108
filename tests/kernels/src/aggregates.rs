//! What a sum, a mean and a maximum over edges cannot say, by every elementwise function; its gradients derived.

use eciton_sdk::prelude::*;
use eciton_sdk::{Attributes, Reduction};

/// Of the sources x of v's edges, y_v = sqrt(mean(x^2) - mean(x)^2 + 1/8) + ln(mean(e^x) + 1) + 1 / (mean(|x|) + 1).
#[derive(Debug)]
pub struct Aggregates {
    columns: u32,
}

fn f(x: &Matrix, by: Function) -> Result<Matrix> {
    scratch(&x.shape(), |into| linalg::elementwise(x, by, into))
}

/// a x + b y
fn sum(a: f32, x: &Matrix, b: f32, y: &Matrix) -> Result<Matrix> {
    scratch(&x.shape(), |into| linalg::axpby(a, x, b, y, into))
}

fn plus(x: &Matrix, value: f32) -> Result<Matrix> {
    let shape = x.shape();
    let values = vec![value; (shape[0] * shape[1]) as usize];
    let values = scratch(&shape, |into| into.write_rows(0, &values))?;
    sum(1.0, x, 1.0, &values)
}

impl ForwardEdgeKernel for Aggregates {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(source: &[u32], _: &[u32], _: u32, _: &Attributes) -> Result<Self> {
        Ok(Self { columns: source[0] })
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.columns];
        EdgeSignature::new().source("x", &row).target("t", &row).output("y", &row)
    }

    fn forward<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        x: &Matrix,
        _: &Matrix,
        _: &[&Matrix],
        output: &Out,
    ) -> Result<()> {
        let mean = |x: &Matrix| {
            scratch(&[task.rows, self.columns], |into| {
                linalg::reduce_segments(x, task.offsets, Reduction::Mean, into)
            })
        };
        let of_squares = mean(&f(x, Function::Power(2.0))?)?;
        let of_mean = f(&mean(x)?, Function::Power(2.0))?;
        let deviation = f(&plus(&sum(1.0, &of_squares, -1.0, &of_mean)?, 0.125)?, Function::Sqrt)?;
        let log = f(&plus(&mean(&f(x, Function::Exp)?)?, 1.0)?, Function::Log)?;
        let inverse = f(&plus(&mean(&f(x, Function::Absolute)?)?, 1.0)?, Function::Reciprocal)?;
        linalg::axpby(1.0, &sum(1.0, &deviation, 1.0, &log)?, 1.0, &inverse, output)
    }
}

eciton_sdk::export_edge_kernel!(DerivedEdges<Aggregates>);
