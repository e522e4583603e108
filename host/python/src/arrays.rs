//! Arrays of NumPy as memory that a graph lies in, without a copy.
#![allow(unsafe_code)]

use std::sync::Arc;

use eciton_tensor::{Plain, Slab, SlabOwner};
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

/// An array that is kept, and is read-only meanwhile: neighbours are checked once, and read without a check.
struct Lent {
    array: Py<PyAny>,
    bytes: *const u8,
    len: usize,
    /// Whether it could be written before.
    writeable: bool,
}

// SAFETY: the bytes are only read. The array is released by whoever holds Python's lock.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl SlabOwner for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: a contiguous array of `len` bytes at `bytes`, which `array` keeps alive, does not move (NumPy
        // resizes no array that something refers to), and cannot be written through.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.writeable {
            return;
        }
        // Where Python has ended, nobody writes to the array any more.
        let _ = Python::try_attach(|py| set_writeable(self.array.bind(py), true));
    }
}

fn set_writeable(array: &Bound<'_, PyAny>, writeable: bool) -> PyResult<()> {
    let named = PyDict::new(array.py());
    named.set_item("write", writeable)?;
    array.call_method("setflags", (), Some(&named)).map(drop)
}

/// The memory of an array as numbers of the same width. The array is read-only until the last reader is gone.
///
/// # Errors
/// `ValueError` for an array that is not contiguous, row by row.
pub(crate) fn lend<T: Element, D: Dimension, N: Plain>(
    array: &Bound<'_, PyArray<T, D>>,
) -> PyResult<Slab<N>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("an array that is lent must be contiguous"));
    }
    let len = array.len() * size_of::<T>();
    let writeable = array.getattr("flags")?.getattr("writeable")?.extract()?;
    if writeable {
        set_writeable(array, false)?;
    }
    let owner = Lent { array: array.clone().into_any().unbind(), bytes: array.data().cast(), len, writeable };
    let owner: Arc<dyn SlabOwner> = Arc::new(owner);
    Slab::over(owner, 0..len).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// [`error::graph`], for `map_err`.
pub(crate) fn refused(error: eciton_graph::error::Error) -> PyErr {
    error::graph(&error)
}
