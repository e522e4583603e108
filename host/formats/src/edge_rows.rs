//! Rows of edges as a file has them, in its order, before they are placed at the edges of a graph.

use std::path::Path;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::edge_features::{EdgeFeatures, check_columns, check_finite};
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_input::file::present;
use eciton_input::notes::Level;
use eciton_input::threads::processors;

use super::array::Array;
use super::file::Grown;
use super::missing::is_missing;
use super::numbers::number;
use super::table::{Row, Table};
use super::{columns, file, npy};

/// A row an edge of a file, finite.
pub(crate) struct EdgeRows {
    columns: u32,
    values: Vec<f32>,
    /// Names of the columns, if the file has some.
    pub(crate) names: Vec<String>,
    /// Meaning of a value of 0.
    zeros: Zeros,
    /// File that the rows are in.
    file: String,
}

impl EdgeRows {
    /// Rows of `columns` values; `file` is named in errors.
    pub(crate) fn new(columns: usize, values: Vec<f32>, file: &str) -> Result<Self> {
        check_columns(columns as u64, || Place::whole(file))?;
        check_finite(&values, columns, file)?;
        let file = file.to_owned();
        Ok(Self { columns: columns as u32, values, names: Vec::new(), zeros: Zeros::Kept, file })
    }

    /// An array `[E, columns]`, or `[E]` of weights; `other` is the file that has the `edges` edges.
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

    /// The array at `path`, if there is any.
    pub(crate) fn beside(path: &Path, edges: usize, other: &str) -> Result<Option<Self>> {
        if !present(path) {
            return Ok(None);
        }
        let bytes = file::read(path)?;
        Self::of_array(&npy::parse(&bytes, &file::name(path))?, edges, other).map(Some)
    }

    /// The rows of a folder's edges: the columns of the table of `edges` edges, or
    /// `edge_features.npy`.
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
                expected: "features of edges in one place".to_owned(),
                found: format!("columns of numbers in {} as well", table.file),
                remedy: "remove the columns, or put them into the array and remove them from the table",
            });
        }
        Self::beside(array, edges, &table.file)
    }

    /// The graph of `edges` by `options`, and these rows at its edges. `published` is as in
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

    /// Returns whether a row means that its edge is none.
    pub(crate) fn has_zeros(&self) -> bool {
        self.zeros == Zeros::NoEdges && self.columns == 1 && self.values.contains(&0.0)
    }

    /// The rows as they are: they are in the order of the graph's lists.
    pub(crate) fn in_place(self) -> Result<EdgeFeatures> {
        EdgeFeatures::new(self.columns, self.values)
    }
}

/// The columns of a table of edges that are features: those after the ids that hold a number in every record.
pub(crate) struct Columns {
    of: Vec<usize>,
    names: Vec<String>,
    values: Grown<f32>,
    file: String,
    /// Lines for the reading report, added once the table has been read for good.
    report: Vec<(Level, String)>,
}

/// Contents of a column of a table of edges.
#[derive(Clone, Default)]
struct Contents {
    numbers: u64,
    /// Fields that are neither numbers nor missing.
    words: u64,
    /// Line of the first missing field.
    missing: Option<u64>,
}

impl Columns {
    /// Finds the columns; with `expected` those that a model was trained on, by their names.
    pub(crate) fn of(table: &Table, expected: Option<&Expected>) -> Result<Self> {
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

    /// Columns of numbers: those with a number in the first record, if it has one in each column.
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
                        remedy: "give each edge a number there, or remove the column",
                    });
                }
                Contents { numbers, words, .. } if numbers > words => {
                    let text = format!(
                        "{}: column {} is not used: it has a number in {numbers} records, but a word in {words}",
                        table.file,
                        at + 1
                    );
                    report.push((Level::Warning, text));
                }
                _ if !table.header.get() => {
                    let text = format!(
                        "{}: column {} is not used: edge features are columns of numbers",
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

    /// Returns the number of columns.
    pub(crate) fn count(&self) -> usize {
        self.of.len()
    }

    /// Appends the values of an edge to `values`.
    pub(crate) fn read(&self, row: &Row, values: &mut Vec<f32>) -> Result<()> {
        for &at in &self.of {
            let field = row.get(at);
            let value = number(field).filter(|value| value.is_finite());
            values.push(value.ok_or_else(|| Error::Malformed {
                place: Place::line(&self.file, row.line()),
                expected: format!("a finite number in column {}, as in other records", at + 1),
                found: format!("{field:.60?}"),
                remedy: "give each edge a number there, or remove the column",
            })?);
        }
        Ok(())
    }

    /// Returns the columns with the values of all edges.
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
