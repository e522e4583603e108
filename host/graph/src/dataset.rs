//! Data set of a training run, which consists of a graph with features, labels and a split.

pub use crate::edge_features::EdgeFeatures;
pub use crate::encoding::Encoded;
pub use crate::features::{DenseRows, Features, SparseBuilder, SparseRows};
pub use crate::labels::{Labels, MAX_LABEL_COLUMNS, Values};
pub use crate::names::Names;
pub use crate::scaling::{Moments, Scaling};
pub use crate::split::{NO_LABEL, Split};
pub use crate::vertex_ids::VertexIds;

use std::ops::Range;
use std::sync::Arc;

use eciton_tensor::Slab;

use crate::adjacency::{Graph, check_vertices};
use crate::checksum::Checksum;
use crate::error::{Error, Place, Result};
use crate::graphs::{Graphs, apart_error};
use crate::labelled_edges::LabelledEdges;
use crate::summary::Summary;

/// Data set for a prediction task on vertices, on edges or on whole graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Short name, for instance `cora`.
    pub name: String,
    /// Graph of the V vertices. A data set of many graphs has all their vertices in one graph.
    pub graph: Graph,
    /// Features of the vertices, with one row per vertex. They are the values of the input unless
    /// `scaling` names a transformation.
    pub features: Features,
    /// Features of the edges, with one row per edge, as in the input. `None` if edges have no
    /// features.
    pub edge_features: Option<EdgeFeatures>,
    /// Labels of the vertices, or of `labelled_edges`, which the model learns to predict.
    pub labels: Labels,
    /// Numbers of the vertices, or of `labelled_edges`, for training, validation and test.
    pub split: Split,
    /// Graph of each vertex, and the representative vertex of each graph. That vertex has the
    /// graph's labels and represents it in the split. `None` if the data set is a single graph.
    pub graphs: Option<Graphs>,
    /// Edges with the labels and the split, if the task is on edges. Otherwise `None`.
    pub labelled_edges: Option<LabelledEdges>,
    /// Ids of the vertices in the user's data.
    pub ids: VertexIds,
    /// Names of classes and columns.
    pub names: Names,
    /// Scaling that has been applied to the features.
    pub scaling: Scaling,
    /// Checksums of the features before they were scaled. `None` if the features are not scaled.
    pub unscaled: Option<Vec<Checksum>>,
    /// Typed table columns from which the features were encoded. `None` if the input had numeric
    /// feature columns.
    pub encoded: Option<Encoded>,
    /// First vertex of each part, if the data set is a store that was divided into parts for hosts.
    /// Otherwise empty.
    pub parts: Vec<u32>,
    /// Rows whose lists and features are held, if a host has opened only its rows. `None` if all
    /// are.
    pub held: Option<Held>,
}

/// Rows of a data set that a host has opened, with facts about the whole data set. Labels, split and
/// ids are those of all vertices. All other rows have empty lists and no features.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Rows with lists and features.
    pub rows: Range<u32>,
    /// Start of the list of in-neighbours of each vertex of the whole data set, as `[V + 1]`.
    pub offsets: Slab<u64>,
    /// Checksums of the offsets, of the neighbours and of the features of the whole data set.
    pub checksums: [Checksum; 3],
    /// Facts about the values of the whole data set.
    pub summary: Summary,
    /// Mean and standard deviation of each feature column over the training rows.
    pub moments: Arc<Moments>,
    /// Number of bytes that were read.
    pub read_bytes: u64,
}

impl Dataset {
    /// Creates a data set of a single graph without edge features. Vertices have dense ids, columns
    /// and classes have no names, and features are not scaled.
    pub fn new(name: String, graph: Graph, features: Features, labels: Labels, split: Split) -> Self {
        Self {
            name,
            graph,
            features,
            edge_features: None,
            labels,
            split,
            graphs: None,
            labelled_edges: None,
            ids: VertexIds::Dense,
            names: Names::default(),
            scaling: Scaling::None,
            unscaled: None,
            encoded: None,
            parts: Vec::new(),
            held: None,
        }
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u32 {
        self.graph.vertices()
    }

    /// Returns the start of the list of in-neighbours of each vertex, also of those whose lists are
    /// not held.
    pub fn offsets(&self) -> &[u64] {
        self.held.as_ref().map_or_else(|| self.graph.offsets(), |held| &held.offsets)
    }

    /// Returns the number of edges, also of those that are not held.
    pub fn edges(&self) -> u64 {
        self.offsets().last().copied().unwrap_or(0)
    }

    /// Checks that all parts of the data set fit together. There must be one row of features and of
    /// labels per vertex, and one row of edge features per edge. Features must be finite, labels
    /// valid, and splits disjoint sets of labelled vertices. In a data set of many graphs, no edge
    /// may join two graphs, and only representative vertices may have labels. Every reader calls
    /// this function.
    ///
    /// # Errors
    /// Returns an error with the part and row of the first fault.
    pub fn validate(&self) -> Result<()> {
        let part = |what: &str| format!("{} {what}", self.name);
        let vertices = self.vertices();
        check_vertices(u64::from(vertices), || Place::whole(part("graph")))?;
        let held = self.held.as_ref().map_or(vertices, |held| held.rows.len() as u32);
        self.features.validate(held, &part("features"))?;
        if let Some(rows) = &self.edge_features {
            rows.validate(self.graph.edges(), &part("edge features"))?;
        }
        let count = |what, found: usize| {
            if found as u64 == u64::from(vertices) {
                return Ok(());
            }
            Err(Error::Mismatch {
                place: Place::whole(part(what)),
                what: "vertices",
                found: found as u64,
                expected: u64::from(vertices),
                other: "the graph".to_owned(),
            })
        };
        match &self.labelled_edges {
            None => count("labels", self.labels.rows())?,
            Some(edges) => {
                edges.validate(vertices, &part("labelled edges"))?;
                let (found, expected) = (self.labels.rows() as u64, edges.ends.len() as u64);
                if found != expected {
                    let (place, other) = (Place::whole(part("labels")), "the edge table".to_owned());
                    return Err(Error::Mismatch { place, what: "edges", found, expected, other });
                }
            }
        }
        match &self.ids {
            VertexIds::Dense => {}
            VertexIds::Numbers(ids) => count("ids", ids.len())?,
            VertexIds::Words(ids) => count("ids", ids.len())?,
        }
        self.labels.validate(&part("labels"))?;
        self.split.validate(&self.labels, &part("split"))?;
        let edge_columns = self.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        let counts = [self.labels.width(), self.features.columns(), edge_columns];
        self.names.check(&self.name, counts)?;
        self.graphs.as_ref().map_or(Ok(()), |graphs| self.validate_graphs(graphs))
    }

    /// Checks that `graphs` describes the vertices of this data set. No edge may join two graphs,
    /// and only representative vertices may have labels.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the numbers of vertices differ, and [`Error::Malformed`] with
    /// the edge and its graphs, or with the vertex that must not have a label.
    fn validate_graphs(&self, graphs: &Graphs) -> Result<()> {
        let place = |part: &str| Place::whole(format!("{} {part}", self.name));
        let (found, expected) = (graphs.lists().vertices(), self.vertices());
        if found != expected {
            let (found, expected, other) = (found.into(), expected.into(), "the graph".to_owned());
            return Err(Error::Mismatch { place: place("graphs"), what: "vertices", found, expected, other });
        }
        let of = graphs.standing_of_vertices();
        let apart = |&(source, target): &(u32, u32)| of[source as usize] != of[target as usize];
        if let Some(edge) = self.graph.edge_list().find(apart) {
            let names = [edge.0, edge.1].map(|vertex| (self.ids.name(vertex), graphs.name(vertex)));
            return Err(apart_error(place("graph"), names));
        }
        let known = |vertex: &u32| of[*vertex as usize] != *vertex && self.labels.known(*vertex as usize);
        if let Some(vertex) = (0..expected).find(known) {
            return Err(Error::Malformed {
                place: Place::row(format!("{} labels", self.name), vertex.into()),
                expected: "no label, because only the first vertex of a graph has the graph's label"
                    .to_owned(),
                found: format!("a label of another vertex of graph {}", graphs.name(vertex)),
                remedy: "give the label to the first vertex of the graph",
            });
        }
        Ok(())
    }

    /// Returns the rows of features over which statistics are computed ([`Split::training_rows`]). In a
    /// task on edges, they are all `rows` rows.
    pub fn training_rows(&self, rows: usize) -> Vec<u32> {
        match self.labelled_edges {
            None => self.split.training_rows(self.graphs.as_ref(), rows),
            Some(_) => (0..rows as u32).collect(),
        }
    }

    /// Replaces the labels by the same labels in another form. Names that no longer fit are
    /// removed.
    pub fn set_labels(&mut self, labels: Labels) {
        self.labels = labels;
        let edges = self.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        self.names.fit(self.labels.width(), &self.features, edges);
    }

    /// Returns the data set if [`Dataset::validate`] finds no error.
    ///
    /// # Errors
    /// Returns the errors of [`Dataset::validate`].
    pub fn checked(self) -> Result<Self> {
        self.validate()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    fn tiny() -> Dataset {
        Dataset {
            edge_features: Some(EdgeFeatures::new(1, vec![0.5, 0.5]).unwrap()),
            ids: VertexIds::Words(vec!["a".into(), "b".into(), "c".into()]),
            ..Dataset::new(
                "tiny".to_owned(),
                Graph::from_edges(3, [(0, 1)].into_iter(), Options::default()).unwrap(),
                Features::dense(1, &[1.0, 2.0, 3.0]).unwrap(),
                Labels::classes(vec![0, 1, NO_LABEL], 2),
                Split { train: vec![0], validation: vec![], test: vec![1] },
            )
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        tiny().validate().unwrap();
        assert_eq!(tiny().ids.name(1), "b");
        assert_eq!(tiny().ids.name(7), "7");
        type Change = fn(&mut Dataset);
        fn flags(of: &[f32]) -> Labels {
            Labels::Flags(Values::new(1, of.to_vec()).unwrap())
        }
        fn of_edges(of: &[f32]) -> Option<EdgeFeatures> {
            Some(EdgeFeatures::new(1, of.to_vec()).unwrap())
        }
        let faults: [(Change, &str); 10] = [
            (
                |d| d.labels = Labels::classes(vec![0, 2, 0], 2),
                "tiny labels, row 1: label 2, but classes are 0..2",
            ),
            (|d| d.labels = Labels::none(2), "tiny labels: 2 vertices, but the graph has 3"),
            (|d| d.labels = flags(&[0.0, 1.0]), "tiny labels: 2 vertices, but the graph has 3"),
            (|d| d.labels = flags(&[0.0, 1.0, 3.0]), "tiny labels, row 2: expected flags"),
            (|d| d.labels = flags(&[0.0, f32::NAN, 0.0]), "vertex 1, which has no label"),
            (|d| d.ids = VertexIds::Numbers(vec![]), "tiny ids: 0 vertices"),
            (|d| d.split.test = vec![0], "tiny split, row 0: vertex 0 is in the train"),
            (|d| d.features = Features::identity(2), "tiny features: 2 feature rows"),
            (|d| d.edge_features = of_edges(&[1.0]), "tiny edge features: 1 edges, but the graph has 2"),
            (
                |d| d.edge_features = of_edges(&[1.0, f32::NAN]),
                "tiny edge features, row 1: feature column 0 is NaN",
            ),
        ];
        for (change, expected) in faults {
            let mut data = tiny();
            change(&mut data);
            let text = data.validate().unwrap_err().to_string();
            assert!(text.contains(expected), "{text} does not contain {expected}");
        }
    }
}
