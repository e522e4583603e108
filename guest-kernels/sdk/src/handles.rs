//! Handles on what the host owns: resources in a component, numbers for a [`crate::native::Host`]
//! natively.

use crate::math::Real;
use crate::op::Op;
use crate::types::Result;

#[cfg(target_arch = "wasm32")]
use crate::glue as sys;
#[cfg(not(target_arch = "wasm32"))]
use crate::native as sys;

pub(crate) use sys::{RawIds, RawMatrix, RawOut};

#[inline(always)]
pub(crate) fn call(op: Op<'_>) -> Result<()> {
    sys::call(op)
}

/// An immutable matrix of the host, or a view of one.
#[derive(Debug)]
pub struct Matrix(pub(crate) RawMatrix);

impl Matrix {
    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        sys::shape(&self.0)
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.shape().first().copied().unwrap_or(0)
    }

    /// A view of `count` rows from `start`.
    pub fn rows(&self, start: u32, count: u32) -> Result<Matrix> {
        sys::rows(&self.0, start, count).map(Matrix)
    }

    /// A view of `count` columns from `start`.
    pub fn columns(&self, start: u32, count: u32) -> Result<Matrix> {
        sys::columns(&self.0, start, count).map(Matrix)
    }

    /// The same values with other extents; rows stay.
    pub fn reshape(&self, shape: &[u32]) -> Result<Matrix> {
        sys::reshape(&self.0, shape).map(Matrix)
    }

    /// Waits until more than `after` rows have arrived, or all; returns how many have.
    pub fn arrived(&self, after: u32) -> Result<u32> {
        sys::arrived(&self.0, after)
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
        sys::read_f32(&self.0, start, count)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_f64(&self, start: u32, count: u32) -> Result<Vec<f64>> {
        sys::read_f64(&self.0, start, count)
    }
}

/// A place to write.
#[derive(Debug)]
pub struct Out(pub(crate) RawOut);

impl Out {
    /// A scratch matrix.
    pub fn create(shape: &[u32]) -> Result<Out> {
        sys::out_create(shape).map(Out)
    }

    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        sys::out_shape(&self.0)
    }

    /// A view of `count` rows from `start` to write to.
    pub fn rows(&self, start: u32, count: u32) -> Result<Out> {
        sys::out_rows(&self.0, start, count).map(Out)
    }

    /// Writes whole rows, row-major, from `start`.
    pub fn write_rows<R: Real>(&self, start: u32, values: &[R]) -> Result<()> {
        R::write(self, start, values)
    }

    /// Makes a scratch matrix readable.
    pub fn finish(self) -> Result<Matrix> {
        sys::out_finish(self.0).map(Matrix)
    }

    pub(crate) fn write_f32(&self, start: u32, values: &[f32]) -> Result<()> {
        sys::write_f32(&self.0, start, values)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn write_f64(&self, start: u32, values: &[f64]) -> Result<()> {
        sys::write_f64(&self.0, start, values)
    }
}

/// Unsigned integers of the host: labels, lists of rows, segments.
#[derive(Debug)]
pub struct Ids(pub(crate) RawIds);

impl Ids {
    /// The kernel's own list.
    pub fn create(values: &[u32]) -> Result<Ids> {
        sys::ids_create(values).map(Ids)
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
