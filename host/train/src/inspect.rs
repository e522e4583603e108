//! Internal values of a training, for tests that compare it with another implementation.

use eciton_graph::dataset::Dataset;
use eciton_recipe::Config;
use eciton_runs::report::Silent;
use eciton_runs::run_folder::NamedTensor;

use crate::error::Result;
use crate::options::Options;
use crate::trainer::Trainer;

/// Internal values of a short training, as returned by [`first_epoch`].
#[derive(Debug, Clone)]
pub struct FirstEpoch {
    /// Values of all trained parameters before the first update.
    pub parameters: Vec<NamedTensor>,
    /// Gradients of the loss in the last epoch, without weight decay.
    pub gradients: Vec<NamedTensor>,
    /// Loss of each epoch, in order.
    pub losses: Vec<f64>,
}

/// Trains `config.run.epochs` epochs. Returns the initial values of trained parameters, the gradients of
/// the last epoch, and the loss of each epoch.
///
/// # Errors
/// Returns the errors of [`crate::train`].
pub fn first_epoch(config: &Config, options: &Options, dataset: Dataset) -> Result<FirstEpoch> {
    let mut trainer = Trainer::open(config, options, dataset)?;
    let parameters = trainer.weights()?;
    let epochs = trainer.run(config.run.epochs, &mut Silent)?;
    let losses = epochs.iter().map(|epoch| epoch.loss).collect();
    let gradients = trainer.gradients()?;
    let is_trained = |one: &NamedTensor| gradients.iter().any(|gradient| gradient.name == one.name);
    let parameters = parameters.into_iter().filter(is_trained).collect();
    Ok(FirstEpoch { parameters, gradients, losses })
}
