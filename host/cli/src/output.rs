//! Standard output for the results of commands. Lines that follow the last write within 100 ms are
//! buffered. After the reader has closed standard output, later lines are discarded.
//!
//! A terminal receives each line at once. Other outputs receive buffered lines together with the
//! first line after the 100 ms, or at the end. As a result, 200 epochs of half a millisecond need
//! only a few system calls, and slow epochs are shown as they end. Writes do not return errors.
//! [`Output::closed`] reports that an earlier write failed, and [`Output::finish`] returns the
//! error.

use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use eciton_input::text::{clean, message};
use serde::Serialize;

use crate::failure::Failure;

/// Maximum time since the last write for which further lines are buffered. After it, the next line
/// is written out at once.
const DELAY: Duration = Duration::from_millis(100);
/// Size of the output buffer, in bytes.
const CAPACITY: usize = 64 << 10;

/// Prints a line on standard error. The line is cut to a maximum length, and terminal control
/// characters are removed.
///
/// Errors of the write are ignored.
pub(crate) fn tell(text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr().lock(), "{}", message(text.trim_end()));
}

/// Prints the notes and warnings that were recorded while a data set was read. Facts, the lowest
/// level, are printed only by `eciton data stat`.
pub(crate) fn tell_notes() {
    for note in eciton_input::notes::take() {
        if note.level > eciton_input::notes::Level::Fact {
            tell(note);
        }
    }
}

/// Buffered standard output, to which a command writes its results.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    terminal: bool,
    written: Option<Instant>,
    fault: Option<io::Error>,
}

impl Output {
    /// Returns the process's standard output.
    pub(crate) fn standard() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Self::new(Box::new(stdout), terminal)
    }

    fn new(writer: Box<dyn Write>, terminal: bool) -> Self {
        let writer = BufWriter::with_capacity(CAPACITY, writer);
        Self { writer, terminal, written: None, fault: None }
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a line, from which terminal control characters are removed.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.write(|writer| writeln!(writer, "{}", clean(&text.to_string())));
    }

    /// Writes a text of any number of lines, from which terminal control characters are removed.
    pub(crate) fn text(&mut self, text: &str) {
        let clean: Vec<String> = text.split('\n').map(|line| clean(line).to_string()).collect();
        self.write(|writer| writer.write_all(clean.join("\n").as_bytes()));
    }

    /// Writes bytes unchanged, for instance a shell script. The bytes must come from this program,
    /// because control characters are not removed.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.write(|writer| writer.write_all(bytes));
    }

    /// Writes a value as one line of JSON, for the option `--json`.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        self.write(|writer| {
            serde_json::to_writer(&mut *writer, value)?;
            writer.write_all(b"\n")
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<Box<dyn Write>>) -> io::Result<()>) {
        if self.fault.is_some() {
            return;
        }
        match write(&mut self.writer) {
            Ok(()) if self.terminal || self.written.is_none_or(|at| at.elapsed() >= DELAY) => self.flush(),
            Ok(()) => {}
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// Writes all buffered text to standard output.
    pub(crate) fn flush(&mut self) {
        if self.fault.is_none() {
            self.fault = self.writer.flush().err();
            self.written = Some(Instant::now());
        }
    }

    /// Returns true if an earlier write failed, for instance because the reader closed standard
    /// output.
    pub(crate) fn closed(&self) -> bool {
        self.fault.is_some()
    }

    /// Writes all buffered text to standard output. Returns an error if this or any earlier write
    /// failed.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match self.fault {
            None => Ok(()),
            Some(fault) if fault.kind() == ErrorKind::BrokenPipe => Err(Failure::OutputClosed),
            Some(fault) => Err(Failure::Failed(format!("standard output: cannot be written: {fault}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Writer that stores each write. It fails after the given number of writes.
    #[derive(Clone, Default)]
    struct Pieces(Rc<RefCell<Vec<String>>>, Option<usize>);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut pieces = self.0.borrow_mut();
            if self.1 == Some(pieces.len()) {
                return Err(ErrorKind::BrokenPipe.into());
            }
            pieces.push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_line_comes_at_once_and_quick_ones_together() {
        let pieces = Pieces::default();
        let mut output = Output::new(Box::new(pieces.clone()), false);
        output.line("one");
        assert_eq!(*pieces.0.borrow(), ["one\n"]);
        for _ in 0..200 {
            output.json(&1.5);
        }
        assert!(pieces.0.borrow().len() < 100, "{}", pieces.0.borrow().len());
        assert!(output.finish().is_ok());
        assert_eq!(pieces.0.borrow().concat(), format!("one\n{}", "1.5\n".repeat(200)));
    }

    #[test]
    fn a_terminal_sees_every_line() {
        let pieces = Pieces::default();
        let mut output = Output::new(Box::new(pieces.clone()), true);
        output.line("one");
        output.line("two");
        assert_eq!(*pieces.0.borrow(), ["one\n", "two\n"]);
    }

    #[test]
    fn a_reader_that_leaves_is_noticed_and_nothing_more_is_written() {
        let pieces = Pieces(Rc::default(), Some(1));
        let mut output = Output::new(Box::new(pieces.clone()), true);
        output.line("one");
        assert!(!output.closed());
        output.line("two");
        assert!(output.closed());
        output.line("three");
        assert_eq!(pieces.0.borrow().len(), 1);
        assert!(matches!(output.finish(), Err(Failure::OutputClosed)));
    }
}
