//! A run from the inside: what one epoch computes, for tests that hold it against another
//! implementation, and runs that benchmarks start again and again.

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
    let trained = session.train(config, config.run.seed, None, &mut Silent, None)?;
    let mut gradients = parameters.clone();
    for (at, gradient) in gradients.iter_mut().enumerate() {
        gradient.values = session.weights.gradient_values(at)?;
    }
    Ok(FirstEpoch { parameters, gradients, losses: trained.epochs.iter().map(|e| e.loss).collect() })
}

/// A run that is ready to start, as often as is wanted: data prepared, kernels loaded, threads up.
pub struct Ready {
    session: Session,
    config: Config,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What one start of a [`Ready`] run gave.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Forward, loss, backward and update of each epoch, seconds.
    pub epoch_seconds: Vec<f64>,
    /// SHA-256 of the final weights.
    pub model_digest: String,
}

impl Ready {
    /// Sets a run up.
    ///
    /// # Errors
    /// As [`crate::train`], before its first epoch.
    pub fn new(config: &Config, options: &Options, dataset: Dataset) -> Result<Self> {
        Ok(Self { session: Session::new(config, options, Some(dataset))?, config: config.clone() })
    }

    /// Trains from fresh weights of the configuration's seed.
    ///
    /// # Errors
    /// As [`crate::train`], from its first epoch on.
    pub fn train(&mut self) -> Result<Finished> {
        let trained = self.session.train(&self.config, self.config.run.seed, None, &mut Silent, None)?;
        let epoch_seconds = trained.epochs.iter().map(|e| e.seconds).collect();
        let model_digest = crate::run_folder::model_digest(&crate::train::tensors(&self.session)?);
        Ok(Finished { epoch_seconds, model_digest })
    }
}
