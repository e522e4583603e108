//! Workers that this process starts, and the lines that they print.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStderr, ExitStatus};
use std::thread::JoinHandle;

use eciton_input::text::clean;

use crate::Completion;
use crate::local::Inbox;

/// Maximum number of bytes of a line; the rest of a longer one is another line.
const LINE_BYTES: u64 = 1 << 10;

/// A worker that this process has started.
pub(super) struct Started {
    process: Child,
    /// Thread that reads the worker's standard error, and returns the last line.
    lines: Option<JoinHandle<String>>,
}

impl Started {
    /// Takes the worker with an index over. A thread passes its lines on as warnings of this run: the run may
    /// succeed without the worker, so the worker's error is not the run's.
    pub(super) fn new(place: u32, mut process: Child, inbox: Inbox) -> Self {
        let read = |stderr| {
            let name = "eciton-lines".to_owned();
            std::thread::Builder::new().name(name).spawn(move || pass_on(place, stderr, &inbox)).ok()
        };
        let lines = process.stderr.take().and_then(read);
        Self { process, lines }
    }

    /// Returns the status of the process and its last line, once the process has ended.
    pub(super) fn ended(&mut self) -> Option<(ExitStatus, String)> {
        let status = self.process.try_wait().ok().flatten()?;
        let last = self.lines.take().and_then(|lines| lines.join().ok());
        Some((status, last.unwrap_or_default()))
    }

    /// Ends the process.
    pub(super) fn kill(&mut self) {
        // A process that has ended cannot be killed; neither result is of interest.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Passes on each line of a worker. Returns the last one.
fn pass_on(place: u32, stderr: ChildStderr, inbox: &Inbox) -> String {
    let (mut stderr, mut last) = (BufReader::new(stderr), String::new());
    loop {
        let mut bytes = Vec::new();
        match stderr.by_ref().take(LINE_BYTES).read_until(b'\n', &mut bytes) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return last,
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = clean(text.trim());
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        if text.is_empty() {
            continue;
        }
        let warning = format!("the worker at place {place} reports: {text}");
        inbox.note(Completion::Warned { place, text: warning });
        text.clone_into(&mut last);
    }
}
