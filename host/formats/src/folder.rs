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
mod nodes;
mod parts;
pub(crate) mod roles;
pub(crate) mod unused;

use std::path::{Path, PathBuf};

use eciton_graph::adjacency::{Graph, Options, check_vertices};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Encoded, Names, VertexIds};
use eciton_graph::encoding::Kind;
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
use self::parts::{Part, Parts, plain_name};
use self::roles::Roles;
use super::edge_rows::EdgeRows;
use super::missing::is_missing;
use super::settings::Use;
use super::table::{self, Table, is_header};
use super::{Request, bundle, columns, file, labels as arrays, npy};

pub(super) use graphs::graphs_beside;
pub(super) use ids::canonical;
pub(super) use labels::{exact, number, whole};

/// Reads such a folder. Memory: 8 bytes an edge beside the graph, and the columns of edges.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::UnknownVertex`], [`Error::EmptyGraph`], and those of
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
    let mut made = open_tables(folder, &roles, edges, None, request)?;
    made.name = file::folder_name(folder);
    Ok(made)
}

/// Returns a table of edges whose first two columns are source and target, as `data.toml` says or as the header
/// does. Columns that `data.toml` ignores are left out.
fn ordered(table: Table, roles: &Roles) -> Result<Table> {
    table.set_edges();
    table.refuse_index()?;
    let settings = &roles.settings.edges;
    let names = crate::kinds::names_of_header(&table)?;
    settings.check(&names, &table.file)?;
    let ends = [Use::Source, Use::Target].map(|how| settings.position(how, &names, &table.file));
    let [source, target] = ends;
    let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let ends = match (source?, target?) {
        (Some(source), Some(target)) => Some([source, target]),
        _ => roles::ends_of(&lower).filter(|ends| *ends != [0, 1]),
    };
    let ignored = |at: &usize| settings.kind(&names[*at]) == Some(Kind::Ignored);
    if ends.is_none() && !(0..names.len()).any(|at| ignored(&at)) {
        if !settings.columns.is_empty() {
            table.settle(true);
        }
        return Ok(table);
    }
    let ends = ends.unwrap_or([0, 1]);
    table.settle(true);
    let is_id = |at: &usize| lower[*at] == "id" || table::is_unnamed(&names[*at]);
    let others = (0..names.len()).filter(|at| !ends.contains(at) && !ignored(at) && !is_id(at));
    let select: Vec<usize> = ends.into_iter().chain(others).collect();
    Ok(table.view(&select))
}

/// Reads a table of edges, and features, labels and split from a folder. `nodes` is a table of nodes that goes
/// before that of the folder.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_tables(
    folder: &Path,
    roles: &Roles,
    edges: Table,
    nodes: Option<Table>,
    request: Request<'_>,
) -> Result<Dataset> {
    let expected = request.expected;
    let own = nodes.is_some();
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
    if !own {
        let mut used = parts.files();
        let name = plain_name(edges.path()).unwrap_or_default();
        used.extend([name.clone(), "edge_features.npy".to_owned()]);
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        unused::report(folder, &used, &format!("{name} is read"));
    }
    known.dataset(file::stem(edges.path()), graph, placed)
}

/// Returns `graphs.csv` of a folder, in any spelling unless the graph has a file of its own.
fn graphs_of(folder: &Path, own: bool) -> Option<PathBuf> {
    match own {
        true => graphs_beside(folder),
        false => roles::find(folder, &["graphs"]),
    }
}

/// Returns whether a folder has features and labels, and no edges. A trained model needs no labels.
pub(crate) fn has_rows(folder: &Path, expected: Option<&eciton_graph::expected::Expected>) -> bool {
    let Ok(roles) = Roles::named(folder) else { return false };
    let array = |name: &str| ["npy", "npy.gz"].iter().any(|e| present(&folder.join(format!("{name}.{e}"))));
    let features = roles.nodes.as_deref().is_some_and(roles::is_features) || array("features");
    features && (roles.labels.is_some() || array("labels") || expected.is_some()) && roles.edges.is_none()
}

/// Returns whether a folder has features, labels or a table of nodes, by their names or `data.toml`.
pub(crate) fn has_parts(folder: &Path) -> bool {
    let Ok(roles) = Roles::named(folder) else { return true };
    let arrays =
        ["features", "labels"].iter().flat_map(|name| [format!("{name}.npy"), format!("{name}.npy.gz")]);
    roles.nodes.is_some()
        || roles.labels.is_some()
        || arrays.into_iter().any(|name| present(&folder.join(name)))
}

/// Reports the files of a folder that are not read beside a graph file.
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

/// Returns whether a folder has a table of edges, by its name or `data.toml`. A `data.toml` that cannot be read
/// is an error of reading the folder.
pub(crate) fn has_edges(folder: &Path) -> bool {
    Roles::named(folder).map_or(true, |roles| roles.edges.is_some())
}

/// Returns whether tables with other names are a table of edges.
///
/// # Errors
/// Those of [`Roles::found`].
pub(crate) fn finds_edges(folder: &Path) -> Result<bool> {
    Ok(Roles::found(folder)?.edges.is_some())
}

/// Reads a folder of features and labels, and perhaps a split, without edges: no vertex has a neighbour.
///
/// # Errors
/// As [`open`].
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
    let known = Attributes::of(&parts, &ids, None, request)?;
    let used = parts.files();
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, "features and labels were read as rows without a graph");
    known.dataset(file::folder_name(folder), graph, None)
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
    /// Ids of the vertices, as the tables call them.
    pub ids: VertexIds,
}

impl Attributes {
    /// Reads `features`, `labels`, `split` and `graphs.csv` of a folder, whichever there are, for vertices that
    /// are known already: `ids` is what the files call them (numbers ascend), `vertices` how many
    /// there are.
    ///
    /// # Errors
    /// As [`open`].
    pub fn beside(folder: &Path, ids: &VertexIds, vertices: u64, request: Request<'_>) -> Result<Self> {
        let roles = Roles::beside(folder)?;
        let parts = Parts::open(folder, &roles, (graphs_beside(folder), None), None, request)?;
        let ids = match counts_from_zero(&parts, ids, vertices)? {
            true => &VertexIds::Dense,
            false => ids,
        };
        let lookup = match ids {
            VertexIds::Words(words) => Lookup::Words(words.iter().map(|w| (&**w).into()).zip(0..).collect()),
            VertexIds::Numbers(_) => Lookup::Sorted,
            VertexIds::Dense => Lookup::Dense,
        };
        let ids = Ids { names: ids.clone(), lookup, count: vertices, of_graphs: false };
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
        Ok(Self { features, encoded, labels, split, graphs, names, ids: ids.names.clone() })
    }

    /// The data set of a graph and what is known of its vertices and edges.
    ///
    /// # Errors
    /// Those of [`Dataset::validate`].
    pub fn dataset(self, name: String, graph: Graph, edge_features: Option<EdgeFeatures>) -> Result<Dataset> {
        let Self { features, encoded, labels, split, graphs, names, ids } = self;
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

/// Returns whether the tables beside a matrix or a METIS graph count vertices from 0, as Python does, although
/// the file counts from 1: then one of them has the id 0.
///
/// # Errors
/// [`Error::Malformed`] if a table has the highest id of a count from 1 as well.
fn counts_from_zero(parts: &Parts, ids: &VertexIds, vertices: u64) -> Result<bool> {
    match ids {
        VertexIds::Numbers(numbers) if numbers.first() == Some(&1) && numbers.last() == Some(&vertices) => {}
        _ => return Ok(false),
    }
    let mut zero = None;
    let mut highest = None;
    // Ids of labels and of the split are those of graphs if there are some.
    let of_vertices = match &parts.graphs {
        Some(graphs) => vec![Some(graphs), parts.features.table()],
        None => vec![parts.features.table(), parts.labels.table(), parts.split.as_ref()],
    };
    for table in of_vertices.into_iter().flatten() {
        let mut rows = table.records(1)?;
        while let Some(row) = rows.next()? {
            match canonical(row.get(0)) {
                Some(0) => zero = zero.or(Some((table, row.line()))),
                Some(id) if id == vertices => highest = highest.or(Some((table, row.line()))),
                _ => {}
            }
        }
    }
    match (zero, highest) {
        (Some((table, line)), Some((other, at))) => Err(Error::Malformed {
            place: Place::line(&table.file, line),
            expected: format!("ids from 1 to {vertices}, or from 0 to {}", vertices - 1),
            found: format!("the id 0, and {vertices} in {}, line {at}", other.file),
            remedy: "count the vertices from 1 in all tables, as the graph file does, or from 0 in all",
        }),
        (Some((table, line)), None) => {
            eciton_input::notes::add(format!(
                "{}, line {line}: the id 0 shows that the tables count vertices from 0, so vertex 0 is vertex 1 of the \
                 graph file",
                table.file
            ));
            Ok(true)
        }
        _ => Ok(false),
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
            // A column of a table of nodes may leave nodes out.
            None if table.is_view() && is_missing(row.get(1)) => {}
            None => return Err(table.wrong(row.line(), "train, val or test", row.get(1))),
        }
        Ok(())
    })?;
    let [train, validation, test] = parts;
    Ok(Split { train, validation, test }.sorted())
}
