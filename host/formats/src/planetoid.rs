//! Reader for Planetoid data sets (Yang, Cohen and Salakhutdinov 2016), with the files
//! `ind.NAME.{x,tx,allx,y,ty,ally,graph,test.index}`. It yields the same data as the loader of Kipf
//! and Welling.
//!
//! `allx` contains the features of the first vertices. `tx` contains the features of the test
//! vertices in the order of `test.index`. `ally` and `ty` contain their labels, with one column per
//! class. `graph` contains the neighbours of each vertex.
//!
//! Test vertices that `test.index` omits (15 in Citeseer) have no features, belong to class 0 as in
//! that loader, and are in no split. The vertices of `y` are training vertices (20 per class), the
//! next 500 are validation vertices, and those of `test.index` are test vertices.

use std::path::Path;

use eciton_graph::dataset::Dataset;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::{Features, SparseBuilder, SparseRows};
use eciton_graph::labels::Labels;
use eciton_graph::split::Split;

use super::pickle::{Pickle, Value};
use super::{file, labels};

/// Number of validation vertices in every data set.
const VALIDATION: u32 = 500;

/// Returns the names of the data sets among `files`. Each has a graph file.
pub(crate) fn names(files: &[String]) -> Vec<String> {
    let name = |f: &String| Some(f.strip_prefix("ind.")?.strip_suffix(".graph")?.to_owned());
    files.iter().filter_map(name).collect()
}

/// Reads the data set `name` in a folder.
///
/// # Errors
/// Returns the errors of the pickle reader. Returns [`Error::Malformed`] or [`Error::Mismatch`] if
/// the eight files are inconsistent.
pub fn open(folder: &Path, name: &str) -> Result<Dataset> {
    let read = |part: &str| {
        let path = folder.join(format!("ind.{name}.{part}"));
        Ok::<_, Error>((file::read(&path)?, file::name(&path)))
    };
    let rows = |part: &str| {
        let (bytes, file) = read(part)?;
        Pickle::parse(&bytes, &file)?.root().sparse_rows(&file)
    };
    let one_hot = |part: &str| {
        let (bytes, file) = read(part)?;
        let pickle = Pickle::parse(&bytes, &file)?;
        let root = pickle.root();
        let array = root.array(&file)?;
        array.expect_axes(2, "labels [V, classes]")?;
        Ok::<_, Error>((labels::from_one_hot(&array.to_f32()?, array.columns()), array.columns()))
    };
    let (test_bytes, test_file) = read("test.index")?;
    let (graph_bytes, graph_file) = read("graph")?;
    let parts = Parts {
        name,
        all: rows("allx")?,
        test: rows("tx")?,
        all_labels: one_hot("ally")?,
        test_labels: one_hot("ty")?,
        train: one_hot("y")?.0.len(),
        test_ids: test_ids(&test_bytes, &test_file)?,
        test_file,
    };
    let pickle = Pickle::parse(&graph_bytes, &graph_file)?;
    parts.assemble(edges(&pickle)?)
}

struct Parts<'a> {
    name: &'a str,
    all: SparseRows,
    test: SparseRows,
    /// Class of each row of `all`, and the number of classes.
    all_labels: (Vec<u32>, usize),
    test_labels: (Vec<u32>, usize),
    train: usize,
    test_ids: Vec<u32>,
    test_file: String,
}

impl Parts<'_> {
    fn assemble(self, edges: Vec<(u32, u32)>) -> Result<Dataset> {
        self.check()?;
        let first = self.all.rows();
        let end = self.test_ids.iter().map(|&v| v as usize + 1).max().unwrap_or(0).max(first);
        // Row of `tx` for each vertex. Other vertices of the range have none.
        let mut row_of = vec![None; end - first];
        for (row, &vertex) in self.test_ids.iter().enumerate() {
            let slot = (vertex as usize).checked_sub(first).and_then(|at| row_of.get_mut(at));
            match slot {
                Some(slot @ None) => *slot = Some(row),
                _ => {
                    return Err(Error::malformed(
                        Place::line(&self.test_file, row as u64 + 1),
                        format!("each test vertex once, from {first} on"),
                        format!("{vertex}"),
                    ));
                }
            }
        }
        let (mut features, mut labels) = (SparseBuilder::new(self.all.columns), self.all_labels.0);
        let mut entries: Vec<(u32, f32)> = Vec::new();
        let mut push = |(columns, values): (&[u32], &[f32])| {
            entries.clear();
            entries.extend(columns.iter().copied().zip(values.iter().copied()));
            features.push_row(&mut entries);
        };
        (0..first).for_each(|row| push(self.all.row(row)));
        for row in row_of {
            push(row.map_or((&[], &[]), |row| self.test.row(row)));
            labels.push(row.and_then(|r| self.test_labels.0.get(r)).copied().unwrap_or(0));
        }
        let train = self.train as u32;
        let split = Split {
            train: (0..train).collect(),
            validation: (train..train + VALIDATION).collect(),
            test: self.test_ids,
        };
        let (graph, _) =
            crate::edge_graph::graph_of(&format!("ind.{}.graph", self.name), end as u64, &edges, None, true)?;
        drop(edges);
        Dataset::new(
            self.name.to_owned(),
            graph,
            Features::Sparse(features.finish()),
            Labels::classes(labels, self.all_labels.1.max(1) as u32),
            split.sorted(),
        )
        .checked()
    }

    fn check(&self) -> Result<()> {
        let equal = |part: &str, what, found: usize, expected: usize, other: &str| {
            if found == expected {
                return Ok(());
            }
            Err(Error::Mismatch {
                place: Place::whole(format!("ind.{}.{part}", self.name)),
                what,
                found: found as u64,
                expected: expected as u64,
                other: format!("ind.{}.{other}", self.name),
            })
        };
        equal("ally", "rows", self.all_labels.0.len(), self.all.rows(), "allx")?;
        equal("ty", "rows", self.test_labels.0.len(), self.test.rows(), "tx")?;
        equal("ty", "classes", self.test_labels.1, self.all_labels.1, "ally")?;
        equal("tx", "columns", self.test.columns as usize, self.all.columns as usize, "allx")?;
        equal("test.index", "vertices", self.test_ids.len(), self.test.rows(), "tx")?;
        // The highest id determines the allocation, so it must be plausible.
        let most = 2 * (self.all.rows() + self.test.rows());
        if let Some(at) = self.test_ids.iter().position(|&v| v as usize >= most) {
            return Err(Error::malformed(
                Place::line(&self.test_file, at as u64 + 1),
                format!("a vertex below {most}, twice the rows of allx and tx"),
                format!("{}", self.test_ids[at]),
            ));
        }
        if self.train + VALIDATION as usize > self.all.rows() {
            return Err(Error::malformed(
                Place::whole(format!("ind.{}.y", self.name)),
                format!("at least {VALIDATION} rows fewer than the {} of allx", self.all.rows()),
                format!("{}", self.train),
            ));
        }
        Ok(())
    }
}

fn test_ids(bytes: &[u8], file: &str) -> Result<Vec<u32>> {
    let text = String::from_utf8_lossy(bytes);
    let mut ids = Vec::new();
    for (line, word) in text.lines().enumerate() {
        if word.trim().is_empty() {
            continue;
        }
        match word.trim().parse() {
            Ok(id) => ids.push(id),
            Err(_) => {
                let place = Place::line(file, line as u64 + 1);
                return Err(Error::malformed(place, "a vertex id", format!("{word:.40?}")));
            }
        }
    }
    Ok(ids)
}

fn edges(pickle: &Pickle<'_>) -> Result<Vec<(u32, u32)>> {
    let wrong = |expected: &str, found: &str| Error::malformed(Place::whole(pickle.file()), expected, found);
    let Value::Dict(lists) = pickle.root() else {
        return Err(wrong("a dictionary of lists", pickle.root().kind()));
    };
    let id = |value: Value<'_, '_>| {
        let id = value.integer().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong("vertex ids below 2^32", value.kind()))
    };
    // A list that many keys share would be counted many times. So the number of edges is limited by
    // the file size.
    let most = pickle.bytes_len();
    let mut edges = Vec::new();
    for (key, list) in lists.iter() {
        let (source, Value::List(list)) = (id(key)?, list) else {
            return Err(wrong("a list of neighbours", list.kind()));
        };
        if edges.len() + list.len() > most {
            return Err(wrong("a separate list for each vertex", "a list that many vertices share"));
        }
        for target in list.iter() {
            edges.push((source, id(target)?));
        }
    }
    Ok(edges)
}
