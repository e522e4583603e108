//! What a kernel may ask of the task at hand besides what its function is called with: interface
//! `given` of the contract, since 0.1.2.
//!
//! A component that calls nothing of this module does not import the interface.

use crate::handles::Matrix;
use crate::types::Result;

#[cfg(target_arch = "wasm32")]
use crate::glue as sys;
#[cfg(not(target_arch = "wasm32"))]
use crate::native as sys;

/// What each row of the task counts in a loss, beside [`crate::LastLayer::weight`]: `[n, 1]`, finite
/// and not negative; `None`: each 1. The loss of row i and its gradients are multiplied by value i.
/// To a derived gradient it is a constant.
///
/// # Errors
/// [`crate::Error::Unsupported`] outside of a task: in `attributes`, `open` and `signature`.
pub fn row_weights() -> Result<Option<Matrix>> {
    Ok(sys::row_weights()?.map(Matrix::new))
}
