//! Host functions that kernels import. The generated traits of the contract are implemented for the
//! [`State`] of a task.

use eciton_tensor::Matrix;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::function::Function;
use eciton_tensor::ops::row_scale::RowScale;
use eciton_tensor::ops::rows::Reduction;
use eciton_tensor::ops::smooth::Smooth;
use eciton_tensor::random::Purpose;
use wasmtime::component::Resource;

use crate::bindings::eciton::kernel::{dense, given, linalg, log, random, tensors, types};
use crate::log::cut;
use crate::operations::{After, Attended, Before, Gradients, Window};
use crate::outs::{Laid, Place};
use crate::state::{Failure, IdsHandle, MatrixHandle, OutHandle, OutView, RowNumbers, State};

type Answer<T> = wasmtime::Result<Result<T, types::Error>>;
type M = Resource<MatrixHandle>;
type O = Resource<OutHandle>;
type I = Resource<IdsHandle>;

impl From<Failure> for types::Error {
    fn from(f: Failure) -> Self {
        match f {
            Failure::Shape { operation, operand, expected, found } => {
                Self::Shape(types::ShapeMismatch { operation, operand, expected, found })
            }
            Failure::Argument(text) => Self::Argument(text),
            Failure::Limit { limit, unit, allowed, asked } => Self::Limit(types::LimitReached {
                limit: limit.to_owned(),
                unit: unit.to_owned(),
                allowed,
                asked,
            }),
            Failure::Deadline(text) => Self::Deadline(text),
            Failure::OutOfTime => Self::Deadline("the time limit of the task has passed".to_owned()),
            Failure::Unsupported(text) => Self::Unsupported(text),
        }
    }
}

fn answer<T>(result: Result<T, Failure>) -> Answer<T> {
    match result {
        // The task's time is over, so the guest gets no answer.
        Err(Failure::OutOfTime) => Err(wasmtime::Trap::Interrupt.into()),
        result => Ok(result.map_err(Into::into)),
    }
}

fn matrix(handle: Result<u32, Failure>) -> Answer<M> {
    answer(handle.map(Resource::new_own))
}

fn function(by: linalg::Function) -> Function {
    match by {
        linalg::Function::Exp => Function::Exp,
        linalg::Function::Log => Function::Log,
        linalg::Function::Sqrt => Function::Sqrt,
        linalg::Function::Reciprocal => Function::Reciprocal,
        linalg::Function::Absolute => Function::Absolute,
        linalg::Function::Power(p) => Function::Power(p),
    }
}

fn activation(a: types::Activation) -> Activation {
    match a {
        types::Activation::Identity => Activation::Identity,
        types::Activation::Relu => Activation::Relu,
        types::Activation::LeakyRelu(slope) => Activation::LeakyRelu(slope),
        types::Activation::Elu(alpha) => Activation::Elu(alpha),
        types::Activation::Sigmoid => Activation::Sigmoid,
        types::Activation::Tanh => Activation::Tanh,
    }
}

fn before(p: linalg::Prologue) -> Before {
    Before {
        bias: p.bias.map(|b| b.rep()),
        activation: activation(p.activation),
        dropout: p.dropout.map(|d| (d.probability, d.stream)),
    }
}

fn after(e: linalg::Epilogue) -> After {
    After { bias: e.bias.map(|b| b.rep()), activation: activation(e.activation) }
}

fn reduction(by: linalg::Reduction) -> Reduction {
    match by {
        linalg::Reduction::Sum => Reduction::Sum,
        linalg::Reduction::Mean => Reduction::Mean,
        linalg::Reduction::Max => Reduction::Max,
    }
}

impl types::Host for State {}

impl tensors::Host for State {}

impl tensors::HostMatrix for State {
    fn shape(&mut self, m: M) -> wasmtime::Result<Vec<u32>> {
        Ok(self.matrix(m.rep()).map(Matrix::shape).unwrap_or_default())
    }

    fn rows(&mut self, m: M, start: u32, count: u32) -> Answer<M> {
        let view = self.matrix(m.rep()).and_then(|m| Ok(m.slice_rows(start as usize, count as usize)?));
        matrix(view.and_then(|v| self.push_matrix(v)))
    }

    fn columns(&mut self, m: M, start: u32, count: u32) -> Answer<M> {
        let view = self.matrix(m.rep()).and_then(|m| Ok(m.slice_columns(start as usize, count as usize)?));
        matrix(view.and_then(|v| self.push_matrix(v)))
    }

    fn reshape(&mut self, m: M, shape: Vec<u32>) -> Answer<M> {
        let view = self.matrix(m.rep()).and_then(|m| Ok(m.reshape(&shape)?));
        matrix(view.and_then(|v| self.push_matrix(v)))
    }

    fn arrived(&mut self, m: M, after: u32) -> Answer<u32> {
        let deadline = Some(self.limits.arrival);
        answer(self.matrix(m.rep()).and_then(|m| Ok(m.arrived(after as usize, deadline)? as u32)))
    }

    fn read_rows(&mut self, m: M, start: u32, count: u32) -> Answer<Vec<f32>> {
        answer(self.copy_rows(m.rep(), start, count))
    }

    fn drop(&mut self, m: M) -> wasmtime::Result<()> {
        self.matrices.take(m.rep());
        Ok(())
    }
}

impl State {
    pub(crate) fn copy_rows(&mut self, matrix: u32, start: u32, count: u32) -> Result<Vec<f32>, Failure> {
        let values = u64::from(count).saturating_mul(self.matrix(matrix)?.columns() as u64);
        self.check_copy(values.saturating_mul(4))?;
        let mut out = Vec::with_capacity(values as usize);
        let (matrix, deadline) = (self.matrix(matrix)?, Some(self.limits.arrival));
        matrix.read_rows(start as usize, count as usize, deadline, &mut out)?;
        self.copied_bytes += values.saturating_mul(4);
        Ok(out)
    }

    pub(crate) fn out_rows(&mut self, out: u32, start: u32, count: u32) -> Result<u32, Failure> {
        self.check_handles()?;
        let view = self.out(out)?;
        if view.laid != Laid::AsTheyAre {
            return Err(Failure::Unsupported("rows: split or grouped rows have no row views".to_owned()));
        }
        if !matches!(self.place(view)?, Place::Rows { .. }) {
            return Err(Failure::Unsupported("rows: a sum over rows has no row views".to_owned()));
        }
        let (start, count) = (start as usize, count as usize);
        if start + count > view.count {
            return Err(Failure::Argument(format!(
                "rows: {start}..{} is out of range, because the output has {} rows",
                start + count,
                view.count
            )));
        }
        Ok(self.outs.push(OutView { start: view.start + start, count, whole: false, ..view }))
    }

    pub(crate) fn put_rows(&mut self, out: u32, start: u32, values: &[f32]) -> Result<(), Failure> {
        self.check_copy(values.len() as u64 * 4)?;
        self.copied_bytes += values.len() as u64 * 4;
        let view = self.out(out)?;
        if view.laid != Laid::AsTheyAre {
            return Err(Failure::Unsupported(
                "write-rows: only operations can write split or grouped rows; write to the rows that were split or grouped".to_owned(),
            ));
        }
        let Some(Some(place)) = self.places.get_mut(view.place) else {
            return Err(Failure::Argument("write-rows: this output is already finished".to_owned()));
        };
        let Place::Rows { rows, written, .. } = place else {
            return Err(Failure::Unsupported(
                "write-rows: a parameter's gradient or a loss is written by a reduction over rows (sum-rows, matmul with transpose-a, linear-backward)".to_owned(),
            ));
        };
        let mut all = rows.view_mut();
        let columns = all.columns().max(1);
        let (start, count) = (start as usize, values.len() / columns);
        if count * columns != values.len() || start + count > view.count {
            return Err(Failure::Argument(format!(
                "write-rows: {} values from row {start} are not whole rows of {columns} values within {} rows",
                values.len(),
                view.count
            )));
        }
        let from = view.start + start;
        let mut target = all.slice(from, count);
        if target.stride() == columns {
            target.data_mut()[..values.len()].copy_from_slice(values);
        } else {
            for (i, row) in values.chunks_exact(columns).enumerate() {
                target.row_mut(i).copy_from_slice(row);
            }
        }
        written.add(from..from + count);
        Ok(())
    }

    pub(crate) fn create_ids(&mut self, values: Vec<u32>) -> Result<u32, Failure> {
        self.check_handles()?;
        self.check_copy(values.len() as u64 * 4)?;
        Ok(self.ids.push(values.into()))
    }

    pub(crate) fn read_ids(&mut self, ids: u32, start: u32, count: u32) -> Result<Vec<u32>, Failure> {
        self.check_copy(u64::from(count) * 4)?;
        let ids = self.ids(ids)?;
        let span = start as usize..start as usize + count as usize;
        let found = ids.get(span.clone()).map(<[u32]>::to_vec);
        found.ok_or_else(|| {
            Failure::Argument(format!(
                "read: {span:?} is out of range, because the list has {} ids",
                ids.len()
            ))
        })
    }

    pub(crate) fn list_rows(&mut self, start: u32, count: u32) -> Result<Vec<u64>, Failure> {
        self.check_copy(u64::from(count) * 8)?;
        let (start, count, rows) = (start as usize, count as usize, self.grid.rows());
        if start + count > rows {
            return Err(Failure::Argument(format!(
                "row-ids: {start}..{} is out of range, because there are {rows} rows",
                start + count
            )));
        }
        Ok(match &self.row_numbers {
            RowNumbers::From(first) => (start..start + count).map(|r| first + r as u64).collect(),
            RowNumbers::List(ids) => ids[start..start + count].to_vec(),
        })
    }

    /// Returns true if the task's log has reached its size limit. Further lines are then dropped.
    pub(crate) fn log_is_full(&self) -> bool {
        self.log_bytes > self.limits.log_bytes
    }

    pub(crate) fn log_line(&mut self, level: log::Level, text: &str) {
        let level = match level {
            log::Level::Debug => "debug",
            log::Level::Info => "info",
            log::Level::Warning => "warning",
        };
        let line = format!("{level}: {}", cut(text));
        let line = cut(&line);
        self.log_bytes += line.len() as u64;
        if !self.log_is_full() {
            // Control characters could steer the user's terminal.
            self.log.push(line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        }
    }

    pub(crate) fn panicked_at(&mut self, text: &str, file: &str, line: u32) {
        let text: String = cut(text).chars().filter(|c| !c.is_control()).collect();
        self.panic = Some(format!("panicked at {}:{line}: {text}", cut(file)));
    }
}

impl tensors::HostOut for State {
    fn create(&mut self, shape: Vec<u32>) -> Answer<O> {
        answer(self.create_out(&shape).map(Resource::new_own))
    }

    fn shape(&mut self, o: O) -> wasmtime::Result<Vec<u32>> {
        Ok(self.out_shape(o.rep()).unwrap_or_default())
    }

    fn rows(&mut self, o: O, start: u32, count: u32) -> Answer<O> {
        answer(self.out_rows(o.rep(), start, count).map(Resource::new_own))
    }

    fn write_rows(&mut self, o: O, start: u32, values: Vec<f32>) -> Answer<()> {
        answer(self.put_rows(o.rep(), start, &values))
    }

    fn finish(&mut self, o: O) -> Answer<M> {
        matrix(self.finish_out(o.rep()))
    }

    fn drop(&mut self, o: O) -> wasmtime::Result<()> {
        self.outs.take(o.rep());
        Ok(())
    }
}

impl tensors::HostIds for State {
    fn create(&mut self, values: Vec<u32>) -> Answer<I> {
        answer(self.create_ids(values).map(Resource::new_own))
    }

    fn len(&mut self, i: I) -> wasmtime::Result<u32> {
        Ok(self.ids(i.rep()).map_or(0, |ids| ids.len() as u32))
    }

    fn read(&mut self, i: I, start: u32, count: u32) -> Answer<Vec<u32>> {
        answer(self.read_ids(i.rep(), start, count))
    }

    fn drop(&mut self, i: I) -> wasmtime::Result<()> {
        self.ids.take(i.rep());
        Ok(())
    }
}

impl random::Host for State {
    fn key(&mut self, stream: u32) -> wasmtime::Result<u64> {
        Ok(State::key(self, Purpose::Kernel, stream).0)
    }

    fn row_ids(&mut self, start: u32, count: u32) -> Answer<Vec<u64>> {
        answer(self.list_rows(start, count))
    }
}

impl given::Host for State {
    fn row_weights(&mut self) -> Answer<Option<M>> {
        answer(self.ask_row_weights().map(|handle| handle.map(Resource::new_own)))
    }
}

// The bindings require this trait. Components call the functions of `log.rs` instead.
impl log::Host for State {
    fn write(&mut self, level: log::Level, text: String) -> wasmtime::Result<()> {
        self.log_line(level, &text);
        Ok(())
    }

    fn panicked(&mut self, text: String, file: String, line: u32) -> wasmtime::Result<()> {
        self.panicked_at(&text, &file, line);
        Ok(())
    }
}

impl linalg::Host for State {
    fn matmul(&mut self, a: M, ta: bool, b: M, tb: bool, accumulate: bool, into: O) -> Answer<()> {
        answer(State::matmul(self, a.rep(), ta, b.rep(), tb, accumulate, into.rep()))
    }

    fn batched_matmul(&mut self, a: M, ta: bool, b: M, tb: bool, accumulate: bool, into: O) -> Answer<()> {
        answer(State::batched_matmul(self, a.rep(), ta, b.rep(), tb, accumulate, into.rep()))
    }

    fn linear(&mut self, x: M, b: linalg::Prologue, w: M, e: linalg::Epilogue, into: O) -> Answer<()> {
        answer(State::linear(self, x.rep(), before(b), w.rep(), after(e), into.rep()))
    }

    fn linear_backward(
        &mut self,
        x: M,
        b: linalg::Prologue,
        w: M,
        e: linalg::Epilogue,
        y: Option<M>,
        grad: M,
        grad_x: Option<O>,
        grad_before_bias: Option<O>,
        grad_w: Option<O>,
        grad_after_bias: Option<O>,
    ) -> Answer<()> {
        let wanted = Gradients {
            x: grad_x.map(|o| o.rep()),
            before_bias: grad_before_bias.map(|o| o.rep()),
            w: grad_w.map(|o| o.rep()),
            after_bias: grad_after_bias.map(|o| o.rep()),
        };
        let y = y.map(|y| y.rep());
        answer(State::linear_backward(self, x.rep(), before(b), w.rep(), after(e), y, grad.rep(), wanted))
    }

    fn apply(&mut self, x: M, by: linalg::Prologue, into: O) -> Answer<()> {
        answer(State::apply(self, x.rep(), before(by), into.rep()))
    }

    fn apply_backward(&mut self, x: M, by: linalg::Prologue, grad: M, into: O) -> Answer<()> {
        answer(State::apply_backward(self, x.rep(), before(by), grad.rep(), into.rep()))
    }

    fn axpby(&mut self, alpha: f32, x: M, beta: f32, y: M, into: O) -> Answer<()> {
        answer(State::axpby(self, alpha, x.rep(), beta, y.rep(), into.rep()))
    }

    fn multiply(&mut self, x: M, y: M, into: O) -> Answer<()> {
        answer(State::multiply(self, x.rep(), y.rep(), into.rep()))
    }

    fn elementwise(&mut self, x: M, by: linalg::Function, into: O) -> Answer<()> {
        answer(State::elementwise(self, x.rep(), function(by), into.rep()))
    }

    fn elementwise_backward(&mut self, x: M, by: linalg::Function, grad: M, into: O) -> Answer<()> {
        answer(State::elementwise_backward(self, x.rep(), function(by), grad.rep(), into.rep()))
    }

    fn softmax_cross_entropy(
        &mut self,
        x: M,
        labels: I,
        rows: I,
        weight: f32,
        losses: O,
        grad: O,
    ) -> Answer<()> {
        answer(self.cross_entropy(x.rep(), labels.rep(), rows.rep(), weight, losses.rep(), grad.rep()))
    }

    fn softmax(&mut self, x: M, into: O) -> Answer<()> {
        answer(State::softmax(self, x.rep(), into.rep()))
    }

    fn gather_rows(&mut self, x: M, rows: I, into: O) -> Answer<()> {
        answer(State::gather_rows(self, x.rep(), rows.rep(), into.rep()))
    }

    fn scatter_add_rows(&mut self, x: M, rows: I, into: O) -> Answer<()> {
        answer(State::scatter_add_rows(self, x.rep(), rows.rep(), into.rep()))
    }

    fn sum_rows(&mut self, x: M, into: O) -> Answer<()> {
        answer(State::sum_rows(self, x.rep(), into.rep()))
    }

    fn inner(&mut self, x: M, y: M, into: O) -> Answer<()> {
        answer(State::inner(self, x.rep(), y.rep(), into.rep()))
    }

    fn scale(&mut self, x: M, by: M, into: O) -> Answer<()> {
        answer(State::scale(self, x.rep(), by.rep(), into.rep()))
    }

    fn softmax_segments(&mut self, x: M, offsets: I, state: O) -> Answer<()> {
        answer(State::softmax_segments(self, x.rep(), offsets.rep(), state.rep()))
    }

    fn softmax_values(&mut self, x: M, state: M, into: O) -> Answer<()> {
        answer(State::softmax_values(self, x.rep(), state.rep(), into.rep()))
    }

    fn reduce_columns(&mut self, x: M, by: linalg::Reduction, into: O) -> Answer<()> {
        answer(State::reduce_columns(self, x.rep(), reduction(by), into.rep()))
    }

    fn reduce_segments(&mut self, x: M, offsets: I, by: linalg::Reduction, into: O) -> Answer<()> {
        answer(State::reduce_segments(self, x.rep(), offsets.rep(), reduction(by), into.rep()))
    }
}

fn smooth(by: dense::Smooth) -> Smooth {
    match by {
        dense::Smooth::Gelu => Smooth::Gelu,
        dense::Smooth::GeluTanh => Smooth::GeluTanh,
        dense::Smooth::Silu => Smooth::Silu,
        dense::Smooth::Softplus => Smooth::Softplus,
    }
}

fn attended(by: dense::Attention) -> Attended {
    let dense::Attention { heads, group, causal, scale } = by;
    Attended { heads, group, causal, scale }
}

fn row_scale(by: dense::RowScale) -> RowScale {
    match by {
        dense::RowScale::Layer(epsilon) => RowScale::Layer(epsilon),
        dense::RowScale::Rms(epsilon) => RowScale::Rms(epsilon),
        dense::RowScale::Length(least) => RowScale::Length(least),
        dense::RowScale::None => RowScale::None,
    }
}

fn window(by: dense::Windows) -> Window {
    let dense::Windows { kernel, stride, padding, dilation } = by;
    Window { kernel, stride, padding, dilation }
}

impl State {
    /// Creates a view of a matrix in which rows are split or grouped, and returns its handle.
    pub(crate) fn lay_rows(&mut self, matrix: u32, laid: Laid) -> Result<u32, Failure> {
        let deadline = Some(self.limits.arrival);
        let x = self.matrix(matrix)?;
        let operation = if matches!(laid, Laid::Split(_)) { "split-rows" } else { "group-rows" };
        let (rows, columns) = Self::other_rows(operation, laid, x.rows(), x.columns())?;
        let view = x.relaid(rows, columns, deadline)?;
        self.push_matrix(view)
    }

    /// Creates a view of an output in which rows are split or grouped, and returns its handle.
    pub(crate) fn lay_out(&mut self, out: u32, laid: Laid) -> Result<u32, Failure> {
        self.check_handles()?;
        let operation = if matches!(laid, Laid::Split(_)) { "split-out" } else { "group-out" };
        let view = self.out(out)?;
        if !matches!(self.place(view)?, Place::Rows { .. }) || view.laid != Laid::AsTheyAre {
            return Err(Failure::Unsupported(format!(
                "{operation}: the output must be rows, not a sum over rows and not split or grouped rows"
            )));
        }
        let shape = self.out_shape(out)?;
        let columns = shape.iter().skip(1).map(|&e| e as usize).product();
        Self::other_rows(operation, laid, view.count, columns)?;
        Ok(self.outs.push(OutView { laid, whole: false, ..view }))
    }
}

impl dense::Host for State {
    fn split_rows(&mut self, x: M, t: u32) -> Answer<M> {
        matrix(self.lay_rows(x.rep(), Laid::Split(t)))
    }

    fn group_rows(&mut self, x: M, t: u32) -> Answer<M> {
        matrix(self.lay_rows(x.rep(), Laid::Grouped(t)))
    }

    fn split_out(&mut self, x: O, t: u32) -> Answer<O> {
        answer(self.lay_out(x.rep(), Laid::Split(t)).map(Resource::new_own))
    }

    fn group_out(&mut self, x: O, t: u32) -> Answer<O> {
        answer(self.lay_out(x.rep(), Laid::Grouped(t)).map(Resource::new_own))
    }

    fn permute(&mut self, x: M, order: Vec<u32>, into: O) -> Answer<()> {
        answer(State::permute(self, x.rep(), &order, into.rep()))
    }

    fn concat(&mut self, parts: Vec<M>, into: O) -> Answer<()> {
        let parts: Vec<u32> = parts.iter().map(Resource::rep).collect();
        answer(State::concat(self, &parts, into.rep()))
    }

    fn place_columns(&mut self, x: M, at: u32, into: O) -> Answer<()> {
        answer(State::place_columns(self, x.rep(), at, into.rep()))
    }

    fn softmax_masked(&mut self, x: M, causal: bool, scale: f32, into: O) -> Answer<()> {
        answer(State::softmax_masked(self, x.rep(), causal, scale, into.rep()))
    }

    fn softmax_backward(&mut self, y: M, grad: M, scale: f32, into: O) -> Answer<()> {
        answer(State::softmax_backward(self, y.rep(), grad.rep(), scale, into.rep()))
    }

    fn normalise(
        &mut self,
        x: M,
        by: dense::RowScale,
        scale: Option<M>,
        shift: Option<M>,
        into: O,
    ) -> Answer<()> {
        let columns = [scale, shift].map(|column| column.map(|column| column.rep()));
        answer(State::normalise(self, x.rep(), row_scale(by), columns, into.rep()))
    }

    fn normalise_backward(
        &mut self,
        x: M,
        by: dense::RowScale,
        scale: Option<M>,
        grad: M,
        into: O,
    ) -> Answer<()> {
        let scale = scale.map(|scale| scale.rep());
        answer(State::normalise_backward(self, x.rep(), row_scale(by), scale, grad.rep(), into.rep()))
    }

    fn attend(&mut self, x: M, by: dense::Attention, into: O) -> Answer<()> {
        answer(State::attend(self, x.rep(), attended(by), into.rep()))
    }

    fn attend_backward(&mut self, x: M, by: dense::Attention, grad: M, into: O) -> Answer<()> {
        answer(State::attend_backward(self, x.rep(), attended(by), grad.rep(), into.rep()))
    }

    fn scatter_sum(&mut self, x: M, rows: I, into: O) -> Answer<()> {
        answer(State::scatter_sum(self, x.rep(), rows.rep(), into.rep()))
    }

    fn patches(&mut self, x: M, by: dense::Windows, into: O) -> Answer<()> {
        answer(State::patches(self, x.rep(), window(by), into.rep()))
    }

    fn patches_sum(&mut self, x: M, by: dense::Windows, into: O) -> Answer<()> {
        answer(State::patches_sum(self, x.rep(), window(by), into.rep()))
    }

    fn pool(&mut self, x: M, by: dense::Windows, with: linalg::Reduction, into: O) -> Answer<()> {
        answer(State::pool(self, x.rep(), window(by), reduction(with), into.rep()))
    }

    fn pool_backward(
        &mut self,
        x: M,
        by: dense::Windows,
        with: linalg::Reduction,
        grad: M,
        into: O,
    ) -> Answer<()> {
        answer(State::pool_backward(self, x.rep(), window(by), reduction(with), grad.rep(), into.rep()))
    }

    fn smoothed(&mut self, x: M, by: dense::Smooth, into: O) -> Answer<()> {
        answer(State::smoothed(self, x.rep(), smooth(by), into.rep()))
    }

    fn smoothed_backward(&mut self, x: M, by: dense::Smooth, grad: M, into: O) -> Answer<()> {
        answer(State::smoothed_backward(self, x.rep(), smooth(by), grad.rep(), into.rep()))
    }
}
