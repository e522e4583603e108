//! Records that a run writes in addition to its results. They are an event log, a trace of its
//! steps, a task profile, and the ages of gathered rows.

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

/// Paths of the records that a run writes, and of the event log that it replays.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// File to which the event log is written. It records the order of the run's events.
    pub events: Option<PathBuf>,
    /// Event log to replay. The run processes its events in the order of the log, so that an
    /// asynchronous run repeats the same results.
    pub replay: Option<PathBuf>,
    /// File to which a trace of all steps is written. Perfetto and Chrome's `about:tracing` can
    /// open it.
    pub trace: Option<PathBuf>,
    /// Folder to which TensorBoard event files are written.
    pub tensorboard: Option<PathBuf>,
    /// File to which a task profile is written. It has the measured time of each stage
    /// ([`eciton_program::Profile`]).
    pub profile: Option<PathBuf>,
}

/// Returns the configuration of a run with these records. For a replay, the settings that affect
/// the order of events are copied from the log, unless they are set.
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

/// The records that a run writes while it trains, as selected by its [`Recording`].
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub events: Option<Events>,
    pub trace: Option<Trace>,
    pub profile: Option<Profiler>,
    /// Number of lines about workers and kernels that were shown to the user.
    pub printed: Printed,
    /// Number of rows of other intervals that asynchronous steps have read, indexed by the rows'
    /// age in epochs.
    ages: Vec<u64>,
}

impl Logs {
    /// Creates the files that `recording` selects, and opens the event log to replay.
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
    /// are the numbers of rows of all intervals.
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

    /// Returns the number of rows that steps have read, and their shares by age. Returns `None` if
    /// no step could read rows of an earlier round.
    pub(crate) fn rows_by_age(&self) -> Option<RowsByAge> {
        let all: u64 = self.ages.iter().sum();
        let share = |&rows: &u64| rows as f64 / all as f64;
        (all > 0).then(|| RowsByAge { rows: all, shares: self.ages.iter().map(share).collect() })
    }

    /// Writes the profile, and completes the event log and the trace. Called at the end of the run.
    pub(crate) fn finish(&mut self, profiled: &Profiled<'_>) -> Result<()> {
        self.profile.as_mut().map_or(Ok(()), |profile| profile.finish(profiled))?;
        self.events.as_mut().map_or(Ok(()), Events::finish)?;
        self.trace.as_mut().map_or(Ok(()), Trace::finish)
    }
}
