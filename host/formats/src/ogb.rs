//! Reader for the node and graph property data sets of the Open Graph Benchmark (Hu et al. 2020),
//! in the layout of an unpacked download.
//!
//! ```text
//! ogbn_arxiv/
//! raw/edge.csv.gz            source, target: one edge a line
//! raw/num-node-list.csv.gz   one number: the vertices
//! raw/num-edge-list.csv.gz   one number: the edges
//! raw/node-feat.csv.gz       one row of numbers a vertex, if there are features
//! raw/edge-feat.csv.gz       one row of numbers an edge, if there are features of edges
//! raw/node-label.csv.gz      one class a vertex, or several flags or numbers; empty or nan: unknown
//! split/time/{train,valid,test}.csv.gz   vertex ids
//! ```
//!
//! A graph property data set has `graph-label` instead of `node-label`. Its files `num-node-list`
//! and `num-edge-list` have one line per graph:
//!
//! ```text
//! ogbg_molhiv/
//! raw/edge.csv.gz            source, target: one edge a line, graph after graph; ids from 0 in each graph
//! raw/num-node-list.csv.gz   the vertices of each graph, at least one
//! raw/num-edge-list.csv.gz   the lines of each graph in edge.csv.gz
//! raw/graph-label.csv.gz     of each graph one class, or several flags or numbers; empty or nan: unknown
//! split/scaffold/{train,valid,test}.csv.gz   graph numbers, from 0
//! ```
//!
//! The features are as above. Without vertex features, each vertex has the constant 1. Data sets of
//! many graphs are read from tables only.
//!
//! For a single graph, `raw` may contain `data.npz` (`edge_index [2, E]`, `num_nodes_list`,
//! `num_edges_list`, `node_feat [V, columns]`, `edge_feat [E, columns]`) and `node-label.npz`
//! (`node_label`) instead of the tables. Tables are plain or compressed with gzip. Every edge is
//! used in both directions with the same features, as in the benchmark's own examples for GCN.
//! Repeated edges follow the rule of [`eciton_graph::edge_rule`]. Further columns of vertices are
//! not read, and heterogeneous graphs are rejected. If `split` contains several schemes, the name
//! selects one.

use std::path::{Path, PathBuf};

use eciton_graph::adjacency::check_vertices;
use eciton_graph::corrections::{Collector, Corrections, Number};
use eciton_graph::dataset::{Dataset, Names};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::graphs::Graphs;
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::file::present;

use super::array::Array;
use super::edge_rows::EdgeRows;
use super::edge_text::{excerpt, pairs};
use super::file::{Bytes, Grown};
use super::lines::Lines;
use super::npy::Npy;
use super::npz::Npz;
use super::snap::at_line;
use super::{bundle, file, labels, npy};

/// Maximum number of columns of a feature table.
pub const MAX_COLUMNS: usize = 1 << 20;
/// Number of vertices that are allowed in addition to two per edge, in a data set without features
/// and labels.
const FREE_VERTICES: u64 = 1 << 20;
/// Number of vertices that are allowed in addition to two per edge, in a data set of many graphs
/// without features. These graphs are small.
const FREE_VERTICES_OF_MANY: u64 = 1 << 16;

/// Returns whether a folder has the layout of the Open Graph Benchmark.
pub(crate) fn recognises(folder: &Path) -> bool {
    let raw = folder.join("raw");
    ["edge.csv.gz", "edge.csv", "data.npz", "relations", "num-node-dict.csv.gz"]
        .iter()
        .any(|name| raw.join(name).exists())
}

/// Contents of the folder `raw`.
struct Raw {
    vertices: u64,
    edges: Vec<(u32, u32)>,
    features: Option<Features>,
    edge_rows: Option<EdgeRows>,
    /// Labels with one row per vertex, or with one row per graph in a data set of many graphs.
    labels: Option<Labels>,
    /// First vertex of each graph. `None` for a single graph.
    first: Option<Vec<u32>>,
}

/// Reads a folder in the layout of the Open Graph Benchmark. `scheme` selects one of several
/// splits. Reading needs memory for the graph, 8 bytes per edge, the features, and the edge
/// features twice. For `data.npz`, it also needs memory for the whole file.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line or row if the content is invalid, and
/// [`Error::UnknownVertex`] if a vertex does not exist. Returns [`Error::Mismatch`] if the files
/// are inconsistent. Returns [`Error::ChooseName`] if a scheme is required or unknown, and
/// [`Error::Limit`] if there are too many vertices or columns. Also returns the errors of
/// [`Dataset::validate`].
pub fn open(folder: &Path, scheme: Option<&str>) -> Result<Dataset> {
    let raw = folder.join("raw");
    if raw.join("relations").exists() || find(&raw, "num-node-dict").is_some() {
        return Err(Error::Malformed {
            place: Place::whole(file::name(&raw)),
            expected: "a graph with one kind of vertices".to_owned(),
            found: "a heterogeneous graph (relations, num-node-dict)".to_owned(),
            remedy: "write one relation as edges.csv with features.csv and labels.csv",
        });
    }
    let read = match present(&raw.join("data.npz")) {
        true => Raw::binary(&raw)?,
        false => Raw::tables(&raw)?,
    };
    let vertices = read.vertices;
    let labels = match (read.labels, &read.first) {
        (None, _) => Labels::none(vertices as u32),
        (Some(labels), None) => labels,
        (Some(labels), Some(first)) => labels.at_vertices(first, vertices as u32, &file::name(&raw))?,
    };
    let graphs = read.first.as_deref().map(|first| graphs(first, vertices)).transpose()?;
    let name = file::folder_name(folder);
    let (graph, edge_features) =
        super::edge_graph::graph_of(&name, vertices, &read.edges, read.edge_rows.as_ref(), true)?;
    drop((read.edges, read.edge_rows));
    let features = match (read.features, &graphs) {
        (Some(features), _) => features,
        (None, Some(_)) => Features::constant(vertices)?,
        (None, None) => Features::identity(vertices as u32),
    };
    let (split, drawn) = match split(folder, scheme, vertices, read.first.as_deref())? {
        Some(split) => (split, String::new()),
        None => (Split::random(&labels, [0.6, 0.2], 0), DRAWN.to_owned()),
    };
    let names = Names { split: drawn, ..Names::default() };
    Dataset { edge_features, graphs, names, ..Dataset::new(name, graph, features, labels, split) }.checked()
}

/// Returns the assignment of vertices to graphs. `first` has the first vertex of each graph.
fn graphs(first: &[u32], vertices: u64) -> Result<Graphs> {
    let ends = first.iter().skip(1).copied().chain([vertices as u32]);
    let of =
        (0..).zip(first.iter().zip(ends)).flat_map(|(graph, (&from, to))| (from..to).map(move |_| graph));
    Graphs::new(&of.collect::<Vec<u64>>())
}

fn find(folder: &Path, stem: &str) -> Option<PathBuf> {
    ["csv.gz", "csv"].iter().map(|e| folder.join(format!("{stem}.{e}"))).find(|path| present(path))
}

fn needed(folder: &Path, stem: &str) -> Result<PathBuf> {
    find(folder, stem).ok_or_else(|| Error::Read {
        path: folder.join(format!("{stem}.csv.gz")),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

fn mismatch(file: String, what: &'static str, found: u64, expected: u64, other: &str) -> Error {
    Error::Mismatch { place: Place::whole(file), what, found, expected, other: other.to_owned() }
}

impl Raw {
    fn tables(raw: &Path) -> Result<Self> {
        let sizes = Sizes::open(raw)?;
        let Sizes { vertices, edges: expected, .. } = sizes;
        let path = needed(raw, "edge")?;
        let mut lines = Lines::open(&path)?;
        let name = lines.file().to_owned();
        let mut edges = Grown::new(&name);
        let mut graph = 0;
        while let Some((first, block)) = lines.next()? {
            let edges = edges.room(block.len() / 4 + 1)?;
            pairs(block, 2, |source, target| {
                let (from, size) = sizes.of_edge(edges.len() as u64, &mut graph);
                let known = |id: u64| match id < size {
                    true => Ok(from + id as u32),
                    false if sizes.many() => Err(format!("vertices of 0..{size}, those of graph {graph}")),
                    false => Err(format!("vertices of 0..{size}")),
                };
                edges.push((known(source)?, known(target)?));
                Ok(())
            })
            .map_err(|fault| at_line(&name, first, block, fault))?;
        }
        if edges.len() as u64 != expected {
            return Err(mismatch(name, "edges", edges.len() as u64, expected, "num-edge-list"));
        }
        let nodes = (vertices, "num-node-list");
        let features = find(raw, "node-feat").map(|path| table(&path, nodes)).transpose()?;
        let features = features
            .map(|(columns, values, found)| {
                Ok::<_, Error>(Features::from_dense(columns, &values)?.with_corrections(found))
            })
            .transpose()?;
        let edge_rows = match find(raw, "edge-feat") {
            Some(path) => {
                let (columns, values, _) = table(&path, (expected, "num-edge-list"))?;
                Some(EdgeRows::new(columns as usize, values, &file::name(&path))?)
            }
            None => None,
        };
        let (labels, rows) = match sizes.many() {
            true => ("graph-label", (sizes.each.len() as u64, "num-node-list")),
            false => ("node-label", nodes),
        };
        let labels = match find(raw, labels) {
            Some(path) => {
                let (columns, values, _) = table(&path, rows)?;
                let file = file::name(&path);
                Some(match columns {
                    1 => labels::from_floats(values, &file)?.0,
                    _ => labels::from_columns(columns, values, &file)?,
                })
            }
            None => None,
        };
        let (edges, first) = (edges.finish(), sizes.first());
        Self { vertices, edges, features, edge_rows, labels, first }.checked(raw)
    }

    fn binary(raw: &Path) -> Result<Self> {
        let mut npz = Npz::open(&raw.join("data.npz"))?;
        let keys = npz.keys();
        let vertices = with(&mut npz, "num_nodes_list", one_number)?;
        let expected = with(&mut npz, "num_edges_list", one_number)?;
        check_vertices(vertices, || Place::whole(file::name(&raw.join("data.npz"))))?;
        let edges: Vec<(u32, u32)> = with(&mut npz, "edge_index", |array| {
            array.expect_axes(2, "edge_index [2, E]")?;
            let edges = array.columns();
            if array.rows() != 2 || edges as u64 != expected {
                return Err(Error::malformed(
                    Place::whole(&array.file),
                    format!("shape [2, {expected}] (num_edges_list)"),
                    format!("{:?}", array.shape),
                ));
            }
            let ids = array.to_u32()?;
            if let Some(at) = ids.iter().position(|&id| u64::from(id) >= vertices) {
                return Err(Error::UnknownVertex {
                    place: Place::row(&array.file, (at / edges.max(1)) as u64),
                    vertex: ids.get(at).map(u32::to_string).unwrap_or_default(),
                    known: format!("vertices are 0..{vertices}"),
                });
            }
            let (sources, targets) = ids.split_at(ids.len() / 2);
            Ok(sources.iter().copied().zip(targets.iter().copied()).collect())
        })?;
        let features = match keys.iter().any(|key| key == "node_feat") {
            true => Some(with(&mut npz, "node_feat", |array| {
                rows(&array, vertices)?;
                bundle::dense(array)
            })?),
            false => None,
        };
        let edge_rows = match keys.iter().any(|key| key == "edge_feat") {
            true => {
                let (bytes, place) = (npz.entry("edge_feat")?, npz.place("edge_feat"));
                let array = Npy::parse(&bytes, &place)?;
                // The benchmark's package stores Python's None if there are no edge features.
                let read =
                    |array: Npy<'_>| EdgeRows::of_array(&array.array()?, edges.len(), "num_edges_list");
                Some(array).filter(|array| !array.is_one_object()).map(read).transpose()?
            }
            false => None,
        };
        drop(npz);
        let path = raw.join("node-label.npz");
        let labels = match present(&path) {
            true => {
                let labels = with(&mut Npz::open(&path)?, "node_label", |array| {
                    rows(&array, vertices)?;
                    Ok(labels::from_array(&array)?.0)
                })?;
                Some(labels)
            }
            false => None,
        };
        Self { vertices, edges, features, edge_rows, labels, first: None }.checked(raw)
    }

    /// Checks that the number of vertices is not much larger than the other files suggest.
    fn checked(self, raw: &Path) -> Result<Self> {
        let (free, listed) = match self.first {
            Some(_) => (FREE_VERTICES_OF_MANY, self.features.is_some()),
            None => (FREE_VERTICES, self.features.is_some() || self.labels.is_some()),
        };
        let allowed = free + 2 * self.edges.len() as u64;
        if listed || self.vertices <= allowed {
            return Ok(self);
        }
        Err(Error::Limit {
            place: Place::whole(file::name(raw)),
            limit: "vertices without features, labels and edges",
            unit: "vertices",
            allowed,
            found: self.vertices,
            remedy: "add node-feat or node-label, or remove vertices without edges",
        })
    }
}

fn with<T>(
    npz: &mut Npz<std::io::Cursor<Bytes>>,
    key: &str,
    read: impl FnOnce(Array<'_>) -> Result<T>,
) -> Result<T> {
    let (bytes, place) = (npz.entry(key)?, npz.place(key));
    read(npy::parse(&bytes, &place)?)
}

fn rows(array: &Array<'_>, vertices: u64) -> Result<()> {
    match array.rows() as u64 {
        found if found == vertices => Ok(()),
        found => Err(mismatch(array.file.clone(), "rows", found, vertices, "num_nodes_list")),
    }
}

fn several(place: Place, found: String) -> Error {
    Error::Malformed {
        place,
        expected: "one number, because data.npz contains a single graph".to_owned(),
        found,
        remedy: "for several graphs, use the tables (edge.csv.gz) instead of data.npz",
    }
}

fn one_number(array: Array<'_>) -> Result<u64> {
    match array.to_u64()?.as_slice() {
        &[number] => Ok(number),
        other => Err(several(Place::whole(&array.file), format!("{} numbers", other.len()))),
    }
}

/// Numbers of vertices and edges, in total and per graph.
struct Sizes {
    vertices: u64,
    edges: u64,
    /// First vertex, number of vertices, and cumulative number of edges of each graph. There is at
    /// least one graph.
    each: Vec<(u32, u64, u64)>,
    /// True for a graph property data set. It may have a single graph.
    of_graphs: bool,
}

impl Sizes {
    /// Reads the sizes from the tables `num-node-list` and `num-edge-list` in `raw`.
    fn open(raw: &Path) -> Result<Self> {
        let [nodes, lines] = [needed(raw, "num-node-list")?, needed(raw, "num-edge-list")?];
        let of_graphs = find(raw, "graph-label").is_some();
        let name = file::name(&nodes);
        let [vertices, edges] = [counts(&nodes)?, counts(&lines)?];
        if vertices.len() != edges.len() {
            let (found, expected) = (edges.len() as u64, vertices.len() as u64);
            return Err(mismatch(file::name(&lines), "graphs", found, expected, "num-node-list"));
        }
        let many = of_graphs || vertices.len() > 1;
        let mut made = Self { vertices: 0, edges: 0, each: Vec::with_capacity(edges.len()), of_graphs };
        for (&(line, vertices), &(_, edges)) in vertices.iter().zip(&edges) {
            if many && vertices == 0 {
                return Err(Error::Malformed {
                    place: Place::line(&name, line),
                    expected: "graphs of at least one vertex".to_owned(),
                    found: format!("none in graph {}", made.each.len()),
                    remedy: "remove the graph, its label and its entry in the split",
                });
            }
            let from = made.vertices as u32;
            made.vertices = made.vertices.saturating_add(vertices);
            check_vertices(made.vertices, || Place::line(&name, line))?;
            made.edges = made.edges.saturating_add(edges);
            made.each.push((from, vertices, made.edges));
        }
        Ok(made)
    }

    /// Returns whether this is a data set of many graphs.
    fn many(&self) -> bool {
        self.of_graphs || self.each.len() > 1
    }

    /// Returns the first vertex of each graph, or `None` for a single graph.
    fn first(&self) -> Option<Vec<u32>> {
        self.many().then(|| self.each.iter().map(|&(from, ..)| from).collect())
    }

    /// Returns the first vertex and the number of vertices of the graph that contains the edge with
    /// index `at`. `graph` is the graph of the previous edge, and is updated. Surplus edges belong
    /// to the last graph.
    fn of_edge(&self, at: u64, graph: &mut usize) -> (u32, u64) {
        while self.each.get(*graph).is_some_and(|of| of.2 <= at) && *graph + 1 < self.each.len() {
            *graph += 1;
        }
        self.each.get(*graph).map_or((0, 0), |&(from, vertices, _)| (from, vertices))
    }
}

/// Reads a table with one number per line. Returns the line and the number of each. There is at
/// least one number.
fn counts(path: &Path) -> Result<Vec<(u64, u64)>> {
    let name = file::name(path);
    let mut found = Grown::new(&name);
    let wrong = |place, found| Error::malformed(place, "one number per line, one line per graph", found);
    Lines::open(path)?.each(|number, line| {
        let text = String::from_utf8_lossy(line.trim_ascii());
        if text.is_empty() {
            return Ok(());
        }
        let count = text.parse().map_err(|_| wrong(Place::line(&name, number), excerpt(line)))?;
        found.push((number, count))
    })?;
    match found.is_empty() {
        true => Err(wrong(Place::whole(&name), "none".to_owned())),
        false => {
            // Memory for each graph: its index, its vertices and its edges.
            file::charge(&name, 24 * found.len() as u64)?.keep();
            Ok(found.finish())
        }
    }
}

/// Reads a table of numbers in row-major order. Returns the number of columns, the values, and
/// corrections for values that f32 cannot represent exactly.
///
/// An empty field or `nan` is NaN, and blank lines are skipped. `rows` is the expected number of
/// rows, and `other` is the file that states it.
fn table(path: &Path, (rows, other): (u64, &str)) -> Result<(u32, Vec<f32>, Corrections)> {
    let name = file::name(path);
    let (mut columns, mut values, mut found) = (0usize, Grown::new(&name), 0u64);
    let mut corrections = Collector::dense(&name);
    Lines::open(path)?.each(|number, line| {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let before = values.len();
        for (column, field) in (0u32..).zip(line.split(|&byte| byte == b',')) {
            let field = field.trim_ascii();
            let value = match field {
                b"" | b"\"\"" => Some(Number { rounded: f32::NAN, residual: 0.0 }),
                _ => std::str::from_utf8(field).ok().and_then(Number::parse),
            };
            let value = value
                .ok_or_else(|| Error::malformed(Place::line(&name, number), "a number", excerpt(field)))?;
            // There are fewer than 2^32 vertices. More rows are refused below.
            values.push(corrections.push(found as u32, column, value))?;
        }
        let width = values.len() - before;
        if found == 0 {
            columns = width;
        }
        found += 1;
        if width != columns || width > MAX_COLUMNS || found > rows {
            let expected = match found > rows {
                true => format!("{rows} rows ({other})"),
                false => format!("{} fields", columns.min(MAX_COLUMNS)),
            };
            return Err(Error::malformed(Place::line(&name, number), expected, format!("{width} fields")));
        }
        Ok(())
    })?;
    match found == rows {
        true => Ok((columns as u32, values.finish(), corrections.finish())),
        false => Err(mismatch(name, "rows", found, rows, other)),
    }
}

/// Reads the split of a scheme. Returns `None` if the folder has no splits. `first` has the first
/// vertex of each graph, in a data set of many graphs.
fn split(folder: &Path, scheme: Option<&str>, vertices: u64, first: Option<&[u32]>) -> Result<Option<Split>> {
    let parent = folder.join("split");
    if !parent.is_dir() {
        return Ok(None);
    }
    let mut names = file::list(&parent)?;
    names.retain(|name| parent.join(name).is_dir());
    let chosen = match (scheme, names.as_slice()) {
        (_, []) => return Ok(None),
        (Some(scheme), _) => names.iter().find(|name| name.eq_ignore_ascii_case(scheme)),
        (None, [one]) => Some(one),
        (None, _) => None,
    };
    let Some(chosen) = chosen else {
        return Err(Error::ChooseName {
            path: parent,
            name: scheme.map(str::to_owned),
            nearest: scheme.and_then(|scheme| super::similar_name::nearest(scheme, &names)),
            names,
        });
    };
    let folder = parent.join(chosen);
    let part = |name: &str| match first {
        None => ids(&needed(&folder, name)?, "vertex", vertices),
        Some(first) => {
            let graphs = ids(&needed(&folder, name)?, "graph", first.len() as u64)?;
            Ok(graphs.into_iter().map(|graph| first[graph as usize]).collect())
        }
    };
    let split = Split { train: part("train")?, validation: part("valid")?, test: part("test")? };
    Ok(Some(split.sorted()))
}

/// Reads the ids in the first column of a table. `what` is `vertex` or `graph` for messages, and
/// all ids must be below `known`.
fn ids(path: &Path, what: &str, known: u64) -> Result<Vec<u32>> {
    let (name, mut found) = (file::name(path), Vec::new());
    Lines::open(path)?.each(|number, line| {
        let first = line.split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
        if first.is_empty() {
            return Ok(());
        }
        let id = std::str::from_utf8(first).ok().and_then(|text| text.parse::<u64>().ok());
        match id.filter(|&id| id < known) {
            // No id may occur twice, so a longer list is already invalid.
            Some(id) if (found.len() as u64) <= known => found.push(id as u32),
            Some(_) => {}
            None => {
                let expected = format!("a {what} of 0..{known}");
                return Err(Error::malformed(Place::line(&name, number), expected, excerpt(first)));
            }
        }
        Ok(())
    })?;
    super::indices::refuse_mask(&found, usize::try_from(known).unwrap_or(usize::MAX), &name)?;
    Ok(found)
}
