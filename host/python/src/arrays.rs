//! Access to NumPy arrays as memory of a graph, without a copy.
#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;

use eciton_input::mapped::{self, Watched};
use eciton_tensor::{Plain, Slab, SlabOwner};
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;

/// A NumPy array that a graph reads in place. The array is read-only while this value exists,
/// because vertex numbers in it are checked once and later read without a check.
struct Lent {
    array: Py<PyAny>,
    /// Address of the first byte of the array.
    bytes: *const u8,
    /// Length of the array, in bytes.
    len: usize,
    /// True if the array was writeable before. It becomes writeable again when this value is
    /// dropped.
    writeable: bool,
    /// Memory-mapped file that contains the array, or `None`. A run fails with an error if the file
    /// changes.
    _watched: Option<Arc<Watched>>,
}

// SAFETY: the bytes are only read. The array is released only by a thread that holds the lock of
// the interpreter.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl SlabOwner for Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: a contiguous array of `len` bytes at `bytes`, which `array` keeps alive, does not
        // move (NumPy resizes no array that something refers to), and cannot be written through.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.writeable {
            return;
        }
        // If the interpreter has ended, nothing writes to the array any more.
        let _ = Python::try_attach(|py| set_writeable(self.array.bind(py), true));
    }
}

/// Sets whether NumPy permits writes to an array.
fn set_writeable(array: &Bound<'_, PyAny>, writeable: bool) -> PyResult<()> {
    let named = PyDict::new(array.py());
    named.set_item("write", writeable)?;
    array.call_method("setflags", (), Some(&named)).map(drop)
}

/// Starts to watch the memory-mapped file that contains an array for changes. Returns `None` if the
/// array is not in a mapped file, or if the file cannot be opened.
fn watch(array: &Bound<'_, PyAny>, bytes: &[u8]) -> PyResult<Option<Arc<Watched>>> {
    let name = array.py().import("eciton._arrays")?.call_method1("mapped_file", (array,))?;
    let Some(path) = name.extract::<Option<PathBuf>>()? else { return Ok(None) };
    let file = eciton_input::file::open(&path);
    Ok(file.and_then(|file| mapped::watch(file, &path, bytes)).ok())
}

/// Returns the memory of an array as a slab of plain numbers, without a copy. The array is
/// read-only until the last copy of the slab is dropped.
///
/// # Errors
/// Raises `ValueError` if the array is not C-contiguous (row-major without gaps).
pub(crate) fn lend<T: Element, D: Dimension, N: Plain>(
    array: &Bound<'_, PyArray<T, D>>,
) -> PyResult<Slab<N>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("expected a C-contiguous array; use numpy.ascontiguousarray"));
    }
    let len = array.len() * size_of::<T>();
    let writeable = array.getattr("flags")?.getattr("writeable")?.extract()?;
    if writeable {
        set_writeable(array, false)?;
    }
    let bytes: *const u8 = array.data().cast();
    let mut owner = Lent { array: array.clone().into_any().unbind(), bytes, len, writeable, _watched: None };
    owner._watched = watch(array.as_any(), owner.bytes())?;
    let owner: Arc<dyn SlabOwner> = Arc::new(owner);
    Slab::over(owner, 0..len).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Converts an error of a graph with [`error::graph`]. It takes the error by value, as `map_err`
/// requires.
pub(crate) fn refused(error: eciton_graph::error::Error) -> PyErr {
    error::graph(&error)
}
