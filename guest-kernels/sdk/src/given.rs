//! Additional data of the current task that a kernel can request: the interface `given` of the
//! contract, since version 0.1.2.
//!
//! A component that calls no function of this module does not import the interface.

use crate::handles::Matrix;
use crate::types::Result;

#[cfg(target_arch = "wasm32")]
use crate::glue as sys;
#[cfg(not(target_arch = "wasm32"))]
use crate::native as sys;

/// Returns the loss weight of each row, in addition to [`crate::LastLayer::weight`]. The matrix is
/// `[n, 1]`, finite and not negative. If `None`, every weight is 1. The loss of row i and its
/// gradients are multiplied by value i. For a derived gradient the weights are constants.
///
/// # Errors
/// Returns [`crate::Error::Unsupported`] outside of a task: in `attributes`, `open` and
/// `signature`.
pub fn row_weights() -> Result<Option<Matrix>> {
    Ok(sys::row_weights()?.map(Matrix::new))
}
