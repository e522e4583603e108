//! A run from the inside: what one epoch computes, for tests that hold it against another
//! implementation.

use eciton_graph::dataset::Dataset;
use eciton_plan::Config;

use crate::error::Result;
use crate::report::Silent;
use crate::run_folder::NamedTensor;
use crate::session::Options;
use crate::trainer::Trainer;

/// The first epoch from the inside.
#[derive(Debug, Clone)]
pub struct FirstEpoch {
    /// Before the update.
    pub parameters: Vec<NamedTensor>,
    /// Of the epoch's loss, weight decay not included.
    pub gradients: Vec<NamedTensor>,
    /// Of each epoch.
    pub losses: Vec<f64>,
}

/// Trains `config.run.epochs` epochs; parameters are those before the first, gradients those of the
/// last, losses those of all.
///
/// # Errors
/// As [`crate::train`].
pub fn first_epoch(config: &Config, options: &Options, dataset: Dataset) -> Result<FirstEpoch> {
    let mut trainer = Trainer::open(config, options, dataset)?;
    let parameters = trainer.weights()?;
    let epochs = trainer.run(config.run.epochs, &mut Silent)?;
    let losses = epochs.iter().map(|epoch| epoch.loss).collect();
    Ok(FirstEpoch { parameters, gradients: trainer.gradients()?, losses })
}
