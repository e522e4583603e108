//! A plain folder of one's own: `edges.{csv,tsv,txt}` and optionally features, labels and a split.
//!
//! Each file may be packed with gzip, as `edges.csv.gz` or under its plain name.
//!
//! * `edges.csv`: source, target, and perhaps features of the edge: each further column whose field in
//!   the first record is a number (then every record has a finite one there); other columns are ignored.
//!   Ids are any words or whole numbers. Every edge counts in both directions, with the same features;
//!   an edge that several records name has their mean. In place of such columns there may be
//!   `edge_features.npy [records of edges.csv, columns]`.
//! * `features.csv`: id, then one number a column; or `features.npy [V, columns]` for ids 0..V.
//!   Without either, each vertex gets a feature of its own (identity).
//! * `labels.csv`: id, class (a whole number from 0, or a word; empty or -1 is none), or id, number
//!   (where a number has a fraction or an exponent, or is negative and not -1; empty is none). With
//!   several columns of numbers: flags where all are 0, 1 or empty, else numbers. Or `labels.npy [V]`
//!   (floats with a fraction, or negative and not -1, are numbers) or `[V, labels]`, NaN is none.
//!   Without either the data can be loaded but nothing can be trained.
//! * `split.csv`: id, `train`, `val` or `test`. Without it 60 / 20 / 20 % of the labelled vertices
//!   are drawn from seed 0 ([`Split::random`]).
//! * `graphs.csv`: id, graph (a word or whole number): which graph each vertex belongs to, of all vertices.
//!   Then labels and split are of graphs: their ids are those of graphs, and `labels.npy` has a row a graph
//!   where these are 0 to the last. Without features each vertex has the constant 1.
//!
//! Lines that start with `#` are comments. The first line of a `.csv` is a header if its id field is
//! one of `id, node, vertex, source, src, from, u, id_1, target...`, or if it is the only line whose
//! id is not a number. `.tsv` files are separated by tabs, `.txt` by blanks, tabs or commas.
//!
//! Vertices are the ids of `features.*` if there is one (an edge or label of another id is an error),
//! else those of `graphs.csv`, else all ids of labels and edges. Numbers are sorted, words keep the order of first appearance.

mod edges;
mod graphs;
mod ids;
mod labels;

use std::path::{Path, PathBuf};

use eciton_graph::adjacency::{Graph, Options, check_vertices};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::graphs::{Graphs, apart_error};
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::file::present;

use self::edges::Edges;
use self::graphs::GraphIds;
use self::ids::{Ids, Lookup, Placed};
use self::labels::{is_unknown, label_table};
use super::edge_rows::EdgeRows;
use super::file::Bytes;
use super::table::{Table, is_header, is_number};
use super::{bundle, file, labels as arrays, npy};

pub(super) use graphs::graphs_beside;
pub(super) use ids::canonical;
pub(super) use labels::{number, whole};

/// The names of an edge table.
pub(crate) const EDGES: [&str; 6] =
    ["edges.csv", "edges.tsv", "edges.txt", "edges.csv.gz", "edges.tsv.gz", "edges.txt.gz"];

/// Reads such a folder. Memory: 8 bytes an edge beside the graph, and the columns of edges.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::UnknownVertex`], [`Error::EmptyGraph`], and those of
/// [`Dataset::validate`].
pub fn open(folder: &Path) -> Result<Dataset> {
    let Some(edges) = find(folder, "edges") else {
        return Err(Error::UnknownLayout {
            path: folder.to_owned(),
            found: file::list(folder)?.into_iter().take(20).collect(),
            known: "edges.csv, edges.tsv or edges.txt",
        });
    };
    let edges = Table::open(&edges)?;
    let features = Part::open(folder, "features")?;
    let labels = Part::open(folder, "labels")?;
    let of_graphs = find(folder, "graphs").map(|path| Table::open(&path)).transpose()?;
    let known = match (&features, &labels, &of_graphs) {
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
        (Part::None, _, Some(table)) => {
            table.find_header_of_words()?;
            Some(Ids::of_column(table, 0)?)
        }
        _ => None,
    };
    let (ids, read) = match known {
        Some(ids) => {
            check_vertices(ids.len(), || Place::whole(&edges.file))?;
            let read = Edges::between(&edges, &ids)?;
            (ids, read)
        }
        None => {
            let labels = match &labels {
                Part::Table(table) => Some(table),
                _ => None,
            };
            match Edges::numbered(&edges, labels)? {
                Some(found) => found,
                None => Edges::worded(&edges, labels)?,
            }
        }
    };
    let vertices = ids.len();
    check_vertices(vertices, || Place::whole(&edges.file))?;
    if let Some(table) = &of_graphs
        && !matches!(features, Part::None)
    {
        ids_or_header(table, Some(&ids))?;
    }
    if let Part::Table(table) = &labels
        && (!matches!(features, Part::None) || of_graphs.is_some())
    {
        ids_or_header(table, of_graphs.is_none().then_some(&ids))?;
    }

    let graphs = of_graphs.as_ref().map(|table| GraphIds::of(table, &ids)).transpose()?;
    if let Some(GraphIds { graphs, .. }) = &graphs {
        let graph_of = |vertex: u32| graphs.of().get(vertex as usize);
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
    let graph = super::graph(&(vertices, pairs))?;
    let rows = EdgeRows::of_folder(folder, &edges, read.columns, pairs.len())?;
    let edge_names = rows.as_ref().map(|rows| rows.names.clone()).unwrap_or_default();
    let placed = rows.map(|rows| rows.placed(&graph, pairs, Options::default())).transpose()?;
    let mut known = Attributes::of(folder, &features, &labels, &ids, graphs)?;
    known.names.edge_features = edge_names;
    known.dataset(file::folder_name(folder), graph, placed, ids.names)
}

/// Whether a folder has features and labels, and no edges.
pub(crate) fn has_rows(folder: &Path) -> bool {
    let has = |name: &str| {
        find(folder, name).is_some()
            || ["npy", "npy.gz"].iter().any(|e| present(&folder.join(format!("{name}.{e}"))))
    };
    has("features") && has("labels") && find(folder, "edges").is_none()
}

/// Reads a folder of features and labels, and perhaps a split, without edges: no vertex has a neighbour.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_rows(folder: &Path) -> Result<Dataset> {
    let features = Part::open(folder, "features")?;
    let labels = Part::open(folder, "labels")?;
    let (ids, file) = match &features {
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
    if let Part::Table(table) = &labels {
        ids_or_header(table, Some(&ids))?;
    }
    let graph = Graph::from_edges(ids.len(), std::iter::empty(), Options::default())?;
    let known = Attributes::of(folder, &features, &labels, &ids, None)?;
    known.dataset(file::folder_name(folder), graph, None, ids.names)
}

/// Finds whether the first row of a table is a header: where `ids` are known its id is none of them.
fn ids_or_header(table: &Table, ids: Option<&Ids>) -> Result<()> {
    let Some(ids) = ids else { return table.find_header_of_words() };
    let first = table.first(2)?;
    let word = first.get(0);
    let header = word.is_empty() || (!is_number(word) && !is_unknown(word) && ids.position(word).is_none());
    table.header.set(header);
    if header && ids.are_words() && !is_header(word) {
        table.note(true, "its id is none of the data set's");
    }
    Ok(())
}

/// What a folder says of vertices: features, labels and a split, and their graphs where there are many.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// One row a vertex; where there is no file, a feature of its own each, or 1 where there are many graphs.
    pub features: Features,
    /// No class for any vertex where there is no file.
    pub labels: Labels,
    /// 60 / 20 / 20 % of the labelled vertices where there is no file.
    pub split: Split,
    /// None where there is no `graphs.csv`.
    pub graphs: Option<Graphs>,
    /// Names of classes and columns that headers and labels give.
    pub names: Names,
}

impl Attributes {
    /// Reads `features`, `labels`, `split` and `graphs.csv` of a folder, whichever there are, for vertices that
    /// are known already: `ids` is what the files call them (numbers ascend), `vertices` how many
    /// there are.
    ///
    /// # Errors
    /// As [`open`].
    pub fn beside(folder: &Path, ids: &VertexIds, vertices: u64) -> Result<Self> {
        let lookup = match ids {
            VertexIds::Words(words) => Lookup::Words(words.iter().map(|w| (&**w).into()).zip(0..).collect()),
            VertexIds::Numbers(_) => Lookup::Sorted,
            VertexIds::Dense => Lookup::Dense,
        };
        let ids = Ids { names: ids.clone(), lookup, count: vertices, of_graphs: false };
        let features = Part::open(folder, "features")?;
        let labels = Part::open(folder, "labels")?;
        let table = graphs_beside(folder).map(|path| Table::open(&path)).transpose()?;
        if let Part::Table(features) = &features {
            features.find_header_of_numbers()?;
        }
        if let Part::Table(labels) = &labels {
            ids_or_header(labels, table.is_none().then_some(&ids))?;
        }
        if let Some(table) = &table {
            ids_or_header(table, Some(&ids))?;
        }
        let graphs = table.as_ref().map(|table| GraphIds::of(table, &ids)).transpose()?;
        Self::of(folder, &features, &labels, &ids, graphs)
    }

    fn of(
        folder: &Path,
        features: &Part,
        labels: &Part,
        ids: &Ids,
        graphs: Option<GraphIds>,
    ) -> Result<Self> {
        let mut names = Names::default();
        if let Part::Table(table) = features {
            names.features = table.names(1)?;
        }
        let features = match features {
            Part::None if graphs.is_some() => Features::constant(ids.len())?,
            Part::None => Features::identity(ids.len() as u32),
            Part::Array(bytes, path) => bundle::dense(npy::parse(bytes, &file::name(path))?)?,
            Part::Table(table) => numbers(table, ids)?,
        };
        // A header may name fewer columns than lines have.
        if names.features.len() != features.columns() as usize {
            names.features.clear();
        }
        let labelled = graphs.as_ref().map_or(ids, |graphs| &graphs.ids);
        let has_labels = !matches!(labels, Part::None);
        let (mut labels, file) = match labels {
            Part::None => (Labels::none(labelled.len() as u32), String::new()),
            Part::Array(bytes, path) => {
                let file = file::name(path);
                let array = npy::parse(bytes, &file)?;
                graphs.as_ref().map_or(Ok(()), |graphs| graphs.check_rows(&array))?;
                (arrays::from_array(&array)?, file)
            }
            Part::Table(table) => {
                let (labels, known) = label_table(table, labelled)?;
                names.labels = known;
                (labels, table.file.clone())
            }
        };
        if let Some(graphs) = &graphs {
            labels = labels.at_vertices(&graphs.at, ids.len() as u32, &file)?;
        }
        let split = match find(folder, "split") {
            Some(path) if !has_labels => {
                Table::open(&path)?;
                eciton_input::notes::add(format!(
                    "{} is not used: there are no labels beside it (labels.csv or labels.npy)",
                    file::name(&path)
                ));
                Split::default()
            }
            Some(path) => {
                let table = Table::open(&path)?;
                let found = split(&table, labelled, graphs.as_ref().map(|graphs| &graphs.at[..]))?;
                of_labelled(found, &labels, &table, ids)
            }
            None => {
                names.split = DRAWN.to_owned();
                Split::random(&labels, [0.6, 0.2], 0)
            }
        };
        Ok(Self { features, labels, split, graphs: graphs.map(|graphs| graphs.graphs), names })
    }

    /// The data set of a graph and what is known of its vertices and edges.
    ///
    /// # Errors
    /// Those of [`Dataset::validate`].
    pub fn dataset(
        self,
        name: String,
        graph: Graph,
        edge_features: Option<EdgeFeatures>,
        ids: VertexIds,
    ) -> Result<Dataset> {
        let Self { features, labels, split, graphs, names } = self;
        Dataset { edge_features, graphs, ids, names, ..Dataset::new(name, graph, features, labels, split) }
            .checked()
    }
}

/// The table `name` of a folder, in one of the known spellings.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz"]
        .iter()
        .map(|extension| folder.join(format!("{name}.{extension}")))
        .find(|path| present(path))
}

/// Features or labels, if there are any.
enum Part {
    None,
    Array(Bytes, PathBuf),
    Table(Table),
}

impl Part {
    fn open(folder: &Path, name: &str) -> Result<Self> {
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

fn numbers(table: &Table, ids: &Ids) -> Result<Features> {
    let first = table.rows(2)?.next()?.map(|row| row.len() - 1);
    let Some(columns) = first else { return Err(table.empty("a row of features at least")) };
    let cells = ids.len().saturating_mul(columns as u64);
    // The values, and their copy in the data set.
    let _charge = file::charge(&table.file, cells.saturating_mul(8))?;
    let (mut values, mut placed) = (vec![0f32; cells as usize], Placed::new(ids));
    table.each(2, |row| {
        let vertex = placed.place(table, row, ids)? as usize;
        if row.len() != columns + 1 {
            let found = format!("{} fields", row.len());
            return Err(table.wrong(row.line(), &format!("{} fields", columns + 1), &found));
        }
        let slots = values.get_mut(vertex * columns..(vertex + 1) * columns).unwrap_or_default();
        for ((column, field), slot) in (0u64..).zip(row.fields().skip(1)).zip(slots) {
            match field.parse::<f32>() {
                Ok(value) if value.is_finite() => *slot = value,
                Ok(value) => {
                    return Err(Error::NotFinite {
                        place: Place::line(&table.file, row.line()),
                        column,
                        value,
                    });
                }
                Err(_) => return Err(table.wrong(row.line(), "a number", field)),
            }
        }
        Ok(())
    })?;
    if let Some(vertex) = placed.first_missing() {
        let expected = format!("a row for each of {} vertices", ids.len());
        let found = format!("none for vertex {}", ids.names.name(vertex));
        return Err(Error::malformed(Place::whole(&table.file), expected, found));
    }
    Features::from_dense(columns as u32, &values)
}

/// A split without the vertices that have no label, of which a note tells.
fn of_labelled(mut split: Split, labels: &Labels, table: &Table, ids: &Ids) -> Split {
    let (mut left, mut first) = (0u64, None);
    for part in [&mut split.train, &mut split.validation, &mut split.test] {
        part.retain(|&vertex| {
            let known = labels.known(vertex as usize);
            if !known {
                left += 1;
                first.get_or_insert(vertex);
            }
            known
        });
    }
    if let Some(first) = first {
        let name = eciton_input::text::cut(&ids.names.name(first), 60);
        let lines = if left == 1 {
            "1 line names a vertex".to_owned()
        } else {
            format!("{left} lines name vertices")
        };
        eciton_input::notes::add(format!("{}: {lines} without a label ({name}); in no part", table.file));
    }
    split
}

/// `at` is the vertex that each of `ids` stands for, where these are of graphs.
fn split(table: &Table, ids: &Ids, at: Option<&[u32]>) -> Result<Split> {
    let part = |field: &str| match field.to_lowercase().as_str() {
        "train" | "training" => Some(0),
        "val" | "valid" | "validation" => Some(1),
        "test" => Some(2),
        _ => None,
    };
    let first = table.first(2)?;
    table.header.set(
        is_header(first.get(0)) || (part(first.get(1)).is_none() && ids.position(first.get(0)).is_none()),
    );
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    table.each(2, |row| {
        let id = ids.find(table, row.line(), row.get(0))?;
        let vertex = at.map_or(id, |at| at[id as usize]);
        match part(row.get(1)).and_then(|part| parts.get_mut(part)) {
            Some(part) => part.push(vertex),
            None => return Err(table.wrong(row.line(), "train, val or test", row.get(1))),
        }
        Ok(())
    })?;
    let [train, validation, test] = parts;
    Ok(Split { train, validation, test }.sorted())
}
