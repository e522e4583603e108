//! HTML tables. In a narrow window, each row of a wide table is shown as a block, in which each
//! cell has the name of its column.

use std::fmt::Write as _;

use super::html::escaped;

/// Number of columns from which on a narrow window shows each row as a block.
const MANY: usize = 6;

/// An HTML table under construction. Its first `names` columns are left-aligned names, and the
/// others are numbers.
pub(super) struct Table {
    columns: Vec<&'static str>,
    names: usize,
    body: String,
}

impl Table {
    /// Creates an empty table with these column names. The first `names` columns contain names.
    pub(super) fn new(columns: &[&'static str], names: usize) -> Self {
        Self { columns: columns.to_vec(), names, body: String::new() }
    }

    /// Adds a row. The cells are plain text, which is escaped.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.body.push_str("<tr>");
        for (at, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
            let class = if at < self.names { " class=\"name\"" } else { "" };
            let _ = write!(self.body, "<td{class} data-column=\"{column}\">{}</td>", escaped(cell));
        }
        self.body.push_str("</tr>\n");
    }

    /// Returns the table as HTML.
    pub(super) fn html(self) -> String {
        let head = self.columns.iter().enumerate().map(|(at, column)| {
            format!("<th{}>{column}</th>", if at < self.names { " class=\"name\"" } else { "" })
        });
        let head: String = head.collect();
        let blocks = if self.columns.len() >= MANY { " class=\"blocks\"" } else { "" };
        format!(
            "<div class=\"scroll\"><table{blocks}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
            self.body
        )
    }
}
