//! Error of builds without the feature `aws`.

/// Error of a feature that needs AWS's clients, which this build lacks. The field is the feature as
/// the user asked for it, such as `--executor lambda`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} requires the AWS clients, but this `eciton` was built without them: build it with `cargo build --release --features aws`"
)]
pub struct NoAws(pub &'static str);
