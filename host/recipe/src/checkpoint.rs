//! Schedule on which a run writes checkpoints, so that a killed process loses little work.

use serde::{Deserialize, Serialize};

/// `[checkpoint]`. A checkpoint is written as soon as `every` or `seconds` asks for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number of epochs between checkpoints. If 0, the number of epochs triggers none.
    pub every: u32,
    /// Seconds since the last checkpoint, or since the start, after which the next end of an epoch
    /// writes one. If 0, elapsed time triggers none.
    pub seconds: u32,
    /// Number of the newest checkpoints that are kept, at least 1. The checkpoint of the best epoch
    /// is kept in addition.
    pub keep: u32,
    /// True if the checkpoints are kept after the run has finished.
    pub keep_after: bool,
}

impl Default for Checkpoint {
    /// Writes a checkpoint every minute, and keeps the last two.
    fn default() -> Self {
        Self { every: 0, seconds: 60, keep: 2, keep_after: false }
    }
}

impl Checkpoint {
    /// Returns true if the run writes checkpoints, provided that it takes long enough.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.every > 0 || self.seconds > 0
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
