//! Reference host: the contract in f64, with simple code that is correct rather than fast.
//!
//! Other hosts are compared with it, and a kernel's native tests run on it. Matrices are dense,
//! views are copies, and sums are computed in index order. It is strict where a faster host may not
//! check. A scratch matrix must be written completely before it is finished or added to. A
//! reduction over rows (the gradient of a parameter, or a loss) can be written only by a reduction.
//! In an [`Error::Shape`] of this host, an expected extent of 0 stands for any extent.
//!
//! ```
//! use eciton_sdk::{linalg, reference::{Context, Reference}};
//! let host = Reference::new(Context { rows: 2, ..Context::default() });
//! let x = host.matrix(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
//! let sums = host.gradient(&[2]).unwrap();
//! host.run(|| linalg::sum_rows(&x, &sums)).unwrap();
//! assert_eq!(host.values(&sums).unwrap(), [4.0, 6.0]);
//! ```

mod dense;
mod linalg;
pub mod random;
mod segments;
mod store;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use crate::native::{self, Host, Kind};
use crate::op::Op;
use crate::types::{Error, Result, Task};
use crate::{Ids, Matrix, Out};
use store::{Purpose, Store};

/// Maximum number of elements of one matrix or list. A larger one gives `Error::Limit`.
pub const ELEMENTS_MAX: u64 = 1 << 26;
/// Maximum number of live handles. One more gives `Error::Limit`.
pub const HANDLES_MAX: u64 = 1 << 16;
/// Maximum number of log lines that are stored. Later lines are dropped.
pub const LOG_LINES_MAX: usize = 1024;
/// Maximum length of a log line, in bytes. The rest is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 4096;

/// Context of a task, as far as results depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context {
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Training round (one optimizer step), from 0.
    pub epoch: u32,
    /// Index of the layer in the model, from 0.
    pub layer: u32,
    /// True in training, when dropout applies.
    pub training: bool,
    /// Global id of the interval's first row. The other ids follow consecutively.
    pub first_row: u64,
    /// Number of rows of the interval.
    pub rows: u32,
}

impl Context {
    /// Returns the part of the context that a kernel receives.
    pub fn task(&self) -> Task {
        Task { training: self.training, epoch: self.epoch, layer: self.layer, rows: self.rows }
    }
}

/// Cost of operations, as numbers of operations and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Number of operations that were executed.
    pub operations: u64,
    /// Number of values that they read and wrote: the elements of all matrices and outputs that
    /// were passed to operations.
    pub values: u64,
}

/// Reference host. A clone is another handle of the same matrices.
#[derive(Debug, Clone)]
pub struct Reference(Rc<RefCell<Store>>);

impl Reference {
    /// Creates a host without matrices, for one task.
    pub fn new(context: Context) -> Self {
        Self(Rc::new(RefCell::new(Store::new(context))))
    }

    /// Creates a host for a task whose rows have these global ids, such as a block of edges.
    /// `context.first_row` and `context.rows` are ignored.
    pub fn with_row_ids(context: Context, ids: &[u64]) -> Self {
        let host = Self::new(Context { rows: ids.len() as u32, ..context });
        host.0.borrow_mut().row_ids = Some(ids.to_vec());
        host
    }

    /// Creates a host outside of a task, as `open` and `signature` see it. No data can be
    /// requested.
    pub fn idle() -> Self {
        let host = Self::new(Context::default());
        host.0.borrow_mut().given = None;
        host
    }

    /// Sets the loss weight of each row, `rows` values. Every weight is 1 until this is called.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the number of values is wrong, and [`Error::Unsupported`]
    /// outside of a task.
    pub fn weigh_rows(&self, weights: &[f64]) -> Result<()> {
        let mut store = self.0.borrow_mut();
        let rows = store.context.rows;
        if weights.len() != rows as usize {
            return Err(shape_error("row-weights", "weights", &[rows, 1], &[weights.len() as u32, 1]));
        }
        store.given()?.row_weights = Some(weights.to_vec());
        Ok(())
    }

    /// Returns true if the kernel has requested the row weights.
    pub fn asked_row_weights(&self) -> bool {
        self.0.borrow().given.as_ref().is_some_and(|given| given.asked)
    }

    /// Returns the context of the task.
    pub fn context(&self) -> Context {
        self.0.borrow().context
    }

    /// Runs `work` with this host as the host of the current thread.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        native::with_host(Box::new(self.clone()), work)
    }

    /// Creates an input. `shape` has the rows first, and `values` are row-major. The handle is
    /// valid as long as the host exists.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the number of values does not match the shape.
    pub fn matrix(&self, shape: &[u32], values: &[f64]) -> Result<Matrix> {
        self.0.borrow_mut().add_matrix(shape, values.to_vec()).map(Matrix::borrowed)
    }

    /// Creates an output for a block of rows: an output of the kernel, stashed rows, or the
    /// gradient of an input.
    pub fn output(&self, shape: &[u32]) -> Result<Out> {
        self.0.borrow_mut().add_out(shape, Purpose::Rows).map(Out::borrowed)
    }

    /// Creates an output for a reduction over the interval's rows: the gradient of a parameter, or
    /// a loss.
    pub fn gradient(&self, shape: &[u32]) -> Result<Out> {
        self.0.borrow_mut().add_out(shape, Purpose::Reduced).map(Out::borrowed)
    }

    /// Creates a list of ids: labels, rows, offsets.
    pub fn ids(&self, values: &[u32]) -> Result<Ids> {
        self.0.borrow_mut().add_ids(values).map(Ids::borrowed)
    }

    /// Returns the values of an output, row-major.
    ///
    /// # Errors
    /// Returns [`Error::Argument`], with the first row that was not written.
    pub fn values(&self, out: &Out) -> Result<Vec<f64>> {
        self.0.borrow().written(out.handle)
    }

    /// Returns the extents of an output, rows first.
    pub fn shape_of(&self, out: &Out) -> Vec<u32> {
        self.0.borrow().out_shape(out.handle)
    }

    /// Returns the rows of an output that have not been written.
    pub fn unwritten(&self, out: &Out) -> Result<Vec<u32>> {
        self.0.borrow().unwritten(out.handle)
    }

    /// Returns a readable copy of an output for the next call: an output of the kernel or stashed
    /// rows for `backward`.
    pub fn readable(&self, out: &Out) -> Result<Matrix> {
        self.matrix(&self.shape_of(out), &self.values(out)?)
    }

    /// Returns the smallest distance of the operations so far from a point without a derivative. It
    /// is the distance of an argument from the kink of relu, leaky-relu or elu, or of a maximum
    /// from the second-largest value.
    pub fn nearest_kink(&self) -> f64 {
        self.0.borrow().nearest_kink
    }

    /// Returns the number of live handles: inputs, outputs and objects that the kernel has not
    /// released.
    pub fn handles(&self) -> usize {
        self.0.borrow().handles()
    }

    /// Returns the cost of the operations so far, including failed ones.
    pub fn work(&self) -> Work {
        self.0.borrow().work
    }

    /// Returns the lines that the kernel logged.
    pub fn log_lines(&self) -> Vec<String> {
        self.0.borrow().log.clone()
    }
}

impl Host for Reference {
    fn shape(&mut self, matrix: u32) -> Vec<u32> {
        self.0.borrow().matrix("shape", "this", matrix).map(|m| m.shape.clone()).unwrap_or_default()
    }

    fn rows(&mut self, matrix: u32, start: u32, count: u32) -> Result<u32> {
        self.0.borrow_mut().rows(matrix, start, count)
    }

    fn columns(&mut self, matrix: u32, start: u32, count: u32) -> Result<u32> {
        self.0.borrow_mut().columns(matrix, start, count)
    }

    fn reshape(&mut self, matrix: u32, shape: &[u32]) -> Result<u32> {
        self.0.borrow_mut().reshape(matrix, shape)
    }

    fn split_rows(&mut self, matrix: u32, t: u32) -> Result<u32> {
        self.0.borrow_mut().other_rows(matrix, store::Laid::Split(t))
    }

    fn group_rows(&mut self, matrix: u32, t: u32) -> Result<u32> {
        self.0.borrow_mut().other_rows(matrix, store::Laid::Grouped(t))
    }

    fn split_out(&mut self, out: u32, t: u32) -> Result<u32> {
        self.0.borrow_mut().other_out(out, store::Laid::Split(t))
    }

    fn group_out(&mut self, out: u32, t: u32) -> Result<u32> {
        self.0.borrow_mut().other_out(out, store::Laid::Grouped(t))
    }

    fn arrived(&mut self, matrix: u32, _after: u32) -> Result<u32> {
        Ok(self.0.borrow().matrix("arrived", "this", matrix)?.rows() as u32)
    }

    fn read_f32(&mut self, matrix: u32, start: u32, count: u32) -> Result<Vec<f32>> {
        Ok(self.read_f64(matrix, start, count)?.into_iter().map(|v| v as f32).collect())
    }

    fn read_f64(&mut self, matrix: u32, start: u32, count: u32) -> Result<Vec<f64>> {
        self.0.borrow().read(matrix, start, count)
    }

    fn out_create(&mut self, shape: &[u32]) -> Result<u32> {
        self.0.borrow_mut().add_out(shape, Purpose::Scratch)
    }

    fn out_shape(&mut self, out: u32) -> Vec<u32> {
        self.0.borrow().out_shape(out)
    }

    fn out_rows(&mut self, out: u32, start: u32, count: u32) -> Result<u32> {
        self.0.borrow_mut().out_rows(out, start, count)
    }

    fn out_finish(&mut self, out: u32) -> Result<u32> {
        self.0.borrow_mut().finish(out)
    }

    fn write_f32(&mut self, out: u32, start: u32, values: &[f32]) -> Result<()> {
        let values: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
        self.write_f64(out, start, &values)
    }

    fn write_f64(&mut self, out: u32, start: u32, values: &[f64]) -> Result<()> {
        self.0.borrow_mut().write(out, start, values)
    }

    fn ids_create(&mut self, values: &[u32]) -> Result<u32> {
        self.0.borrow_mut().add_ids(values)
    }

    fn ids_len(&mut self, ids: u32) -> u32 {
        self.0.borrow().ids("len", "this", ids).map_or(0, |i| i.len() as u32)
    }

    fn ids_read(&mut self, ids: u32, start: u32, count: u32) -> Result<Vec<u32>> {
        let ids = self.0.borrow().ids("read", "this", ids)?;
        let range = store::range("read", "numbers", start, count, ids.len())?;
        Ok(ids[range].to_vec())
    }

    fn random_key(&mut self, stream: u32) -> u64 {
        let c = self.context();
        random::key(c.seed, random::KERNEL, c.epoch, c.layer, stream)
    }

    fn row_ids(&mut self, start: u32, count: u32) -> Result<Vec<u64>> {
        let c = self.context();
        let range = store::range("row-ids", "rows", start, count, c.rows as usize)?;
        let store = self.0.borrow();
        Ok(range.map(|i| store.row_id(i)).collect())
    }

    fn row_weights(&mut self) -> Result<Option<u32>> {
        let mut store = self.0.borrow_mut();
        let given = store.given()?;
        given.asked = true;
        let weights = given.row_weights.clone();
        let rows = store.context.rows;
        weights.map(|weights| store.add_matrix(&[rows, 1], weights)).transpose()
    }

    fn call(&mut self, op: Op<'_>) -> Result<()> {
        let read = op.matrices().map(|matrix| self.shape(matrix.handle)).collect::<Vec<_>>();
        let written = op.places().map(|out| self.out_shape(out.handle)).collect::<Vec<_>>();
        let elements = |shape: &Vec<u32>| shape.iter().map(|&e| u64::from(e)).product::<u64>();
        let values = read.iter().chain(&written).map(elements).sum::<u64>();
        let mut store = self.0.borrow_mut();
        store.work.operations += 1;
        store.work.values += values;
        store.call(op)
    }

    fn log(&mut self, text: &str) {
        self.0.borrow_mut().log(text);
    }

    fn release(&mut self, kind: Kind, handle: u32) {
        self.0.borrow_mut().release(kind, handle);
    }
}

/// Returns the error for operands whose shapes do not match.
fn shape_error(operation: &str, operand: &str, expected: &[u32], found: &[u32]) -> Error {
    Error::Shape {
        operation: operation.to_owned(),
        operand: operand.to_owned(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    }
}
