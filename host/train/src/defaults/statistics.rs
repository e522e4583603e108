//! Statistics of a data set from which [`choose`](super::choose) derives default settings.

use std::path::Path;

use eciton_graph::dataset::{Dataset, Labels, Split};
use eciton_graph::summary::Summary;
pub use eciton_graph::summary::{LEAST_EDGES, ValueKind};
use eciton_recipe::{Config, EvaluationMethod, TaskType};

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
    /// A single graph, whose edges have labels.
    Edges,
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

impl Statistics {
    /// Computes the statistics of a data set. Its labels and split must already be as the settings
    /// request.
    pub(crate) fn compute(config: &Config, dataset: &Dataset) -> Self {
        let (features, labels, split) = (&dataset.features, &dataset.labels, &dataset.split);
        let rows = dataset.vertices();
        let cells = (f64::from(rows) * f64::from(features.columns())).max(1.0);
        let Summary { filled, values, largest, homophily } = match &dataset.held {
            Some(held) => held.summary,
            None => {
                // Labels of edges have no homophily.
                let none = (Labels::none(rows), Split::default());
                let (labels, split) =
                    if dataset.labelled_edges.is_some() { (&none.0, &none.1) } else { (labels, split) };
                Summary::new((&dataset.graph, features), (labels, split), |row| row)
            }
        };
        Self {
            kind: kind(config, dataset),
            task: config.data.task.unwrap_or_else(|| eciton_runs::task_type::task(&dataset.labels)),
            rows,
            columns: features.columns(),
            outputs: dataset.labels.width(),
            training: split.train.len() as u32,
            is_validated: config.evaluation.method != EvaluationMethod::None
                && (config.predicts_links() || is_validated(dataset)),
            filled: filled as f64 / cells,
            values,
            largest,
            homophily: homophily.filter(|_| dataset.graphs.is_none()),
            degree: dataset.edges() as f64 / f64::from(rows.max(1)),
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
    if dataset.labelled_edges.is_some() {
        return DataKind::Edges;
    }
    match (&dataset.graphs, dataset.edges()) {
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
