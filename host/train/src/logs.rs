//! Records of a run in addition to its results: ages of the rows that it read, order of its events,
//! trace of its steps, and task profile.

mod events;
mod header;
mod printed;
mod profile;
mod trace;

use std::path::PathBuf;

use eciton_engine::Engine;
use eciton_recipe::Config;
use eciton_runs::report::RowsByAge;
use eciton_types::Step;

pub use events::MAX_EVENTS_BYTES;
pub(crate) use events::{Arrived, Events};
pub(crate) use header::Header;
use printed::Printed;
pub use profile::read_profile;
pub(crate) use profile::{Profiled, Profiler};
pub use trace::MAX_SPANS;
pub(crate) use trace::{Span, Trace};

use crate::error::Result;

/// Files in which a run is recorded, and the event log that it replays.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// File to which the order of the run's events is written (event log).
    pub events: Option<PathBuf>,
    /// Event log to replay. The run processes its events in the order of the log, so that an
    /// asynchronous run computes the same bits again.
    pub replay: Option<PathBuf>,
    /// File to which a trace of all steps is written. Perfetto and Chrome's `about:tracing` can
    /// open it.
    pub trace: Option<PathBuf>,
    /// Folder to which TensorBoard event files are written.
    pub tensorboard: Option<PathBuf>,
    /// File to which a task profile is written: the measured time of each stage
    /// ([`eciton_program::Profile`]).
    pub profile: Option<PathBuf>,
}

/// Returns the configuration for a run with `recording`. For a replay, copies settings that affect
/// the order of events from the log if they are not set.
///
/// # Errors
/// Returns [`Error::Record`](crate::Error::Record) if the log cannot be read. Returns
/// [`Error::Replay`](crate::Error::Replay) if the file is not an event log.
pub(crate) fn completed(config: &Config, recording: &Recording) -> Result<Config> {
    let mut config = config.clone();
    if let Some(path) = &recording.replay {
        Header::read(path)?.complete(&mut config);
    }
    Ok(config)
}

/// Records that a run writes while it trains, as its [`Recording`] selects them.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub events: Option<Events>,
    pub trace: Option<Trace>,
    pub profile: Option<Profiler>,
    /// Counts of the lines that workers and kernels have printed.
    pub printed: Printed,
    /// Number of rows of other intervals that asynchronous steps have read, indexed by the age of
    /// the rows in epochs.
    ages: Vec<u64>,
}

impl Logs {
    /// Creates the files that `recording` selects, and opens the log to replay.
    pub(crate) fn new(recording: &Recording, header: &Header) -> Result<Self> {
        let events = match (&recording.events, &recording.replay) {
            (None, None) => None,
            (record, replay) => Some(Events::open(record.as_deref(), replay.as_deref(), header)?),
        };
        let trace = recording.trace.as_deref().map(Trace::create).transpose()?;
        let profile = recording.profile.as_deref().map(Profiler::create).transpose()?;
        Ok(Self { events, trace, profile, printed: Printed::default(), ages: Vec::new() })
    }

    /// Counts the rows that an asynchronous step reads from other intervals, by their age. `rows`
    /// has the number of rows of each interval.
    pub(crate) fn reads(&mut self, engine: &Engine, step: Step, rows: impl Iterator<Item = usize>) {
        let Some(ages) = engine.ages(step) else { return };
        for ((interval, &age), rows) in ages.iter().enumerate().zip(rows) {
            if interval != step.interval.index() {
                let age = usize::from(age);
                self.ages.resize(self.ages.len().max(age + 1), 0);
                self.ages[age] += rows as u64;
            }
        }
    }

    /// Returns the number of rows read and their shares by age. Returns `None` if no step could
    /// read rows of earlier rounds.
    pub(crate) fn rows_by_age(&self) -> Option<RowsByAge> {
        let all: u64 = self.ages.iter().sum();
        let share = |&rows: &u64| rows as f64 / all as f64;
        (all > 0).then(|| RowsByAge { rows: all, shares: self.ages.iter().map(share).collect() })
    }

    /// Completes the records at the end of a run: writes the profile, and flushes the event log and
    /// the trace.
    pub(crate) fn finish(&mut self, profiled: &Profiled<'_>) -> Result<()> {
        self.profile.as_mut().map_or(Ok(()), |profile| profile.finish(profiled))?;
        self.events.as_mut().map_or(Ok(()), Events::finish)?;
        self.trace.as_mut().map_or(Ok(()), Trace::finish)
    }
}
