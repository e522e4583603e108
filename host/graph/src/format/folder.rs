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

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use eciton_input::budget::Charge;
use eciton_input::file::present;

use super::array::Array;
use super::dictionary::{Collector, Dictionary};
use super::edge_rows::{Columns, EdgeRows};
use super::file::{Bytes, Grown};
use super::table::{Row, Table, is_header, is_number};
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
            table.find_header(2, &[1])?;
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
    let placed = rows.map(|rows| rows.placed(&graph, pairs, Options::default())).transpose()?;
    let known = Attributes::of(folder, &features, &labels, &ids, graphs)?;
    known.dataset(file::folder_name(folder), graph, placed, ids.names)
}

/// The edges of a table.
struct Edges {
    /// In the order of the table.
    pairs: Grown<(u32, u32)>,
    columns: Columns,
}

impl Edges {
    /// Edges between known vertices.
    fn between(table: &Table, ids: &Ids) -> Result<Self> {
        if !table.find_header(2, &[])? {
            let first = table.first(2)?;
            let unknown = |field| ids.position(first.get(field)).is_none() && !is_number(first.get(field));
            let header = unknown(0) && unknown(1);
            if header {
                table.note(true, "neither of its ids is one of the data set's");
            }
            table.header.set(header);
        }
        let mut made = Self { pairs: Grown::new(&table.file), columns: Columns::of(table)? };
        table.each(2, |row| {
            let end = |field: usize| ids.find(table, row.line(), row.get(field));
            made.pairs.push((end(0)?, end(1)?))?;
            made.columns.read(row)
        })?;
        made.checked(table)
    }

    /// Edges between ids that are all numbers, those of `labels` too; none if one is a word.
    ///
    /// Ids stand in the place of vertices until all are known, so they are read once.
    fn numbered(table: &Table, labels: Option<&Table>) -> Result<Option<(Ids, Self)>> {
        let mut ids = Collector::new(table.bytes()?);
        // A first row of words is a header if all other rows are of numbers.
        let doubtful = |table: &Table| {
            let first = table.first(2)?;
            table.header.set(canonical(first.get(0)).is_none());
            Ok::<_, Error>(table.header.get() && !is_header(first.get(0)))
        };
        if let Some(labels) = labels {
            let (doubtful, mut others) = (doubtful(labels)?, false);
            let mut rows = labels.rows(2)?;
            while let Some(row) = rows.next()? {
                let Some(id) = canonical(row.get(0)) else { return Ok(None) };
                ids.add([id].into_iter());
                others = true;
            }
            if doubtful && !others {
                return Ok(None);
            }
        }
        let doubtful = doubtful(table)?;
        let mut made = Self { pairs: Grown::new(&table.file), columns: Columns::of(table)? };
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            let ends = canonical(row.get(0)).zip(canonical(row.get(1)));
            // Ids of 2^32 and more would take 8 bytes each: these are read as any other words.
            let Some((source, target)) = ends else { return Ok(None) };
            let (Ok(low), Ok(high)) = (u32::try_from(source), u32::try_from(target)) else {
                return Self::wide(table, labels).map(Some);
            };
            ids.add([source, target].into_iter());
            made.pairs.push((low, high))?;
            made.columns.read(row)?;
        }
        if doubtful && made.pairs.is_empty() {
            return Ok(None);
        }
        let dictionary = ids.finish();
        check_vertices(dictionary.len(), || Place::whole(&table.file))?;
        for (source, target) in made.pairs.iter_mut() {
            for end in [source, target] {
                *end = dictionary.find((*end).into()).unwrap_or_default();
            }
        }
        let found = Ids::numbers(dictionary);
        made.checked(table).map(|edges| Some((found, edges)))
    }

    /// [`Edges::numbered`] in two readings, for ids that do not fit 32 bits.
    fn wide(table: &Table, labels: Option<&Table>) -> Result<(Ids, Self)> {
        let mut ids = Collector::new(table.bytes()?);
        let mut add = |table: &Table, fields: &[usize]| {
            table.each(2, |row| {
                ids.add(fields.iter().filter_map(|&field| canonical(row.get(field))));
                Ok(())
            })
        };
        labels.map_or(Ok(()), |labels| add(labels, &[0]))?;
        add(table, &[0, 1])?;
        let dictionary = ids.finish();
        check_vertices(dictionary.len(), || Place::whole(&table.file))?;
        let ids = Ids::numbers(dictionary);
        let edges = Self::between(table, &ids)?;
        Ok((ids, edges))
    }

    /// Edges between ids that are words, in order of first appearance: those of `labels` first.
    fn worded(table: &Table, labels: Option<&Table>) -> Result<(Ids, Self)> {
        table.find_header(2, &[])?;
        labels.map_or(Ok(false), |labels| labels.find_header(2, &[1]))?;
        let (ids, edges) = Self::words(table, labels)?;
        // Where the first row might be a header, all else has been read now.
        let mut changed = false;
        if let Some(labels) = labels.filter(|labels| !labels.header.get()) {
            changed |= label_header(labels, &ids, &edges)?;
        }
        if !table.header.get() && edges.pairs.len() > 1 {
            changed |= edge_header(table, &ids, &edges, labels)?;
        }
        if changed { Self::words(table, labels) } else { Ok((ids, edges)) }
    }

    fn words(table: &Table, labels: Option<&Table>) -> Result<(Ids, Self)> {
        let mut ids = Words::new(&table.file);
        if let Some(labels) = labels {
            labels.each(2, |row| ids.add(row.get(0)).map(drop))?;
        }
        let mut made = Self { pairs: Grown::new(&table.file), columns: Columns::of(table)? };
        table.each(2, |row| {
            made.pairs.push((ids.add(row.get(0))?, ids.add(row.get(1))?))?;
            made.columns.read(row)
        })?;
        made.checked(table).map(|edges| (ids.finish(), edges))
    }

    /// Refuses a table of no edge, unless it says so with a header of known words.
    fn checked(self, table: &Table) -> Result<Self> {
        match self.pairs.is_empty() && !is_header(table.first(2)?.get(0)) {
            true => Err(table.empty("one edge at least: source, target")),
            false => Ok(self),
        }
    }
}

/// Whether the first row of labels is a header, where ids are words: its id is in no edge, and its label
/// stands nowhere else.
fn label_header(labels: &Table, ids: &Ids, edges: &Edges) -> Result<bool> {
    let first = labels.first(2)?;
    let Some(id) = ids.position(first.get(0)) else { return Ok(false) };
    if edges.pairs.iter().any(|&(source, target)| source == id || target == id) {
        return Ok(false);
    }
    let (label, mut again, mut rows) = (first.get(1).to_owned(), 0, 0);
    labels.each(2, |row| {
        rows += 1;
        again += u64::from(row.get(1) == label);
        Ok(())
    })?;
    let header = again == 1 && rows > 1 && number(&label).is_none() && !is_unknown(&label);
    labels.header.set(header);
    if header {
        labels.note(true, "its id is in no edge, and its label in no other line");
    }
    Ok(header)
}

/// Whether the first row of edges is a header, where ids are words: neither of them occurs again, while
/// others do.
fn edge_header(table: &Table, ids: &Ids, edges: &Edges, labels: Option<&Table>) -> Result<bool> {
    let Some((&(a, b), rest)) = edges.pairs.split_first() else { return Ok(false) };
    let occurs = |vertex: u32| rest.iter().any(|&(source, target)| source == vertex || target == vertex);
    if a == b || occurs(a) || occurs(b) {
        return Ok(false);
    }
    let first = table.first(2)?;
    let mut labelled = false;
    if let Some(labels) = labels {
        labels.each(2, |row| {
            labelled |= [0, 1].iter().any(|&field| row.get(0) == first.get(field));
            Ok(())
        })?;
    }
    if labelled {
        return Ok(false);
    }
    // Where every id stands alone, this row is like the others.
    let header = ids.len() < 2 * edges.pairs.len() as u64;
    table.header.set(header);
    let why = if header {
        "neither id occurs again"
    } else {
        "no id occurs twice; a header would be source,target"
    };
    table.note(header, why);
    Ok(header)
}

/// Finds whether the first row of a table is a header, where `ids` are known already: its id is none of them.
fn ids_or_header(table: &Table, ids: Option<&Ids>) -> Result<()> {
    if table.find_header(2, &[1])? {
        return Ok(());
    }
    let first = table.first(2)?;
    let word = first.get(0);
    let header = ids.is_some_and(|ids| ids.position(word).is_none() && !is_number(word) && !is_unknown(word));
    if header {
        table.note(true, "its id is none of the data set's");
    }
    table.header.set(header);
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
        let features = match features {
            Part::None if graphs.is_some() => super::tu::constant(ids.len())?,
            Part::None => Features::identity(ids.len() as u32),
            Part::Array(bytes, path) => bundle::dense(npy::parse(bytes, &file::name(path))?)?,
            Part::Table(table) => numbers(table, ids)?,
        };
        let labelled = graphs.as_ref().map_or(ids, |graphs| &graphs.ids);
        let (mut labels, file) = match labels {
            Part::None => (Labels::none(labelled.len() as u32), String::new()),
            Part::Array(bytes, path) => {
                let file = file::name(path);
                let array = npy::parse(bytes, &file)?;
                graphs.as_ref().map_or(Ok(()), |graphs| graphs.check_rows(&array))?;
                (labels::from_array(&array)?, file)
            }
            Part::Table(table) => (label_table(table, labelled)?, table.file.clone()),
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

/// The user's ids and their positions.
struct Ids {
    names: VertexIds,
    lookup: Lookup,
    count: u64,
    /// Whether these are ids of graphs.
    of_graphs: bool,
}

/// Where an id is.
enum Lookup {
    Dense,
    /// By binary search among names that ascend.
    Sorted,
    /// Numbers.
    Ranks(Dictionary),
    Words(HashMap<Box<str>, u32>),
}

/// Words in order of first appearance.
struct Words {
    names: Vec<String>,
    positions: HashMap<Box<str>, u32>,
    file: String,
    charge: Charge,
    bytes: u64,
}

impl Words {
    fn new(file: &str) -> Self {
        let (names, positions) = (Vec::new(), HashMap::new());
        Self { names, positions, file: file.to_owned(), charge: Charge::default(), bytes: 0 }
    }

    /// The position of a word, which is a new one perhaps.
    fn add(&mut self, word: &str) -> Result<u32> {
        if let Some(&position) = self.positions.get(word) {
            return Ok(position);
        }
        let position = self.names.len() as u32;
        check_vertices(u64::from(position) + 1, || Place::whole(&self.file))?;
        // A name and a key, each with its text; the map's slots are half empty at worst.
        self.bytes += 2 * word.len() as u64 + 96;
        self.charge.grow_to(self.bytes).map_err(|exceeded| file::exceeded(&self.file, exceeded))?;
        self.names.push(word.to_owned());
        self.positions.insert(word.into(), position);
        Ok(position)
    }

    fn finish(self) -> Ids {
        self.charge.keep();
        let count = self.names.len() as u64;
        Ids {
            names: VertexIds::Words(self.names),
            lookup: Lookup::Words(self.positions),
            count,
            of_graphs: false,
        }
    }
}

impl Ids {
    fn dense(vertices: u64) -> Self {
        Self { names: VertexIds::Dense, lookup: Lookup::Dense, count: vertices, of_graphs: false }
    }

    fn numbers(ids: Dictionary) -> Self {
        let count = ids.len();
        if ids.dense() {
            return Self::dense(count);
        }
        Self { names: VertexIds::Numbers(ids.ids()), lookup: Lookup::Ranks(ids), count, of_graphs: false }
    }

    /// The ids in a column of a table.
    fn of_column(table: &Table, column: usize) -> Result<Self> {
        let mut numbers = Collector::new(table.bytes()?);
        let mut words = false;
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            match canonical(row.get(column)) {
                Some(id) => numbers.add([id].into_iter()),
                None => {
                    words = true;
                    break;
                }
            }
        }
        if !words {
            return Ok(Self::numbers(numbers.finish()));
        }
        let mut ids = Words::new(&table.file);
        table.each(2, |row| ids.add(row.get(column)).map(drop))?;
        Ok(ids.finish())
    }

    /// Of words in this order, each once.
    fn of_words(words: &[String], file: &str) -> Result<Self> {
        if words.iter().all(|word| canonical(word).is_some()) {
            let mut numbers = Collector::new(words.len() as u64);
            numbers.add(words.iter().filter_map(|word| canonical(word)));
            return Ok(Self::numbers(numbers.finish()));
        }
        let mut ids = Words::new(file);
        words.iter().try_for_each(|word| ids.add(word).map(drop))?;
        Ok(ids.finish())
    }

    fn len(&self) -> u64 {
        self.count
    }

    fn position(&self, word: &str) -> Option<u32> {
        match (&self.lookup, &self.names) {
            (Lookup::Words(positions), _) => positions.get(word).copied(),
            (Lookup::Ranks(ids), _) => ids.find(canonical(word)?),
            (Lookup::Sorted, VertexIds::Numbers(numbers)) => {
                numbers.binary_search(&canonical(word)?).ok().map(|at| at as u32)
            }
            _ => canonical(word).filter(|&id| id < self.count).map(|id| id as u32),
        }
    }

    fn find(&self, table: &Table, line: u64, word: &str) -> Result<u32> {
        let place = || Place::line(&table.file, line);
        self.position(word).ok_or_else(|| match self.of_graphs {
            true => Error::Malformed {
                place: place(),
                expected: format!("one of the {} graphs of graphs.csv", self.count),
                found: format!("{word:.60?}"),
                remedy: "correct the id; where there is a graphs.csv, labels and split are of graphs",
            },
            false => Error::UnknownVertex {
                place: place(),
                vertex: eciton_input::text::cut(word, 60),
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
    ["graphs.csv", "graphs.csv.gz"].iter().map(|name| folder.join(name)).find(|path| present(path))
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
    fn of(table: &Table, ids: &Ids) -> Result<Self> {
        // By vertex: its graph among the words of the file.
        let (mut words, mut of) = (Words::new(&table.file), vec![u32::MAX; ids.len() as usize]);
        let mut placed = Placed::new(ids);
        table.each(2, |row| {
            let vertex = placed.place(table, row, ids)?;
            if row.get(1).is_empty() {
                return Err(table.wrong(row.line(), "an id and its graph", ""));
            }
            let word = words.add(row.get(1))?;
            if let Some(slot) = of.get_mut(vertex as usize) {
                *slot = word;
            }
            Ok(())
        })?;
        if let Some(vertex) = placed.first_missing() {
            return Err(Error::Malformed {
                place: Place::whole(&table.file),
                expected: format!("a graph for each of {} vertices", ids.len()),
                found: format!("none for vertex {}", ids.names.name(vertex)),
                remedy: "add a line with the vertex and its graph",
            });
        }
        // Graphs in the order of their first vertices.
        let mut first = vec![None; words.names.len()];
        let (mut ordered, mut standing) =
            (Vec::with_capacity(words.names.len()), Vec::with_capacity(of.len()));
        for (vertex, &word) in (0..).zip(&of) {
            let slot = &mut first[word as usize];
            if slot.is_none() {
                ordered.push(words.names[word as usize].clone());
            }
            standing.push(*slot.get_or_insert(vertex));
        }
        let known = Ids { of_graphs: true, ..Ids::of_words(&ordered, &table.file)? };
        let mut at = vec![0; known.len() as usize];
        for (word, &vertex) in words.names.iter().zip(&first) {
            if let (Some(position), Some(vertex)) = (known.position(word), vertex)
                && let Some(slot) = at.get_mut(position as usize)
            {
                *slot = vertex;
            }
        }
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

/// Which vertices have had a row: each has one at most.
struct Placed(Vec<bool>);

impl Placed {
    fn new(ids: &Ids) -> Self {
        Self(vec![false; ids.len() as usize])
    }

    /// The vertex of a row.
    fn place(&mut self, table: &Table, row: &Row, ids: &Ids) -> Result<u32> {
        let vertex = ids.find(table, row.line(), row.get(0))?;
        match self.0.get_mut(vertex as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(table.wrong(row.line(), "each id once", row.get(0))),
        }
        Ok(vertex)
    }

    fn first_missing(&self) -> Option<u32> {
        self.0.iter().position(|seen| !seen).map(|at| at as u32)
    }
}

/// A number that is written in one way only, so that `007` stays a word.
pub(super) fn canonical(word: &str) -> Option<u64> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if plain { word.parse().ok() } else { None }
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

/// A number in digits. Words that mean numbers (`nan`, `inf`) may be names.
pub(super) fn number(field: &str) -> Option<f32> {
    let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    if field.bytes().all(digits) { field.parse().ok() } else { None }
}

/// Whether a field says that a label is not known.
fn is_unknown(field: &str) -> bool {
    field.is_empty() || field.eq_ignore_ascii_case("nan")
}

/// Whether a field is a word for infinity.
fn is_infinite(field: &str) -> bool {
    let word = field.trim_start_matches(['+', '-']);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
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

/// What a table of labels holds, of all its rows.
#[derive(Default)]
struct Survey {
    /// Labels of the first row.
    width: usize,
    /// Whether the first label is a number in some rows, a word in some, infinite in some.
    numbers: bool,
    words: bool,
    infinite: bool,
    /// Whether one of the numbers is no class.
    measured: bool,
    /// Whether a number stands in a column behind the first label.
    further: bool,
    /// Whether all first labels are whole numbers of 64 bits, or words for none.
    whole: bool,
    /// Whether one of them has more digits than that.
    huge: bool,
}

impl Survey {
    fn of(table: &Table) -> Result<Self> {
        let mut found = Self { whole: true, ..Self::default() };
        table.each(2, |row| {
            if found.width == 0 {
                found.width = row.len() - 1;
            }
            let field = row.get(1);
            if !is_unknown(field) {
                match number(field) {
                    Some(value) => {
                        found.numbers = true;
                        found.measured |= field.contains(['e', 'E']) || labels::is_measured(value);
                    }
                    None if is_infinite(field) => found.infinite = true,
                    None => found.words = true,
                }
                let whole = field.parse::<i64>().is_ok();
                found.whole &= whole;
                found.huge |=
                    !whole && field.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit());
            } else {
                found.whole &= field.is_empty();
            }
            found.further |= row.fields().skip(2).any(|field| number(field).is_some());
            Ok(())
        })?;
        match found.width {
            0 => Err(table.empty("a label at least: id, label")),
            _ => Ok(found),
        }
    }
}

/// The labels of a table: classes, numbers or flags, by what its rows hold.
///
/// Several columns are labels where a number stands behind the first one, if that is not of words alone.
fn label_table(table: &Table, ids: &Ids) -> Result<Labels> {
    let found = Survey::of(table)?;
    if found.infinite && !found.words {
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            if is_infinite(row.get(1)) {
                return Err(Error::Malformed {
                    place: Place::line(&table.file, row.line()),
                    expected: "a finite number as label 1, or nothing where it is unknown".to_owned(),
                    found: format!("{:.60?}", row.get(1)),
                    remedy: "correct the label, or leave it empty",
                });
            }
        }
    }
    let words = found.words && !found.numbers;
    if !words && found.further {
        return values(table, ids, found.width);
    }
    if found.measured && !found.words {
        let mut of = vec![f32::NAN; ids.len() as usize];
        let mut placed = Placed::new(ids);
        table.each(2, |row| {
            let vertex = placed.place(table, row, ids)? as usize;
            if let Some(slot) = of.get_mut(vertex) {
                *slot = value(table, row.line(), 1, row.get(1))?;
            }
            Ok(())
        })?;
        return Ok(Labels::Numbers(Values::named(1, of, &table.file)?));
    }
    match found.whole || (found.huge && !found.words) {
        true => numbered_classes(table, ids),
        false => named_classes(table, ids),
    }
}

/// Labels of several columns.
fn values(table: &Table, ids: &Ids, width: usize) -> Result<Labels> {
    let cells = ids.len().saturating_mul(width as u64);
    let _charge = file::charge(&table.file, cells.saturating_mul(4))?;
    let (mut values, mut placed) = (vec![f32::NAN; cells as usize], Placed::new(ids));
    table.each(2, |row| {
        let vertex = placed.place(table, row, ids)? as usize;
        if row.len() != width + 1 {
            let found = format!("{} fields", row.len());
            return Err(table.wrong(row.line(), &format!("an id and {width} labels"), &found));
        }
        let slots = values.get_mut(vertex * width..(vertex + 1) * width).unwrap_or_default();
        for ((column, field), slot) in (1..).zip(row.fields().skip(1)).zip(slots) {
            *slot = value(table, row.line(), column, field)?;
        }
        Ok(())
    })?;
    labels::from_columns(u32::try_from(width).unwrap_or(u32::MAX), values, &table.file)
}

/// Whether a field stands for no class.
fn is_none(field: &str) -> bool {
    field.is_empty() || field == "-1"
}

/// Classes that are whole numbers.
fn numbered_classes(table: &Table, ids: &Ids) -> Result<Labels> {
    let (mut of, mut placed) = (vec![-1i64; ids.len() as usize], Placed::new(ids));
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(1));
        if is_none(field) || is_unknown(field) {
            return Ok(());
        }
        let Ok(number) = field.parse::<i64>() else {
            return Err(Error::Malformed {
                place: Place::line(&table.file, row.line()),
                expected: format!("a class below {}", labels::MAX_CLASSES),
                found: format!("{field:.60?}"),
                remedy: "number the classes from 0, or call them by words",
            });
        };
        if !(0..i64::from(labels::MAX_CLASSES)).contains(&number) {
            return Err(Error::LabelRange {
                place: Place::line(&table.file, row.line()),
                label: number,
                classes: u64::from(labels::MAX_CLASSES),
            });
        }
        if let Some(slot) = of.get_mut(vertex) {
            *slot = number;
        }
        Ok(())
    })?;
    labels::from_numbers(&of, &table.file)
}

/// Classes that are words, in alphabetical order.
fn named_classes(table: &Table, ids: &Ids) -> Result<Labels> {
    let (mut of, mut placed) = (vec![NO_LABEL; ids.len() as usize], Placed::new(ids));
    let mut words = Words::new(&table.file);
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(1));
        if !is_none(field)
            && let Some(slot) = of.get_mut(vertex)
        {
            *slot = words.add(field)?;
        }
        Ok(())
    })?;
    let mut order: Vec<u32> = (0..words.names.len() as u32).collect();
    order.sort_unstable_by_key(|&word| &words.names[word as usize]);
    let mut class = vec![0; order.len()];
    for (at, &word) in (0..).zip(&order) {
        class[word as usize] = at;
    }
    for label in of.iter_mut().filter(|label| **label != NO_LABEL) {
        *label = class[*label as usize];
    }
    Ok(Labels::classes(of, order.len() as u32))
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
