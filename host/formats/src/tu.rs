//! Reader for TU data sets (Morris et al. 2020), which have many graphs in text files with one line
//! per edge, vertex or graph.
//!
//! ```text
//! MUTAG/
//! MUTAG_A.txt                 source, target: one edge a line, vertices from 1
//! MUTAG_graph_indicator.txt   the graph of each vertex, from 1, in any order
//! MUTAG_graph_labels.txt      the class of each graph, any whole number
//! MUTAG_graph_attributes.txt  in place of classes: one or several numbers a graph
//! MUTAG_node_attributes.txt   one or several numbers a vertex
//! MUTAG_node_labels.txt       one or several whole numbers a vertex
//! MUTAG_edge_attributes.txt   one or several numbers an edge
//! MUTAG_edge_labels.txt       one or several whole numbers an edge
//! ```
//!
//! Only the first two files are required. Each may be compressed with gzip, with or without `.gz`
//! at the end of its name. Classes are the distinct labels in ascending order. Features are the
//! attributes, followed by one-hot columns for each label column, as in PyTorch Geometric. There is
//! one such column for each number from the lowest to the highest. Without attributes and labels,
//! each vertex has the constant 1. Every edge is used in both directions, with the same features.
//! Repeated edges follow the rule of [`eciton_graph::edge_rule`].
//!
//! The files contain no split. 80 / 10 / 10 % of the graphs are drawn for training, validation and
//! test with seed 0 ([`Split::random`]).

use std::path::{Path, PathBuf};

use eciton_graph::adjacency::check_vertices;
use eciton_graph::corrections::{Collector, Corrections, Number};
use eciton_graph::dataset::{Dataset, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::{Features, SparseBuilder};
use eciton_graph::graphs::{Graphs, apart_error};
use eciton_graph::labels::{Labels, MAX_CLASSES, Values};
use eciton_graph::split::{NO_LABEL, Split};

use super::edge_rows::EdgeRows;
use super::edge_text::{excerpt, records, separates};
use super::file::{self, Grown};
use super::lines::Lines;
use super::ogb::MAX_COLUMNS;
use super::snap::at_line;

/// Maximum number of one-hot columns for edge labels.
pub const MAX_EDGE_LABELS: usize = 1 << 12;

const INDICATOR: &str = "_graph_indicator.txt";

/// Returns the names of the data sets in a folder with the entries `files`. They may be in the
/// folder itself, in its subfolder `raw`, or in subfolders `NAME` and `NAME/raw`.
pub(crate) fn names(folder: &Path, files: &[String]) -> Vec<String> {
    let name =
        |file: &String| file.strip_suffix(".gz").unwrap_or(file).strip_suffix(INDICATOR).map(str::to_owned);
    let mut names: Vec<String> = files.iter().filter_map(name).collect();
    if names.is_empty() && files.iter().any(|file| file == "raw") {
        names = file::list(&folder.join("raw")).unwrap_or_default().iter().filter_map(name).collect();
    }
    if names.is_empty() {
        let holds = |name: &&String| locate(folder, name).is_some();
        names = files.iter().filter(holds).cloned().collect();
    }
    names.dedup();
    names
}

/// Returns the folder that contains the files of the data set `name`, or `None` if there is none.
fn locate(folder: &Path, name: &str) -> Option<PathBuf> {
    let own = folder.join(name);
    let all = [folder.to_owned(), folder.join("raw"), own.join("raw"), own];
    all.into_iter().find(|folder| find(folder, name, "graph_indicator").is_some())
}

fn find(folder: &Path, name: &str, part: &str) -> Option<PathBuf> {
    ["txt", "txt.gz"]
        .iter()
        .map(|extension| folder.join(format!("{name}_{part}.{extension}")))
        .find(|path| eciton_input::file::present(path))
}

/// Reads the data set `name` of a folder. Reading needs memory for the graph, 8 bytes per edge, the
/// features, and the edge features twice.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid, and [`Error::UnknownVertex`]
/// if a vertex does not exist. Returns [`Error::Mismatch`] if the files are inconsistent, and
/// [`Error::Limit`] if there are too many columns. Also returns the errors of
/// [`Dataset::validate`].
pub fn open(folder: &Path, name: &str) -> Result<Dataset> {
    let folder = &locate(folder, name).unwrap_or_else(|| folder.to_owned());
    let of = indicator(folder, name)?;
    let vertices = of.len() as u64;
    let graphs = Graphs::new(&of)?;
    let labels = labels(folder, name, &of, &graphs)?;
    let edges = edges(folder, name, &of)?;
    let rows = edge_rows(folder, name, edges.len())?;
    let (graph, edge_features) = super::edge_graph::graph_of(name, vertices, &edges, rows.as_ref(), true)?;
    drop((edges, rows));
    let features = features(folder, name, vertices)?;
    let split = Split::random(&labels, [0.8, 0.1], 0);
    let drawn = "80 / 10 / 10 % of the labelled graphs, drawn from seed 0".to_owned();
    let names = Names { split: drawn, ..Names::default() };
    let ids = VertexIds::Numbers((1..=vertices).collect());
    let (name, graphs) = (name.to_owned(), Some(graphs));
    Dataset { edge_features, graphs, ids, names, ..Dataset::new(name, graph, features, labels, split) }
        .checked()
}

fn needed(folder: &Path, name: &str, part: &str) -> Result<PathBuf> {
    find(folder, name, part).ok_or_else(|| Error::Read {
        path: folder.join(format!("{name}_{part}.txt")),
        source: std::io::ErrorKind::NotFound.into(),
    })
}

/// Reads the graph of each vertex. Graphs are numbered from 1.
fn indicator(folder: &Path, name: &str) -> Result<Vec<u64>> {
    let path = needed(folder, name, "graph_indicator")?;
    let file = file::name(&path);
    let mut of = Grown::new(&file);
    each_row(&path, |line, fields| {
        let number = match fields {
            [field] => whole(field).and_then(|number| u64::try_from(number).ok()).filter(|&n| n > 0),
            _ => None,
        };
        of.push(number.ok_or_else(|| {
            let expected = "the number of a graph, from 1";
            Error::malformed(Place::line(&file, line), expected, shown(fields))
        })?)
    })?;
    check_vertices(of.len() as u64, || Place::whole(&file))?;
    // Memory for the graphs, their ids and labels in the data set, per vertex.
    super::file::charge(&file, 48 * of.len() as u64)?.keep();
    Ok(of.finish())
}

/// Reads all edges, and returns them with vertices numbered from 0. `of` is the graph of each
/// vertex. Both ends of an edge must be in the same graph.
fn edges(folder: &Path, name: &str, of: &[u64]) -> Result<Vec<(u32, u32)>> {
    let path = needed(folder, name, "A")?;
    let mut lines = Lines::open(&path)?;
    let (file, mut edges) = (lines.file().to_owned(), Vec::new());
    let known = |id: u64| {
        let graph = id.checked_sub(1).and_then(|at| of.get(usize::try_from(at).ok()?));
        graph
            .copied()
            .ok_or_else(|| format!("two vertices of 1 to {}, the lines of {name}{INDICATOR}", of.len()))
    };
    while let Some((first, block)) = lines.next()? {
        let mut apart = None;
        let read = records(block, 2, |source, target, _| {
            let graphs = [known(source)?, known(target)?];
            edges.push(((source - 1) as u32, (target - 1) as u32));
            if graphs[0] != graphs[1] {
                let name = |id: u64, graph: u64| (id.to_string(), graph.to_string());
                apart = Some([name(source, graphs[0]), name(target, graphs[1])]);
                return Err(String::new());
            }
            Ok(())
        });
        read.map_err(|fault| match apart {
            Some(ends) => {
                let before = block.get(..fault.at).unwrap_or_default();
                apart_error(Place::line(&file, first + super::lines::count(before)), ends)
            }
            None => at_line(&file, first, block, fault),
        })?;
    }
    Ok(edges)
}

/// Reads the labels of the graphs, and assigns them to the representative vertex of each graph.
fn labels(folder: &Path, name: &str, of: &[u64], graphs: &Graphs) -> Result<Labels> {
    let vertices = of.len() as u32;
    let (path, read): (_, fn(&Path) -> Result<Labels>) =
        match (find(folder, name, "graph_labels"), find(folder, name, "graph_attributes")) {
            (Some(path), _) => (path, classes),
            (None, Some(path)) => (path, |path| {
                let (columns, values, _) = numbers(path)?;
                Ok(Labels::Numbers(Values::named(columns as u32, values, &file::name(path))?))
            }),
            (None, None) => return Ok(Labels::none(vertices)),
        };
    let (labels, file) = (read(&path)?, file::name(&path));
    let known = labels.rows() as u64;
    let mut standing = vec![None; labels.rows()];
    for (row, &vertex) in (1..).zip(graphs.standing_of_vertices()) {
        let graph = of[vertex as usize];
        let Some(slot) = standing.get_mut((graph - 1) as usize) else {
            return Err(Error::Malformed {
                place: Place::line(format!("{name}{INDICATOR}"), row),
                expected: format!("a graph of 1 to {known}, the lines of {file}"),
                found: graph.to_string(),
                remedy: "write one line for each graph, or correct the number",
            });
        };
        *slot = Some(vertex);
    }
    let at: Option<Vec<u32>> = standing.iter().copied().collect();
    let at = at.ok_or_else(|| {
        let empty = standing.iter().position(Option::is_none).unwrap_or(0);
        Error::Malformed {
            place: Place::line(&file, empty as u64 + 1),
            expected: format!("a graph that has vertices in {name}{INDICATOR}"),
            found: format!("graph {} without vertices", empty + 1),
            remedy: "remove the graph's line and renumber the graphs after it, or add a vertex",
        }
    })?;
    labels.at_vertices(&at, vertices, &file)
}

/// Reads one integer per graph as its class. The classes are the distinct integers in ascending
/// order.
fn classes(path: &Path) -> Result<Labels> {
    let (file, mut numbers) = (file::name(path), Vec::new());
    each_row(path, |line, fields| {
        let number = match fields {
            [field] => whole(field),
            _ => None,
        };
        numbers.push(number.ok_or_else(|| Error::Malformed {
            place: Place::line(&file, line),
            expected: "a class, which is one whole number".to_owned(),
            found: shown(fields),
            remedy: "rename the file to graph_attributes if graphs have numbers to predict",
        })?);
        Ok(())
    })?;
    let mut known = numbers.clone();
    known.sort_unstable();
    known.dedup();
    if known.len() > MAX_CLASSES as usize {
        return Err(Error::Limit {
            place: Place::whole(&file),
            limit: "classes",
            unit: "classes",
            allowed: MAX_CLASSES.into(),
            found: known.len() as u64,
            remedy: "these look like ids or measurements, not classes",
        });
    }
    let class = |number: &i64| known.binary_search(number).map_or(NO_LABEL, |at| at as u32);
    Ok(Labels::classes(numbers.iter().map(class).collect(), known.len() as u32))
}

/// Returns the attributes and one-hot labels of the vertices. Without either, each vertex has the
/// constant 1.
fn features(folder: &Path, name: &str, vertices: u64) -> Result<Features> {
    let rows = |path: &Path, found: usize| same(path, found as u64, vertices, "graph_indicator", name);
    let mut corrections = Corrections::NONE;
    let attributes = match find(folder, name, "node_attributes") {
        Some(path) => {
            let (columns, values, found) = numbers(&path)?;
            rows(&path, values.len() / columns)?;
            corrections = found;
            Some((columns, values))
        }
        None => None,
    };
    let labels = match find(folder, name, "node_labels") {
        Some(path) => {
            let labels = OneHot::open(&path, MAX_COLUMNS)?;
            rows(&path, labels.rows())?;
            Some(labels)
        }
        None => None,
    };
    let (Some(labels), attributes) = (labels, &attributes) else {
        return match attributes {
            Some((columns, values)) => {
                Ok(Features::from_dense(columns as u32, &values)?.with_corrections(corrections))
            }
            None => Features::constant(vertices),
        };
    };
    let (width, values) = attributes.as_ref().map_or((0, &[][..]), |(width, values)| (*width, &values[..]));
    let columns = width + labels.columns();
    let mut sparse = SparseBuilder::new(columns as u32);
    let mut row: Vec<(u32, f32)> = Vec::new();
    for vertex in 0..vertices as usize {
        row.clear();
        row.extend((0..).zip(values[vertex * width..(vertex + 1) * width].iter().copied()));
        row.extend(labels.columns_of(vertex).map(|column| ((width + column) as u32, 1.0)));
        sparse.push_row(&mut row);
    }
    Ok(Features::from_sparse(sparse.finish())?.with_corrections(corrections))
}

/// Returns the attributes and one-hot labels of the edges, or `None` if there are neither.
fn edge_rows(folder: &Path, name: &str, edges: usize) -> Result<Option<EdgeRows>> {
    let rows = |path: &Path, found: usize| same(path, found as u64, edges as u64, "A", name);
    let (mut width, mut values) = (0, Vec::new());
    if let Some(path) = find(folder, name, "edge_attributes") {
        (width, values, _) = numbers(&path)?;
        rows(&path, values.len() / width)?;
    }
    let Some(path) = find(folder, name, "edge_labels") else {
        let named = find(folder, name, "edge_attributes").filter(|_| width > 0);
        return named.map(|path| EdgeRows::new(width, values, &file::name(&path))).transpose();
    };
    let labels = OneHot::open(&path, MAX_EDGE_LABELS)?;
    rows(&path, labels.rows())?;
    let columns = width + labels.columns();
    let mut all = vec![0.0; edges * columns];
    for (edge, row) in all.chunks_exact_mut(columns).enumerate() {
        row[..width].copy_from_slice(&values[edge * width..(edge + 1) * width]);
        labels.columns_of(edge).for_each(|column| row[width + column] = 1.0);
    }
    EdgeRows::new(columns, all, &file::name(&path)).map(Some)
}

/// Checks that a file has as many lines as another file.
fn same(path: &Path, found: u64, expected: u64, other: &str, name: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (place, other) = (Place::whole(file::name(path)), format!("{name}_{other}.txt"));
    Err(Error::Mismatch { place, what: "lines", found, expected, other })
}

/// Label columns, each of which is converted to one-hot columns. There is one for each integer from
/// the lowest to the highest label.
struct OneHot {
    /// Labels in row-major order.
    numbers: Vec<i64>,
    /// Lowest label of each label column, and the index of its first one-hot column.
    each: Vec<(i64, usize)>,
    columns: usize,
}

impl OneHot {
    fn open(path: &Path, most: usize) -> Result<Self> {
        let (file, mut numbers) = (file::name(path), Vec::new());
        let mut range: Vec<(i64, i64)> = Vec::new();
        each_row(path, |line, fields| {
            if numbers.is_empty() {
                range = vec![(i64::MAX, i64::MIN); fields.len()];
            }
            check_width(&file, line, fields, range.len())?;
            for (field, (least, largest)) in fields.iter().zip(&mut range) {
                let number = whole(field).ok_or_else(|| {
                    Error::malformed(
                        Place::line(&file, line),
                        "a label, which is a whole number",
                        excerpt(field),
                    )
                })?;
                (*least, *largest) = (number.min(*least), number.max(*largest));
                numbers.push(number);
            }
            Ok(())
        })?;
        let (mut each, mut columns) = (Vec::with_capacity(range.len()), 0u64);
        for (least, largest) in range {
            each.push((least, columns as usize));
            columns = columns.saturating_add(largest.abs_diff(least).saturating_add(1));
            if columns > most as u64 {
                return Err(Error::Limit {
                    place: Place::whole(&file),
                    limit: "labels as columns",
                    unit: "columns",
                    allowed: most as u64,
                    found: columns,
                    remedy: "number the labels from 0 without gaps, or write them as attributes",
                });
            }
        }
        Ok(Self { numbers, each, columns: columns as usize })
    }

    fn rows(&self) -> usize {
        self.numbers.len().checked_div(self.each.len()).unwrap_or(0)
    }

    fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the one-hot columns in which a row has a 1.
    fn columns_of(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        let numbers = &self.numbers[row * self.each.len()..(row + 1) * self.each.len()];
        self.each.iter().zip(numbers).map(|((least, first), number)| first + number.abs_diff(*least) as usize)
    }
}

/// Reads rows of finite numbers. Returns the number of columns (at least one), the values in
/// row-major order, and corrections for values that f32 cannot represent exactly.
fn numbers(path: &Path) -> Result<(usize, Vec<f32>, Corrections)> {
    let (file, mut columns) = (file::name(path), 0);
    let (mut values, mut rows) = (Grown::new(&file), 0);
    let mut corrections = Collector::dense(&file);
    each_row(path, |line, fields| {
        if values.is_empty() {
            columns = fields.len();
        }
        check_width(&file, line, fields, columns)?;
        for (column, field) in (0u32..).zip(fields) {
            match std::str::from_utf8(field).ok().and_then(Number::parse) {
                Some(value) if value.rounded.is_finite() => {
                    values.push(corrections.push(rows, column, value))?;
                }
                Some(Number { rounded: value, .. }) => {
                    let (place, column) = (Place::line(&file, line), column.into());
                    return Err(Error::NotFinite { place, column, value });
                }
                None => return Err(Error::malformed(Place::line(&file, line), "a number", excerpt(field))),
            }
        }
        rows += 1;
        Ok(())
    })?;
    match columns {
        0 => Err(Error::malformed(Place::whole(&file), "a row of numbers", "none")),
        _ => Ok((columns, values.finish(), corrections.finish())),
    }
}

fn check_width(file: &str, line: u64, fields: &[&[u8]], columns: usize) -> Result<()> {
    let found = fields.len();
    if found == columns && found <= MAX_COLUMNS {
        return Ok(());
    }
    let expected = format!("{} fields", columns.min(MAX_COLUMNS));
    Err(Error::malformed(Place::line(file, line), expected, format!("{found} fields")))
}

/// Calls `each` with the line number and the fields of every line that is not blank. Fields are
/// separated by commas or white space.
fn each_row(path: &Path, mut each: impl FnMut(u64, &[&[u8]]) -> Result<()>) -> Result<()> {
    Lines::open(path)?.each(|number, line| {
        let fields: Vec<&[u8]> =
            line.split(|&byte| separates(byte)).filter(|field| !field.is_empty()).collect();
        if fields.is_empty() { Ok(()) } else { each(number, &fields) }
    })
}

/// Parses an integer. The form `1.0` is also accepted, because some published files contain it.
fn whole(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?;
    let text = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    text.parse().ok()
}

fn shown(fields: &[&[u8]]) -> String {
    excerpt(&fields.join(&b", "[..]))
}
