//! A build without AWS: what needs its clients is refused, with the way to get them.

use eciton_exec::{Deployment, NoAws};

use crate::{Choices, Component, Deployed, Destroyed, Located, Progress, Result, Target};

/// Refused.
///
/// # Errors
/// Always.
pub fn deploy(
    _: &Choices,
    _: &[Component],
    _: &[Component],
    _: &mut dyn FnMut(Progress<'_>),
) -> Result<Deployed> {
    Err(NoAws("`eciton deploy` without --dry-run or --build-only").into())
}

/// Refused.
///
/// # Errors
/// Always.
pub fn destroy(_: &Target, _: &mut dyn FnMut(Progress<'_>)) -> Result<Destroyed> {
    Err(NoAws("`eciton destroy`").into())
}

/// Refused.
///
/// # Errors
/// Always.
pub fn locate(_: &Target) -> Result<Located> {
    Err(NoAws("`eciton prove`").into())
}

/// Refused.
///
/// # Errors
/// Always.
pub fn clean(_: &Deployment, _: &str) -> Result<u64> {
    Err(NoAws("`eciton clean`").into())
}
