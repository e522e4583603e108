//! Edge kernel `gatv2`: attention whose ranking of sources depends on the target (Brody, Alon and Yahav 2022,
//! "How attentive are graph attention networks?", equation 7).
//!
//! With a row z [HF] of each source u, a row t [HF] of each target v, and a [HF], in H heads of F values:
//!
//! * s = z_u + t_v, l = leaky-relu(s), e_h = <a_h, l_h> for each edge (u, v); where edges have features x [k],
//!   s = z_u + t_v + x W with W [k, HF], which messages know nothing of
//! * alpha_h = the softmax of e_h over v's edges, d_h = dropout(alpha_h)
//! * y_v = the sum of d_h z_u,h over v's edges [HF], or, with `average`, its mean over the heads [F]
//!
//! With g the gradient of y_v, as a head has it (that of the mean: divided by H, the same for every head):
//!
//! * b_h = <z_u,h, g_h>, times the derivative of the dropout: the gradient of alpha_h
//! * c_h = alpha_h (b_h - the sum of alpha_h b_h over v's edges): the gradient of e_h
//! * ds = leaky-relu'(s) a c, once for each value of a head; dt_v = the sum of ds over v's edges
//! * da = the sum of c l over all edges; dz_u = the sum of ds + d g over u's edges; dW = the sum of x^T ds over
//!   all edges
//!
//! A target keeps [largest | inverse] of its softmax, [2H], and passes [t | g | largest, inverse | the sum of
//! alpha b] to its sources, so that they compute alpha again from z and t rather than receive it edge by edge.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Gatv2 {
    heads: u32,
    features: u32,
    average: bool,
    negative_slope: f32,
    dropout: f32,
    /// k; 0 where edges have none.
    edge_features: u32,
}

/// What an edge's scores are made of, [m, ..].
struct Scores {
    /// s, [m, HF].
    sum: Matrix,
    /// leaky-relu of it, [m, H, F].
    leaky: Matrix,
    /// [m, H]
    scores: Matrix,
}

/// The gradient of an edge's scores, and what led to it, [m, H] each.
struct ScoreGradients {
    /// alpha times its gradient.
    weighted: Matrix,
    /// The softmax.
    alpha: Matrix,
}

impl Gatv2 {
    fn values(&self) -> u32 {
        self.heads * self.features
    }

    /// Values of a row of y, and of its gradient.
    fn outputs(&self) -> u32 {
        if self.average { self.features } else { self.values() }
    }

    /// Values of a row of `passed`.
    fn passed(&self) -> u32 {
        self.values() + self.outputs() + 3 * self.heads
    }

    fn leaky(&self) -> Prologue<'static> {
        Prologue { bias: None, activation: Activation::LeakyRelu(self.negative_slope), dropout: None }
    }

    /// Of alpha; none where nothing is dropped.
    fn dropout(&self, task: &EdgeTask<'_>) -> Option<Prologue<'static>> {
        let dropout = Some(Dropout { probability: self.dropout, stream: 0 });
        let dropped = task.training && self.dropout > 0.0;
        dropped.then_some(Prologue { bias: None, activation: Activation::Identity, dropout })
    }

    /// Rows [m, HF] by head.
    fn by_head(&self, x: &Matrix) -> Result<Matrix> {
        x.reshape(&[x.row_count(), self.heads, self.features])
    }

    /// Both ends' rows are [m, HF]; `parameters` are a and, where edges have features, W.
    fn scores(
        &self,
        task: &EdgeTask<'_>,
        (source, target): (&Matrix, &Matrix),
        parameters: &[&Matrix],
    ) -> Result<Scores> {
        let shape = [task.edges, self.values()];
        let mut sum = scratch(&shape, |into| linalg::axpby(1.0, source, 1.0, target, into))?;
        if let (Some(x), [_, w]) = (task.features, parameters) {
            let known = scratch(&shape, |into| linalg::matmul(x, false, w, false, false, into))?;
            sum = scratch(&shape, |into| linalg::axpby(1.0, &sum, 1.0, &known, into))?;
        }
        let heads = self.by_head(&sum)?;
        let leaky = scratch(&heads.shape(), |into| linalg::apply(&heads, &self.leaky(), into))?;
        let scores = scratch(&[task.edges, self.heads], |into| linalg::inner(&leaky, parameters[0], into))?;
        Ok(Scores { sum, leaky, scores })
    }

    /// y of each edge's target, before the mean over the heads is divided: d z, [m, HF] or [m, F].
    fn messages(&self, source: &Matrix, d: &Matrix) -> Result<Matrix> {
        let (edges, heads) = (source.row_count(), self.by_head(source)?);
        if self.average {
            let d = d.reshape(&[edges, 1, self.heads])?;
            let shape = [edges, 1, self.features];
            let sums = scratch(&shape, |into| linalg::batched_matmul(&d, false, &heads, false, false, into))?;
            return sums.reshape(&[edges, self.features]);
        }
        scratch(&heads.shape(), |into| linalg::scale(&heads, d, into))?.reshape(&[edges, self.values()])
    }

    /// d g, [m, HF]; g [m, HF], or with `average` [m, F].
    fn returned(&self, g: &Matrix, d: &Matrix) -> Result<Matrix> {
        let edges = g.row_count();
        let shape = [edges, self.heads, self.features];
        let products = if self.average {
            let (d, g) = (d.reshape(&[edges, self.heads, 1])?, g.reshape(&[edges, 1, self.features])?);
            scratch(&shape, |into| linalg::batched_matmul(&d, false, &g, false, false, into))?
        } else {
            let g = g.reshape(&shape)?;
            scratch(&shape, |into| linalg::scale(&g, d, into))?
        };
        products.reshape(&[edges, self.values()])
    }

    /// b before the dropout's derivative: <z_h, g_h>, [m, H].
    fn agreement(&self, source: &Matrix, g: &Matrix) -> Result<Matrix> {
        let (edges, heads) = (source.row_count(), self.by_head(source)?);
        if self.average {
            let g = g.reshape(&[edges, self.features, 1])?;
            let shape = [edges, self.heads, 1];
            let all = scratch(&shape, |into| linalg::batched_matmul(&heads, false, &g, false, false, into))?;
            return all.reshape(&[edges, self.heads]);
        }
        let g = self.by_head(g)?;
        scratch(&[edges, self.heads], |into| linalg::inner(&heads, &g, into))
    }

    /// alpha and alpha b; `state` and g are by edge.
    fn weighted(
        &self,
        task: &EdgeTask<'_>,
        scores: &Matrix,
        state: &Matrix,
        source: &Matrix,
        g: &Matrix,
    ) -> Result<ScoreGradients> {
        let shape = [task.edges, self.heads];
        let alpha = scratch(&shape, |into| linalg::softmax_values(scores, state, into))?;
        let mut b = self.agreement(source, g)?;
        if let Some(by) = self.dropout(task) {
            b = scratch(&shape, |into| linalg::apply_backward(&alpha, &by, &b, into))?;
        }
        let weighted = scratch(&shape, |into| linalg::multiply(&alpha, &b, into))?;
        Ok(ScoreGradients { weighted, alpha })
    }

    /// c = alpha b - alpha * (the sum of alpha b over the target's edges), [m, H]; `sums` by edge.
    fn score_gradient(&self, of: &ScoreGradients, sums: &Matrix) -> Result<Matrix> {
        let shape = of.alpha.shape();
        let part = scratch(&shape, |into| linalg::multiply(&of.alpha, sums, into))?;
        scratch(&shape, |into| linalg::axpby(1.0, &of.weighted, -1.0, &part, into))
    }

    /// ds, [m, HF].
    fn sum_gradient(&self, sum: &Matrix, a: &Matrix, c: &Matrix) -> Result<Matrix> {
        let shape = [sum.row_count(), self.heads, self.features];
        let ac = scratch(&shape, |into| linalg::scale(a, c, into))?;
        let sum = self.by_head(sum)?;
        let ds = scratch(&shape, |into| linalg::apply_backward(&sum, &self.leaky(), &ac, into))?;
        ds.reshape(&[shape[0], self.values()])
    }
}

impl EdgeKernel for Gatv2 {
    fn attributes() -> Vec<AttributeSpec> {
        let zero = Some(Value::Number(0.0));
        vec![
            AttributeSpec::new("heads", "H, the number of heads", Some(Value::Integer(1))),
            AttributeSpec::new("features", "F, values of a head", None),
            AttributeSpec::new(
                "average",
                "whether y is the mean of the heads, not all of them",
                Some(Value::Flag(false)),
            ),
            AttributeSpec::new(
                "negative-slope",
                "of leaky-relu, at least 0 and below 1",
                Some(Value::Number(0.2)),
            ),
            AttributeSpec::new("dropout", "probability of dropping a head's weight of an edge", zero),
        ]
    }

    fn open(source: &[u32], target: &[u32], edge_features: u32, attributes: &Attributes) -> Result<Self> {
        let (heads, features) = (attributes.size("heads")?, attributes.size("features")?);
        // 2 HF + 3H values of a row of `passed`.
        let values = heads.checked_mul(features).filter(|&values| {
            values.checked_mul(2).and_then(|both| both.checked_add(heads.checked_mul(3)?)).is_some()
        });
        let Some(values) = values else {
            let found =
                format!("{heads} heads of {features} values: a row that is passed has at most 2^32 - 1");
            return Err(Error::Argument(found));
        };
        for (end, found) in [("source", source), ("target", target)] {
            if found != [values] {
                return Err(Error::Shape {
                    operation: "gatv2".to_owned(),
                    operand: format!("one row of a {end}"),
                    expected: vec![values],
                    found: found.to_vec(),
                });
            }
        }
        let negative_slope = attributes.number("negative-slope")? as f32;
        if !(0.0..1.0).contains(&negative_slope) {
            let found = "attribute `negative-slope` must be a number s with 0 <= s < 1";
            return Err(Error::Argument(found.to_owned()));
        }
        let (average, dropout) = (attributes.flag("average")?, attributes.probability("dropout")?);
        Ok(Self { heads, features, average, negative_slope, dropout, edge_features })
    }

    fn signature(&self) -> EdgeSignature {
        let row = [self.values()];
        // Glorot's bound of a as a matrix of H by F, as PyG has it.
        let bound = (6.0 / (self.heads + self.features) as f32).sqrt();
        let mut signature = EdgeSignature::new().source("z", &row).target("t", &row);
        signature = signature.parameter("attention", &row, Initialiser::Uniform(bound));
        if self.edge_features > 0 {
            let shape = [self.edge_features, self.values()];
            signature = signature.parameter("edge-weight", &shape, Initialiser::GlorotUniform);
        }
        signature
            .output("y", &[self.outputs()])
            .keep("softmax", &[2 * self.heads])
            .pass("passed", &[self.passed()])
    }

    fn forward<R: Real>(&self, task: &EdgeTask<'_>, io: EdgeForward<'_>) -> Result<()> {
        let ends = (io.source, &task.to_edges(io.target)?);
        let scores = self.scores(task, ends, io.parameters)?.scores;
        let state = scratch(&[task.rows, 2 * self.heads], |into| {
            linalg::softmax_segments(&scores, task.offsets, into)
        })?;
        linalg::axpby(1.0, &state, 0.0, &state, io.kept[0])?;
        let shape = [task.edges, self.heads];
        let state = task.to_edges(&state)?;
        let mut d = scratch(&shape, |into| linalg::softmax_values(&scores, &state, into))?;
        if let Some(by) = self.dropout(task) {
            d = scratch(&shape, |into| linalg::apply(&d, &by, into))?;
        }
        let messages = self.messages(io.source, &d)?;
        if !self.average {
            return task.sum(&messages, io.output);
        }
        let sums = scratch(&[task.rows, self.features], |into| task.sum(&messages, into))?;
        linalg::axpby(1.0 / self.heads as f32, &sums, 0.0, &sums, io.output)
    }

    fn backward_targets<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardTargets<'_>) -> Result<()> {
        let a = io.parameters[0];
        let of = self.scores(task, (io.source, &task.to_edges(io.target)?), io.parameters)?;
        let mean = if self.average {
            let factor = 1.0 / self.heads as f32;
            Some(scratch(&io.gradient.shape(), |into| {
                linalg::axpby(factor, io.gradient, 0.0, io.gradient, into)
            })?)
        } else {
            None
        };
        let g = mean.as_ref().unwrap_or(io.gradient);
        let state = task.to_edges(io.kept[0])?;
        let gradients = self.weighted(task, &of.scores, &state, io.source, &task.to_edges(g)?)?;
        let sums = scratch(&[task.rows, self.heads], |into| task.sum(&gradients.weighted, into))?;
        let c = self.score_gradient(&gradients, &task.to_edges(&sums)?)?;
        if io.target_gradient.is_some() || task.features.is_some() {
            let ds = self.sum_gradient(&of.sum, a, &c)?;
            if let Some(into) = io.target_gradient {
                task.sum(&ds, into)?;
            }
            if let (Some(x), [_, into]) = (task.features, io.parameter_gradients) {
                linalg::matmul(x, true, &ds, false, false, into)?;
            }
        }
        let products = scratch(&of.leaky.shape(), |into| linalg::scale(&of.leaky, &c, into))?;
        linalg::sum_rows(&products.reshape(&[task.edges, self.values()])?, io.parameter_gradients[0])?;
        side_by_side::<R>(&[io.target, g, io.kept[0], &sums], io.passed)
    }

    fn backward_sources<R: Real>(&self, task: &EdgeTask<'_>, io: BackwardSources<'_>) -> Result<()> {
        let a = io.parameters[0];
        let (values, outputs, heads) = (self.values(), self.outputs(), self.heads);
        let (target, g) = (io.passed.columns(0, values)?, io.passed.columns(values, outputs)?);
        let state = io.passed.columns(values + outputs, 2 * heads)?;
        let sums = io.passed.columns(values + outputs + 2 * heads, heads)?;
        let source = task.to_edges(io.source)?;
        let of = self.scores(task, (&source, &target), io.parameters)?;
        let gradients = self.weighted(task, &of.scores, &state, &source, &g)?;
        let c = self.score_gradient(&gradients, &sums)?;
        let through_scores =
            scratch(&[task.rows, values], |into| task.sum(&self.sum_gradient(&of.sum, a, &c)?, into))?;
        let d = match self.dropout(task) {
            Some(by) => scratch(&[task.edges, heads], |into| linalg::apply(&gradients.alpha, &by, into))?,
            None => gradients.alpha,
        };
        let through_values = scratch(&[task.rows, values], |into| task.sum(&self.returned(&g, &d)?, into))?;
        linalg::axpby(1.0, &through_scores, 1.0, &through_values, io.source_gradient)
    }
}

eciton_sdk::export_edge_kernel!(Gatv2);
