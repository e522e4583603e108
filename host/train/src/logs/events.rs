//! Event logs, which record the order of a run's events so that the run can be repeated.
//!
//! The results of an asynchronous run depend only on its configuration and on the order in which
//! steps end. The log is a text file. The first line has the properties of the run. Each further
//! line is an event, in the order in which the engine processed them: `completed ROUND STAGE
//! INTERVAL ATTEMPT`, `failed ...` or `overdue ...`. Events of evaluations are not recorded,
//! because their order does not affect results.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use eciton_engine::Event;
use eciton_types::TaskKey;

use super::header::Header;
use crate::error::{Error, Result};

/// Maximum size in bytes of an event log that can be replayed. The whole log is read into memory.
pub const MAX_EVENTS_BYTES: u64 = 256 << 20;

/// An event that an executor has reported and the engine has not processed yet.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub event: Event,
    /// Line of the event log that represents the event.
    line: String,
}

impl Arrived {
    /// Creates the entry of an event. Returns `None` for an event that does not come from an
    /// executor, because event logs do not contain it.
    pub(crate) fn new(event: Event) -> Option<Self> {
        let key = |what: &str, key: TaskKey| format!("{what} {}", words(&key));
        let line = match event {
            Event::Completed { key: of, .. } => key("completed", of),
            Event::Failed { key: of, .. } => key("failed", of),
            Event::Overdue(of) => key("overdue", of),
            _ => return None,
        };
        Some(Self { event, line })
    }
}

/// Queue of a training's events, for recording or replaying them. They leave the queue in the order
/// of their arrival, or in that of the replayed log.
#[derive(Debug)]
pub(crate) struct Events {
    written: Option<(BufWriter<File>, PathBuf)>,
    /// Event log that is replayed. `None` if events are only recorded.
    repeated: Option<Repeated>,
    /// Events in the queue, in the order of their arrival.
    early: Vec<Arrived>,
}

/// An event log that is replayed, and the position of the replay in it.
#[derive(Debug, Default)]
struct Repeated {
    text: String,
    /// Byte offset of the next line.
    at: usize,
    path: PathBuf,
}

impl Repeated {
    /// Returns the line of the next event. Returns `None` at the end of the log.
    fn next(&self) -> Option<&str> {
        self.text.get(self.at..)?.lines().next()
    }

    /// Advances to the next line.
    fn pass(&mut self) {
        let line = self.text.get(self.at..).and_then(|rest| rest.find('\n'));
        self.at = line.map_or(self.text.len(), |line| self.at + line + 1);
    }
}

impl Events {
    /// Creates the event log `record`, opens the event log `replay`, or both. `header` has the
    /// properties that a run and its replays must have in common.
    pub(super) fn open(record: Option<&Path>, replay: Option<&Path>, header: &Header) -> Result<Self> {
        let head = header.line();
        let repeated = replay.map(|path| read(path, header)).transpose()?;
        let written = match record {
            None => None,
            Some(path) => {
                let file = eciton_input::file::create(path)
                    .map_err(|source| Error::Record { path: path.into(), source })?;
                let mut file = BufWriter::with_capacity(1 << 16, file);
                writeln!(file, "{head}").map_err(|source| Error::Record { path: path.into(), source })?;
                Some((file, path.to_owned()))
            }
        };
        Ok(Self { written, repeated, early: Vec::new() })
    }

    /// Adds an event to the queue.
    pub(crate) fn put(&mut self, arrived: Arrived) {
        self.early.push(arrived);
    }

    /// Removes the next event from the queue, records it, and returns it. Returns `None` if the
    /// event that must come next has not arrived yet.
    pub(crate) fn next(&mut self) -> Result<Option<Event>> {
        let at = match self.repeated.as_ref().and_then(Repeated::next) {
            Some(line) => self.early.iter().position(|arrived| arrived.line == line),
            None => (!self.early.is_empty()).then_some(0),
        };
        let Some(at) = at else { return Ok(None) };
        let Arrived { event, line } = self.early.remove(at);
        if let Some(repeated) = &mut self.repeated {
            repeated.pass();
        }
        if let Some((file, path)) = &mut self.written {
            writeln!(file, "{line}").map_err(|source| Error::Record { path: path.clone(), source })?;
        }
        Ok(Some(event))
    }

    /// Returns true if the completion of the attempt `key` is in the queue.
    pub(crate) fn holds(&self, key: &TaskKey) -> bool {
        self.early
            .iter()
            .any(|arrived| matches!(&arrived.event, Event::Completed { key: of, .. } if of == key))
    }

    /// Returns the error for a replay that cannot continue, because the next event of the log
    /// cannot arrive.
    pub(crate) fn stuck(&self) -> Error {
        let repeated = self.repeated.as_ref();
        let path = repeated.map(|repeated| repeated.path.clone()).unwrap_or_default();
        let wanted = repeated.and_then(Repeated::next).unwrap_or_default();
        Error::Replay {
            path,
            reason: format!(
                "the next event is `{}`, which does not occur in this run; replay with the recorded settings",
                wanted
            ),
        }
    }

    /// Flushes the event log that is recorded. Called at the end of the run.
    pub(super) fn finish(&mut self) -> Result<()> {
        match &mut self.written {
            Some((file, path)) => file.flush().map_err(|source| Error::Record { path: path.clone(), source }),
            None => Ok(()),
        }
    }
}

fn read(path: &Path, header: &Header) -> Result<Repeated> {
    let failed = |source| Error::Record { path: path.into(), source };
    let refused = |reason: String| Error::Replay { path: path.into(), reason };
    let found = Header::read(path)?;
    if let Some(difference) = found.difference(header) {
        return Err(refused(difference));
    }
    let file = eciton_input::file::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes > MAX_EVENTS_BYTES {
        return Err(refused(format!("it has {bytes} bytes, but the maximum is {MAX_EVENTS_BYTES}")));
    }
    let mut text = String::new();
    file.take(MAX_EVENTS_BYTES).read_to_string(&mut text).map_err(failed)?;
    let mut repeated = Repeated { text, at: 0, path: path.to_owned() };
    // Skips the header line.
    repeated.pass();
    Ok(repeated)
}

/// Formats an attempt as in a line of the event log: `ROUND STAGE INTERVAL ATTEMPT`.
fn words(key: &TaskKey) -> String {
    format!("{} {} {} {}", key.round, key.stage, key.interval, key.attempt)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use eciton_types::{Attempt, IntervalId, Round, StageId};

    fn completed(interval: u32) -> Event {
        let (round, stage, interval) = (Round(1), StageId(2), IntervalId(interval));
        Event::Completed { key: TaskKey { round, stage, interval, attempt: Attempt(0) }, took_us: 1 }
    }

    fn taken(events: &mut Events, order: &[u32]) -> Vec<Event> {
        let mut taken = Vec::new();
        for &interval in order {
            events.put(Arrived::new(completed(interval)).unwrap());
            while let Some(event) = events.next().unwrap() {
                taken.push(event);
            }
        }
        taken
    }

    fn header(intervals: u32) -> Header {
        Header::for_run(&eciton_recipe::Config::default(), (10, 20, 9), intervals, 0, 1)
    }

    #[test]
    fn events_are_taken_in_the_recorded_order_whatever_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut first = Events::open(Some(&path), None, &header(8)).unwrap();
        let before = taken(&mut first, &[3, 0, 2, 1]);
        assert_eq!(before, [3, 0, 2, 1].map(completed));
        first.finish().unwrap();
        let mut second = Events::open(None, Some(&path), &header(8)).unwrap();
        assert_eq!(taken(&mut second, &[0, 1, 2, 3]), before);
        // Events after the end of the log are processed in order of arrival.
        assert_eq!(taken(&mut second, &[9]), [completed(9)]);
        let mut third = Events::open(None, Some(&path), &header(8)).unwrap();
        assert!(taken(&mut third, &[7]).is_empty());
        assert!(third.stuck().to_string().contains("`completed 1 2 3 0`"));
        let refused = Events::open(None, Some(&path), &header(7)).unwrap_err().to_string();
        assert!(refused.contains("run.intervals is 8 in the log, but 7 in this run"), "{refused}");
        assert!(Arrived::new(Event::Started).is_none());
    }

    #[test]
    fn logs_that_are_too_long_or_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let refused = || Events::open(None, Some(&path), &header(8)).unwrap_err().to_string();
        std::fs::write(&path, "something else\n").unwrap();
        assert!(refused().contains("it is not an event log"), "{}", refused());
        std::fs::write(&path, "eciton-events 1 rows=10\ngathered 1 2 3\n").unwrap();
        assert!(refused().contains("it was written by an earlier version of eciton"), "{}", refused());
        std::fs::write(&path, format!("{}\n", header(8).line())).unwrap();
        Events::open(None, Some(&path), &header(8)).unwrap();
        // The file is sparse. Only its length matters here.
        File::options().append(true).open(&path).unwrap().set_len(MAX_EVENTS_BYTES + 1).unwrap();
        assert!(refused().contains("the maximum is 268435456"), "{}", refused());
    }
}
