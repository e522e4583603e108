//! Statistics of a data set, which `eciton data stat` prints.

use crate::adjacency::Graph;
use crate::dataset::{Dataset, EdgeFeatures};
use crate::features::Features;
use crate::graphs::Graphs;
use crate::labels::{Labels, Values};
use crate::split::NO_LABEL;

/// Statistics of a data set, with its degrees, features, labels and split.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Number of vertices.
    pub vertices: u32,
    /// Number of directed edges. An undirected edge counts twice.
    pub edges: u64,
    /// True if each edge has its reverse.
    pub symmetric: bool,
    /// Lowest in-degree of a vertex.
    pub degree_min: u32,
    /// Median in-degree of the vertices. Of two middle values, it is the lower one.
    pub degree_median: u32,
    /// Highest in-degree of a vertex.
    pub degree_max: u32,
    /// Number of vertices without in-neighbours.
    pub isolated: u32,
    /// Number of feature columns.
    pub features: u32,
    /// True if the features are stored as sparse rows.
    pub sparse: bool,
    /// Fraction of feature values that are not zero, from 0 to 1.
    pub density: f64,
    /// Statistics of each edge feature column, over directed edges. Empty if edges have no
    /// features.
    pub edge_features: Vec<NumberStatistics>,
    /// Number of vertices of each class. Empty if labels are flags or numbers.
    pub class_counts: Vec<u64>,
    /// Statistics of each label column. Empty unless labels are flags.
    pub flags: Vec<FlagStatistics>,
    /// Statistics of each label column. Empty unless labels are numbers.
    pub numbers: Vec<NumberStatistics>,
    /// Number of vertices without a label. In a data set of many graphs, it is the number of graphs
    /// without one.
    pub unlabelled: u64,
    /// Numbers of vertices or graphs for training, validation and test, in this order.
    pub split: [usize; 3],
    /// Sizes of the graphs. `None` if the data set is a single graph.
    pub graphs: Option<GraphStatistics>,
    /// Fraction of the edges between labelled vertices that join vertices of the same class, from 0
    /// to 1. `None` if there is no such edge, or if labels are flags or numbers.
    pub homophily: Option<f64>,
}

/// Sizes of the graphs in a data set of many graphs. Of two middle values, a median is the lower
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphStatistics {
    /// Number of graphs.
    pub count: u32,
    /// Number of vertices of the smallest graph.
    pub vertices_min: u32,
    /// Median number of vertices per graph.
    pub vertices_median: u32,
    /// Number of vertices of the largest graph.
    pub vertices_max: u32,
    /// Median number of directed edges per graph.
    pub edges_median: u64,
}

impl GraphStatistics {
    fn from_graphs(graphs: &Graphs, graph: &Graph) -> Self {
        let standing = graphs.standing();
        let size = |&vertex: &u32| {
            let members = graphs.lists().in_neighbours(vertex);
            let edges = members.iter().map(|&member| u64::from(graph.in_degree(member))).sum::<u64>();
            (members.len() as u32, edges)
        };
        let (mut vertices, mut edges): (Vec<u32>, Vec<u64>) = standing.iter().map(size).unzip();
        vertices.sort_unstable();
        edges.sort_unstable();
        let median = (standing.len().max(1) - 1) / 2;
        Self {
            count: graphs.count(),
            vertices_min: vertices.first().copied().unwrap_or(0),
            vertices_median: vertices.get(median).copied().unwrap_or(0),
            vertices_max: vertices.last().copied().unwrap_or(0),
            edges_median: edges.get(median).copied().unwrap_or(0),
        }
    }
}

/// Statistics of one label column, if labels are flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlagStatistics {
    /// Number of vertices for which the flag is known.
    pub known: u64,
    /// Number of vertices for which the flag is true.
    pub holds: u64,
}

impl FlagStatistics {
    fn from_values(values: &Values) -> Vec<Self> {
        let mut columns = vec![Self::default(); values.columns() as usize];
        for row in values.as_slice().chunks_exact(columns.len()) {
            for (column, &value) in columns.iter_mut().zip(row) {
                column.known += u64::from(!value.is_nan());
                column.holds += u64::from(value == 1.0);
            }
        }
        columns
    }
}

/// Statistics of one column of label numbers or of edge features. If no value is known, all fields
/// are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NumberStatistics {
    /// Number of vertices or edges for which the number is known.
    pub known: u64,
    /// Mean of the known numbers.
    pub mean: f64,
    /// Standard deviation of the known numbers, as a population (divided by n).
    pub deviation: f64,
    /// Smallest known number.
    pub least: f32,
    /// Largest known number.
    pub largest: f32,
}

impl NumberStatistics {
    /// Computes the statistics of each column. The values are rows of `columns` values (at least
    /// one).
    fn from_rows(values: &[f32], columns: u32) -> Vec<Self> {
        let mut columns = vec![Self::default(); columns as usize];
        for row in values.chunks_exact(columns.len()) {
            for (column, &value) in columns.iter_mut().zip(row).filter(|(_, value)| !value.is_nan()) {
                let first = column.known == 0;
                column.known += 1;
                // Welford's update: `mean` is the mean so far, and `deviation` is the sum of
                // squares so far.
                let from = f64::from(value) - column.mean;
                column.mean += from / column.known as f64;
                column.deviation += from * (f64::from(value) - column.mean);
                column.least = if first { value } else { column.least.min(value) };
                column.largest = if first { value } else { column.largest.max(value) };
            }
        }
        for column in columns.iter_mut().filter(|column| column.known > 0) {
            column.deviation = (column.deviation / column.known as f64).sqrt();
        }
        columns
    }
}

impl Statistics {
    /// Computes the statistics of `data`, which should be a valid data set.
    pub fn from_dataset(data: &Dataset) -> Self {
        let graph = &data.graph;
        let vertices = graph.vertices();
        let mut degrees: Vec<u32> = (0..vertices).map(|v| graph.in_degree(v)).collect();
        degrees.sort_unstable();
        let classes = data.labels.as_classes().unwrap_or(&[]);
        let mut class_counts = match &data.labels {
            Labels::Classes { count, .. } => vec![0u64; *count as usize],
            _ => Vec::new(),
        };
        for &label in classes {
            if let Some(count) = class_counts.get_mut(label as usize) {
                *count += 1;
            }
        }
        let standing = |v: usize| {
            data.graphs
                .as_ref()
                .is_none_or(|graphs| graphs.standing_of_vertices().get(v).is_some_and(|&of| of as usize == v))
        };
        let unknown = |&v: &usize| standing(v) && !data.labels.known(v);
        let unlabelled = (0..data.labels.rows()).filter(unknown).count() as u64;
        let (flags, numbers) = match &data.labels {
            Labels::Classes { .. } => (Vec::new(), Vec::new()),
            Labels::Flags(values) => (FlagStatistics::from_values(values), Vec::new()),
            Labels::Numbers(values) => {
                (Vec::new(), NumberStatistics::from_rows(values.as_slice(), values.columns()))
            }
        };
        let of_edges = |rows: &EdgeFeatures| NumberStatistics::from_rows(rows.values(), rows.columns());
        let edge_features = data.edge_features.as_ref().map(of_edges).unwrap_or_default();
        let (mut same, mut both) = (0u64, 0u64);
        let label = |v: u32| classes.get(v as usize).copied().unwrap_or(NO_LABEL);
        for (source, target) in graph.edge_list() {
            if label(source) != NO_LABEL && label(target) != NO_LABEL {
                both += 1;
                same += u64::from(label(source) == label(target));
            }
        }
        let cells = f64::from(data.features.columns()) * f64::from(vertices);
        Self {
            vertices,
            edges: graph.edges(),
            symmetric: graph.symmetric(),
            degree_min: degrees.first().copied().unwrap_or(0),
            degree_median: degrees.get((degrees.len().max(1) - 1) / 2).copied().unwrap_or(0),
            degree_max: degrees.last().copied().unwrap_or(0),
            isolated: degrees.partition_point(|&d| d == 0) as u32,
            features: data.features.columns(),
            sparse: matches!(data.features, Features::Sparse(_)),
            density: if cells > 0.0 { data.features.filled() as f64 / cells } else { 0.0 },
            edge_features,
            class_counts,
            flags,
            numbers,
            unlabelled,
            split: [data.split.train.len(), data.split.validation.len(), data.split.test.len()],
            graphs: data.graphs.as_ref().map(|graphs| GraphStatistics::from_graphs(graphs, graph)),
            homophily: (both > 0 && data.labelled_edges.is_none()).then(|| same as f64 / both as f64),
        }
    }
}
