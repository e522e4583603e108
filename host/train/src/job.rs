//! A whole run as one task: what a function is told, what it does, and what it answers.
//!
//! ```text
//! here                            store                          function
//! files of the recipe's paths ──> runs/files/{sha256}.zip ─────> kept under their digest
//! job (recipe, files) ─────────────────────────────────────────> train
//! run folder <─────────────────── runs/jobs/{sha256}.zip <────── run folder, if none is there
//! ```
//! An answer's name follows from the job alone, and the first that is written stays: a job that is done
//! again costs a look at the store. A bundle is a zip archive without compression, entries by name.

mod bundle;
mod predicting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use eciton_plan::{Config, ExecutorKind};
use eciton_transport::Counts;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::checkpoint;
use crate::data;
use crate::error::{Error, Result};
use crate::kernels::{SignedCode, builtin};
use crate::published::Published;
use crate::report::Silent;
use crate::resume::resume_on;
use crate::run_folder::{self, json};
use crate::session::Options;
use crate::train::train_on;

pub use bundle::{pack, unpack};
pub use eciton_exec::trainers::{FILES, JOBS};
pub use predicting::{Predicting, evaluation, predictions};

/// Version of the event.
pub const VERSION: u32 = 1;
/// Files of one path of a recipe, as an object of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// `runs/files/{sha256}.zip`
    pub key: String,
    /// The file or folder within.
    pub name: String,
}

/// The event of a function that trains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`VERSION`].
    pub version: u32,
    /// The configuration, TOML. Its paths are names of `files`.
    pub recipe: String,
    /// How many seeds.
    pub seeds: u32,
    /// By the path that the recipe has.
    pub files: BTreeMap<String, Carried>,
    /// What is to be predicted; `None`: the recipe is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict: Option<Predicting>,
    /// The epoch after which the run pauses; `None`: it is trained to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after: Option<u32>,
    /// The checkpoints that the run goes on from, a name of the job's files; `None`: it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on: Option<String>,
    /// The class of the machine that must do it; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// `runs/jobs/{sha256}.zip`, where the run folder goes.
    pub answer: String,
}

/// What the function answers; the run folder lies in the store.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Whether the answer was there already.
    pub found: bool,
    /// From the event to the answer.
    pub seconds: f64,
    /// Of these, until the job's files were there.
    pub files_seconds: f64,
    /// Bytes of files that were fetched; 0: all were warm.
    pub files_bytes: u64,
    /// The process's peak resident memory.
    pub peak_memory_bytes: u64,
    /// Jobs that the process had done before.
    pub before: u64,
    /// Requests to the store, and bytes, until the answer was there.
    #[serde(default)]
    pub store: Counts,
}

/// A file or folder that a job needs, in memory until it is stored.
#[derive(Debug, Clone)]
pub struct File {
    /// Its object.
    pub carried: Carried,
    /// What lies there.
    pub bytes: Vec<u8>,
}

/// Files by the path that a recipe has, each read once for all jobs.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<PathBuf, File>);

impl Files {
    /// All of them, to be stored.
    pub fn take(self) -> impl Iterator<Item = File> {
        self.0.into_values()
    }

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

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a job's name is made of.
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

/// The part of a run that one job is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Part<'a> {
    /// The epoch after which the run pauses; `None`: it is trained to its end.
    pub pause_after: Option<u32>,
    /// The run folder, finished or not, from whose checkpoints it goes on; `None`: it begins.
    pub goes_on: Option<&'a Path>,
}

/// What a job does besides reading its recipe.
struct Work<'a> {
    seeds: u32,
    predict: Option<Predicting>,
    part: Part<'a>,
}

impl Job {
    /// The job that a configuration is, wherever its tasks would run. Its files are read into `files`.
    ///
    /// # Errors
    /// Data or files that are not there; a configuration that no recipe can hold.
    pub fn of(
        config: &Config,
        (seeds, part): (u32, Part<'_>),
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<Self> {
        Self::named(config, Work { seeds, predict: None, part }, numeric_class, files)
    }

    fn named(
        config: &Config,
        Work { seeds, predict, part }: Work<'_>,
        numeric_class: Option<&str>,
        files: &mut Files,
    ) -> Result<Self> {
        let mut config = config.clone();
        config.run_on(ExecutorKind::Local);
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
        // The class is the job's, so that a run folder is as that of a run here.
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
        let pause_after = part.pause_after;
        let recipe = config.to_toml()?;
        let kernels = builtin().iter().map(|kernel| hex(&Sha256::digest(kernel.component))).collect();
        let eciton = env!("CARGO_PKG_VERSION");
        let of = Named {
            version: VERSION,
            eciton,
            kernels,
            recipe: &recipe,
            seeds,
            files: &named,
            predict: predict.as_ref(),
            pause_after,
            numeric_class,
        };
        let text = json(&of, Path::new("job"))?;
        let answer = format!("{JOBS}{}.zip", hex(&Sha256::digest(&text)));
        let numeric_class = numeric_class.map(str::to_owned);
        let version = VERSION;
        Ok(Self {
            version,
            recipe,
            seeds,
            files: named,
            predict,
            pause_after,
            goes_on,
            numeric_class,
            answer,
        })
    }
}

/// Where a function does jobs.
#[derive(Debug)]
pub struct Place {
    /// Its own folder, for files and for the run on its way.
    pub folder: PathBuf,
    /// The function's memory.
    pub memory_bytes: u64,
    /// Kernels' code.
    pub code: Arc<dyn SignedCode>,
    /// The data set of the job before: its path has the digest of its files.
    pub published: Published,
}

/// How a job went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// Until its files were there.
    pub files_seconds: f64,
    /// Bytes that were fetched.
    pub files_bytes: u64,
}

/// Gets an object of the store; an error is words.
pub type Fetch<'a> = dyn FnMut(&str) -> std::result::Result<Vec<u8>, String> + 'a;

/// Does a job. Returns the bundle of its run folder, or of what it predicts.
///
/// # Errors
/// All of [`crate::train`]; [`Error::Job`] for files that cannot be had or do not fit the function.
pub fn perform(job: &Job, place: &Place, fetch: &mut Fetch<'_>) -> Result<(Vec<u8>, Took)> {
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
    let memory_mb = u32::try_from(place.memory_bytes >> 20).unwrap_or(u32::MAX);
    config.run.threads = config.run.threads.or(Some(eciton_plan::cloud::threads(memory_mb)));
    let run = place.folder.join("run");
    let checkpoints = checkpoint::folder(&run);
    // What a job before left that failed.
    [&run, &checkpoints].into_iter().try_for_each(|left| bundle::remove(left))?;
    let options = Options {
        seeds: job.seeds,
        out: Some(run.clone()),
        pause_after: job.pause_after,
        cache: crate::CachePolicy::Off,
        code: Some(place.code.clone()),
        ..Options::default()
    };
    match &job.predict {
        Some(predict) => {
            let of = found.get(&predict.run).map(PathBuf::from).unwrap_or_default();
            predict.perform(&of, &config, options, &run)?;
        }
        None => {
            let summary = match job.goes_on.as_ref().and_then(|path| found.get(path)) {
                Some(kept) => {
                    let kept = Path::new(kept);
                    move_folder(kept, &checkpoints)?;
                    // Moved and not copied: the folder that is left is no longer the object's.
                    kept.parent().map_or(Ok(()), bundle::remove)?;
                    checkpoint::readdress(&run, |own| settle(own, &config))?;
                    let dataset = place.published.of(&config.data)?;
                    resume_on(dataset, &run, false, &options, &mut Silent)?
                }
                None => train_on(place.published.of(&config.data)?, &config, &options, &mut Silent)?,
            };
            if summary.stopped {
                move_folder(&checkpoints, &run.join(CHECKPOINTS))?;
            }
        }
    }
    let bytes = pack(&run, "")?;
    bundle::remove(&run)?;
    Ok((bytes, took))
}

/// In the bundle of a run that paused, its checkpoints.
const CHECKPOINTS: &str = "checkpoints";

fn move_folder(from: &Path, to: &Path) -> Result<()> {
    bundle::remove(to)?;
    std::fs::rename(from, to).map_err(|source| Error::Read { path: from.to_owned(), source })
}

/// Gives a configuration that comes from another machine the paths and sizes of this one's, `here`.
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

/// Of a function's memory, what its program and the system take.
const RESERVED_BYTES: u64 = 64 << 20;

impl Carried {
    /// The folder of these files, fetched unless it is there.
    fn here(&self, kept: &Path, memory: u64, took: &mut Took, fetch: &mut Fetch<'_>) -> Result<PathBuf> {
        let refused = |reason: &str| Error::Job(format!("object `{}`: {reason}", self.key));
        let digest = bundle::name(&self.key).ok_or_else(|| refused("no name of a job's files"))?;
        let folder = kept.join(digest);
        if folder.is_dir() {
            return Ok(folder);
        }
        let bytes = fetch(&self.key).map_err(|reason| refused(&reason))?;
        if hex(&Sha256::digest(&bytes)) != digest {
            return Err(refused("its bytes are not those that its name says"));
        }
        took.files_bytes += bytes.len() as u64;
        unpack(&bytes, &folder, memory)?;
        Ok(folder)
    }
}

/// Refuses a place for a run folder where something is, that cannot be written, or beside which the checkpoints of
/// another run are: before anything is paid for.
///
/// # Errors
/// As [`crate::train`], for its folder.
pub fn check_vacant(out: &Path) -> Result<()> {
    let folder = run_folder::RunFolder::create(out)?;
    checkpoint::Place::create(folder.target(), out).map(drop)
}

/// Makes the run folder of a job's answer, under the paths that are this machine's own; of a run that paused, the
/// checkpoints beside it too. They take the place of those that are there.
///
/// # Errors
/// A damaged bundle; a folder that cannot be written.
pub fn adopt(bytes: &[u8], folder: &Path, config: &Config) -> Result<()> {
    let beside = bundle::beside(folder, "partial");
    bundle::remove(&beside)?;
    unpack(bytes, &beside, MAX_RUN_BYTES)?;
    let run = run_folder::Run::open(&beside)?;
    let mut own = run.config.clone();
    settle(&mut own, config);
    run_folder::readdress(&beside, folder, &own, &run.summary)?;
    let (carried, place) = (beside.join(CHECKPOINTS), checkpoint::folder(folder));
    if carried.is_dir() {
        let unpacked = checkpoint::folder(&beside);
        move_folder(&carried, &unpacked)?;
        checkpoint::readdress(&beside, |own| settle(own, config))?;
        // Killed between these, a run goes on from its checkpoints, or begins.
        bundle::remove(folder)?;
        move_folder(&unpacked, &place)?;
    } else if place.is_dir() {
        bundle::remove(folder)?;
        bundle::remove(&place)?;
    }
    std::fs::rename(&beside, folder).map_err(|source| Error::Read { path: folder.to_owned(), source })
}

/// Largest run folder that is taken, bytes.
const MAX_RUN_BYTES: u64 = 64 << 30;
