//! How an engine is to run its program.

use eciton_plan::{Epoch, Version};

/// Most intervals.
pub const MAX_INTERVALS: u32 = 65_536;
/// Most steps of one epoch: stages times intervals. A step takes 12 bytes.
pub const MAX_STEPS: u64 = 1 << 24;
/// Most attempts at a task that may be allowed.
pub const MAX_ATTEMPTS: u32 = 100;

/// Which rows and weights a step may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Rows of this epoch and the newest weights only. A gather waits for all intervals.
    #[default]
    Synchronous,
}

/// An engine's settings. All are public; [`Settings::new`] fills in defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of intervals: 1 to [`MAX_INTERVALS`].
    pub intervals: u32,
    /// The first epoch to do: 1, or the one after a checkpoint.
    pub first: Epoch,
    /// The last epoch to do. Before `first`: there is nothing to do.
    pub last: Epoch,
    /// The version of the weights that the first epoch reads.
    pub weights: Version,
    /// Evaluate after epochs that this divides, and after the last; 0: only after the last. Programs
    /// that do not train are never evaluated.
    pub eval_every: u32,
    /// How often a task is tried that fails by the host's fault: 1 to [`MAX_ATTEMPTS`].
    pub attempts: u32,
    /// Which rows and weights a step may read.
    pub policy: Policy,
}

impl Settings {
    /// Epochs 1 to `epochs` on so many intervals, evaluated after each, four attempts at a task.
    #[must_use]
    pub const fn new(intervals: u32, epochs: u32) -> Self {
        Self {
            intervals,
            first: Epoch(1),
            last: Epoch(epochs),
            weights: Version(0),
            eval_every: 1,
            attempts: 4,
            policy: Policy::Synchronous,
        }
    }
}
