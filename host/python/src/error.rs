//! Conversion of Rust errors into Python exceptions with the same message.

use eciton_input::text::{causes, message};
use eciton_train::run_folder::Error as Folder;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};

/// Converts an error of a data set or graph into a Python exception of the matching class, for
/// instance `FileNotFoundError` or `ValueError`.
pub(crate) fn graph(error: &eciton_graph::error::Error) -> PyErr {
    use eciton_graph::error::Error;
    let text = message(&causes(error)).into_owned();
    match error {
        Error::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(text)
        }
        Error::Read { .. } | Error::Write { .. } => PyOSError::new_err(text),
        Error::Memory { .. } => PyMemoryError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Converts an error of a run into a Python exception of the matching class, for instance
/// `FileExistsError` or `RuntimeError`.
pub(crate) fn train(error: &eciton_train::Error) -> PyErr {
    use eciton_train::Error;
    let text = message(&causes(error)).into_owned();
    match error {
        Error::Data(error) => graph(error),
        Error::RunFolder(Folder::NotARun { .. } | Folder::Missing { .. }) | Error::NoCheckpoint { .. } => {
            PyFileNotFoundError::new_err(text)
        }
        Error::RunFolder(Folder::Occupied { .. }) => PyFileExistsError::new_err(text),
        Error::RunFolder(Folder::Read { .. } | Folder::Write { .. })
        | Error::Read { .. }
        | Error::Kept { .. } => PyOSError::new_err(text),
        Error::Kernel(_) | Error::Functions(_) | Error::Internal(_) | Error::Busy { .. } => {
            PyRuntimeError::new_err(text)
        }
        _ => PyValueError::new_err(text),
    }
}
