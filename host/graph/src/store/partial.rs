//! Temporary folder of a store that is being written. It is renamed when the store is complete.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Name of the lock file, which shows that a process is writing the store.
const LOCK: &str = "writing";

/// Temporary folder `.NAME.partial-store` next to the final path of a store. It is removed with its
/// content when this value is dropped, unless [`Partial::rename`] has renamed it.
pub(super) struct Partial {
    out: PathBuf,
    folder: PathBuf,
    /// Lock file, which is locked while the store is written. It is `None` after the folder has
    /// been renamed or removed.
    lock: Option<File>,
}

impl Partial {
    /// Creates the temporary folder for a store at `out`. A folder that a killed process has left
    /// is reused.
    pub(super) fn create(out: &Path) -> Result<Self> {
        let Some(name) = out.file_name() else {
            let problem = "is not the name of a folder; give the name of the folder to write";
            return Err(Error::Exists { path: out.to_owned(), problem });
        };
        vacant(out)?;
        let partial = format!(".{}.partial-store", name.to_string_lossy());
        let folder = out.with_file_name(partial);
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        fs::create_dir_all(&folder).map_err(refused(&folder))?;
        let path = folder.join(LOCK);
        let new = !path.exists();
        // Only a folder that is empty or has the lock file may be cleared.
        if new && fs::read_dir(&folder).map_err(refused(&folder))?.next().is_some() {
            let problem = "exists, but is needed as a temporary folder; move or remove it";
            return Err(Error::Exists { path: folder, problem });
        }
        let lock = File::create(&path).map_err(refused(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let problem =
                    "another process is writing this store; wait until it ends, or choose another name";
                return Err(Error::Exists { path: folder, problem });
            }
            // If the file system has no locks, the last writer wins.
            Err(TryLockError::Error(_)) => {}
        }
        let made = Self { out: out.to_owned(), folder, lock: Some(lock) };
        for entry in fs::read_dir(&made.folder).map_err(refused(&made.folder))? {
            let path = entry.map_err(refused(&made.folder))?.path();
            if path.file_name().is_some_and(|name| name != LOCK) {
                fs::remove_file(&path).map_err(refused(&path))?;
            }
        }
        Ok(made)
    }

    /// Returns the path of the temporary folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renames the folder to the final path of the store.
    pub(super) fn rename(mut self) -> Result<()> {
        vacant(&self.out)?;
        let path = self.folder.join(LOCK);
        self.lock = None;
        let renamed = fs::remove_file(&path).and_then(|()| fs::rename(&self.folder, &self.out));
        renamed.map_err(|source| {
            let _ = fs::remove_dir_all(&self.folder);
            Error::Write { path: self.out.clone(), source }
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            // The error is ignored. The next writer clears the folder.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn vacant(out: &Path) -> Result<()> {
    match out.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => {
            let problem = "exists already; remove it or choose another name";
            Err(Error::Exists { path: out.to_owned(), problem })
        }
        Err(source) => Err(Error::Read { path: out.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_writer_and_nothing_left() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a.b");
        let partial = Partial::create(&out).unwrap();
        assert_eq!(partial.folder(), folder.path().join(".a.b.partial-store"));
        let text = Partial::create(&out).err().unwrap().to_string();
        assert!(text.contains("another process is writing"), "{text}");
        fs::write(partial.folder().join("x"), "1").unwrap();
        drop(partial);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        Partial::create(&out).unwrap().rename().unwrap();
        assert!(out.is_dir());
        let text = Partial::create(&out).err().unwrap().to_string();
        assert!(text.contains("exists already"), "{text}");
    }

    #[test]
    fn what_a_killed_writer_left_is_cleared_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".out.partial-store");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("mine"), "1").unwrap();
        let text = Partial::create(&folder.path().join("out")).err().unwrap().to_string();
        assert!(text.contains(".out.partial-store: exists, but is needed"), "{text}");
        fs::write(left.join(LOCK), "").unwrap();
        let partial = Partial::create(&folder.path().join("out")).unwrap();
        assert!(!left.join("mine").exists());
        drop(partial);
        assert!(!left.exists());
    }
}
