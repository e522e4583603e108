//! Progress within an epoch or an evaluation.

/// The part of a run whose progress is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// An epoch of training. The value is its number, from 1.
    Epoch(u32),
    /// An evaluation of the model.
    Evaluation,
}

/// Progress within an epoch or evaluation that takes longer than one second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Random seed of the training in progress.
    pub seed: u64,
    /// The epoch or evaluation in progress.
    pub activity: Activity,
    /// Number of finished batches, and total number of batches. An epoch without batches counts as
    /// one batch.
    pub batches: (u32, u32),
    /// Number of finished steps, and total number of steps.
    pub steps: (u64, u64),
    /// Number of steps that this process has finished since it began the epoch.
    /// [`Progress::seconds_left`] uses it, because `steps` also counts those of an earlier process.
    pub steps_here: u64,
    /// Seconds since this process began the epoch or evaluation.
    pub seconds: f64,
}

impl Progress {
    /// Returns the share of finished steps, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.steps.0 as f64 / self.steps.1.max(1) as f64
    }

    /// Returns the estimated remaining time in seconds at the speed so far. Returns `None` before
    /// the first step is finished.
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.steps.1.saturating_sub(self.steps.0) as f64;
        (self.steps_here > 0).then(|| self.seconds / self.steps_here as f64 * left)
    }
}
