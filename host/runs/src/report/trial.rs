//! Results of the trials that select the staleness bound of a pipeline (`pipeline.staleness =
//! "auto"`).

use eciton_recipe::Mode;
use serde::{Deserialize, Serialize};

/// Result of a trial with one staleness bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StalenessTrial {
    /// Pipeline mode of the trial.
    pub mode: Mode,
    /// Staleness bound S of the trial: maximum number of epochs by which an interval may be ahead
    /// of the slowest interval.
    pub staleness: u32,
    /// Mean seconds of the timed epochs.
    pub epoch_seconds: f64,
    /// Loss of the last epoch.
    pub loss: f64,
    /// True if the loss was close enough to that of the synchronous trial.
    pub kept_up: bool,
}

/// Results of the trials that select the settings of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineTrial {
    /// Number of epochs in each trial.
    pub epochs: u32,
    /// Trials in the order in which they ran, the synchronous one first.
    pub tried: Vec<StalenessTrial>,
    /// The trial whose setting was selected.
    pub chosen: StalenessTrial,
    /// Number of synchronous epochs at the end of the run, if the selected mode is asynchronous.
    pub synchronous_last: u32,
    /// Reason for the selection, as text.
    pub why: String,
}
