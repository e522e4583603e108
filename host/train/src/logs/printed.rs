//! Limits on the lines that workers and kernels make a run print.
//!
//! Each worker and each kernel may cause a limited number of lines and bytes of output in a run.
//! Further lines are only counted, and their number is reported at the end of the run.

use std::collections::BTreeMap;

use eciton_runs::report::Observer;
use eciton_types::Location;

/// Maximum number of lines per source in a run.
const LINES: u64 = 1000;
/// Maximum number of bytes per source in a run.
const BYTES: u64 = 64 << 10;

/// A worker or kernel that causes output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The worker at this location.
    Worker(Location),
    /// The kernel with this name.
    Kernel(String),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Worker(at) => write!(f, "about {at}"),
            Self::Kernel(name) => write!(f, "of kernel {name}"),
        }
    }
}

/// Number of lines and bytes that one source has printed, and number of its lines that were
/// suppressed.
#[derive(Debug, Default)]
struct Count {
    lines: u64,
    bytes: u64,
    suppressed: u64,
}

/// Counts of printed and suppressed lines for each source.
#[derive(Debug, Default)]
pub(crate) struct Printed(BTreeMap<Source, Count>);

impl Printed {
    /// Passes a warning about a worker to the observer, unless the worker's limit is exceeded.
    pub(crate) fn warn(&mut self, observer: &mut dyn Observer, at: Location, text: &str) {
        if self.allows(Source::Worker(at), text) {
            observer.warning(text);
        }
    }

    /// Passes a line of a kernel's log to the observer, unless the kernel's limit is exceeded.
    pub(crate) fn log(&mut self, observer: &mut dyn Observer, kernel: &str, line: &str) {
        if self.allows(Source::Kernel(kernel.to_owned()), line) {
            observer.log(kernel, line);
        }
    }

    /// Reports the number of suppressed lines of each source to the observer, and resets all
    /// counts.
    pub(crate) fn finish(&mut self, observer: &mut dyn Observer) {
        for (source, count) in std::mem::take(&mut self.0) {
            if count.suppressed > 0 {
                observer.warning(&format!(
                    "{} further lines {source} are not shown: a run shows at most {LINES} lines and {BYTES} \
                     bytes of each kernel and of each worker",
                    count.suppressed
                ));
            }
        }
    }

    /// Counts a line of `source`. Returns true if it is within the limits of the source.
    fn allows(&mut self, source: Source, text: &str) -> bool {
        let count = self.0.entry(source).or_default();
        let bytes = count.bytes.saturating_add(text.len() as u64);
        // Once a line is suppressed, all later ones are, so that what is shown has no gaps.
        if count.suppressed > 0 || count.lines >= LINES || bytes > BYTES {
            count.suppressed += 1;
            return false;
        }
        count.lines += 1;
        count.bytes = bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Observer for Lines {
        fn warning(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }

        fn log(&mut self, kernel: &str, line: &str) {
            self.0.push(format!("{kernel}: {line}"));
        }
    }

    #[test]
    fn each_source_prints_a_bounded_number_of_lines_and_bytes() {
        let (mut printed, mut lines) = (Printed::default(), Lines::default());
        for line in 0..2 * LINES {
            printed.log(&mut lines, "linear", &format!("line {line}"));
        }
        assert_eq!(lines.0.len() as u64, LINES);
        assert_eq!(lines.0.last().map(String::as_str), Some("linear: line 999"));
        // Other sources have limits of their own.
        let long = "x".repeat(500);
        for _ in 0..300 {
            printed.warn(&mut lines, Location::worker(1), &long);
            printed.log(&mut lines, "gat", &long);
        }
        let fits = BYTES / 500;
        assert_eq!(lines.0.len() as u64, LINES + 2 * fits);
        // A short line after a suppressed one is suppressed as well.
        printed.warn(&mut lines, Location::worker(1), "short");
        printed.warn(&mut lines, Location::worker(2), "short");
        assert_eq!(lines.0.len() as u64, LINES + 2 * fits + 1);
        lines.0.clear();
        printed.finish(&mut lines);
        let numbers = [301 - fits, 300 - fits, LINES];
        let sources = ["about worker 1", "of kernel gat", "of kernel linear"];
        assert_eq!(lines.0.len(), 3, "{:?}", lines.0);
        for (line, (number, source)) in lines.0.iter().zip(numbers.iter().zip(sources)) {
            assert!(line.starts_with(&format!("{number} further lines {source} are not shown")), "{line}");
        }
        lines.0.clear();
        printed.finish(&mut lines);
        assert!(lines.0.is_empty(), "{:?}", lines.0);
    }
}
