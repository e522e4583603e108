//! Resuming of a run that was killed or stopped, from its newest checkpoint.

use std::path::Path;
use std::time::Instant;

use eciton_graph::dataset::Dataset;
use eciton_recipe::Config;
use eciton_runs::report::{Observer, Resumed, Summary};
use eciton_runs::run_folder::{self, RunFolder, Versions};
use eciton_runs::schema::Purpose;

use crate::checkpoint::{self, Found, Place};
use crate::data::{self, checked};
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::session::{Earlier, Position, Session};
use crate::tensorboard::Events;
use crate::train::{Run, durations};

/// Resumes an interrupted run from its newest checkpoint and finishes it. `run` is the path of the
/// run folder. The results are the same as without the interruption. If the run is already
/// finished, its summary is returned.
///
/// The seeds and the options `embeddings` and `scores` are those of the original run. All other
/// `options` apply to this process. The results of a stopped run remain until the new results
/// replace them. The data set is read from the path in the run's configuration.
///
/// # Errors
/// Returns [`Error::NoCheckpoint`] if the run has no checkpoint, and [`Error::Busy`] if another
/// process works on it. Returns [`Error::Changed`] if data, kernels, settings or processor differ
/// from those of the run. `force` ignores such differences where this is possible. Also returns the
/// errors of [`crate::train`].
pub fn resume(run: &Path, force: bool, options: &Options, observer: &mut dyn Observer) -> Result<Summary> {
    resume_data(None, (run, force), options, observer)
}

/// Resumes a run on a data set in memory, like [`resume`]. `dataset` must be the one that was given
/// to [`train_on`](crate::train_on).
///
/// # Errors
/// Returns the errors of [`resume`], among them [`Error::Changed`] if `dataset` is another data
/// set.
pub fn resume_on(
    dataset: Dataset,
    run: &Path,
    force: bool,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    resume_data(Some(dataset), (run, force), options, observer)
}

fn resume_data(
    dataset: Option<Dataset>,
    (run, force): (&Path, bool),
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let begun = Instant::now();
    let target = run.canonicalize().or_else(|_| std::path::absolute(run));
    let target = target.map_err(|source| Error::Read { path: run.to_owned(), source })?;
    // Host 0 of several writes the run. The others read the same checkpoint.
    let writes = options.hosts.as_ref().is_none_or(|hosts| hosts.me == 0);
    let over = match writes {
        true => finished(&target, run)?,
        false if is_finished(run) => Some(run_folder::Run::open(run)?.summary),
        false => None,
    };
    if let Some(summary) = over {
        return Ok(summary);
    }
    let mut found = if writes { Found::open(&target, run)? } else { Found::read_only(&target, run)? };
    let options = Options {
        seeds: found.seeds(),
        embeddings: found.record.embeddings,
        scores: found.record.scores,
        out: writes.then(|| run.to_owned()),
        ..options.clone()
    };
    let crossed = checkpoint::crossed(found.record.changes);
    if !crossed.is_empty() {
        eciton_input::notes::add(format!(
            "{}: the checkpoint was written before changes of Eciton that may alter results: {}",
            run.display(),
            crossed.join("; ")
        ));
    }
    let mut folder = None;
    if writes {
        found.place().remove_debris(&target, None);
        folder.insert(RunFolder::create_over(run)?).append_lines(&found.metrics);
    }
    let config = found.config.clone();
    Session::settle_class(&config)?;
    let dataset = match (&found.record.schema, dataset) {
        (Some(schema), Some(dataset)) => {
            dataset.validate()?;
            Some(data::fitted(&config.data, dataset, schema, Purpose::Resume)?)
        }
        (Some(schema), None) => Some(data::load_to_resume(&config, schema, options.hosts.as_ref())?),
        (None, dataset) => dataset.map(|dataset| checked(&config, dataset)).transpose()?,
    };
    let mut session = Session::new(&config, &options, dataset, Asked::Folder)?;
    session.origins = std::mem::take(&mut found.origins);
    let events = Events::from_options(&options, options.seeds)?;
    let recorder = Recorder { folder, events, ..Recorder::default() };
    let recipe = found.record.recipe.clone();
    let mut going = Run { config: &config, options: &options, session, recorder, begun, recipe };
    let beginning = going.begin()?;
    if beginning.is_none() && writes {
        return Err(Error::Internal("the run has no checkpointer".to_owned()));
    }
    let session = &going.session;
    let differences = match (&beginning, &session.fingerprint) {
        (Some(beginning), Some(data)) => found.check(
            &Versions::current(&session.kernels.digests(), eciton_tensor::simd::numeric_class()),
            (data, session.inputs.schema.data.as_ref()),
            &beginning.parameters,
            (session.end(&config), force),
        )?,
        // Host 0 compares the run with this process, and all hosts compare themselves with it.
        _ => Vec::new(),
    };
    going.started(observer);
    observer.resumed(&Resumed {
        seed: found.point.mark.seed,
        epoch: found.point.mark.epoch,
        step: found.point.mark.steps,
        epochs_done: found.epochs_done(session.epochs.rounds()),
        damaged: found.damaged.clone(),
        differences,
    });
    // Predictions of finished seeds are not in checkpoints, so they are computed again from the
    // models.
    for (n, (report, model)) in std::mem::take(&mut found.finished).into_iter().enumerate() {
        for (parameter, tensor) in model.tensors.iter().enumerate() {
            going.session.weights.set(parameter, &tensor.values)?;
        }
        if going.session.are_predictions_kept() {
            going.session.evaluate(observer)?;
        }
        let of = (Some(&model.tensors[..]), &model.metadata);
        going.write_seed(n, report.seed, of, &found.epochs_of(report.seed))?;
        going.recorder.reports.push(found.epochs_of(report.seed).len());
        going.recorder.finished.push(report);
    }
    let mark = &found.point.mark;
    let trained = found.point.trained(found.epochs_of(mark.seed), going.session.epochs.rounds());
    let position = Position { weights: Some(Earlier::Point(found.point.clone())), trained, until: None };
    let finished = &going.recorder.finished;
    let epoch_seconds = finished.iter().map(|of| durations(&found.epochs_of(of.seed))).collect();
    let first = going.recorder.finished.len();
    going.recorder.saver = beginning.map(|beginning| found.saver(beginning)).transpose()?;
    going.go(first, Some(position), epoch_seconds, observer)
}

/// Lanes and workers with which a run is resumed. `None` keeps those of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Number of lanes, over all replicas of the pipeline.
    pub lanes: Option<u32>,
    /// Number of workers. If 0, the lanes run on this machine.
    pub workers: Option<u32>,
    /// Number of replicas of the pipeline.
    pub width: Option<u32>,
}

impl Shape {
    /// Changes the settings of a run. The number of lanes and of workers are equal unless one of
    /// them is 0. Settings of single lanes are removed if the number of lanes changes.
    fn apply(self, config: &mut Config) {
        let Self { lanes, workers, width } = self;
        let before = config.lanes.lanes;
        config.lanes.lanes.width = width.unwrap_or(before.width);
        let lanes = lanes.or(workers.filter(|workers| *workers > 0)).unwrap_or(before.count);
        config.lanes.lanes.count = lanes;
        match workers {
            Some(0) => config.run_here(),
            Some(_) if !config.executor.kind.has_workers() => config.run_on_workers(),
            _ => {}
        }
        if config.executor.kind.has_workers() {
            config.workers.count = workers.filter(|_| lanes == 0).unwrap_or(lanes);
        }
        if config.lanes.lanes != before {
            config.lanes.cut.clear();
            config.lanes.recompute.clear();
            config.workers.replicas.truncate(1);
            config.workers.fail_at.clear();
        }
    }
}

/// Changes the lanes and workers of an interrupted run, with which [`resume`] then continues. The
/// results stay the same bit for bit. `run` is the path of the run folder.
///
/// # Errors
/// Returns [`Error::NoCheckpoint`] if the run has no checkpoint, [`Error::Busy`] if another process
/// works on it, and an error of the settings if they do not suit the lanes. The checkpoints are then
/// unchanged.
pub fn reshape(run: &Path, shape: Shape) -> Result<()> {
    let target = run.canonicalize().or_else(|_| std::path::absolute(run));
    let target = target.map_err(|source| Error::Read { path: run.to_owned(), source })?;
    if !checkpoint::is_resumable(&target) {
        let found = format!("no checkpoint found (expected {})", checkpoint::folder(run).display());
        return Err(Error::NoCheckpoint { run: run.to_owned(), found });
    }
    let config = checkpoint::settings(&target)?.1;
    let mut changed = config.clone();
    shape.apply(&mut changed);
    changed.check()?;
    if changed == config { Ok(()) } else { checkpoint::readdress(&target, |config| shape.apply(config)) }
}

/// Returns the settings of an interrupted run. `run` is the path of the run folder.
///
/// # Errors
/// Returns an error if the run has no checkpoint folder, or if its settings cannot be read.
pub fn interrupted(run: &Path) -> Result<Config> {
    let target = run.canonicalize().or_else(|_| std::path::absolute(run));
    let target = target.map_err(|source| Error::Read { path: run.to_owned(), source })?;
    Ok(checkpoint::settings(&target)?.1)
}

/// Returns true if `run` is the folder of a finished run. Returns false for a stopped run, and if
/// the folder cannot be read.
#[must_use]
pub fn is_finished(run: &Path) -> bool {
    run_folder::is_run(run) && run_folder::Run::open(run).is_ok_and(|run| !run.summary.stopped)
}

/// Returns the summary of a finished run, and removes checkpoints that a killed process has left.
/// Returns `None` if the run was killed or stopped, so that it can be resumed.
fn finished(target: &Path, run: &Path) -> Result<Option<Summary>> {
    let (is_run, begun) = (run_folder::is_run(target), run_folder::is_begun(target));
    if !is_run && !begun {
        return Ok(None);
    }
    let opened = is_run.then(|| run_folder::Run::open(run)).transpose()?;
    if let Some(place) = Place::open(target, run)? {
        if !place.is_of(target)? {
            let place = checkpoint::folder(run);
            return Err(Error::Foreign { run: run.to_owned(), place });
        }
        place.remove_debris(target, None);
        if let Some(opened) = opened.as_ref().filter(|opened| !opened.summary.stopped) {
            place.finish(opened.config.checkpoint.keep_after);
        }
    }
    match opened {
        Some(opened) if opened.summary.stopped && !checkpoint::is_resumable(target) => {
            let found = format!("the run was stopped, and {} is missing", checkpoint::folder(run).display());
            Err(Error::NoCheckpoint { run: run.to_owned(), found })
        }
        opened => Ok(opened.map(|opened| opened.summary).filter(|summary| !summary.stopped)),
    }
}
