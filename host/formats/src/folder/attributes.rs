//! Features, labels, split and graphs of vertices whose ids are already known.

use std::path::Path;

use eciton_graph::adjacency::Graph;
use eciton_graph::dataset::{Dataset, EdgeFeatures, Encoded, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::graphs::Graphs;
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;

use super::features::{self, Read};
use super::graphs::{GraphIds, graphs_beside};
use super::headers::ids_or_header;
use super::ids::{Ids, Lookup};
use super::labels::{self, label_table};
use super::nodes::MASKS;
use super::parts::{Part, Parts};
use super::roles::Roles;
use crate::missing::is_missing;
use crate::numbers::canonical;
use crate::request::Request;
use crate::table::{Table, is_header};
use crate::{bundle, columns, file, kinds, labels as arrays, npy};

/// Attributes of the vertices of a folder, with features, labels, split, and the graph of each
/// vertex if there are several graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// Features with one row per vertex. If there is no file, each vertex has its own one-hot
    /// feature, or the constant 1 if there are many graphs.
    pub features: Features,
    /// Typed table that the features were encoded from. `None` if all features are numbers in the
    /// files.
    pub encoded: Option<Encoded>,
    /// Labels of the vertices. If there is no file, no vertex has a label.
    pub labels: Labels,
    /// Training, validation and test vertices. If there is no file, they are a random split of the
    /// labelled vertices into 60 / 20 / 20 %.
    pub split: Split,
    /// Graph of each vertex. `None` if there is no `graphs.csv`.
    pub graphs: Option<Graphs>,
    /// Edges with the labels and the split. `None` if vertices or graphs have them.
    pub labelled_edges: Option<LabelledEdges>,
    /// Names of classes and columns, from headers and labels.
    pub names: Names,
    /// Ids of the vertices in the user's tables.
    pub ids: VertexIds,
}

impl Attributes {
    /// Reads the files `features`, `labels`, `split` and `graphs.csv` of a folder, as far as they
    /// exist, for known vertices. `vertices` is the number of vertices. `ids` are their ids in the
    /// files, which ascend if they are numbers.
    ///
    /// # Errors
    /// Returns the errors of [`open`].
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
        let graphs = parts.graphs.as_ref().map(|table| GraphIds::from_table(table, &ids)).transpose()?;
        Self::from_parts(&parts, &ids, graphs, request)
    }

    pub(super) fn from_parts(
        parts: &Parts,
        ids: &Ids,
        graphs: Option<GraphIds>,
        request: Request<'_>,
    ) -> Result<Self> {
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
                    "{} is not used, because there are no labels (labels.csv or labels.npy)",
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
        let (labelled_edges, ids) = (None, ids.names.clone());
        Ok(Self { features, encoded, labels, split, graphs, labelled_edges, names, ids })
    }

    /// Combines a graph and its edge features with these attributes to a data set.
    ///
    /// # Errors
    /// Returns the errors of [`Dataset::validate`].
    pub fn dataset(self, name: String, graph: Graph, edge_features: Option<EdgeFeatures>) -> Result<Dataset> {
        let Self { features, encoded, labels, split, graphs, labelled_edges, names, ids } = self;
        Dataset {
            edge_features,
            graphs,
            labelled_edges,
            ids,
            names,
            encoded,
            ..Dataset::new(name, graph, features, labels, split)
        }
        .checked()
    }
}

/// Returns whether the tables next to a matrix or METIS file count vertices from 0, although the
/// graph file counts from 1. This is the case if one of the tables has the id 0.
///
/// # Errors
/// Returns [`Error::Malformed`] if one table has the id 0 and another one the highest id of a
/// numbering from 1.
fn counts_from_zero(parts: &Parts, ids: &VertexIds, vertices: u64) -> Result<bool> {
    match ids {
        VertexIds::Numbers(numbers) if numbers.first() == Some(&1) && numbers.last() == Some(&vertices) => {}
        _ => return Ok(false),
    }
    let mut zero = None;
    let mut highest = None;
    // If there are many graphs, the ids of labels and of the split are ids of graphs.
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
            remedy: "number the vertices from 1 in all tables, as the graph file does, or from 0 in all tables",
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

/// Removes the vertices without a label from a split, and adds a note about them to the reading
/// report.
pub(super) fn of_labelled(mut split: Split, labels: &Labels, table: &Table, ids: &Ids) -> Split {
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
        let lines = match (&ids.lookup, left) {
            (Lookup::Order, 1) => "1 line names an edge".to_owned(),
            (Lookup::Order, _) => format!("{left} lines name edges"),
            (_, 1) => "1 line names a vertex".to_owned(),
            (_, _) => format!("{left} lines name vertices"),
        };
        eciton_input::notes::add(format!(
            "{}: {lines} without a label ({name}), which is not used",
            table.file
        ));
    }
    split
}

/// Returns the number of the part that a field of a split names: 0 for training, 1 for validation, 2
/// for test. Returns `None` for other fields.
pub(super) fn part_number(field: &str) -> Option<usize> {
    match field.to_lowercase().as_str() {
        "train" | "training" => Some(0),
        "val" | "valid" | "validation" => Some(1),
        "test" => Some(2),
        _ => None,
    }
}

/// Reads a split table. If its ids are ids of graphs, `at` is the representative vertex of each
/// graph.
fn split(table: &Table, ids: &Ids, at: Option<&[u32]>) -> Result<Split> {
    let at_vertex = |id: u32| at.map_or(id, |at| at[id as usize]);
    let first = table.first(2)?;
    let numbers = crate::header::counting(first.fields()) == Some(first.len());
    table.set_header(
        is_header(first.get(0))
            || (part_number(first.get(1)).is_none() && (numbers || ids.position(first.get(0)).is_none())),
    );
    let mask = |name: &str| {
        MASKS.iter().position(|names| names.iter().any(|known| name.eq_ignore_ascii_case(known)))
    };
    let masks: Vec<(usize, usize)> = match table.header.get() {
        true => (1..).zip(first.fields().skip(1)).filter_map(|(at, name)| Some((at, mask(name)?))).collect(),
        false => Vec::new(),
    };
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    if !masks.is_empty() {
        table.each(2, |row| {
            let id = ids.find(table, row.line(), row.get(0))?;
            for &(at, part) in &masks {
                match kinds::boolean(row.get(at)) {
                    Some(true) => parts[part].push(at_vertex(id)),
                    None if !is_missing(row.get(at)) => {
                        return Err(table.wrong(
                            row.line(),
                            "true or false in a column of a mask",
                            row.get(at),
                        ));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        let [train, validation, test] = parts;
        return Ok(Split { train, validation, test }.sorted());
    }
    let unused: Vec<String> = first.fields().skip(2).map(str::to_owned).collect();
    if !unused.is_empty() && table.header.get() {
        eciton_input::notes::add(columns::unused(
            &table.file,
            "the second column contains the split",
            &unused,
        ));
    }
    table.each(2, |row| {
        let vertex = at_vertex(ids.find(table, row.line(), row.get(0))?);
        match part_number(row.get(1)).and_then(|part| parts.get_mut(part)) {
            Some(part) => part.push(vertex),
            // A column of a node table may leave the field of a node empty.
            None if table.is_view() && is_missing(row.get(1)) => {}
            None => return Err(table.wrong(row.line(), "train, val or test", row.get(1))),
        }
        Ok(())
    })?;
    let [train, validation, test] = parts;
    Ok(Split { train, validation, test }.sorted())
}
