//! Rows of edge values in the order of a file, before they are assigned to the edges of a graph.

use std::path::Path;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::edge_features::{EdgeFeatures, check_columns, check_finite};
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;
use eciton_input::file::present;
use eciton_input::notes::Level;
use eciton_input::threads::processors;

use super::array::Array;
use super::file::Grown;
use super::missing::is_missing;
use super::numbers::number;
use super::table::{Row, Table};
use super::{columns, file, npy};

/// Finite values of the edges of a file, with one row per edge.
pub(crate) struct EdgeRows {
    columns: u32,
    values: Vec<f32>,
    /// Names of the columns. The list is empty if the file has no names.
    pub(crate) names: Vec<String>,
    /// Treatment of edges whose value is 0.
    zeros: Zeros,
    /// Name of the file with the rows, for messages.
    file: String,
}

impl EdgeRows {
    /// Creates rows of `columns` values each, after checking that all values are finite. `file` is
    /// the name for error messages.
    pub(crate) fn new(columns: usize, values: Vec<f32>, file: &str) -> Result<Self> {
        check_columns(columns as u64, || Place::whole(file))?;
        check_finite(&values, columns, file)?;
        let file = file.to_owned();
        Ok(Self { columns: columns as u32, values, names: Vec::new(), zeros: Zeros::Kept, file })
    }

    /// Creates rows from an array `[E, columns]`, or from an array `[E]` of weights. `other` is the
    /// file that contains the `edges` edges.
    pub(crate) fn of_array(array: &Array<'_>, edges: usize, other: &str) -> Result<Self> {
        let (found, expected) = (array.rows() as u64, edges as u64);
        if found != expected {
            let (place, other) = (Place::whole(&array.file), other.to_owned());
            return Err(Error::Mismatch { place, what: "rows", found, expected, other });
        }
        let rows = Self::new(array.columns(), array.to_f32()?, &array.file)?;
        let zeros = if array.shape.len() == 1 { Zeros::NoEdges } else { Zeros::Kept };
        Ok(Self { zeros, ..rows })
    }

    /// Reads the rows from the array at `path`. Returns `None` if the file does not exist.
    pub(crate) fn beside(path: &Path, edges: usize, other: &str) -> Result<Option<Self>> {
        if !present(path) {
            return Ok(None);
        }
        let bytes = file::read(path)?;
        Self::of_array(&npy::parse(&bytes, &file::name(path))?, edges, other).map(Some)
    }

    /// Returns the edge values of a folder. They come from the number columns of the edge table or
    /// from `edge_features.npy`, but not from both.
    pub(crate) fn of_folder(
        folder: &Path,
        table: &Table,
        columns: Columns,
        edges: usize,
    ) -> Result<Option<Self>> {
        let array = ["npy", "npy.gz"].map(|extension| folder.join(format!("edge_features.{extension}")));
        let Some(array) = array.iter().find(|path| present(path)) else {
            return columns.finish(&table.file);
        };
        if !columns.of.is_empty() {
            return Err(Error::Malformed {
                place: Place::whole(file::name(array)),
                expected: "edge features in a single file".to_owned(),
                found: format!("edge_features.npy, and columns of numbers in {} as well", table.file),
                remedy: "remove the columns from the table, or add them to the array first",
            });
        }
        Self::beside(array, edges, &table.file)
    }

    /// Builds the graph of `edges` with these rows as edge values. `published` is passed to
    /// [`Findings::report`](eciton_graph::edge_rule::Findings::report).
    pub(crate) fn graph(
        &self,
        vertices: u64,
        edges: &[(u32, u32)],
        options: Options,
        published: bool,
    ) -> Result<(Graph, EdgeFeatures)> {
        let rule = EdgeRule::new(&self.file, options).with_zeros(self.zeros);
        let (graph, rows, found) = rule.valued(vertices, edges, self.columns, &self.values, processors())?;
        found.report(&self.file, published);
        Ok((graph, rows))
    }

    /// Returns the rows as features of labelled edges, in the order of the file.
    pub(crate) fn features(&self) -> Result<Features> {
        Features::dense(self.columns, &self.values)
    }

    /// Returns whether an edge is dropped because its weight is 0.
    pub(crate) fn has_zeros(&self) -> bool {
        self.zeros == Zeros::NoEdges && self.columns == 1 && self.values.contains(&0.0)
    }

    /// Returns the rows as edge features without reordering them. They must already be in the order
    /// of the graph's edge lists.
    pub(crate) fn in_place(self) -> Result<EdgeFeatures> {
        EdgeFeatures::new(self.columns, self.values)
    }
}

/// Feature columns of an edge table. These are the columns after the two ids that contain a number
/// in every record.
pub(crate) struct Columns {
    of: Vec<usize>,
    names: Vec<String>,
    values: Grown<f32>,
    file: String,
    /// Notes for the reading report. They are added once the whole table has been read.
    report: Vec<(Level, String)>,
}

/// Counts of the kinds of fields in one column of an edge table.
#[derive(Clone, Default)]
struct Contents {
    numbers: u64,
    /// Number of fields that are neither numbers nor missing values.
    words: u64,
    /// Line of the first missing value.
    missing: Option<u64>,
}

impl Columns {
    /// Selects the feature columns of an edge table. If `expected` is set, they are the columns
    /// that the model was trained on, found by name.
    pub(crate) fn select(table: &Table, expected: Option<&Expected>) -> Result<Self> {
        let all = table.names(0)?;
        let wanted = expected.map(|expected| &expected.edge_features[..]).unwrap_or_default();
        let mut report = Vec::new();
        let of = match wanted.is_empty() || all.is_empty() {
            true => Self::found(table, &mut report)?,
            false => {
                let further = all.get(2..).unwrap_or_default();
                let at = columns::matched(&table.file, "edge feature columns", wanted, further)?;
                at.into_iter().map(|at| at + 2).collect()
            }
        };
        let unused: Vec<String> =
            (2..all.len()).filter(|at| !of.contains(at)).filter_map(|at| all.get(at).cloned()).collect();
        let why = match wanted.is_empty() {
            true => "edge features are columns of numbers",
            false => "the model was not trained on them",
        };
        if !unused.is_empty() {
            report.push((Level::Note, columns::unused(&table.file, why, &unused)));
        }
        let names: Option<Vec<String>> = of.iter().map(|&at| all.get(at).cloned()).collect();
        let (names, values) = (names.unwrap_or_default(), Grown::new(&table.file));
        Ok(Self { of, names, values, file: table.file.clone(), report })
    }

    /// Returns the columns after the two ids that have a number in the first record, and adds notes
    /// about other columns to `report`. Returns an error for a column that starts with a missing
    /// value, but otherwise contains only numbers.
    fn found(table: &Table, report: &mut Vec<(Level, String)>) -> Result<Vec<usize>> {
        let mut rows = table.rows(2)?;
        let Some(first) = rows.next()? else { return Ok(Vec::new()) };
        let is_number = |field: &str| number(field).is_some() && !field.is_empty();
        let columns: Vec<usize> = (2..first.len()).collect();
        check_columns(columns.len().max(1) as u64, || Place::line(&table.file, first.line()))?;
        if columns.iter().all(|&at| is_number(first.get(at))) {
            return Ok(columns);
        }
        let in_first: Vec<bool> = columns.iter().map(|&at| is_number(first.get(at))).collect();
        let mut contents = vec![Contents::default(); columns.len()];
        table.each(2, |row| {
            for (&at, contents) in columns.iter().zip(&mut contents) {
                match row.get(at) {
                    field if is_number(field) => contents.numbers += 1,
                    field if is_missing(field) => {
                        contents.missing.get_or_insert(row.line());
                    }
                    _ => contents.words += 1,
                }
            }
            Ok(())
        })?;
        let mut of = Vec::new();
        for ((at, contents), in_first) in columns.into_iter().zip(contents).zip(in_first) {
            match contents {
                _ if in_first => of.push(at),
                Contents { numbers: 1.., words: 0, missing: Some(line) } => {
                    return Err(Error::Malformed {
                        place: Place::line(&table.file, line),
                        expected: format!("a finite number in column {}, as in other records", at + 1),
                        found: "an empty field or a word for a missing value".to_owned(),
                        remedy: "write a number in this column for each edge, or remove the column",
                    });
                }
                Contents { numbers, words, .. } if numbers > words => {
                    let text = format!(
                        "{}: column {} is not used, because it has a number in {numbers} records, but a word in {words}",
                        table.file,
                        at + 1
                    );
                    report.push((Level::Warning, text));
                }
                _ if !table.header.get() => {
                    let text = format!(
                        "{}: column {} is not used, because edge features must be numbers",
                        table.file,
                        at + 1
                    );
                    report.push((Level::Note, text));
                }
                _ => {}
            }
        }
        Ok(of)
    }

    /// Returns the number of feature columns.
    pub(crate) fn count(&self) -> usize {
        self.of.len()
    }

    /// Appends the values of one edge to `values`.
    pub(crate) fn read(&self, row: &Row, values: &mut Vec<f32>) -> Result<()> {
        for &at in &self.of {
            let field = row.get(at);
            let value = number(field).filter(|value| value.is_finite());
            values.push(value.ok_or_else(|| Error::Malformed {
                place: Place::line(&self.file, row.line()),
                expected: format!("a finite number in column {}, as in other records", at + 1),
                found: format!("{field:.60?}"),
                remedy: "write a number in this column for each edge, or remove the column",
            })?);
        }
        Ok(())
    }

    /// Returns these columns with the values of all edges.
    pub(crate) fn with(self, values: Grown<f32>) -> Self {
        Self { values, ..self }
    }

    fn finish(self, file: &str) -> Result<Option<EdgeRows>> {
        for (level, text) in self.report {
            match level {
                Level::Warning => eciton_input::notes::warn(text),
                _ => eciton_input::notes::add(text),
            }
        }
        match self.of.len() {
            0 => Ok(None),
            columns => {
                let rows = EdgeRows::new(columns, self.values.finish(), file)?;
                // A single column without a name is the edge's weight.
                let zeros = match self.names.is_empty() && columns == 1 {
                    true => Zeros::NoEdges,
                    false => Zeros::by_names(&self.names),
                };
                Ok(Some(EdgeRows { names: self.names, zeros, ..rows }))
            }
        }
    }
}
