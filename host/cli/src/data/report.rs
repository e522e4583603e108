//! Reading report of `eciton data stat`: warnings, notes and facts about how a data set was read.

use std::collections::BTreeSet;

use eciton_input::notes::{self, Level};
use serde::Serialize;

use crate::output::Output;

/// Text after the table's name in a fact about a header. The reader splits a table into ids with
/// features and ids with labels, and adds one such fact per piece.
const HEADER: &str = ": the first record, line ";

/// Line of the report about how a data set was read, as `eciton data stat --json` prints it.
#[derive(Serialize)]
pub(super) struct Line {
    level: &'static str,
    text: String,
}

/// Takes all lines of the reading report: warnings first, then notes, then facts. Only the first
/// fact about the header of a table is kept. The report is empty afterwards.
pub(super) fn take() -> Vec<Line> {
    let mut all = notes::take();
    let mut tables = BTreeSet::new();
    all.retain(|note| match note.text.split_once(HEADER).filter(|_| note.level == Level::Fact) {
        Some((table, _)) => tables.insert(table.to_owned()),
        None => true,
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_line_about_its_header() {
        for columns in ["id, x", "id, label"] {
            notes::fact(format!("nodes.csv: the first record, line 1 (\"{columns}\"), was read as a header"));
        }
        notes::fact("edges.csv: the first record, line 1 (\"a, b\"), was read as a header");
        let lines = take();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].text.starts_with("nodes.csv") && lines[1].text.starts_with("edges.csv"));
    }
}
