//! Files of a folder beside its edges: tables and arrays of features, labels, graphs and a split.

use std::path::{Path, PathBuf};

use eciton_graph::error::Result;
use eciton_input::file::present;

use super::headers::Tables;
use crate::file::{self, Bytes};
use crate::settings::TableSettings;
use crate::table::Table;

/// The tables and arrays of a folder without its edges.
pub(super) struct Parts {
    pub(super) features: Part,
    pub(super) labels: Part,
    pub(super) graphs: Option<Table>,
    pub(super) split: Option<Table>,
    /// Uses of the columns of the features that `data.toml` sets.
    pub(super) settings: TableSettings,
}

impl Parts {
    /// Opens the files of a folder, and settles the headers that they and `edges` show together.
    pub(super) fn open(folder: &Path, graphs: Option<PathBuf>, edges: Option<&Table>) -> Result<Self> {
        let made = Self {
            features: Part::open(folder, "features")?,
            labels: Part::open(folder, "labels")?,
            graphs: graphs.map(|path| Table::open(&path)).transpose()?,
            split: find(folder, "split").map(|path| Table::open(&path)).transpose()?,
            settings: TableSettings::default(),
        };
        let is_array = |part: &Part| matches!(part, Part::Array(..));
        let tables = Tables {
            edges,
            features: made.features.table(),
            labels: made.labels.table(),
            graphs: made.graphs.as_ref(),
            split: made.split.as_ref(),
            dense: is_array(&made.features) || (is_array(&made.labels) && made.graphs.is_none()),
        };
        for table in tables.all() {
            table.refuse_index()?;
        }
        tables.settle()?;
        Ok(made)
    }

    /// Adds to the reading report how the first record of each table was read.
    pub(super) fn report_headers(&self) {
        let tables = [self.features.table(), self.labels.table(), self.graphs.as_ref(), self.split.as_ref()];
        tables.into_iter().flatten().for_each(Table::report_header);
    }

    /// Names of the files, without `.gz`.
    pub(super) fn files(&self) -> Vec<String> {
        let arrays = [&self.features, &self.labels].into_iter().filter_map(|part| match part {
            Part::Array(_, path) => Some(path.clone()),
            _ => None,
        });
        let tables = [self.features.table(), self.labels.table(), self.graphs.as_ref(), self.split.as_ref()];
        let tables = tables.into_iter().flatten().map(|table| PathBuf::from(&table.file));
        arrays.chain(tables).filter_map(|path| plain_name(&path)).collect()
    }
}

/// A file's name without folders and `.gz`.
pub(super) fn plain_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(".gz").map_or(name.clone(), str::to_owned))
}

/// The table `name` of a folder, in one of the known spellings.
pub(super) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz"]
        .iter()
        .map(|extension| folder.join(format!("{name}.{extension}")))
        .find(|path| present(path))
}

/// Features or labels, if there are any.
pub(super) enum Part {
    None,
    Array(Bytes, PathBuf),
    Table(Table),
}

impl Part {
    pub(super) fn table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn open(folder: &Path, name: &str) -> Result<Self> {
        let arrays = ["npy", "npy.gz"].map(|extension| folder.join(format!("{name}.{extension}")));
        if let Some(array) = arrays.into_iter().find(|path| present(path)) {
            return Ok(Self::Array(file::read(&array)?, array));
        }
        match find(folder, name) {
            Some(path) => Ok(Self::Table(Table::open(&path)?)),
            None => Ok(Self::None),
        }
    }
}
