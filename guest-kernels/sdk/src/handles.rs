//! Handles on what the host owns: resources in a component, numbers for a [`crate::native::Host`]
//! natively. While a [`crate::tape`] records, each knows the value that it stands for.

use std::rc::Rc;

use crate::math::Real;
use crate::op::Op;
use crate::tape::{self, View};
use crate::types::Result;

#[cfg(target_arch = "wasm32")]
use crate::glue as sys;
#[cfg(not(target_arch = "wasm32"))]
use crate::native as sys;

pub(crate) use sys::{RawIds, RawMatrix, RawOut};

#[inline(always)]
pub(crate) fn call(op: Op<'_>) -> Result<()> {
    let recorder = tape::recorder();
    let done = match &recorder {
        Some(recorder) => recorder.instead(&op)?,
        None => false,
    };
    if !done {
        sys::call(op)?;
    }
    recorder.map_or(Ok(()), |recorder| recorder.operation(&op))
}

/// An operation that no tape sees.
pub(crate) fn call_unseen(op: Op<'_>) -> Result<()> {
    sys::call(op)
}

/// An immutable matrix of the host, or a view of one.
#[derive(Debug)]
pub struct Matrix {
    /// Shared with a tape, which needs it after the kernel has dropped it.
    raw: Rc<RawMatrix>,
    /// The value on the tape; 0 for none.
    node: u32,
}

impl Matrix {
    pub(crate) fn new(raw: RawMatrix) -> Self {
        Self { raw: Rc::new(raw), node: 0 }
    }

    pub(crate) fn raw(&self) -> &RawMatrix {
        &self.raw
    }

    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The same matrix, as another value on a tape.
    pub(crate) fn shared(&self, node: u32) -> Self {
        Self { raw: Rc::clone(&self.raw), node }
    }

    /// Whether both are handles on one matrix.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.raw, &other.raw)
    }

    fn viewed(&self, view: View, raw: RawMatrix) -> Result<Matrix> {
        match tape::recorder() {
            None => Ok(Matrix::new(raw)),
            Some(recorder) => recorder.viewed(self, view, Matrix::new(raw)),
        }
    }

    fn read(&self) -> Result<()> {
        tape::recorder().map_or(Ok(()), |recorder| recorder.read(self))
    }

    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        sys::shape(&self.raw)
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.shape().first().copied().unwrap_or(0)
    }

    /// A view of `count` rows from `start`.
    pub fn rows(&self, start: u32, count: u32) -> Result<Matrix> {
        self.viewed(View::Rows { start, count }, sys::rows(&self.raw, start, count)?)
    }

    /// A view of `count` columns from `start`.
    pub fn columns(&self, start: u32, count: u32) -> Result<Matrix> {
        self.viewed(View::Columns { start, count }, sys::columns(&self.raw, start, count)?)
    }

    /// The same values with other extents; rows stay.
    pub fn reshape(&self, shape: &[u32]) -> Result<Matrix> {
        self.viewed(View::Reshape, sys::reshape(&self.raw, shape)?)
    }

    /// Waits until more than `after` rows have arrived, or all; returns how many have.
    pub fn arrived(&self, after: u32) -> Result<u32> {
        if tape::recorder().is_some() {
            // What a gradient is reduced over has all rows.
            return Ok(self.row_count());
        }
        sys::arrived(&self.raw, after)
    }

    /// The blocks of rows as they arrive: (first row, view). One block where all are there.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(u32, Matrix)>> + '_ {
        let (rows, mut done) = (self.row_count(), 0);
        core::iter::from_fn(move || {
            if done >= rows {
                return None;
            }
            let start = done;
            Some(self.arrived(start).and_then(|there| {
                done = there;
                Ok((start, self.rows(start, there - start)?))
            }))
        })
    }

    /// Copies rows into the guest, row-major.
    pub fn read_rows<R: Real>(&self, start: u32, count: u32) -> Result<Vec<R>> {
        R::read(self, start, count)
    }

    pub(crate) fn read_f32(&self, start: u32, count: u32) -> Result<Vec<f32>> {
        self.read()?;
        sys::read_f32(&self.raw, start, count)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_f64(&self, start: u32, count: u32) -> Result<Vec<f64>> {
        self.read()?;
        sys::read_f64(&self.raw, start, count)
    }
}

/// A place to write.
#[derive(Debug)]
pub struct Out {
    raw: RawOut,
    /// The value on the tape that is written; 0 for none.
    node: u32,
    /// The row of that value that row 0 is.
    first: u32,
}

impl Out {
    pub(crate) fn new(raw: RawOut) -> Self {
        Self { raw, node: 0, first: 0 }
    }

    pub(crate) fn raw(&self) -> &RawOut {
        &self.raw
    }

    /// The value on the tape that is written, and the row of it that row 0 is.
    pub(crate) fn target(&self) -> (u32, u32) {
        (self.node, self.first)
    }

    /// A scratch matrix.
    pub fn create(shape: &[u32]) -> Result<Out> {
        let raw = sys::out_create(shape)?;
        let node = tape::recorder().map_or(0, |recorder| recorder.created(shape));
        Ok(Out { raw, node, first: 0 })
    }

    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        sys::out_shape(&self.raw)
    }

    /// A view of `count` rows from `start` to write to.
    pub fn rows(&self, start: u32, count: u32) -> Result<Out> {
        let raw = sys::out_rows(&self.raw, start, count)?;
        Ok(Out { raw, node: self.node, first: self.first.saturating_add(start) })
    }

    /// Writes whole rows, row-major, from `start`.
    pub fn write_rows<R: Real>(&self, start: u32, values: &[R]) -> Result<()> {
        R::write(self, start, values)
    }

    /// Makes a scratch matrix readable.
    pub fn finish(self) -> Result<Matrix> {
        let matrix = Matrix { raw: Rc::new(sys::out_finish(self.raw)?), node: self.node };
        match tape::recorder() {
            None => Ok(matrix),
            Some(recorder) => Ok(recorder.finished(matrix)),
        }
    }

    fn written(&self, start: u32, values: usize) -> Result<()> {
        let Some(recorder) = tape::recorder() else { return Ok(()) };
        let row = self.shape().iter().skip(1).map(|&e| e as usize).product::<usize>().max(1);
        recorder.written(self, start, (values / row) as u32)
    }

    pub(crate) fn write_f32(&self, start: u32, values: &[f32]) -> Result<()> {
        sys::write_f32(&self.raw, start, values)?;
        self.written(start, values.len())
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn write_f64(&self, start: u32, values: &[f64]) -> Result<()> {
        sys::write_f64(&self.raw, start, values)?;
        self.written(start, values.len())
    }
}

/// Unsigned integers of the host: labels, lists of rows, segments.
#[derive(Debug)]
pub struct Ids(Rc<RawIds>);

impl Ids {
    pub(crate) fn new(raw: RawIds) -> Self {
        Self(Rc::new(raw))
    }

    pub(crate) fn raw(&self) -> &RawIds {
        &self.0
    }

    /// Another handle on the same list.
    pub(crate) fn shared(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Whether both are handles on one list.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The kernel's own list.
    pub fn create(values: &[u32]) -> Result<Ids> {
        sys::ids_create(values).map(Ids::new)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        sys::ids_len(&self.0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `count` of them from `start` into the guest.
    pub fn read(&self, start: u32, count: u32) -> Result<Vec<u32>> {
        if let Some(recorder) = tape::recorder() {
            recorder.listed(self)?;
        }
        sys::ids_read(&self.0, start, count)
    }
}

/// The key of this task's random numbers for `stream` (`wit/kernel/kernel.wit`, interface `random`).
pub fn random_key(stream: u32) -> u64 {
    sys::random_key(stream)
}

/// The global ids of rows of the interval.
pub fn row_ids(start: u32, count: u32) -> Result<Vec<u64>> {
    sys::row_ids(start, count)
}

/// Writes one line to the run's log.
pub fn log(text: &str) {
    sys::log(text);
}
