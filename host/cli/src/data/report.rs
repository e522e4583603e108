//! Reading report of `eciton data stat`, with warnings, notes and facts about how a data set was
//! read.

use eciton_input::notes::{self, Level};
use serde::Serialize;

use crate::output::Output;

/// A line of the reading report, which `eciton data stat --json` prints.
#[derive(Serialize)]
pub(super) struct Line {
    level: &'static str,
    text: String,
}

/// Takes all lines out of the reading report, sorted into warnings, notes and facts. The report is
/// empty afterwards.
pub(super) fn take() -> Vec<Line> {
    let mut all = notes::take();
    all.sort_by_key(|note| std::cmp::Reverse(note.level));
    let line = |note: notes::Note| {
        let level = match note.level {
            Level::Fact => "fact",
            Level::Note => "note",
            Level::Warning => "warning",
        };
        Line { level, text: note.text }
    };
    all.into_iter().map(line).collect()
}

/// Prints the lines of the reading report as rows of the table of `eciton data stat`.
pub(super) fn print(report: &[Line], output: &mut Output) {
    for (at, line) in report.iter().enumerate() {
        let name = if at == 0 { "report" } else { "" };
        let level = if line.level == "fact" { String::new() } else { format!("{}: ", line.level) };
        output.line(format_args!("{name:<13} {level}{}", line.text));
    }
}
