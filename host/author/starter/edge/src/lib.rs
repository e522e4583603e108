//! Computes y_v = the sum of g z over v's edges. z is a source's row, t is the target's row, and g
//! = sigmoid(<a, z> + <b, t>).
//!
//! Let e be the gradient of the sigmoid's argument, g (1 - g) <z, dy_v>, for each edge. Then da =
//! the sum of e z and db = the sum of e t over all edges. dt_v = b times the sum of e over v's
//! edges. dz_u = the sum of g dy + e a over u's edges. A target passes [dy | <b, t>] to its
//! sources.

use eciton_sdk::prelude::*;

const SIGMOID: Prologue<'static> = Prologue { bias: None, activation: Activation::Sigmoid, dropout: None };

pub struct Gated {
    columns: u32,
}

/// Returns <x, y> of each row, [rows, 1]. y may be a single row, which is used for all.
fn products(x: &Matrix, y: &Matrix) -> Result<Matrix> {
    scratch(&[x.row_count(), 1], |into| linalg::inner(x, y, into))
}

/// Score of each edge and its sigmoid, [m, 1] each.
struct Gates {
    scores: Matrix,
    gates: Matrix,
}

impl Gates {
    /// Creates the gates from the parts that both ends add to the score, by edge.
    fn new(source: &Matrix, target: &Matrix) -> Result<Self> {
        let shape = source.shape();
        let scores = scratch(&shape, |into| linalg::axpby(1.0, source, 1.0, target, into))?;
        let gates = scratch(&shape, |into| linalg::apply(&scores, &SIGMOID, into))?;
        Ok(Self { scores, gates })
    }

    /// Returns e, from z and dy by edge.
    fn gradient(&self, source: &Matrix, gradient: &Matrix) -> Result<Matrix> {
        let of_gates = products(source, gradient)?;
        scratch(&of_gates.shape(), |into| linalg::apply_backward(&self.scores, &SIGMOID, &of_gates, into))
    }
}

impl EdgeKernel for Gated {
    fn attributes() -> Vec<AttributeSpec> {
        vec![]
    }

    fn open(source: &[u32], target: &[u32], _: u32, _: &Attributes) -> Result<Self> {
        match (source, target) {
            ([columns], [same]) if columns == same => Ok(Gated { columns: *columns }),
            _ => Err(Error::Argument("gated takes rows of one length from both ends".to_owned())),
        }
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.columns];
        let bound = (6.0 / (1 + self.columns) as f32).sqrt();
        EdgeSignature::new()
            .source("z", &row)
            .target("t", &row)
            .parameter("a", &row, Initialiser::Uniform(bound))
            .parameter("b", &row, Initialiser::Uniform(bound))
            .output("y", &row)
            .pass("passed", &[self.columns + 1])
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        // There is one own row per vertex. `to_edges` copies it to one row per edge.
        let target = task.to_edges(&products(io.target, io.parameters[1])?)?;
        let of = Gates::new(&products(io.source, io.parameters[0])?, &target)?;
        let values = scratch(&io.source.shape(), |into| linalg::scale(io.source, &of.gates, into))?;
        task.sum(&values, io.output)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        let (a, b) = (io.parameters[0], io.parameters[1]);
        let target = products(io.target, b)?;
        let of = Gates::new(&products(io.source, a)?, &task.to_edges(&target)?)?;
        let e = of.gradient(io.source, &task.to_edges(io.gradient)?)?;
        // Gradients of parameters are sums over the edges.
        for (at, rows) in [io.source, &task.to_edges(io.target)?].into_iter().enumerate() {
            let each = scratch(&rows.shape(), |into| linalg::scale(rows, &e, into))?;
            linalg::sum_rows(&each, io.parameter_gradients[at])?;
        }
        if let Some(into) = io.target_gradient {
            let sums = scratch(&[task.rows, 1], |into| task.sum(&e, into))?;
            linalg::scale(b, &sums, into)?;
        }
        // Values that a source needs of a target, in one row.
        side_by_side::<R>(&[io.gradient, &target], io.passed)
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        let a = io.parameters[0];
        let (gradient, target) = (io.passed.columns(0, self.columns)?, io.passed.columns(self.columns, 1)?);
        let of = Gates::new(&task.to_edges(&products(io.source, a)?)?, &target)?;
        let e = of.gradient(&task.to_edges(io.source)?, &gradient)?;
        let shape = [task.rows, self.columns];
        let values = scratch(&gradient.shape(), |into| linalg::scale(&gradient, &of.gates, into))?;
        let through_values = scratch(&shape, |into| task.sum(&values, into))?;
        let sums = scratch(&[task.rows, 1], |into| task.sum(&e, into))?;
        let through_scores = scratch(&shape, |into| linalg::scale(a, &sums, into))?;
        linalg::axpby(1.0, &through_values, 1.0, &through_scores, io.source_gradient)
    }
}

eciton_sdk::export_edge_kernel!(Gated);
