//! What is recorded of a run beside its results: how old the rows were that it read, the order of its
//! events, and a trace of every step.

mod events;
mod trace;

use std::path::PathBuf;

use eciton_engine::Engine;
use eciton_plan::{Step, TaskKey};

pub use events::MAX_EVENTS_BYTES;
pub(crate) use events::{Arrived, Events};
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
}

/// A run's records.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    pub events: Option<Events>,
    pub trace: Option<Trace>,
    /// Rows of other intervals that asynchronous gathers read, by how many epochs old they were.
    ages: Vec<u64>,
}

impl Logs {
    pub(crate) fn new(recording: &Recording, shape: &str) -> Result<Self> {
        let events = match (&recording.events, &recording.replay) {
            (None, None) => None,
            (record, replay) => Some(Events::open(record.as_deref(), replay.as_deref(), shape)?),
        };
        let trace = recording.trace.as_deref().map(Trace::create).transpose()?;
        Ok(Self { events, trace, ages: Vec::new() })
    }

    /// Counts what a gather of `step` reads of intervals of so many rows each.
    pub(crate) fn gather(&mut self, engine: &Engine, step: Step, rows: impl Iterator<Item = usize>) {
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

    /// Writes out what is buffered.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.events.as_mut().map_or(Ok(()), Events::finish)?;
        self.trace.as_mut().map_or(Ok(()), Trace::finish)
    }
}

/// The step of an attempt, as records name it.
fn words(key: &TaskKey) -> String {
    format!("{} {} {} {}", key.epoch, key.stage, key.interval, key.attempt)
}
