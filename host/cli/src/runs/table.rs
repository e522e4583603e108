//! Tables that fit into the width of the terminal. Texts are shortened first, then columns are
//! omitted.

use std::io::IsTerminal as _;

use eciton_train::metrics_format::shortened;

use crate::output::Output;

/// Assumed width if standard output is not a terminal, in characters.
const USUAL_COLUMNS: usize = 100;
/// Number of spaces between two columns.
const GAP: usize = 2;

/// A column of a table, with the rules for a narrow terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Text above the column in the head of the table.
    pub(super) name: &'static str,
    /// True if the cells of the column are aligned to the right.
    pub(super) is_right: bool,
    /// Number of characters to which texts of the column may be shortened. If `None`, they are
    /// never shortened.
    pub(super) least: Option<usize>,
    /// Rank of the column. On a narrow terminal, columns with the largest rank are omitted first,
    /// and columns with rank 0 are never omitted.
    pub(super) rank: u8,
}

/// Returns the width of the terminal in characters, or [`USUAL_COLUMNS`] if standard output is not
/// a terminal.
fn terminal_columns() -> usize {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(stdout)).flatten();
    size.map_or(USUAL_COLUMNS, |(width, _)| usize::from(width.0))
}

/// Prints a table that fits into the width of the terminal.
pub(super) fn print<const N: usize>(columns: &[Column; N], rows: &[[String; N]], output: &mut Output) {
    lines(columns, rows, terminal_columns()).iter().for_each(|line| output.line(line));
}

/// Returns the lines of a table, starting with the head. Lines have at most `most` characters,
/// unless columns with rank 0 need more.
fn lines<const N: usize>(columns: &[Column; N], rows: &[[String; N]], most: usize) -> Vec<String> {
    let longest = |at: usize, column: &Column| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(column.name.chars().count())
    };
    let mut shown: Vec<(usize, &Column, usize)> =
        columns.iter().enumerate().map(|(at, column)| (at, column, longest(at, column))).collect();
    loop {
        let used = shown.iter().map(|(_, _, width)| width + GAP).sum::<usize>().saturating_sub(GAP);
        if used <= most {
            break;
        }
        // The first column has the names that other commands take, so it is shortened last.
        let shorter = shown
            .iter_mut()
            .filter(|(_, column, width)| {
                column.least.is_some_and(|least| *width > least.max(column.name.len()))
            })
            .max_by_key(|(at, _, width)| (*at > 0, *width));
        if let Some((_, _, width)) = shorter {
            *width -= 1;
            continue;
        }
        let last = shown.iter().map(|(_, column, _)| column.rank).max().unwrap_or(0);
        if last == 0 {
            break;
        }
        shown.retain(|(_, column, _)| column.rank != last);
        shown.iter_mut().for_each(|(at, column, width)| *width = longest(*at, column));
    }
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells = shown.iter().map(|&(at, column, width)| {
            let cell = shortened(&cell(at), width);
            if column.is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    let head = line(&|at| columns.get(at).map_or_else(String::new, |column| column.name.to_owned()));
    let rows = rows.iter().map(|row| line(&|at| row.get(at).cloned().unwrap_or_default()));
    std::iter::once(head).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { name: "run", is_right: false, least: Some(8), rank: 0 },
        Column { name: "model", is_right: false, least: Some(6), rank: 1 },
        Column { name: "test", is_right: true, least: None, rank: 0 },
        Column { name: "time", is_right: true, least: None, rank: 2 },
    ];

    fn table(most: usize) -> Vec<String> {
        let rows = [
            ["cora-gcn-2026-11-28-02-50", "gcn 1433-64-64-7", "81.50 %", "2.50 s"],
            ["b", "gat", "9.00 %", "0.412 ms"],
        ];
        lines(&COLUMNS, &rows.map(|row| row.map(str::to_owned)), most)
    }

    #[test]
    fn texts_are_shortened_before_columns_are_omitted() {
        assert_eq!(
            table(100),
            [
                "run                        model                test      time",
                "cora-gcn-2026-11-28-02-50  gcn 1433-64-64-7  81.50 %    2.50 s",
                "b                          gat                9.00 %  0.412 ms",
            ]
        );
        // The first column last.
        assert_eq!(table(52)[1], "cora-gcn-2026-11-28-02-50  gcn\u{2026}-7  81.50 %    2.50 s");
        assert_eq!(table(35)[1], "cora\u{2026}-50  gcn\u{2026}-7  81.50 %    2.50 s");
        assert_eq!(table(30)[1], "cora-g\u{2026}-02-50  gcn\u{2026}-7  81.50 %");
        assert_eq!(table(17), ["run          test", "cora\u{2026}-50  81.50 %", "b          9.00 %"]);
        // A figure is never shortened.
        assert_eq!(table(0)[1], "cora\u{2026}-50  81.50 %");
    }

    #[test]
    fn every_width_holds_as_far_as_columns_can_go() {
        for most in 17..110 {
            let found = table(most);
            assert!(found.iter().all(|line| line.chars().count() <= most), "{most}: {found:?}");
        }
    }
}
