//! Facts about the values of a data set that default settings depend on.

use crate::adjacency::Graph;
use crate::features::Features;
use crate::labels::Labels;
use crate::split::{NO_LABEL, Split};

/// Kind of the values in a feature matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// All values are 0 or 1.
    Flags,
    /// All values are non-negative integers.
    Counts,
    /// Some values are negative or not integers.
    Numbers,
}

impl ValueKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Flags, Self::Counts, Self::Numbers];

    /// Returns the name of the kind in a store.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Counts => "counts",
            Self::Numbers => "numbers",
        }
    }
}

/// Facts about the values of a data set. They are known without reading the features and lists if a
/// store contains them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of feature values other than zero.
    pub filled: u64,
    /// Kind of the feature values. Of dense features, evenly spaced rows are sampled.
    pub values: ValueKind,
    /// Largest absolute value among the sampled features.
    pub largest: f32,
    /// Adjusted homophily of the edges between training rows (Platonov et al. 2023). It is the
    /// share of edges within a class, adjusted for class sizes, and 0 if edges do not depend on
    /// classes. `None` if there are fewer than [`LEAST_EDGES`] such edges, or no classes.
    pub homophily: Option<f64>,
}

/// Minimum number of edges between training rows that are needed to compute the homophily.
pub const LEAST_EDGES: u64 = 50;
/// Maximum number of values that are sampled from dense features.
const MAX_SAMPLED: usize = 1 << 24;

impl Summary {
    /// Summarises a graph with features, labels and split. `row_at` maps the position of a row to
    /// its index in the features. Sampled rows have evenly spaced positions.
    #[must_use]
    pub fn new(
        (graph, features): (&Graph, &Features),
        (labels, split): (&Labels, &Split),
        row_at: impl Fn(usize) -> usize,
    ) -> Self {
        let (values, largest) = values(features, row_at);
        Self { filled: features.filled(), values, largest, homophily: homophily(graph, labels, split) }
    }
}

/// Returns the kind of the feature values, and the largest absolute value.
fn values(features: &Features, row_at: impl Fn(usize) -> usize) -> (ValueKind, f32) {
    let (mut flags, mut counts, mut largest) = (true, true, 0.0f32);
    let mut look = |values: &[f32]| {
        for value in values {
            flags &= *value == 0.0 || *value == 1.0;
            counts &= *value >= 0.0 && value.fract() == 0.0;
            largest = largest.max(value.abs());
        }
    };
    match features {
        Features::Sparse(rows) => look(&rows.values),
        Features::Dense(rows) => {
            let (count, columns) = (features.rows(), features.columns().max(1) as usize);
            let step = (count / (MAX_SAMPLED / columns).max(1)).max(1);
            (0..count).step_by(step).for_each(|at| look(rows.view().row(row_at(at))));
        }
    }
    let kind = match (flags, counts) {
        (true, _) => ValueKind::Flags,
        (false, true) => ValueKind::Counts,
        (false, false) => ValueKind::Numbers,
    };
    (kind, largest)
}

/// Returns the adjusted homophily of the edges between training rows. Returns `None` if there are
/// too few of them, or if vertices have no classes.
fn homophily(graph: &Graph, labels: &Labels, split: &Split) -> Option<f64> {
    let Labels::Classes { of, count } = labels else { return None };
    let mut known = vec![NO_LABEL; of.len()];
    for &row in &split.train {
        if let (Some(to), Some(&class)) = (known.get_mut(row as usize), of.get(row as usize)) {
            *to = class;
        }
    }
    let class = |vertex: u32| known.get(vertex as usize).copied().filter(|class| *class != NO_LABEL);
    let (mut edges, mut same) = (0u64, 0u64);
    let mut ends = vec![0u64; *count as usize];
    for &target in &split.train {
        let Some(own) = class(target) else { continue };
        for other in graph.in_neighbours(target).iter().filter_map(|&source| class(source)) {
            edges += 1;
            same += u64::from(other == own);
            if let Some(count) = ends.get_mut(other as usize) {
                *count += 1;
            }
        }
    }
    if edges < LEAST_EDGES {
        return None;
    }
    let expected: f64 = ends.iter().map(|&count| (count as f64 / edges as f64).powi(2)).sum();
    (expected < 1.0).then(|| (same as f64 / edges as f64 - expected) / (1.0 - expected))
}
