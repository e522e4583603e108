//! Tables that a narrow window shows as blocks, in which each cell has the name of its column.

use std::fmt::Write as _;

use super::html::escaped;

/// Minimum number of columns for which a narrow window shows a row as a block.
const MANY: usize = 6;

/// A table under construction. The first `names` columns contain names, the others figures.
pub(super) struct Table {
    columns: Vec<&'static str>,
    names: usize,
    body: String,
}

impl Table {
    /// Creates a table with these columns, of which the first `names` contain names.
    pub(super) fn new(columns: &[&'static str], names: usize) -> Self {
        Self { columns: columns.to_vec(), names, body: String::new() }
    }

    /// Adds a row. The cells are plain text.
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
