//! The derivative of each operation, in operations of the contract.

use super::walk::{Walk, filled, flat, multiplied, owners};
use super::{Back, Kind, OfRows, Operand, Tape, Term, View, refuse};
use crate::compose::scratch;
use crate::dense;
use crate::handles::{Ids, Matrix, Out};
use crate::linalg::{self, LinearGradients};
use crate::op::{After, Before, Op};
use crate::types::{Activation, Dropout, Epilogue, Prologue, Reduction, Result};

/// A prologue that outlives its call.
pub(super) struct Early {
    bias: Option<Matrix>,
    activation: Activation,
    dropout: Option<Dropout>,
}

/// The same matrix, as the same value.
pub(super) fn held(x: &Matrix) -> Matrix {
    x.shared(x.node())
}

impl Early {
    pub(super) fn new(of: &Before<'_>) -> Self {
        Self { bias: of.bias.map(held), activation: of.activation, dropout: of.dropout }
    }

    fn get(&self) -> Prologue<'_> {
        Prologue { bias: self.bias.as_ref(), activation: self.activation, dropout: self.dropout }
    }

    pub(super) fn before(&self) -> Before<'_> {
        Before { bias: self.bias.as_ref(), activation: self.activation, dropout: self.dropout }
    }
}

/// The derivative of a view.
pub(super) fn view(x: &Matrix, view: View, made: Vec<u32>, kind: Kind) -> Result<Back> {
    let (x, shape) = (held(x), x.shape());
    Ok(match (kind, view) {
        (Kind::Parameter, View::Split(..) | View::Grouped(..)) => {
            return Err(refuse("split-rows, group-rows", "of what is made of parameters"));
        }
        (Kind::Parameter, view) => Back::Terms(Box::new(move |walk, terms| {
            let to_whole = |term: Term| match view {
                View::Rows { start, .. } => term.of_rows(&shape, start),
                View::Columns { start, .. } => term.of_columns(&shape, start),
                _ => term.reshaped(&made, &shape),
            };
            let terms = terms.into_iter().map(to_whole).collect::<Result<Vec<_>>>()?;
            walk.add_terms(&x, terms);
            Ok(())
        })),
        (_, View::Rows { start, count }) => rows_back(move |walk, g| {
            if count == shape[0] {
                walk.add(&x, g);
                return Ok(());
            }
            let ids = Ids::create(&(start..start + count).collect::<Vec<u32>>())?;
            let mut whole = g.shape();
            whole[0] = shape[0];
            let padded = scratch(&whole, |into| linalg::scatter_add_rows(&g, &ids, into))?;
            walk.add(&x, padded);
            Ok(())
        }),
        (Kind::State, _) => return Err(refuse("columns, reshape", "of the state of softmax-segments")),
        (Kind::Rows, View::Columns { start, count }) => rows_back(move |walk, g| {
            if count == shape[1] {
                walk.add(&x, g);
                return Ok(());
            }
            let padded = scratch(&shape, |into| dense::place_columns(&g, start, into))?;
            walk.add(&x, padded);
            Ok(())
        }),
        (Kind::Rows, View::Reshape(_)) => rows_back(move |walk, g| {
            let g = g.reshape(&shape)?;
            walk.add(&x, g);
            Ok(())
        }),
        (Kind::Rows, View::Split(t, _)) => rows_back(move |walk, g| {
            let g = g.group_rows(t)?.reshape(&shape)?;
            walk.add(&x, g);
            Ok(())
        }),
        (Kind::Rows, View::Grouped(t, _)) => rows_back(move |walk, g| {
            let g = g.split_rows(t)?.reshape(&shape)?;
            walk.add(&x, g);
            Ok(())
        }),
    })
}

fn rows_back(back: impl FnOnce(&mut Walk<'_>, Matrix) -> Result<()> + 'static) -> Back {
    Back::Rows(Box::new(back))
}

/// An operand must be a matrix by rows.
pub(super) fn rows(operation: &str, operand: &str, of: Operand) -> Result<()> {
    let what = match of.kind {
        _ if !of.tracked => return Ok(()),
        Kind::Rows => return Ok(()),
        Kind::Parameter => " is a parameter, whose gradient could not be written by a reduction over rows",
        Kind::State => " is the state of softmax-segments, which softmax-values and gather-rows take",
    };
    Err(refuse(operation, &[operand, what].concat()))
}

/// An operand must be a matrix by rows or made of parameters.
pub(super) fn rows_or_parameter(operation: &str, operand: &str, of: Operand) -> Result<()> {
    if of.kind == Kind::Parameter { Ok(()) } else { rows(operation, operand, of) }
}

impl Walk<'_> {
    /// Adds a^T d to the gradient of w.
    fn add_product(&mut self, w: &Matrix, a: &Matrix, d: &Matrix) -> Result<()> {
        if !self.wants(w) {
            return Ok(());
        }
        if self.kind(w) == Kind::Parameter {
            self.add_terms(w, [Term::Product(a.shared(0), d.shared(0))]);
            return Ok(());
        }
        let product = scratch(w.extents(), |into| linalg::matmul(a, true, d, false, false, into))?;
        self.add(w, product);
        Ok(())
    }

    /// Adds the sum of the rows of t to the gradient of b, one row of t's extents or a vector.
    pub(super) fn add_row(&mut self, operation: &str, b: &Matrix, t: Matrix) -> Result<()> {
        if !self.wants(b) {
            return Ok(());
        }
        let t = flat(t)?;
        if self.kind(b) == Kind::Parameter {
            self.add_terms(b, [Term::Vector(t)]);
            return Ok(());
        }
        let shape = b.shape();
        let sums = match shape[..] {
            [_] => scratch(&shape, |into| linalg::sum_rows(&t, into))?,
            [1, ..] => scratch(&[1, t.shape()[1]], |into| linalg::sum_rows(&t, into))?.reshape(&shape)?,
            _ => return Err(refuse(operation, "one row for all rows has several rows itself")),
        };
        self.add(b, sums);
        Ok(())
    }
}

/// What has no derivative here.
pub(super) fn none(name: &str, from: &[Operand], why: &str) -> Result<()> {
    if from.iter().any(|o| o.tracked) { Err(refuse(name, why)) } else { Ok(()) }
}

impl Tape {
    pub(super) fn rows_step(
        &self,
        into: &Out,
        from: &[Operand],
        back: impl FnOnce(&mut Walk<'_>, Matrix) -> Result<()> + 'static,
    ) -> Result<()> {
        self.wrote(into, Kind::Rows, from, false, rows_back(back))
    }

    /// Writes an operation down.
    pub(super) fn rule(&self, op: &Op<'_>) -> Result<()> {
        match *op {
            Op::Matmul { batched: false, a, transpose_a, b, transpose_b, accumulate, into } => {
                let from = [self.of(a), self.of(b)];
                rows("matmul", "a", from[0])?;
                rows_or_parameter("matmul", "b", from[1])?;
                if transpose_a {
                    none(
                        "matmul",
                        &from,
                        "with transpose-a it sums over rows, and a row's result is its own",
                    )?;
                }
                let (a, b) = (held(a), held(b));
                let back = rows_back(move |walk, g| {
                    if walk.wants(&a) {
                        let da = scratch(a.extents(), |into| {
                            linalg::matmul(&g, false, &b, !transpose_b, false, into)
                        })?;
                        walk.add(&a, da);
                    }
                    match transpose_b {
                        true => walk.add_product(&b, &g, &a),
                        false => walk.add_product(&b, &a, &g),
                    }
                });
                self.wrote(into, Kind::Rows, &from, accumulate, back)
            }
            Op::Matmul { batched: true, a, transpose_a: ta, b, transpose_b: tb, accumulate, into } => {
                let from = [self.of(a), self.of(b)];
                rows("batched-matmul", "a", from[0])?;
                rows("batched-matmul", "b", from[1])?;
                let (a, b) = (held(a), held(b));
                let back = rows_back(move |walk, g| {
                    if walk.wants(&a) {
                        let da = scratch(a.extents(), |into| match ta {
                            false => linalg::batched_matmul(&g, false, &b, !tb, false, into),
                            true => linalg::batched_matmul(&b, tb, &g, true, false, into),
                        })?;
                        walk.add(&a, da);
                    }
                    if walk.wants(&b) {
                        let db = scratch(b.extents(), |into| match tb {
                            false => linalg::batched_matmul(&a, !ta, &g, false, false, into),
                            true => linalg::batched_matmul(&g, true, &a, ta, false, into),
                        })?;
                        walk.add(&b, db);
                    }
                    Ok(())
                });
                self.wrote(into, Kind::Rows, &from, accumulate, back)
            }
            Op::Linear { x, before, w, after, into } => self.linear(x, &before, w, &after, into),
            Op::Apply { x, by, into } => {
                let from = [Some(x), by.bias].map(|m| self.maybe(m));
                rows("apply", "x", from[0])?;
                rows_or_parameter("apply", "bias", from[1])?;
                let (x, by) = (held(x), Early::new(&by));
                self.rows_step(into, &from, move |walk, g| {
                    // No derivative but that of an activation depends on the bias.
                    let bias = by.bias.as_ref().filter(|_| by.activation != Activation::Identity);
                    let at = Prologue { bias, ..by.get() };
                    let dx = scratch(g.extents(), |into| linalg::apply_backward(&x, &at, &g, into))?;
                    if let Some(bias) = &by.bias {
                        walk.add_row("apply", bias, dx.shared(0))?;
                    }
                    walk.add(&x, dx);
                    Ok(())
                })
            }
            Op::Axpby { alpha, x, beta, y, into } => self.axpby((alpha, x), (beta, y), into),
            Op::Multiply { x, y, into } => {
                let from = [self.of(x), self.of(y)];
                rows("multiply", "x", from[0])?;
                rows("multiply", "y", from[1])?;
                let (x, y) = (held(x), held(y));
                self.rows_step(into, &from, move |walk, g| {
                    for (to, other) in [(&x, &y), (&y, &x)] {
                        if walk.wants(to) {
                            walk.add(to, multiplied(&g, other)?);
                        }
                    }
                    Ok(())
                })
            }
            Op::Elementwise { x, by, into } => {
                let from = [self.of(x)];
                rows("elementwise", "x", from[0])?;
                let x = held(x);
                self.rows_step(into, &from, move |walk, g| {
                    let dx = scratch(&g.shape(), |into| linalg::elementwise_backward(&x, by, &g, into))?;
                    walk.add(&x, dx);
                    Ok(())
                })
            }
            Op::ElementwiseBackward { x, grad, .. } => {
                let from = [self.of(x), self.of(grad)];
                none("elementwise-backward", &from, "the derivative of a derivative is not derived")
            }
            Op::Softmax { x, into } => {
                let from = [self.of(x)];
                rows("softmax", "x", from[0])?;
                let x = held(x);
                self.rows_step(into, &from, move |walk, g| {
                    let shape = x.shape();
                    let y = scratch(&shape, |into| linalg::softmax(&x, into))?;
                    let weighted = multiplied(&y, &g)?;
                    let sums = scratch(&[shape[0], 1], |into| linalg::inner(&y, &g, into))?;
                    let part = scratch(&shape, |into| linalg::scale(&y, &sums, into))?;
                    let dx = scratch(&shape, |into| linalg::axpby(1.0, &weighted, -1.0, &part, into))?;
                    walk.add(&x, dx);
                    Ok(())
                })
            }
            Op::SoftmaxCrossEntropy { x, .. } => {
                none("softmax-cross-entropy", &[self.of(x)], "a loss is no part of a forward pass")
            }
            Op::LinearBackward { x, w, grad, .. } => {
                let from = [self.of(x), self.of(w), self.of(grad)];
                none("linear-backward", &from, "the derivative of a derivative is not derived")
            }
            Op::ApplyBackward { x, grad, .. } => {
                let from = [self.of(x), self.of(grad)];
                none("apply-backward", &from, "the derivative of a derivative is not derived")
            }
            Op::GatherRows { x, rows, into } => self.gather(x, rows, into),
            Op::ScatterAddRows { x, rows: ids, into } => {
                let from = [self.of(x)];
                rows("scatter-add-rows", "x", from[0])?;
                if self.side.is_edges() {
                    if !self.side.is_owners(ids) {
                        let why = "edges' rows are brought to own rows by task.owners";
                        return Err(refuse("scatter-add-rows", why));
                    }
                    return self.sum_of_edges(x, from[0], into, None);
                }
                let (x, ids) = (held(x), ids.shared());
                self.rows_step(into, &from, move |walk, g| {
                    walk.add(&x, scratch(x.extents(), |into| linalg::gather_rows(&g, &ids, into))?);
                    Ok(())
                })
            }
            Op::SumRows { x, into } => {
                let from = [self.of(x)];
                rows("sum-rows", "x", from[0])?;
                if self.side.is_edges() {
                    none("sum-rows", &from, "a row's result is its own")?;
                }
                let x = held(x);
                self.rows_step(into, &from, move |walk, g| {
                    let shape = x.shape();
                    let ones = filled(&[shape[0], 1], 1.0)?;
                    let (g, transposed) = match g.shape()[..] {
                        [len] => (g.reshape(&[len, 1])?, true),
                        _ => (g, false),
                    };
                    let dx =
                        scratch(&shape, |into| linalg::matmul(&ones, false, &g, transposed, false, into))?;
                    walk.add(&x, dx);
                    Ok(())
                })
            }
            Op::ReduceColumns { x, by, into } => {
                let from = [self.of(x)];
                rows("reduce-columns", "x", from[0])?;
                if by == Reduction::Max {
                    return none("reduce-columns", &from, "of a maximum");
                }
                let x = held(x);
                self.rows_step(into, &from, move |walk, g| {
                    let shape = x.shape();
                    let factor = if by == Reduction::Mean { 1.0 / shape[1] as f32 } else { 1.0 };
                    let row = filled(&[1, shape[1]], factor)?;
                    walk.add(&x, scratch(&shape, |into| linalg::scale(&row, &g, into))?);
                    Ok(())
                })
            }
            Op::ReduceSegments { x, offsets, by, into } => {
                let from = [self.of(x)];
                rows("reduce-segments", "x", from[0])?;
                if by == Reduction::Max {
                    return none("reduce-segments", &from, "of a maximum");
                }
                let mean = (by == Reduction::Mean).then_some(offsets);
                if self.side.is_edges() {
                    if !self.side.is_offsets(offsets) {
                        return Err(refuse("reduce-segments", "edges are reduced by task.offsets"));
                    }
                    return self.sum_of_edges(x, from[0], into, mean);
                }
                let (x, offsets, mean) = (held(x), offsets.shared(), mean.is_some());
                self.rows_step(into, &from, move |walk, g| {
                    let g = if mean { divided(g, &offsets)? } else { g };
                    let owners = owners(&offsets)?;
                    walk.add(&x, scratch(x.extents(), |into| linalg::gather_rows(&g, &owners, into))?);
                    Ok(())
                })
            }
            Op::Inner { x, y, into } => {
                let from = [self.of(x), self.of(y)];
                rows("inner", "x", from[0])?;
                rows_or_parameter("inner", "y", from[1])?;
                let (x, y) = (held(x), held(y));
                self.rows_step(into, &from, move |walk, g| {
                    let shape = x.shape();
                    if walk.wants(&x) {
                        walk.add(&x, scratch(&shape, |into| linalg::scale(&y, &g, into))?);
                    }
                    if walk.wants(&y) {
                        let dy = scratch(&shape, |into| linalg::scale(&x, &g, into))?;
                        walk.add_same_or_row("inner", &y, dy)?;
                    }
                    Ok(())
                })
            }
            Op::Scale { x, by, into } => {
                let from = [self.of(x), self.of(by)];
                rows_or_parameter("scale", "x", from[0])?;
                rows("scale", "by", from[1])?;
                let (x, by) = (held(x), held(by));
                self.rows_step(into, &from, move |walk, g| {
                    if walk.wants(&by) {
                        walk.add(&by, scratch(by.extents(), |into| linalg::inner(&g, &x, into))?);
                    }
                    if walk.wants(&x) {
                        let dx = scratch(g.extents(), |into| linalg::scale(&g, &by, into))?;
                        walk.add_same_or_row("scale", &x, dx)?;
                    }
                    Ok(())
                })
            }
            Op::SoftmaxSegments { x, offsets, state } => self.softmax_segments(x, offsets, state),
            Op::SoftmaxValues { x, state, into } => {
                let from = [self.of(x), self.of(state)];
                rows("softmax-values", "x", from[0])?;
                if from[1].tracked && from[1].kind != Kind::State {
                    return Err(refuse("softmax-values", "of a state that is not from softmax-segments"));
                }
                let (x, state) = (held(x), held(state));
                self.rows_step(into, &from, move |walk, g| {
                    let values = scratch(x.extents(), |into| linalg::softmax_values(&x, &state, into))?;
                    let weighted = multiplied(&values, &g)?;
                    walk.add(&state, weighted.shared(0));
                    walk.add(&x, weighted);
                    Ok(())
                })
            }
            _ => self.dense_rule(op),
        }
    }

    pub(super) fn maybe(&self, x: Option<&Matrix>) -> Operand {
        x.map_or(Operand { kind: Kind::Rows, tracked: false, wanted: false }, |x| self.of(x))
    }

    fn linear(
        &self,
        x: &Matrix,
        before: &Before<'_>,
        w: &Matrix,
        after: &After<'_>,
        into: &Out,
    ) -> Result<()> {
        let from = [Some(x), before.bias, Some(w), after.bias].map(|m| self.maybe(m));
        rows("linear", "x", from[0])?;
        for (operand, of) in [("before.bias", from[1]), ("w", from[2]), ("after.bias", from[3])] {
            rows_or_parameter("linear", operand, of)?;
        }
        let (x, w, before) = (held(x), held(w), Early::new(before));
        let (bias, activation) = (after.bias.map(held), after.activation);
        let ((node, first), laid) = (into.target(), into.laid());
        let count = laid.rows(into.extents().first().copied().unwrap_or(0));
        self.rows_step(into, &from, move |walk, g| {
            let after = Epilogue { bias: bias.as_ref(), activation };
            let to_w = walk.straight(&w);
            let to_before = before.bias.as_ref().and_then(|b| walk.straight(b));
            let to_after = bias.as_ref().and_then(|b| walk.straight(b));
            let of_before = before.bias.as_ref().filter(|b| to_before.is_none() && walk.wants(b));
            let of_after = bias.as_ref().filter(|b| to_after.is_none() && walk.wants(b));
            let of_w = to_w.is_none() && walk.wants(&w);
            let y = match activation {
                Activation::Identity => None,
                _ => Some(match walk.value((node, first, count))? {
                    Some(y) => laid.of(y)?,
                    None => scratch(g.extents(), |into| linalg::linear(&x, &before.get(), &w, &after, into))?,
                }),
            };
            let to_x = if of_before.is_none() { walk.straight(&x) } else { None };
            let of_x = to_x.is_none() && (walk.wants(&x) || of_before.is_some());
            let dx = of_x.then(|| Out::create(x.extents())).transpose()?;
            let into_x = dx.as_ref().or(to_x);
            let wanted = LinearGradients { x: into_x, before_bias: to_before, w: to_w, after_bias: to_after };
            if into_x.is_some() || to_before.is_some() || to_w.is_some() || to_after.is_some() {
                linalg::linear_backward(&x, &before.get(), &w, &after, y.as_ref(), &g, wanted)?;
            }
            if let Some(dx) = dx.map(Out::finish).transpose()? {
                if let Some(bias) = of_before {
                    walk.add_row("linear", bias, dx.shared(0))?;
                }
                walk.add(&x, dx);
            }
            if !of_w && of_after.is_none() {
                return Ok(());
            }
            let d = match activation {
                Activation::Identity => g,
                _ => {
                    let plain = Epilogue { bias: bias.as_ref(), activation: Activation::Identity };
                    let z = scratch(g.extents(), |into| linalg::linear(&x, &before.get(), &w, &plain, into))?;
                    let by = Prologue { bias: None, activation, dropout: None };
                    scratch(g.extents(), |into| linalg::apply_backward(&z, &by, &g, into))?
                }
            };
            if let Some(bias) = of_after {
                walk.add_row("linear", bias, d.shared(0))?;
            }
            if of_w {
                let u = match before.before().is_identity() {
                    true => held(&x),
                    false => scratch(x.extents(), |into| linalg::apply(&x, &before.get(), into))?,
                };
                walk.add_product(&w, &u, &d)?;
            }
            Ok(())
        })
    }

    fn axpby(&self, (alpha, x): (f32, &Matrix), (beta, y): (f32, &Matrix), into: &Out) -> Result<()> {
        let from = [self.of(x), self.of(y)];
        let (x, y) = (held(x), held(y));
        if from.iter().any(|o| o.tracked && o.kind == Kind::Parameter) {
            if from.iter().any(|o| o.tracked && o.kind != Kind::Parameter) {
                return Err(refuse("axpby", "of a parameter and of what is no parameter"));
            }
            let back = move |walk: &mut Walk<'_>, terms: Vec<Term>| {
                for (factor, to) in [(alpha, &x), (beta, &y)] {
                    if walk.wants(to) && factor != 0.0 {
                        let terms = terms.iter().map(|t| t.times(factor)).collect::<Result<Vec<_>>>()?;
                        walk.add_terms(to, terms);
                    }
                }
                Ok(())
            };
            return self.wrote(into, Kind::Parameter, &from, false, Back::Terms(Box::new(back)));
        }
        rows("axpby", "x", from[0])?;
        rows("axpby", "y", from[1])?;
        self.rows_step(into, &from, move |walk, g| {
            for (factor, to) in [(alpha, &x), (beta, &y)] {
                walk.add_times(to, factor, g.shared(0));
            }
            Ok(())
        })
    }

    fn gather(&self, x: &Matrix, ids: &Ids, into: &Out) -> Result<()> {
        let mut of = self.of(x);
        if self.side.is_edges() {
            if of.kind == Kind::Parameter {
                return Err(refuse("gather-rows", "of a parameter; use it as a bias or a weight"));
            }
            if !self.side.is_owners(ids) {
                return Err(refuse("gather-rows", "own rows are brought to edges by task.owners"));
            }
            if self.side.is_sources() {
                // What targets passed: a gradient with regard to it is theirs.
                of.wanted = false;
            }
        }
        let (x, ids, shape) = (held(x), ids.shared(), x.shape());
        match of.kind {
            Kind::Parameter => {
                let &[count, _] = &shape[..] else {
                    return Err(refuse("gather-rows", "of a parameter that is no matrix"));
                };
                self.rows_step(into, &[of], move |walk, g| {
                    let term = match count {
                        1 => Term::Product(filled(&[ids.len(), 1], 1.0)?, g),
                        _ => Term::Scattered(ids, count, g),
                    };
                    walk.add_terms(&x, [term]);
                    Ok(())
                })
            }
            kind => {
                let offsets = self.side.is_edges().then(|| self.side.offsets()).transpose()?;
                let back: OfRows = Box::new(move |walk, g| {
                    let mut whole = g.shape();
                    whole[0] = shape[0];
                    let sums = scratch(&whole, |into| match &offsets {
                        Some(offsets) => linalg::reduce_segments(&g, offsets, Reduction::Sum, into),
                        None => linalg::scatter_add_rows(&g, &ids, into),
                    })?;
                    walk.add(&x, sums);
                    Ok(())
                });
                self.wrote(into, kind, &[of], false, Back::Rows(back))
            }
        }
    }

    /// A sum over each own row's edges, or a mean. Targets pass its gradient to their sources.
    fn sum_of_edges(&self, x: &Matrix, of: Operand, into: &Out, mean: Option<&Ids>) -> Result<()> {
        let width = x.extents().iter().skip(1).product();
        let slot = self.side.sum(width)?;
        let (x, owners, mean) = (held(x), self.side.owners()?, mean.map(Ids::shared));
        if self.side.is_sources() {
            let back: OfRows = Box::new(move |walk, g| {
                walk.add(&x, g.reshape(x.extents())?);
                Ok(())
            });
            return self.wrote(into, Kind::Rows, &[of], false, Back::Passed(back, slot));
        }
        let passed = Operand { wanted: true, ..of };
        self.rows_step(into, &[passed], move |walk, g| {
            let g = match &mean {
                Some(offsets) => divided(g, offsets)?,
                None => g,
            };
            if walk.wants(&x) {
                walk.add(&x, scratch(x.extents(), |into| linalg::gather_rows(&g, &owners, into))?);
            }
            walk.passed.put(slot, flat(g)?);
            Ok(())
        })
    }

    fn softmax_segments(&self, x: &Matrix, offsets: &Ids, state: &Out) -> Result<()> {
        let of = self.of(x);
        rows("softmax-segments", "x", of)?;
        let (node, _) = state.target();
        let (x, offsets) = (held(x), offsets.shared());
        if !self.side.is_edges() {
            let back: OfRows = Box::new(move |walk, g| {
                if !walk.wants(&x) {
                    return Ok(());
                }
                let owners = owners(&offsets)?;
                let segments = offsets.len().saturating_sub(1);
                let shape = x.shape();
                let state =
                    scratch(&[segments, 2 * shape[1]], |into| linalg::softmax_segments(&x, &offsets, into))?;
                let by_row = |m: &Matrix, width| {
                    scratch(&[shape[0], width], |into| linalg::gather_rows(m, &owners, into))
                };
                let (state, sums) = (by_row(&state, 2 * shape[1])?, by_row(&g, shape[1])?);
                walk.subtract_part(&x, &state, &sums)
            });
            return self.wrote(state, Kind::State, &[of], false, Back::Rows(back));
        }
        if !self.side.is_offsets(&offsets) {
            return Err(refuse("softmax-segments", "edges are reduced by task.offsets"));
        }
        let slot = self.side.sum(x.extents().get(1).copied().unwrap_or(0))?;
        if self.side.is_sources() {
            let back: OfRows = Box::new(move |walk, sums| {
                let tape = walk.tape();
                let state = tape.side.gathered(node, &tape.lazy)?;
                walk.subtract_part(&x, &state, &sums)
            });
            return self.wrote(state, Kind::State, &[of], false, Back::Passed(back, slot));
        }
        let owners = self.side.owners()?;
        let passed = Operand { wanted: true, ..of };
        let back: OfRows = Box::new(move |walk, g| {
            if walk.wants(&x) {
                let shape = x.shape();
                let state = scratch(&[g.shape()[0], 2 * shape[1]], |into| {
                    linalg::softmax_segments(&x, &offsets, into)
                })?;
                let by_edge = |m: &Matrix, width| {
                    scratch(&[shape[0], width], |into| linalg::gather_rows(m, &owners, into))
                };
                let (state, sums) = (by_edge(&state, 2 * shape[1])?, by_edge(&g, shape[1])?);
                walk.subtract_part(&x, &state, &sums)?;
            }
            walk.passed.put(slot, g);
            Ok(())
        });
        self.wrote(state, Kind::State, &[passed], false, Back::Rows(back))
    }
}

impl Walk<'_> {
    /// The part of a softmax's gradient that goes through its state: - values * the segment's sum of values * gradient.
    fn subtract_part(&mut self, x: &Matrix, state: &Matrix, sums: &Matrix) -> Result<()> {
        if !self.wants(x) {
            return Ok(());
        }
        let values = scratch(x.extents(), |into| linalg::softmax_values(x, state, into))?;
        let part = multiplied(&values, sums)?;
        self.add_times(x, -1.0, part);
        Ok(())
    }

    /// A gradient of `to`, which has these extents, or is one row for all rows.
    fn add_same_or_row(&mut self, operation: &str, to: &Matrix, gradient: Matrix) -> Result<()> {
        if self.kind(to) == Kind::Rows && to.extents() == gradient.extents() {
            self.add(to, gradient);
            return Ok(());
        }
        self.add_row(operation, to, gradient)
    }
}

/// Each row of a mean's gradient divided by what the mean is over.
fn divided(g: Matrix, offsets: &Ids) -> Result<Matrix> {
    let bounds = offsets.read(0, offsets.len())?;
    let factors: Vec<f32> =
        bounds.windows(2).map(|b| 1.0 / b[1].saturating_sub(b[0]).max(1) as f32).collect();
    let factors = scratch(&[factors.len() as u32, 1], |into| into.write_rows(0, &factors))?;
    let (shape, g) = (g.shape(), flat(g)?);
    scratch(g.extents(), |into| linalg::scale(&g, &factors, into))?.reshape(&shape)
}
