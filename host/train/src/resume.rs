//! Going on with a run that was killed or stopped, from its newest checkpoint.

use std::path::Path;
use std::time::Instant;

use eciton_graph::dataset::Dataset;
use eciton_runs::report::{EpochReport, Observer, Resumed, Summary};
use eciton_runs::run_folder::{self, RunFolder, Versions};
use eciton_runs::schema::Purpose;

use crate::checkpoint::{self, Found, Place};
use crate::data::{self, checked};
use crate::driver::Trained;
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::session::{Earlier, Position, Session};
use crate::tensorboard::Events;
use crate::train::Run;

/// Goes on with the run whose folder `run` is to be, and finishes it. `options` are about this
/// process; seeds, embeddings and the folder are the run's own. In the end the run is bit for bit
/// the one that was never killed. A run that has finished gives its summary; the results of one
/// that was stopped stay until these take their place.
///
/// The data is where the run's configuration says: its paths are as the run was given them, and
/// `eciton train` makes them absolute.
///
/// # Errors
/// [`Error::NoCheckpoint`], [`Error::Busy`], and [`Error::Changed`] where data, kernels, settings
/// or processor are not what the run began with, unless `force` is set and it is possible at all;
/// and all of [`crate::train`].
pub fn resume(run: &Path, force: bool, options: &Options, observer: &mut dyn Observer) -> Result<Summary> {
    resume_data(None, (run, force), options, observer)
}

/// [`resume`] of a run whose data set is in memory: the one of [`train_on`](crate::train_on).
///
/// # Errors
/// As [`resume`]; [`Error::Changed`] for another data set.
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
    if let Some(summary) = finished(&target, run)? {
        return Ok(summary);
    }
    let mut found = Found::open(&target, run)?;
    let options = Options {
        seeds: found.seeds(),
        embeddings: found.record.embeddings,
        scores: found.record.scores,
        out: Some(run.to_owned()),
        ..options.clone()
    };
    let crossed = checkpoint::crossed(found.record.changes);
    if !crossed.is_empty() {
        eciton_input::notes::add(format!(
            "{}: the checkpoint was written before changes that may alter results: {}",
            run.display(),
            crossed.join("; ")
        ));
    }
    found.place().remove_debris(&target, None);
    let mut folder = RunFolder::create_over(run)?;
    folder.append_lines(&found.metrics);
    let config = found.config.clone();
    Session::settle_class(&config)?;
    let dataset = match (&found.record.schema, dataset) {
        (Some(schema), Some(dataset)) => {
            dataset.validate()?;
            Some(data::fitted(&config.data, dataset, schema, Purpose::Resume)?)
        }
        (Some(schema), None) => Some(data::load_fitted(&config.data, schema, Purpose::Resume)?),
        (None, dataset) => dataset.map(|dataset| checked(&config, dataset)).transpose()?,
    };
    let mut session = Session::new(&config, &options, dataset, Asked::Folder)?;
    session.origins = std::mem::take(&mut found.origins);
    let events = Events::of(&options, options.seeds)?;
    let recorder = Recorder { folder: Some(folder), events, ..Recorder::default() };
    let recipe = found.record.recipe.clone();
    let mut going = Run { config: &config, options: &options, session, recorder, begun, recipe };
    let Some(beginning) = going.begin()? else {
        return Err(Error::Internal("a run with checkpoints that wants none".to_owned()));
    };
    let session = &going.session;
    let versions = Versions::of(&session.kernels.digests(), eciton_tensor::simd::numeric_class());
    let data = session.fingerprint.as_ref().ok_or_else(|| Error::Internal("no fingerprint".to_owned()))?;
    let differences =
        found.check(&versions, (data, session.inputs.schema.data.as_ref()), &beginning.parameters, force)?;
    going.started(observer);
    observer.resumed(&Resumed {
        seed: found.point.mark.seed,
        epoch: found.point.mark.epoch,
        epochs_done: found.epochs.len() as u64,
        damaged: found.damaged.clone(),
        differences,
    });
    // Predictions of seeds that have finished are computed again: they are functions of the model.
    for (n, (report, model)) in std::mem::take(&mut found.finished).into_iter().enumerate() {
        for (parameter, tensor) in model.tensors.iter().enumerate() {
            going.session.weights.set(parameter, &tensor.values)?;
        }
        if going.session.are_predictions_kept() {
            going.session.evaluate(observer)?;
        }
        let of = (Some(&model.tensors[..]), &model.metadata);
        going.write_seed(n, report.seed, of, &found.epochs_of(report.seed))?;
        going.recorder.finished.push(report);
    }
    let mark = &found.point.mark;
    let trained =
        Trained { epochs: found.epochs_of(mark.seed), best: found.point.best(), ..Trained::default() };
    let position = Position { weights: Some(Earlier::Point(found.point.clone())), trained, until: None };
    let earlier = |epoch: &&EpochReport| epoch.seed != mark.seed;
    let epoch_seconds = found.epochs.iter().filter(earlier).map(|epoch| epoch.seconds).collect();
    let first = going.recorder.finished.len();
    going.recorder.saver = Some(found.saver(beginning)?);
    going.go(first, Some(position), epoch_seconds, observer)
}

/// Returns whether there is a run that has finished: `false` for one that was stopped, or whose
/// summary cannot be read.
#[must_use]
pub fn is_finished(run: &Path) -> bool {
    run_folder::is_run(run) && run_folder::Run::open(run).is_ok_and(|run| !run.summary.stopped)
}

/// The summary of a run that has finished, whose checkpoints, if a kill left them, are removed.
/// `None` for one that can go on: it was killed, or stopped.
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
            let found = format!("it was stopped, and {} is not there", checkpoint::folder(run).display());
            Err(Error::NoCheckpoint { run: run.to_owned(), found })
        }
        opened => Ok(opened.map(|opened| opened.summary).filter(|summary| !summary.stopped)),
    }
}
