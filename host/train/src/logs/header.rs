//! First line of an event log. It has the properties that two runs must have in common so that one
//! can replay the other.
//!
//! The line is `eciton-events 2 KEY=VALUE ...`, with the keys in the order of
//! [`Header::for_run`]. A replay takes settings that its configuration leaves out from this line
//! ([`Header::complete`]). Settings that the configuration contains must be equal.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use eciton_recipe::{Config, Mode, Pipeline, WeightVersions};

use crate::error::{Error, Result};

const BEGINNING: &str = "eciton-events 2";
/// Start of the event logs of earlier versions. They cannot be replayed, because some steps had
/// other names.
const EARLIER: &str = "eciton-events 1 ";
/// Maximum length in bytes of the first line.
const MAX_BYTES: u64 = 4096;

/// Properties that a run and its replays must have in common, as pairs of key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header(Vec<(String, String)>);

impl Header {
    /// Creates the header of a run whose intervals and steps in flight are known.
    pub(crate) fn for_run(
        config: &Config,
        (rows, edges, stages): (u64, u64, usize),
        intervals: u32,
        in_flight: u32,
        seeds: u32,
    ) -> Self {
        let pipeline = &config.pipeline;
        let name =
            |of: WeightVersions| WeightVersions::ALL.iter().find(|(_, v)| *v == of).map_or("", |(n, _)| n);
        let target = pipeline.synchronous_at.map_or_else(|| "none".to_owned(), |target| target.to_string());
        let pairs = [
            ("rows", rows.to_string()),
            ("edges", edges.to_string()),
            ("stages", stages.to_string()),
            ("seeds", seeds.to_string()),
            ("run.seed", config.run.seed.to_string()),
            ("run.epochs", config.run.epochs.to_string()),
            ("run.intervals", intervals.to_string()),
            ("pipeline.mode", pipeline.mode.name().to_owned()),
            ("pipeline.staleness", pipeline.staleness.to_string()),
            ("pipeline.weights", name(pipeline.weights()).to_owned()),
            ("pipeline.synchronous_last", pipeline.synchronous_last.to_string()),
            ("pipeline.synchronous_at", target),
            ("pipeline.in_flight", in_flight.to_string()),
        ];
        Self(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    fn parse(line: &str) -> Option<Self> {
        let pairs = line.strip_prefix(BEGINNING)?.split_whitespace();
        let pair = |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pairs.map(pair).collect::<Option<_>>().map(Self)
    }

    /// Reads the first line of an event log.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file =
            eciton_input::file::open(path).map_err(|source| Error::Record { path: path.into(), source })?;
        let mut line = String::new();
        let read = BufReader::new(file.take(MAX_BYTES)).read_line(&mut line);
        read.map_err(|source| Error::Record { path: path.into(), source })?;
        Self::parse(line.trim_end()).ok_or_else(|| {
            let reason = match line.starts_with(EARLIER) {
                true => "it was written by an earlier version of eciton with other event names; \
                         record the run again with this version"
                    .to_owned(),
                false => format!("it is not an event log: it does not begin with `{BEGINNING}` and settings"),
            };
            Error::Replay { path: path.into(), reason }
        })
    }

    /// Formats the properties as the first line of an event log.
    pub(super) fn line(&self) -> String {
        self.0.iter().fold(BEGINNING.to_owned(), |line, (key, value)| format!("{line} {key}={value}"))
    }

    /// Describes the differences between `self`, the properties of the recorded run, and `other`,
    /// those of the replay. Returns `None` if they are equal.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let of = |header: &Self, key: &str| header.get(key).unwrap_or("not set").to_owned();
        let more = other.0.iter().filter(|(key, _)| self.get(key).is_none());
        let keys = self.0.iter().chain(more).map(|(key, _)| key);
        let found: Vec<String> = keys
            .filter(|key| self.get(key) != other.get(key))
            .map(|key| format!("{key} is {} in the log, but {} in this run", of(self, key), of(other, key)))
            .collect();
        (!found.is_empty()).then(|| {
            format!("{}; replay the events with the same data, model and settings", found.join(", "))
        })
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key)?.parse().ok()
    }

    /// Copies the settings that affect the order of events to `config`, unless they are set. They
    /// are the number of intervals, the number of steps in flight, and the section `[pipeline]`,
    /// which is copied only as a whole.
    pub(super) fn complete(&self, config: &mut Config) {
        let named = |name: Option<&str>| {
            Mode::ALL.iter().find(|(known, _)| Some(*known) == name).map(|(_, mode)| *mode)
        };
        config.run.intervals = config.run.intervals.or(self.number("run.intervals"));
        let pipeline = &mut config.pipeline;
        let in_flight = pipeline.in_flight;
        if (Pipeline { in_flight: None, ..*pipeline }).is_default() {
            let weights = self.get("pipeline.weights");
            pipeline.mode = named(self.get("pipeline.mode")).unwrap_or_default();
            pipeline.staleness = self.number("pipeline.staleness").unwrap_or_default();
            pipeline.weights = WeightVersions::ALL.iter().find(|(n, _)| Some(*n) == weights).map(|(_, v)| *v);
            pipeline.synchronous_last = self.number("pipeline.synchronous_last").unwrap_or_default();
            pipeline.synchronous_at = self.number("pipeline.synchronous_at");
        }
        if pipeline.mode == Mode::Async {
            pipeline.in_flight = in_flight.or(self.number("pipeline.in_flight"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn recorded() -> (Config, Header) {
        let mut config = Config::default();
        for setting in ["pipeline.mode=async", "pipeline.staleness=2", "pipeline.synchronous_at=0.75"] {
            config.set(setting).unwrap();
        }
        let header = Header::for_run(&config, (10, 20, 9), 8, 4, 1);
        (config, header)
    }

    #[test]
    fn a_header_is_read_back_and_completes_what_is_left_out() {
        let (recorded, header) = recorded();
        assert_eq!(Header::parse(&header.line()), Some(header.clone()));
        assert_eq!(Header::parse("eciton-events 9 rows=1"), None);
        let mut config = Config::default();
        header.complete(&mut config);
        assert_eq!((config.run.intervals, config.pipeline.in_flight), (Some(8), Some(4)));
        assert_eq!((config.pipeline.mode, config.pipeline.staleness), (Mode::Async, 2));
        assert_eq!(config.pipeline.weights, Some(WeightVersions::Stash));
        assert_eq!(config.pipeline.synchronous_at, Some(0.75));
        assert_eq!(header.difference(&Header::for_run(&config, (10, 20, 9), 8, 4, 1)), None);
        assert_eq!(config.run.epochs, recorded.run.epochs);
    }

    #[test]
    fn what_is_set_otherwise_stays_and_is_named() {
        let (_, header) = recorded();
        let mut config = Config::default();
        for setting in ["pipeline.mode=async", "pipeline.in_flight=7", "run.intervals=3", "run.epochs=9"] {
            config.set(setting).unwrap();
        }
        header.complete(&mut config);
        assert_eq!((config.run.intervals, config.pipeline.in_flight), (Some(3), Some(7)));
        let text = header.difference(&Header::for_run(&config, (10, 20, 9), 3, 7, 1)).unwrap();
        for part in [
            "run.epochs is 200 in the log, but 9 in this run",
            "run.intervals is 8 in the log, but 3 in this run",
            "pipeline.staleness is 2 in the log, but 0 in this run",
            "pipeline.synchronous_at is 0.75 in the log, but none in this run",
            "pipeline.in_flight is 4 in the log, but 7 in this run",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{text}");
        }
        assert!(!text.contains("rows") && !text.contains("pipeline.mode"), "{text}");
    }
}
