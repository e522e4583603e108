//! Roles of the tables in a folder, which are edges, nodes, labels and split.
//!
//! The settings in `data.toml` can name the node and edge tables. Otherwise, roles follow from file
//! names ([`Roles::named`]), and then from headers and contents of tables with other names
//! ([`Roles::found`]).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use eciton_graph::error::{Error, Place, Result};
use eciton_input::file::present;

use crate::column_names::{SOURCES, TARGETS};
use crate::file::plain_name;
use crate::settings::{FILE, Settings};
use crate::table::Table;
use crate::{columnar, file};

/// File names of edge tables, without extension.
pub(crate) const EDGES: [&str; 9] =
    ["edges", "edge", "edge_list", "edgelist", "edge-list", "links", "link", "relations", "relationships"];
/// File names of feature tables, without extension. The first column contains the ids, and all
/// others are features.
pub(crate) const FEATURES: [&str; 1] = ["features"];
/// File names of node tables, without extension. Node tables may have columns for labels and the
/// split.
const NODES: [&str; 9] = [
    "feature",
    "nodes",
    "node",
    "vertices",
    "vertex",
    "node_features",
    "attributes",
    "node_attributes",
    "node_data",
];
/// File names of label tables, without extension.
const LABELS: [&str; 6] = ["labels", "label", "classes", "node_labels", "targets", "node_label"];
/// File names of split tables, without extension.
const SPLITS: [&str; 2] = ["split", "splits"];
/// File name extensions of text tables, in the order in which they are looked up. The extensions of
/// [`columnar`] tables follow.
const TEXTS: [&str; 6] = ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz"];
/// Maximum number of tables whose contents are compared in search of the edge or node table.
const MAX_COMPARED: usize = 8;

/// Files of a folder by role, with the settings of `data.toml`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roles {
    pub(crate) edges: Option<PathBuf>,
    pub(crate) nodes: Option<PathBuf>,
    pub(crate) labels: Option<PathBuf>,
    pub(crate) split: Option<PathBuf>,
    pub(crate) settings: Settings,
}

/// Returns the path of the first existing table of a folder with one of these names.
pub(super) fn find(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| {
        TEXTS
            .iter()
            .chain(&columnar::ENDINGS)
            .map(|ending| folder.join(format!("{name}.{ending}")))
            .find(|path| present(path))
    })
}

/// Returns whether a file name stands for a table with a role, or for a text such as a README.
pub(crate) fn is_part(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let all = [&EDGES[..], &FEATURES, &NODES, &LABELS, &SPLITS, &["graphs"]];
    let lower = stem.to_ascii_lowercase();
    all.iter().any(|names| names.contains(&stem))
        || ["readme", "license", "licence", "requirements", "notes"]
            .iter()
            .any(|word| lower.starts_with(word))
}

/// Returns whether a table contains only features according to its file name.
pub(super) fn is_features(path: &Path) -> bool {
    let name = plain_name(path).unwrap_or_default();
    FEATURES.contains(&name.split('.').next().unwrap_or_default())
}

impl Roles {
    /// Assigns roles by `data.toml` and by file names.
    ///
    /// # Errors
    /// Returns the errors of [`Settings::read`]. Returns [`Error::Malformed`] if `data.toml` names
    /// a file that does not exist.
    pub(crate) fn named(folder: &Path) -> Result<Self> {
        let settings = Settings::read(folder)?;
        let set = |file: &Option<String>| {
            let Some(name) = file else { return Ok(None) };
            let path = folder.join(name);
            match !name.contains(['/', '\\']) && present(&path) {
                true => Ok(Some(path)),
                false => Err(Error::Malformed {
                    place: Place::whole(file::name(&folder.join(FILE))),
                    expected: "the name of a file in the same folder".to_owned(),
                    found: format!("{name:.60?}"),
                    remedy: "correct the name in data.toml, or remove its line",
                }),
            }
        };
        let features = || find(folder, &FEATURES).or_else(|| find(folder, &NODES));
        Ok(Self {
            edges: set(&settings.edges.file)?.or_else(|| find(folder, &EDGES)),
            nodes: set(&settings.nodes.file)?.or_else(features),
            labels: find(folder, &LABELS),
            split: find(folder, &SPLITS),
            settings,
        })
    }

    /// Assigns roles like [`Roles::named`], and then searches the tables with other names for
    /// missing edges and nodes.
    ///
    /// An edge table has source and target columns, or its first two columns contain ids from the
    /// first column of another table. If there is no label table, a single other table whose first
    /// column contains the ids of all edges is the node table.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if several tables are candidates for the edges or the nodes.
    pub(crate) fn found(folder: &Path) -> Result<Self> {
        let mut made = Self::named(folder)?;
        let mut tables = Vec::new();
        for name in file::list(folder)? {
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            let path = folder.join(&name);
            let table = plain.ends_with(".csv") || plain.ends_with(".tsv") || columnar::is_columnar(&path);
            if table && present(&path) && !made.files().contains(&path) && !is_part(&name) {
                tables.push(path);
            }
        }
        if made.edges.is_none() {
            let (edges, others): (Vec<PathBuf>, Vec<PathBuf>) =
                tables.into_iter().partition(|path| names_ends(path));
            made.edges = only(folder, edges, "edges")?;
            tables = others;
        }
        if made.edges.is_none() && tables.len() <= MAX_COMPARED {
            let mut edges = Vec::new();
            for path in &tables {
                let others = tables.iter().filter(|other| *other != path).chain(made.nodes.as_ref());
                if joins(path, others).unwrap_or(false) {
                    edges.push(path.clone());
                }
            }
            made.edges = only(folder, edges, "edges")?;
            tables.retain(|path| Some(path) != made.edges.as_ref());
        }
        // With a table of labels nothing else is needed, and a further table may be anything.
        if let (Some(edges), None, None) = (&made.edges, &made.nodes, &made.labels)
            && tables.len() <= MAX_COMPARED
        {
            let mut nodes = Vec::new();
            for path in tables {
                if joins(edges, std::iter::once(&path)).unwrap_or(false) {
                    nodes.push(path);
                }
            }
            made.nodes = only(folder, nodes, "nodes")?;
        }
        Ok(made)
    }

    /// Assigns roles to the files next to a graph file, which itself contains the edges.
    ///
    /// # Errors
    /// Returns the errors of [`Roles::named`].
    pub(crate) fn beside(folder: &Path) -> Result<Self> {
        Ok(Self { edges: None, ..Self::named(folder)? })
    }

    /// Returns the paths of all files that have a role.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        [&self.edges, &self.nodes, &self.labels, &self.split].into_iter().flatten().cloned().collect()
    }
}

/// Returns the only element of `files`, or `None` if there is none. Returns an error if there are
/// several. `role` is the name of the role for the message.
fn only(folder: &Path, mut files: Vec<PathBuf>, role: &str) -> Result<Option<PathBuf>> {
    if files.len() < 2 {
        return Ok(files.pop());
    }
    let names: Vec<String> = files.iter().filter_map(|path| plain_name(path)).collect();
    Err(Error::Malformed {
        place: Place::whole(file::name(folder)),
        expected: format!("one table of {role}"),
        found: format!("several candidates: {}", eciton_input::text::listed(&names)),
        remedy: "write data.toml with [nodes] and [edges], each with file = \"NAME\", or move the other tables",
    })
}

/// Returns whether the header of a table has names for the source and target columns.
fn names_ends(path: &Path) -> bool {
    Table::open(path).and_then(|table| table.first(2)).is_ok_and(|first| {
        let lower: Vec<String> = first.fields().map(str::to_ascii_lowercase).collect();
        ends_of(&lower).is_some()
    })
}

/// Returns the positions of the source and target columns, given the column names in lower case.
/// They are the first two columns, or the only two columns with such names. The names `u`, `v`,
/// `head` and `tail` may denote measurements, so they count only in the first two columns.
pub(super) fn ends_of(lower: &[String]) -> Option<[usize; 2]> {
    let is = |at: usize, known: &[&str]| lower.get(at).is_some_and(|name| known.contains(&name.as_str()));
    if is(0, &SOURCES) && is(1, &TARGETS) {
        return Some([0, 1]);
    }
    let one = |known: &[&str]| {
        let certain = |name: &str| known.contains(&name) && !["u", "v", "head", "tail"].contains(&name);
        let mut found = (0..).zip(lower).filter(|(_, name)| certain(name));
        found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
    };
    Some([one(&SOURCES)?, one(&TARGETS)?])
}

/// Returns whether the first two columns of a table contain only ids from the first column of one
/// of `others`. That column must have distinct ids. Returns an error if a table cannot be read.
fn joins<'a>(path: &Path, others: impl Iterator<Item = &'a PathBuf>) -> Result<bool> {
    let table = Table::open(path)?;
    if table.first(1)?.len() < 2 {
        return Ok(false);
    }
    for other in others {
        let nodes = Table::open(other)?;
        let _charge = file::charge(&nodes.file, 4 * nodes.bytes()?)?;
        let (mut ids, mut unique) = (HashSet::new(), true);
        nodes.each(1, |row| {
            unique &= ids.insert(row.get(0).to_owned());
            Ok(())
        })?;
        let mut rows = table.records(2)?;
        rows.next()?;
        let (mut all, mut some) = (unique, false);
        while all && let Some(row) = rows.next()? {
            some = true;
            all = ids.contains(row.get(0)) && ids.contains(row.get(1));
        }
        if all && some {
            return Ok(true);
        }
    }
    Ok(false)
}
