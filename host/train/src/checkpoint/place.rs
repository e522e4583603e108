//! The checkpoint folder of a run, in which only one process works at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use eciton_recipe::Config;
use eciton_runs::durable::{TEMPORARY, sync_folder};
use eciton_runs::run_folder::{self, MAX_RECORD_BYTES, Versions, parse, read, reading, writing};

use super::{CONFIG, METRICS, RUN, RunRecord, SEEDS, VERSIONS};
use crate::error::{Error, Result};

const LOCK: &str = "lock";
/// Maximum number of attempts to lock a folder. An attempt fails if another process removes the
/// lock file at the same time.
const TRIES: usize = 100;
/// Maximum number of directory entries that are read from a checkpoint folder.
const MAX_FILES: usize = 1 << 17;

/// Returns the path of the checkpoint folder for the run folder `run`, for instance
/// `runs/first.checkpoint`.
#[must_use]
pub fn folder(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push(".checkpoint");
    run.with_file_name(name)
}

/// Returns true if the checkpoint folder of `run` contains a checkpoint. The checkpoint may be
/// damaged.
#[must_use]
pub fn is_resumable(run: &Path) -> bool {
    let any =
        |names: Vec<String>| names.iter().any(|name| Named::parse(name).is_some_and(|n| n.epoch.is_some()));
    names(&folder(run)).is_ok_and(any)
}

/// Returns the numeric class (set of processors with the same arithmetic) that the checkpoints of
/// `run` record. Returns `None` if there are no checkpoints, or if their record is missing or
/// damaged.
pub(crate) fn numeric_class(run: &Path) -> Option<String> {
    let path = folder(run).join(VERSIONS);
    let versions: Versions = parse(&read(&path, MAX_RECORD_BYTES).ok()?, &path).ok()?;
    Some(versions.numeric_class)
}

/// Reads the settings that the checkpoints of `run` record. Returns the SHA-256 of the settings
/// that the user requested, and the resolved configuration. The SHA-256 is empty for checkpoints of
/// Eciton 0.1.0.
///
/// # Errors
/// Returns an error if the records are missing or damaged.
pub(crate) fn settings(run: &Path) -> Result<(String, Config)> {
    let place = folder(run);
    let path = place.join(RUN);
    let record: RunRecord = parse(&read(&path, MAX_RECORD_BYTES)?, &path)?;
    let path = place.join(CONFIG);
    let text = read(&path, MAX_RECORD_BYTES)?;
    let text = std::str::from_utf8(&text)
        .map_err(|error| run_folder::malformed(&path, "UTF-8 text", &error.to_string()))?;
    Ok((record.recipe, Config::parse(text, &path.display().to_string())?))
}

/// Removes all checkpoints of `run` except the one of `seed` at the end of `epoch`, or at `step`
/// within the next epoch. Final models of finished seeds are not removed.
///
/// # Errors
/// Returns an error if the operating system refuses to read the folder or to remove a file.
pub(crate) fn keep_one(
    run: &Path,
    first_seed: u64,
    (seed, epoch, step): (u64, u32, Option<u32>),
) -> Result<()> {
    let Some(place) = Place::open(run, run)? else { return Ok(()) };
    let kept = Named { seed: (seed != first_seed).then_some(seed), epoch: Some(epoch), step };
    let others = |named: &Named| named.epoch.is_some() && *named != kept;
    place.points()?.into_iter().filter(others).try_for_each(|named| place.remove(named))
}

/// Removes the checkpoint folder of `run` if it contains only the lock file. A process that is
/// stopped early leaves such a folder.
pub fn discard_empty(run: &Path) {
    let path = folder(run);
    let only = |names: Vec<String>| names.iter().all(|name| name == LOCK);
    if names(&path).is_ok_and(only) {
        let _ = fs::remove_file(path.join(LOCK));
        let _ = fs::remove_dir(path);
    }
}

/// Parsed name of a file in the checkpoint folder, which is a checkpoint or the final model of a
/// seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// Random seed. `None` stands for the first seed of the run.
    pub seed: Option<u64>,
    /// Last finished epoch of the checkpoint. `None` stands for the final model of the seed.
    pub epoch: Option<u32>,
    /// Step of a checkpoint within an epoch. `None` stands for the end of the epoch.
    pub step: Option<u32>,
}

impl Named {
    /// Returns the file name, for instance `seed-1-epoch-000006.safetensors`.
    pub(super) fn file(self) -> String {
        let seed = self.seed.map_or_else(String::new, |seed| format!("seed-{seed}-"));
        match (self.epoch, self.step) {
            (Some(epoch), None) => format!("{seed}epoch-{epoch:06}.safetensors"),
            (Some(epoch), Some(step)) => format!("{seed}epoch-{epoch:06}-step-{step:08}.safetensors"),
            (None, _) => format!("{seed}final.safetensors"),
        }
    }

    /// Parses a file name of the form that [`Named::file`] returns. Returns `None` for any other
    /// name.
    pub(super) fn parse(file: &str) -> Option<Self> {
        let stem = file.strip_suffix(".safetensors")?;
        let (seed, rest) = match stem.strip_prefix("seed-") {
            Some(rest) => {
                let (seed, rest) = rest.split_once('-')?;
                (Some(seed.parse().ok()?), rest)
            }
            None => (None, stem),
        };
        let (rest, step) = match rest.split_once("-step-") {
            Some((rest, step)) => (rest, Some(step.parse().ok()?)),
            None => (rest, None),
        };
        let epoch = match rest.strip_prefix("epoch-") {
            Some(epoch) => Some(epoch.parse().ok()?),
            None => (rest == "final").then_some(None)?,
        };
        let named = Self { seed, epoch, step };
        (named.file() == file).then_some(named)
    }
}

/// The locked checkpoint folder of a run. On drop, the lock is released, and the folder is removed
/// unless it contains checkpoints.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Open lock file. The lock is held while this file is open.
    _lock: File,
    /// True if the folder is locked. False if the file system does not support locks.
    locked: bool,
    keep: bool,
}

impl Place {
    /// Creates and locks the checkpoint folder of a new run. A folder that a killed process left
    /// without a checkpoint is reused. `shown` is the path `run` as the user gave it.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] while another process uses the folder. Returns [`Error::Unfinished`]
    /// if it contains checkpoints.
    pub(crate) fn create(run: &Path, shown: &Path) -> Result<Self> {
        let mut place = Self::lock(run, shown, true)?;
        if let Some(newest) = place.points()?.iter().filter_map(|named| named.epoch).max() {
            place.keep = true;
            let (run, place) = (shown.to_owned(), folder(shown));
            return Err(Error::Unfinished { run, place, epoch: newest });
        }
        place.clear()?;
        Ok(place)
    }

    /// Locks the existing checkpoint folder of a run that is to be resumed. Returns `None` if there
    /// is no such folder.
    pub(crate) fn open(run: &Path, shown: &Path) -> Result<Option<Self>> {
        if !folder(run).is_dir() {
            return Ok(None);
        }
        let mut place = Self::lock(run, shown, false)?;
        place.keep = true;
        Ok(Some(place))
    }

    /// Opens the existing checkpoint folder of a run without a lock, for a host that only reads it.
    /// Host 0 of the run has the lock. Returns `None` if there is no such folder.
    pub(crate) fn read_only(run: &Path) -> Result<Option<Self>> {
        let path = folder(run);
        if !path.is_dir() {
            return Ok(None);
        }
        let file = path.join(RUN);
        let _lock = File::open(&file).map_err(reading(&file))?;
        Ok(Some(Self { path, _lock, locked: false, keep: true }))
    }

    /// Locks the checkpoint folder of `run`. If `make` is true, a missing folder is created.
    fn lock(run: &Path, shown: &Path, make: bool) -> Result<Self> {
        let path = folder(run);
        let file = path.join(LOCK);
        let refuse = |error| Error::from(writing(&folder(shown))(error));
        let _held = run_folder::hold_folders();
        for _ in 0..TRIES {
            match fs::create_dir(&path) {
                Err(error) if make && error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(refuse(error));
                }
                _ => {}
            }
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file);
            let lock = match opened {
                // Another process has just removed the folder.
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(refuse)?,
            };
            let locked = match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { run: shown.to_owned() }),
                // The file system has no locks, so the user must prevent concurrent runs.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => false,
                Err(TryLockError::Error(error)) => return Err(refuse(error)),
            };
            // Another process may have removed the lock file between the opening and the locking.
            if is_same(&lock, &file) {
                return Ok(Self { path, _lock: lock, locked, keep: false });
            }
        }
        Err(Error::Busy { run: shown.to_owned() })
    }

    /// Returns the path of the checkpoint folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the folder as containing checkpoints, so that dropping this value does not remove it.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }

    /// Removes the temporary run folders that killed processes of this run left next to `run`. They
    /// cannot be in use, because this process holds the lock. `own` is the name of this process's
    /// temporary folder, which stays.
    pub(crate) fn remove_debris(&self, run: &Path, own: Option<&str>) {
        let parent = run.parent().unwrap_or(Path::new("."));
        let Some(name) = run.file_name().filter(|_| self.locked) else { return };
        for other in names(parent).unwrap_or_default() {
            if Some(other.as_str()) != own && run_folder::is_partial(&other, &name.to_string_lossy()) {
                let _ = fs::remove_dir_all(parent.join(other));
            }
        }
    }

    /// Returns the names of all checkpoints and final models in the folder, in any order.
    pub(super) fn points(&self) -> Result<Vec<Named>> {
        Ok(names(&self.path)?.iter().filter_map(|name| Named::parse(name)).collect())
    }

    /// Removes a checkpoint or final model. A missing file is no error.
    pub(super) fn remove(&self, named: Named) -> Result<()> {
        let path = self.path.join(named.file());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(&path)(error).into()),
            _ => Ok(()),
        }
    }

    /// Syncs the entries of the folder to disk, so that removals survive a power failure.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(sync_folder(&self.path).map_err(writing(&self.path))?)
    }

    /// Removes all files that Eciton writes to the folder, except the lock file.
    fn clear(&self) -> Result<()> {
        for name in names(&self.path)? {
            let own = [CONFIG, VERSIONS, RUN, METRICS, SEEDS].contains(&name.as_str());
            if own || Named::parse(&name).is_some() || name.ends_with(TEMPORARY) {
                let _ = fs::remove_file(self.path.join(name));
            }
        }
        Ok(())
    }

    /// Returns true if the checkpoints belong to the finished run in the folder `run`, which means
    /// that both have the same settings.
    pub(crate) fn is_of(&self, run: &Path) -> Result<bool> {
        let own = self.path.join(CONFIG);
        if !own.exists() {
            return Ok(true);
        }
        let path = run.join(CONFIG);
        let (own, other) = (read(&own, MAX_RECORD_BYTES)?, read(&path, MAX_RECORD_BYTES)?);
        let settings = |bytes: &[u8]| Config::parse(std::str::from_utf8(bytes).ok()?, CONFIG).ok();
        Ok(own == other || settings(&own).is_some_and(|own| Some(own) == settings(&other)))
    }

    /// Ends the use of the folder after the run is finished. The folder is removed unless
    /// `keep_after` is true.
    pub(crate) fn finish(mut self, keep_after: bool) {
        self.keep &= keep_after;
        if keep_after {
            let _ = fs::remove_file(self.path.join(LOCK));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            let _ = self.clear();
            // The lock is removed last, while it is held. A process that waits for it creates a new
            // one.
            let _ = fs::remove_file(self.path.join(LOCK));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Returns the names of all entries of a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(reading(folder))?.take(MAX_FILES) {
        names.push(entry.map_err(reading(folder))?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Returns true if `path` still refers to the open file `file`.
fn is_same(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(one), Ok(other)) = (file.metadata(), path.metadata()) else { return false };
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}
