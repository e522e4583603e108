//! Trace of all steps of a run, in the JSON array format of Chrome's trace events, which Perfetto
//! reads.
//!
//! In the trace, process 1 has a row for each compute thread, and one for steps that ran elsewhere.
//! Process 2 has a row for each interval, which is a contiguous range of rows that is scheduled as
//! one unit. In this row, a step begins when it is submitted. Between steps, the row shows the
//! condition that the interval waits for.
//!
//! The arguments of a step are its epoch, its stage, its interval, and the bytes that it read and
//! wrote. They also contain the version of the weights, and the age of the oldest gathered rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eciton_exec::Timing;
use eciton_program::Program;
use eciton_runs::report::{Chosen, Helpers};
use eciton_types::Step;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Maximum number of events that are written. Further events are only counted.
pub const MAX_SPANS: u64 = 2_000_000;

/// A completed step, which is a span in the trace.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    pub program: &'a Program,
    pub step: Step,
    pub timing: Timing,
    /// Number of bytes that the step read, and number of bytes that it wrote.
    pub bytes: (u64, u64),
    /// True if the step belongs to an evaluation, and false if it belongs to the training.
    pub evaluation: bool,
}

/// Properties of a step that are recorded when it is submitted.
#[derive(Debug)]
struct Asked {
    at: Instant,
    version: Option<u64>,
    oldest: Option<u8>,
}

/// A trace that is being written to its file.
#[derive(Debug)]
pub(crate) struct Trace {
    file: BufWriter<File>,
    path: PathBuf,
    begun: Instant,
    asked: BTreeMap<Step, Asked>,
    /// The waiting intervals, each with the time since when it waits and the reason.
    waiting: BTreeMap<u32, (Instant, String)>,
    written: u64,
    left_out: u64,
    finished: bool,
}

impl Trace {
    /// Creates the trace file and writes its start.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file =
            eciton_input::file::create(path).map_err(|source| Error::Record { path: path.into(), source })?;
        let mut trace = Self {
            file: BufWriter::with_capacity(1 << 18, file),
            path: path.to_owned(),
            begun: Instant::now(),
            asked: BTreeMap::new(),
            waiting: BTreeMap::new(),
            written: 0,
            left_out: 0,
            finished: false,
        };
        trace.raw("[\n")?;
        for (process, name) in [(1, "threads"), (2, "intervals")] {
            let named = json!({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}});
            trace.event(&named)?;
        }
        Ok(trace)
    }

    fn raw(&mut self, text: &str) -> Result<()> {
        let path = &self.path;
        self.file.write_all(text.as_bytes()).map_err(|source| Error::Record { path: path.clone(), source })
    }

    fn event(&mut self, event: &Value) -> Result<()> {
        if self.written >= MAX_SPANS {
            self.left_out += 1;
            return Ok(());
        }
        if self.written > 0 {
            self.raw(",\n")?;
        }
        self.written += 1;
        self.raw(&event.to_string())
    }

    fn micros(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.begun).as_secs_f64() * 1e6
    }

    /// Records that `step` is submitted with this version of the weights and these ages of rows.
    /// This ends the wait of its interval.
    pub(crate) fn asked(&mut self, step: Step, version: Option<u64>, ages: Option<&[u8]>) -> Result<()> {
        let at = Instant::now();
        if let Some((since, reason)) = self.waiting.remove(&step.interval.0) {
            let ts = self.micros(since);
            let wait = json!({
                "name": format!("waits for {reason}"), "cat": "wait", "ph": "X", "pid": 2,
                "tid": step.interval.0, "ts": ts, "dur": self.micros(at) - ts,
            });
            self.event(&wait)?;
        }
        let oldest = ages.and_then(|ages| ages.iter().max().copied());
        self.asked.insert(step, Asked { at, version, oldest });
        Ok(())
    }

    /// Records that an interval waits because of `reason`, while none of its steps is in flight.
    pub(crate) fn waits(&mut self, interval: u32, reason: String) {
        self.waiting.entry(interval).or_insert_with(|| (Instant::now(), reason));
    }

    /// Writes a completed step to the trace.
    pub(crate) fn ended(&mut self, span: &Span<'_>) -> Result<()> {
        let Span { program, step, timing, bytes, evaluation } = *span;
        let known = program.stage(step.stage);
        // The stage that samples micro-batches is not in the program.
        let name = known.map_or_else(|| "sample".to_owned(), |stage| stage.name.clone());
        let asked = self.asked.remove(&step);
        let mut arguments = json!({
            "epoch": step.round.0, "stage": step.stage.0, "interval": step.interval.0,
            "bytes_read": bytes.0, "bytes_written": bytes.1,
        });
        if let (Some(asked), Some(map)) = (&asked, arguments.as_object_mut()) {
            map.extend(asked.version.map(|version| ("weights".to_owned(), version.into())));
            map.extend(asked.oldest.map(|age| ("oldest_rows_epochs".to_owned(), age.into())));
        }
        let category = if evaluation { "evaluation" } else { "step" };
        let (ts, dur) = (self.micros(timing.begun), timing.took.as_secs_f64() * 1e6);
        let thread = timing.thread.map_or(1000, |thread| thread);
        let on_thread = json!({
            "name": name, "cat": category, "ph": "X", "pid": 1, "tid": thread, "ts": ts, "dur": dur,
            "args": arguments,
        });
        self.event(&on_thread)?;
        if let Some(asked) = asked {
            let from = self.micros(asked.at);
            let of_interval = json!({
                "name": name, "cat": category, "ph": "X", "pid": 2, "tid": step.interval.0, "ts": from,
                "dur": (ts + dur - from).max(0.0), "args": arguments,
            });
            self.event(&of_interval)?;
        }
        Ok(())
    }

    /// Writes an event that concerns the whole run, for instance a weight update, to the trace.
    pub(crate) fn whole(&mut self, name: &str, begun: Instant, took: Duration) -> Result<()> {
        let event = json!({
            "name": name, "cat": "update", "ph": "X", "pid": 1, "tid": 0, "ts": self.micros(begun),
            "dur": took.as_secs_f64() * 1e6,
        });
        self.event(&event)
    }

    /// Writes a decision of the autotuner about the number of helpers to the trace.
    pub(crate) fn chosen(&mut self, chosen: &Chosen) -> Result<()> {
        let Chosen { what, from, to, why, .. } = chosen;
        let what = match what {
            Helpers::Functions => "functions",
            Helpers::Threads => "further threads",
        };
        let ts = self.micros(Instant::now());
        self.event(&json!({
            "name": format!("{what} {from} -> {to}: {why}"), "cat": "autotuner", "ph": "i", "s": "g",
            "pid": 1, "tid": 0, "ts": ts,
        }))?;
        self.event(&json!({"name": what, "ph": "C", "pid": 1, "ts": ts, "args": {"at once": to}}))
    }

    /// Writes the end of the trace and flushes its file. Further calls only flush.
    pub(super) fn finish(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.finished, true) {
            if self.left_out > 0 {
                let note = json!({
                    "name": format!("{} further events are left out", self.left_out), "ph": "i", "s": "g",
                    "pid": 1, "tid": 0, "ts": self.micros(Instant::now()),
                });
                self.raw(&format!(",\n{note}"))?;
            }
            self.raw("\n]\n")?;
        }
        let path = &self.path;
        self.file.flush().map_err(|source| Error::Record { path: path.clone(), source })
    }
}
