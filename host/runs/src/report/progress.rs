//! Progress inside an epoch or an evaluation.

/// The activity of a run whose progress is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// An epoch of training, with its number from 1.
    Epoch(u32),
    /// An evaluation of the model.
    Evaluation,
}

/// Progress inside an epoch or an evaluation that takes longer than a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Seed that is being trained.
    pub seed: u64,
    /// Epoch or evaluation in progress.
    pub activity: Activity,
    /// Number of finished batches, and the total. An epoch without batches counts as one batch.
    pub batches: (u32, u32),
    /// Number of finished steps, and the total.
    pub steps: (u64, u64),
    /// Number of steps finished since this process began the epoch.
    pub steps_here: u64,
    /// Seconds since this process began the epoch.
    pub seconds: f64,
}

impl Progress {
    /// Returns the share of the steps that are finished.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.steps.0 as f64 / self.steps.1.max(1) as f64
    }

    /// Returns the estimated number of seconds left at the speed so far. Returns `None` before the
    /// first finished step.
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.steps.1.saturating_sub(self.steps.0) as f64;
        (self.steps_here > 0).then(|| self.seconds / self.steps_here as f64 * left)
    }
}
