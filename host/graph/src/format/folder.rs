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

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::array::Array;
use super::edge_rows::EdgeRows;
use super::table::{Record, Table};
use super::{bundle, file, labels, npy};
use crate::adjacency::{Graph, Options, check_vertices};
use crate::dataset::{Dataset, EdgeFeatures, VertexIds};
use crate::error::{Error, Place, Result};
use crate::features::Features;
use crate::graphs::{Graphs, apart_error};
use crate::labels::{Labels, Values};
use crate::split::{NO_LABEL, Split};

/// The names of an edge table.
pub(crate) const EDGES: [&str; 6] =
    ["edges.csv", "edges.tsv", "edges.txt", "edges.csv.gz", "edges.tsv.gz", "edges.txt.gz"];

const HEADERS: [&str; 17] = [
    "id",
    "node",
    "vertex",
    "source",
    "src",
    "from",
    "u",
    "id_1",
    "node_1",
    "id1",
    "node1",
    "node_id",
    "vertex_id",
    "head",
    "name",
    "paper",
    "user",
];

/// Reads such a folder.
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
    let edge_rows = rows(&edges, 2)?;
    let features = Part::open(folder, "features")?;
    let labels = Part::open(folder, "labels")?;
    let of_graphs = find(folder, "graphs").map(|path| Table::open(&path)).transpose()?;
    let feature_rows = features.rows(2)?;
    let label_rows = labels.rows(2)?;
    let graph_rows = of_graphs.as_ref().map_or(Ok(Vec::new()), |table| rows(table, 2))?;

    let ids = match (&features, &labels, &of_graphs) {
        (Part::Array(bytes, path), _, _) | (_, Part::Array(bytes, path), None) => {
            let file = file::name(path);
            let array = npy::parse(bytes, &file)?;
            check_vertices(array.rows() as u64, || Place::whole(file.clone()))?;
            Ids::dense(array.rows() as u64)
        }
        (Part::Table(_), _, _) => Ids::of(feature_rows.iter().map(|r| (&*r.fields[0], r.line))),
        (Part::None, _, Some(_)) => Ids::of(graph_rows.iter().map(|r| (&*r.fields[0], r.line))),
        _ => {
            let of_labels = label_rows.iter().map(|r| (&*r.fields[0], r.line));
            let of_edges = edge_rows.iter().flat_map(|r| [(&*r.fields[0], r.line), (&*r.fields[1], r.line)]);
            Ids::of(of_labels.chain(of_edges))
        }
    };
    let vertices = ids.len();
    check_vertices(vertices, || Place::whole(&edges.file))?;

    let graphs = of_graphs.as_ref().map(|table| GraphIds::of(table, &graph_rows, &ids)).transpose()?;
    let mut pairs = Vec::with_capacity(edge_rows.len());
    for row in &edge_rows {
        let end = |field: usize| ids.find(&edges, row.line, &row.fields[field]);
        let (source, target) = (end(0)?, end(1)?);
        if let Some(GraphIds { graphs, .. }) = &graphs
            && graphs.of()[source as usize] != graphs.of()[target as usize]
        {
            let end = |field: usize, vertex| (row.fields[field].to_string(), graphs.name(vertex));
            return Err(apart_error(Place::line(&edges.file, row.line), [end(0, source), end(1, target)]));
        }
        pairs.push((source, target));
    }
    let graph = super::graph(&(vertices, &pairs[..]))?;
    let rows = EdgeRows::of_folder(folder, &edges, &edge_rows)?;
    let placed = rows.map(|rows| rows.placed(&graph, &pairs, Options::default())).transpose()?;
    let known = Attributes::of(folder, (&features, &feature_rows), (&labels, &label_rows), &ids, graphs)?;
    known.dataset(file::folder_name(folder), graph, placed, ids.names)
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
}

impl Attributes {
    /// Reads `features`, `labels`, `split` and `graphs.csv` of a folder, whichever there are, for vertices that
    /// are known already: `ids` is what the files call them (numbers ascend), `vertices` how many
    /// there are.
    ///
    /// # Errors
    /// As [`open`].
    pub fn beside(folder: &Path, ids: &VertexIds, vertices: u64) -> Result<Self> {
        let positions = match ids {
            VertexIds::Words(words) => words.iter().cloned().zip(0..).collect(),
            _ => HashMap::new(),
        };
        let ids = Ids { names: ids.clone(), positions, count: vertices, of_graphs: false };
        let features = Part::open(folder, "features")?;
        let labels = Part::open(folder, "labels")?;
        let (feature_rows, label_rows) = (features.rows(2)?, labels.rows(2)?);
        let table = graphs_beside(folder).map(|path| Table::open(&path)).transpose()?;
        let graphs = table.as_ref().map(|table| GraphIds::of(table, &rows(table, 2)?, &ids)).transpose()?;
        Self::of(folder, (&features, &feature_rows), (&labels, &label_rows), &ids, graphs)
    }

    fn of(
        folder: &Path,
        features: (&Part, &[Record<'_>]),
        labels: (&Part, &[Record<'_>]),
        ids: &Ids,
        graphs: Option<GraphIds>,
    ) -> Result<Self> {
        let features = match features {
            (Part::None, _) if graphs.is_some() => super::tu::constant(ids.len())?,
            (Part::None, _) => Features::identity(ids.len() as u32),
            (Part::Array(bytes, path), _) => bundle::dense(npy::parse(bytes, &file::name(path))?)?,
            (Part::Table(table), rows) => numbers(table, rows, ids)?,
        };
        let labelled = graphs.as_ref().map_or(ids, |graphs| &graphs.ids);
        let (mut labels, file) = match labels {
            (Part::None, _) => (Labels::none(labelled.len() as u32), String::new()),
            (Part::Array(bytes, path), _) => {
                let file = file::name(path);
                let array = npy::parse(bytes, &file)?;
                graphs.as_ref().map_or(Ok(()), |graphs| graphs.check_rows(&array))?;
                (labels::from_array(&array)?, file)
            }
            (Part::Table(table), rows) => match width(rows) {
                Some(width) => (values(table, rows, labelled, width)?, table.file.clone()),
                None => (column(table, rows, labelled)?, table.file.clone()),
            },
        };
        if let Some(graphs) = &graphs {
            labels = labels.at_vertices(&graphs.at, ids.len() as u32, &file)?;
        }
        let split = match find(folder, "split") {
            Some(path) => {
                split(&Table::open(&path)?, labelled, graphs.as_ref().map(|graphs| &graphs.at[..]))?
            }
            None => Split::random(&labels, [0.6, 0.2], 0),
        };
        Ok(Self { features, labels, split, graphs: graphs.map(|graphs| graphs.graphs) })
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
        let Self { features, labels, split, graphs } = self;
        Dataset { name, graph, features, edge_features, labels, split, graphs, ids }.checked()
    }
}

/// The table `name` of a folder, in one of the known spellings.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "txt.gz"]
        .iter()
        .map(|extension| folder.join(format!("{name}.{extension}")))
        .find(|p| p.is_file())
}

/// Features or labels, if there are any.
enum Part {
    None,
    Array(Vec<u8>, PathBuf),
    Table(Table),
}

impl Part {
    fn open(folder: &Path, name: &str) -> Result<Self> {
        let arrays = ["npy", "npy.gz"].map(|extension| folder.join(format!("{name}.{extension}")));
        if let Some(array) = arrays.into_iter().find(|path| path.is_file()) {
            return Ok(Self::Array(file::read(&array)?, array));
        }
        match find(folder, name) {
            Some(path) => Ok(Self::Table(Table::open(&path)?)),
            None => Ok(Self::None),
        }
    }

    fn rows(&self, fields: usize) -> Result<Vec<Record<'_>>> {
        match self {
            Self::Table(table) => rows(table, fields),
            _ => Ok(Vec::new()),
        }
    }
}

/// The records of a table without its header, each of at least `fields` fields.
pub(super) fn rows(table: &Table, fields: usize) -> Result<Vec<Record<'_>>> {
    let mut rows = table.records().collect::<Result<Vec<_>>>()?;
    if let Some(short) = rows.iter().find(|r| r.fields.len() < fields) {
        let found = format!("{} field(s)", short.fields.len());
        return Err(table.wrong(short.line, &format!("at least {fields} fields"), &found));
    }
    let is_number = |row: &Record<'_>| row.fields[0].parse::<u64>().is_ok();
    let header = rows.first().is_some_and(|first| {
        let word = first.fields[0].to_lowercase();
        HEADERS.contains(&word.as_str())
            || (!is_number(first) && rows.len() > 1 && rows[1..].iter().all(is_number))
    });
    if header {
        rows.remove(0);
    }
    Ok(rows)
}

/// The user's ids and their positions.
struct Ids {
    names: VertexIds,
    /// Of words; empty where ids are numbers.
    positions: HashMap<String, u32>,
    count: u64,
    /// Whether these are ids of graphs.
    of_graphs: bool,
}

impl Ids {
    fn dense(vertices: u64) -> Self {
        Self { names: VertexIds::Dense, positions: HashMap::new(), count: vertices, of_graphs: false }
    }

    fn of<'a>(words: impl Iterator<Item = (&'a str, u64)> + Clone) -> Self {
        let numbers: Option<Vec<u64>> = words.clone().map(|(w, _)| canonical(w)).collect();
        if let Some(mut numbers) = numbers {
            numbers.sort_unstable();
            numbers.dedup();
            let vertices = numbers.len() as u64;
            if numbers.last().is_none_or(|&last| last == vertices - 1) {
                return Self::dense(vertices);
            }
            let names = VertexIds::Numbers(numbers);
            return Self { names, positions: HashMap::new(), count: vertices, of_graphs: false };
        }
        let (mut names, mut positions) = (Vec::new(), HashMap::new());
        for (word, _) in words {
            positions.entry(word.to_owned()).or_insert_with(|| {
                names.push(word.to_owned());
                names.len() as u32 - 1
            });
        }
        let count = names.len() as u64;
        Self { names: VertexIds::Words(names), positions, count, of_graphs: false }
    }

    fn len(&self) -> u64 {
        self.count
    }

    fn find(&self, table: &Table, line: u64, word: &str) -> Result<u32> {
        let found = match &self.names {
            VertexIds::Dense => canonical(word).filter(|&id| id < self.count).map(|id| id as u32),
            // Ascending.
            VertexIds::Numbers(numbers) => {
                canonical(word).and_then(|id| numbers.binary_search(&id).ok()).map(|at| at as u32)
            }
            VertexIds::Words(_) => self.positions.get(word).copied(),
        };
        let place = || Place::line(&table.file, line);
        found.ok_or_else(|| match self.of_graphs {
            true => Error::Malformed {
                place: place(),
                expected: format!("one of the {} graphs of graphs.csv", self.count),
                found: format!("{word:.60?}"),
                remedy: "correct the id; where there is a graphs.csv, labels and split are of graphs",
            },
            false => Error::UnknownVertex {
                place: place(),
                vertex: format!("{word:.60}"),
                known: match self.names {
                    VertexIds::Dense => format!("vertices are 0..{}", self.count),
                    _ => format!("it is none of the {} known ids", self.count),
                },
            },
        })
    }
}

/// `graphs.csv` beside a graph file, if there is one. (Other spellings may be edge lists.)
pub(super) fn graphs_beside(folder: &Path) -> Option<PathBuf> {
    ["graphs.csv", "graphs.csv.gz"].iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// Graphs and what the user calls them.
struct GraphIds {
    graphs: Graphs,
    ids: Ids,
    /// By these ids: the vertex that stands for the graph.
    at: Vec<u32>,
}

impl GraphIds {
    /// The table that has the graph of every vertex.
    fn of(table: &Table, rows: &[Record<'_>], ids: &Ids) -> Result<Self> {
        let mut words = Vec::with_capacity(rows.len());
        for (vertex, row) in (0..).zip(place_rows(table, rows, ids)?) {
            let Some(row) = row.and_then(|row| rows.get(row)) else {
                return Err(Error::Malformed {
                    place: Place::whole(&table.file),
                    expected: format!("a graph for each of {} vertices", ids.len()),
                    found: format!("none for vertex {}", ids.names.name(vertex)),
                    remedy: "add a line with the vertex and its graph",
                });
            };
            if row.fields[1].is_empty() {
                return Err(table.wrong(row.line, "an id and its graph", ""));
            }
            words.push((&*row.fields[1], row.line));
        }
        let known = Ids { of_graphs: true, ..Ids::of(words.iter().copied()) };
        let mut first = vec![None; known.len() as usize];
        let mut standing = Vec::with_capacity(words.len());
        for (vertex, &(word, line)) in (0..).zip(&words) {
            let slot = &mut first[known.find(table, line, word)? as usize];
            standing.push(*slot.get_or_insert(vertex));
        }
        let at: Vec<u32> = first.into_iter().flatten().collect();
        let names = match &known.names {
            // In order of first appearance, which is that of graphs.
            VertexIds::Words(words) => VertexIds::Words(words.clone()),
            _ => {
                let mut order: Vec<u32> = (0..at.len() as u32).collect();
                order.sort_unstable_by_key(|&graph| at[graph as usize]);
                let number = |graph: u32| match &known.names {
                    VertexIds::Numbers(numbers) => numbers[graph as usize],
                    _ => graph.into(),
                };
                VertexIds::Numbers(order.into_iter().map(number).collect())
            }
        };
        Ok(Self { graphs: Graphs::from_standing(standing, names, &table.file)?, ids: known, at })
    }

    /// Refuses an array whose rows are not those of graphs 0 to the last.
    fn check_rows(&self, array: &Array<'_>) -> Result<()> {
        let (found, expected) = (array.rows() as u64, self.ids.len());
        if self.ids.names != VertexIds::Dense {
            return Err(Error::Malformed {
                place: Place::whole(&array.file),
                expected: format!("graphs that are called 0 to {}, for an array", expected - 1),
                found: "other ids in graphs.csv".to_owned(),
                remedy: "write labels.csv, or number the graphs from 0",
            });
        }
        if found != expected {
            let (place, other) = (Place::whole(&array.file), "graphs.csv".to_owned());
            return Err(Error::Mismatch { place, what: "rows", found, expected, other });
        }
        Ok(())
    }
}

/// A number that is written in one way only, so that `007` stays a word.
pub(super) fn canonical(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
}

/// Places each row at its vertex: which row that is, every vertex at most once.
fn place_rows(table: &Table, rows: &[Record<'_>], ids: &Ids) -> Result<Vec<Option<usize>>> {
    let mut row_of = vec![None; ids.len() as usize];
    for (at, row) in rows.iter().enumerate() {
        let vertex = ids.find(table, row.line, &row.fields[0])?;
        if let Some(slot) = row_of.get_mut(vertex as usize)
            && slot.replace(at).is_some()
        {
            return Err(table.wrong(row.line, "each id once", &row.fields[0]));
        }
    }
    Ok(row_of)
}

fn numbers(table: &Table, rows: &[Record<'_>], ids: &Ids) -> Result<Features> {
    let columns = rows.first().map_or(0, |r| r.fields.len() - 1);
    let mut values = Vec::with_capacity(rows.len() * columns);
    for (vertex, row) in place_rows(table, rows, ids)?.into_iter().enumerate() {
        let Some(row) = row.and_then(|row| rows.get(row)) else {
            let expected = format!("a row for each of {} vertices", ids.len());
            let found = format!("none for vertex {}", ids.names.name(vertex as u32));
            return Err(Error::malformed(Place::whole(&table.file), expected, found));
        };
        if row.fields.len() != columns + 1 {
            let found = format!("{} fields", row.fields.len());
            return Err(table.wrong(row.line, &format!("{} fields", columns + 1), &found));
        }
        for (column, field) in row.fields[1..].iter().enumerate() {
            match field.parse::<f32>() {
                Ok(value) if value.is_finite() => values.push(value),
                Ok(value) => {
                    let (place, column) = (Place::line(&table.file, row.line), column as u64);
                    return Err(Error::NotFinite { place, column, value });
                }
                Err(_) => return Err(table.wrong(row.line, "a number", field)),
            }
        }
    }
    Features::from_dense(columns as u32, &values)
}

/// How many labels a vertex has, where there are several: as many as the first row has, if a number
/// stands in a column after the first one. Columns after one of words, and further columns of words,
/// are not labels.
fn width(rows: &[Record<'_>]) -> Option<usize> {
    let further = |row: &Record<'_>| row.fields.iter().skip(2).any(|field| number(field).is_some());
    let mut first = known(rows).peekable();
    let words = first.peek().is_some() && first.all(|field| number(field).is_none());
    let several = !words && rows.iter().any(further);
    several.then(|| rows.first().map_or(0, |row| row.fields.len() - 1))
}

/// The fields of the first label that say something.
fn known<'a>(rows: &'a [Record<'_>]) -> impl Iterator<Item = &'a str> {
    rows.iter().map(|row| &*row.fields[1]).filter(|field| !is_unknown(field))
}

/// A number in digits. Words that mean numbers (`nan`, `inf`) may be names.
pub(super) fn number(field: &str) -> Option<f32> {
    let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    if field.bytes().all(digits) { field.parse().ok() } else { None }
}

/// Whether a field says that a label is not known.
fn is_unknown(field: &str) -> bool {
    field.is_empty() || field.eq_ignore_ascii_case("nan")
}

/// The value of one label; NaN where it is not known.
fn value(table: &Table, line: u64, column: usize, field: &str) -> Result<f32> {
    if is_unknown(field) {
        return Ok(f32::NAN);
    }
    number(field).filter(|value| value.is_finite()).ok_or_else(|| Error::Malformed {
        place: Place::line(&table.file, line),
        expected: format!("a finite number as label {column}, or nothing where it is unknown"),
        found: format!("{field:.60?}"),
        remedy: "write 0 and 1 or numbers; only a single column may have words, as classes",
    })
}

/// Labels of several columns.
fn values(table: &Table, rows: &[Record<'_>], ids: &Ids, width: usize) -> Result<Labels> {
    let row_of = place_rows(table, rows, ids)?;
    if let Some(row) = rows.iter().find(|row| row.fields.len() != width + 1) {
        let found = format!("{} fields", row.fields.len());
        return Err(table.wrong(row.line, &format!("an id and {width} labels"), &found));
    }
    let mut values = Vec::with_capacity(row_of.len().saturating_mul(width));
    for row in row_of {
        let Some(row) = row.and_then(|row| rows.get(row)) else {
            values.resize(values.len() + width, f32::NAN);
            continue;
        };
        for (column, field) in (1..).zip(&row.fields[1..]) {
            values.push(value(table, row.line, column, field)?);
        }
    }
    labels::from_columns(u32::try_from(width).unwrap_or(u32::MAX), values, &table.file)
}

/// One label a vertex: numbers, or classes.
fn column(table: &Table, rows: &[Record<'_>], ids: &Ids) -> Result<Labels> {
    let measured = |field: &str| field.contains(['e', 'E']) || number(field).is_some_and(labels::is_measured);
    if !(known(rows).all(|field| number(field).is_some()) && known(rows).any(measured)) {
        return classes(table, rows, ids);
    }
    let value = |row: Option<usize>| match row.and_then(|row| rows.get(row)) {
        Some(row) => value(table, row.line, 1, &row.fields[1]),
        None => Ok(f32::NAN),
    };
    let of = place_rows(table, rows, ids)?.into_iter().map(value).collect::<Result<_>>()?;
    Ok(Labels::Numbers(Values::named(1, of, &table.file)?))
}

fn classes(table: &Table, rows: &[Record<'_>], ids: &Ids) -> Result<Labels> {
    let none = |word: &str| word.is_empty() || word == "-1";
    let words: Vec<Option<(&Cow<'_, str>, u64)>> = place_rows(table, rows, ids)?
        .into_iter()
        .map(|row| row.map(|r| (&rows[r].fields[1], rows[r].line)).filter(|(w, _)| !none(w)))
        .collect();
    let all_numbers = words.iter().flatten().all(|(w, _)| w.parse::<i64>().is_ok());
    if all_numbers {
        for (word, line) in words.iter().flatten() {
            let number: i64 = word.parse().unwrap_or(-2);
            if !(0..i64::from(labels::MAX_CLASSES)).contains(&number) {
                return Err(Error::LabelRange {
                    place: Place::line(&table.file, *line),
                    label: number,
                    classes: u64::from(labels::MAX_CLASSES),
                });
            }
        }
        let number = |w: &Option<(&Cow<'_, str>, u64)>| w.and_then(|(w, _)| w.parse().ok()).unwrap_or(-1);
        return labels::from_numbers(&words.iter().map(number).collect::<Vec<_>>(), &table.file);
    }
    let mut known: Vec<&str> = words.iter().flatten().map(|(w, _)| &***w).collect();
    known.sort_unstable();
    known.dedup();
    let label = |w: &Option<(&Cow<'_, str>, u64)>| {
        w.and_then(|(w, _)| known.binary_search(&&**w).ok()).map_or(NO_LABEL, |at| at as u32)
    };
    Ok(Labels::classes(words.iter().map(label).collect(), known.len() as u32))
}

/// `at` is the vertex that each of `ids` stands for, where these are of graphs.
fn split(table: &Table, ids: &Ids, at: Option<&[u32]>) -> Result<Split> {
    let mut split = Split::default();
    for row in rows(table, 2)? {
        let id = ids.find(table, row.line, &row.fields[0])?;
        let vertex = at.map_or(id, |at| at[id as usize]);
        match row.fields[1].to_lowercase().as_str() {
            "train" | "training" => split.train.push(vertex),
            "val" | "valid" | "validation" => split.validation.push(vertex),
            "test" => split.test.push(vertex),
            other => return Err(table.wrong(row.line, "train, val or test", other)),
        }
    }
    Ok(split.sorted())
}
