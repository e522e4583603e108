//! Data sets in a single `.npz` archive, whose layout is recognised by the names of its arrays.
//!
//! | layout | arrays | split |
//! | --- | --- | --- |
//! | gnn-benchmark (Shchur et al. 2018) | `adj_{data,indices,indptr,shape}`, likewise `attr_*`, `labels` | 20 / 30 per class, seed 0 |
//! | GraphData | `adj_matrix`, `node_attr`: pickled SciPy rows; `node_label` | 20 / 30 per class, seed 0 |
//! | [rows](super::rows) without a graph | `x`, `y`, or `data`, `target` | `train_mask`, `val_mask`, `test_mask`, else 60 / 20 / 20 %, seed 0 |
//! | heterophilous (Platonov et al. 2023) | `edges [E, 2]`, `node_features`, `node_labels`, `{train,val,test}_masks [splits, V]` | published split 0 |
//!
//! Without a published split, the split of Shchur et al. is drawn. It has 20 training and 30
//! validation vertices per class, and all others are test vertices. NumPy's legacy generator with
//! seed 0 draws it, so it equals the split of Python scripts that follow this rule. All graphs are
//! made symmetric.
//!
//! If any value of the adjacency matrix outside of the diagonal is not 1, the values become a
//! column of edge features. Repeated entries and stored zeros follow the rule of
//! [`eciton_graph::edge_rule`].
//!
//! Labels with several columns `[V, labels]` are Boolean labels if all values are 0, 1 or NaN, and
//! numbers otherwise. Without a published split, 60 / 20 / 20 % of the labelled vertices are then
//! drawn with seed 0.

use std::io::{Read, Seek};
use std::path::Path;

use eciton_graph::adjacency::Graph;
use eciton_graph::build;
use eciton_graph::dataset::{Dataset, EdgeFeatures};
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::threads::processors;

use super::array::Array;
use super::csr::Stored;
use super::edge_graph::AS_LISTED;
use super::npy::{self, Npy};
use super::npz::Npz;
use super::pickle::Pickle;
use super::{csr, file, labels, rows};

/// Description of the known layouts, for the error message about an unknown one.
pub(crate) const KNOWN: &str = "adj_data, adj_indices, adj_indptr, adj_shape, attr_*, labels \
     (gnn-benchmark); adj_matrix, node_attr, node_label (GraphData); edges, node_features, \
     node_labels, train_masks, val_masks, test_masks (heterophilous); x, y, or data, target (rows without \
     a graph)";

/// Reads a `.npz` archive in any of the layouts that the module documentation lists.
///
/// # Errors
/// Returns [`Error::UnknownLayout`] with the names of the arrays if no layout matches, and
/// [`Error::Mismatch`] if the arrays are inconsistent. Also returns the errors of the array and
/// pickle readers.
pub fn open(path: &Path, expected: Option<&Expected>) -> Result<Dataset> {
    Bundle { npz: Npz::open(path)?, name: file::stem(path) }.read(path, expected)
}

/// Opened archive with the name of its data set.
pub(crate) struct Bundle<R> {
    pub(crate) npz: Npz<R>,
    pub(crate) name: String,
}

impl<R: Read + Seek> Bundle<R> {
    pub(crate) fn read(mut self, path: &Path, expected: Option<&Expected>) -> Result<Dataset> {
        let keys = self.npz.keys();
        let has = |wanted: &[&str]| wanted.iter().all(|w| keys.iter().any(|k| k == w));
        let data = if has(&["adj_indices", "adj_indptr", "adj_shape", "labels"]) {
            self.plain(has(&["attr_indptr"]))?
        } else if has(&["adj_matrix", "node_attr", "node_label"]) {
            self.pickled()?
        } else if has(&["edges", "node_features", "node_labels", "train_masks"]) {
            self.heterophilous()?
        } else if let Some(names) = rows::names(&keys, expected) {
            return rows::archive(&mut self.npz, self.name, names, expected);
        } else {
            return Err(Error::UnknownLayout {
                path: path.to_owned(),
                found: keys.into_iter().take(20).collect(),
                known: KNOWN,
            });
        };
        data.checked()
    }

    fn with<T>(&mut self, key: &str, read: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
        let bytes = self.npz.entry(key)?;
        read(npy::parse(&bytes, &self.npz.place(key))?)
    }

    fn sparse(&mut self, prefix: &str) -> Result<Stored> {
        let shape = self.with(&format!("{prefix}_shape"), |a| a.to_i64())?;
        let (ptr, ind, val) = (
            self.npz.entry(&format!("{prefix}_indptr"))?,
            self.npz.entry(&format!("{prefix}_indices"))?,
            self.npz.entry(&format!("{prefix}_data"))?,
        );
        let place = |part: &str| self.npz.place(&format!("{prefix}_{part}"));
        csr::stored(
            &self.npz.place(prefix),
            &shape,
            &npy::parse(&ptr, &place("indptr"))?,
            &npy::parse(&ind, &place("indices"))?,
            &npy::parse(&val, &place("data"))?,
        )
    }

    /// Reads an archive in the gnn-benchmark layout.
    fn plain(&mut self, attributed: bool) -> Result<Dataset> {
        let adjacency = self.sparse("adj")?;
        let (graph, edge_features) = self.graph_of(&adjacency, "adj_shape", "adj_data")?;
        drop(adjacency);
        let features = match attributed {
            true => Features::Sparse(self.sparse("attr")?.sorted()),
            false => Features::identity(graph.vertices()),
        };
        self.unsplit(graph, features, edge_features, "labels")
    }

    /// Reads an archive in the GraphData layout.
    fn pickled(&mut self) -> Result<Dataset> {
        let adjacency = self.pickled_rows("adj_matrix")?;
        let (graph, edge_features) = self.graph_of(&adjacency, "adj_matrix", "adj_matrix")?;
        drop(adjacency);
        let features = self.pickled_features("node_attr")?;
        self.unsplit(graph, features, edge_features, "node_label")
    }

    fn heterophilous(&mut self) -> Result<Dataset> {
        let features = self.with("node_features", dense)?;
        let (labels, classes) = self.with("node_labels", |a| labels::from_array(&a))?;
        let edges = self.with("edges", |a| {
            a.expect_axes(2, "edges [E, 2]")?;
            if a.columns() != 2 {
                let found = format!("{} columns", a.columns());
                return Err(Error::malformed(Place::whole(&a.file), "edges [E, 2]", found));
            }
            a.to_u32()
        })?;
        let pairs: Vec<(u32, u32)> = edges.as_chunks::<2>().0.iter().map(|&[s, t]| (s, t)).collect();
        drop(edges);
        let vertices = labels.rows() as u64;
        let (graph, _) = super::edge_graph::graph_of(&self.npz.place("edges"), vertices, &pairs, None, true)?;
        drop(pairs);
        let split = Split {
            train: self.mask("train_masks", labels.rows())?,
            validation: self.mask("val_masks", labels.rows())?,
            test: self.mask("test_masks", labels.rows())?,
        };
        let mut made = self.dataset(graph, features, None, labels, split);
        made.names.labels = classes;
        Ok(made)
    }

    /// Returns the vertices that the first row of a mask array selects. The array has the shape
    /// `[splits, V]` or `[V]`.
    fn mask(&mut self, key: &str, vertices: usize) -> Result<Vec<u32>> {
        let (flags, columns, place) = self.with(key, |a| {
            let columns = if a.shape.len() == 2 { a.columns() } else { a.rows() };
            Ok((a.to_bool()?, columns, a.file.clone()))
        })?;
        if columns != vertices || flags.len() < vertices {
            return Err(Error::Mismatch {
                place: Place::whole(place),
                what: "vertices",
                found: columns as u64,
                expected: vertices as u64,
                other: "node_labels".to_owned(),
            });
        }
        Ok((0..vertices as u32).filter(|&v| flags[v as usize]).collect())
    }

    fn pickled_rows(&mut self, key: &str) -> Result<Stored> {
        let (bytes, place) = (self.npz.entry(key)?, self.npz.place(key));
        let npy = Npy::parse(&bytes, &place)?;
        let Some(pickle) = npy.pickle() else {
            return Err(Error::malformed(
                Place::whole(place),
                "pickled sparse rows (type O)",
                "an array of numbers",
            ));
        };
        Pickle::parse(pickle, &place)?.root().stored_rows(&place)
    }

    fn pickled_features(&mut self, key: &str) -> Result<Features> {
        let bytes = self.npz.entry(key)?;
        let npy = Npy::parse(&bytes, &self.npz.place(key))?;
        match npy.pickle() {
            Some(_) => Ok(Features::Sparse(self.pickled_rows(key)?.sorted())),
            None => dense(npy.array()?),
        }
    }

    /// Converts an adjacency matrix to a graph. Its values are returned as edge features unless all
    /// of them are 1. `shape` and `data` are the names of its arrays for error messages.
    fn graph_of(&self, adjacency: &Stored, shape: &str, data: &str) -> Result<(Graph, Option<EdgeFeatures>)> {
        let vertices = adjacency.rows();
        if vertices != u64::from(adjacency.columns) {
            return Err(Error::malformed(
                Place::whole(self.npz.place(shape)),
                "the same number of rows and columns",
                format!("{vertices} rows, {} columns", adjacency.columns),
            ));
        }
        let place = self.npz.place(data);
        let mut valued = adjacency.entries().zip(&adjacency.values);
        if let Some(((row, column), &value)) = valued.find(|((s, t), value)| s != t && !value.is_finite()) {
            return Err(Error::Malformed {
                place: Place::row(place, row.into()),
                expected: format!("a finite value of the adjacency in column {column}"),
                found: value.to_string(),
                remedy: "replace the value, or remove the entry from the adjacency",
            });
        }
        let plain = adjacency.values.iter().all(|&value| value == 1.0);
        if plain && build::are_lists(&adjacency.offsets, &adjacency.indices) {
            return Ok((Graph::from_edges(vertices, adjacency.entries(), AS_LISTED)?, None));
        }
        let edges: Vec<(u32, u32)> = adjacency.entries().collect();
        let rule = EdgeRule::new(&place, AS_LISTED).with_zeros(Zeros::NoEdges);
        let (graph, rows, found) = rule.valued(vertices, &edges, 1, &adjacency.values, processors())?;
        let is_weight = |((source, target), &value): ((u32, u32), &f32)| source != target && value != 1.0;
        let weighted = graph.edge_list().zip(rows.values()).any(is_weight);
        found.report(&place, !weighted);
        Ok((graph, weighted.then_some(rows)))
    }

    fn unsplit(
        &mut self,
        graph: Graph,
        features: Features,
        edge_features: Option<EdgeFeatures>,
        key: &str,
    ) -> Result<Dataset> {
        let (labels, classes) = self.with(key, |a| match a.columns() {
            1 => labels::from_distinct(&a.to_i64()?, &a.file),
            _ => labels::from_array(&a),
        })?;
        let (split, drawn) = match labels.as_classes() {
            Some(classes) => (
                Split::stratified_numpy(classes, 20, 30, 0),
                "20 / 30 of each class, the others for test, drawn from seed 0",
            ),
            None => (Split::random(&labels, [0.6, 0.2], 0), DRAWN),
        };
        let mut made = self.dataset(graph, features, edge_features, labels, split);
        made.names.split = drawn.to_owned();
        made.names.labels = classes;
        Ok(made)
    }

    fn dataset(
        &self,
        graph: Graph,
        features: Features,
        edge_features: Option<EdgeFeatures>,
        labels: Labels,
        split: Split,
    ) -> Dataset {
        let name = self.name.clone();
        Dataset { edge_features, ..Dataset::new(name, graph, features, labels, split) }
    }
}

/// Creates features from a dense array with the shape `[V, columns]`.
pub(crate) fn dense(array: Array<'_>) -> Result<Features> {
    array.expect_axes(2, "features [V, columns]")?;
    let Ok(columns) = u32::try_from(array.columns()) else {
        let found = format!("{}", array.columns());
        return Err(Error::malformed(Place::whole(&array.file), "below 2^32 columns", found));
    };
    let (values, corrections) = array.to_f32_exact()?;
    Ok(Features::from_dense(columns, &values)?.with_corrections(corrections))
}
