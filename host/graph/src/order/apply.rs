//! Application of a vertex order to data sets, and the return to the user's order for results.

use std::ops::Range;

use eciton_tensor::Buffer;

use super::Permutation;
use super::lists::{permute_graph, shares};
use crate::adjacency::Adjacency;
use crate::dataset::{Dataset, DenseRows, EdgeFeatures, Features, SparseRows, Split, VertexIds};
use crate::error::{Error, Place, Result};
use crate::graphs::Graphs;
use crate::labels::Labels;
use eciton_input::threads::{on_threads, threads_for};

/// Data set in another vertex order, with the permutation that leads back to the user's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Reordered {
    /// Data set with new vertex ids. Its `ids` contain the user's id of each vertex.
    pub dataset: Dataset,
    /// Permutation from the user's order (old ids) to the order of `dataset` (new ids). The
    /// function [`rows_back`] uses it.
    pub permutation: Permutation,
}

/// Reorders all parts of a data set, which are its graph, features, edge features, labels, split,
/// graphs and ids. Columns of sparse features do not change. Each graph keeps its standing vertex,
/// which need not be its first vertex afterwards. If the user's ids are 0..V, `ids` contains them
/// as numbers afterwards.
///
/// The parts are moved one after the other, and the old form of each is freed. The peak additional
/// memory is that of the largest part (the graph with its edge features, or the features). Features
/// that were in a mapped file are in memory afterwards.
///
/// # Errors
/// Returns [`Error::Mismatch`] if a part has another number of vertices than the permutation, if
/// edge features have another number of rows than the graph has edges, or if a vertex of the split
/// does not exist. Returns [`Error::Memory`] if a copy of dense features does not fit in memory.
pub fn permute_dataset(dataset: Dataset, permutation: Permutation) -> Result<Reordered> {
    let Dataset {
        name,
        graph,
        features,
        edge_features,
        labels,
        split,
        graphs,
        // Runs take them out before they order the vertices.
        labelled_edges: _,
        ids,
        names,
        scaling,
        unscaled,
        // The features are encoded already, and no code reads the table columns in another order.
        encoded: _,
        // Parts are ranges of the earlier order.
        parts: _,
        // A part of the rows has no order of its own: its features do not have one row per vertex.
        held: _,
    } = dataset;
    let ByVertex { labels, split, graphs, ids } =
        ByVertex { labels, split, graphs, ids }.permuted(&permutation)?;
    let moved = permute_graph(&graph, &permutation)?;
    let move_edges =
        |rows: EdgeFeatures| permute_edge_features(&rows, graph.incoming(), moved.incoming(), &permutation);
    let edge_features = edge_features.map(move_edges).transpose()?;
    drop(graph);
    let features = permute_features(features, &permutation)?;
    let dataset = Dataset {
        name,
        graph: moved,
        features,
        edge_features,
        labels,
        split,
        graphs,
        labelled_edges: None,
        ids,
        names,
        scaling,
        unscaled,
        encoded: None,
        parts: Vec::new(),
        held: None,
    };
    Ok(Reordered { dataset, permutation })
}

/// The parts of a data set that have one entry for each vertex and are in memory.
pub(crate) struct ByVertex {
    pub(crate) labels: Labels,
    pub(crate) split: Split,
    pub(crate) graphs: Option<Graphs>,
    pub(crate) ids: VertexIds,
}

impl ByVertex {
    /// Returns the entries in the new order.
    pub(crate) fn permuted(self, permutation: &Permutation) -> Result<Self> {
        let old = permutation.old_of_new();
        permutation.check(self.labels.rows(), "labels", "labels")?;
        let ids = match self.ids {
            VertexIds::Dense => VertexIds::Numbers(old.iter().map(|&v| u64::from(v)).collect()),
            VertexIds::Numbers(ids) => {
                permutation.check(ids.len(), "ids", "ids")?;
                VertexIds::Numbers(old.iter().map(|&v| ids[v as usize]).collect())
            }
            VertexIds::Words(mut ids) => {
                permutation.check(ids.len(), "ids", "ids")?;
                VertexIds::Words(old.iter().map(|&v| std::mem::take(&mut ids[v as usize])).collect())
            }
        };
        Ok(Self {
            labels: self.labels.reordered(old),
            split: permute_split(&self.split, permutation)?,
            graphs: self.graphs.map(|graphs| graphs.permuted(permutation)).transpose()?,
            ids,
        })
    }
}

/// Returns rows of `width` values in the user's order. Row v of the result is the row
/// `new_of_old[v]` of `rows`.
///
/// # Errors
/// Returns [`Error::Mismatch`] if `rows` does not have V rows of `width` values.
pub fn rows_back<T: Copy>(permutation: &Permutation, rows: &[T], width: usize) -> Result<Vec<T>> {
    let expected = permutation.len().saturating_mul(width);
    if rows.len() != expected {
        return Err(Error::Mismatch {
            place: Place::whole("rows"),
            what: "values",
            found: rows.len() as u64,
            expected: expected as u64,
            other: "the vertex order".to_owned(),
        });
    }
    let mut back = Vec::with_capacity(rows.len());
    for &new in permutation.new_of_old() {
        let at = new as usize * width;
        back.extend_from_slice(&rows[at..at + width]);
    }
    Ok(back)
}

fn permute_split(split: &Split, permutation: &Permutation) -> Result<Split> {
    let part = |vertices: &[u32], name| {
        let moved = vertices.iter().map(|&v| permutation.new_of_old().get(v as usize).copied());
        moved.collect::<Option<Vec<u32>>>().ok_or_else(|| Error::Mismatch {
            place: Place::whole(format!("{name} split")),
            what: "vertices or more",
            found: vertices.iter().max().map_or(0, |&v| u64::from(v) + 1),
            expected: permutation.len() as u64,
            other: "the vertex order".to_owned(),
        })
    };
    Ok(Split {
        train: part(&split.train, "train")?,
        validation: part(&split.validation, "validation")?,
        test: part(&split.test, "test")?,
    }
    .sorted())
}

/// Reorders feature rows. They are taken by value, so that their memory is freed once all rows have
/// been copied.
fn permute_features(features: Features, permutation: &Permutation) -> Result<Features> {
    permutation.check(features.rows(), "feature rows", "features")?;
    let (old, stored) = (permutation.old_of_new(), features.stored());
    let corrections = features.corrections().permuted(permutation.new_of_old());
    match features {
        Features::Dense(rows) => {
            let from = rows.view();
            let to = Buffer::zeroed(from.rows(), from.columns()).map_err(Error::memory("features"))?;
            let copy = |range: Range<usize>| -> Result<()> {
                let mut lease = to.write(range.clone()).map_err(Error::memory("features"))?;
                let mut rows = lease.view_mut();
                for (at, new) in range.enumerate() {
                    rows.row_mut(at).copy_from_slice(from.row(old[new] as usize));
                }
                Ok(())
            };
            let threads = threads_for(stored / 4);
            let cut = |share: usize| old.len() * share / threads;
            let results = on_threads((0..threads).map(|share| cut(share)..cut(share + 1)).collect(), copy);
            results.into_iter().collect::<Result<()>>()?;
            Ok(Features::Dense(DenseRows::new(&to)?).with_corrections(corrections))
        }
        Features::Sparse(rows) => {
            let mut offsets = Vec::with_capacity(old.len() + 1);
            let mut indices = Vec::with_capacity(rows.indices.len());
            let mut values = Vec::with_capacity(rows.values.len());
            offsets.push(0);
            for &v in old {
                let (columns, of) = rows.row(v as usize);
                indices.extend_from_slice(columns);
                values.extend_from_slice(of);
                offsets.push(indices.len() as u64);
            }
            Ok(Features::Sparse(SparseRows {
                columns: rows.columns,
                offsets: offsets.into(),
                indices: indices.into(),
                values: values.into(),
                corrections,
            }))
        }
    }
}

/// Returns the edge features of the graph `from` in the edge order of `to`, which is the same graph
/// with new vertex ids.
fn permute_edge_features(
    rows: &EdgeFeatures,
    from: &Adjacency,
    to: &Adjacency,
    permutation: &Permutation,
) -> Result<EdgeFeatures> {
    let (found, expected) = (rows.rows() as u64, from.neighbours().len() as u64);
    if found != expected {
        let (place, other) = (Place::whole("edge features"), "the graph".to_owned());
        return Err(Error::Mismatch { place, what: "edges", found, expected, other });
    }
    let (old, new) = (permutation.old_of_new(), permutation.new_of_old());
    let width = rows.columns() as usize;
    let mut values = vec![0.0f32; rows.values().len()];
    let mut rest = values.as_mut_slice();
    let mut parts = Vec::new();
    for targets in shares(to.offsets(), 0..old.len(), threads_for(rows.values().len() as u64)) {
        let edges = (to.offsets()[targets.end] - to.offsets()[targets.start]) as usize;
        let (part, after) = rest.split_at_mut(edges * width);
        rest = after;
        parts.push((targets, part));
    }
    let fill = |(targets, part): (Range<usize>, &mut [f32])| {
        let mut into = part.chunks_exact_mut(width);
        let mut list: Vec<(u32, usize)> = Vec::new();
        for target in targets {
            let (sources, first) =
                (from.neighbours_of(old[target]), from.offsets()[old[target] as usize] as usize);
            list.clear();
            list.extend(sources.iter().map(|&u| new[u as usize]).zip(first..));
            // Sorts by new source. Parallel edges keep their order.
            list.sort_unstable();
            for (&(_, at), row) in list.iter().zip(into.by_ref()) {
                row.copy_from_slice(&rows.values()[at * width..(at + 1) * width]);
            }
        }
    };
    on_threads(parts, fill);
    EdgeFeatures::new(rows.columns(), values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::{Graph, Options};

    #[test]
    fn a_permutation_of_another_size_is_refused() {
        let graph = Graph::from_edges(3, [(0, 1)].into_iter(), Options::default()).unwrap();
        let four = Permutation::identity(4).unwrap();
        let text = permute_graph(&graph, &four).unwrap_err().to_string();
        assert!(text.contains("graph: 3 vertices, but the vertex order has 4"), "{text}");
        assert!(rows_back(&four, &[0u32; 7], 2).is_err());
        assert!(rows_back(&four, &[0f32; 0], 0).unwrap().is_empty());
    }
}
