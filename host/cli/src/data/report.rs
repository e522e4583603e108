//! Reading report of `eciton data stat`: warnings, notes and facts about how a data set was read.

use eciton_input::notes::{self, Level};
use serde::Serialize;

use crate::output::Output;

/// Line of the report about how a data set was read, as `eciton data stat --json` prints it.
#[derive(Serialize)]
pub(super) struct Line {
    level: &'static str,
    text: String,
}

/// Takes all lines of the reading report: warnings first, then notes, then facts. The report is
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

/// Prints the report as rows of the table of `data stat`.
pub(super) fn print(report: &[Line], output: &mut Output) {
    for (at, line) in report.iter().enumerate() {
        let name = if at == 0 { "report" } else { "" };
        let level = if line.level == "fact" { String::new() } else { format!("{}: ", line.level) };
        output.line(format_args!("{name:<13} {level}{}", line.text));
    }
}
