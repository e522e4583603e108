//! Rows of edges as a file has them, in its order, before they are placed at the edges of a graph.

use std::path::Path;

use super::array::Array;
use super::folder::number;
use super::table::{Record, Table};
use super::{file, npy};
use crate::adjacency::{Graph, Options};
use crate::edge_features::{EdgeFeatures, check_columns, check_finite};
use crate::error::{Error, Place, Result};

/// A row an edge of a file, finite.
pub(crate) struct EdgeRows {
    columns: u32,
    values: Vec<f32>,
}

impl EdgeRows {
    /// Rows of `columns` values; `file` is named in errors.
    pub(crate) fn new(columns: usize, values: Vec<f32>, file: &str) -> Result<Self> {
        check_columns(columns as u64, || Place::whole(file))?;
        check_finite(&values, columns, file)?;
        Ok(Self { columns: columns as u32, values })
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
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = file::read(path)?;
        Self::of_array(&npy::parse(&bytes, &file::name(path))?, edges, other).map(Some)
    }

    /// What a folder of one's own says of its edges: the columns of the table of edges after the second
    /// whose field in the first record is a number, or `edge_features.npy`.
    pub(crate) fn of_folder(folder: &Path, table: &Table, records: &[Record<'_>]) -> Result<Option<Self>> {
        let columns = Self::of_table(table, records)?;
        let array = ["npy", "npy.gz"].map(|extension| folder.join(format!("edge_features.{extension}")));
        let Some(array) = array.iter().find(|path| path.is_file()) else {
            return Ok(columns);
        };
        if columns.is_some() {
            return Err(Error::Malformed {
                place: Place::whole(file::name(array)),
                expected: "features of edges in one place".to_owned(),
                found: format!("columns of numbers in {} as well", table.file),
                remedy: "remove the columns, or put them into the array and remove them from the table",
            });
        }
        Self::beside(array, records.len(), &table.file)
    }

    fn of_table(table: &Table, records: &[Record<'_>]) -> Result<Option<Self>> {
        let Some(first) = records.first() else { return Ok(None) };
        let fields = 2..first.fields.len();
        let columns: Vec<usize> = fields.filter(|&at| number(&first.fields[at]).is_some()).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        check_columns(columns.len() as u64, || Place::line(&table.file, first.line))?;
        let mut values = Vec::with_capacity(records.len() * columns.len());
        for record in records {
            for &at in &columns {
                let field = record.fields.get(at).map_or("", |field| field);
                let value = number(field).filter(|value| value.is_finite());
                values.push(value.ok_or_else(|| Error::Malformed {
                    place: Place::line(&table.file, record.line),
                    expected: format!("a finite number in column {}, as in the first record", at + 1),
                    found: format!("{field:.60?}"),
                    remedy: "give each edge a number there, or remove the column",
                })?);
            }
        }
        Self::new(columns.len(), values, &table.file).map(Some)
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
