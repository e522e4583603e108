//! Errors of the way to a function, as kernels report theirs.

use eciton_kernel::Error;

pub(super) fn refused(place: &str, reason: impl std::fmt::Display) -> Error {
    Error::Wire { place: place.to_owned(), reason: reason.to_string() }
}

pub(super) fn transport(error: &eciton_transport::Error) -> Error {
    let (place, reason) = ("transport".to_owned(), error.to_string());
    if error.is_retryable() { Error::Host { place, reason } } else { Error::Wire { place, reason } }
}
