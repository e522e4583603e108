//! The folder of a run's checkpoints. Only one process at a time works in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use eciton_recipe::Config;
use eciton_runs::durable::{TEMPORARY, sync_folder};
use eciton_runs::run_folder::{self, MAX_RECORD_BYTES, Versions, parse, read, reading, writing};

use super::{CONFIG, METRICS, RUN, RunRecord, SEEDS, VERSIONS};
use crate::error::{Error, Result};

const LOCK: &str = "lock";
/// Maximum number of attempts to take a lock, because another process may remove the lock file in
/// the meantime.
const TRIES: usize = 100;
/// Maximum number of files that are listed in a checkpoint folder.
const MAX_FILES: usize = 1 << 17;

/// Returns the path of the checkpoint folder of the run whose folder is, or will be, `run`.
#[must_use]
pub fn folder(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push(".checkpoint");
    run.with_file_name(name)
}

/// Returns true if the checkpoint folder of `run` contains a checkpoint from which the run might
/// resume.
#[must_use]
pub fn is_resumable(run: &Path) -> bool {
    let any =
        |names: Vec<String>| names.iter().any(|name| Named::parse(name).is_some_and(|n| n.epoch.is_some()));
    names(&folder(run)).is_ok_and(any)
}

/// Returns the numeric class of the checkpoints next to a run's folder. Returns `None` if there are
/// no checkpoints, or if their record is missing or damaged.
pub(crate) fn numeric_class(run: &Path) -> Option<String> {
    let path = folder(run).join(VERSIONS);
    let versions: Versions = parse(&read(&path, MAX_RECORD_BYTES).ok()?, &path).ok()?;
    Some(versions.numeric_class)
}

/// Reads the records of the checkpoints next to the run folder `run`. Returns the SHA-256 of the
/// settings that the user requested, and the configuration. The former is empty for checkpoints of
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

/// Removes the checkpoints next to the run folder `run`, except the checkpoint of one seed and
/// epoch. The final models of finished seeds stay.
///
/// # Errors
/// Returns an error if the operating system refuses to read the folder or to remove a file.
pub(crate) fn keep_one(run: &Path, first_seed: u64, (seed, epoch): (u64, u32)) -> Result<()> {
    let Some(place) = Place::open(run, run)? else { return Ok(()) };
    let kept = Named { seed: (seed != first_seed).then_some(seed), epoch: Some(epoch) };
    let others = |named: &Named| named.epoch.is_some() && *named != kept;
    place.points()?.into_iter().filter(others).try_for_each(|named| place.remove(named))
}

/// Removes a checkpoint folder that contains only a lock. A process that exits at once leaves such
/// a folder.
pub fn discard_empty(run: &Path) {
    let path = folder(run);
    let only = |names: Vec<String>| names.iter().all(|name| name == LOCK);
    if names(&path).is_ok_and(only) {
        let _ = fs::remove_file(path.join(LOCK));
        let _ = fs::remove_dir(path);
    }
}

/// Name of a file in the checkpoint folder: a checkpoint, or the final model of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// Seed, or `None` for the first seed of the run.
    pub seed: Option<u64>,
    /// Epoch, or `None` for the final model.
    pub epoch: Option<u32>,
}

impl Named {
    /// Returns the file name, such as `seed-1-epoch-000006.safetensors`.
    pub(super) fn file(self) -> String {
        let seed = self.seed.map_or_else(String::new, |seed| format!("seed-{seed}-"));
        match self.epoch {
            Some(epoch) => format!("{seed}epoch-{epoch:06}.safetensors"),
            None => format!("{seed}final.safetensors"),
        }
    }

    /// Parses a file name that [`Named::file`] returns. Returns `None` for any other name.
    pub(super) fn parse(file: &str) -> Option<Self> {
        let stem = file.strip_suffix(".safetensors")?;
        let (seed, rest) = match stem.strip_prefix("seed-") {
            Some(rest) => {
                let (seed, rest) = rest.split_once('-')?;
                (Some(seed.parse().ok()?), rest)
            }
            None => (None, stem),
        };
        let epoch = match rest.strip_prefix("epoch-") {
            Some(epoch) => Some(epoch.parse().ok()?),
            None => (rest == "final").then_some(None)?,
        };
        let named = Self { seed, epoch };
        (named.file() == file).then_some(named)
    }
}

/// Locked checkpoint folder of a run. On drop, the lock is released, and the folder is removed
/// unless it contains checkpoints.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Lock file. The open file holds the lock.
    _lock: File,
    /// False if the file system does not support locks.
    locked: bool,
    keep: bool,
}

impl Place {
    /// Creates and locks the checkpoint folder of a new run. If a killed process left a folder
    /// without a checkpoint, that folder is reused.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process uses the folder. [`Error::Unfinished`] if it contains
    /// checkpoints.
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

    /// Locks the checkpoint folder of a run to resume. Returns `None` if the folder does not exist.
    pub(crate) fn open(run: &Path, shown: &Path) -> Result<Option<Self>> {
        if !folder(run).is_dir() {
            return Ok(None);
        }
        let mut place = Self::lock(run, shown, false)?;
        place.keep = true;
        Ok(Some(place))
    }

    /// Locks the checkpoint folder of `run`. If `make` is set, creates the folder if it does not
    /// exist.
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

    /// Marks that the folder contains checkpoints, so that drop does not remove it.
    pub(super) fn keep(&mut self) {
        self.keep = true;
    }

    /// Removes the unfinished folders that killed processes of this run left next to `run`. The
    /// processes are not running, because this process holds the lock. `own` is the name of this
    /// process's unfinished folder, which stays.
    pub(crate) fn remove_debris(&self, run: &Path, own: Option<&str>) {
        let parent = run.parent().unwrap_or(Path::new("."));
        let Some(name) = run.file_name().filter(|_| self.locked) else { return };
        for other in names(parent).unwrap_or_default() {
            if Some(other.as_str()) != own && run_folder::is_partial(&other, &name.to_string_lossy()) {
                let _ = fs::remove_dir_all(parent.join(other));
            }
        }
    }

    /// Returns the names of all checkpoints and final models in the folder.
    pub(super) fn points(&self) -> Result<Vec<Named>> {
        Ok(names(&self.path)?.iter().filter_map(|name| Named::parse(name)).collect())
    }

    /// Removes a file if it exists.
    pub(super) fn remove(&self, named: Named) -> Result<()> {
        let path = self.path.join(named.file());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(&path)(error).into()),
            _ => Ok(()),
        }
    }

    /// Syncs the folder to disk, so that removals survive a power loss.
    pub(super) fn sync(&self) -> Result<()> {
        Ok(sync_folder(&self.path).map_err(writing(&self.path))?)
    }

    /// Removes all files that Eciton has written to the folder, except the lock file.
    fn clear(&self) -> Result<()> {
        for name in names(&self.path)? {
            let own = [CONFIG, VERSIONS, RUN, METRICS, SEEDS].contains(&name.as_str());
            if own || Named::parse(&name).is_some() || name.ends_with(TEMPORARY) {
                let _ = fs::remove_file(self.path.join(name));
            }
        }
        Ok(())
    }

    /// Returns true if the checkpoints belong to the finished run in `run`: their settings are the
    /// same, apart from comments.
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

    /// Finishes the run: releases the lock, and removes the folder unless `keep_after` is set.
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

/// Returns the names of the entries of a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(reading(folder))?.take(MAX_FILES) {
        names.push(entry.map_err(reading(folder))?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Returns true if an open file is still the one at `path`.
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
