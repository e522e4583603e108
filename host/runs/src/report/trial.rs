//! Results of the trials that select the staleness bound of a pipeline (`pipeline.staleness =
//! "auto"`).

use eciton_recipe::Mode;
use serde::{Deserialize, Serialize};

/// Result of a short training with one staleness bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StalenessTrial {
    /// Mode of the pipeline in the trial.
    pub mode: Mode,
    /// Staleness bound S of the trial. An interval (a contiguous range of vertices) may be at most
    /// S epochs ahead of the slowest interval.
    pub staleness: u32,
    /// Mean duration in seconds of the epochs that were timed.
    pub epoch_seconds: f64,
    /// Training loss of the last epoch.
    pub loss: f64,
    /// True if the loss was close enough to the loss of the synchronous trial for the bound to be
    /// selected.
    pub kept_up: bool,
}

/// Results of all trials that select the settings of a pipeline, with the selected setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineTrial {
    /// Number of epochs per trial.
    pub epochs: u32,
    /// Results of the trials in the order in which they ran. The first trial is synchronous.
    pub tried: Vec<StalenessTrial>,
    /// Result of the trial whose staleness bound was selected.
    pub chosen: StalenessTrial,
    /// Number of epochs at the end of the run that are synchronous, if the selected mode is
    /// asynchronous.
    pub synchronous_last: u32,
    /// Reason for the selection, as text for the user.
    pub why: String,
}
