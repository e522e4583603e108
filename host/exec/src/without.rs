//! A build without AWS: what needs its clients is refused, with the way to get them.

use crate::deploy::{Choices, Component, Deployed, Deployment, Destroyed, Progress, Result, Target};

/// Something that needs the feature `aws`, as the user asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} needs AWS's clients, and this `eciton` was built without them: build it with `cargo build --release --features aws`"
)]
pub struct NoAws(pub(crate) &'static str);

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
pub fn clean(_: &Deployment, _: &str) -> Result<u64> {
    Err(NoAws("`eciton clean`").into())
}
