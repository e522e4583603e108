//! Statistics of a data set from which [`choose`](super::choose) derives default settings.

use std::path::Path;

use eciton_graph::dataset::{Dataset, Features, Labels, NO_LABEL};
use eciton_recipe::{Config, TaskType};

use crate::data;

/// Kind of a data set, which determines the default model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    /// A table, whose rows have no graph.
    Table,
    /// Images. The value has their height, width and number of channels.
    Images([u32; 3]),
    /// A text or token list, read as sequences of tokens.
    Text,
    /// A single graph, whose vertices have features and labels.
    Graph,
    /// Many graphs, each with its own label.
    Graphs,
}

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

/// Statistics of a data set that determine its default settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Kind of the data set.
    pub kind: DataKind,
    /// Learning task, from `data.task` or else from the form of the labels.
    pub task: TaskType,
    /// Number of rows. A row is a vertex, a table row, an image or a token.
    pub rows: u32,
    /// Number of feature columns.
    pub columns: u32,
    /// Number of classes or label columns.
    pub outputs: u32,
    /// Number of training rows.
    pub training: u32,
    /// True if a validation metric is defined, so that early stopping is possible.
    pub is_validated: bool,
    /// Share of the feature values that are not 0, from 0 to 1.
    pub filled: f64,
    /// Kind of the values in the features.
    pub values: ValueKind,
    /// Largest absolute value among the sampled features.
    pub largest: f32,
    /// Adjusted homophily of the edges between training rows (Platonov et al. 2023). It is the
    /// share of edges within a class, adjusted for class sizes, and 0 if edges do not depend on
    /// classes. `None` if there are fewer than [`LEAST_EDGES`] such edges.
    pub homophily: Option<f64>,
    /// Mean number of incoming edges per vertex.
    pub degree: f64,
}

/// Minimum number of edges between training rows that are needed to compute the homophily.
pub const LEAST_EDGES: u64 = 50;
/// Maximum number of values that are sampled from dense features.
const MAX_SAMPLED: usize = 1 << 24;

impl Statistics {
    /// Computes the statistics of a data set. Its labels and split must already be as the settings
    /// request.
    pub(crate) fn compute(config: &Config, dataset: &Dataset) -> Self {
        let (features, split) = (&dataset.features, &dataset.split);
        let rows = dataset.vertices();
        let cells = (features.rows() as f64 * f64::from(features.columns())).max(1.0);
        let (values, largest) = values(features);
        Self {
            kind: kind(config, dataset),
            task: config.data.task.unwrap_or_else(|| eciton_runs::task_type::task(&dataset.labels)),
            rows,
            columns: features.columns(),
            outputs: dataset.labels.width(),
            training: split.train.len() as u32,
            is_validated: config.predicts_links() || is_validated(dataset),
            filled: features.filled() as f64 / cells,
            values,
            largest,
            homophily: homophily(dataset),
            degree: dataset.graph.edges() as f64 / f64::from(rows.max(1)),
        }
    }
}

/// Returns true if a metric is defined on the validation rows. Metrics of classes are undefined if
/// all of these rows have the same class.
fn is_validated(dataset: &Dataset) -> bool {
    let mut rows = dataset.split.validation.iter().map(|&row| row as usize);
    match &dataset.labels {
        Labels::Classes { of, .. } => {
            let mut classes = rows.filter_map(|row| of.get(row));
            classes.next().is_some_and(|first| classes.any(|class| class != first))
        }
        Labels::Flags(values) => {
            let rows: Vec<&[f32]> = rows.map(|row| values.row(row)).collect();
            let differs = |column: usize| {
                let has = |flag: f32| rows.iter().any(|row| row.get(column) == Some(&flag));
                has(0.0) && has(1.0)
            };
            (0..values.columns() as usize).any(differs)
        }
        Labels::Numbers(_) => rows.next().is_some(),
    }
}

/// Returns the kind of a data set, determined from its settings and its content.
fn kind(config: &Config, dataset: &Dataset) -> DataKind {
    let path = Path::new(&config.data.source);
    if data::is_text(&config.data, path) {
        return DataKind::Text;
    }
    match (&dataset.graphs, dataset.graph.edges()) {
        (Some(_), _) => DataKind::Graphs,
        (None, 0) => match eciton_formats::image_shape(path) {
            Some(shape)
                if shape.iter().map(|&side| u64::from(side)).product::<u64>()
                    == u64::from(dataset.features.columns()) =>
            {
                DataKind::Images(shape)
            }
            _ => DataKind::Table,
        },
        (None, _) => DataKind::Graph,
    }
}

/// Returns the kind of the feature values, and the largest absolute value. Of dense features,
/// evenly spaced rows are sampled.
fn values(features: &Features) -> (ValueKind, f32) {
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
            (0..count).step_by(step).for_each(|row| look(rows.view().row(row)));
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
fn homophily(dataset: &Dataset) -> Option<f64> {
    let Labels::Classes { of, count } = &dataset.labels else { return None };
    if dataset.graphs.is_some() {
        return None;
    }
    let mut known = vec![NO_LABEL; of.len()];
    for &row in &dataset.split.train {
        if let (Some(to), Some(&class)) = (known.get_mut(row as usize), of.get(row as usize)) {
            *to = class;
        }
    }
    let class = |vertex: u32| known.get(vertex as usize).copied().filter(|class| *class != NO_LABEL);
    let (mut edges, mut same) = (0u64, 0u64);
    let mut ends = vec![0u64; *count as usize];
    for &target in &dataset.split.train {
        let Some(own) = class(target) else { continue };
        for other in dataset.graph.in_neighbours(target).iter().filter_map(|&source| class(source)) {
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
