//! Measurement of task profiles. A task profile has the time of each stage per call and per row,
//! measured with calls of several sizes.
//!
//! The time of a stage on r rows is modelled as a + b r seconds. Trainings with different numbers
//! of micro-batches per batch measure the mean time per row s = a (1 / r) + b for different r. This
//! is linear in 1 / r, so a and b are fitted by least squares, with neither below 0.
//!
//! Steps take longer in lanes (shares of a pipeline) than alone, because lanes share caches and
//! memory, and each step waits until its input rows have arrived. If the run has lanes, one more
//! training measures by how much ([`LanesPace`]). The time from one step to the next is the one with
//! which the planner predicts the measured time per row.

use std::io::Write as _;
use std::path::Path;

use eciton_program::{HostPace, LanesPace, Profile, StageProfile};
use eciton_recipe::{Cluster, Config, LaneSettings, Workers};
use eciton_runs::report::Observer;

use crate::error::{Error, Result};
use crate::logs::{Recording, read_profile};
use crate::options::Options;
use crate::plan::Planning;

/// Number of times that the interval of possible times between two steps is halved.
const HALVINGS: u32 = 8;

/// Measures the time of each stage per call and per row, and returns the fitted profile. The
/// function trains once for each number in `parts`, which is the number of micro-batches per batch,
/// or of intervals if there are no batches. The fitted profile is written to `path`.
///
/// # Errors
/// Returns the errors of [`crate::train`], and [`Error::Plan`] if `parts` has fewer than two
/// different numbers. If the run has lanes, they are measured as well ([`LanesPace`]).
pub fn profile(
    config: &Config,
    options: &Options,
    parts: &[u32],
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<Profile> {
    let mut sizes: Vec<u32> = parts.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        let reason = format!("found {parts:?}, expected at least two different numbers");
        return Err(Error::from(eciton_recipe::Error::Content {
            what: "a list of numbers of micro-batches to profile",
            reason,
        }));
    }
    let recording = Recording { profile: Some(path.to_owned()), ..Recording::default() };
    let options = Options { out: None, seeds: 1, recording, ..options.clone() };
    let mut measured: Vec<(f64, Profile)> = Vec::with_capacity(sizes.len());
    for &parts in &sizes {
        let mut config = alone(config);
        match config.batch.is_on() {
            true => config.batch.micro = parts,
            false => config.run.intervals = Some(parts),
        }
        let draft = match crate::plan::plan(&config, &options) {
            // If a batch cannot have this number of micro-batches, the number is skipped once two
            // measurements exist.
            Err(error @ Error::Parts { .. }) if measured.len() > 1 => {
                eciton_input::notes::add(format!("{parts} micro-batches were not measured: {error}"));
                continue;
            }
            draft => draft?,
        };
        crate::train(&config, &options, observer)?;
        let rows = f64::from(config.batch.rows.unwrap_or(draft.vertices).min(draft.vertices));
        let parts = f64::from(draft.intervals.max(1));
        measured.push((parts / rows.max(1.0), read_profile(path)?));
    }
    sizes.truncate(measured.len());
    let Some((_, last)) = measured.last() else { return Err(Error::Internal("no profile".to_owned())) };
    let mut fitted = last.clone();
    for (at, stage) in fitted.stages.iter_mut().enumerate() {
        let points = measured
            .iter()
            .filter_map(|(calls, profile)| Some((*calls, profile.stages.get(at)?.host_seconds_per_row?)));
        let points: Vec<(f64, f64)> = points.collect();
        if let Some((call, row)) = fit(&points) {
            (stage.host_seconds_per_call, stage.host_seconds_per_row) = (Some(call), Some(row));
        }
    }
    // An update is measured directly, and does not depend on the number of parts.
    fitted.host.seconds_per_value_updated = median(&measured, |host| host.seconds_per_value_updated);
    fitted.host.seconds_per_value_added = median(&measured, |host| host.seconds_per_value_added);
    fitted.source = format!("{}, with {sizes:?} micro-batches per batch", fitted.source);
    fitted.seconds_per_row = None;
    fitted.check()?;
    write(path, &fitted)?;
    if config.lanes.lanes.count > 0 {
        fitted.lanes = Some(lanes(config, &options, &fitted, path, observer)?);
        fitted.check()?;
        write(path, &fitted)?;
    }
    Ok(fitted)
}

/// Returns the configuration without lanes and workers. If there are lanes, stages are measured on
/// one thread.
fn alone(config: &Config) -> Config {
    let mut config = config.clone();
    if config.lanes.lanes.count == 0 {
        return config;
    }
    config.run.threads = Some(1);
    if config.executor.kind.has_workers() {
        config.executor.kind = Default::default(); // threads of this process
    }
    (config.lanes, config.workers) = (LaneSettings::default(), Workers::default());
    config.cluster = Cluster::default();
    config
}

/// Trains with the lanes of `config`, and compares them with the planner's prediction. `alone` is
/// the profile of the stages alone, which is also the content of the file `path`.
fn lanes(
    config: &Config,
    options: &Options,
    alone: &Profile,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<LanesPace> {
    let few = |what: &str| {
        let reason = format!("the training with lanes has no {what}: train for more epochs");
        Error::from(eciton_recipe::Error::Content { what: "a profile of lanes", reason })
    };
    let mut config = config.clone();
    config.lanes.profile = path.to_str().map(str::to_owned);
    let file = path.with_extension("lanes.partial");
    let recording = Recording { profile: Some(file.clone()), ..Recording::default() };
    let trained = crate::train(&config, &Options { recording, ..options.clone() }, observer);
    let measured = trained.and_then(|_| read_profile(&file));
    // Without a run there may be no file.
    let _ = std::fs::remove_file(&file);
    let measured = measured?;
    let seconds = measured.seconds_per_row.ok_or_else(|| few("two updates in a row"))?;
    let of_lanes = |stage: &StageProfile| stage.host_seconds_per_row.or(stage.function_seconds_per_row);
    let in_lanes: f64 = measured.stages.iter().filter_map(of_lanes).sum();
    let options = Options { recording: Recording::default(), ..options.clone() };
    crate::plan::with_planning(&config, &options, alone, |planning| {
        let calls = f64::from(planning.parts) / f64::from(planning.rows.max(1));
        let each = |stage: &StageProfile| {
            Some(stage.host_seconds_per_row? + calls * stage.host_seconds_per_call.unwrap_or(0.0))
        };
        let by_stage: f64 = alone.stages.iter().filter_map(each).sum();
        if !(in_lanes > 0.0 && by_stage > 0.0) {
            return Err(few("measured steps"));
        }
        let planned_seconds = |pace: LanesPace| -> Result<f64> {
            let profile = &Profile { lanes: Some(pace), ..alone.clone() };
            Ok(1.0 / Planning { profile, ..*planning }.own(&config)?.plan.rows_a_second)
        };
        // The planner itself counts that lanes share cores.
        let slowdown = in_lanes / by_stage * planning.share(&config);
        // The predicted time grows with the time of a step.
        let mut pace = LanesPace { slowdown, seconds_per_step: 0.0 };
        let (mut least, mut most) = (0.0, seconds / calls);
        if planned_seconds(pace)? < seconds {
            for _ in 0..HALVINGS {
                pace.seconds_per_step = f64::midpoint(least, most);
                match planned_seconds(pace)? < seconds {
                    true => least = pace.seconds_per_step,
                    false => most = pace.seconds_per_step,
                }
            }
        }
        Ok(pace)
    })
}

/// Returns the median of a value over several profiles.
fn median(measured: &[(f64, Profile)], value: impl Fn(&HostPace) -> f64) -> f64 {
    let mut all: Vec<f64> = measured.iter().map(|(_, profile)| value(&profile.host)).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// Fits s = a x + b to points (x, s) by least squares, with neither a nor b below 0. Returns (a,
/// b), or `None` if there are fewer than two different x.
fn fit(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    if points.len() < 2 {
        return None;
    }
    let (x, s) = points.iter().fold((0.0, 0.0), |(x, s), point| (x + point.0 / count, s + point.1 / count));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        (above + (point.0 - x) * (point.1 - s), below + (point.0 - x).powi(2))
    });
    if below <= 0.0 {
        return None;
    }
    let slope = above / below;
    if slope < 0.0 {
        return Some((0.0, s));
    }
    let row = s - slope * x;
    if row >= 0.0 {
        return Some((slope, row));
    }
    // The line goes through the origin, because b would be below 0.
    let (above, below) = points.iter().fold((0.0, 0.0), |(a, b), p| (a + p.0 * p.1, b + p.0 * p.0));
    Some((above / below, 0.0))
}

fn write(path: &Path, profile: &Profile) -> Result<()> {
    let failed = |source: std::io::Error| Error::Record { path: path.to_owned(), source };
    let text = serde_json::to_string_pretty(profile).map_err(|error| failed(error.into()))?;
    eciton_input::file::create(path).and_then(|mut file| writeln!(file, "{text}")).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_line_is_found_and_never_below_zero() {
        let line = |call: f64, row: f64| -> Vec<(f64, f64)> {
            [0.01, 0.02, 0.05, 0.5].into_iter().map(|x| (x, call * x + row)).collect()
        };
        let (call, row) = fit(&line(3e-5, 2e-7)).unwrap();
        assert!((call - 3e-5).abs() < 1e-12 && (row - 2e-7).abs() < 1e-12);
        // Here calls with fewer rows take less time per row, but a call cannot have a negative
        // cost.
        assert_eq!(fit(&[(0.1, 3.0), (0.2, 1.0)]), Some((0.0, 2.0)));
        assert_eq!(fit(&[(0.1, 0.0), (0.3, 4.0)]).map(|(_, row)| row), Some(0.0));
        assert_eq!((fit(&[(0.1, 1.0)]), fit(&[(0.1, 1.0), (0.1, 2.0)])), (None, None));
    }
}
