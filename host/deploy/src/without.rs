//! Replacements for a build without AWS clients. They return an error that says how to build with
//! AWS support.

use eciton_cloud::{Deployment, NoAws};

use crate::{Choices, Component, Deployed, Destroyed, Located, Progress, Result, Target};

/// Returns an error.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn deploy(
    _: &Choices,
    _: &[Component],
    _: &[Component],
    _: &mut dyn FnMut(Progress<'_>),
) -> Result<Deployed> {
    Err(NoAws("`eciton deploy` without --dry-run or --build-only").into())
}

/// Returns an error.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn destroy(_: &Target, _: &mut dyn FnMut(Progress<'_>)) -> Result<Destroyed> {
    Err(NoAws("`eciton destroy`").into())
}

/// Returns an error.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn locate(_: &Target) -> Result<Located> {
    Err(NoAws("`eciton prove`").into())
}

/// Returns an error.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn clean(_: &Deployment, _: &str) -> Result<u64> {
    Err(NoAws("`eciton clean`").into())
}
