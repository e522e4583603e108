//! What `eciton data stat` says of a data set.

use crate::dataset::Dataset;
use crate::features::Features;
use crate::split::NO_LABEL;

/// The figures of one data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Vertices.
    pub vertices: u32,
    /// Directed edges: an undirected one counts twice.
    pub edges: u64,
    /// Whether every edge has its reverse.
    pub symmetric: bool,
    /// The lowest in-degree.
    pub degree_min: u32,
    /// The median in-degree, the lower one of two.
    pub degree_median: u32,
    /// The highest in-degree.
    pub degree_max: u32,
    /// Vertices without in-neighbours.
    pub isolated: u32,
    /// Columns of the features.
    pub features: u32,
    /// Whether the features are kept as sparse rows.
    pub sparse: bool,
    /// The share of feature values that are not zero, 0 to 1.
    pub density: f64,
    /// Vertices in each class.
    pub class_counts: Vec<u64>,
    /// Vertices without a label.
    pub unlabelled: u64,
    /// Vertices that train, validate and test.
    pub split: [usize; 3],
    /// The share of edges between labelled vertices whose ends have one label, 0 to 1; none where
    /// there is no such edge.
    pub homophily: Option<f64>,
}

impl Statistics {
    /// Counts a data set, which should be valid.
    pub fn of(data: &Dataset) -> Self {
        let graph = &data.graph;
        let vertices = graph.vertices();
        let mut degrees: Vec<u32> = (0..vertices).map(|v| graph.in_degree(v)).collect();
        degrees.sort_unstable();
        let mut class_counts = vec![0u64; data.classes as usize];
        let mut unlabelled = 0;
        for &label in &data.labels {
            match class_counts.get_mut(label as usize) {
                Some(count) => *count += 1,
                None => unlabelled += 1,
            }
        }
        let (mut same, mut both) = (0u64, 0u64);
        let label = |v: u32| data.labels.get(v as usize).copied().unwrap_or(NO_LABEL);
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
            class_counts,
            unlabelled,
            split: [data.split.train.len(), data.split.validation.len(), data.split.test.len()],
            homophily: (both > 0).then(|| same as f64 / both as f64),
        }
    }
}
