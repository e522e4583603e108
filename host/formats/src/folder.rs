//! A plain folder of one's own: `edges.{csv,tsv,txt}` and optionally features, labels and a split.
//!
//! Each file may be packed with gzip, as `edges.csv.gz` or under its plain name.
//!
//! * `edges.csv`: source, target, and perhaps features of the edge: each further column that holds a finite
//!   number in every record; other columns are ignored with a note. Ids are any words or whole numbers. Every
//!   edge counts in both directions, with the same features; repeats follow the rule of
//!   [`eciton_graph::edge_rule`]. In place of such columns there may be
//!   `edge_features.npy [records of edges.csv, columns]`, or `[records]` of weights.
//! * `features.csv`: id, then one number a column; or `features.npy [V, columns]` for ids 0..V.
//!   Without either, each vertex gets a feature of its own (identity).
//! * `labels.csv`: id, class (a whole number from 0, or a word; empty or -1 is none), or id, number
//!   (where a number has a fraction or an exponent, or is negative and not -1; empty is none). Labels that are
//!   all -1 or 1 are two classes, and words for a missing value (`nan`, `None`, `NA`) are none. With
//!   several columns of numbers: flags where all are 0, 1 or empty, else numbers. Or `labels.npy [V]`
//!   (floats with a fraction, or negative and not -1, are numbers) or `[V, labels]`, NaN is none.
//!   Without either the data can be loaded but nothing can be trained.
//! * `split.csv`: id, `train`, `val` or `test`. Without it 60 / 20 / 20 % of the labelled vertices
//!   are drawn from seed 0 ([`Split::random`]).
//! * `graphs.csv`: id, graph (a word or whole number): which graph each vertex belongs to, of all vertices.
//!   Then labels and split are of graphs: their ids are those of graphs, and `labels.npy` has a row a graph
//!   where these are 0 to the last. Without features each vertex has the constant 1.
//!
//! Lines that start with `#` before the first record are comments. The first line is a header if its id field
//! is one of `id, node, vertex, source, src, from, u, id_1, target...`, if it is the only line whose id is not a
//! number, or by what the tables show together (`headers.rs`). `.tsv` files are separated by tabs, `.txt` by
//! blanks, tabs or commas.
//!
//! Vertices are the ids of `features.*` if there is one (an edge or label of another id is an error),
//! else those of `graphs.csv`, else all ids of labels and edges: then one id of labels at least must be in an
//! edge. Numbers are sorted, words keep the order of first appearance.
//!
//! For a trained model, columns of features, labels and edge features are chosen by the names that it
//! [expects](Expected).

mod edges;
mod features;
mod graphs;
mod headers;
mod ids;
mod joins;
mod labels;
mod likeness;
mod parts;
pub(crate) mod unused;

use std::path::Path;

use eciton_graph::adjacency::{Graph, Options, check_vertices};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Encoded, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::graphs::{Graphs, apart_error};
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::file::present;

use self::edges::Edges;
use self::features::Read;
use self::graphs::GraphIds;
use self::ids::{Ids, Lookup};
use self::labels::label_table;
use self::parts::{Part, Parts, find, plain_name};
use super::edge_rows::EdgeRows;
use super::missing::is_missing;
use super::table::{Table, is_header};
use super::{Request, bundle, columns, file, labels as arrays, npy};

pub(super) use graphs::graphs_beside;
pub(super) use ids::canonical;
pub(super) use labels::{exact, number, whole};

/// The names of an edge table.
pub(crate) const EDGES: [&str; 6] =
    ["edges.csv", "edges.tsv", "edges.txt", "edges.csv.gz", "edges.tsv.gz", "edges.txt.gz"];

/// Reads such a folder. Memory: 8 bytes an edge beside the graph, and the columns of edges.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::UnknownVertex`], [`Error::EmptyGraph`], and those of
/// [`Dataset::validate`].
pub fn open(folder: &Path, request: Request<'_>) -> Result<Dataset> {
    let expected = request.expected;
    let Some(edges_path) = find(folder, "edges") else {
        return Err(Error::UnknownLayout {
            path: folder.to_owned(),
            found: file::list(folder)?.into_iter().take(20).collect(),
            known: "edges.csv, edges.tsv or edges.txt",
        });
    };
    let edges = Table::open(&edges_path)?;
    let parts = Parts::open(folder, find(folder, "graphs"), Some(&edges))?;
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
    let rows = EdgeRows::of_folder(folder, &edges, read.columns, pairs.len())?;
    let edge_names = rows.as_ref().map(|rows| rows.names.clone()).unwrap_or_default();
    let (graph, placed) = super::graph_of(&edges.file, vertices, pairs, rows.as_ref(), false)?;
    drop(rows);
    let mut known = Attributes::of(&parts, &ids, graphs, request)?;
    known.names.edge_features = edge_names;
    edges.report_header();
    let mut used = parts.files();
    used.extend(plain_name(&edges_path));
    used.push("edge_features.npy".to_owned());
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, &format!("{} is read", plain_name(&edges_path).unwrap_or_default()));
    known.dataset(file::folder_name(folder), graph, placed, ids.names)
}

/// Returns whether a folder has features and labels, and no edges. A trained model needs no labels.
pub(crate) fn has_rows(folder: &Path, expected: Option<&eciton_graph::expected::Expected>) -> bool {
    let has = |name: &str| {
        find(folder, name).is_some()
            || ["npy", "npy.gz"].iter().any(|e| present(&folder.join(format!("{name}.{e}"))))
    };
    has("features") && (has("labels") || expected.is_some()) && find(folder, "edges").is_none()
}

/// Reads a folder of features and labels, and perhaps a split, without edges: no vertex has a neighbour.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_rows(folder: &Path, request: Request<'_>) -> Result<Dataset> {
    let parts = Parts::open(folder, None, None)?;
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
    let known = Attributes::of(&parts, &ids, None, request)?;
    let used = parts.files();
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, "features and labels were read as rows without a graph");
    known.dataset(file::folder_name(folder), graph, None, ids.names)
}

/// Finds whether the first row of a table is a header: where `ids` are known its id is none of them.
fn ids_or_header(table: &Table, ids: Option<&Ids>) -> Result<()> {
    let Some(ids) = ids else { return table.find_header_of_words() };
    if table.is_settled() {
        return Ok(());
    }
    let first = table.first(2)?;
    let word = first.get(0);
    let counts = first.len() > 1 && crate::header::counting(first.fields()) == Some(first.len());
    let is_word = labels::number(word).is_none() && !is_missing(word);
    let header = word.is_empty() || ((is_word || counts) && ids.position(word).is_none());
    table.set_header(header);
    if header && counts {
        table.note(true, "its numbers count like column names, and its id is none of the data set's");
    } else if header && ids.are_words() && !is_header(word) {
        table.note(true, "its id is none of the data set's");
    }
    Ok(())
}

/// What a folder says of vertices: features, labels and a split, and their graphs where there are many.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// One row a vertex; where there is no file, a feature of its own each, or 1 where there are many graphs.
    pub features: Features,
    /// Columns that the features were encoded from. `None` if they are columns of numbers.
    pub encoded: Option<Encoded>,
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
    pub fn beside(folder: &Path, ids: &VertexIds, vertices: u64, request: Request<'_>) -> Result<Self> {
        let lookup = match ids {
            VertexIds::Words(words) => Lookup::Words(words.iter().map(|w| (&**w).into()).zip(0..).collect()),
            VertexIds::Numbers(_) => Lookup::Sorted,
            VertexIds::Dense => Lookup::Dense,
        };
        let ids = Ids { names: ids.clone(), lookup, count: vertices, of_graphs: false };
        let parts = Parts::open(folder, graphs_beside(folder), None)?;
        if let Part::Table(features) = &parts.features {
            features.find_header_of_numbers()?;
        }
        if let Part::Table(labels) = &parts.labels {
            ids_or_header(labels, parts.graphs.is_none().then_some(&ids))?;
        }
        if let Some(table) = &parts.graphs {
            ids_or_header(table, Some(&ids))?;
        }
        let graphs = parts.graphs.as_ref().map(|table| GraphIds::of(table, &ids)).transpose()?;
        Self::of(&parts, &ids, graphs, request)
    }

    fn of(parts: &Parts, ids: &Ids, graphs: Option<GraphIds>, request: Request<'_>) -> Result<Self> {
        let expected = request.expected;
        let mut names = Names::default();
        let read = match &parts.features {
            Part::None if graphs.is_some() => Read::Numbers(Features::constant(ids.len())?, Vec::new()),
            Part::None => Read::Numbers(Features::identity(ids.len() as u32), Vec::new()),
            Part::Array(bytes, path) => {
                Read::Numbers(bundle::dense(npy::parse(bytes, &file::name(path))?)?, Vec::new())
            }
            Part::Table(table) => features::read(table, ids, &parts.settings, expected)?,
        };
        let labelled = graphs.as_ref().map_or(ids, |graphs| &graphs.ids);
        let has_labels = !matches!(parts.labels, Part::None);
        let (mut labels, file) = match &parts.labels {
            Part::None => (Labels::none(labelled.len() as u32), String::new()),
            Part::Array(bytes, path) => {
                let file = file::name(path);
                let array = npy::parse(bytes, &file)?;
                graphs.as_ref().map_or(Ok(()), |graphs| graphs.check_rows(&array))?;
                let (labels, classes) = arrays::from_array_expecting(&array, expected)?;
                names.labels = classes;
                (labels, file)
            }
            Part::Table(table) => {
                let labels::Read { labels, names: known, target } = label_table(table, labelled, expected)?;
                (names.labels, names.target) = (known, target);
                (labels, table.file.clone())
            }
        };
        if let Some(graphs) = &graphs {
            labels = labels.at_vertices(&graphs.at, ids.len() as u32, &file)?;
        }
        let split = match &parts.split {
            Some(table) if !has_labels => {
                eciton_input::notes::add(format!(
                    "{} is not used: there are no labels beside it (labels.csv or labels.npy)",
                    table.file
                ));
                Split::default()
            }
            Some(table) => {
                let found = split(table, labelled, graphs.as_ref().map(|graphs| &graphs.at[..]))?;
                of_labelled(found, &labels, table, ids)
            }
            None => {
                names.split = DRAWN.to_owned();
                Split::random(&labels, [0.6, 0.2], 0)
            }
        };
        parts.report_headers();
        let graphs = graphs.map(|graphs| graphs.graphs);
        let (features, encoded) = match read {
            Read::Numbers(features, of) => {
                names.features = of;
                (features, None)
            }
            Read::Typed(table) => {
                let of_training = split.training_rows(graphs.as_ref(), table.rows);
                let encoders = expected.map(|expected| &expected.encoders[..]).unwrap_or_default();
                let (encoded, features, of) = Encoded::new(table.into(), &of_training, encoders)?;
                names.features = of;
                (features, Some(encoded))
            }
        };
        Ok(Self { features, encoded, labels, split, graphs, names })
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
        let Self { features, encoded, labels, split, graphs, names } = self;
        Dataset {
            edge_features,
            graphs,
            ids,
            names,
            encoded,
            ..Dataset::new(name, graph, features, labels, split)
        }
        .checked()
    }
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
    let numbers = crate::header::counting(first.fields()) == Some(first.len());
    table.set_header(
        is_header(first.get(0))
            || (part(first.get(1)).is_none() && (numbers || ids.position(first.get(0)).is_none())),
    );
    let unused: Vec<String> = first.fields().skip(2).map(str::to_owned).collect();
    if !unused.is_empty() && table.header.get() {
        eciton_input::notes::add(columns::unused(&table.file, "the second column has the part", &unused));
    }
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
