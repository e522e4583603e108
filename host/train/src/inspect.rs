//! Internal values of a run, for tests that compare one epoch with another implementation.

use eciton_graph::dataset::Dataset;
use eciton_recipe::Config;
use eciton_runs::report::Silent;
use eciton_runs::run_folder::NamedTensor;

use crate::error::Result;
use crate::options::Options;
use crate::trainer::Trainer;

/// Internal values of the trained epochs, as [`first_epoch`] returns them.
#[derive(Debug, Clone)]
pub struct FirstEpoch {
    /// Parameters before the first update.
    pub parameters: Vec<NamedTensor>,
    /// Gradients of the last epoch's loss, without weight decay.
    pub gradients: Vec<NamedTensor>,
    /// Loss of each epoch.
    pub losses: Vec<f64>,
}

/// Trains `config.run.epochs` epochs. Returns the parameters before the first epoch, the gradients
/// of the last, and the losses of all.
///
/// # Errors
/// Returns the errors of [`crate::train`].
pub fn first_epoch(config: &Config, options: &Options, dataset: Dataset) -> Result<FirstEpoch> {
    let mut trainer = Trainer::open(config, options, dataset)?;
    let parameters = trainer.weights()?;
    let epochs = trainer.run(config.run.epochs, &mut Silent)?;
    let losses = epochs.iter().map(|epoch| epoch.loss).collect();
    Ok(FirstEpoch { parameters, gradients: trainer.gradients()?, losses })
}
