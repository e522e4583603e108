//! Reader for MUSAE data sets (Rozemberczki, Allen and Sarkar 2021). A data set consists of three
//! files. `NAME_edges.csv` has a header and two columns. `NAME.json` or `NAME_features.json` maps
//! each vertex to a list of feature ids. `NAME_target.csv` has a column `id` and a class.
//!
//! The class is in the column `page_type`, or else in the last column. The classes are its distinct
//! words in alphabetical order. Features are 0 or 1. The files contain no split. NumPy's legacy
//! generator with seed 0 draws 60 / 20 / 20 % of the vertices for training, validation and test.

use std::collections::BTreeSet;
use std::path::Path;

use eciton_graph::adjacency::{Graph, check_vertices};
use eciton_graph::dataset::{Dataset, Names};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::{Features, SparseBuilder, SparseRows};
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::{NO_LABEL, Split};
use eciton_input::file::present;

use super::file::{self, Grown};
use super::table::Table;

/// Exclusive upper bound of feature ids.
pub const MAX_FEATURES: u64 = 1 << 24;

/// Returns the names of the data sets among `files`. Each has a file of edges and a file of
/// classes.
pub(crate) fn names(files: &[String]) -> Vec<String> {
    let name = |f: &String| {
        let name = f.strip_suffix("_edges.csv")?;
        files.contains(&format!("{name}_target.csv")).then(|| name.to_owned())
    };
    files.iter().filter_map(name).collect()
}

/// Reads the data set `name` in a folder.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid. Returns
/// [`Error::UnknownVertex`] if an edge or a class belongs to a vertex without features.
pub fn open(folder: &Path, name: &str) -> Result<Dataset> {
    let mut path = folder.join(format!("{name}.json"));
    if !present(&path) {
        path = folder.join(format!("{name}_features.json"));
    }
    let features = features(&file::read(&path)?, &file::name(&path))?;
    let vertices = features.rows() as u64;
    let edges = Table::open(&folder.join(format!("{name}_edges.csv")))?;
    let graph = graph(&edges, vertices)?;
    let target = Table::open(&folder.join(format!("{name}_target.csv")))?;
    let (labels, classes) = classes(&target, vertices)?;
    let split = Split::random_numpy(&labels, [0.6, 0.2], 0);
    Dataset {
        names: Names { labels: classes, split: DRAWN.to_owned(), ..Names::default() },
        ..Dataset::new(name.to_owned(), graph, Features::Sparse(features), labels, split)
    }
    .checked()
}

fn features(bytes: &[u8], file: &str) -> Result<SparseRows> {
    let wrong = |expected: &str, found: String| Error::malformed(Place::whole(file), expected, found);
    let json: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|e| Error::malformed(Place::line(file, e.line() as u64), "JSON", e.to_string()))?;
    let serde_json::Value::Object(lists) = json else {
        return Err(wrong("an object of vertex to feature ids", "another value".to_owned()));
    };
    check_vertices(lists.len() as u64, || Place::whole(file))?;
    let mut rows: Vec<Option<Vec<(u32, f32)>>> = vec![None; lists.len()];
    let mut columns = 0;
    for (vertex, list) in &lists {
        let id: Option<usize> = vertex.parse().ok();
        let Some(slot @ None) = id.and_then(|id| rows.get_mut(id)) else {
            let expected = format!("each vertex of 0..{} once", lists.len());
            return Err(wrong(&expected, format!("{vertex:.40?}")));
        };
        let mut row = Vec::new();
        for id in list.as_array().map(Vec::as_slice).unwrap_or(&[]) {
            match id.as_u64() {
                Some(id) if id < MAX_FEATURES => {
                    columns = columns.max(id as u32 + 1);
                    row.push((id as u32, 1.0));
                }
                _ => {
                    let expected = format!("feature ids below {MAX_FEATURES} (vertex {vertex})");
                    return Err(wrong(&expected, format!("{id:.40}")));
                }
            }
        }
        row.sort_unstable_by_key(|e| e.0);
        row.dedup();
        *slot = Some(row);
    }
    let mut sparse = SparseBuilder::new(columns);
    for row in rows {
        sparse.push_row(&mut row.unwrap_or_default());
    }
    Ok(sparse.finish())
}

fn graph(table: &Table, vertices: u64) -> Result<Graph> {
    let mut edges = Grown::new(&table.file);
    table.header.set(true);
    table.each(2, |row| {
        if row.len() != 2 {
            return Err(table.wrong(row.line(), "two vertex ids", &format!("{} fields", row.len())));
        }
        let id = |field: usize| vertex(table, row.line(), row.get(field), vertices);
        edges.push((id(0)?, id(1)?))
    })?;
    crate::edge_graph::graph_of(&table.file, vertices, &edges, None, true).map(|(graph, _)| graph)
}

fn vertex(table: &Table, line: u64, word: &str, vertices: u64) -> Result<u32> {
    match word.parse::<u64>() {
        Ok(id) if id < vertices => Ok(id as u32),
        Ok(_) => Err(Error::UnknownVertex {
            place: Place::line(&table.file, line),
            vertex: eciton_input::text::cut(word, 60),
            known: format!("features are given for 0..{vertices}"),
        }),
        Err(_) => Err(table.wrong(line, "a vertex id", word)),
    }
}

fn classes(table: &Table, vertices: u64) -> Result<(Labels, Vec<String>)> {
    let header = table.first(0)?;
    let column = |name: &str| header.fields().position(|f| f == name);
    let Some(id_column) = column("id") else {
        let found: Vec<&str> = header.fields().collect();
        return Err(table.wrong(header.line(), "a header with a column id", &found.join(",")));
    };
    let class_column = column("page_type").unwrap_or(header.len() - 1);
    let (mut words, mut known) = (vec![None; vertices as usize], BTreeSet::new());
    table.header.set(true);
    table.each(0, |row| {
        if row.len() <= id_column.max(class_column) {
            let found = format!("{} fields", row.len());
            return Err(table.wrong(row.line(), "the same number of fields as the header", &found));
        }
        let (id, class) = (vertex(table, row.line(), row.get(id_column), vertices)?, row.get(class_column));
        known.insert(class.to_owned());
        if let Some(slot) = words.get_mut(id as usize) {
            *slot = Some(class.to_owned());
        }
        Ok(())
    })?;
    let known: Vec<String> = known.into_iter().collect();
    let label = |word: Option<String>| {
        word.and_then(|w| known.binary_search(&w).ok()).map_or(NO_LABEL, |at| at as u32)
    };
    let labels = Labels::classes(words.into_iter().map(label).collect(), known.len() as u32);
    Ok((labels, known))
}
