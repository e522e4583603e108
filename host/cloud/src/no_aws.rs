//! The error of a build without AWS's clients.

/// Something that needs the feature `aws`, as the user asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} needs AWS's clients, and this `eciton` was built without them: build it with `cargo build --release --features aws`"
)]
pub struct NoAws(pub &'static str);
