//! Reader for a folder of tables, which has an edge table and optionally features, labels and a
//! split.
//!
//! The tables are found by their names, by `data.toml` ([`crate::settings`]), or by their headers
//! and contents (`roles.rs`). A node table (`nodes.rs`) is divided into tables of features, labels
//! and the split, which are views of its columns.
//!
//! Each file may be compressed with gzip, either as `edges.csv.gz` or under its plain name.
//!
//! * `edges.csv` has the columns source and target, and optionally edge features. Each further
//!   column with a finite number in every record is a feature, and all others are ignored with a
//!   note. Ids are words or whole numbers. Every edge is used in both directions, with the same
//!   features. Repeated edges follow the rule of [`eciton_graph::edge_rule`]. Instead of such
//!   columns there may be `edge_features.npy [records of edges.csv, columns]`, or `[records]` of
//!   weights.
//! * `features.csv` has the id and one column per feature. `features.npy [V, columns]` is an
//!   alternative for ids 0 to V - 1. Without either, each vertex has its own one-hot feature. If
//!   all fields are finite numbers, they are read in one pass. Otherwise the content determines the
//!   kind of each column ([`crate::kinds`]), and the features are encoded.
//! * `nodes.csv` has the id and features, and optionally columns for labels and the split.
//! * `labels.csv` has the id and a class (a whole number from 0, or a word) or a number. Labels are
//!   numbers if one of them has a fraction or an exponent, or is negative and not -1. Empty fields
//!   and words such as `nan`, `None` and `NA` mean that there is no label, and so does the class
//!   `-1`. Labels that are all -1 or 1 are two classes. Several columns of numbers are Boolean
//!   labels if all values are 0, 1 or empty, and numbers otherwise. The labels may also be in
//!   `labels.npy`, with the shape `[V]` or `[V, labels]`. NaN then means that there is no label.
//!   Data without labels can be loaded, but no model can be trained on them.
//! * `split.csv` has the id and `train`, `val` or `test`. Without it, 60 / 20 / 20 % of the
//!   labelled vertices are drawn with seed 0 ([`Split::random`]).
//! * `graphs.csv` has the id and the graph (a word or whole number) of every vertex. Labels and
//!   split then belong to graphs, so their ids are ids of graphs. `labels.npy` has one row per
//!   graph if graph ids are consecutive from 0. Without features, each vertex has the constant 1.
//!
//! Before the first record, lines that start with `#` are comments. The first line is a header if
//! its id field is one of `id, node, vertex, source, src, from, u, id_1, target...`. It is also a
//! header if no other id is a word, or if a comparison of the tables shows it (`headers.rs`). The
//! fields of `.tsv` files are separated by tabs, and those of `.txt` files by spaces, tabs or
//! commas.
//!
//! If there is a file `features.*`, its ids are the vertices, and any other id in an edge or label
//! is an error. Otherwise the vertices are the ids of `graphs.csv`, or else all ids of labels and
//! edges. In the last case, at least one id of the labels must occur in an edge. Numeric ids are
//! sorted, and words keep the order of first appearance.
//!
//! For a trained model, the columns of features, labels and edge features are selected by the names
//! that the model [expects](Expected).

mod attributes;
mod describe;
mod edge_labels;
mod edges;
mod features;
mod graphs;
mod headers;
mod ids;
mod joins;
mod labels;
mod likeness;
mod nodes;
mod parts;
pub(crate) mod roles;
pub(crate) mod unused;

use std::path::{Path, PathBuf};

use eciton_graph::adjacency::{Graph, Options, check_vertices};
use eciton_graph::dataset::Dataset;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::graphs::apart_error;
use eciton_input::file::present;

use self::edge_labels::Divided;
use self::edges::{Edges, ordered};
use self::graphs::GraphIds;
use self::headers::ids_or_header;
use self::ids::Ids;
use self::parts::{Part, Parts};
use self::roles::Roles;
use super::edge_graph::graph_of;
use super::edge_rows::EdgeRows;
use super::file::plain_name;
use super::request::Request;
use super::table::Table;
use super::{file, npy};

pub use attributes::Attributes;
pub use describe::describe;
pub(super) use graphs::graphs_beside;

/// Reads a folder of tables. In addition to the graph, reading needs 8 bytes per edge and memory
/// for the edge values.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if a table is invalid, [`Error::UnknownVertex`] for
/// an unknown id, and [`Error::EmptyGraph`] if there are no vertices. Also returns the errors of
/// [`Dataset::validate`].
pub fn open(folder: &Path, request: Request<'_>) -> Result<Dataset> {
    let roles = match Roles::named(folder)? {
        roles @ Roles { edges: Some(_), nodes: Some(_), .. } => roles,
        _ => Roles::found(folder)?,
    };
    let Some(path) = &roles.edges else {
        return Err(Error::UnknownLayout {
            path: folder.to_owned(),
            found: file::list(folder)?.into_iter().take(20).collect(),
            known: "edges.csv, edges.tsv or edges.txt",
        });
    };
    let edges = ordered(Table::open(path)?, &roles)?;
    let mut made = open_tables(folder, &roles, edges, (None, false), request)?;
    made.name = file::folder_name(folder);
    Ok(made)
}

/// Reads the edge table `path` as a graph, together with tables next to it.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn open_edges(path: &Path, request: Request<'_>) -> Result<Dataset> {
    let folder = file::parent(path);
    let roles = Roles::beside(folder)?;
    open_tables(folder, &roles, ordered(Table::open(path)?, &roles)?, (None, true), request)
}

/// Reads an edge table, together with features, labels and split from a folder. If `nodes` is set,
/// it has precedence over the node table of the folder. `own` is true if the data set is a file, so
/// that other tables of the folder need not belong to it.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn open_tables(
    folder: &Path,
    roles: &Roles,
    edges: Table,
    (nodes, own): (Option<Table>, bool),
    request: Request<'_>,
) -> Result<Dataset> {
    let expected = request.expected;
    let divided = Divided::new(edges, request)?;
    let edges = divided.edges.clone();
    let parts = Parts::open(folder, roles, (graphs_of(folder, own), nodes), Some(&edges), request)?;
    let Parts { features, labels, graphs: of_graphs, .. } = &parts;
    let known = match (features, labels, of_graphs) {
        (Part::Array(bytes, path), _, _) | (_, Part::Array(bytes, path), None) => {
            let file = file::name(path);
            let array = npy::parse(bytes, &file)?;
            check_vertices(array.rows() as u64, || Place::whole(file.clone()))?;
            Some(Ids::dense(array.rows() as u64))
        }
        (Part::Table(table), _, _) => {
            table.find_header_of_numbers()?;
            Some(Ids::of_column(table, 0)?)
        }
        (Part::None, _, _) if parts.ids.is_some() => {
            parts.ids.as_ref().map(|table| Ids::of_column(table, 0)).transpose()?
        }
        (Part::None, _, Some(table)) => {
            table.find_header_of_words()?;
            Some(Ids::of_column(table, 0)?)
        }
        _ => None,
    };
    let (ids, read) = match known {
        Some(ids) => {
            check_vertices(ids.len(), || Place::whole(&edges.file))?;
            let read = Edges::between(&edges, &ids, expected)?;
            (ids, read)
        }
        None => {
            let labels = labels.table();
            match Edges::numbered(&edges, labels, expected)? {
                Some(found) => found,
                None => Edges::worded(&edges, labels, expected)?,
            }
        }
    };
    let vertices = ids.len();
    check_vertices(vertices, || Place::whole(&edges.file))?;
    if let Some(table) = of_graphs
        && !matches!(features, Part::None)
    {
        ids_or_header(table, Some(&ids))?;
    }
    if let Part::Table(table) = labels
        && (!matches!(features, Part::None) || of_graphs.is_some())
    {
        ids_or_header(table, of_graphs.is_none().then_some(&ids))?;
    }

    joins::report(&edges, &read.pairs, &parts, &ids)?;
    let graphs = of_graphs.as_ref().map(|table| GraphIds::from_table(table, &ids)).transpose()?;
    if let Some(GraphIds { graphs, .. }) = &graphs {
        let graph_of = |vertex: u32| graphs.standing_of_vertices().get(vertex as usize);
        if let Some(at) = read.pairs.iter().position(|&(source, target)| graph_of(source) != graph_of(target))
        {
            let mut rows = edges.rows(2)?;
            for _ in 0..at {
                rows.next()?;
            }
            if let (Some(row), Some(&(source, target))) = (rows.next()?, read.pairs.get(at)) {
                let end = |field: usize, vertex| (row.get(field).to_owned(), graphs.name(vertex));
                return Err(apart_error(
                    Place::line(&edges.file, row.line()),
                    [end(0, source), end(1, target)],
                ));
            }
        }
    }
    let pairs = &read.pairs[..];
    let rows = EdgeRows::of_folder(folder, &edges, read.columns, pairs.len())?;
    let edge_names = rows.as_ref().map(|rows| rows.names.clone()).unwrap_or_default();
    let (graph, placed) = graph_of(&edges.file, vertices, pairs, rows.as_ref(), false)?;
    let mut known = Attributes::from_parts(&parts, &ids, graphs, request)?;
    known.names.edge_features = edge_names;
    let rows = rows.filter(|_| request.edge_label.is_some());
    let features = rows.as_ref().map(EdgeRows::features).transpose()?;
    divided.label(&mut known, (pairs, features), request)?;
    edges.report_header(&[]);
    if !own {
        let mut used = parts.files();
        let name = plain_name(edges.path()).unwrap_or_default();
        used.extend([name.clone(), "edge_features.npy".to_owned()]);
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        unused::report(folder, &used, &format!("{name} is read"));
    }
    known.dataset(file::stem(edges.path()), graph, placed)
}

/// Returns the path of the table that assigns vertices to graphs, if there is one. If `own` is
/// true, the graph has its own file, and only the name `graphs.csv` is accepted.
fn graphs_of(folder: &Path, own: bool) -> Option<PathBuf> {
    match own {
        true => graphs_beside(folder),
        false => roles::find(folder, &["graphs"]),
    }
}

/// Returns whether a folder has features and labels but no edges. If `expected` is set, a trained
/// model reads the folder, and labels are not needed.
pub(crate) fn has_rows(folder: &Path, expected: Option<&eciton_graph::expected::Expected>) -> bool {
    let Ok(roles) = Roles::named(folder) else { return false };
    let array = |name: &str| ["npy", "npy.gz"].iter().any(|e| present(&folder.join(format!("{name}.{e}"))));
    let features = roles.nodes.as_deref().is_some_and(roles::is_features) || array("features");
    features && (roles.labels.is_some() || array("labels") || expected.is_some()) && roles.edges.is_none()
}

/// Returns whether a folder has features, labels or a node table, judging by file names and
/// `data.toml`.
pub(crate) fn has_parts(folder: &Path) -> bool {
    let Ok(roles) = Roles::named(folder) else { return true };
    let arrays =
        ["features", "labels"].iter().flat_map(|name| [format!("{name}.npy"), format!("{name}.npy.gz")]);
    roles.nodes.is_some()
        || roles.labels.is_some()
        || arrays.into_iter().any(|name| present(&folder.join(name)))
}

/// Reports the files of a folder that are not read together with the graph file `graph`.
pub(crate) fn report_unused(folder: &Path, graph: &str) {
    let Ok(roles) = Roles::named(folder) else { return };
    let mut used: Vec<String> = roles.files().iter().filter_map(|path| plain_name(path)).collect();
    if let Some(edges) = &roles.edges {
        used.retain(|name| Some(name) != plain_name(edges).as_ref());
    }
    used.extend(["features.npy", "labels.npy", "graphs.csv"].map(str::to_owned));
    used.push(graph.strip_suffix(".gz").unwrap_or(graph).to_owned());
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, &format!("{graph} is read"));
}

/// Returns whether a folder has an edge table, judging by file names and `data.toml`. Returns true
/// if `data.toml` cannot be read, so that reading the folder then reports the error.
pub(crate) fn has_edges(folder: &Path) -> bool {
    Roles::named(folder).map_or(true, |roles| roles.edges.is_some())
}

/// Returns whether a table with an arbitrary name is recognised as the edge table by its content.
///
/// # Errors
/// Returns the errors of [`Roles::found`].
pub(crate) fn finds_edges(folder: &Path) -> Result<bool> {
    Ok(Roles::found(folder)?.edges.is_some())
}

/// Reads a folder that has features, labels and optionally a split, but no edges. Vertices then
/// have no neighbours.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn open_rows(folder: &Path, request: Request<'_>) -> Result<Dataset> {
    let roles = Roles::named(folder)?;
    let parts = Parts::open(folder, &roles, (None, None), None, request)?;
    let (ids, file) = match &parts.features {
        Part::Array(bytes, path) => {
            let file = file::name(path);
            (Ids::dense(npy::parse(bytes, &file)?.rows() as u64), file)
        }
        Part::Table(table) => {
            table.find_header_of_numbers()?;
            (Ids::of_column(table, 0)?, table.file.clone())
        }
        Part::None => (Ids::dense(0), file::name(folder)),
    };
    check_vertices(ids.len(), || Place::whole(&file))?;
    if let Part::Table(table) = &parts.labels {
        ids_or_header(table, Some(&ids))?;
    }
    let graph = Graph::from_edges(ids.len(), std::iter::empty(), Options::default())?;
    let known = Attributes::from_parts(&parts, &ids, None, request)?;
    let used = parts.files();
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, "features and labels were read as rows without a graph");
    known.dataset(file::folder_name(folder), graph, None)
}
