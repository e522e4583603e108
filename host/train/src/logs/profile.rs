//! Task profiles, which are measured during a run: the time per row of each stage, and the overhead
//! per step.
//!
//! The time of a stage is the total duration of its steps. The first epoch is left out if there are
//! others, because its caches are cold. The overhead per step is the time that the driver spends
//! outside of steps and without waiting, divided by the number of steps. The numbers of bytes are
//! computed from the program.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eciton_program::profile::{FunctionPace, HostPace, stage_names};
use eciton_program::{Profile, Program};
use eciton_types::{Round, Step};

use crate::error::{Error, Result};

/// Total time and total count, from which a mean time is computed.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    seconds: f64,
    count: f64,
}

impl Sum {
    fn add(&mut self, seconds: f64, count: f64) {
        self.seconds += seconds;
        self.count += count;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }
}

/// Sums over the first epoch, and sums over all later epochs.
type Sums = [Sum; 2];

fn mean(sums: Sums) -> Option<f64> {
    let [first, later] = sums;
    later.mean().or(first.mean())
}

/// A task profile that is being measured. It is written to its file at the end of the run.
#[derive(Debug)]
pub(crate) struct Profiler {
    file: File,
    path: PathBuf,
    first: Option<Round>,
    /// Seconds per row of each stage on this machine. `there` has those in functions.
    here: Vec<Sums>,
    there: Vec<Sums>,
    /// Seconds that the driver spends on steps, and the number of steps.
    driver: Sums,
    /// Time at which the clock of the driver was started. `None` while the driver waits.
    since: Option<Instant>,
    /// Seconds of weight updates, and the number of weight values that they changed.
    update: Sums,
    /// End of the last update. `None` before the first one, and after an evaluation.
    updated: Option<Instant>,
    /// Rows that the first stage has read since the last update.
    rows: f64,
    /// Seconds from one update to the next, and rows of these rounds.
    rounds: Sum,
    /// Seconds of additions to gradient sums, and the number of values that were added.
    added: Sums,
}

/// Properties of the run that a task profile contains in addition to measured times.
#[derive(Debug)]
pub(crate) struct Profiled<'a> {
    pub program: &'a Program,
    /// Description of the measured run.
    pub source: String,
    /// Share of the feature values that are stored. It is below 1 for sparse features only.
    pub stored: f64,
    /// Number of rows. `edges` is the number of edges that gathers follow.
    pub rows: u64,
    pub edges: u64,
}

impl Profiler {
    /// Creates the file of the profile, and starts a measurement without any times.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file =
            eciton_input::file::create(path).map_err(|source| Error::Record { path: path.into(), source })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            first: None,
            here: Vec::new(),
            there: Vec::new(),
            driver: Sums::default(),
            since: None,
            update: Sums::default(),
            updated: None,
            rows: 0.0,
            rounds: Sum::default(),
            added: Sums::default(),
        })
    }

    /// Returns the index into [`Sums`] for an epoch, which is 0 for the first epoch of the run and
    /// 1 for later ones.
    fn part(&mut self, epoch: Round) -> usize {
        usize::from(*self.first.get_or_insert(epoch) != epoch)
    }

    /// Adds the duration `took` of a training step to the sums of its stage. `is_here` is true if
    /// the step ran on this machine, and false if it ran in a function.
    pub(crate) fn step(&mut self, step: Step, took: Duration, rows: usize, is_here: bool) {
        let (part, stage) = (self.part(step.round), step.stage.index());
        let sums = if is_here { &mut self.here } else { &mut self.there };
        sums.resize(sums.len().max(stage + 1), Sums::default());
        sums[stage][part].add(took.as_secs_f64(), rows as f64);
        self.driver[part].count += 1.0;
        self.rows += if stage == 0 { rows as f64 } else { 0.0 };
    }

    /// Starts the clock of the driver when it begins to process steps.
    pub(crate) fn resume(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Stops the clock of the driver while it waits or does other work than steps.
    pub(crate) fn pause(&mut self, epoch: Round) {
        if let Some(since) = self.since.take() {
            let part = self.part(epoch);
            self.driver[part].seconds += since.elapsed().as_secs_f64();
        }
    }

    /// Adds the duration `took` of a weight update that changed `values` weight values.
    pub(crate) fn update(&mut self, epoch: Round, took: Duration, values: u64) {
        let part = self.part(epoch);
        self.update[part].add(took.as_secs_f64(), values as f64);
        let (now, rows) = (Instant::now(), std::mem::take(&mut self.rows));
        if let Some(before) = self.updated.replace(now) {
            self.rounds.add((now - before).as_secs_f64(), rows);
        }
    }

    /// Leaves out the time until the next update, because the model is evaluated.
    pub(crate) fn evaluates(&mut self) {
        self.updated = None;
    }

    /// Adds the duration `took` in which `values` gradient values were added to sums. The clock
    /// of the driver leaves this time out.
    pub(crate) fn added(&mut self, epoch: Round, took: Duration, values: u64) {
        let part = self.part(epoch);
        self.added[part].add(took.as_secs_f64(), values as f64);
        self.driver[part].seconds -= took.as_secs_f64();
    }

    fn profile(&self, of: &Profiled<'_>) -> Result<Profile> {
        let built_in = Profile::default();
        let mut stages = built_in.stages(of.program, of.stored)?;
        let (rows, edges) = (of.rows as f64, of.edges as f64);
        // Mean seconds per operation over the whole run, for programs with other stages.
        let (mut flops, mut values, mut there) = (Sum::default(), Sum::default(), Sum::default());
        for stage in &mut stages {
            let of = |sums: &[Sums]| sums.get(stage.stage.index()).copied().and_then(mean);
            (stage.host_seconds_per_row, stage.function_seconds_per_row) = (of(&self.here), of(&self.there));
            if let Some(seconds) = stage.host_seconds_per_row {
                match stage.gather_width {
                    0 => flops.add(seconds * rows, stage.flops_per_row * rows),
                    width => values.add(seconds * rows, f64::from(width) * (edges + rows)),
                }
            }
            if let Some(seconds) = stage.function_seconds_per_row {
                // The time of stages that follow edges does not depend on floating-point
                // operations.
                if stage.gather_width == 0 {
                    there.add(seconds, stage.flops_per_row);
                }
            }
        }
        let HostPace { seconds_per_flop, seconds_per_edge_value, seconds_per_byte, .. } = built_in.host;
        let host = HostPace {
            seconds_per_flop: flops.mean().unwrap_or(seconds_per_flop),
            seconds_per_edge_value: values.mean().unwrap_or(seconds_per_edge_value),
            seconds_per_byte,
            seconds_per_value_added: mean(self.added).unwrap_or(built_in.host.seconds_per_value_added),
            seconds_per_value_updated: mean(self.update).unwrap_or(0.0),
            seconds_per_step: mean(self.driver).unwrap_or(built_in.host.seconds_per_step),
        };
        let seconds_per_flop = there.mean().unwrap_or(built_in.function.seconds_per_flop);
        let function = FunctionPace { seconds_per_flop, ..built_in.function };
        let (source, program) = (of.source.clone(), stage_names(of.program));
        let seconds_per_row = self.rounds.mean();
        let profile = Profile { source, host, function, seconds_per_row, program, stages, ..built_in };
        profile.check()?;
        Ok(profile)
    }

    /// Computes the profile from the measured times, and writes it to its file.
    pub(super) fn finish(&mut self, of: &Profiled<'_>) -> Result<()> {
        let profile = self.profile(of)?;
        let failed = |source: std::io::Error| Error::Record { path: self.path.clone(), source };
        let text = serde_json::to_string_pretty(&profile).map_err(|e| failed(e.into()))?;
        let mut file = &self.file;
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)
    }
}

/// Reads a task profile from a file.
///
/// # Errors
/// Returns [`Error::Record`] if the file cannot be read, and [`Error::Plan`] if it is not a
/// profile.
pub fn read_profile(path: &Path) -> Result<Profile> {
    let failed = |source| Error::Record { path: path.to_owned(), source };
    let limit = u64::try_from(eciton_program::profile::MAX_PROFILE_BYTES).unwrap_or(u64::MAX);
    let refuse = |reason: String| {
        Error::from(eciton_recipe::Error::Content {
            what: "a task profile",
            reason: format!("{}: {reason}", path.display()),
        })
    };
    let text = eciton_input::file::read(path, limit).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => refuse(error.to_string()),
        _ => failed(error),
    })?;
    let profile: Profile = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    profile.check()?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_epoch_counts_only_where_it_is_the_only_one() {
        let mut sums = Sums::default();
        assert_eq!(mean(sums), None);
        sums[0].add(9.0, 3.0);
        assert_eq!(mean(sums), Some(3.0));
        sums[1].add(1.0, 4.0);
        sums[1].add(3.0, 4.0);
        assert_eq!(mean(sums), Some(0.5));
    }
}
