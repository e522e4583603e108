//! Trials for `pipeline.staleness = "auto"`. Short trainings select the fastest setting of the
//! pipeline whose loss is close to that of synchronous training. One trial is synchronous, and the
//! others are asynchronous with staleness bounds 0 and 1.
//!
//! Each trial trains the first epochs of the run's first seed. The first epoch is not timed,
//! because kernels warm up in it and it is synchronous in every mode. A loss is close if it exceeds
//! the synchronous loss by at most [`SLACK`] of the decrease in the synchronous trial. The result
//! depends on measured times, so two machines may select different settings. The selected settings
//! are in the run folder's `config.toml`, which repeats the run.

use eciton_graph::dataset::Dataset;
use eciton_recipe::{Config, Mode, Pipeline};
use eciton_runs::report::{PipelineTrial, Silent, StalenessTrial};

use crate::driver::Trained;
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::logs::Recording;
use crate::options::Options;
use crate::session::{Position, Session};
use crate::training_checks::check_training;

/// Range of the number of epochs per trial. Within this range, a trial has a twentieth of the run's
/// epochs.
const EPOCHS: std::ops::RangeInclusive<u32> = 4..=10;
/// Maximum amount by which the loss of a trial may exceed the synchronous loss. It is a share of
/// the decrease of the synchronous loss.
const SLACK: f64 = 0.05;
/// Minimum share of the synchronous epoch time that an asynchronous setting must save to be
/// selected.
const GAIN: f64 = 0.02;
/// Number by which the run's epochs are divided to get the number of synchronous epochs at the end
/// of an asynchronous run.
const LAST: u32 = 10;

/// Runs the trials for `pipeline.staleness = "auto"`. Returns the configuration with the selected
/// settings, and the results of the trials. Any other configuration is returned unchanged.
/// `dataset` is the training data. If it is `None`, the data set of the configuration is read.
///
/// # Errors
/// Returns the errors of [`train`](crate::train()) before and in its first epochs. Returns
/// [`Error::Stopped`] if [`Options::stop`] is requested during a trial.
pub fn settle_pipeline(
    config: &Config,
    options: &Options,
    dataset: Option<&Dataset>,
) -> Result<(Config, Option<PipelineTrial>)> {
    if !config.pipeline.auto {
        return Ok((config.clone(), None));
    }
    config.check()?;
    let base = Pipeline { auto: false, ..config.pipeline };
    let synchronous = Pipeline {
        mode: if base.mode == Mode::Async { Mode::Pipe } else { base.mode },
        synchronous_last: 0,
        synchronous_at: None,
        in_flight: None,
        ..base
    };
    let stale = |staleness| Pipeline { mode: Mode::Async, staleness, synchronous_last: 0, ..base };
    let epochs = (config.run.epochs / 20).clamp(*EPOCHS.start(), *EPOCHS.end()).min(config.run.epochs);
    let mut found: Vec<(Pipeline, StalenessTrial)> = Vec::new();
    let mut reference = None;
    for pipeline in [synchronous, stale(0), stale(1)] {
        let ran = try_one(config, options, dataset, (pipeline, epochs))?;
        let (first, best) = *reference.get_or_insert((ran.first, ran.loss));
        let kept_up = ran.loss - best <= SLACK * (first - best).max(0.0);
        let Pipeline { mode, staleness, .. } = pipeline;
        found.push((
            pipeline,
            StalenessTrial { mode, staleness, epoch_seconds: ran.seconds, loss: ran.loss, kept_up },
        ));
    }
    let Some(&(_, first)) = found.first() else { return Err(Error::Internal("no trial".to_owned())) };
    let quicker =
        |tried: &StalenessTrial| tried.kept_up && tried.epoch_seconds <= first.epoch_seconds * (1.0 - GAIN);
    let stale = found.iter().skip(1).filter(|(_, tried)| quicker(tried));
    let best = stale.min_by(|a, b| a.1.epoch_seconds.total_cmp(&b.1.epoch_seconds));
    let (mut pipeline, chosen) = *best.or(found.first()).unwrap_or(&(synchronous, first));
    if pipeline.mode == Mode::Async {
        let own = base.synchronous_last > 0 || base.synchronous_at.is_some();
        pipeline.synchronous_last =
            if own { base.synchronous_last } else { config.run.epochs.div_ceil(LAST) };
    }
    let why = why(&chosen, &first);
    let tried = found.into_iter().map(|(_, tried)| tried).collect();
    let trial = PipelineTrial { epochs, tried, chosen, synchronous_last: pipeline.synchronous_last, why };
    Ok((Config { pipeline, ..config.clone() }, Some(trial)))
}

fn why(chosen: &StalenessTrial, synchronous: &StalenessTrial) -> String {
    match chosen.mode {
        Mode::Async => {
            let saved =
                100.0 * (1.0 - chosen.epoch_seconds / synchronous.epoch_seconds.max(f64::MIN_POSITIVE));
            format!(
                "an epoch with staleness {} takes {saved:.0} % less time than a synchronous epoch, at a \
                 similar loss",
                chosen.staleness
            )
        }
        _ => "synchronous: no staleness with a similar loss saves 2 % of the time of an epoch".to_owned(),
    }
}

struct Ran {
    /// Loss of the first epoch. The next field has that of the last epoch.
    first: f64,
    loss: f64,
    /// Mean duration in seconds of all epochs after the first one.
    seconds: f64,
}

fn try_one(
    asked: &Config,
    options: &Options,
    dataset: Option<&Dataset>,
    (pipeline, epochs): (Pipeline, u32),
) -> Result<Ran> {
    let mut config = Config { pipeline, ..asked.clone() };
    (config.run.eval_every, config.run.patience, config.run.until) = (0.into(), None, None);
    config.run.keep = eciton_recipe::Keep::Last;
    config.pipeline.synchronous_at = None;
    let options =
        Options { out: None, seeds: 1, recording: Recording::default(), budget: None, ..options.clone() };
    let mut session = Session::new(&config, &options, dataset.cloned(), Asked::Nothing)?;
    // The run's own settings are checked, so that unsuitable ones are refused before the first
    // epoch of a trial.
    check_training(asked, &session)?;
    session.check_settings()?;
    let from = Position { weights: None, trained: Trained::default(), until: Some(epochs) };
    let trained = session.train(&config, config.run.seed, Some(from), &mut Silent, None)?;
    if options.stop.is_asked() {
        return Err(Error::Stopped);
    }
    let (Some(first), Some(last)) = (trained.epochs.first(), trained.epochs.last()) else {
        return Err(Error::Stopped);
    };
    let timed =
        || trained.epochs.iter().skip(usize::from(trained.epochs.len() > 1)).map(|epoch| epoch.seconds);
    let seconds = timed().sum::<f64>() / timed().count().max(1) as f64;
    Ok(Ran { first: first.loss, loss: last.loss, seconds })
}
