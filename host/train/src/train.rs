//! Training of a whole run, with all of its seeds, reports and run folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use eciton_graph::dataset::Dataset;
use eciton_graph::graphs::Graphs;
use eciton_graph::mapping;
use eciton_recipe::{Config, EvaluationMethod};
use eciton_runs::picture;
use eciton_runs::provenance::{Provenance, recipe_digest};
use eciton_runs::report::{
    BestEpoch, EpochReport, Metrics, Observer, SeedReport, Silent, Started, Summary, Target, mean, spread,
};
use eciton_runs::run_folder::model::digest_of;
use eciton_runs::run_folder::{
    Arrays, Error as FileError, NamedTensor, RunFolder, Versions, json, model_digest,
};

use crate::checkpoint::{self, Beginning, Place, RunRecord, Saver};
use crate::data;
use crate::defaults;
use crate::driver::Trained;
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::known_labels::known_labels;
use crate::logs;
use crate::options::Options;
use crate::parameter_shapes::parameter_shapes;
use crate::recorder::Recorder;
use crate::session::{Earlier, Position, Predicted, Session};
use crate::staleness_trials::settle_pipeline;
use crate::tensorboard::Events;
use crate::training_checks::check_training;
use crate::undefined;
use eciton_types::Round;

/// Trains a model for each seed as the configuration describes, and writes the run folder. Returns
/// the summary of the run.
///
/// # Errors
/// Returns an error if data, configuration or kernels are invalid, or if a kernel fails. Before the
/// first epoch, it also returns an error if the run folder cannot be written. This includes that
/// checkpoints of an unfinished run exist there, or that another process writes it. Returns
/// [`Error::Left`] if [`Options::stop`] requested an end without results.
///
/// After an error, no partial results remain. Exceptions are checkpoints ([`crate::checkpoint`]),
/// and a model that was complete when the disk became full ([`Error::Kept`]).
pub fn train(config: &Config, options: &Options, observer: &mut dyn Observer) -> Result<Summary> {
    train_data(None, config, options, observer)
}

/// Trains on a data set in memory, like [`train`]. The data set is prepared with
/// [`prepare`](crate::prepare()). The run folder records `config.data.source` as its name, which
/// should be [`IN_MEMORY`](crate::IN_MEMORY) or the origin of the data set.
///
/// ```
/// use eciton_train::{IN_MEMORY, Options, Silent};
/// let mut config = eciton_recipe::Config::default();
/// config.run.epochs = 2;
/// let by_name = eciton_train::train(&config, &Options::default(), &mut Silent)?;
/// let cora = eciton_train::open(&config.data)?;
/// config.data.source = IN_MEMORY.to_owned();
/// let in_memory = eciton_train::train_on(cora, &config, &Options::default(), &mut Silent)?;
/// assert_eq!(in_memory.model_digest, by_name.model_digest);
/// assert!(eciton_train::load(&config.data).is_err());
/// # Ok::<(), eciton_train::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of [`train`], and [`Error::Data`] if parts of the data set do not fit
/// together.
pub fn train_on(
    dataset: Dataset,
    config: &Config,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    train_data(Some(dataset), config, options, observer)
}

fn train_data(
    dataset: Option<Dataset>,
    config: &Config,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let begun = Instant::now();
    let (config, dataset) = defaults::settled(config, dataset, options.hosts.as_ref())?;
    let recipe = recipe_digest(&config)?;
    Session::settle_class(&config)?;
    let mut config = logs::completed(&config, &options.recording)?;
    let folder = options.out.as_deref().map(RunFolder::create).transpose()?;
    let place = match (&folder, &options.out) {
        (Some(folder), Some(out)) => {
            let place = Place::create(folder.target(), out)?;
            place.remove_debris(folder.target(), Some(&folder.partial_name()));
            Some(place)
        }
        _ => None,
    };
    let dataset = dataset.map(|dataset| data::checked(&config, dataset)).transpose()?;
    let mut trial = None;
    if config.pipeline.auto && options.hosts.is_some() {
        let reason = "the trials of `pipeline.staleness = \"auto\"` measure times, on which hosts cannot agree; set \
                      a number, or train on one host";
        return Err(Error::Hosts(reason.to_owned()));
    }
    if config.pipeline.auto {
        (config, trial) = settle_pipeline(&config, options, dataset.as_ref())?;
        trial.iter().for_each(|trial| observer.tried(trial));
    }
    let config = &config;
    let asked = if options.out.is_some() { Asked::Folder } else { Asked::Nothing };
    let mut session = Session::new(config, options, dataset, asked)?;
    session.check_settings()?;
    session.trial = trial;
    session.read_initial(config)?;
    let events = Events::from_options(options, options.seeds)?;
    let recorder = Recorder { folder, place, events, ..Recorder::default() };
    let mut run = Run { config, options, session, recorder, begun, recipe };
    if let Some(beginning) = run.begin()? {
        run.recorder.saver = run.recorder.place.take().map(|place| Saver::new(place, beginning));
    }
    run.started(observer);
    run.go(0, None, Vec::new(), observer)
}

/// A run in progress, with its settings, session and recorder.
pub(crate) struct Run<'a> {
    pub config: &'a Config,
    pub options: &'a Options,
    pub session: Session,
    pub recorder: Recorder,
    pub begun: Instant,
    /// SHA-256 of the settings that the caller requested, before defaults were filled in.
    pub recipe: String,
}

impl Run<'_> {
    /// Checks that the model can be trained on the data set, and writes the files that are known
    /// before the first epoch. Returns the inputs of a [`Saver`], or `None` if the run writes no
    /// checkpoints.
    pub(crate) fn begin(&mut self) -> Result<Option<Beginning>> {
        let (config, session) = (self.config, &self.session);
        check_training(config, session)?;
        let Some(folder) = &mut self.recorder.folder else { return Ok(None) };
        folder.check_ids(session.inputs.vertices.named().0)?;
        let config_text = folder.write_config(&session.resolved(config), &session.said(config))?;
        let vocabulary = data::vocabulary(config)?;
        let schema = session.inputs.schema.clone().with_tokens(vocabulary.as_ref());
        folder.write_schema(&schema)?;
        let versions = Versions::current(&session.kernels.digests(), eciton_tensor::simd::numeric_class());
        let versions = folder.write_versions(&versions)?;
        folder.reserve(session.program.parameters.iter().map(|p| p.len() as u64 * 4).sum())?;
        let Some(fingerprint) = &session.fingerprint else { return Ok(None) };
        let record = RunRecord {
            format: crate::checkpoint::FORMAT,
            seeds: self.options.seeds.max(1),
            embeddings: self.options.embeddings,
            scores: self.options.scores,
            data: fingerprint.clone(),
            changes: checkpoint::CHANGES.len(),
            schema: Some(schema),
            recipe: self.recipe.clone(),
        };
        let record = json(&record, Path::new("run.json"))?;
        Ok(Some(Beginning {
            settings: config.checkpoint.clone(),
            records: [config_text.into_bytes(), versions, record],
            parameters: parameter_shapes(&session.program),
            first_seed: config.run.seed,
            begun: self.begun,
        }))
    }

    /// Returns the seeds of the run. They start with `run.seed` and count up.
    fn seeds(&self) -> Vec<u64> {
        let count = u64::from(self.options.seeds.max(1));
        (0..count).map(|n| self.config.run.seed.wrapping_add(n)).collect()
    }

    /// Reports the facts that are known before the first epoch to the observer, and then any
    /// warnings.
    pub(crate) fn started(&self, observer: &mut dyn Observer) {
        let session = &self.session;
        let (dataset, shape) = (&session.inputs.dataset, session.inputs.shape);
        let links = session.inputs.links.as_ref().map(|links| {
            let [validation, test] = links.held_out().map(|held| held as u64);
            [links.trained, validation, test]
        });
        observer.started(&Started {
            dataset: dataset.name.clone(),
            vertices: session.inputs.rows_of_all().into(),
            edges: session.inputs.edges_of_all(),
            features: u64::from(session.inputs.shape.features),
            task: session.inputs.task,
            metric: session.inputs.metric,
            classes: u64::from(shape.classes),
            links,
            graphs: dataset.graphs.as_ref().map(Graphs::count),
            labelled_edges: (!session.inputs.vertices.edges().is_empty()).then_some(shape.read_out),
            model: session.program.model.name(),
            parameters: session.program.trained_values(),
            intervals: session.inputs.intervals.len() as u32,
            threads: session.threads,
            epochs: session.planned_epochs(self.config),
            steps: (session.end(self.config).0, session.epochs.rounds()),
            batches: session.batches(),
            seeds: self.seeds(),
            setup_seconds: self.begun.elapsed().as_secs_f64(),
            settings: session.said(self.config),
            functions: session.outlook(),
        });
        for (part, reason) in undefined::reasons(&session.inputs) {
            let metric = session.inputs.metric.name();
            observer.warning(&format!(
                "{metric} is undefined on the {part} part: {reason}; the run reports no {part} metric"
            ));
        }
        if let Some(warning) = session.batch_warning() {
            observer.warning(&warning);
        }
        if let Some(fault) = session.kernels.cache_fault() {
            observer.warning(&format!(
                "{fault}; until this is corrected, kernels are compiled again at every start"
            ));
        }
    }

    /// Trains the seeds from index `first` on, and finishes the run. The training of the first one
    /// continues at `from`. `epoch_seconds` has the durations of the epochs of all earlier seeds.
    pub(crate) fn go(
        mut self,
        first: usize,
        from: Option<Position>,
        epoch_seconds: Vec<Vec<f64>>,
        observer: &mut dyn Observer,
    ) -> Result<Summary> {
        self.options.stop.begin();
        let ended = self.seeds_from(first, from, epoch_seconds, observer);
        if !ended.as_ref().is_ok_and(|summary| !summary.stopped) {
            self.session.pauses();
        }
        self.session.logs.printed.finish(observer);
        match ended {
            Ok(mut summary) => {
                if let Some(path) = self.recorder.finish(summary.stopped)? {
                    summary.run_dir = Some(path);
                }
                Ok(summary)
            }
            Err(error) => Err(self.recorder.salvage(error)),
        }
    }

    /// Trains the seeds from index `first` on, and writes all files of the run folder. Returns the
    /// summary of the run.
    fn seeds_from(
        &mut self,
        first: usize,
        mut from: Option<Position>,
        mut epoch_seconds: Vec<Vec<f64>>,
        observer: &mut dyn Observer,
    ) -> Result<Summary> {
        let mut stopped = false;
        let (seeds, mut n) = (self.seeds(), first);
        while let Some(&seed) = seeds.get(n) {
            let recorder = Some(&mut self.recorder);
            let trained = match self.session.train(self.config, seed, from.take(), observer, recorder) {
                Err(Error::Doubtful { text, seed, epoch }) => {
                    let back = self.go_back((&text, seed, epoch), &mut epoch_seconds, observer)?;
                    (n, from) = back;
                    continue;
                }
                trained => trained?,
            };
            epoch_seconds.push(durations(&trained.epochs));
            let newest = self.recorder.newest_checkpoint();
            if let Some(budget) = self.options.budget.as_ref().filter(|budget| budget.is_over())
                && trained.stopped
            {
                self.session.finish_logs()?;
                let epochs = self.session.epochs;
                let (round, epoch) = (Round(trained.steps), epochs.done(Round(trained.steps)));
                let step = (!epochs.ends(round)).then_some(trained.steps);
                return Err(match newest.filter(|_| newest == Some((seed, epoch, step))) {
                    Some((seed, epoch, step)) => Error::Paused { seed, epoch, step },
                    None => Error::NoPause { seconds: budget.limit().as_secs_f64() },
                });
            }
            let hosts = self.session.hosts_leave();
            let leaves = hosts.unwrap_or_else(|| self.options.stop.leaves()) && trained.stopped;
            if let (Some((seed, epoch, step)), Some(run), true) = (newest, &self.options.out, leaves) {
                let run = run.clone();
                self.session.finish_logs()?;
                return Err(Error::Left { run, seed, epoch, step });
            }
            if leaves && hosts.is_some() {
                self.session.finish_logs()?;
                return Err(Error::Stopped);
            }
            let report = match self.finish_seed(n, seed, &trained, observer) {
                Err(Error::Doubtful { text, seed, epoch }) => {
                    let back = self.go_back((&text, seed, epoch), &mut epoch_seconds, observer)?;
                    (n, from) = back;
                    continue;
                }
                report => report?,
            };
            observer.seed(&report);
            self.recorder.finished.push(report);
            self.recorder.reports.push(trained.epochs.len());
            stopped |= trained.stopped;
            if stopped {
                break;
            }
            n += 1;
        }
        mapping::check_content()?;
        let before = self.recorder.saver.as_ref().map(Saver::before).unwrap_or_default();
        let reports = self.recorder.finished.clone();
        self.session.gather_usage()?;
        self.session.finish_logs()?;
        let mut epoch_seconds = epoch_seconds.concat();
        let mut summary = summarise((self.config, &self.recipe), &self.session, reports, &mut epoch_seconds);
        summary.stopped = stopped;
        summary.run_dir = self.options.out.clone();
        summary.total_seconds = before.seconds + self.begun.elapsed().as_secs_f64();
        summary.tasks += before.tasks;
        if let (Some(bill), Some(earlier)) = (summary.bill, before.bill) {
            let bill = bill.and(&earlier);
            (summary.bill, summary.cost) = (Some(bill), self.session.cost_of(&bill));
        }
        if let Some(folder) = &mut self.recorder.folder {
            summary.without_predictions = !self.session.are_predictions_kept();
            folder.write_summary(&summary)?;
        }
        Ok(summary)
    }

    /// Rolls the run back, because a process has given wrong answers since `epoch`. The run returns
    /// to the newest checkpoint before this epoch, or to the start of the seed. Returns the index
    /// of the seed, and the position from which its training continues.
    fn go_back(
        &mut self,
        (text, seed, epoch): (&str, u64, u32),
        epoch_seconds: &mut Vec<Vec<f64>>,
        observer: &mut dyn Observer,
    ) -> Result<(usize, Option<Position>)> {
        self.session.settle();
        self.session.doubts.returned()?;
        // Meanwhile, an audit may have found another process wrong, with answers from earlier
        // epochs.
        let all = std::iter::once((seed, epoch)).chain(self.session.doubts.take_late());
        let seeds = self.seeds();
        let index = |seed: u64| seeds.iter().position(|of| *of == seed);
        let earliest = all.filter_map(|(seed, epoch)| Some((index(seed)?, epoch))).min();
        let (n, epoch) = earliest.ok_or_else(|| Error::Internal(format!("the run has no seed {seed}")))?;
        let seed = seeds[n];
        let found = self.recorder.rewind(n, (seed, epoch))?;
        epoch_seconds.truncate(n);
        let to = found.as_ref().map_or(0, |(point, _)| point.mark.epoch);
        observer.warning(&format!(
            "{text}; results from epoch {epoch} on may be wrong, so the run rolls back to epoch {to} of seed \
             {seed}"
        ));
        let per_epoch = self.session.epochs.rounds();
        let position = found.map(|(point, epochs)| {
            let trained = point.trained(epochs, per_epoch);
            Position { weights: Some(Earlier::Point(point)), trained, until: None }
        });
        Ok((n, position))
    }

    /// Evaluates and writes the model of a seed at the end of its training. Returns the report of
    /// the seed.
    fn finish_seed(
        &mut self,
        n: usize,
        seed: u64,
        trained: &Trained,
        observer: &mut dyn Observer,
    ) -> Result<SeedReport> {
        let session = &mut self.session;
        let epochs = trained.epochs.as_slice();
        let last = epochs.last().ok_or(Error::Stopped)?;
        // The scores of the last epoch are still stored if that epoch was evaluated.
        let (metrics, mut quality) = match last.metrics.filter(|_| trained.scored) {
            Some(metrics) => (metrics, session.quality()?.or_else(|| trained.quality.clone())),
            None if self.config.evaluation.method == EvaluationMethod::None => {
                (Metrics { metric: session.inputs.metric, ..Metrics::default() }, None)
            }
            None => session.judge(observer)?,
        };
        let kept = trained.best.as_ref().filter(|best| best.step != last.step);
        if let Some(kept) = kept {
            for (parameter, values) in kept.values.iter().enumerate() {
                session.weights.set(parameter, values)?;
            }
            // The written scores must belong to the selected model, and not to that of the last
            // epoch.
            quality = session.judge(observer)?.1;
        }
        let (tensors, digest) = match session.weights.owning_workers() {
            Some(owners) => {
                let named = parameter_shapes(&session.program);
                let digest = digest_of(&owners.entries(&named));
                (None, digest.map_err(|source| owners.unread(source))?)
            }
            None => {
                let tensors = tensors(session)?;
                let digest = model_digest(&tensors);
                (Some(tensors), digest)
            }
        };
        let report = SeedReport {
            seed,
            epochs: last.epoch,
            loss: last.loss,
            metrics,
            best: BestEpoch::find(epochs, self.config.run.keep),
            kept_epoch: kept.map(|kept| kept.epoch),
            stopped_early: trained.stopped_early,
            target: self.config.run.until.map(|until| {
                let counting = session.counting_seconds();
                Target::from_epochs(until, trained.reached, epochs, counting)
            }),
            synchronised_after: trained.synchronised_after,
            model_digest: digest.clone(),
            quality,
        };
        let epoch = kept.map_or(last.epoch, |kept| kept.epoch);
        let metadata = BTreeMap::from([
            ("eciton".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("model".to_owned(), session.program.model.name()),
            ("dataset".to_owned(), session.inputs.dataset.name.clone()),
            ("seed".to_owned(), seed.to_string()),
            ("epochs".to_owned(), format!("{epoch} of {}", session.planned_epochs(self.config))),
            ("digest".to_owned(), digest),
        ]);
        self.write_seed(n, seed, (tensors.as_deref(), &metadata), epochs)?;
        Ok(report)
    }

    /// Writes the model and the predictions of a seed, and for the first seed also the picture of
    /// its curves. If `tensors` is `None`, the model is read from the snapshot of the workers'
    /// weights. The last evaluation must be that of this model.
    pub(crate) fn write_seed(
        &mut self,
        n: usize,
        seed: u64,
        (tensors, metadata): (Option<&[NamedTensor]>, &BTreeMap<String, String>),
        epochs: &[EpochReport],
    ) -> Result<()> {
        let Some(folder) = &mut self.recorder.folder else { return Ok(()) };
        folder.release();
        let session = &mut self.session;
        let predicted = match session.are_predictions_kept() {
            true => Some(session.predicted(self.config, self.options.embeddings, &mut Silent)?),
            false => None,
        };
        let session = &self.session;
        let dataset = &session.inputs.dataset;
        let mut place = if n == 0 { folder.top() } else { folder.seed(seed)? };
        match (tensors, session.weights.owning_workers()) {
            (Some(tensors), _) => place.write_model(tensors, metadata, &session.signs())?,
            (None, Some(owners)) => {
                let named = parameter_shapes(&session.program);
                let digest = metadata.get("digest").cloned().unwrap_or_default();
                place.write_entries(&owners.entries(&named), metadata.clone(), digest)?
            }
            (None, None) => return Err(Error::Internal("a finished seed has no model".to_owned())),
        };
        let (ids, rows) = session.inputs.vertices.named();
        let known = known_labels(&session.inputs)?;
        let write = |Predicted { scores, embeddings }: Predicted| {
            let embeddings = embeddings.as_ref().map(|(width, values)| (*width, values.as_slice()));
            let (scores, embeddings) = match &session.inputs.links {
                Some(_) => (None, Some((session.inputs.shape.classes as usize, &scores[..]))),
                None => (Some(&scores[..]), embeddings),
            };
            let known = Some((session.inputs.task, &known));
            place.write_predictions(&Arrays { ids, vertices: rows, scores, embeddings, known })
        };
        // Predictions can be computed again, but the model cannot. Therefore the model is kept if
        // the disk is full at this point.
        let predicted = match predicted.map(write).transpose() {
            Err(error @ FileError::Write { .. }) => {
                place.discard_predictions();
                Some(error)
            }
            written => written.map(|_| None)?,
        };
        if n == 0 {
            let model = session.program.model.name();
            let caption = picture::Caption {
                dataset: &dataset.name,
                model: &model,
                seed,
                loss: session.program.model.loss,
                metric: session.inputs.metric,
                keep: self.config.run.keep,
            };
            folder.write_curve(&picture::svg(&caption, epochs))?;
        }
        if let Some(error) = predicted {
            self.recorder.unwritten.get_or_insert(error);
        }
        Ok(())
    }
}

/// Returns the name, extents and values of all parameters of the session's model.
pub(crate) fn tensors(session: &Session) -> Result<Vec<NamedTensor>> {
    let named = |(at, (name, shape)): (usize, (String, Vec<usize>))| -> Result<NamedTensor> {
        Ok(NamedTensor { name, shape, values: session.weights.values(at)? })
    };
    parameter_shapes(&session.program).into_iter().enumerate().map(named).collect()
}

/// Returns the duration of each epoch in seconds. An epoch may have several reports.
pub(crate) fn durations(reports: &[EpochReport]) -> Vec<f64> {
    let of_epoch = reports.chunk_by(|one, next| one.epoch == next.epoch);
    of_epoch.map(|reports| reports.iter().map(|report| report.seconds).sum()).collect()
}

/// Creates the summary of a run from the reports of its seeds. `epoch_seconds` has the durations of
/// all epochs.
fn summarise(
    (config, recipe): (&Config, &str),
    session: &Session,
    seeds: Vec<SeedReport>,
    epoch_seconds: &mut [f64],
) -> Summary {
    let tests: Vec<f64> = seeds.iter().filter_map(|s| s.metrics.test).collect();
    let best: Vec<f64> = seeds.iter().filter_map(|s| s.best?.metrics.test).collect();
    let spread = spread(&tests);
    epoch_seconds.sort_by(f64::total_cmp);
    let middle = epoch_seconds.len() / 2;
    let median = match epoch_seconds.len() {
        0 => 0.0,
        n if n % 2 == 1 => epoch_seconds[middle],
        _ => f64::midpoint(epoch_seconds[middle - 1], epoch_seconds[middle]),
    };
    Summary {
        dataset: session.inputs.dataset.name.clone(),
        model: session.program.model.name(),
        metric: session.inputs.metric,
        test_metric: spread.map(|(mean, _)| mean),
        test_metric_std: spread.map(|(_, deviation)| deviation),
        test_metric_at_best_validation: mean(&best),
        undefined_metrics: undefined::reasons(&session.inputs),
        epoch_seconds_median: median,
        total_seconds: 0.0,
        peak_memory_bytes: peak_memory_bytes(),
        settings: session.said(config),
        model_digest: seeds.first().map_or_else(String::new, |s| s.model_digest.clone()),
        numeric_class: session.numeric_class(),
        intervals: session.inputs.intervals.len() as u32,
        threads: session.threads,
        order: session.inputs.vertices.ordered.clone(),
        executor: config.executor.kind.name().to_owned(),
        tasks: session.tasks(),
        rows_by_age: session.logs.rows_by_age(),
        trial: session.trial.clone(),
        helpers: session.helpers(),
        attempts: session.attempts(),
        workers: session.workers(),
        hosts: session.host_traffic(),
        batches: session.batches(),
        audit: session.audit(),
        bill: session.bill(),
        cost: session.cost(),
        without_predictions: false,
        predictions_left_out: false,
        stopped: false,
        provenance: Some(Provenance::new(
            config,
            recipe,
            session.inputs.schema.data.as_ref(),
            session.kernels.digests(),
            &session.numeric_class(),
        )),
        run_dir: None,
        seeds,
    }
}

/// Returns the peak resident memory of this process in bytes. Returns 0 if the system does not
/// report it.
fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")).and_then(|n| n.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
