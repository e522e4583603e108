//! Training of a sweep's trials on this machine, in parallel. A trial is one training with its own
//! settings and seed, and has its own run folder.
//!
//! The folder of a trial appears only when the trial is complete ([`eciton_runs::run_folder`]), and
//! a trial with a folder is not trained again. Therefore a killed sweep continues when it is
//! started again. A trial that was in progress is resumed from its newest checkpoint, if it has
//! one.
//!
//! A rung of successive halving trains its trials up to some epoch, after which they pause. The
//! folder of a paused trial has results and checkpoints. Resuming a trial does not change its
//! results.

mod functions;
mod halving;
mod jobs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use eciton_recipe::Config;
use eciton_runs::provenance;
use eciton_runs::report::{Silent, Summary};
use eciton_runs::run_folder;

use crate::checkpoint;
use crate::dataset_cache::Published;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::resume::{is_finished, resume, resume_on};
use crate::stop::{Ask, Stop};
use crate::train::train_on;

pub use eciton_runs::sweep::{Group, Outcome, Row, csv, groups, picture, unranked};
pub use functions::{Functions, Spent, evaluate_on_function, predict_on_function};
#[cfg(feature = "compiler")]
pub(crate) use functions::{budget, class};
pub use halving::{Halved, Training, choices, halve};
pub use jobs::{Jobs, Missing};

/// Returns the path of the run folder of trial `number`. `sweep` is the folder of the sweep.
#[must_use]
pub fn trial_folder(sweep: &Path, number: usize) -> PathBuf {
    sweep.join("trials").join(format!("{number:05}"))
}

/// A selection of a sweep's trials, which are trained together.
#[derive(Debug, Clone, Copy)]
pub struct Lot<'a> {
    /// Configurations of all trials of the sweep, by trial number.
    pub configs: &'a [Config],
    /// Numbers of the selected trials.
    pub numbers: &'a [usize],
    /// Epoch after which the trials pause. If `None`, they are trained to their last epoch.
    pub pause_after: Option<u32>,
}

/// Trains the selected trials, `workers` of them in parallel. If `workers` is above 1, each trial
/// uses a single thread. `told` is called with the number and the outcome of each trial when it
/// ends.
///
/// # Errors
/// Returns [`Error::Threads`] if no thread can be started. The failure of a trial is not an error,
/// but is passed to `told` as its outcome.
pub fn sweep(
    lot: Lot<'_>,
    folder: &Path,
    workers: u32,
    stop: &Arc<Stop>,
    told: &mut dyn FnMut(usize, Outcome),
) -> Result<()> {
    let (next, published) = (AtomicUsize::new(0), Published::default());
    let (send, receive) = mpsc::channel();
    let work = |send: mpsc::Sender<(usize, Outcome)>| {
        loop {
            let Some(&at) = lot.numbers.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let Some(config) = lot.configs.get(at) else { return };
            let mut config = config.clone();
            if workers > 1 {
                config.run.threads = Some(1);
            }
            let outcome = match stop.is_asked() {
                true => Outcome::Left,
                false => trial(&config, trial_folder(folder, at), lot.pause_after, (stop, &published)),
            };
            if send.send((at, outcome)).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..workers.max(1) {
            let (work, send) = (&work, send.clone());
            std::thread::Builder::new()
                .name(format!("trial-{number}"))
                .spawn_scoped(scope, move || work(send))
                // After a failure to start a thread, trials in progress stop with a checkpoint.
                .inspect_err(|_| stop.ask(Ask::Leave))
                .map_err(Error::Threads)?;
        }
        drop(send);
        receive.iter().for_each(|(at, outcome)| told(at, outcome));
        Ok(())
    })
}

fn trial(
    config: &Config,
    folder: PathBuf,
    pause_after: Option<u32>,
    (stop, published): (&Arc<Stop>, &Published),
) -> Outcome {
    match reached((config, &folder), pause_after, published) {
        Ok(Some(summary)) => return Outcome::Found(summary),
        Ok(None) => {}
        Err(error) => return Outcome::Failed(eciton_input::text::causes(&error)),
    }
    let out = Some(folder.clone());
    let options = Options { out, stop: stop.clone(), pause_after, ..Options::default() };
    let summary =
        published.dataset(&config.data).and_then(|dataset| match checkpoint::is_resumable(&folder) {
            true => resume_on(dataset, &folder, false, &options, &mut Silent),
            false => train_on(dataset, config, &options, &mut Silent),
        });
    match summary {
        Ok(summary) if summary.stopped && !is_paused(&summary, pause_after) => {
            // Without checkpoints, a stopped trial leaves results of too few epochs, which are
            // removed.
            let _ = std::fs::remove_dir_all(&folder);
            Outcome::Left
        }
        Ok(summary) => Outcome::Trained(Box::new(summary)),
        Err(Error::Left { .. } | Error::Stopped) => Outcome::Left,
        Err(error) => Outcome::Failed(eciton_input::text::causes(&error)),
    }
}

/// Returns the summary of a trial that needs no further training, because it has finished or is
/// paused after the epoch `pause_after`. Returns `None` for other trials.
///
/// # Errors
/// Returns [`Error::OtherTrial`] if the folder has a run or checkpoints with other settings, or a
/// finished run on other data. The data of a run that is resumed is checked when it resumes.
fn reached(
    (config, folder): (&Config, &Path),
    pause_after: Option<u32>,
    published: &Published,
) -> Result<Option<Box<Summary>>> {
    let is_resumable = checkpoint::is_resumable(folder);
    if is_resumable {
        let (recipe, then) = checkpoint::settings(folder)?;
        check(config, folder, (&recipe, &then))?;
    }
    let is_run = run_folder::is_run(folder);
    if is_finished(folder) {
        let summary = resume(folder, false, &Options::default(), &mut Silent)?;
        check_finished(config, folder, &summary, published)?;
        return Ok(Some(Box::new(summary)));
    }
    if pause_after.is_none() || !is_resumable || !is_run {
        return Ok(None);
    }
    let summary = run_folder::Run::open(folder)?.summary;
    if !is_paused(&summary, pause_after) {
        return Ok(None);
    }
    check_finished(config, folder, &summary, published)?;
    Ok(Some(Box::new(summary)))
}

/// Returns true if the run in `folder` is unfinished, has checkpoints, and has the settings
/// `config`. A function can then continue the run.
///
/// # Errors
/// Returns an error if the records of the checkpoints are damaged.
pub fn can_continue(config: &Config, folder: &Path) -> Result<bool> {
    if run_folder::is_run(folder) || !checkpoint::is_resumable(folder) {
        return Ok(false);
    }
    let (recipe, _) = checkpoint::settings(folder)?;
    Ok(recipe == provenance::recipe_digest(config)?)
}

/// Checks that the run in `folder` has the settings of the trial. `recipe` is the digest of the
/// run's settings, and `then` its configuration. Runs of Eciton 0.1.0 have an empty digest and are
/// accepted.
fn check(config: &Config, folder: &Path, (recipe, then): (&str, &Config)) -> Result<()> {
    if recipe.is_empty() || recipe == provenance::recipe_digest(config)? {
        return Ok(());
    }
    let mut differences = provenance::other_settings(then, config)?;
    differences.truncate(MAX_DIFFERENCES);
    if differences.is_empty() {
        differences.push("its settings differ".to_owned());
    }
    Err(Error::OtherTrial { folder: folder.to_owned(), differences })
}

/// Checks that the finished run in `folder` has the settings and the data of the trial.
fn check_finished(config: &Config, folder: &Path, summary: &Summary, published: &Published) -> Result<()> {
    let Some(then) = &summary.provenance else { return Ok(()) };
    let recorded = Config::parse(&run_folder::recipe(folder)?, &folder.display().to_string())?;
    check(config, folder, (&then.recipe, &recorded))?;
    let differences = then.data.differences(&published.digest(config)?, |_| true);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::OtherTrial { folder: folder.to_owned(), differences }),
    }
}

/// Maximum number of differing settings in an error message.
const MAX_DIFFERENCES: usize = 6;

/// Returns true if a stopped run has reached the epoch `pause_after`.
fn is_paused(summary: &Summary, pause_after: Option<u32>) -> bool {
    let done = summary.seeds.last().map_or(0, |seed| seed.epochs);
    pause_after.is_some_and(|epoch| done >= epoch)
}
