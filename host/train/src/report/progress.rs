//! Progress inside an epoch or an evaluation.

/// The part of a run that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// An epoch of training, from 1.
    Epoch(u32),
    /// An evaluation.
    Evaluation,
}

/// Progress inside an epoch or an evaluation that takes longer than a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The seed of the run.
    pub seed: u64,
    /// What is in progress.
    pub activity: Activity,
    /// Batches that are over, and all. An epoch without batches has one.
    pub batches: (u32, u32),
    /// Steps that are done, and all.
    pub steps: (u64, u64),
    /// Steps done since this process began the epoch.
    pub steps_here: u64,
    /// Seconds since this process began the epoch.
    pub seconds: f64,
}

impl Progress {
    /// Share of the steps that are done.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.steps.0 as f64 / self.steps.1.max(1) as f64
    }

    /// Seconds left at the pace so far; `None` before the first step.
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.steps.1.saturating_sub(self.steps.0) as f64;
        (self.steps_here > 0).then(|| self.seconds / self.steps_here as f64 * left)
    }
}
