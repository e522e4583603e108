//! What is recorded of a run beside its results: how old the rows were that it read, the order of its
//! events, and a trace of every step.

mod events;
mod header;
mod printed;
mod profile;
mod trace;

use std::path::PathBuf;

use eciton_engine::Engine;
use eciton_plan::{Config, Step, TaskKey};

pub use events::MAX_EVENTS_BYTES;
pub(crate) use events::{Arrived, Events};
pub(crate) use header::Header;
use printed::Printed;
pub(crate) use profile::{Profiled, Profiler};
pub use trace::MAX_SPANS;
pub(crate) use trace::{Span, Trace};

use crate::error::Result;
use crate::report::RowsByAge;

/// What to record, and what to repeat.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// A file for the order of the run's events.
    pub events: Option<PathBuf>,
    /// A file of such events: they are taken in its order, whatever comes first now, so that an
    /// asynchronous run gives the same bits again.
    pub replay: Option<PathBuf>,
    /// A file for a trace that Perfetto and Chrome's `about:tracing` open.
    pub trace: Option<PathBuf>,
    /// A folder for TensorBoard's event files.
    pub tensorboard: Option<PathBuf>,
    /// A file for a task profile: what each stage took ([`eciton_plan::Profile`]).
    pub profile: Option<PathBuf>,
}

/// A configuration that repeats what it is to repeat: what decides the order of events and is left out
/// is as the log has it.
///
/// # Errors
/// [`Error::Record`](crate::Error::Record) and [`Error::Replay`](crate::Error::Replay) for a file that is
/// no log of events.
pub(crate) fn completed(config: &Config, recording: &Recording) -> Result<Config> {
    let mut config = config.clone();
    if let Some(path) = &recording.replay {
        Header::read(path)?.complete(&mut config);
    }
    Ok(config)
}

/// A run's records.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub events: Option<Events>,
    pub trace: Option<Trace>,
    pub profile: Option<Profiler>,
    /// Lines of workers and kernels.
    pub printed: Printed,
    /// Rows of other intervals that asynchronous steps read, by how many epochs old they were.
    ages: Vec<u64>,
}

impl Logs {
    pub(crate) fn new(recording: &Recording, header: &Header) -> Result<Self> {
        let events = match (&recording.events, &recording.replay) {
            (None, None) => None,
            (record, replay) => Some(Events::open(record.as_deref(), replay.as_deref(), header)?),
        };
        let trace = recording.trace.as_deref().map(Trace::create).transpose()?;
        let profile = recording.profile.as_deref().map(Profiler::create).transpose()?;
        Ok(Self { events, trace, profile, printed: Printed::default(), ages: Vec::new() })
    }

    /// Counts what a step reads of all intervals, which have so many rows each.
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

    /// Rows read by age; `None` where no gather could read older ones.
    pub(crate) fn rows_by_age(&self) -> Option<RowsByAge> {
        let all: u64 = self.ages.iter().sum();
        let share = |&rows: &u64| rows as f64 / all as f64;
        (all > 0).then(|| RowsByAge { rows: all, shares: self.ages.iter().map(share).collect() })
    }

    /// Writes out what is buffered, and the profile.
    pub(crate) fn finish(&mut self, profiled: &Profiled<'_>) -> Result<()> {
        self.profile.as_mut().map_or(Ok(()), |profile| profile.finish(profiled))?;
        self.events.as_mut().map_or(Ok(()), Events::finish)?;
        self.trace.as_mut().map_or(Ok(()), Trace::finish)
    }
}

/// The step of an attempt, as records name it.
fn words(key: &TaskKey) -> String {
    format!("{} {} {} {}", key.round, key.stage, key.interval, key.attempt)
}
