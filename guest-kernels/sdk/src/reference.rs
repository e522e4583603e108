//! The reference host: the contract in f64, naive and meant to be right rather than quick.
//!
//! Other hosts are held against it, and a kernel's native tests run on it. Matrices are dense, views
//! are copies, sums run in index order. It is strict where a quicker host may be careless: a scratch
//! matrix that is finished, or accumulated onto, must have been written whole; what is reduced over
//! rows (a parameter's gradient, a loss) is written by a reduction only. In a [`Error::Shape`] of
//! this host, an expected extent of 0 stands for any.
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

/// Elements that one matrix or list may have; asking for more is `Error::Limit`.
pub const ELEMENTS_MAX: u64 = 1 << 26;
/// Handles that may live at once; one more is `Error::Limit`.
pub const HANDLES_MAX: u64 = 1 << 16;
/// Lines of the log that are kept; later ones are dropped.
pub const LOG_LINES_MAX: usize = 1024;
/// Bytes of one line of the log; the rest is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 4096;

/// What a task is part of, as far as a result depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context {
    /// Of the run.
    pub seed: u64,
    /// From 0.
    pub epoch: u32,
    /// From 0.
    pub layer: u32,
    /// Whether dropout applies.
    pub training: bool,
    /// The global id of the interval's first row; the others follow.
    pub first_row: u64,
    /// Rows of the interval.
    pub rows: u32,
}

impl Context {
    /// What a kernel gets to see of it.
    pub fn task(&self) -> Task {
        Task { training: self.training, epoch: self.epoch, layer: self.layer, rows: self.rows }
    }
}

/// What operations cost, as far as counting tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// How many there were.
    pub operations: u64,
    /// Values that they read and wrote: the elements of every matrix and place that an operation was given.
    pub values: u64,
}

/// The reference host. A clone is another handle on the same matrices.
#[derive(Debug, Clone)]
pub struct Reference(Rc<RefCell<Store>>);

impl Reference {
    /// A host without matrices, for one task.
    pub fn new(context: Context) -> Self {
        Self(Rc::new(RefCell::new(Store::new(context))))
    }

    /// A host for a task whose rows have these global ids, such as a block of edges; `context.first_row`
    /// and `context.rows` are not read.
    pub fn with_row_ids(context: Context, ids: &[u64]) -> Self {
        let host = Self::new(Context { rows: ids.len() as u32, ..context });
        host.0.borrow_mut().row_ids = Some(ids.to_vec());
        host
    }

    /// A host outside of a task, as `open` and `signature` find it: nothing is given.
    pub fn idle() -> Self {
        let host = Self::new(Context::default());
        host.0.borrow_mut().given = None;
        host
    }

    /// What each row of the task counts in a loss, `rows` values; 1 until this is called.
    ///
    /// Errors: [`Error::Shape`] for another number of values, [`Error::Unsupported`] outside of a task.
    pub fn weigh_rows(&self, weights: &[f64]) -> Result<()> {
        let mut store = self.0.borrow_mut();
        let rows = store.context.rows;
        if weights.len() != rows as usize {
            return Err(shape_error("row-weights", "weights", &[rows, 1], &[weights.len() as u32, 1]));
        }
        store.given()?.row_weights = Some(weights.to_vec());
        Ok(())
    }

    /// Whether the kernel has asked for the weights of its rows.
    pub fn asked_row_weights(&self) -> bool {
        self.0.borrow().given.as_ref().is_some_and(|given| given.asked)
    }

    /// The task.
    pub fn context(&self) -> Context {
        self.0.borrow().context
    }

    /// Runs `work` with this host answering on this thread.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        native::with_host(Box::new(self.clone()), work)
    }

    /// An input: `shape` rows first, `values` row-major. The handle stays valid as long as the host.
    ///
    /// Errors: [`Error::Shape`] where the number of values is not the shape's.
    pub fn matrix(&self, shape: &[u32], values: &[f64]) -> Result<Matrix> {
        self.0.borrow_mut().add_matrix(shape, values.to_vec()).map(Matrix::borrowed)
    }

    /// A block of rows to be written: an output, kept rows, an input's gradient.
    pub fn output(&self, shape: &[u32]) -> Result<Out> {
        self.0.borrow_mut().add_out(shape, Purpose::Rows).map(Out::borrowed)
    }

    /// A place for what is reduced over the interval's rows: a parameter's gradient or a loss.
    pub fn gradient(&self, shape: &[u32]) -> Result<Out> {
        self.0.borrow_mut().add_out(shape, Purpose::Reduced).map(Out::borrowed)
    }

    /// A list of numbers: labels, rows, offsets.
    pub fn ids(&self, values: &[u32]) -> Result<Ids> {
        self.0.borrow_mut().add_ids(values).map(Ids::borrowed)
    }

    /// What was written, row-major.
    ///
    /// Errors: [`Error::Argument`] naming the first row that was not written.
    pub fn values(&self, out: &Out) -> Result<Vec<f64>> {
        self.0.borrow().written(out.handle)
    }

    /// Extents of a place to write, rows first.
    pub fn shape_of(&self, out: &Out) -> Vec<u32> {
        self.0.borrow().out_shape(out.handle)
    }

    /// The rows that were not written yet.
    pub fn unwritten(&self, out: &Out) -> Result<Vec<u32>> {
        self.0.borrow().unwritten(out.handle)
    }

    /// A readable copy of what was written, for the next call: an output or kept rows for `backward`.
    pub fn readable(&self, out: &Out) -> Result<Matrix> {
        self.matrix(&self.shape_of(out), &self.values(out)?)
    }

    /// How near the operations so far came to a point without a derivative: the smallest distance of
    /// an argument from the kink of relu, leaky-relu or elu, and of a maximum from its runner-up.
    pub fn nearest_kink(&self) -> f64 {
        self.0.borrow().nearest_kink
    }

    /// Handles that live: inputs, outputs and what the kernel has not released.
    pub fn handles(&self) -> usize {
        self.0.borrow().handles()
    }

    /// The operations so far, those that failed too.
    pub fn work(&self) -> Work {
        self.0.borrow().work
    }

    /// What the kernel logged.
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

/// The error for operands that do not fit.
fn shape_error(operation: &str, operand: &str, expected: &[u32], found: &[u32]) -> Error {
    Error::Shape {
        operation: operation.to_owned(),
        operand: operand.to_owned(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    }
}
