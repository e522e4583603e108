//! Scores and metrics of a trained model, computed from its run folder.

use std::path::Path;

use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_recipe::{Config, Data, EvaluationMethod, LaneSettings, TaskType};
use eciton_runs::decisions::Known;
use eciton_runs::provenance::warn_of_other_data;
use eciton_runs::report::{Metrics, Quality, SeedReport, Silent, WorkersUsed};
use eciton_runs::run_folder::{NamedTensor, Run};
use eciton_runs::schema::Purpose;
use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::data;
use crate::error::{Error, Result};
use crate::evaluation::Asked;
use crate::image_strips::Split;
use crate::known_labels::known_labels;
use crate::options::Options;
use crate::parameter_shapes::parameter_shapes;
use crate::session::Session;

/// Result of [`evaluate`], as printed by `eciton eval`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evaluation {
    /// Name of the data set.
    pub dataset: String,
    /// Description of the model, for instance `gcn 1433-16-7`.
    pub model: String,
    /// Metrics of the model that were computed now.
    pub metrics: Metrics,
    /// Metrics of the model that the run recorded. `None` if another data set was evaluated.
    pub recorded: Option<Metrics>,
    /// SHA-256 of the trained weights, in hexadecimal.
    pub model_digest: String,
    /// Scores per class and the confusion matrix. `None` for regression.
    pub quality: Option<Quality>,
}

/// Scores of all vertices, or of all graphs in a data set of many graphs.
#[derive(Debug, Clone)]
pub struct Predictions {
    /// Ids of the vertices or graphs in the user's data, one per row of `scores`.
    pub ids: VertexIds,
    /// True if each row is a graph, and false if each row is a vertex.
    pub graphs: bool,
    /// Learning task of the model, which determines the meaning of the scores.
    pub task: TaskType,
    /// Scores of all rows: [V, classes] before softmax, [V, labels] before the sigmoid, or [V,
    /// numbers]. For link prediction, the embeddings [V, dimensions]. The score of a pair is then
    /// the inner product of its rows, before the sigmoid.
    pub scores: Array2<f32>,
    /// Embeddings [V, width], which are the inputs of the last layer. `None` if they were not
    /// requested.
    pub embeddings: Option<Array2<f32>>,
    /// Known labels, names of classes, and parts of the split, for comparison with the scores.
    pub known: Known,
    /// Description of how images were split into strips. `None` if they were not split.
    pub split: Option<Split>,
    /// Messages and repeated work of the workers. `None` if no workers were used.
    pub workers: Option<WorkersUsed>,
}

/// Data set that the model of a run is applied to.
enum Shown<'a> {
    /// The data set of the run, which is read again.
    Run,
    Named(&'a Data),
    Memory(Box<Dataset>),
}

impl<'a> Shown<'a> {
    fn from_data(data: Option<&'a Data>) -> Self {
        data.map_or(Self::Run, Self::Named)
    }
}

/// Creates a session with the trained weights of a run. Columns and tokens of the data are matched
/// to those of the training data.
fn restore(
    run: &Run,
    data: Shown<'_>,
    options: &Options,
    (asked, purpose): (Asked, Purpose),
) -> Result<(Session, Config)> {
    let mut config = run.config.clone();
    // Predictions always run on this machine, which costs nothing, wherever the run was trained.
    config.run_here();
    match config.evaluation.method {
        EvaluationMethod::Sampled => {}
        EvaluationMethod::Full | EvaluationMethod::None => {
            config.evaluation.method = EvaluationMethod::Full;
            config.batch = config.batch.for_predictions();
        }
    }
    Session::settle_class(&config)?;
    let (mut own, mut own_split) = (matches!(data, Shown::Run), true);
    if let Shown::Named(data) = data {
        own = data.name == config.data.name && is_same_source(&data.source, &config.data.source);
        own_split = data.split == config.data.split;
        config.data = other(&config.data, data);
    }
    // Labels of other data may suggest another task.
    config.data.task = Some(run.schema.task);
    let dataset = match data {
        Shown::Memory(dataset) => {
            dataset.validate()?;
            if !(0..dataset.labels.rows()).any(|row| dataset.labels.known(row)) {
                // The rule of the run's split cannot divide rows without labels.
                config.data.split = None;
            }
            data::fitted(&config.data, *dataset, &run.schema, purpose)?
        }
        Shown::Named(_) => data::load_fitted(&config.data, &run.schema, purpose)?,
        Shown::Run => data::load_fitted(&config.data, &run.schema, purpose).map_err(|error| match error {
            Error::UnknownData { name, .. } => Error::DataMoved { run: run.path.clone(), source_name: name },
            other => other,
        })?,
    };
    if purpose == Purpose::Evaluate && !config.predicts_links() {
        let rows = dataset.labels.rows();
        if !(0..rows).any(|row| dataset.labels.known(row)) {
            return Err(Error::Unlabelled { dataset: dataset.name });
        }
    }
    if let Some(workers) = &options.workers {
        config.run_on_workers();
        config.workers = workers.clone();
        config.check()?;
    }
    if options.strips.is_some() || options.workers.is_some() {
        // Lanes apply to the layers of the whole model, and to training.
        config.lanes = LaneSettings::default();
    }
    let mut session = Session::new(&config, options, Some(dataset), asked)?;
    if own {
        let (then, now) = (run.schema.data.as_ref(), session.inputs.schema.data.as_ref());
        warn_of_other_data(&run.path, (&config.data.source, own_split), then, now);
    }
    let in_strips = session.stripped.as_ref().map(|s| s.weights(&session.program, &run.tensors));
    set_weights(&mut session, in_strips.as_ref().unwrap_or(&run.tensors))?;
    Ok((session, config))
}

/// Returns true if two data sources have the same name, or are paths of the same file or folder.
/// Paths in run folders are absolute.
fn is_same_source(one: &str, other: &str) -> bool {
    let path = |source: &str| Path::new(source).canonicalize().ok();
    one == other || path(one).is_some_and(|one| path(other) == Some(one))
}

/// Returns the settings for reading a data set other than the training data. The data set and its
/// split come from `data`, and all other settings from the run (`own`).
fn other(own: &Data, data: &Data) -> Data {
    Data {
        source: data.source.clone(),
        name: data.name.clone(),
        split: data.split,
        self_loops: data.self_loops.or(own.self_loops),
        ..own.clone()
    }
}

/// Reads a data set in the form that the model of a run needs. Columns and tokens are matched by
/// name to those of the training data, and labels are optional.
///
/// # Errors
/// Returns the errors of [`crate::open`], or an error if the run folder is damaged.
pub fn open_for(run: &Path, data: &Data) -> Result<Dataset> {
    let run = Run::open(run)?;
    data::open_as(&other(&run.config.data, data), Some(&run.schema))
}

/// Replaces all weights of a session's model by `weights`, which are matched by name.
///
/// # Errors
/// Returns [`Error::Fit`] if a parameter is missing, has other extents, or does not belong to the
/// model.
pub(crate) fn set_weights(session: &mut Session, weights: &[NamedTensor]) -> Result<()> {
    let refused = |session: &Session, wanted: String, needs: &str| {
        let (inputs, model) = (&session.inputs, session.program.model.name());
        let (shape, columns) = (inputs.shape, inputs.task.columns());
        let found =
            format!("{} features and {} {columns}, for which {model} {needs}", shape.features, shape.classes);
        Err(Error::Fit { dataset: inputs.dataset.name.clone(), wanted, found })
    };
    let parameters = parameter_shapes(&session.program);
    let known = |tensor: &&NamedTensor| !parameters.iter().any(|(name, _)| *name == tensor.name);
    if let Some(tensor) = weights.iter().find(known) {
        return refused(session, tensor.name.clone(), "has no such parameter");
    }
    for (at, (name, shape)) in parameters.iter().enumerate() {
        let needs = || format!("needs {name} of shape {shape:?}");
        let mut named = weights.iter().filter(|tensor| tensor.name == *name);
        let (tensor, wanted) = match (named.next(), named.next()) {
            (Some(tensor), None) => (tensor, format!("{name} of shape {:?}", tensor.shape)),
            (Some(_), Some(_)) => return refused(session, format!("two parameters {name}"), &needs()),
            (None, _) => {
                let is_statistic = session.program.parameters.get(at).is_some_and(|of| of.is_statistic);
                let older = match is_statistic {
                    true => {
                        "; weights of an earlier version have no running moments, so train the model again"
                    }
                    false => "",
                };
                return refused(session, format!("no parameter {name}"), &format!("{}{older}", needs()));
            }
        };
        let (values, len) = (tensor.values.len(), shape.iter().product::<usize>());
        if tensor.shape != *shape {
            return refused(session, wanted, &needs());
        }
        if values != len {
            return refused(session, format!("{wanted} with {values} values"), &needs());
        }
        session.weights.set(at, &tensor.values)?;
    }
    Ok(())
}

/// Computes the metrics of the model in the run folder `run`, on its own data set or on the data
/// set `data`.
///
/// # Errors
/// Returns an error if the run folder is damaged, or if the data cannot be read or does not fit the
/// model.
pub fn evaluate(run: &Path, data: Option<&Data>, options: &Options) -> Result<Evaluation> {
    evaluate_data(run, Shown::from_data(data), options)
}

/// Computes the metrics of a model on a data set in memory, like [`evaluate`].
///
/// # Errors
/// Returns the errors of [`evaluate`].
pub fn evaluate_on(run: &Path, dataset: Dataset, options: &Options) -> Result<Evaluation> {
    evaluate_data(run, Shown::Memory(Box::new(dataset)), options)
}

fn evaluate_data(run: &Path, data: Shown<'_>, options: &Options) -> Result<Evaluation> {
    let opened = Run::open(run)?;
    let own = matches!(data, Shown::Run);
    let (mut session, _) = restore(&opened, data, options, (Asked::Nothing, Purpose::Evaluate))?;
    let (metrics, quality) = session.judge(&mut Silent)?;
    let recorded = opened.summary.seeds.first().map(SeedReport::written);
    let recorded = recorded.filter(|recorded| own && recorded.is_measured());
    Ok(Evaluation {
        dataset: session.inputs.dataset.name.clone(),
        model: session.program.model.name(),
        metrics,
        recorded,
        model_digest: opened.metadata.get("digest").cloned().unwrap_or_default(),
        quality,
    })
}

/// Computes the scores of all vertices, or of all graphs in a data set of many graphs, with the
/// model in the run folder `run`. The model is applied to its own data set or to the data set
/// `data`.
///
/// For link prediction, the model reads the graph without held-out links. On another data set,
/// links are held out according to the settings of the run.
///
/// # Errors
/// Returns the errors of [`evaluate`].
pub fn predict(run: &Path, data: Option<&Data>, options: &Options) -> Result<Predictions> {
    predict_data(run, Shown::from_data(data), options)
}

/// Computes the scores of a model on a data set in memory, like [`predict`].
///
/// # Errors
/// Returns the errors of [`predict`].
pub fn predict_on(run: &Path, dataset: Dataset, options: &Options) -> Result<Predictions> {
    predict_data(run, Shown::Memory(Box::new(dataset)), options)
}

fn predict_data(run: &Path, data: Shown<'_>, options: &Options) -> Result<Predictions> {
    let opened = Run::open(run)?;
    let (mut session, config) = restore(&opened, data, options, (Asked::Scores, Purpose::Predict))?;
    session.evaluate(&mut Silent)?;
    let found = session.predicted(&config, options.embeddings, &mut Silent)?;
    let (ids, rows) = session.inputs.vertices.named();
    let (ids, rows) = (ids.clone(), rows as usize);
    let matrix = |columns: usize, values: Vec<f32>| {
        Array2::from_shape_vec((rows, columns), values).map_err(|e| Error::Internal(e.to_string()))
    };
    let scores = matrix(session.inputs.shape.classes as usize, found.scores)?;
    let embeddings = match found.embeddings {
        Some((width, values)) => Some(matrix(width, values)?),
        None => None,
    };
    let (task, graphs) = (session.inputs.task, session.inputs.dataset.graphs.is_some());
    let split = session.stripped.as_ref().map(|stripped| stripped.split().clone());
    let known = known_labels(&session.inputs)?;
    Ok(Predictions { ids, graphs, task, scores, embeddings, known, split, workers: session.workers() })
}
