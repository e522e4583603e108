//! What one epoch computes, for tests that hold it against another implementation.

use eciton_graph::dataset::Dataset;
use eciton_plan::Config;

use crate::error::Result;
use crate::report::Silent;
use crate::run_folder::NamedTensor;
use crate::session::{Options, Session};

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
    let mut session = Session::new(config, options, Some(dataset))?;
    session.weights.initialise(&session.program, config.run.seed)?;
    let parameters = crate::train::tensors(&session)?;
    let trained = session.train(config, config.run.seed, &mut Silent)?;
    let mut gradients = parameters.clone();
    for (at, gradient) in gradients.iter_mut().enumerate() {
        gradient.values = session.weights.gradient_values(at)?;
    }
    Ok(FirstEpoch { parameters, gradients, losses: trained.epochs.iter().map(|e| e.loss).collect() })
}
