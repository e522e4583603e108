//! A trainer: one model on one data set in memory, trained as many epochs at a time as is wanted.
//!
//! [`train`](crate::train()) takes paths and leaves a run folder. A [`Trainer`] takes a [`Dataset`]
//! and gives arrays. It reads no data file, no file but that of `run.init`, and writes no file but compiled kernels
//! ([`Options::cache`]).
//!
//! * `config.data` says how files are read, and here none is: [`load`](crate::load()) or the caller
//!   has done that. Features are taken as they are. Of this section only `task`, `split` and `split_seed` count.
//! * `config.run.epochs` is the length of the learning rate's schedule, and no limit. Epochs after
//!   it go on: `linear` and `cosine` stay at `final_lr`, other schedules follow their formula.
//! * The last epoch of each [`run`](Trainer::run) is evaluated, besides those of `run.eval_every`.
//! * With `run.patience` or `run.until` a run may end early. Later runs then train nothing.
//! * With `run.keep = "best"` weights, scores and metrics are those of the best epoch evaluated so
//!   far. Training goes on from the last epoch all the same.
//! * In asynchronous mode a run ends with no epoch under way, and its last
//!   `pipeline.synchronous_last` epochs are synchronous.
//!
//! ```
//! use eciton_graph::generate::ManyGraphs;
//! use eciton_train::{Options, Silent, Trainer};
//!
//! let small = ManyGraphs { graphs: 30, ..ManyGraphs::default() };
//! let dataset = small.generate()?.dataset("made", 1)?;
//! let mut config = eciton_plan::Config::default();
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
use eciton_plan::{Config, TaskType};
use ndarray::Array2;

use crate::data;
use crate::decided::Known;
use crate::driver::{Best, Trained};
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::predict::set_weights;
use crate::report::{EpochReport, Metrics, Observer, Silent, Target};
use crate::run_folder::{NamedTensor, model_digest};
use crate::session::{Earlier, Options, Position, Session};
use crate::split;
use crate::stop::Stop;
use crate::train::{check_training, tensors};
use crate::weights::WeightState;

/// A model, its data set in memory, and where its training stands.
///
/// Several may be in one process; they share compiled kernels and nothing else. Each stays on the
/// thread that made it, and has threads of its own.
pub struct Trainer {
    session: Session,
    config: Config,
    stop: Arc<Stop>,
    seed: u64,
    /// After the last epoch: what the next one begins with.
    state: WeightState,
    /// All epochs, from the first.
    history: Vec<EpochReport>,
    best: Option<Best>,
    stopped_early: Option<u32>,
    reached: Option<u32>,
    /// Of the session's weights, while their scores are in its rows.
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
    /// Makes a model with fresh weights of seed `config.run.seed`: kernels are loaded, memory is
    /// planned and taken, threads are started.
    ///
    /// # Errors
    /// [`Error::Data`] for a data set whose parts do not fit together, [`Error::NoLabels`] for one
    /// without labels, [`Error::Split`] for labels that `data.split` does not suit, [`Error::Task`] for labels of another task than `data.task`, and
    /// [`Error::Readout`] for many graphs where one is wanted or the other way round.
    /// [`Error::Init`] for a file of `run.init` that does not fit, [`Error::NoLayer`] and [`Error::AllFrozen`] for
    /// `optimiser.freeze`, [`Error::NotInMemory`] for options of run folders: `out`, `recording`, `seeds` other than 1.
    /// Else as [`train`](crate::train()), before its first epoch.
    pub fn new(config: &Config, options: &Options, dataset: Dataset) -> Result<Self> {
        check_options(options)?;
        Self::open(config, options, dataset)
    }

    /// [`Trainer::new`] that takes a recording as well.
    pub(crate) fn open(config: &Config, options: &Options, mut dataset: Dataset) -> Result<Self> {
        dataset.validate()?;
        split::apply(&config.data, &mut dataset)?;
        if config.pipeline.auto {
            let instead = "call `settle_pipeline`, which gives the settings to make it with";
            return Err(Error::NotInMemory { option: "pipeline.staleness = \"auto\"", instead });
        }
        let found = data::task(&dataset.labels);
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

    /// Trains `epochs` more epochs, and gives their reports in order. `observer` hears of each at
    /// its end.
    ///
    /// In synchronous modes runs of m and n epochs give the bits of one run of m + n. (With
    /// `run.patience` and `run.keep` they do where `run.eval_every` is 1: both go by evaluations.)
    ///
    /// There are fewer reports than epochs, or none, after an early stop
    /// ([`Trainer::stopped_early`], [`Trainer::target`]) and where [`Options::stop`] is asked. That ends the run after
    /// its epoch.
    ///
    /// # Errors
    /// [`Error::Epochs`] for 0 epochs, [`Error::NoTraining`] for a split without training vertices,
    /// [`Error::NoValidation`] where the configuration needs them, [`Error::Until`]; else as
    /// [`train`](crate::train()), from its first epoch on. The trainer is then as it was before the
    /// call.
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
        let trained = Trained { epochs, best, ..Trained::default() };
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
        Ok(self.history.iter().filter(|report| report.epoch > done).cloned().collect())
    }

    /// Puts the best epoch's values in the place of the last one's, where those are to be kept.
    fn show_best(&mut self) -> Result<()> {
        let Some(best) = self.best.as_ref().filter(|best| best.epoch != self.epoch()) else { return Ok(()) };
        for (parameter, values) in best.values.iter().enumerate() {
            self.session.weights.set(parameter, values)?;
        }
        self.evaluated = None;
        Ok(())
    }

    /// Metrics of the model on the training, validation and test vertices (or graphs, or links),
    /// without dropout.
    ///
    /// # Errors
    /// A kernel that fails.
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

    /// Scores `[V, classes]` before softmax, `[V, labels]` before the sigmoid, or `[V, numbers]`,
    /// in the data set's order; of many graphs one row each.
    ///
    /// Of links it is the embedding, `[V, dimensions]`: the inner product of two rows is the score
    /// of their pair, before the sigmoid.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub fn predict(&mut self) -> Result<Array2<f32>> {
        self.evaluate()?;
        let columns = self.session.inputs.shape.classes as usize;
        let found = self.session.predicted(&self.config, false, &mut Silent)?;
        self.matrix(columns, found.scores)
    }

    /// The rows that the last layer reads, `[V, width]`, in the order of [`Trainer::predict`];
    /// `None` for a model of one layer.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub fn embeddings(&mut self) -> Result<Option<Array2<f32>>> {
        self.evaluate()?;
        let found = self.session.predicted(&self.config, true, &mut Silent)?.embeddings;
        found.map(|(columns, values)| self.matrix(columns, values)).transpose()
    }

    /// Known labels and parts of the rows, in the order of [`Trainer::predict`].
    ///
    /// # Errors
    /// [`Error::Graph`] where parts of the data set do not fit together.
    pub fn known(&self) -> Result<Known> {
        Known::of(&self.session.inputs)
    }

    /// The result of [`Trainer::predict`].
    #[must_use]
    pub fn task(&self) -> TaskType {
        self.session.inputs.task
    }

    fn matrix(&self, columns: usize, values: Vec<f32>) -> Result<Array2<f32>> {
        let rows = self.session.inputs.vertices.named().1 as usize;
        Array2::from_shape_vec((rows, columns), values).map_err(|e| Error::Internal(e.to_string()))
    }

    /// The model's parameters in the program's order, named as in `model.safetensors`.
    ///
    /// # Errors
    /// [`Error::Tensor`] where their memory cannot be had.
    pub fn weights(&self) -> Result<Vec<NamedTensor>> {
        tensors(&self.session)
    }

    /// Begins anew with these weights instead of drawn ones: epoch 0, an optimiser without moments,
    /// the same seed for what else is drawn.
    ///
    /// # Errors
    /// [`Error::Fit`] unless each parameter of the model is there with its extents, and nothing
    /// else. The trainer is then as it was before the call.
    pub fn set_weights(&mut self, weights: &[NamedTensor]) -> Result<()> {
        let before = self.session.weights.state()?;
        self.session.weights.initialise(&self.session.program, self.seed)?;
        if let Err(error) = set_weights(&mut self.session, weights) {
            self.session.weights.restore(&before)?;
            // The scores are still those of these values.
            return Err(error);
        }
        self.begin()
    }

    /// Begins anew: first weights of `seed`, epoch 0. With `run.init` they are the file's for every seed.
    ///
    /// # Errors
    /// As [`Trainer::weights`].
    pub fn restart(&mut self, seed: u64) -> Result<()> {
        self.seed = seed;
        self.session.initialise(&self.config, seed)?;
        self.begin()
    }

    /// Forgets what was trained; the session has the first weights.
    fn begin(&mut self) -> Result<()> {
        self.history.clear();
        (self.best, self.stopped_early, self.reached, self.evaluated) = (None, None, None, None);
        self.state = self.session.weights.state()?;
        Ok(())
    }

    /// SHA-256 of [`Trainer::weights`], hexadecimal: that of a run folder with the same bits.
    ///
    /// # Errors
    /// As [`Trainer::weights`].
    pub fn model_digest(&self) -> Result<String> {
        Ok(model_digest(&self.weights()?))
    }

    /// The last epoch that was trained; 0 before the first.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.history.last().map_or(0, |last| last.epoch)
    }

    /// The reports of all epochs since the weights were fresh.
    #[must_use]
    pub fn history(&self) -> &[EpochReport] {
        &self.history
    }

    /// After how many epochs without a better validation metric training was stopped
    /// (`run.patience`); `None`: it was not.
    #[must_use]
    pub fn stopped_early(&self) -> Option<u32> {
        self.stopped_early
    }

    /// How far training has come to `run.until`; `None` where there is none.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        self.config.run.until.map(|until| Target::of(until, self.reached, &self.history))
    }

    /// What this trainer has used so far of what is charged for; `None` where nothing is.
    #[must_use]
    pub fn bill(&self) -> Option<Bill> {
        self.session.bill()
    }

    /// The gradients of the last epoch, without weight decay, in the order of [`Trainer::weights`].
    pub(crate) fn gradients(&self) -> Result<Vec<NamedTensor>> {
        let mut gradients = self.weights()?;
        for (at, gradient) in gradients.iter_mut().enumerate() {
            gradient.values = self.session.weights.gradient_values(at)?;
        }
        Ok(gradients)
    }
}

/// Refuses what is about run folders, and would be left undone.
fn check_options(options: &Options) -> Result<()> {
    let recording = &options.recording;
    let files = [&recording.events, &recording.replay, &recording.trace, &recording.profile];
    let (option, instead) = if options.out.is_some() {
        ("out", "leave it out, or call `train`, which writes a run folder")
    } else if files.iter().any(|file| file.is_some()) {
        ("recording", "leave it out, or call `train`, which writes records")
    } else if options.seeds != 1 {
        ("seeds but 1", "call `restart` with each seed in turn")
    } else {
        return Ok(());
    };
    Err(Error::NotInMemory { option, instead })
}
