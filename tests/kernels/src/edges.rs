//! An edge kernel, altered by feature: y_v = the sum over v's edges of <w, z> z, z a source's row.
//!
//! With c = <w, z> and g the gradient of y: dw = the sum over edges of <z, g> z; dz = the sum over a source's
//! edges of c g + <z, g> w. A target passes g; nothing flows to its own row.

use std::cell::RefCell;

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Along {
    columns: u32,
}

thread_local! {
    static KEPT: RefCell<Vec<Matrix>> = const { RefCell::new(Vec::new()) };
}

/// <x, y> of each row, [rows, 1].
fn products(x: &Matrix, y: &Matrix) -> Result<Matrix> {
    scratch(&[x.row_count(), 1], |into| linalg::inner(x, y, into))
}

/// x with each row multiplied by its value of `by`.
fn scaled(x: &Matrix, by: &Matrix) -> Result<Matrix> {
    scratch(&[by.row_count(), x.shape()[x.shape().len() - 1]], |into| linalg::scale(x, by, into))
}

/// <w, z> z of each edge.
pub fn weighted(source: &Matrix, w: &Matrix) -> Result<Matrix> {
    scaled(source, &products(source, w)?)
}

impl EdgeKernel for Along {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(source: &[u32], _: &[u32], _: u32, _: &Attributes) -> Result<Self> {
        Ok(Self { columns: source[0] })
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.columns];
        let made = self.columns + u32::from(cfg!(feature = "edge-wrong-signature"));
        EdgeSignature::new()
            .source("z", &row)
            .target("t", &row)
            .parameter("w", &row, Initialiser::Uniform(0.5))
            .output("y", &[made])
            .pass("g", &row)
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        if cfg!(feature = "edge-trapping") {
            panic!("the test kernel panics on {} edges", task.edges);
        }
        if cfg!(feature = "edge-looping") {
            crate::forward::endless();
        }
        if cfg!(feature = "edge-wrong-shape") {
            products(io.source, &io.source.columns(0, self.columns - 1)?)?;
        }
        if cfg!(feature = "edge-keeping") {
            KEPT.with_borrow_mut(|kept| -> Result<()> {
                kept.push(io.source.rows(0, 1)?);
                Ok(())
            })?;
        }
        if cfg!(feature = "edge-nan") {
            let nan = vec![R::from_f32(f32::NAN); (task.rows * self.columns) as usize];
            return io.output.write_rows(0, &nan);
        }
        let values = weighted(io.source, io.parameters[0])?;
        if cfg!(feature = "edge-unwritten") {
            let sums = scratch(&[task.rows, self.columns], |into| task.sum(&values, into))?;
            let all: Vec<R> = sums.read_rows(0, task.rows - 1)?;
            return io.output.write_rows(0, &all);
        }
        task.sum(&values, io.output)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        if !cfg!(feature = "edge-unwritten-sum") {
            let each = scaled(io.source, &products(io.source, &task.to_edges(io.gradient)?)?)?;
            linalg::sum_rows(&each, io.parameter_gradients[0])?;
        }
        if let Some(into) = io.target_gradient {
            linalg::axpby(0.0, io.target, 0.0, io.target, into)?;
        }
        linalg::axpby(1.0, io.gradient, 0.0, io.gradient, io.passed)
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        if cfg!(feature = "edge-trapping-sources") {
            panic!("the test kernel panics in backward");
        }
        let (source, w) = (task.to_edges(io.source)?, io.parameters[0]);
        let through_values = scaled(io.passed, &products(&source, w)?)?;
        let through_weights = scaled(w, &products(&source, io.passed)?)?;
        let both = scratch(&[task.edges, self.columns], |into| {
            linalg::axpby(1.0, &through_values, 1.0, &through_weights, into)
        })?;
        task.sum(&both, io.source_gradient)
    }
}

#[cfg(not(any(feature = "edge-derived", feature = "edge-aggregates")))]
eciton_sdk::export_edge_kernel!(Along);
