//! When a run writes down how far it is, so that a process that is killed loses little.

use serde::{Deserialize, Serialize};

/// `[checkpoint]`: whichever of `every` and `seconds` comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// After so many epochs since the last one; 0: never for their number.
    pub every: u32,
    /// At the end of an epoch, so many seconds after the last one or the start; 0: never for the
    /// time.
    pub seconds: u32,
    /// How many of the newest are kept, at least 1. That of the best epoch is kept besides.
    pub keep: u32,
    /// True if they stay when the run has finished.
    pub keep_after: bool,
}

impl Default for Checkpoint {
    /// Every minute; the last two.
    fn default() -> Self {
        Self { every: 0, seconds: 60, keep: 2, keep_after: false }
    }
}

impl Checkpoint {
    /// Returns whether there will be any, if the run takes long enough.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.every > 0 || self.seconds > 0
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
