//! Jobs. A job is a whole run that a cloud function performs as one task. This module has the event
//! that describes a job, the code that performs it, and its answer.
//!
//! ```text
//! host                            store                                    function
//! files of the recipe's paths ──> runs/files/{sha256}.zip ───────────────> cached by their digest
//! job (recipe, files) ───────────────────────────────────────────────────> trains
//! predictions, if asked for <──── runs/jobs/{sha256}-predictions.zip <──── predictions
//! run folder, if it is large <─── runs/jobs/{sha256}.zip <──────────────── run folder
//! run folder, if it is small <──────────────────────────────────────────── run folder, replied
//! ```
//! The name of an answer depends only on the job, and an answer in the store is never replaced.
//! Therefore a repeated job only takes one request to the store. A bundle is a zip archive whose
//! entries are sorted by name.
//!
//! A job must end within one invocation ([`Job::pause_before_ms`]). If a training needs longer, its
//! answer has checkpoints, and [`Job::next`] creates the job that continues it. Each such
//! invocation is a *link*, and the links of one training are a *chain*. The model of a chain has
//! the same digest as that of an uninterrupted run.

mod bundle;
mod predicting;
mod stored;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_recipe::Config;
use eciton_runs::report::Silent;
use eciton_runs::run_folder::{self, json};
use eciton_transport::Counts;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::budget::Budget;
use crate::checkpoint;
use crate::data;
use crate::dataset_cache::Published;
use crate::error::{Error, Result};
use crate::kernels::{SignedCode, builtin};
use crate::options::Options;
use crate::resume::resume_on;
use crate::train::train_on;

pub use bundle::{pack, unpack};
pub use eciton_exec::trainers::{FILES, JOBS, to_text};
pub use predicting::{Predicting, evaluation, predictions};
pub(crate) use stored::DESCRIPTIONS;
pub use stored::{Described, Stored, failure_key, perform_stored};

/// Version of the format of [`Job`], which is the event that the host sends to a function.
pub const VERSION: u32 = 2;
/// Maximum size in bytes of a bundle that is sent in a function's reply. Larger bundles go through
/// the store. Lambda limits a reply to 6 MB, and Base64 turns three bytes into four.
pub const MAX_INLINE_BYTES: usize = 4 << 20;
/// A file or folder that a job needs, as an object in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Key of the object, `runs/files/{sha256}.zip`. It contains the SHA-256 of the object.
    pub key: String,
    /// Name of the file or folder within the bundle.
    pub name: String,
}

/// A job that a cloud function performs: a training, or predictions with the model of a run. It is
/// sent to the function as an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Version of the format. It must equal [`VERSION`].
    pub version: u32,
    /// Configuration as TOML. The paths in it are keys of `files`.
    pub recipe: String,
    /// Number of seeds to train.
    pub seeds: u32,
    /// Files that the job needs, keyed by their path in the recipe.
    pub files: BTreeMap<String, Carried>,
    /// Predictions to make. If `None`, the job is a training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict: Option<Predicting>,
    /// Epoch after which the training pauses. If `None`, it continues to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after: Option<u32>,
    /// Key in `files` of the checkpoints from which the training continues. `None` for a new
    /// training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on: Option<String>,
    /// Time limit of the invocation in milliseconds, before which the training pauses. The safety
    /// margin is already subtracted. `None` if there is no limit. The key of the answer does not
    /// depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_before_ms: Option<u64>,
    /// Clock by which [`Job::pause_before_ms`] is measured.
    #[serde(default, skip_serializing_if = "BudgetClock::is_real")]
    pub budget_clock: BudgetClock,
    /// Numeric class (set of processors with the same arithmetic) that the machine must have. If
    /// `None`, any machine may perform the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// Key of the object with the answer, `runs/jobs/{sha256}.zip`. It contains a digest of the
    /// job.
    pub answer: String,
}

/// Clock by which the duration of an invocation is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum BudgetClock {
    /// Real time since the event arrived.
    #[default]
    Real,
    /// Processor time of the process divided by `share`. It models a function that has only a share
    /// of a processor.
    Processor {
        /// The modelled share of a processor, above 0.
        share: f64,
    },
}

impl BudgetClock {
    fn is_real(&self) -> bool {
        *self == Self::Real
    }
}

/// Position of a training that paused before the time limit of its invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Seed that was being trained.
    pub seed: u64,
    /// Last epoch of this seed that was finished.
    pub epoch: u32,
    /// Step of the checkpoint, if it is within the next epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

/// Reply of a function to a job. It contains the answer only if the answer is small, because every
/// answer is in the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// True if an earlier invocation had stored the answer already, so that nothing was computed.
    pub found: bool,
    /// Seconds from the arrival of the event until the answer was available.
    pub seconds: f64,
    /// Seconds from the arrival of the event until the files of the job were available.
    pub files_seconds: f64,
    /// Size in bytes of the files that were fetched from the store. 0 if all files were cached.
    pub files_bytes: u64,
    /// Peak resident memory of the function's process, in bytes.
    pub peak_memory_bytes: u64,
    /// Number of jobs that the same process had performed before.
    pub before: u64,
    /// Number of requests to the store and number of transferred bytes, until the answer was
    /// stored.
    #[serde(default)]
    pub store: Counts,
    /// Position at which the training paused, so that another invocation must continue it. `None`
    /// if it is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The answer in Base64. `None` if it is too large for a reply or was already in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// A file or folder that a job needs, in memory and ready to be stored.
#[derive(Debug, Clone)]
pub struct File {
    /// Key of the object in the store, and name of the file in it.
    pub carried: Carried,
    /// Content of the object, which is a bundle with the file or folder.
    pub bytes: Vec<u8>,
}

/// The files of several jobs, keyed by their path on this machine. Each file is read only once.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<PathBuf, File>);

impl Files {
    /// Returns all files, which the caller must upload to the store.
    pub fn take(self) -> impl Iterator<Item = File> {
        self.0.into_values()
    }

    /// Returns the store object of a file or folder, which is read and packed on first use.
    fn get(&mut self, path: &Path) -> Result<Carried> {
        if let Some(file) = self.0.get(path) {
            return Ok(file.carried.clone());
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = pack(path, &name)?;
        let carried = Carried { key: format!("{FILES}{}.zip", hex(&Sha256::digest(&bytes))), name };
        self.0.insert(path.to_owned(), File { carried: carried.clone(), bytes });
        Ok(carried)
    }
}

/// Returns `digest` as lower-case hexadecimal digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a job that its answer depends on. The key of the answer is a digest of it.
#[derive(Serialize)]
struct Named<'a> {
    version: u32,
    eciton: &'a str,
    kernels: Vec<String>,
    recipe: &'a str,
    seeds: u32,
    files: &'a BTreeMap<String, Carried>,
    predict: Option<&'a Predicting>,
    pause_after: Option<u32>,
    numeric_class: Option<&'a str>,
}

/// Returns the key of the object with a job's predictions. `answer` is the key of the job's answer.
#[must_use]
pub fn predictions_object(answer: &str) -> String {
    format!("{}-predictions.zip", answer.strip_suffix(".zip").unwrap_or(answer))
}

/// Part of a training that one job performs. It starts anew or from checkpoints, and ends at an
/// epoch or at the end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Part<'a> {
    /// Epoch after which the training pauses. If `None`, it continues to its end.
    pub pause_after: Option<u32>,
    /// Run folder, finished or not, whose checkpoints the training continues from. If `None`, the
    /// training is new.
    pub goes_on: Option<&'a Path>,
}

/// Parameters of a job in addition to its configuration.
struct Work<'a> {
    seeds: u32,
    predict: Option<Predicting>,
    part: Part<'a>,
}

impl Job {
    /// Creates the job that trains a configuration. Ignores the executor that the configuration
    /// selects. Adds the files that the job needs to `files`.
    ///
    /// # Errors
    /// Returns an error if data or files do not exist, or if the configuration cannot be written as
    /// a recipe.
    pub fn train(
        config: &Config,
        (seeds, part): (u32, Part<'_>),
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<Self> {
        Self::named(config, Work { seeds, predict: None, part }, numeric_class, files)
    }

    /// Creates a job, including the key of its answer. The files that it needs are added to
    /// `files`.
    fn named(
        config: &Config,
        Work { seeds, predict, part }: Work<'_>,
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<Self> {
        let mut config = config.clone();
        config.run_here();
        config.run.threads = None;
        let mut named = BTreeMap::new();
        if let Some((path, name)) = data::located(&config.data)? {
            let shown = path.display().to_string();
            named.insert(shown.clone(), files.get(&path)?);
            (config.data.source, config.data.name) = (shown, name);
        }
        for path in config.paths_mut() {
            named.insert(path.clone(), files.get(Path::new(path))?);
        }
        // The numeric class is a field of the job and not of the recipe. Then the run folder equals
        // that of a run on this machine.
        let own = config.run.numeric_class.take();
        let numeric_class = own.as_deref().or(numeric_class);
        if let Some(Predicting { run, .. }) = &predict {
            named.insert(run.clone(), files.get(Path::new(run))?);
        }
        let mut goes_on = None;
        if let Some(place) = part.goes_on.map(checkpoint::folder) {
            let shown = place.display().to_string();
            named.insert(shown.clone(), files.get(&place)?);
            goes_on = Some(shown);
        }
        let mut job = Self {
            version: VERSION,
            recipe: config.to_toml()?,
            seeds,
            files: named,
            predict,
            pause_after: part.pause_after,
            goes_on,
            pause_before_ms: None,
            budget_clock: BudgetClock::Real,
            numeric_class: numeric_class.map(str::to_owned),
            answer: String::new(),
        };
        job.answer = job.named_answer()?;
        Ok(job)
    }

    /// Returns the key of the job's answer, which contains a digest of the job, of the version of
    /// Eciton, and of its kernels.
    fn named_answer(&self) -> Result<String> {
        let of = Named {
            version: self.version,
            eciton: env!("CARGO_PKG_VERSION"),
            kernels: builtin().iter().map(|kernel| hex(&Sha256::digest(kernel.component))).collect(),
            recipe: &self.recipe,
            seeds: self.seeds,
            files: &self.files,
            predict: self.predict.as_ref(),
            pause_after: self.pause_after,
            numeric_class: self.numeric_class.as_deref(),
        };
        Ok(format!("{JOBS}{}.zip", hex(&Sha256::digest(json(&of, Path::new("job"))?))))
    }

    /// Returns the job that continues this training from the checkpoints next to the run folder
    /// `run`. The checkpoints are added to `files`.
    ///
    /// # Errors
    /// Returns an error if the checkpoints cannot be read.
    pub fn next(&self, run: &Path, files: &mut Files) -> Result<Self> {
        let mut job = self.clone();
        if let Some(before) = job.goes_on.take() {
            job.files.remove(&before);
        }
        let place = checkpoint::folder(run);
        let shown = place.display().to_string();
        job.files.insert(shown.clone(), files.get(&place)?);
        job.goes_on = Some(shown);
        job.answer = job.named_answer()?;
        Ok(job)
    }

    /// Creates the time budget of an invocation whose event arrived at `since`. Returns `None` if
    /// the job has no time limit. `remaining` is the time that the service leaves the function. If
    /// it is shorter than the limit of the job, it replaces the limit, unless processor time is
    /// measured.
    ///
    /// # Errors
    /// Returns an error if the share of a processor is not above 0, or if the system does not
    /// report processor time.
    pub fn budget(&self, since: Instant, remaining: Option<Duration>) -> Result<Option<Budget>> {
        let Some(limit) = self.pause_before_ms.map(Duration::from_millis) else { return Ok(None) };
        match self.budget_clock {
            BudgetClock::Real => {
                let limit = remaining.map_or(limit, |remaining| limit.min(less_margin(remaining)));
                Ok(Some(Budget::real(limit, since)))
            }
            BudgetClock::Processor { share } if share > 0.0 && share.is_finite() => {
                let budget = Budget::processor(limit, share);
                let unknown = || Error::Job("this system does not report processor time".to_owned());
                budget.map(Some).ok_or_else(unknown)
            }
            BudgetClock::Processor { share } => Err(Error::Job(format!(
                "budget_clock: the share of a processor is {share}, but must be a number above 0"
            ))),
        }
    }
}

/// Returns a time limit minus the safety margin for the last checkpoint, its upload and the reply.
/// The margin is a tenth of the limit, but at most 10 seconds.
#[must_use]
pub fn less_margin(limit: Duration) -> Duration {
    limit.saturating_sub((limit / 10).min(MAX_MARGIN))
}

/// Maximum safety margin that is subtracted from a time limit.
const MAX_MARGIN: Duration = Duration::from_secs(10);

/// Environment in which this process performs jobs.
#[derive(Debug)]
pub struct Place {
    /// Folder for the files of jobs and for the run in progress. No other process may use it.
    pub folder: PathBuf,
    /// Memory that a job may use, in bytes.
    pub memory_bytes: u64,
    /// Number of compute threads. If `None`, there is one thread per processor.
    pub threads: Option<u32>,
    /// Source of signed native code for kernels. If `None`, kernels are compiled on this machine.
    pub code: Option<Arc<dyn SignedCode>>,
    /// Cache of the data set of the previous job. The path of a data set contains the digest of its
    /// files, so a changed data set is read again.
    pub published: Published,
}

/// Time and bytes that were needed for the files of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// Seconds until all files of the job were available.
    pub files_seconds: f64,
    /// Size in bytes of the files that were fetched from the store.
    pub files_bytes: u64,
}

/// Function that fetches the object with a given key from the store. Its error is a message for the
/// user.
pub type Fetch<'a> = dyn FnMut(&str) -> std::result::Result<Vec<u8>, String> + 'a;

/// Result of [`perform`], before it is stored.
#[derive(Debug)]
pub struct Performed {
    /// Bundle of the run folder, of the checkpoints if the training paused, or of the requested
    /// predictions.
    pub bytes: Vec<u8>,
    /// Bundle of the predictions in the run folder. `None` if the run folder has none.
    pub predictions: Option<Vec<u8>>,
    /// Position at which the training paused, so that another invocation must continue it. `None`
    /// if the job is complete.
    pub paused: Option<Paused>,
    /// Time and bytes that were needed for the files of the job.
    pub took: Took,
}

/// Performs a job in this process. It fetches the files of the job with `fetch`, trains or
/// predicts, and packs the answer. If `budget` is given, the training pauses before the budget is
/// used up.
///
/// # Errors
/// Returns the errors of [`crate::train`]. Returns [`Error::Job`] if files cannot be fetched, or
/// exceed the memory of the function.
pub fn perform(job: &Job, place: &Place, budget: Option<Budget>, fetch: &mut Fetch<'_>) -> Result<Performed> {
    let begun = Instant::now();
    if let Some(class) = &job.numeric_class {
        eciton_tensor::simd::require(class)?;
    }
    let mut config = Config::parse(&job.recipe, "job")?;
    let mut took = Took::default();
    let kept = place.folder.join("files");
    bundle::keep_only(&kept, job.files.values().filter_map(|carried| bundle::name(&carried.key)))?;
    let mut found = BTreeMap::new();
    for (path, carried) in &job.files {
        let folder = carried.here(&kept, place.memory_bytes, &mut took, fetch)?;
        found.insert(path.clone(), folder.join(&carried.name).display().to_string());
    }
    let move_here = |path: &mut String| {
        if let Some(here) = found.get(path) {
            path.clone_from(here);
        }
    };
    move_here(&mut config.data.source);
    config.paths_mut().for_each(move_here);
    took.files_seconds = begun.elapsed().as_secs_f64();
    let limit = place.memory_bytes.saturating_sub(RESERVED_BYTES);
    config.run.memory_bytes = Some(config.run.memory_bytes.unwrap_or(limit).min(limit));
    config.run.threads = config.run.threads.or(place.threads);
    let run = place.folder.join("run");
    let checkpoints = checkpoint::folder(&run);
    // A failed job may have left these folders.
    [&run, &checkpoints].into_iter().try_for_each(|left| bundle::remove(left))?;
    let options = Options {
        seeds: job.seeds,
        out: Some(run.clone()),
        pause_after: job.pause_after,
        budget,
        cache: place.code.as_ref().map_or(crate::CachePolicy::User, |_| crate::CachePolicy::Off),
        code: place.code.clone(),
        ..Options::default()
    };
    let mut paused = None;
    match &job.predict {
        Some(predict) => {
            let of = found.get(&predict.run).map(PathBuf::from).unwrap_or_default();
            predict.perform(&of, &config, options, &run)?;
        }
        None => {
            let trained = match job.goes_on.as_ref().and_then(|path| found.get(path)) {
                Some(kept) => {
                    let kept = Path::new(kept);
                    move_folder(kept, &checkpoints)?;
                    // The training changes the folder, so it may not remain in the cache of fetched
                    // files.
                    kept.parent().map_or(Ok(()), bundle::remove)?;
                    checkpoint::readdress(&run, |own| settle(own, &config))?;
                    let dataset = place.published.dataset(&config.data)?;
                    resume_on(dataset, &run, false, &options, &mut Silent)
                }
                None => train_on(place.published.dataset(&config.data)?, &config, &options, &mut Silent),
            };
            match trained {
                Ok(summary) if summary.stopped => move_folder(&checkpoints, &run.join(CHECKPOINTS))?,
                Ok(_) => {}
                Err(Error::Paused { seed, epoch, step }) => {
                    paused = Some(Paused { seed, epoch, step });
                    if !config.checkpoint.keep_after {
                        // The next invocation needs only the newest checkpoint.
                        checkpoint::keep_one(&run, config.run.seed, (seed, epoch, step))?;
                    }
                    std::fs::create_dir_all(&run)
                        .map_err(|source| Error::Read { path: run.clone(), source })?;
                    move_folder(&checkpoints, &run.join(CHECKPOINTS))?;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let (bytes, predictions) = match job.predict {
        Some(_) => (pack(&run, "")?, None),
        None => bundle::pack_run(&run)?,
    };
    bundle::remove(&run)?;
    Ok(Performed { bytes, predictions, paused, took })
}

/// Name of the checkpoint folder in the bundle of a paused training.
const CHECKPOINTS: &str = "checkpoints";

/// Moves a folder. An existing folder at `to` is removed first.
fn move_folder(from: &Path, to: &Path) -> Result<()> {
    bundle::remove(to)?;
    std::fs::rename(from, to).map_err(|source| Error::Read { path: from.to_owned(), source })
}

/// Replaces the folder `to` by the folder `from`. If this is interrupted, at least one of the two
/// folders still exists.
fn exchange(from: &Path, to: &Path) -> Result<()> {
    let old = bundle::beside(to, "old");
    if to.is_dir() {
        move_folder(to, &old)?;
    }
    move_folder(from, to)?;
    bundle::remove(&old)
}

/// Replaces the settings in `own` that depend on the machine by those of `here`. They are the
/// paths, the numeric class, and the limits on threads and memory.
fn settle(own: &mut Config, here: &Config) {
    own.data.source.clone_from(&here.data.source);
    own.data.name.clone_from(&here.data.name);
    own.run.numeric_class.clone_from(&here.run.numeric_class);
    (own.run.threads, own.run.memory_bytes) = (here.run.threads, here.run.memory_bytes);
    (own.run.init, own.lanes.profile) = (here.run.init.clone(), here.lanes.profile.clone());
    own.kernels.clone_from(&here.kernels);
    let names: Vec<String> = here.model.own_kernels().map(str::to_owned).collect();
    for (name, path) in names.into_iter().zip(own.model.own_kernels_mut()) {
        *path = name;
    }
}

/// Number of bytes of a function's memory that are reserved for its program and the system.
const RESERVED_BYTES: u64 = 64 << 20;

impl Carried {
    /// Returns the folder with the unpacked files of the object. The object is fetched and verified
    /// unless this folder exists.
    fn here(&self, kept: &Path, memory: u64, took: &mut Took, fetch: &mut Fetch<'_>) -> Result<PathBuf> {
        let refused = |reason: &str| Error::Job(format!("object `{}`: {reason}", self.key));
        let digest =
            bundle::name(&self.key).ok_or_else(|| refused("this is not the name of the files of a job"))?;
        let folder = kept.join(digest);
        if folder.is_dir() {
            return Ok(folder);
        }
        let bytes = fetch(&self.key).map_err(|reason| refused(&reason))?;
        if hex(&Sha256::digest(&bytes)) != digest {
            return Err(refused("the SHA-256 of its content differs from the one in its name"));
        }
        took.files_bytes += bytes.len() as u64;
        unpack(&bytes, &folder, memory)?;
        Ok(folder)
    }
}

/// Checks that a run folder can be created at `out`, before any cost arises. The path must be free
/// and writable, and no checkpoints of another run may be next to it.
///
/// # Errors
/// Returns the errors of [`crate::train`] for a run folder that cannot be created.
pub fn check_vacant(out: &Path) -> Result<()> {
    let folder = run_folder::RunFolder::create(out)?;
    checkpoint::Place::create(folder.target(), out).map(drop)
}

/// Kind of the answer that [`adopt`] has written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    /// The run folder of a training that has ended, or has paused after [`Job::pause_after`].
    Run,
    /// Checkpoints, from which another job must continue the training.
    Link,
}

/// Unpacks the answer of a job. A run folder is written to `folder`, with the paths of this machine
/// in its configuration. Checkpoints of a paused training are written next to it, where they
/// replace older ones.
///
/// `predictions` is the bundle of the run's predictions. If it is `None`, the summary of the run
/// states that the run folder has none.
///
/// # Errors
/// Returns an error if the bundle is damaged or the folder cannot be written.
pub fn adopt(bytes: &[u8], predictions: Option<&[u8]>, folder: &Path, config: &Config) -> Result<Adopted> {
    let beside = bundle::beside(folder, "partial");
    let (place, unpacked) = (checkpoint::folder(folder), checkpoint::folder(&beside));
    // A host that was killed while it adopted an answer may have left these folders.
    [&beside, &unpacked].into_iter().try_for_each(|left| bundle::remove(left))?;
    unpack(bytes, &beside, MAX_RUN_BYTES)?;
    let carried = beside.join(CHECKPOINTS);
    let is_link = !run_folder::is_run(&beside) && carried.is_dir();
    if !is_link {
        let run = run_folder::Run::open(&beside)?;
        let mut own = run.config.clone();
        settle(&mut own, config);
        let mut summary = run.summary;
        match predictions {
            Some(bytes) => bundle::extract(bytes, &beside, MAX_RUN_BYTES)?,
            None => summary.predictions_left_out = !summary.without_predictions,
        }
        run_folder::readdress(&beside, folder, &own, &summary)?;
    }
    if carried.is_dir() {
        move_folder(&carried, &unpacked)?;
        checkpoint::readdress(&beside, |own| settle(own, config))?;
        if is_link {
            // The results of an earlier pause stay until the results of a later pause replace them.
            bundle::remove(&beside)?;
            exchange(&unpacked, &place)?;
            return Ok(Adopted::Link);
        }
        // A host that is killed between these steps can continue from the checkpoints, or start
        // again.
        bundle::remove(folder)?;
        exchange(&unpacked, &place)?;
    } else {
        bundle::remove(folder)?;
        bundle::remove(&place)?;
    }
    std::fs::rename(&beside, folder).map_err(|source| Error::Read { path: folder.to_owned(), source })?;
    Ok(Adopted::Run)
}

/// Maximum size in bytes of a run folder that the host accepts from a function.
pub(crate) const MAX_RUN_BYTES: u64 = 64 << 30;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn job(pause_before_ms: Option<u64>, budget_clock: BudgetClock) -> Job {
        let mut files = Files::default();
        let job = Job::train(&Config::default(), (1, Part::default()), None, &mut files).unwrap();
        Job { pause_before_ms, budget_clock, ..job }
    }

    #[test]
    fn the_time_of_an_invocation_is_part_of_the_event_and_not_of_the_name() {
        let (without, with) = (job(None, BudgetClock::Real), job(Some(2700), BudgetClock::Real));
        assert_eq!(without.answer, with.answer);
        let clock = BudgetClock::Processor { share: 0.5 };
        for job in [without, with, job(Some(2700), clock)] {
            let event = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&event).unwrap(), job, "{event}");
        }
    }

    #[test]
    fn a_budget_ends_before_the_service_ends_the_function() {
        let now = Instant::now();
        let limit = |job: &Job, remaining: Option<u64>| {
            let remaining = remaining.map(Duration::from_millis);
            job.budget(now, remaining).unwrap().map(|budget| budget.limit().as_millis())
        };
        let real = job(Some(2700), BudgetClock::Real);
        assert_eq!(limit(&real, None), Some(2700));
        assert_eq!(limit(&real, Some(3000)), Some(2700));
        // The service reports a lower limit than the host set.
        assert_eq!(limit(&real, Some(1000)), Some(900));
        assert_eq!(limit(&job(None, BudgetClock::Real), Some(1000)), None);
        assert_eq!(less_margin(Duration::from_secs(900)), Duration::from_secs(890));
        for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = job(Some(1), BudgetClock::Processor { share }).budget(now, None);
            assert!(refused.unwrap_err().to_string().contains("share of a processor"), "{share}");
        }
    }
}
