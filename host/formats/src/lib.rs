//! Readers for data sets in common file formats. [`open`] recognises the format at a path, and
//! [`builtin`] returns the data sets that are part of this crate.
//!
//! Every reader returns an [`eciton_graph::dataset::Dataset`] that has been validated. Readers
//! never panic or execute code on invalid input. Errors are those of [`eciton_graph::error`], and
//! have the file and the position within it.
//!
//! ```
//! let cora = eciton_formats::builtin("cora")?;
//! assert_eq!((cora.graph.vertices(), cora.graph.edges()), (2708, 10556));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

pub mod array;
pub mod bundle;
mod column_names;
mod columnar;
mod columns;
mod conversions;
mod cora;
pub mod cost_report;
mod csr;
mod dictionary;
mod digits;
mod document;
mod edge_graph;
mod edge_rows;
mod edge_text;
pub mod file;
pub mod folder;
pub mod gzip;
mod header;
mod indices;
mod kinds;
mod labels;
mod lines;
pub mod matrix_market;
pub mod metis;
mod missing;
pub mod musae;
pub mod npy;
pub mod npz;
mod numbers;
pub mod ogb;
pub mod pairs;
pub mod pickle;
pub mod planetoid;
pub mod prepared;
mod request;
pub mod rows;
pub mod sequence;
pub mod settings;
mod similar_name;
pub mod snap;
mod sniff;
mod table;
pub mod tu;

pub use edge_text::EdgeText;
pub use file::MAX_FILE_BYTES;
pub use lines::MAX_LINE_BYTES;
pub use request::Request;
pub use sniff::{image_shape, is_prose};

use std::path::{Path, PathBuf};

use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_graph::edge_rule::{self, SelfLoops};
use eciton_graph::edges::EdgeSource;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::store;
use eciton_input::budget::Reading;
use eciton_input::threads::processors;

use file::parent;
use similar_name::nearest;

const KNOWN: &str = "a .npz of a known layout; a MatrixMarket file (.mtx), a METIS graph (.graph, \
     .metis), a GML, GraphML or node-link JSON document (.gml, .graphml, .json) or an edge list (.txt, .edges, .edgelist, .el, .tsv, .snap), each also packed (.gz); a \
     folder with store.json (Eciton's own), with edges.csv or another table of edges (and nodes or features, labels, split), with indptr.npy and indices.npy, with \
     raw/edge.csv.gz or raw/data.npz (OGB), with ind.NAME.graph (Planetoid), with NAME_edges.csv \
     and NAME_target.csv (MUSAE), with NAME_A.txt and NAME_graph_indicator.txt (TU), with .npz files, or with one of the files above; without a graph: a table with a column for labels (.csv, .parquet, .feather), a .npz with \
     x and y, a folder with features and labels, or with x.npy and y.npy";

/// Reader for a folder with several data sets, which receives the name of one of them.
type Reader = fn(&Path, &str, Request<'_>) -> Result<Dataset>;

/// Data set that is part of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Name of the data set, as accepted by [`builtin`].
    pub name: &'static str,
    /// One-line description of the data set.
    pub description: &'static str,
    /// True if the data set consists of rows without a graph.
    pub rows: bool,
}

/// Returns all built-in data sets.
pub fn builtins() -> &'static [Builtin] {
    &[
        Builtin {
            name: "cora",
            description: "2,708 papers of machine learning, 5,278 citations, 1,433 words, 7 fields; \
                 public split 140 / 500 / 1,000",
            rows: false,
        },
        Builtin {
            name: "digits",
            description: "1,797 handwritten digits of 8 x 8 grey values, without a graph; every fifth is for test",
            rows: true,
        },
    ]
}

/// Returns the built-in data set called `name`, ignoring case.
///
/// # Errors
/// Returns [`Error::UnknownDataset`] if there is no data set of this name. The error suggests the
/// most similar name.
pub fn builtin(name: &str) -> Result<Dataset> {
    let data = match name.to_lowercase().as_str() {
        "cora" => cora::load()?,
        "digits" => digits::load()?,
        other => {
            let known: Vec<String> = builtins().iter().map(|b| b.name.to_owned()).collect();
            let nearest = nearest(other, &known);
            return Err(Error::UnknownDataset { name: name.to_owned(), nearest, known });
        }
    };
    eciton_graph::label_report::report(&data.labels);
    Ok(data)
}

/// Reads the data set at `path` for a trained model. Columns are matched by the names of the
/// training data. Other columns are reported and skipped, and labels are optional.
///
/// # Errors
/// Returns the errors of [`open`]. Returns [`Error::Malformed`] if a feature column is missing.
pub fn open_expecting(path: &Path, name: Option<&str>, expected: &Expected) -> Result<Dataset> {
    open_with(path, name, Some(expected).into())
}

/// Reads the data set at `path`. `name` selects one of several data sets of a folder. Self-loops
/// are dropped, except those of a store (a graph that `eciton data convert` wrote).
///
/// # Errors
/// Returns [`Error::ChooseName`] if a name is required or unknown. Returns [`Error::UnknownLayout`]
/// with the names of the files if no layout matches. Also returns the errors of the format's
/// reader.
pub fn open(path: &Path, name: Option<&str>) -> Result<Dataset> {
    open_with(path, name, Request::default())
}

/// Reads the data set at `path` like [`open`], with the options of a [`Request`].
///
/// # Errors
/// Returns the errors of [`open`] and [`open_expecting`].
pub fn open_with(path: &Path, name: Option<&str>, request: Request<'_>) -> Result<Dataset> {
    let data = settled(path, read(path, name, request)?, request.self_loops)?;
    eciton_graph::label_report::report(&data.labels);
    Ok(data)
}

/// Keeps or drops the self-loops of a store as requested.
///
/// # Errors
/// Returns an error if the lists without self-loops do not fit into memory.
pub fn settled_store(data: Dataset, self_loops: Option<SelfLoops>) -> Result<Dataset> {
    if self_loops == Some(SelfLoops::Keep) && edge_rule::loops(&data.graph) == 0 {
        eciton_input::notes::fact(format!(
            "{}: the store has no self-loops; if it was converted without them, convert it again with \
                 --self-loops keep",
            data.name
        ));
    }
    edge_rule::settle(data, self_loops.unwrap_or(SelfLoops::Keep), true)
}

/// Keeps or drops the self-loops of a data set as requested. Readers return all self-loops.
fn settled(path: &Path, data: Dataset, self_loops: Option<SelfLoops>) -> Result<Dataset> {
    let has = |name: &str| path.join(name).exists();
    if has(store::DESCRIPTION) {
        return settled_store(data, self_loops);
    }
    let own = match path.is_dir() {
        true => has("indptr.npy") || folder::has_edges(path),
        false => data.edge_features.is_some() || !matches!(Kind::detect(path), Ok(Some(Kind::Bundle))),
    };
    edge_rule::settle(data, self_loops.unwrap_or_default(), own)
}

/// Reads the data set at `path`, including all self-loops.
fn read(path: &Path, name: Option<&str>, request: Request<'_>) -> Result<Dataset> {
    let expected = request.expected;
    let _reading = Reading::begin();
    let metadata = std::fs::metadata(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let alone = |name: Option<&str>| match name {
        None => Ok(()),
        Some(name) => Err(Error::NameNotUsed { path: path.to_owned(), name: name.to_owned() }),
    };
    if !metadata.is_dir() {
        alone(name)?;
        if ["edges.csv", "edges.csv.gz"].iter().any(|edges| path.ends_with(edges)) {
            return Err(Error::Malformed {
                place: Place::whole(path.display().to_string()),
                expected: format!("a data set: the folder `{}`", parent(path).display()),
                found: "only a table of edges".to_owned(),
                remedy: "give the folder, which also contains features, labels and split",
            });
        }
        return match Kind::detect(path)? {
            Some(Kind::Rows | Kind::EdgeList) if request.edge_label.is_some() => {
                folder::open_edges(path, request)
            }
            Some(Kind::Bundle) => bundle::open(path, expected),
            Some(Kind::MatrixMarket) => matrix_market::open(path, request),
            Some(Kind::Metis) => metis::open(path, request),
            Some(Kind::EdgeList) => snap::open(path, request),
            Some(Kind::Rows) => rows::text::open(path, request),
            Some(Kind::Document(format)) => document::open(path, format, request),
            None => {
                if let Some(error) = conversions::error(path) {
                    return Err(error);
                }
                let found = vec![file::name(path)];
                Err(Error::UnknownLayout { path: path.to_owned(), found, known: KNOWN })
            }
        };
    }
    let files = file::list(path)?;
    let has = |name: &str| files.iter().any(|f| f == name);
    if has(store::DESCRIPTION) {
        return alone(name).and_then(|()| store::open(path));
    }
    if has("indptr.npy") && has("indices.npy") {
        return alone(name).and_then(|()| prepared::open(path, expected));
    }
    if folder::has_edges(path) {
        return alone(name).and_then(|()| folder::open(path, request));
    }
    let parts = folder::has_parts(path);
    let graphs = if parts { graphs_with_parts(path, &files) } else { Vec::new() };
    if let Some(graph) = chosen(path, &graphs, name)? {
        let data = read(&path.join(graph), None, request)?;
        folder::report_unused(path, graph);
        return Ok(Dataset { name: file::folder_name(path), ..data });
    }
    if folder::has_rows(path, expected) {
        return alone(name).and_then(|()| folder::open_rows(path, request));
    }
    if let Some(files) = rows::files(path, expected) {
        return alone(name).and_then(|()| rows::folder(path, &files, expected));
    }
    if ogb::recognises(path) {
        return ogb::open(path, name);
    }
    let several: [(Vec<String>, Reader); 5] = [
        (planetoid::names(&files), |folder, name, _| planetoid::open(folder, name)),
        (musae::names(&files), |folder, name, _| musae::open(folder, name)),
        (tu::names(path, &files), |folder, name, _| tu::open(folder, name)),
        (bundle_names(&files), |folder, name, request| {
            bundle::open(&folder.join(format!("{name}.npz")), request.expected)
        }),
        (graph_names(&files), |folder, name, request| read(&folder.join(name), None, request)),
    ];
    let names: Vec<String> = several.iter().flat_map(|(names, _)| names.iter().cloned()).collect();
    let wanted = match (name, names.as_slice()) {
        (None, []) if folder::finds_edges(path)? => return folder::open(path, request),
        (_, []) => {
            if let Some(error) = files.iter().find_map(|name| conversions::error(Path::new(name))) {
                return Err(error);
            }
            let found = files.into_iter().take(20).collect();
            return Err(Error::UnknownLayout { path: path.to_owned(), found, known: KNOWN });
        }
        (Some(name), _) => name,
        (None, [one]) => one,
        (None, _) => "",
    };
    for (names, open) in several {
        if let Some(name) = names.iter().find(|n| n.eq_ignore_ascii_case(wanted)) {
            return open(path, name, request);
        }
    }
    Err(Error::ChooseName {
        path: path.to_owned(),
        name: name.map(str::to_owned),
        nearest: name.and_then(|n| nearest(n, &names)),
        names,
    })
}

/// Selects one of the graph files of a folder by its name. Returns `None` if there is no graph
/// file.
fn chosen<'a>(folder: &Path, graphs: &'a [String], name: Option<&str>) -> Result<Option<&'a String>> {
    match (graphs, name) {
        ([], _) => Ok(None),
        ([one], None) => Ok(Some(one)),
        (_, name) => {
            match graphs.iter().find(|graph| name.is_some_and(|name| graph.eq_ignore_ascii_case(name))) {
                Some(graph) => Ok(Some(graph)),
                None => Err(Error::ChooseName {
                    path: folder.to_owned(),
                    name: name.map(str::to_owned),
                    nearest: name.and_then(|name| nearest(name, graphs)),
                    names: graphs.to_vec(),
                }),
            }
        }
    }
}

fn bundle_names(files: &[String]) -> Vec<String> {
    files.iter().filter_map(|f| f.strip_suffix(".npz")).map(str::to_owned).collect()
}

/// Returns whether the data set at `path` consists of rows without a graph, judging by file names.
#[must_use]
pub fn is_rows(path: &Path) -> bool {
    if path.is_dir() {
        if path.join(store::DESCRIPTION).exists() {
            return store::has_no_edges(path);
        }
        let edges = folder::has_edges(path);
        let graphs = || file::list(path).is_ok_and(|files| !graphs_with_parts(path, &files).is_empty());
        return !edges
            && !path.join("indptr.npy").exists()
            && !graphs()
            && (folder::has_rows(path, None) || rows::files(path, None).is_some());
    }
    match path.is_file().then(|| Kind::detect(path)) {
        Some(Ok(Some(Kind::Rows))) => true,
        Some(Ok(Some(Kind::Bundle))) => {
            npz::Npz::open(path).is_ok_and(|npz| rows::names(&npz.keys(), None).is_some())
        }
        _ => false,
    }
}

/// Returns the names among `files` that are certainly graph files. Edge lists and node-link JSON
/// are excluded, because other files have the same extensions.
fn graph_names(files: &[String]) -> Vec<String> {
    let graph = |name: &&String| {
        let document = |format| format != document::Format::Json;
        let known = match Kind::by_name(Path::new(name)) {
            Some(Kind::MatrixMarket | Kind::Metis) => true,
            Some(Kind::Document(format)) => document(format),
            _ => false,
        };
        known && !name.starts_with("ind.")
    };
    files.iter().filter(graph).cloned().collect()
}

/// Returns the names of the graph files in a folder that also has features or labels. They are
/// those of [`graph_names`], or edge lists if there are none.
fn graphs_with_parts(folder: &Path, files: &[String]) -> Vec<String> {
    let known = graph_names(files);
    if !known.is_empty() {
        return known;
    }
    let list = |name: &&String| {
        let path = folder.join(name);
        // A .tsv file may be any table.
        matches!(Kind::by_name(&path), Some(Kind::EdgeList))
            && !name.contains(".tsv")
            && path.is_file()
            && !folder::roles::is_part(name)
            && snap::has_ids(&path)
    };
    files.iter().filter(list).cloned().collect()
}

/// Format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bundle,
    MatrixMarket,
    Metis,
    EdgeList,
    Rows,
    /// Graph document in GML, GraphML or node-link JSON.
    Document(document::Format),
}

impl Kind {
    /// Detects the format of a file by its first bytes, or else by its name.
    fn detect(path: &Path) -> Result<Option<Self>> {
        let mut start = Vec::new();
        // A file that cannot be uncompressed reports the error when it is read.
        let read = gzip::Source::open(path)?.read(&mut start, matrix_market::BANNER.len() as u64);
        match read.is_ok() && start.eq_ignore_ascii_case(matrix_market::BANNER) {
            true => Ok(Some(Self::MatrixMarket)),
            false => Ok(match Self::by_name(path) {
                Some(Self::EdgeList) if rows::text::names_labels(path) => Some(Self::Rows),
                kind => kind,
            }),
        }
    }

    fn by_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let extension = name.strip_suffix(".gz").unwrap_or(&name).rsplit_once('.')?.1;
        match extension {
            "npz" => Some(Self::Bundle),
            "mtx" => Some(Self::MatrixMarket),
            "csv" => Some(Self::Rows),
            other if columnar::ENDINGS.contains(&other) => Some(Self::Rows),
            other if document::Format::by_ending(other).is_some() => {
                document::Format::by_ending(other).map(Self::Document)
            }
            other if metis::EXTENSIONS.contains(&other) => Some(Self::Metis),
            other if snap::EXTENSIONS.contains(&other) => Some(Self::EdgeList),
            _ => None,
        }
    }
}

/// Graph file whose edges are read in chunks, so that it may exceed the memory.
pub struct Streamed {
    /// Short name of the data set, derived from the file name.
    pub name: String,
    /// Edges as listed in the file, each in one direction. The graph builder adds the other
    /// direction.
    pub edges: Box<dyn EdgeSource + Send>,
    /// Ids of the vertices in the file, which ascend if they are numbers.
    pub ids: VertexIds,
    folder: PathBuf,
}

impl Streamed {
    /// Reads features, labels and split of the vertices from the folder of the file, like
    /// [`folder::open`].
    ///
    /// # Errors
    /// Returns the errors of [`folder::open`].
    pub fn attributes(&self) -> Result<folder::Attributes> {
        folder::Attributes::beside(&self.folder, &self.ids, self.edges.vertices(), Request::default())
    }
}

/// Returns the edges of a plain MatrixMarket file or edge list for streaming, with their values.
/// The file is read once on all processors, to check it and to collect its ids.
///
/// Returns `None` for all other data, which [`open`] reads. This includes data sets of many graphs,
/// which have a file `graphs.csv`.
///
/// # Errors
/// Returns the errors of [`snap::edges`] and [`matrix_market::edges`].
pub fn stream(path: &Path) -> Result<Option<Streamed>> {
    let many = folder::graphs_beside(parent(path)).is_some();
    if many || !path.is_file() || gzip::Source::open(path)?.packed() {
        return Ok(None);
    }
    let (edges, ids) = match Kind::detect(path)? {
        Some(Kind::MatrixMarket) => matrix_market::edges(path, processors())?,
        Some(Kind::EdgeList) => snap::edges(path, processors())?,
        _ => return Ok(None),
    };
    let folder = parent(path).to_owned();
    Ok(Some(Streamed { name: file::stem(path), edges: Box::new(edges), ids, folder }))
}
