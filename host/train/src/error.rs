//! Errors of training runs, predictions and run folders.

use std::path::PathBuf;

use crate::nan_trace::{self, NanTrace};

/// Returns the part of a message that names a step within an epoch.
fn within(step: Option<u32>) -> String {
    step.map_or_else(String::new, |step| format!(" (step {step})"))
}

/// Result type of the functions in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a training run, a prediction, or another operation of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error in reading or preparing the data set.
    #[error(transparent)]
    Data(#[from] eciton_graph::error::Error),
    /// Error in adjacency lists, or in the rows that they gather.
    #[error(transparent)]
    Lists(#[from] eciton_gather::error::Error),
    /// Error in the cut of rows into atoms (smallest units), or in the sums over them.
    #[error(transparent)]
    Rows(#[from] eciton_types::Error),
    /// `data.source` is neither a data set nor an existing path.
    #[error("there is no data set or path `{name}`{}; built in: {known}; `eciton data fetch --list` lists more",
            nearest.as_ref().map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default())]
    UnknownData {
        /// Name as the user gave it.
        name: String,
        /// Known name that is similar to the given one, if there is one.
        nearest: Option<String>,
        /// All known names, for the message.
        known: String,
    },
    /// The hosts of a run cannot train together.
    #[error("several hosts: {0}")]
    Hosts(String),
    /// Another host of the run has failed.
    #[error("host {host}: {reason}")]
    HostFailed {
        /// Index of the host.
        host: u32,
        /// The reason, and the action that the user can take.
        reason: String,
        /// True if a message told it, so that the host that failed has reported it itself.
        is_told: bool,
    },
    /// The data of a run are no longer at the path that the run recorded.
    #[error(
        "the run {} recorded `{source_name}` as the path of its data, but nothing exists there now; if the \
         data was moved, give its path after the run folder: `eciton predict RUN DATA` or `eciton eval RUN \
         DATA`", run.display()
    )]
    DataMoved {
        /// Path of the run folder.
        run: PathBuf,
        /// Path that the run recorded.
        source_name: String,
    },
    /// The data set of the run was in memory, so it cannot be read again.
    #[error(
        "the run was trained on a data set in memory, which is no longer available; give the name or path of \
         the data set, or in Python the graph"
    )]
    WasInMemory,
    /// The data set has no labels, which are needed to evaluate a model.
    #[error(
        "{dataset} has no labels that the model knows, so the model cannot be evaluated on it; add labels to \
         the data, or use `eciton predict`, which needs none"
    )]
    Unlabelled {
        /// Name of the data set that the run uses.
        dataset: String,
    },
    /// The data set does not fit the schema of a trained model.
    #[error("{dataset} does not fit the model: {problem}; {remedy}")]
    Schema {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Difference from the schema, with the names that are missing or unknown.
        problem: String,
        /// Advice to the user, as the end of the message.
        remedy: &'static str,
    },
    /// An edge has a negative weight, for which the symmetric normalisation is undefined.
    #[error(
        "the edge from {origin} to {target} has the weight {weight}, but a {layer} layer divides by square \
         roots of sums of weights; use weights of at least 0, another column (model.edge_weights), or layers \
         of the kind sage or gin"
    )]
    NegativeWeight {
        /// Kind of the layer that normalises.
        layer: String,
        /// Source vertex of the edge, in the user's numbering.
        origin: String,
        /// Target vertex of the edge, in the user's numbering.
        target: String,
        /// Weight of the edge.
        weight: f32,
    },
    /// `batch.micro` is larger than the number of atoms (smallest units of a cut) in a batch.
    #[error(
        "`batch.micro` is {parts}, but an update of {rows} rows has at most {most} micro-batches; set \
         --micro to {possible}, or increase --batch, the rows of an update (a micro-batch needs 8 rows, and \
         the maximum is 512 micro-batches)",
        possible = if *most == 1 { "1".to_owned() } else { format!("a number from 1 to {most}") }
    )]
    Parts {
        /// Requested number of micro-batches.
        parts: u32,
        /// Maximum number of micro-batches for `rows` rows.
        most: u32,
        /// Number of rows in an update.
        rows: u32,
    },
    /// The published data set is not in the user's cache, so it must be fetched first.
    #[error("`{name}` is not in {folder}; run `eciton data fetch {name}`", folder = folder.display())]
    NotFetched {
        /// Name of the data set.
        name: &'static str,
        /// Folder of the cache.
        folder: PathBuf,
    },
    /// Error of the cache of published data sets.
    #[error(transparent)]
    Fetch(#[from] eciton_fetch::error::Error),
    /// The planner refused the settings, the model, or the plan.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The engine refused the program.
    #[error(transparent)]
    Engine(#[from] eciton_engine::Error),
    /// Error of a kernel outside of a step, for instance when it is loaded.
    #[error(transparent)]
    Kernel(Box<eciton_kernel::Error>),
    /// Error of a kernel in a step (a stage on one interval in one round) of a run.
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
    /// A file or folder could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// I/O error of the operating system.
        source: std::io::Error,
    },
    /// A component of the user does not match its lock file, or the lock file is not valid.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Pins(#[from] eciton_author::Error),
    /// Error in reading or writing a run folder.
    #[error(transparent)]
    RunFolder(#[from] eciton_runs::run_folder::Error),
    /// The configuration names a kernel that does not exist.
    #[error(
        "there is no kernel `{name}`; built in: {known}; set `[kernels] {name} = \"path.wasm\"` to add it"
    )]
    UnknownKernel {
        /// Name as the user gave it.
        name: String,
        /// All known names, for the message.
        known: String,
    },
    /// The configuration replaces a kernel that the model does not use.
    #[error(
        "`[kernels] {name} = \"{path}\"` (or --kernel) replaces the kernel `{name}`, but this model does not \
         use it; the model uses: {used}; remove the setting, or choose a model with this kernel"
    )]
    UnusedKernel {
        /// Name of the kernel.
        name: String,
        /// Path of the component, which would have no effect.
        path: String,
        /// Names of the kernels that the model uses.
        used: String,
    },
    /// `executor.rows = "bits"`, but the model has no layer that reads only signs.
    #[error(
        "executor.rows is \"bits\", but layers of {model} read more than the signs and scales of rows \
         (kernels: {kernels}); set it to \"f32\" or \"bf16\", or use layers with the kernel `binary` \
         (docs/explanation/binary-networks.md)"
    )]
    NoSigns {
        /// Description of the model, such as its kind.
        model: String,
        /// Names of the kernels of the model's layers.
        kernels: String,
    },
    /// A component replaces a kernel, but one of them works on edges and the other on vertices.
    #[error(
        "kernel `{name}` computes on {}, but {path} computes on {}, so it cannot replace the kernel; use it \
         as a layer of a model file (--model) with kernel = \"{path}\" and on = \"{}\"",
        worked(*place), worked(*found), worked(*found)
    )]
    KernelPlace {
        /// Name of the kernel.
        name: String,
        /// Path of the component.
        path: String,
        /// Vertices or edges, as the kernel works on them.
        place: eciton_types::On,
        /// Vertices or edges, as the component works on them.
        found: eciton_types::On,
    },
    /// A record of the run, such as an event log, cannot be written or read.
    #[error("{}: {source}", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// I/O error of the operating system.
        source: std::io::Error,
    },
    /// The event log to replay does not fit this run.
    #[error("cannot replay the events of {}: {reason}", path.display())]
    Replay {
        /// Path of the record.
        path: PathBuf,
        /// Difference between the log and this run.
        reason: String,
    },
    /// The loss or a gradient is not finite.
    #[error(
        "epoch {epoch}: {what}{}; {}", nan_trace::told(first.as_deref()),
        nan_trace::remedy(first.as_deref())
    )]
    NotFinite {
        /// Epoch in which the value occurred, from 1.
        epoch: u32,
        /// Update in which the value occurred, from 1. With batches, an epoch has several updates.
        round: u32,
        /// Sentence that names the value that is not finite.
        what: String,
        /// Location of the first value that is not finite, if it has been found.
        first: Option<Box<NanTrace>>,
    },
    /// The data set has no validation vertices, but a setting compares models by them.
    #[error(
        "data set `{dataset}` has no validation rows, but {key} requires them; set data.split, add split.csv \
         (id,train|val|test) to the folder of the data set, or remove the key"
    )]
    NoValidation {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Setting that needs validation data.
        key: &'static str,
    },
    /// A setting needs a metric that is undefined on this data.
    #[error(
        "{key} requires the {part} metric, but {metric} is undefined on the {part} part of data set \
         `{dataset}`: {reason}; choose another metric (run.metric) or split (data.split), or remove the key"
    )]
    Undefined {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Setting that needs the metric.
        key: &'static str,
        /// Name of the metric.
        metric: &'static str,
        /// Part of the split on which the metric is undefined.
        part: &'static str,
        /// Reason why the metric is undefined.
        reason: String,
    },
    /// No epoch of the run can reach the stop target `run.until`.
    #[error("`run.until` is {until}, but no epoch on data set `{dataset}` can reach it: {reason}")]
    Until {
        /// Stop target of the settings.
        until: eciton_recipe::Until,
        /// Name of the data set that the run uses.
        dataset: String,
        /// Reason why no epoch can reach the target.
        reason: String,
    },
    /// The labels do not allow the requested split.
    #[error("cannot apply data.split = \"{rule}\" to data set `{dataset}`")]
    Split {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Split rule of the settings.
        rule: eciton_recipe::SplitRule,
        /// Error of the split.
        #[source]
        source: Box<eciton_graph::error::Error>,
    },
    /// No links are held out for validation, but a setting compares models by them.
    #[error(
        "none of the links of data set `{dataset}` are held out for validation, but {key} requires them; set \
         links.validation to a larger share, or remove the key"
    )]
    NoValidationLinks {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Setting that needs validation data.
        key: &'static str,
    },
    /// The run does not fit in memory.
    #[error(
        "the run needs {needed} bytes of memory, but only {available} bytes are available; the largest item \
         is {largest}; {remedy}, or allow more memory with run.memory_bytes; `eciton plan` lists the memory \
         by purpose"
    )]
    Memory {
        /// Estimated peak memory of the run, in bytes.
        needed: u64,
        /// Memory in bytes that this process may use.
        available: u64,
        /// Purpose that needs the largest part of the memory.
        largest: String,
        /// Advice to the user, as the end of the message.
        remedy: &'static str,
    },
    /// The hosts of a run that share this machine do not fit in its memory together.
    #[error(
        "each of {hosts} hosts on this machine needs up to {each} bytes of memory, {together} bytes in total, but \
         only {available} bytes are available; start fewer hosts here and the others on other machines"
    )]
    HostsMemory {
        /// Number of hosts on this machine.
        hosts: u32,
        /// Estimated peak memory of a host, in bytes.
        each: u64,
        /// Estimated peak memory of all of them, in bytes.
        together: u64,
        /// Memory in bytes that is available.
        available: u64,
    },
    /// The file with the rows of an evaluation cannot be used.
    #[error(
        "the activations of an evaluation cannot be written to a temporary file ({source}); free space on the disk \
         of the run folder, or set evaluation.memory = \"resident\""
    )]
    RowsInFile {
        /// Error of the system.
        source: std::io::Error,
    },
    /// The data set has no labels to train on.
    #[error(
        "data set `{dataset}` has no labels; add labels.csv (id,class) or labels.npy to its folder, or set \
         data.task = \"link-prediction\" to predict its links"
    )]
    NoLabels {
        /// Name of the data set that the run uses.
        dataset: String,
    },
    /// The model does not compute the rows that the labels of the data set belong to, which are
    /// vertices, graphs or edges.
    #[error("{}", readout(dataset, *rows))]
    Readout {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Number of graphs, and false. For labels of edges, their number, and true. `None` for labels
        /// of vertices.
        rows: Option<(usize, bool)>,
    },
    /// Samples were requested, but the settings have no batches.
    #[error(
        "there are no batches to draw: set batch.rows (--batch) to the number of rows of an update, or \
         batch.sampler (--sampler)"
    )]
    NoBatches,
    /// The sampler cannot make batches for this data or model.
    #[error("batch.sampler = \"{sampler}\" does not support {found}; {remedy}")]
    Batch {
        /// Name of the sampler.
        sampler: &'static str,
        /// Property of the data or the model that the sampler does not support.
        found: String,
        /// Advice to the user, as the end of the message.
        remedy: &'static str,
    },
    /// The run would have more than 2^32 - 1 rounds (optimizer steps).
    #[error(
        "{epochs} epochs of {rounds} updates exceed the maximum of 2^32 - 1 updates; use fewer epochs, or \
         larger batches"
    )]
    Rounds {
        /// Requested number of epochs.
        epochs: u32,
        /// Number of rounds in an epoch.
        rounds: u32,
    },
    /// The data set has no training vertices.
    #[error(
        "data set `{dataset}` has no training rows, because its split has none or because no row has a \
         label; correct labels.csv and split.csv next to the graph file, or the labels and masks of the \
         archive"
    )]
    NoTraining {
        /// Name of the data set that the run uses.
        dataset: String,
    },
    /// Weights that the caller supplied do not fit the data.
    #[error("the weights have {wanted}, but `{dataset}` has {found}")]
    Fit {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Schema that the weights were trained for.
        wanted: String,
        /// Schema of the data set.
        found: String,
    },
    /// The weights in the model file of `run.init` do not fit the model.
    #[error(
        "{}: the weights do not fit {model}: {found}; list layers that keep their random weights in \
         run.init_fresh (--init-fresh)", path.display()
    )]
    Init {
        /// Path of the model file.
        path: PathBuf,
        /// Description of the model, such as its kind.
        model: String,
        /// Differences, with the expected and the found values.
        found: String,
    },
    /// A setting names a layer that the model does not have.
    #[error("`{key}` names layer {layer}, but {model} has layers 0 to {}", layers.saturating_sub(1))]
    NoLayer {
        /// Setting that names the layer.
        key: &'static str,
        /// Number of the layer, from 0.
        layer: u32,
        /// Number of layers of the model.
        layers: u32,
        /// Description of the model, such as its kind.
        model: String,
    },
    /// The settings freeze all layers of the model, so that none is trained.
    #[error(
        "`optimiser.freeze` names every layer of {model} that has parameters, so none would be trained; \
         remove at least one layer from the list"
    )]
    AllFrozen {
        /// Description of the model, such as its kind.
        model: String,
    },
    /// The model gathers from neighbours, but the data set has no graph.
    #[error(
        "data set `{dataset}` has no graph, but {model} gathers rows of neighbours; use `--model mlp` \
         (model.kind = \"mlp\"), add edges to the data, or set data.without_edges = true to train without \
         neighbours"
    )]
    NoGraph {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Description of the model, such as its kind.
        model: String,
    },
    /// The run cannot generate text.
    #[error("{run:?}: {reason}; {remedy}")]
    Generate {
        /// Path of the run folder.
        run: std::path::PathBuf,
        /// Reason why the run cannot generate text.
        reason: String,
        /// Advice to the user, as the end of the message.
        remedy: &'static str,
    },
    /// The requested number of epochs cannot be trained.
    #[error("cannot train {asked} epochs after {done}; train at least 1, and at most {} in total", u32::MAX)]
    Epochs {
        /// Requested number of epochs.
        asked: u32,
        /// Number of epochs already trained.
        done: u32,
    },
    /// An option that needs a run folder was given to a trainer in memory.
    #[error("a trainer in memory does not support {option}; {instead}")]
    NotInMemory {
        /// Name of the option.
        option: &'static str,
        /// Advice to the user, as the end of the message.
        instead: &'static str,
    },
    /// The labels are for another task than `data.task`.
    #[error(
        "data.task is {wanted}, but the labels of `{dataset}` are for {found}; give labels for {wanted}, or \
         remove data.task"
    )]
    Task {
        /// Name of the data set that the run uses.
        dataset: String,
        /// Task in the configuration.
        wanted: &'static str,
        /// Task that the labels are for.
        found: &'static str,
    },
    /// The functions of the run cannot be used.
    #[error(transparent)]
    Functions(Box<eciton_exec::functions::Error>),
    /// Another process works on this run, and holds its lock.
    #[error("{}: another process is working on this run; wait for it, or choose another folder", run.display())]
    Busy {
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
    },
    /// A new run was requested at the path of an unfinished run, which can be resumed.
    #[error(
        "{run}: an unfinished run has checkpoints in {place} (the newest is of epoch {epoch}); continue it \
         with `eciton resume {run}`, or delete it with `rm -r {place}`",
        run = run.display(), place = place.display()
    )]
    Unfinished {
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
        /// Path of the checkpoint folder of the unfinished run.
        place: PathBuf,
        /// Epoch of the newest checkpoint.
        epoch: u32,
    },
    /// The run has finished, and the checkpoints next to it belong to another run.
    #[error(
        "{}: this run has finished, but the checkpoints in {place} belong to another run; move this run to \
         another folder, or delete the checkpoints with `rm -r {place}`",
        run.display(), place = place.display()
    )]
    Foreign {
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
        /// Path of the checkpoint folder.
        place: PathBuf,
    },
    /// There is no checkpoint from which the run could resume.
    #[error("cannot resume {}: {found}; train again with `eciton train --out`", run.display())]
    NoCheckpoint {
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
        /// State of the run folder, which explains why there is no checkpoint.
        found: String,
    },
    /// Settings, data or code differ from those with which the run began.
    #[error(
        "cannot resume {}, because its results would differ: {}; undo this change, {}",
        run.display(), differences.join("; "),
        if *forceable { "or resume despite it with --force" } else { "or train again" }
    )]
    Changed {
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
        /// Differences, as one sentence each.
        differences: Vec<String>,
        /// True if the run can resume with `--force`.
        forceable: bool,
    },
    /// The run folder or the checkpoints at the path of a trial belong to another run.
    #[error(
        "{}: this run does not belong to the trial: {}; restore the folder of the trial, or move this folder \
         away so that the trial is trained again", folder.display(), differences.join("; ")
    )]
    OtherTrial {
        /// Folder of the trial.
        folder: PathBuf,
        /// Differences of settings and data, each with both values.
        differences: Vec<String>,
    },
    /// The run stopped as requested, without results. It can resume from its newest checkpoint.
    #[error(
        "stopped on request after epoch {epoch}{within} of seed {seed}; continue with `eciton resume {run}`",
        within = within(*step), run = run.display()
    )]
    Left {
        /// Path of the future run folder, as the user gave it.
        run: PathBuf,
        /// Seed that was in training.
        seed: u64,
        /// Last finished epoch of the newest checkpoint.
        epoch: u32,
        /// Step of the newest checkpoint, if it is within the next epoch.
        step: Option<u32>,
    },
    /// Some files of a run could not be written, but its model was.
    #[error(
        "{source}; {} has the files that were written: {}{}", run.display(), files.join(", "),
        if *finished { "; free disk space, then write predictions with `eciton predict`" } else { "" }
    )]
    Kept {
        /// Error of the file that could not be written.
        source: Box<Error>,
        /// Path of the run folder, as the user gave it.
        run: PathBuf,
        /// Files that were written.
        files: Vec<String>,
        /// True if the run folder is complete enough to be used.
        finished: bool,
    },
    /// Error of the connection of a worker to its run.
    #[error(transparent)]
    Connection(#[from] eciton_workers::ConnectError),
    /// A worker that owns gradient sums or weights has failed, so the run must roll back to its
    /// snapshot.
    #[error("{at} failed, and with it the weights or gradient sums that it owned")]
    Gone {
        /// Location of the failed worker.
        at: eciton_types::Location,
    },
    /// The snapshot of the weights that workers own cannot be written or read.
    #[error("cannot access the snapshot of the workers' weights in {folder}: {source}; check the permissions and \
             the free space of this folder", folder = folder.display())]
    Log {
        /// Folder of the snapshot.
        folder: PathBuf,
        /// I/O error of the operating system.
        source: std::io::Error,
    },
    /// Evaluations cannot be limited to some rows.
    #[error(
        "run.eval_split and run.eval_rows require rows that can be evaluated alone, but {reason}; leave \
         them out, and set run.eval_every to evaluate less often"
    )]
    Limited {
        /// Reason why an evaluation computes all rows.
        reason: &'static str,
    },
    /// Workers did not connect, or failed in another way.
    #[error("workers: {0}")]
    Workers(String),
    /// All workers have failed, and none has connected in time. The run can resume later.
    #[error("workers: {0}")]
    Deserted(String),
    /// A process gave a wrong answer, so its earlier answers are in doubt. The run must roll back
    /// to before its first answer.
    #[error("{text}; results from epoch {epoch} of seed {seed} on may be wrong; start the run again")]
    Doubtful {
        /// Description of the wrong answer.
        text: String,
        /// Seed of the first answer in doubt.
        seed: u64,
        /// Epoch of the first answer in doubt.
        epoch: u32,
    },
    /// An audit found that no answer can be trusted, or could not compare answers.
    #[error("audit: {0}")]
    Audit(String),
    /// The time of a function's invocation is over. The next invocation continues from the newest
    /// checkpoint.
    #[error(
        "paused after epoch {epoch}{within} of seed {seed}, before the function's time limit",
        within = within(*step)
    )]
    Paused {
        /// Seed that was in training.
        seed: u64,
        /// Last finished epoch of the newest checkpoint.
        epoch: u32,
        /// Step of the newest checkpoint, if it is within the next epoch.
        step: Option<u32>,
    },
    /// The time of a function's invocation is over, and there is no checkpoint of the last epoch.
    #[error(
        "the training takes longer than the {seconds:.1} s that the function's time limit allows, and no \
         checkpoint of its last epoch was written; set checkpoint.seconds or checkpoint.every above 0, so \
         that another invocation continues the training, or raise executor.timeout_s"
    )]
    NoPause {
        /// Time limit of the invocation, in seconds.
        seconds: f64,
    },
    /// The run was stopped before it had any result.
    #[error("stopped before the end of the first epoch; nothing was written")]
    Stopped,
    /// The operating system could not start threads.
    #[error("cannot start the compute threads: {0}")]
    Threads(std::io::Error),
    /// This process cannot compute in the requested numeric class (a class of machines with equal
    /// bits).
    #[error("run.numeric_class: {0}")]
    Class(#[from] eciton_tensor::simd::ClassError),
    /// A job of a function is not valid, or the run cannot be a job.
    #[error("{0}")]
    Job(String),
    /// An object in the store of jobs cannot be read or written.
    #[error(transparent)]
    Bucket(#[from] eciton_exec::bucket::Fault),
    /// An internal invariant does not hold, which is a bug in Eciton.
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
    /// Returns true if a retry of the same job may succeed, which is the case if only its object
    /// store has failed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Bucket(fault) if fault.is_retryable)
    }

    /// Returns true if a file of a run folder or checkpoint is damaged or missing, so that a retry
    /// would fail again.
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

/// Returns a function that converts a tensor error to [`Error::Tensor`]. `place` names the
/// operation or the rows, for the message.
pub(crate) fn at(place: &'static str) -> impl Fn(eciton_tensor::Error) -> Error {
    move |source| Error::Tensor { place, source }
}

fn readout(dataset: &str, rows: Option<(usize, bool)>) -> String {
    match rows {
        Some((edges, true)) => format!(
            "`{dataset}` has {edges} labelled edges, but the model computes no row for an edge; set \
             model.readout = \"ends\", or add a layer with kernel = \"readout\" and readout = \"ends\" before \
             the last layers"
        ),
        Some((graphs, false)) => format!(
            "`{dataset}` has {graphs} graphs, each with its own label, but the model computes no row for a \
             graph; set model.readout = \"mean\", or add a layer with kernel = \"readout\" before the last \
             layer"
        ),
        None => format!(
            "the model has a readout, which predicts whole graphs or edges, but `{dataset}` is one graph with \
             labels of its vertices; remove model.readout, or set data.edge_label"
        ),
    }
}

/// Returns `rows` for a kernel on vertices and `edges` for a kernel on edges, as used in messages.
const fn worked(on: eciton_types::On) -> &'static str {
    match on {
        eciton_types::On::Rows => "rows",
        eciton_types::On::Edges => "edges",
    }
}
