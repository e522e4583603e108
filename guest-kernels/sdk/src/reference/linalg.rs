//! Every operation of interface `linalg`, as its formula has it.

use super::random;
use super::shape_error;
use super::store::{Dense, Place, Store};
use crate::handles::{RawIds, RawMatrix, RawOut};
use crate::op::{After, Before, Op};
use crate::types::{Activation, Dropout, Error, Function, Reduction, Result};
use crate::{Matrix, Out};

/// What a prologue makes of rows.
struct Rows {
    /// dropout(activation(x + bias))
    u: Vec<f64>,
    /// du/dx
    slope: Vec<f64>,
}

impl Store {
    /// Does one operation. Nothing is written where it fails.
    pub(super) fn call(&mut self, op: Op<'_>) -> Result<()> {
        if let Some(done) = self.dense(&op) {
            return done;
        }
        match op {
            Op::Matmul { batched: false, a, transpose_a, b, transpose_b, accumulate, into } => {
                self.matmul((a, transpose_a), (b, transpose_b), accumulate, into)
            }
            Op::Matmul { batched: true, a, transpose_a, b, transpose_b, accumulate, into } => {
                self.batched_matmul((a, transpose_a), (b, transpose_b), accumulate, into)
            }
            Op::Linear { x, before, w, after, into } => self.linear(x, &before, w, &after, into),
            Op::LinearBackward { .. } => self.linear_backward(op),
            Op::Apply { x, by, into } => {
                let x = self.matrix("apply", "x", x.handle)?;
                let to = self.place("apply", "into", into.handle, &x.shape, None)?;
                to.fill(&self.prologue("apply", &x, &by, true)?.u);
                Ok(())
            }
            Op::ApplyBackward { x, by, grad, into } => {
                let x = self.matrix("apply-backward", "x", x.handle)?;
                let grad = self.like("apply-backward", "grad", grad, &x.shape)?;
                let to = self.place("apply-backward", "into", into.handle, &x.shape, None)?;
                let slope = self.prologue("apply-backward", &x, &by, false)?.slope;
                to.fill(&pairwise(&slope, &grad.values, |s, g| s * g));
                Ok(())
            }
            Op::Axpby { alpha, x, beta, y, into } => {
                let x = self.matrix("axpby", "x", x.handle)?;
                let y = self.like("axpby", "y", y, &x.shape)?;
                let to = self.place("axpby", "into", into.handle, &x.shape, None)?;
                to.fill(&pairwise(&x.values, &y.values, |x, y| f64::from(alpha) * x + f64::from(beta) * y));
                Ok(())
            }
            Op::Multiply { x, y, into } => {
                let x = self.matrix("multiply", "x", x.handle)?;
                let y = self.like("multiply", "y", y, &x.shape)?;
                let to = self.place("multiply", "into", into.handle, &x.shape, None)?;
                to.fill(&pairwise(&x.values, &y.values, |x, y| x * y));
                Ok(())
            }
            Op::Elementwise { x, by, into } => {
                check_function("elementwise", by)?;
                let x = self.matrix("elementwise", "x", x.handle)?;
                let to = self.place("elementwise", "into", into.handle, &x.shape, None)?;
                if by == Function::Absolute {
                    let nearest = x.values.iter().fold(f64::INFINITY, |nearest, v| nearest.min(v.abs()));
                    self.nearest_kink = self.nearest_kink.min(nearest);
                }
                to.fill(&x.values.iter().map(|&v| valued(by, v)).collect::<Vec<f64>>());
                Ok(())
            }
            Op::ElementwiseBackward { x, by, grad, into } => {
                let name = "elementwise-backward";
                check_function(name, by)?;
                let x = self.matrix(name, "x", x.handle)?;
                let grad = self.like(name, "grad", grad, &x.shape)?;
                let to = self.place(name, "into", into.handle, &x.shape, None)?;
                to.fill(&pairwise(&x.values, &grad.values, |x, g| g * sloped(by, x)));
                Ok(())
            }
            Op::SoftmaxCrossEntropy { x, labels, rows, weight, losses, grad } => {
                self.softmax_cross_entropy(x, labels, rows, f64::from(weight), losses, grad)
            }
            Op::Softmax { x, into } => {
                let x = self.matrix("softmax", "x", x.handle)?;
                two("softmax", "x", &x)?;
                let to = self.place("softmax", "into", into.handle, &x.shape, None)?;
                to.fill(&(0..x.rows()).flat_map(|i| softmax(x.row(i)).0).collect::<Vec<f64>>());
                Ok(())
            }
            Op::GatherRows { x, rows, into } => self.gather_rows(x, rows, into),
            Op::ScatterAddRows { x, rows, into } => self.scatter_add_rows(x, rows, into),
            Op::SumRows { x, into } => self.sum_rows(x, into),
            Op::ReduceColumns { x, by, into } => self.reduce_columns(x, by, into),
            Op::ReduceSegments { x, offsets, by, into } => self.reduce_segments(x, offsets, by, into),
            Op::Inner { x, y, into } => self.inner(x, y, into),
            Op::Scale { x, by, into } => self.scale(x, by, into),
            Op::SoftmaxSegments { x, offsets, state } => self.softmax_segments(x, offsets, state),
            Op::SoftmaxValues { x, state, into } => self.softmax_values(x, state, into),
            _ => Err(Error::Unsupported("an operation that the reference does not know".to_owned())),
        }
    }

    fn matmul(&self, a: (&Matrix, bool), b: (&Matrix, bool), accumulate: bool, into: &RawOut) -> Result<()> {
        let (ma, mb) = (self.matrix("matmul", "a", a.0.handle)?, self.matrix("matmul", "b", b.0.handle)?);
        two("matmul", "a", &ma)?;
        two("matmul", "b", &mb)?;
        let (n, k, m) = inner("matmul", &ma.shape, a.1, &mb.shape, b.1)?;
        let reduced = a.1.then(|| ma.rows());
        let to = self.place("matmul", "into", into.handle, &[n as u32, m as u32], reduced)?;
        store("matmul", &to, product((n, k, m), (&ma.values, a.1), (&mb.values, b.1)), accumulate)
    }

    fn batched_matmul(
        &self,
        a: (&Matrix, bool),
        b: (&Matrix, bool),
        accumulate: bool,
        into: &RawOut,
    ) -> Result<()> {
        let name = "batched-matmul";
        let (ma, mb) = (self.matrix(name, "a", a.0.handle)?, self.matrix(name, "b", b.0.handle)?);
        let fits = |shape: &[u32]| {
            (3..=4).contains(&shape.len())
                && shape.len() == ma.shape.len()
                && shape[..shape.len() - 2] == ma.shape[..shape.len() - 2]
        };
        for (operand, m) in [("a", &ma), ("b", &mb)] {
            if !fits(&m.shape) {
                let outer = &ma.shape[..ma.shape.len().clamp(3, 4).min(ma.shape.len() + 2) - 2];
                return Err(shape_error(name, operand, &[outer, &[0, 0]].concat(), &m.shape));
            }
        }
        let (outer, sides) = ma.shape.split_at(ma.shape.len() - 2);
        let (n, k, m) = inner(name, sides, a.1, &mb.shape[outer.len()..], b.1)?;
        let to = self.place(name, "into", into.handle, &[outer, &[n as u32, m as u32]].concat(), None)?;
        let (left, right) = (ma.values.chunks_exact((n * k).max(1)), mb.values.chunks_exact((k * m).max(1)));
        let each = |(left, right)| product((n, k, m), (left, a.1), (right, b.1));
        let count = outer.iter().map(|&e| e as usize).product::<usize>() * n * m;
        let mut values: Vec<f64> = left.zip(right).flat_map(each).collect();
        // Of products over nothing there are no values to begin with.
        values.resize(count, 0.0);
        store(name, &to, values, accumulate)
    }

    fn linear(
        &mut self,
        x: &RawMatrix,
        before: &Before<'_>,
        w: &RawMatrix,
        after: &After<'_>,
        into: &RawOut,
    ) -> Result<()> {
        let (x, w) = (self.matrix("linear", "x", x.handle)?, self.matrix("linear", "w", w.handle)?);
        let (n, k) = two("linear", "x", &x)?;
        let (_, m) = two("linear", "w", &w)?;
        if w.rows() != k {
            return Err(shape_error("linear", "w", &[k as u32, 0], &w.shape));
        }
        let bias = self.bias("linear", "after.bias", after.bias, m)?;
        check_activation("linear", after.activation)?;
        let to = self.place("linear", "into", into.handle, &[n as u32, m as u32], None)?;
        let u = self.prologue("linear", &x, before, true)?.u;
        let mut y = product((n, k, m), (&u, false), (&w.values, false));
        for (at, y) in y.iter_mut().enumerate() {
            let z = *y + bias[at % m];
            self.near_kink(after.activation, z);
            *y = activated(after.activation, z);
        }
        to.fill(&y);
        Ok(())
    }

    fn linear_backward(&mut self, op: Op<'_>) -> Result<()> {
        let Op::LinearBackward {
            x,
            before,
            w,
            after,
            y,
            grad,
            grad_x,
            grad_before_bias,
            grad_w,
            grad_after_bias,
        } = op
        else {
            return Err(Error::Unsupported("linear-backward was called with another operation".to_owned()));
        };
        let name = "linear-backward";
        let (x, w) = (self.matrix(name, "x", x.handle)?, self.matrix(name, "w", w.handle)?);
        let (n, k) = two(name, "x", &x)?;
        let (_, m) = two(name, "w", &w)?;
        if w.rows() != k {
            return Err(shape_error(name, "w", &[k as u32, 0], &w.shape));
        }
        let grad = self.like(name, "grad", grad, &[n as u32, m as u32])?;
        self.bias(name, "after.bias", after.bias, m)?;
        check_activation(name, after.activation)?;
        let y = y.map(|y| self.like(name, "y", y, &grad.shape)).transpose()?;
        let d = match (after.activation, &y) {
            (Activation::Identity, _) => grad.values.clone(),
            (f, Some(y)) => pairwise(&grad.values, &y.values, |g, y| g * slope_from_value(f, y)),
            (f, None) => {
                return Err(Error::Argument(format!(
                    "{name}: y must be given where after.activation is {f:?}"
                )));
            }
        };
        let to = |operand, out: Option<&Out>, shape: &[u32], reduced| {
            out.map(|o| self.place(name, operand, o.handle, shape, reduced)).transpose()
        };
        let grad_x = to("grad-x", grad_x, &x.shape, None)?;
        let grad_before_bias = to("grad-before-bias", grad_before_bias, &[k as u32], Some(n))?;
        let grad_w = to("grad-w", grad_w, &w.shape, Some(n))?;
        let grad_after_bias = to("grad-after-bias", grad_after_bias, &[m as u32], Some(n))?;

        let Rows { u, slope } = self.prologue(name, &x, &before, false)?;
        let back = product((n, m, k), (&d, false), (&w.values, true));
        let dx = pairwise(&back, &slope, |b, s| b * s);
        if let Some(to) = grad_before_bias {
            to.fill(&column_sums(&dx, k));
        }
        if let Some(to) = grad_x {
            to.fill(&dx);
        }
        if let Some(to) = grad_w {
            to.fill(&product((k, n, m), (&u, true), (&d, false)));
        }
        if let Some(to) = grad_after_bias {
            to.fill(&column_sums(&d, m));
        }
        Ok(())
    }

    fn softmax_cross_entropy(
        &self,
        x: &RawMatrix,
        labels: &RawIds,
        rows: &RawIds,
        weight: f64,
        losses: &RawOut,
        grad: &RawOut,
    ) -> Result<()> {
        let name = "softmax-cross-entropy";
        let x = self.matrix(name, "x", x.handle)?;
        let (n, c) = two(name, "x", &x)?;
        let labels = self.ids(name, "labels", labels.handle)?;
        if labels.len() != n {
            return Err(shape_error(name, "labels", &[n as u32], &[labels.len() as u32]));
        }
        let rows = self.ids(name, "rows", rows.handle)?;
        let to_losses = self.place(name, "losses", losses.handle, &[n as u32, 1], None)?;
        let to_grad = self.place(name, "grad", grad.handle, &x.shape, None)?;
        below(name, "rows", &rows, n, "rows")?;
        if let Some(at) = rows.windows(2).position(|w| w[0] >= w[1]) {
            let (one, next) = (rows[at], rows[at + 1]);
            return Err(Error::Argument(format!("{name}: rows must ascend, but {next} follows {one}")));
        }
        let (mut losses, mut grad) = (vec![0.0; n], vec![0.0; n * c]);
        for i in rows.iter().map(|&i| i as usize) {
            let label = labels[i] as usize;
            if label >= c {
                return Err(Error::Argument(format!(
                    "{name}: row {i} has label {label}; there are {c} classes"
                )));
            }
            let (p, log_sum) = softmax(x.row(i));
            losses[i] = weight * (log_sum - x.row(i)[label]);
            for (j, p) in p.iter().enumerate() {
                grad[i * c + j] = weight * (p - if j == label { 1.0 } else { 0.0 });
            }
        }
        to_losses.fill(&losses);
        to_grad.fill(&grad);
        Ok(())
    }

    fn gather_rows(&self, x: &RawMatrix, rows: &RawIds, into: &RawOut) -> Result<()> {
        let x = self.matrix("gather-rows", "x", x.handle)?;
        let rows = self.ids("gather-rows", "rows", rows.handle)?;
        let to = self.place("gather-rows", "into", into.handle, &with_rows(&x, rows.len()), None)?;
        below("gather-rows", "rows", &rows, x.rows(), "rows")?;
        to.fill(&rows.iter().flat_map(|&i| x.row(i as usize)).copied().collect::<Vec<f64>>());
        Ok(())
    }

    fn scatter_add_rows(&self, x: &RawMatrix, rows: &RawIds, into: &RawOut) -> Result<()> {
        let name = "scatter-add-rows";
        let x = self.matrix(name, "x", x.handle)?;
        let rows = self.ids(name, "rows", rows.handle)?;
        if rows.len() != x.rows() {
            return Err(shape_error(name, "rows", &[x.rows() as u32], &[rows.len() as u32]));
        }
        let count = self.out_shape(into.handle).first().map_or(0, |&n| n as usize);
        let to = self.place(name, "into", into.handle, &with_rows(&x, count), None)?;
        below(name, "rows", &rows, count, "rows of into")?;
        let mut sums = vec![0.0; count * x.row_len()];
        for (i, &row) in rows.iter().enumerate() {
            let from = row as usize * x.row_len();
            for (sum, v) in sums[from..].iter_mut().zip(x.row(i)) {
                *sum += v;
            }
        }
        to.fill(&sums);
        Ok(())
    }

    fn sum_rows(&self, x: &RawMatrix, into: &RawOut) -> Result<()> {
        let x = self.matrix("sum-rows", "x", x.handle)?;
        let (n, m) = two("sum-rows", "x", &x)?;
        let flat = [m as u32];
        let one_row = [1, m as u32];
        let shape = if self.out_shape(into.handle).len() == 2 { &one_row[..] } else { &flat[..] };
        let to = self.place("sum-rows", "into", into.handle, shape, Some(n))?;
        to.fill(&column_sums(&x.values, m));
        Ok(())
    }

    fn reduce_columns(&mut self, x: &RawMatrix, by: Reduction, into: &RawOut) -> Result<()> {
        let x = self.matrix("reduce-columns", "x", x.handle)?;
        let (n, _) = two("reduce-columns", "x", &x)?;
        let to = self.place("reduce-columns", "into", into.handle, &[n as u32, 1], None)?;
        let values: Vec<f64> = (0..n).map(|i| self.reduced(x.row(i), by)).collect();
        to.fill(&values);
        Ok(())
    }

    /// An operand that must have this shape.
    pub(super) fn like(
        &self,
        operation: &str,
        operand: &str,
        m: &RawMatrix,
        shape: &[u32],
    ) -> Result<std::rc::Rc<Dense>> {
        let m = self.matrix(operation, operand, m.handle)?;
        if m.shape != shape {
            return Err(shape_error(operation, operand, shape, &m.shape));
        }
        Ok(m)
    }

    /// A bias of `len` values, or zeros.
    fn bias(&self, operation: &str, operand: &str, bias: Option<&Matrix>, len: usize) -> Result<Vec<f64>> {
        match bias {
            Some(b) => Ok(self.like(operation, operand, b, &[len as u32])?.values.clone()),
            None => Ok(vec![0.0; len]),
        }
    }

    /// `watch`: whether to note how near to a kink the values are.
    fn prologue(&mut self, operation: &str, x: &Dense, by: &Before<'_>, watch: bool) -> Result<Rows> {
        let columns = x.row_len();
        let bias = self.bias(operation, "before.bias", by.bias, columns)?;
        check_activation(operation, by.activation)?;
        if let Some(p) = by.dropout.map(|d| d.probability).filter(|p| !(0.0..1.0).contains(p)) {
            return Err(Error::Argument(format!(
                "{operation}: dropout with probability {p}; 0 <= p < 1 is needed"
            )));
        }
        let (mut u, mut slope) = (Vec::new(), Vec::new());
        for (at, v) in x.values.iter().enumerate() {
            let v = v + bias[at % columns];
            let factor =
                self.dropout_factor(operation, by.dropout, x, at / columns, (at % columns) as u32)?;
            if watch {
                self.near_kink(by.activation, v);
            }
            // Written so that a NaN that is dropped goes away, as in a select.
            u.push(if factor == 0.0 { 0.0 } else { activated(by.activation, v) * factor });
            slope.push(if factor == 0.0 { 0.0 } else { derivative(by.activation, v) * factor });
        }
        Ok(Rows { u, slope })
    }

    /// What dropout multiplies the value at (row, column) of x with.
    fn dropout_factor(
        &self,
        operation: &str,
        by: Option<Dropout>,
        x: &Dense,
        row: usize,
        column: u32,
    ) -> Result<f64> {
        let Some(Dropout { probability, stream }) = by else { return Ok(1.0) };
        let c = self.context;
        if !c.training {
            return Ok(1.0);
        }
        let all = x.rows() > c.rows as usize && self.cut_or_joined(x.rows());
        let cut = if all { x.rows() / c.rows as usize } else { 1 };
        let (row, part) = (x.first_row + row / cut, row % cut);
        let column = column.wrapping_add((part * x.row_len()) as u32);
        if row >= c.rows as usize {
            return Err(Error::Argument(format!(
                "{operation}: dropout on row {row}; the interval has {} rows, and only they have global ids",
                c.rows
            )));
        }
        let key = random::key(c.seed, random::DROPOUT, c.epoch, c.layer, stream);
        let bits = random::bits32(key, self.row_id(row), column);
        Ok(if random::dropped(bits, probability) { 0.0 } else { 1.0 / (1.0 - f64::from(probability)) })
    }

    fn near_kink(&mut self, f: Activation, v: f64) {
        if matches!(f, Activation::Relu | Activation::LeakyRelu(_) | Activation::Elu(_)) {
            self.nearest_kink = self.nearest_kink.min(v.abs());
        }
    }

    pub(super) fn reduced(&mut self, values: &[f64], by: Reduction) -> f64 {
        let sum = || values.iter().sum::<f64>();
        match by {
            _ if values.is_empty() => 0.0,
            Reduction::Sum => sum(),
            Reduction::Mean => sum() / values.len() as f64,
            Reduction::Max if values.iter().any(|v| v.is_nan()) => f64::NAN,
            Reduction::Max => {
                let (mut largest, mut next) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
                for &v in values {
                    next = next.max(v.min(largest));
                    largest = largest.max(v);
                }
                // Values that are one, as the two ends of a parallel edge, stay so: no kink.
                if largest > next {
                    self.nearest_kink = self.nearest_kink.min(largest - next);
                }
                largest
            }
        }
    }
}

/// The two extents of a matrix.
pub(super) fn two(operation: &str, operand: &str, m: &Dense) -> Result<(usize, usize)> {
    match m.shape[..] {
        [n, k] => Ok((n as usize, k as usize)),
        _ => Err(shape_error(operation, operand, &[0, 0], &m.shape)),
    }
}

/// (n, k, m) of op(a) [n, k] times op(b) [k, m], from two extents each.
fn inner(
    operation: &str,
    a: &[u32],
    transpose_a: bool,
    b: &[u32],
    transpose_b: bool,
) -> Result<(usize, usize, usize)> {
    let (n, k) = if transpose_a { (a[1], a[0]) } else { (a[0], a[1]) };
    let (found, m) = if transpose_b { (b[1], b[0]) } else { (b[0], b[1]) };
    if found != k {
        let expected = if transpose_b { [m, k] } else { [k, m] };
        return Err(shape_error(operation, "b", &expected, b));
    }
    Ok((n as usize, k as usize, m as usize))
}

/// op(a) [n, k] times op(b) [k, m], where op transposes if asked.
fn product((n, k, m): (usize, usize, usize), a: (&[f64], bool), b: (&[f64], bool)) -> Vec<f64> {
    let a_at = |i: usize, l: usize| if a.1 { a.0[l * n + i] } else { a.0[i * k + l] };
    let b_at = |l: usize, j: usize| if b.1 { b.0[j * k + l] } else { b.0[l * m + j] };
    let mut c = vec![0.0; n * m];
    for i in 0..n {
        for j in 0..m {
            for l in 0..k {
                c[i * m + j] += a_at(i, l) * b_at(l, j);
            }
        }
    }
    c
}

fn store(operation: &str, to: &Place, values: Vec<f64>, accumulate: bool) -> Result<()> {
    match accumulate {
        true => to.fill(&pairwise(&to.old(operation)?, &values, |old, v| old + v)),
        false => to.fill(&values),
    }
    Ok(())
}

pub(super) fn pairwise(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

fn column_sums(values: &[f64], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    for (at, v) in values.iter().enumerate() {
        sums[at % columns] += v;
    }
    sums
}

/// The shape of x with another number of rows.
pub(super) fn with_rows(x: &Dense, rows: usize) -> Vec<u32> {
    let mut shape = x.shape.clone();
    shape[0] = rows as u32;
    shape
}

fn below(operation: &str, operand: &str, ids: &[u32], limit: usize, of: &str) -> Result<()> {
    match ids.iter().position(|&i| i as usize >= limit) {
        Some(at) => Err(Error::Argument(format!(
            "{operation}: {operand}[{at}] is {}; there are {limit} {of}",
            ids[at]
        ))),
        None => Ok(()),
    }
}

/// softmax(x), and the logarithm of the sum of the exponentials of x.
fn softmax(x: &[f64]) -> (Vec<f64>, f64) {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|v| (v - largest).exp()).collect();
    let sum: f64 = e.iter().sum();
    (e.iter().map(|e| e / sum).collect(), largest + sum.ln())
}

/// A slope or alpha below zero has no derivative that can be told from the value.
fn check_activation(operation: &str, f: Activation) -> Result<()> {
    match f {
        Activation::LeakyRelu(v) | Activation::Elu(v) if !(v.is_finite() && v >= 0.0) => {
            Err(Error::Argument(format!("{operation}: activation {f:?}; a finite number from 0 is needed")))
        }
        _ => Ok(()),
    }
}

fn check_function(operation: &str, f: Function) -> Result<()> {
    match f {
        Function::Power(p) if !p.is_finite() => {
            Err(Error::Argument(format!("{operation}: the power {p}; a finite number is needed")))
        }
        _ => Ok(()),
    }
}

fn valued(f: Function, v: f64) -> f64 {
    match f {
        Function::Exp => v.exp(),
        Function::Log => v.ln(),
        Function::Sqrt => v.sqrt(),
        Function::Reciprocal => v.recip(),
        Function::Absolute => v.abs(),
        Function::Power(p) => v.powf(p.into()),
    }
}

/// f'(v)
fn sloped(f: Function, v: f64) -> f64 {
    match f {
        Function::Exp => v.exp(),
        Function::Log if v < 0.0 => f64::NAN,
        Function::Log => v.recip(),
        Function::Sqrt => 0.5 / v.sqrt(),
        Function::Reciprocal => -(v * v).recip(),
        Function::Absolute if v == 0.0 => 0.0,
        Function::Absolute => v.signum(),
        Function::Power(0.0) => 0.0,
        Function::Power(p) => f64::from(p) * v.powf(f64::from(p) - 1.0),
    }
}

fn activated(f: Activation, v: f64) -> f64 {
    match f {
        Activation::Identity => v,
        Activation::Relu if v <= 0.0 => 0.0,
        Activation::LeakyRelu(slope) if v <= 0.0 => f64::from(slope) * v,
        Activation::Elu(alpha) if v <= 0.0 => f64::from(alpha) * v.exp_m1(),
        Activation::Relu | Activation::LeakyRelu(_) | Activation::Elu(_) => v,
        Activation::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        Activation::Tanh => v.tanh(),
    }
}

/// f'(v)
fn derivative(f: Activation, v: f64) -> f64 {
    match f {
        Activation::Identity => 1.0,
        Activation::Relu if v <= 0.0 => 0.0,
        Activation::LeakyRelu(slope) if v <= 0.0 => f64::from(slope),
        Activation::Elu(alpha) if v <= 0.0 => f64::from(alpha) * v.exp(),
        Activation::Relu | Activation::LeakyRelu(_) | Activation::Elu(_) => 1.0,
        Activation::Sigmoid => 1.0 / (2.0 + v.exp() + (-v).exp()),
        Activation::Tanh => 1.0 / (v.cosh() * v.cosh()),
    }
}

/// f'(v), given y = f(v).
fn slope_from_value(f: Activation, y: f64) -> f64 {
    match f {
        Activation::Identity => 1.0,
        Activation::Relu if y <= 0.0 => 0.0,
        Activation::LeakyRelu(slope) if y <= 0.0 => f64::from(slope),
        Activation::Elu(alpha) if y <= 0.0 => y + f64::from(alpha),
        Activation::Relu | Activation::LeakyRelu(_) | Activation::Elu(_) => 1.0,
        Activation::Sigmoid => y * (1.0 - y),
        Activation::Tanh => 1.0 - y * y,
    }
}
