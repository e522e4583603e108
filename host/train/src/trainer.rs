//! The trainer, which trains one model on a data set in memory, for any number of epochs at a time.
//!
//! [`train`](crate::train()) takes paths and writes a run folder. A [`Trainer`] takes a [`Dataset`]
//! and returns arrays. It reads no file except that of `run.init`, and writes no file except
//! compiled kernels ([`Options::cache`]).
//!
//! * `config.data` mostly describes how files are read, which a trainer does not do. Only `task`,
//!   `split` and `split_seed` of this section have an effect, and features are used unchanged.
//!   [`load`](crate::load()) applies the other settings.
//! * `config.run.epochs` is the length of the learning rate schedule, and not a limit. In later
//!   epochs `linear` and `cosine` stay at `final_lr`, and other schedules follow their formula.
//! * The last epoch of each [`run`](Trainer::run) is evaluated, in addition to those of
//!   `run.eval_every`.
//! * With `run.patience` or `run.until` a run may end early. Later runs then train nothing.
//! * With `run.keep = "best"` weights, scores and metrics are those of the best epoch evaluated so
//!   far. Training still continues from the last epoch.
//! * In asynchronous mode a run ends with no epoch in flight, and its last
//!   `pipeline.synchronous_last` epochs are synchronous.
//!
//! ```
//! use eciton_graph::generate::ManyGraphs;
//! use eciton_train::{Options, Silent, Trainer};
//!
//! let small = ManyGraphs { graphs: 30, ..ManyGraphs::default() };
//! let dataset = small.generate()?.dataset("made", 1)?;
//! let mut config = eciton_recipe::Config::default();
//! config.run.epochs = 10;
//! let mut trainer = Trainer::new(&config, &Options::default(), dataset)?;
//! let first = trainer.run(3, &mut Silent)?;
//! let more = trainer.run(7, &mut Silent)?;
//! assert_eq!((first.len(), more[0].epoch, trainer.epoch()), (3, 4, 10));
//!
//! let scores = trainer.predict()?; // [graphs, classes]
//! assert_eq!(scores.nrows(), 30);
//! assert_eq!(trainer.evaluate()?, more[6].metrics.expect("a run's last epoch is evaluated"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use eciton_exec::Bill;
use eciton_graph::dataset::Dataset;
use eciton_recipe::{Config, TaskType};
use eciton_runs::decisions::Known;
use eciton_runs::report::{EpochReport, Metrics, Observer, Silent, Target};
use eciton_runs::run_folder::{NamedTensor, model_digest};
use ndarray::Array2;

use crate::driver::{Best, Trained};
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::known_labels::known_labels;
use crate::options::Options;
use crate::predict::set_weights;
use crate::session::{Earlier, Position, Session};
use crate::split;
use crate::stop::Stop;
use crate::train::tensors;
use crate::training_checks::check_training;
use crate::weights::WeightState;

/// A model, its data set in memory, and the state of its training.
///
/// A process may have several trainers, which share only compiled kernels. A trainer must stay on
/// the thread that created it, and has its own compute threads.
pub struct Trainer {
    session: Session,
    config: Config,
    stop: Arc<Stop>,
    seed: u64,
    /// Weights and optimiser state after the last epoch, from which the next epoch continues.
    state: WeightState,
    /// Reports of all epochs so far.
    history: Vec<EpochReport>,
    best: Option<Best>,
    stopped_early: Option<u32>,
    reached: Option<u32>,
    /// Metrics of the session's current weights. `None` if these were not evaluated yet.
    evaluated: Option<Metrics>,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dataset = &self.session.inputs.dataset.name;
        let (seed, epoch) = (self.seed, self.epoch());
        f.debug_struct("Trainer")
            .field("dataset", dataset)
            .field("seed", &seed)
            .field("epoch", &epoch)
            .finish_non_exhaustive()
    }
}

impl Trainer {
    /// Creates a trainer, whose model has the initial weights of seed `config.run.seed`. This loads
    /// kernels, plans and allocates memory, and starts threads.
    ///
    /// # Errors
    /// Returns [`Error::Data`] if parts of the data set do not fit together, and
    /// [`Error::NoLabels`] if it has no labels. Returns [`Error::Split`] if `data.split` does not
    /// suit the labels, and [`Error::Task`] if they do not suit `data.task`. Returns
    /// [`Error::Readout`] if the model is for one graph and the data set has many, or the reverse.
    /// Returns [`Error::Init`] if the file of `run.init` does not fit. Returns [`Error::NoLayer`]
    /// or [`Error::AllFrozen`] for an invalid `optimiser.freeze`. Returns [`Error::NotInMemory`]
    /// for options of run folders: `out`, `recording`, or `seeds` other than 1. Also returns the
    /// errors of [`train`](crate::train()) before its first epoch.
    pub fn new(config: &Config, options: &Options, dataset: Dataset) -> Result<Self> {
        check_options(options)?;
        Self::open(config, options, dataset)
    }

    /// Creates a trainer like [`Trainer::new`], but also accepts the option `recording`.
    pub(crate) fn open(config: &Config, options: &Options, mut dataset: Dataset) -> Result<Self> {
        dataset.validate()?;
        split::apply(&config.data, &mut dataset)?;
        if config.pipeline.auto {
            let instead = "call `settle_pipeline`, which returns settings with a fixed staleness";
            return Err(Error::NotInMemory { option: "pipeline.staleness = \"auto\"", instead });
        }
        let found = eciton_runs::task_type::task(&dataset.labels);
        let wanted = config.data.task.filter(|&wanted| !config.predicts_links() && wanted != found);
        if let Some(wanted) = wanted.filter(|_| dataset.labels.width() > 0) {
            let (wanted, found) = (wanted.name(), found.name());
            return Err(Error::Task { dataset: dataset.name, wanted, found });
        }
        let mut session = Session::new(config, options, Some(dataset), Asked::Anything)?;
        session.check_settings()?;
        let seed = config.run.seed;
        session.initialise(config, seed)?;
        let state = session.weights.state()?;
        Ok(Self {
            session,
            config: config.clone(),
            stop: options.stop.clone(),
            seed,
            state,
            history: Vec::new(),
            best: None,
            stopped_early: None,
            reached: None,
            evaluated: None,
        })
    }

    /// Trains for `epochs` further epochs, and returns their reports in order. `observer` receives
    /// each report at the end of its epoch.
    ///
    /// In synchronous modes, runs of m and n epochs give the same result as one run of m + n
    /// epochs. With `run.patience` or `run.keep` this requires `run.eval_every` = 1, because both
    /// depend on evaluations.
    ///
    /// Fewer epochs are trained, or none, after an early stop ([`Trainer::stopped_early`],
    /// [`Trainer::target`]) or a request by [`Options::stop`]. A request ends the run after its
    /// current epoch.
    ///
    /// # Errors
    /// Returns [`Error::Epochs`] for 0 epochs, and [`Error::NoTraining`] if the split has no
    /// training vertices. Returns [`Error::NoValidation`] if the configuration needs validation
    /// vertices and there are none. Returns [`Error::Until`] if the stop target cannot be reached.
    /// Also returns the errors of [`train`](crate::train()) from its first epoch on. After an
    /// error, the trainer is as it was before the call.
    pub fn run(&mut self, epochs: u32, observer: &mut dyn Observer) -> Result<Vec<EpochReport>> {
        let done = self.epoch();
        let until = done.checked_add(epochs).filter(|&until| until > done);
        let until = Some(until.ok_or(Error::Epochs { asked: epochs, done })?);
        check_training(&self.config, &self.session)?;
        if self.stopped_early.is_some() || self.reached.is_some() || self.stop.is_asked() {
            return Ok(Vec::new());
        }
        self.stop.begin();
        self.evaluated = None;
        let (epochs, best) = (self.history.clone(), self.best.clone());
        let steps = epochs.last().map_or(0, |last| last.step);
        let trained = Trained { epochs, best, steps, ..Trained::default() };
        let from = Position { weights: Some(Earlier::State(self.state.clone())), trained, until };
        let trained = match self.session.train(&self.config, self.seed, Some(from), observer, None) {
            Ok(trained) => trained,
            Err(error) => {
                self.session.settle();
                self.session.weights.restore(&self.state)?;
                self.show_best()?;
                return Err(error);
            }
        };
        self.state = self.session.weights.state()?;
        self.history = trained.epochs;
        (self.best, self.stopped_early, self.reached) =
            (trained.best, trained.stopped_early, trained.reached);
        let last = self.history.last().and_then(|last| last.metrics);
        self.evaluated = last.filter(|_| trained.scored);
        self.show_best()?;
        Ok(self.history.iter().filter(|report| report.step > steps).cloned().collect())
    }

    /// Sets the session's weights to those of the best epoch, if `run.keep` selects them.
    fn show_best(&mut self) -> Result<()> {
        let Some(best) =
            self.best.as_ref().filter(|best| self.history.last().is_none_or(|last| last.step != best.step))
        else {
            return Ok(());
        };
        for (parameter, values) in best.values.iter().enumerate() {
            self.session.weights.set(parameter, values)?;
        }
        self.evaluated = None;
        Ok(())
    }

    /// Returns the metrics of the model on the training, validation and test rows, computed without
    /// dropout. Rows are vertices, graphs or links.
    ///
    /// # Errors
    /// Returns the error of a kernel that fails.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        if let Some(metrics) = self.evaluated {
            return Ok(metrics);
        }
        match self.session.evaluate(&mut Silent) {
            Ok(metrics) => {
                self.evaluated = Some(metrics);
                Ok(metrics)
            }
            Err(error) => {
                self.session.settle();
                Err(error)
            }
        }
    }

    /// Returns the scores of all rows in the order of the data set: `[V, classes]` before softmax,
    /// `[V, labels]` before the sigmoid, or `[V, numbers]`. In a data set of many graphs, each row
    /// is a graph.
    ///
    /// For link prediction, returns the embeddings `[V, dimensions]`. The score of a pair is the
    /// inner product of its rows, before the sigmoid.
    ///
    /// # Errors
    /// Returns the errors of [`Trainer::evaluate`].
    pub fn predict(&mut self) -> Result<Array2<f32>> {
        self.evaluate()?;
        let columns = self.session.inputs.shape.classes as usize;
        let found = self.session.predicted(&self.config, false, &mut Silent)?;
        self.matrix(columns, found.scores)
    }

    /// Returns the embeddings `[V, width]`, which are the inputs of the last layer, in the order of
    /// [`Trainer::predict`]. Returns `None` for a model of one layer.
    ///
    /// # Errors
    /// Returns the errors of [`Trainer::evaluate`].
    pub fn embeddings(&mut self) -> Result<Option<Array2<f32>>> {
        self.evaluate()?;
        let found = self.session.predicted(&self.config, true, &mut Silent)?.embeddings;
        found.map(|(columns, values)| self.matrix(columns, values)).transpose()
    }

    /// Returns the known labels of all rows, and the part of the split that each row belongs to.
    /// Rows are in the order of [`Trainer::predict`].
    ///
    /// # Errors
    /// Returns [`Error::Data`] if parts of the data set do not fit together.
    pub fn known(&self) -> Result<Known> {
        known_labels(&self.session.inputs)
    }

    /// Returns the learning task, which determines the meaning of the columns of
    /// [`Trainer::predict`].
    #[must_use]
    pub fn task(&self) -> TaskType {
        self.session.inputs.task
    }

    fn matrix(&self, columns: usize, values: Vec<f32>) -> Result<Array2<f32>> {
        let rows = self.session.inputs.vertices.named().1 as usize;
        Array2::from_shape_vec((rows, columns), values).map_err(|e| Error::Internal(e.to_string()))
    }

    /// Returns the parameters of the model in the order of the program. Their names are those in
    /// `model.safetensors`.
    ///
    /// # Errors
    /// Returns [`Error::Tensor`] if memory for the parameters cannot be allocated.
    pub fn weights(&self) -> Result<Vec<NamedTensor>> {
        tensors(&self.session)
    }

    /// Restarts the training before its first epoch, with the given weights. The moments of the
    /// optimiser are reset. Other random numbers, for instance for dropout, still follow from the
    /// seed.
    ///
    /// # Errors
    /// Returns [`Error::Fit`] unless the weights are exactly the parameters of the model, with
    /// their extents. After an error, the trainer is as it was before the call.
    pub fn set_weights(&mut self, weights: &[NamedTensor]) -> Result<()> {
        let before = self.session.weights.state()?;
        self.session.weights.initialise(&self.session.program, self.seed)?;
        if let Err(error) = set_weights(&mut self.session, weights) {
            self.session.weights.restore(&before)?;
            // The stored scores still belong to the old weights, which have not changed.
            return Err(error);
        }
        self.begin()
    }

    /// Restarts the training before its first epoch, with the initial weights of `seed`. With
    /// `run.init`, every seed starts with the weights of the file.
    ///
    /// # Errors
    /// Returns the errors of [`Trainer::weights`].
    pub fn restart(&mut self, seed: u64) -> Result<()> {
        self.seed = seed;
        self.session.initialise(&self.config, seed)?;
        self.begin()
    }

    /// Discards all epochs. The session must already have the new initial weights.
    fn begin(&mut self) -> Result<()> {
        self.history.clear();
        (self.best, self.stopped_early, self.reached, self.evaluated) = (None, None, None, None);
        self.state = self.session.weights.state()?;
        Ok(())
    }

    /// Returns the SHA-256 over [`Trainer::weights`], in hexadecimal. A run folder with the same
    /// weights has the same digest.
    ///
    /// # Errors
    /// Returns the errors of [`Trainer::weights`].
    pub fn model_digest(&self) -> Result<String> {
        Ok(model_digest(&self.weights()?))
    }

    /// Returns the number of the last trained epoch. Returns 0 before the first epoch.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.history.last().map_or(0, |last| last.epoch)
    }

    /// Returns the reports of all epochs since the training was started or restarted.
    #[must_use]
    pub fn history(&self) -> &[EpochReport] {
        &self.history
    }

    /// Returns the number of epochs without a better validation metric after which early stopping
    /// (`run.patience`) ended the training. Returns `None` if it did not.
    #[must_use]
    pub fn stopped_early(&self) -> Option<u32> {
        self.stopped_early
    }

    /// Returns the progress towards the target `run.until`. Returns `None` if no target is set.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let counting = self.session.counting_seconds();
        let until = self.config.run.until;
        until.map(|until| Target::from_epochs(until, self.reached, &self.history, counting))
    }

    /// Returns the charged usage so far. Returns `None` if nothing is charged.
    #[must_use]
    pub fn bill(&self) -> Option<Bill> {
        self.session.bill()
    }

    /// Returns the gradients of the last epoch without weight decay, in the order of
    /// [`Trainer::weights`]. Statistics, which have no gradient, are left out.
    pub(crate) fn gradients(&self) -> Result<Vec<NamedTensor>> {
        let all = self.weights()?.into_iter().zip(&self.session.program.parameters).enumerate();
        let trained = all.filter(|(_, (_, parameter))| !parameter.is_statistic);
        let gradient = |(at, (tensor, _))| {
            Ok(NamedTensor { values: self.session.weights.gradient_values(at)?, ..tensor })
        };
        trained.map(gradient).collect()
    }
}

/// Checks that no option is set that only applies to run folders, because a trainer would ignore
/// it.
fn check_options(options: &Options) -> Result<()> {
    let recording = &options.recording;
    let files = [&recording.events, &recording.replay, &recording.trace, &recording.profile];
    let (option, instead) = if options.out.is_some() {
        ("the option `out`", "remove it, or call `train`, which writes a run folder")
    } else if files.iter().any(|file| file.is_some()) {
        ("the option `recording`", "remove it, or call `train`, which writes recordings")
    } else if options.seeds != 1 {
        ("a number of seeds other than 1", "call `restart` once for each seed")
    } else {
        return Ok(());
    };
    Err(Error::NotInMemory { option, instead })
}
