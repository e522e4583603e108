//! Errors of runs.

use std::path::PathBuf;

use crate::nan_trace::{self, NanTrace};

/// The result of working with runs.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the data set.
    #[error(transparent)]
    Data(#[from] eciton_graph::error::Error),
    /// Lists of neighbours, or rows to gather.
    #[error(transparent)]
    Lists(#[from] eciton_gather::error::Error),
    /// Atoms of rows, or sums over them.
    #[error(transparent)]
    Rows(#[from] eciton_types::Error),
    /// Neither a data set nor a file has this name.
    #[error("there is no data set or path `{name}`{}; built in: {known}; `eciton data fetch --list` has more", nearest.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default())]
    UnknownData {
        /// Name that the user gave.
        name: String,
        /// The closest name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// Data of a run that are no longer at their recorded path.
    #[error(
        "the run {} recorded `{source_name}` as its data, and there is nothing now; where they lie elsewhere, name them \
         behind the run: `eciton predict RUN DATA`, `eciton eval RUN DATA`",
        run.display()
    )]
    DataMoved {
        /// The run folder.
        run: PathBuf,
        /// Path that the run recorded.
        source_name: String,
    },
    /// Data of a run whose data set was in memory.
    #[error(
        "the run's data set was in memory, and is not here now; name the data, or give its path or the graph"
    )]
    WasInMemory,
    /// Data without labels, which are needed to evaluate a model.
    #[error(
        "{dataset} has no labels that the model knows, so it cannot be evaluated on it; give labels, or use `eciton predict`"
    )]
    Unlabelled {
        /// Name of the data set.
        dataset: String,
    },
    /// Data that does not fit the schema of a trained model.
    #[error("{dataset} does not fit the model: {problem}; {remedy}")]
    Schema {
        /// Name of the data set.
        dataset: String,
        /// The misfit, with the names that are missing or unknown.
        problem: String,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// Negative edge weight, for which there is no symmetric normalisation.
    #[error(
        "the edge from {origin} to {target} weighs {weight}, and a {layer} layer divides by roots of sums of \
         weights: take weights of 0 and more, another column, or layers of kind sage or gin"
    )]
    NegativeWeight {
        /// The layer's kind.
        layer: String,
        /// Source of the edge, as an id of the user.
        origin: String,
        /// Target of the edge, as an id of the user.
        target: String,
        /// Weight of the edge.
        weight: f32,
    },
    /// More micro-batches than a batch has atoms.
    #[error(
        "`batch.micro` is {parts}, and an update of {rows} rows has at most {most}: say --micro {possible}, or more rows an \
         update with --batch (8 for each part, 512 parts at most)",
        possible = if *most == 1 { "1".to_owned() } else { format!("1 to {most}") }
    )]
    Parts {
        /// Requested number of micro-batches.
        parts: u32,
        /// Maximum number of micro-batches for these rows.
        most: u32,
        /// Number of rows of an update.
        rows: u32,
    },
    /// A published data set that is not in the user's cache.
    #[error("`{name}` is not in {folder}; `eciton data fetch {name}` brings it", folder = folder.display())]
    NotFetched {
        /// The set.
        name: &'static str,
        /// The cache.
        folder: PathBuf,
    },
    /// The cache of published data sets.
    #[error(transparent)]
    Fetch(#[from] eciton_fetch::error::Error),
    /// Refused settings, a model that is not valid, or a plan that does not fit.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The engine refused the program.
    #[error(transparent)]
    Engine(#[from] eciton_engine::Error),
    /// A kernel.
    #[error(transparent)]
    Kernel(Box<eciton_kernel::Error>),
    /// Error of a kernel in a step of a run.
    #[error("{step}: {source}")]
    Step {
        /// Round, stage and interval of the step.
        step: String,
        /// Error of the kernel.
        source: Box<eciton_kernel::Error>,
    },
    /// Error of a matrix operation on the host.
    #[error("{place}: {source}")]
    Tensor {
        /// Operation or rows on which the error occurred.
        place: &'static str,
        /// Error of the matrix operation.
        source: eciton_tensor::Error,
    },
    /// A file that could not be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// I/O error.
        source: std::io::Error,
    },
    /// A component of the user's own that may not run, or the lock file that says which may.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Pins(#[from] eciton_author::Error),
    /// The run folder.
    #[error(transparent)]
    RunFolder(#[from] eciton_runs::run_folder::Error),
    /// No kernel has this name.
    #[error("there is no kernel `{name}`; built in: {known}. `[kernels] {name} = \"path.wasm\"` adds one")]
    UnknownKernel {
        /// Name that the user gave.
        name: String,
        /// All names.
        known: String,
    },
    /// Component for a kernel that the model does not have.
    #[error(
        "this model has no kernel `{name}`, which `[kernels] {name} = \"{path}\"` (or --kernel) replaces; it has: {used}. Leave it out, or choose a model that has one"
    )]
    UnusedKernel {
        /// The kernel.
        name: String,
        /// The component that would be ignored.
        path: String,
        /// The kernels of the model.
        used: String,
    },
    /// Rows as bits, in a model without a layer that reads only signs.
    #[error(
        "executor.rows = \"bits\": layers of {model} read more of rows than signs and scales (kernels {kernels}); say \
         f32 or bf16, or take layers of kernel `binary` (docs/explanation/binary-networks.md)"
    )]
    NoSigns {
        /// The model.
        model: String,
        /// The kernels of its layers.
        kernels: String,
    },
    /// Component that replaces a kernel, but works on edges in place of vertices or the other way
    /// round.
    #[error(
        "kernel `{name}` works on {}, and {path} on {}, so that it cannot take its place; make it a layer of a model file (--model): kernel = \"{path}\", on = \"{}\"",
        worked(*place), worked(*found), worked(*found)
    )]
    KernelPlace {
        /// The kernel.
        name: String,
        /// The component.
        path: String,
        /// Vertices or edges, as the kernel works on them.
        place: eciton_types::On,
        /// Vertices or edges, as the component works on them.
        found: eciton_types::On,
    },
    /// A record of the run that cannot be written or read.
    #[error("{}: {source}", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// I/O error.
        source: std::io::Error,
    },
    /// A record of events that this run cannot repeat.
    #[error("cannot repeat the events of {}: {reason}", path.display())]
    Replay {
        /// Path of the record.
        path: PathBuf,
        /// Difference between the record and this run.
        reason: String,
    },
    /// The loss or a gradient is not finite.
    #[error(
        "epoch {epoch}: {what}{}; {}",
        nan_trace::told(first.as_deref()),
        nan_trace::remedy(first.as_deref())
    )]
    NotFinite {
        /// Epoch, from 1.
        epoch: u32,
        /// Update, from 1. With batches an epoch has several updates.
        round: u32,
        /// Sentence that names the value that is not finite.
        what: String,
        /// Location of the first value that is not finite, if it has been found.
        first: Option<Box<NanTrace>>,
    },
    /// No validation vertices to compare models by.
    #[error(
        "data set `{dataset}` has no validation vertices, which {key} goes by; put split.csv (id,train|val|test) \
         beside the graph, or leave the key out"
    )]
    NoValidation {
        /// Name of the data set.
        dataset: String,
        /// The key that needs them.
        key: &'static str,
    },
    /// Setting that needs a metric which has no value on this data.
    #[error(
        "{key} goes by the {part} metric, but {metric} is undefined on the {part} part of data set `{dataset}`: {reason}; \
         choose another metric (run.metric) or split (data.split), or leave the key out"
    )]
    Undefined {
        /// The data set's name.
        dataset: String,
        /// The key that needs the metric.
        key: &'static str,
        /// The metric's name.
        metric: &'static str,
        /// The part of the data.
        part: &'static str,
        /// The reason why it is undefined.
        reason: String,
    },
    /// A target that no epoch of the run could reach.
    #[error("`run.until` is {until}, which nothing on data set `{dataset}` can reach: {reason}")]
    Until {
        /// The target.
        until: eciton_recipe::Until,
        /// The data set's name.
        dataset: String,
        /// Reason why no epoch can reach the target.
        reason: String,
    },
    /// A split that the labels do not allow.
    #[error("data.split is {rule}, for data set `{dataset}`")]
    Split {
        /// The data set's name.
        dataset: String,
        /// The rule.
        rule: eciton_recipe::SplitRule,
        /// Error of the split.
        #[source]
        source: Box<eciton_graph::error::Error>,
    },
    /// No validation links to compare models by.
    #[error(
        "none of the links of data set `{dataset}` are held out for validation, which {key} goes by; give \
         links.validation a larger share, or leave the key out"
    )]
    NoValidationLinks {
        /// Name of the data set.
        dataset: String,
        /// The key that needs them.
        key: &'static str,
    },
    /// The run does not fit into memory.
    #[error(
        "the run needs {needed} bytes of memory and {available} are to be had; the most of it is {largest}. What helps: {remedy}; or allow more with run.memory_bytes. `eciton plan` has it by purpose"
    )]
    Memory {
        /// Bytes at the peak.
        needed: u64,
        /// Bytes that this process may hold.
        available: u64,
        /// Purpose that needs the most memory.
        largest: String,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// Data set without labels.
    #[error(
        "data set `{dataset}` has no labels; put labels.csv (id,class) or labels.npy beside the graph, or predict its links: data.task = \"link-prediction\""
    )]
    NoLabels {
        /// Name of the data set.
        dataset: String,
    },
    /// Model of vertices for a data set of many graphs, or a model of graphs for a single graph.
    #[error("{}", readout(dataset, *graphs))]
    Readout {
        /// The data set.
        dataset: String,
        /// Number of graphs, if the data set is not a single graph.
        graphs: Option<u32>,
    },
    /// Data or model for which the sampler cannot make batches.
    #[error("there are no batches of {found} with batch.sampler = \"{sampler}\": {remedy}")]
    Batch {
        /// Name of the sampler.
        sampler: &'static str,
        /// Property of the data or the model that the sampler does not support.
        found: String,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// More rounds than 2^32 - 1.
    #[error(
        "{epochs} epochs of {rounds} rounds are more than 2^32 - 1 rounds: take fewer epochs, or larger batches"
    )]
    Rounds {
        /// Requested number of epochs.
        epochs: u32,
        /// Number of rounds in an epoch.
        rounds: u32,
    },
    /// Data set without training vertices.
    #[error(
        "data set `{dataset}` has no training vertices: its split names none, or no vertex has a label; correct \
         these (labels.csv and split.csv beside a graph file, the labels and masks of an archive)"
    )]
    NoTraining {
        /// Name of the data set.
        dataset: String,
    },
    /// Weights from another source do not fit the data.
    #[error("the weights have {wanted}, but `{dataset}` has {found}")]
    Fit {
        /// The data set.
        dataset: String,
        /// Schema that the weights were trained for.
        wanted: String,
        /// Schema of the data set.
        found: String,
    },
    /// A model file that a run cannot begin from.
    #[error(
        "{}: its weights do not fit {model}: {found}; layers that are to stay fresh are named by run.init_fresh",
        path.display()
    )]
    Init {
        /// The file.
        path: PathBuf,
        /// The model.
        model: String,
        /// Difference, with the expected and the found value.
        found: String,
    },
    /// A layer that the model does not have.
    #[error("`{key}` names layer {layer}, and {model} has {layers}, counted from 0")]
    NoLayer {
        /// The key.
        key: &'static str,
        /// The layer.
        layer: u32,
        /// Number of layers.
        layers: u32,
        /// The model.
        model: String,
    },
    /// Model without any trained layer.
    #[error(
        "`optimiser.freeze` names every layer of {model} that has parameters: leave one out, to be trained"
    )]
    AllFrozen {
        /// The model.
        model: String,
    },
    /// Model that gathers from neighbours, on a data set without a graph.
    #[error(
        "data set `{dataset}` has no graph, and {model} gathers from neighbours: take `--model mlp` (model.kind = \"mlp\"), or \
         give the data edges; data.without_edges = true gathers over empty lists all the same"
    )]
    NoGraph {
        /// The data set.
        dataset: String,
        /// The model.
        model: String,
    },
    /// Run that cannot generate text.
    #[error("{run:?}: {reason}; {remedy}")]
    Generate {
        /// The run folder.
        run: std::path::PathBuf,
        /// Reason why the run cannot.
        reason: String,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// A number of epochs that cannot be trained.
    #[error("{asked} epochs after {done} cannot be trained; take 1 or more, and at most {} in all", u32::MAX)]
    Epochs {
        /// Requested number of epochs.
        asked: u32,
        /// Number of epochs already trained.
        done: u32,
    },
    /// Option of runs with a folder, given to a trainer in memory.
    #[error("a trainer in memory takes no {option}: {instead}")]
    NotInMemory {
        /// The option.
        option: &'static str,
        /// Advice to the user.
        instead: &'static str,
    },
    /// Labels of another task than the configuration's.
    #[error(
        "data.task is {wanted}, but the labels of `{dataset}` are for {found}; give labels of that kind, or leave data.task out"
    )]
    Task {
        /// The data set.
        dataset: String,
        /// The configuration's task.
        wanted: &'static str,
        /// The labels' task.
        found: &'static str,
    },
    /// Functions for the run are not available.
    #[error(transparent)]
    Functions(Box<eciton_exec::functions::Error>),
    /// Another process is working on this run.
    #[error("{}: another process is working on this run; wait for it, or choose another folder", run.display())]
    Busy {
        /// The run folder, as given.
        run: PathBuf,
    },
    /// New run in a folder whose unfinished run can be resumed.
    #[error(
        "{run}: a run that has not finished has checkpoints in {place} (the newest of epoch {epoch}); go on with \
         `eciton resume {run}`, or throw it away: rm -r {place}", run = run.display(), place = place.display()
    )]
    Unfinished {
        /// The run folder, as given.
        run: PathBuf,
        /// Path of the run's checkpoints.
        place: PathBuf,
        /// Epoch of the newest checkpoint.
        epoch: u32,
    },
    /// Checkpoints of another run next to a finished run.
    #[error(
        "{}: this run has finished, and the checkpoints in {place} are another one's; move this run away, or throw them \
         away: rm -r {place}", run.display(), place = place.display()
    )]
    Foreign {
        /// The run folder, as given.
        run: PathBuf,
        /// Path of the checkpoints.
        place: PathBuf,
    },
    /// No checkpoint to resume from.
    #[error("{}: there is nothing to go on from: {found}; train again with `eciton train --out`", run.display())]
    NoCheckpoint {
        /// The run folder, as given.
        run: PathBuf,
        /// State of the run folder, which explains why there is no checkpoint.
        found: String,
    },
    /// Settings, data or code that differ from those that the run began with.
    #[error(
        "{}: the run would not be the same: {}; undo that, {}", run.display(), differences.join("; "),
        if *forceable { "or go on all the same with --force" } else { "or train again" }
    )]
    Changed {
        /// The run folder, as given.
        run: PathBuf,
        /// Differences, each as a sentence.
        differences: Vec<String>,
        /// True if the run can resume with `--force`.
        forceable: bool,
    },
    /// Run folder or checkpoints of another run, at the path of a trial.
    #[error(
        "{}: this is not the run of the trial: {}; put the trial's own folder there, or move this one away, \
         and the trial is trained again", folder.display(), differences.join("; ")
    )]
    OtherTrial {
        /// Folder of the trial.
        folder: PathBuf,
        /// Differences of settings and data, each with both values.
        differences: Vec<String>,
    },
    /// Stopped as requested, without results. The run can resume from its newest checkpoint.
    #[error(
        "stopped after epoch {epoch} of seed {seed}, as asked; `eciton resume {run}` goes on from there",
        run = run.display()
    )]
    Left {
        /// Run folder that is not written yet, as given.
        run: PathBuf,
        /// Seed that was trained.
        seed: u64,
        /// The epoch of the newest checkpoint.
        epoch: u32,
    },
    /// Some files of a run could not be written, but its model was.
    #[error(
        "{source}; what was written is in {}: {}{}", run.display(), files.join(", "),
        if *finished { "; with room on the disk `eciton predict` makes predictions from it" } else { "" }
    )]
    Kept {
        /// Error of the file that could not be written.
        source: Box<Error>,
        /// The run folder, as given.
        run: PathBuf,
        /// Files that were written.
        files: Vec<String>,
        /// True if the run folder is complete enough to be used.
        finished: bool,
    },
    /// A worker's connection to its run.
    #[error(transparent)]
    Connection(#[from] eciton_workers::ConnectError),
    /// A worker that owns weights has failed, so the run goes back to its snapshot.
    #[error("{at} is gone, with what it owned")]
    Gone {
        /// The worker.
        at: eciton_types::Location,
    },
    /// Error of the snapshot of what workers own.
    #[error("the log of the workers' weights, in {folder}: {source}; have room there", folder = folder.display())]
    Log {
        /// Folder of the snapshot.
        folder: PathBuf,
        /// I/O error.
        source: std::io::Error,
    },
    /// Workers that did not connect, or that have all failed.
    #[error("workers: {0}")]
    Workers(String),
    /// A process gave a wrong answer, so its earlier answers are in doubt, from an epoch of a seed
    /// on.
    #[error("{text}; the answers from epoch {epoch} of seed {seed} on are in doubt: start the run again")]
    Doubtful {
        /// Description of the wrong answer.
        text: String,
        /// The seed.
        seed: u64,
        /// The first epoch in doubt.
        epoch: u32,
    },
    /// An audit found that no answer can be trusted, or that answers cannot be compared.
    #[error("audit: {0}")]
    Audit(String),
    /// The time of an invocation is over; the next one continues from the newest checkpoint.
    #[error("paused after epoch {epoch} of seed {seed}, before the function's time limit")]
    Paused {
        /// Seed that was trained.
        seed: u64,
        /// Epoch of the newest checkpoint.
        epoch: u32,
    },
    /// The time of an invocation is over, and there is no checkpoint of the last epoch.
    #[error(
        "the training needs longer than the {seconds:.1} s that the function's time limit leaves it, and no \
         checkpoint of its last epoch could be written; set checkpoint.seconds or checkpoint.every above 0, so \
         that another call continues it, or set executor.timeout_s higher"
    )]
    NoPause {
        /// Time of the invocation, seconds.
        seconds: f64,
    },
    /// Stopped before anything was learnt.
    #[error("stopped before the first epoch was over; nothing was written")]
    Stopped,
    /// Threads could not be started.
    #[error("compute threads: {0}")]
    Threads(std::io::Error),
    /// A numeric class that this process cannot compute in.
    #[error("run.numeric_class: {0}")]
    Class(#[from] eciton_tensor::simd::ClassError),
    /// Run that cannot be the task of a function.
    #[error("{0}")]
    Job(String),
    /// An object of the store of jobs cannot be read or written.
    #[error(transparent)]
    Bucket(#[from] eciton_exec::bucket::Fault),
    /// The engine and the driver disagree, which is a bug.
    #[error("internal: {0}; please report it with the run's config.toml")]
    Internal(String),
}

impl From<eciton_runs::schema::FitError> for Error {
    fn from(error: eciton_runs::schema::FitError) -> Self {
        use eciton_runs::schema::FitError;
        match error {
            FitError::Schema { dataset, problem, remedy } => Self::Schema { dataset, problem, remedy },
            FitError::Data(error) => Self::Data(error),
        }
    }
}

impl From<eciton_recipe::Error> for Error {
    fn from(error: eciton_recipe::Error) -> Self {
        Self::Plan(error.into())
    }
}

impl From<eciton_program::Error> for Error {
    fn from(error: eciton_program::Error) -> Self {
        Self::Plan(error.into())
    }
}

impl From<eciton_kernel::Error> for Error {
    fn from(error: eciton_kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl From<eciton_exec::functions::Error> for Error {
    fn from(error: eciton_exec::functions::Error) -> Self {
        Self::Functions(Box::new(error))
    }
}

impl Error {
    /// Returns true if another attempt at the same job may succeed, because only its store failed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Bucket(fault) if fault.is_retryable)
    }

    /// Returns true if a file of a run folder or of its checkpoints is not what was written. A
    /// retry would fail with the same error.
    pub fn is_damage(&self) -> bool {
        use eciton_runs::run_folder::Error as Folder;
        matches!(
            self,
            Self::RunFolder(
                Folder::NotARun { .. }
                    | Folder::Missing { .. }
                    | Folder::Malformed { .. }
                    | Folder::Version { .. }
                    | Folder::Digest { .. }
                    | Folder::Limit { .. }
                    | Folder::Config { .. }
            )
        )
    }
}

/// Adds the operation or rows to a matrix error.
pub(crate) fn at(place: &'static str) -> impl Fn(eciton_tensor::Error) -> Error {
    move |source| Error::Tensor { place, source }
}

fn readout(dataset: &str, graphs: Option<u32>) -> String {
    match graphs {
        Some(graphs) => format!(
            "`{dataset}` has {graphs} graphs, each with what is known of it, but the model has no row for a graph; \
             set model.readout = \"mean\", or list a layer with kernel = \"readout\" before its last"
        ),
        None => format!(
            "the model has a readout, but `{dataset}` is one graph, of whose vertices something is known; leave \
             model.readout out"
        ),
    }
}

/// Returns the name of vertices or edges for messages.
const fn worked(on: eciton_types::On) -> &'static str {
    match on {
        eciton_types::On::Rows => "rows",
        eciton_types::On::Edges => "edges",
    }
}
