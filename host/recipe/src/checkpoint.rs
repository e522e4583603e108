//! Settings of checkpoints, from which a run resumes after its process was killed.

use serde::{Deserialize, Serialize};

/// Section `[checkpoint]`. A checkpoint is written as soon as `every` or `seconds` requires one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of epochs between checkpoints. If 0, only elapsed time (`seconds`) triggers
    /// checkpoints.
    pub every: u32,
    /// Time after the last checkpoint, or after the start, in seconds. The next end of an epoch
    /// after it writes a checkpoint. If 0, elapsed time triggers none.
    pub seconds: u32,
    /// Number of the newest checkpoints that are stored, at least 1. The checkpoint of the best
    /// epoch is stored in addition.
    pub keep: u32,
    /// True if the checkpoints are not deleted after the run has finished.
    pub keep_after: bool,
}

impl Default for Checkpoint {
    /// Returns the default: a checkpoint every minute, of which the last two are stored.
    fn default() -> Self {
        Self { every: 0, seconds: 60, keep: 2, keep_after: false }
    }
}

impl Checkpoint {
    /// Returns true if the run writes checkpoints at any interval.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.every > 0 || self.seconds > 0
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
