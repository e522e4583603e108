//! Rows of edges as a file has them, in its order, before they are placed at the edges of a graph.

use std::path::Path;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::edge_features::{EdgeFeatures, check_columns, check_finite};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::file::present;

use super::array::Array;
use super::file::Grown;
use super::folder::number;
use super::table::{Row, Table};
use super::{file, npy};

/// A row an edge of a file, finite.
pub(crate) struct EdgeRows {
    columns: u32,
    values: Vec<f32>,
    /// Names of the columns, where the file has some.
    pub(crate) names: Vec<String>,
}

impl EdgeRows {
    /// Rows of `columns` values; `file` is named in errors.
    pub(crate) fn new(columns: usize, values: Vec<f32>, file: &str) -> Result<Self> {
        check_columns(columns as u64, || Place::whole(file))?;
        check_finite(&values, columns, file)?;
        Ok(Self { columns: columns as u32, values, names: Vec::new() })
    }

    /// An array `[E, columns]` or `[E]`; `other` is what has the `edges` edges.
    pub(crate) fn of_array(array: &Array<'_>, edges: usize, other: &str) -> Result<Self> {
        let (found, expected) = (array.rows() as u64, edges as u64);
        if found != expected {
            let (place, other) = (Place::whole(&array.file), other.to_owned());
            return Err(Error::Mismatch { place, what: "rows", found, expected, other });
        }
        Self::new(array.columns(), array.to_f32()?, &array.file)
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

    /// The rows at the edges of the graph that was built of `edges` by `options`, as
    /// [`EdgeFeatures::placed`].
    pub(crate) fn placed(
        &self,
        graph: &Graph,
        edges: &[(u32, u32)],
        options: Options,
    ) -> Result<EdgeFeatures> {
        EdgeFeatures::placed(graph, edges, self.columns, &self.values, options)
    }

    /// The rows as they are: they are in the order of the graph's lists.
    pub(crate) fn in_place(self) -> Result<EdgeFeatures> {
        EdgeFeatures::new(self.columns, self.values)
    }
}

/// The columns of a table of edges that are features: those behind the ids whose field in the first row is
/// a number.
pub(crate) struct Columns {
    of: Vec<usize>,
    names: Vec<String>,
    values: Grown<f32>,
    file: String,
}

impl Columns {
    pub(crate) fn of(table: &Table) -> Result<Self> {
        let mut rows = table.rows(2)?;
        let mut of = Vec::new();
        if let Some(first) = rows.next()? {
            of = (2..first.len())
                .filter(|&at| number(first.get(at)).is_some() && !first.get(at).is_empty())
                .collect();
            check_columns(of.len().max(1) as u64, || Place::line(&table.file, first.line()))?;
        }
        let all = table.names(0)?;
        let names: Option<Vec<String>> = of.iter().map(|&at| all.get(at).cloned()).collect();
        let (names, values) = (names.unwrap_or_default(), Grown::new(&table.file));
        Ok(Self { of, names, values, file: table.file.clone() })
    }

    /// Takes the values of an edge.
    pub(crate) fn read(&mut self, row: &Row) -> Result<()> {
        for &at in &self.of {
            let field = row.get(at);
            let value = number(field).filter(|value| value.is_finite());
            self.values.push(value.ok_or_else(|| Error::Malformed {
                place: Place::line(&self.file, row.line()),
                expected: format!("a finite number in column {}, as in the first record", at + 1),
                found: format!("{field:.60?}"),
                remedy: "give each edge a number there, or remove the column",
            })?)?;
        }
        Ok(())
    }

    fn finish(self, file: &str) -> Result<Option<EdgeRows>> {
        match self.of.len() {
            0 => Ok(None),
            columns => {
                let rows = EdgeRows::new(columns, self.values.finish(), file)?;
                Ok(Some(EdgeRows { names: self.names, ..rows }))
            }
        }
    }
}
