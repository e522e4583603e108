//! Files of a folder besides its edges, which are tables and arrays with features, labels, graphs
//! and the split.

use std::path::{Path, PathBuf};

use eciton_graph::error::{Error, Result};
use eciton_input::file::present;

use eciton_graph::names::column;

use super::headers::Tables;
use super::nodes::{Nodes, Others};
use super::roles::{self, Roles};
use crate::file::{self, Bytes, plain_name};
use crate::request::Request;
use crate::settings::TableSettings;
use crate::table::Table;

/// Tables and arrays of a folder, except its edges.
pub(super) struct Parts {
    pub(super) features: Part,
    pub(super) labels: Part,
    pub(super) graphs: Option<Table>,
    pub(super) split: Option<Table>,
    /// Ids of a node table that has no features.
    pub(super) ids: Option<Table>,
    /// Uses of the feature columns as set by `data.toml`.
    pub(super) settings: TableSettings,
}

impl Parts {
    /// Opens the files of a folder, and decides which first records are headers by comparing the
    /// tables with each other and with `edges`. `own` is a node table from the graph's file. It has
    /// precedence over the node table of the folder.
    pub(super) fn open(
        folder: &Path,
        roles: &Roles,
        (graphs, own): (Option<PathBuf>, Option<Table>),
        edges: Option<&Table>,
        request: Request<'_>,
    ) -> Result<Self> {
        let array = |name: &str| {
            let arrays = ["npy", "npy.gz"].map(|extension| folder.join(format!("{name}.{extension}")));
            let found = arrays.into_iter().find(|path| present(path));
            found.map(|path| Ok::<_, Error>(Part::Array(file::read(&path)?, path))).transpose()
        };
        let mut labels = match (array("labels")?, &roles.labels) {
            (Some(array), _) => array,
            (None, Some(path)) => Part::Table(labels_of(path, request)?),
            (None, None) => Part::None,
        };
        let mut split = roles.split.as_ref().map(|path| Table::open(path)).transpose()?;
        let (mut settings, mut ids) = (TableSettings::default(), None);
        let nodes = match own {
            Some(own) => Some(own),
            None => roles.nodes.as_ref().map(|path| Table::open(path)).transpose()?,
        };
        let features = match (array("features")?, nodes) {
            (Some(array), _) => array,
            (None, None) => Part::None,
            (None, Some(table)) => {
                settings = roles.settings.nodes_in(table.path());
                let others = Others { labels: !matches!(labels, Part::None), split: split.is_some() };
                let named = match request.label {
                    Some(label) if request.expected.is_none() => {
                        let names = crate::kinds::names_of_header(&table)?;
                        eciton_graph::names::column(&names, label).is_some()
                    }
                    _ => false,
                };
                // All columns of a table called `features` are features, unless the user sets
                // something else.
                if roles::is_features(table.path()) && settings.columns.is_empty() && !named {
                    Part::Table(table)
                } else {
                    let found = Nodes::from_table(&table, request, &settings, others)?;
                    if let Some(own) = found.labels {
                        labels = Part::Table(own);
                    }
                    split = found.split.or(split);
                    ids = found.ids;
                    found.features.map_or(Part::None, Part::Table)
                }
            }
        };
        let graphs = graphs.map(|path| Table::open(&path)).transpose()?;
        let made = Self { features, labels, graphs, split, ids, settings };
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

    /// Adds facts to the reading report that state how the first record of each file was read.
    /// Several tables may be columns of the same file, which is then reported once.
    pub(super) fn report_headers(&self) {
        let tables = [self.features.table(), self.labels.table(), self.graphs.as_ref(), self.split.as_ref()];
        let tables: Vec<&Table> = tables.into_iter().flatten().collect();
        for (at, table) in tables.iter().enumerate() {
            if !tables[..at].iter().any(|other| other.file == table.file) {
                let others = tables[at + 1..].iter().filter(|other| other.file == table.file);
                table.report_header(&others.copied().collect::<Vec<_>>());
            }
        }
    }

    /// Returns the names of all files of these tables and arrays, without `.gz`.
    pub(super) fn files(&self) -> Vec<String> {
        let arrays = [&self.features, &self.labels].into_iter().filter_map(|part| match part {
            Part::Array(_, path) => Some(path.clone()),
            _ => None,
        });
        let tables = [self.features.table(), self.labels.table(), self.graphs.as_ref(), self.split.as_ref()];
        let tables =
            tables.into_iter().chain([self.ids.as_ref()]).flatten().map(|table| PathBuf::from(&table.file));
        arrays.chain(tables).filter_map(|path| plain_name(&path)).collect()
    }
}

/// Opens a label table. If the request names a label column, the result has only that column and
/// the ids.
fn labels_of(path: &Path, request: Request<'_>) -> Result<Table> {
    let table = Table::open(path)?;
    match request.label.filter(|_| request.expected.is_none()) {
        None => Ok(table),
        Some(label) => match column(&crate::kinds::names_of_header(&table)?, label) {
            Some(at) if at > 0 => {
                table.settle(true);
                Ok(table.view(&[0, at as usize]))
            }
            _ => Ok(table),
        },
    }
}

/// Features or labels of a folder, as an array or a table.
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
}
