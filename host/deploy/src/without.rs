//! Replacements for functions that need AWS clients, in a build without them. They return an error
//! that says how to build with AWS support.

use eciton_cloud::{Deployment, NoAws};

use crate::{Choices, Component, Deployed, Destroyed, Located, Progress, Result, Target};

/// Fails, because this build has no AWS clients and cannot deploy a stack.
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

/// Fails, because this build has no AWS clients and cannot delete a stack.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn destroy(_: &Target, _: &mut dyn FnMut(Progress<'_>)) -> Result<Destroyed> {
    Err(NoAws("`eciton destroy`").into())
}

/// Fails, because this build has no AWS clients and cannot look for a stack.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn locate(_: &Target) -> Result<Located> {
    Err(NoAws("`eciton prove`").into())
}

/// Fails, because this build has no AWS clients and cannot delete objects of a run.
///
/// # Errors
/// Always returns [`Error::NoAws`](crate::Error::NoAws).
pub fn clean(_: &Deployment, _: &str) -> Result<u64> {
    Err(NoAws("`eciton clean`").into())
}
