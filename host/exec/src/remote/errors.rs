//! Conversion of transport errors into the error type of kernels.

use eciton_kernel::Error;

/// Returns a permanent error: another attempt would fail in the same way. `place` names the subject
/// of the error.
pub(super) fn refused(place: &str, reason: impl std::fmt::Display) -> Error {
    Error::Wire { place: place.to_owned(), reason: reason.to_string() }
}

/// Converts an error of the transport to an error of the task, which is retryable if `error` is.
pub(super) fn transport(error: &eciton_transport::Error) -> Error {
    let (place, reason) = ("transport".to_owned(), error.to_string());
    if error.is_retryable() { Error::Host { place, reason } } else { Error::Wire { place, reason } }
}
