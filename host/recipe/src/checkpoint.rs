//! Settings of checkpoints, from which a run resumes after its process has ended prematurely.

use serde::{Deserialize, Serialize};

use crate::every::Every;

/// Section `[checkpoint]` of a recipe. A checkpoint is due after `every` epochs or steps, or after
/// `seconds` seconds, whichever is first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of epochs or steps between checkpoints. If 0, checkpoints do not depend on the number
    /// of steps.
    pub every: Every,
    /// Minimum time between checkpoints, in seconds. The first step that ends after this time
    /// writes a checkpoint. If 0, checkpoints do not depend on time.
    pub seconds: u32,
    /// Number of most recent checkpoints that are kept, at least 1. The checkpoint of the best
    /// epoch is kept in addition.
    pub keep: u32,
    /// True if the checkpoints are kept after the run has finished.
    pub keep_after: bool,
}

impl Default for Checkpoint {
    /// Returns the default settings, which write a checkpoint every minute and keep the last two.
    fn default() -> Self {
        Self { every: Every::Epochs(0), seconds: 60, keep: 2, keep_after: false }
    }
}

impl Checkpoint {
    /// Returns true if the run writes checkpoints at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.every.is_never() || self.seconds > 0
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
