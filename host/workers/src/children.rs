//! Worker processes that this process has started, and the lines that they print to standard error.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStderr, ExitStatus};
use std::thread::JoinHandle;

use eciton_exec::{Completion, Inbox};
use eciton_input::text::clean;
use eciton_types::Location;

/// Maximum length of a line of a worker's output, in bytes. A longer line is split.
const LINE_BYTES: u64 = 1 << 10;

/// A worker process that this process has started.
pub(super) struct Started {
    process: Child,
    /// Thread that reads the worker's standard error until it ends. It returns the last line.
    lines: Option<JoinHandle<String>>,
}

impl Started {
    /// Creates the record of the child process `process`, which is the worker at `at`. A thread
    /// reports each line of its standard error to `inbox` as a warning. It is only a warning
    /// because the run may succeed without this worker.
    pub(super) fn new(at: Location, mut process: Child, inbox: Inbox) -> Self {
        let read = |stderr| {
            let name = "eciton-lines".to_owned();
            std::thread::Builder::new().name(name).spawn(move || pass_on(at, stderr, &inbox)).ok()
        };
        let lines = process.stderr.take().and_then(read);
        Self { process, lines }
    }

    /// Returns the exit status of the process and its last line of standard error. Returns `None`
    /// while the process is running.
    pub(super) fn ended(&mut self) -> Option<(ExitStatus, String)> {
        let status = self.process.try_wait().ok().flatten()?;
        let last = self.lines.take().and_then(|lines| lines.join().ok());
        Some((status, last.unwrap_or_default()))
    }

    /// Kills the process, and waits until it has ended.
    pub(super) fn kill(&mut self) {
        // A process that has ended cannot be killed. Neither result matters.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Reports each line of the standard error of the worker at `at` as a warning. Returns the last
/// line once the output has ended.
fn pass_on(at: Location, stderr: ChildStderr, inbox: &Inbox) -> String {
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
        let warning = format!("{at} reports: {text}");
        inbox.note(Completion::Warned { at, text: warning });
        text.clone_into(&mut last);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use eciton_exec::Executor as _;
    use eciton_exec::{LocalPool, Settings};

    #[test]
    fn an_error_of_a_worker_is_a_warning_of_the_run() {
        let settings = Settings { threads: 1, fresh_instances: false, newest_first: false, lanes: 0 };
        let mut pool = LocalPool::new(settings).unwrap();
        let script = "echo 'error: nothing came' >&2; head -c 3000 /dev/zero | tr '\\0' x >&2; exit 3";
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let mut started = Started::new(Location::worker(7), child, pool.inbox());
        let (status, last) = loop {
            match started.ended() {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!((status.code(), last.len()), (Some(3), 3000 - 2 * LINE_BYTES as usize));
        let mut done = Vec::new();
        pool.drain(&mut done, Some(Duration::ZERO));
        let warnings: Vec<_> = done
            .iter()
            .map(|completion| match completion {
                Completion::Warned { at, text } if at.index() == 7 => &text[..],
                _ => "",
            })
            .collect();
        assert_eq!(warnings[0], "worker 7 reports: nothing came");
        assert_eq!(warnings.len(), 4);
        assert!(warnings.iter().all(|text| text.len() < 2 * LINE_BYTES as usize && !text.is_empty()));
    }
}
