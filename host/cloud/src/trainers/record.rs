//! Append-only record of the costs of calls, which a process reads after a restart.
//!
//! Each line is a JSON object. A process writes a line `start`, a line `call` before each call, and
//! a line `end` after it. Each `end` contains the bill of that process so far. The bill of all
//! processes is the sum over their last `end` lines. A `call` without an `end` was in flight when
//! its process was killed, and is charged.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bill::Bill;
use crate::error::{Error, Result};
use crate::invoker::Charge;

/// Maximum size of a record, in bytes. Larger files are rejected.
const MAX_BYTES: u64 = 1 << 30;

/// A line of the record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    /// A process starts to make calls.
    Start {
        /// Name of the function. The name and the prices are only for human readers.
        function: String,
        prices: String,
    },
    /// A call is about to be sent.
    Call { call: usize },
    /// A call has ended.
    End {
        call: usize,
        /// `answered`, or the reason why the call failed.
        outcome: String,
        /// Time charged in milliseconds, or `None` if it was not reported.
        billed_ms: Option<u64>,
        /// Duration of the cold start in milliseconds, or `None` if there was no cold start.
        init_ms: Option<f64>,
        /// Time that the handler of the function took, in milliseconds.
        #[serde(default)]
        duration_ms: Option<f64>,
        /// Maximum memory that the function used, in MiB.
        #[serde(default)]
        used_mb: Option<u32>,
        /// Real time from the request to the reply in seconds, without the transfer of other
        /// objects. `None` for emulated functions and failed calls.
        #[serde(default)]
        reply_s: Option<f64>,
        /// Cost of the call's time and request, in US dollars.
        usd: Option<f64>,
        /// Time since the process started to make calls, in virtual or real seconds.
        at: f64,
        /// Usage of the process so far.
        bill: Box<Bill>,
        /// Total cost of the process so far in US dollars, including estimates of unreported costs.
        total_usd: f64,
    },
}

/// Total usage of earlier processes according to the record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Before {
    /// Sum of the bills of earlier processes. Calls that were in flight when a process was killed
    /// count as unreported.
    pub bill: Bill,
    /// Cost of earlier processes in US dollars, including estimates of unreported costs.
    pub usd: f64,
    /// Total duration for which earlier processes made calls, in seconds.
    pub seconds: f64,
    /// Cost of the most expensive call in US dollars, or `None` if no cost was reported.
    pub dearest_usd: Option<f64>,
}

/// A record file that is open for appending.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: File,
}

impl Record {
    /// Opens or creates the record at `path`, and returns the usage that it contains. `longest_usd`
    /// is the maximum cost of a call, assumed for calls without a report.
    ///
    /// Returns an [`Error`] if the file cannot be read or written. If a line is not valid, the
    /// error names its number.
    pub(super) fn open(path: &Path, longest_usd: f64) -> Result<(Self, Before)> {
        let (before, whole) = match path.exists() {
            true => {
                let text =
                    eciton_input::file::read_text(path, MAX_BYTES).map_err(Error::file(path, "read"))?;
                (sum(path, &text, longest_usd)?, text.rfind('\n').map_or(0, |at| at as u64 + 1))
            }
            false => (Before::default(), 0),
        };
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            // A process that was killed may leave an incomplete line.
            file.set_len(whole)?;
            Ok(file)
        };
        let file = open().map_err(Error::file(path, "written"))?;
        Ok((Self { path: path.to_owned(), file }, before))
    }

    /// Appends a line that this process starts to make calls.
    pub(super) fn start(&mut self, function: &str, prices: &str) -> Result<()> {
        self.write(&Line::Start { function: function.to_owned(), prices: prices.to_owned() })
    }

    /// Appends a line that the call with index `call` is about to be sent.
    pub(super) fn call(&mut self, call: usize) -> Result<()> {
        self.write(&Line::Call { call })
    }

    /// Appends a line with the end of a call. The outcome is truncated to 200 characters.
    pub(super) fn end(&mut self, ended: Ended<'_>) -> Result<()> {
        let Ended { call, outcome, charge, reply_s, usd, at, bill, total_usd } = ended;
        let outcome = outcome.chars().take(200).collect();
        self.write(&Line::End {
            call,
            outcome,
            billed_ms: charge.map(|charge| charge.billed_ms),
            init_ms: charge.and_then(|charge| charge.init_ms),
            duration_ms: charge.map(|charge| charge.duration_ms),
            used_mb: charge.map(|charge| charge.used_mb),
            reply_s,
            usd,
            at,
            bill: Box::new(*bill),
            total_usd,
        })
    }

    /// Appends a line in a single write, so that a killed process leaves at most one incomplete
    /// line.
    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).map_err(|e| Error::Choice(e.to_string()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::file(&self.path, "written"))
    }
}

/// The end of a call, as [`Record::end`] records it.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub call: usize,
    pub outcome: &'a str,
    /// Charge that the service reported, or `None` if there was no report.
    pub charge: Option<Charge>,
    pub reply_s: Option<f64>,
    pub usd: Option<f64>,
    pub at: f64,
    pub bill: &'a Bill,
    pub total_usd: f64,
}

/// Returns the total usage in the text of a record. Calls without an end cost as much as the most
/// expensive call, or `longest_usd` if none was reported.
fn sum(path: &Path, text: &str, longest_usd: f64) -> Result<Before> {
    let mut before = Before::default();
    // Last bill, dollars and seconds of the process whose lines are read, and its calls in flight.
    let mut own = (Bill::default(), 0.0, 0.0);
    let mut flying = 0u64;
    let mut left = 0u64;
    let lines = text.split_inclusive('\n').enumerate();
    for (number, line) in lines {
        let Some(whole) = line.strip_suffix('\n') else { break };
        let line = serde_json::from_str::<Line>(whole).map_err(|error| Error::Content {
            path: path.to_owned(),
            reason: format!(
                "line {}: {error}; the file records the cost of this sweep or run: restore it, or delete it to count \
                 from 0",
                number + 1
            ),
        })?;
        match line {
            Line::Start { .. } => {
                before.add(&std::mem::take(&mut own));
                left += std::mem::take(&mut flying);
            }
            Line::Call { .. } => flying += 1,
            Line::End { usd, at, bill, total_usd, .. } => {
                flying = flying.saturating_sub(1);
                own = (*bill, total_usd, at);
                if let Some(usd) = usd {
                    before.dearest_usd = Some(before.dearest_usd.map_or(usd, |dearest| dearest.max(usd)));
                }
            }
        }
    }
    before.add(&own);
    left += flying;
    before.bill.invocations += left;
    before.bill.unreported += left;
    before.usd += left as f64 * before.dearest_usd.unwrap_or(longest_usd);
    Ok(before)
}

impl Before {
    fn add(&mut self, (bill, usd, seconds): &(Bill, f64, f64)) {
        self.bill = self.bill.and(bill);
        self.usd += usd;
        self.seconds += seconds;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bill(invocations: u64, billed_ms: u64) -> Bill {
        Bill { invocations, billed_ms, ..Bill::default() }
    }

    fn ended(call: usize, usd: Option<f64>, bill: &Bill, total_usd: f64, at: f64) -> Ended<'_> {
        let charge = Some(Charge { billed_ms: 10, ..Charge::default() });
        Ended { call, outcome: "answered", charge, reply_s: None, usd, at, bill, total_usd }
    }

    #[test]
    fn processes_and_calls_in_flight_at_a_kill_add_up() {
        let folder = crate::scratch::Scratch::new().unwrap();
        let path = folder.path("own").unwrap().join("spent.jsonl");
        for process in 0..2 {
            let (mut record, before) = Record::open(&path, 0.5).unwrap();
            assert_eq!(before.bill.invocations, 3 * process, "two ended and one was in flight");
            record.start("f", "2026-11, us-east-1").unwrap();
            for call in 0..3 {
                record.call(call).unwrap();
            }
            record.end(ended(0, Some(0.01), &bill(1, 10), 0.01, 1.0)).unwrap();
            record.end(ended(2, Some(0.03), &bill(2, 40), 0.04, 2.5)).unwrap();
        }
        let (_, before) = Record::open(&path, 0.5).unwrap();
        assert_eq!((before.bill.invocations, before.bill.unreported, before.bill.billed_ms), (6, 2, 80));
        assert!((before.usd - (0.08 + 2.0 * 0.03)).abs() < 1e-12, "each in flight costs as the dearest");
        assert_eq!((before.seconds, before.dearest_usd), (5.0, Some(0.03)));
    }

    #[test]
    fn a_call_in_flight_before_any_end_costs_the_longest() {
        let folder = crate::scratch::Scratch::new().unwrap();
        let path = folder.path("own").unwrap().join("spent.jsonl");
        let (mut record, _) = Record::open(&path, 0.5).unwrap();
        record.call(0).unwrap();
        // A process was killed in the middle of a line.
        record.file.write_all(b"{\"event\":\"end\",\"ca").unwrap();
        let (mut record, before) = Record::open(&path, 0.5).unwrap();
        assert_eq!(before.usd, 0.5);
        record.call(1).unwrap();
        assert_eq!(Record::open(&path, 0.5).unwrap().1.usd, 1.0, "half of a line is gone");
    }

    #[test]
    fn a_damaged_record_is_refused_with_its_line() {
        let folder = crate::scratch::Scratch::new().unwrap();
        let path = folder.path("own").unwrap().join("spent.jsonl");
        std::fs::write(&path, "{\"event\":\"call\",\"call\":0}\nnonsense\n").unwrap();
        let said = Record::open(&path, 0.5).unwrap_err().to_string();
        assert!(
            said.contains("spent.jsonl") && said.contains("line 2") && said.contains("delete it"),
            "{said}"
        );
    }
}
