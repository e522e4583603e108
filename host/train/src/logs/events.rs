//! Event logs: the order of a run's events, which can be recorded and replayed.
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

/// Maximum size in bytes of an event log that can be replayed. The log is held in memory.
pub const MAX_EVENTS_BYTES: u64 = 256 << 20;

/// Event that an executor reported and that the engine has not processed yet.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub event: Event,
    /// Line that represents the event in an event log.
    line: String,
}

impl Arrived {
    /// Wraps an event with its log line. Returns `None` for events that are not from an executor,
    /// which logs do not contain.
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

/// Queue of the events of a training that is recorded or replayed. Events leave it in order of
/// arrival, or in the order of the replayed log.
#[derive(Debug)]
pub(crate) struct Events {
    written: Option<(BufWriter<File>, PathBuf)>,
    /// Log that is replayed, or `None` if the run is only recorded.
    repeated: Option<Repeated>,
    /// Events that have arrived and wait for their turn.
    early: Vec<Arrived>,
}

/// Event log that is replayed, with the position that the replay has reached.
#[derive(Debug, Default)]
struct Repeated {
    text: String,
    /// Byte offset at which the next line begins.
    at: usize,
    path: PathBuf,
}

impl Repeated {
    /// Returns the line of the next event, or `None` at the end of the log.
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
    /// Creates the log to record, opens the log to replay, or both. `header` has the properties
    /// that a run and its replays must share.
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

    /// Adds an event that has arrived to the queue.
    pub(crate) fn put(&mut self, arrived: Arrived) {
        self.early.push(arrived);
    }

    /// Removes and returns the next event in order, and records it. Returns `None` if that event
    /// has not arrived.
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

    /// Returns true if an event of the attempt `key` waits in the queue.
    pub(crate) fn holds(&self, key: &TaskKey) -> bool {
        self.early
            .iter()
            .any(|arrived| matches!(&arrived.event, Event::Completed { key: of, .. } if of == key))
    }

    /// Returns the error of a replay whose next event cannot arrive, because no task is in flight.
    pub(crate) fn stuck(&self) -> Error {
        let repeated = self.repeated.as_ref();
        let path = repeated.map(|repeated| repeated.path.clone()).unwrap_or_default();
        let wanted = repeated.and_then(Repeated::next).unwrap_or_default();
        Error::Replay {
            path,
            reason: format!(
                "the next event is `{}`, which this run does not come to: it was recorded with other settings",
                wanted
            ),
        }
    }

    /// Flushes the recorded log at the end of a run.
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
        return Err(refused(format!("it has {bytes} bytes, at most {MAX_EVENTS_BYTES} are read")));
    }
    let mut text = String::new();
    file.take(MAX_EVENTS_BYTES).read_to_string(&mut text).map_err(failed)?;
    let mut repeated = Repeated { text, at: 0, path: path.to_owned() };
    // Skips the header line.
    repeated.pass();
    Ok(repeated)
}

/// Formats an attempt as `ROUND STAGE INTERVAL ATTEMPT`, as log lines do.
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
        Header::of(&eciton_recipe::Config::default(), (10, 20, 9), intervals, 0, 1)
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
        assert!(refused.contains("run.intervals is 8 there and 7 here"), "{refused}");
        assert!(Arrived::new(Event::Started).is_none());
    }

    #[test]
    fn logs_that_are_too_long_or_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let refused = || Events::open(None, Some(&path), &header(8)).unwrap_err().to_string();
        std::fs::write(&path, "something else\n").unwrap();
        assert!(refused().contains("no log of events"), "{}", refused());
        std::fs::write(&path, "eciton-events 1 rows=10\ngathered 1 2 3\n").unwrap();
        assert!(refused().contains("an earlier version of eciton wrote it"), "{}", refused());
        std::fs::write(&path, format!("{}\n", header(8).line())).unwrap();
        Events::open(None, Some(&path), &header(8)).unwrap();
        // The file is sparse. Only its length matters here.
        File::options().append(true).open(&path).unwrap().set_len(MAX_EVENTS_BYTES + 1).unwrap();
        assert!(refused().contains("at most 268435456 are read"), "{}", refused());
    }
}
