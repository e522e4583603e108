//! Temporary folders that are deleted even if their process was killed.
//!
//! A killed process cannot delete its folders. Each folder therefore contains a file that its
//! process locks. A later process deletes all folders whose file is not locked.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the folder names.
const PREFIX: &str = "eciton-scratch-";
/// Name of the file in a folder that its process locks.
const LOCK: &str = "lock";
/// Minimum age of a folder without a lock before it is deleted. A new folder has no lock for a
/// moment.
const GRACE: Duration = Duration::from_secs(60);

/// Temporary folder that is deleted when this value is dropped. If the process is killed, a later
/// process deletes the folder.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates an empty temporary folder. Also deletes the folders of this user that killed
    /// processes left behind.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the system's folder for temporary files is not writable.
    pub fn new() -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        lock.lock()?;
        let owner = folder.path().metadata()?.uid();
        for entry in parent.read_dir()?.flatten() {
            if entry.path() != folder.path() && is_left_behind(&entry.path(), owner) {
                // If the folder cannot be removed, the next process tries again.
                drop(std::fs::remove_dir_all(entry.path()));
            }
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Returns the path of the subfolder `name`, and creates the subfolder if necessary.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the subfolder cannot be created.
    pub fn path(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// Returns true if `path` is a temporary folder of the user `owner` whose process has ended.
fn is_left_behind(path: &Path, owner: u32) -> bool {
    let named = path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(PREFIX));
    // Links are not followed.
    let Some(metadata) = named.then(|| path.symlink_metadata().ok()).flatten() else { return false };
    if !metadata.is_dir() || metadata.uid() != owner {
        return false;
    }
    match eciton_input::file::open(&path.join(LOCK)) {
        Ok(lock) => is_old(&metadata) && lock.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound && is_old(&metadata),
    }
}

fn is_old(metadata: &std::fs::Metadata) -> bool {
    metadata.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > GRACE))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn age(path: &Path) {
        let time = std::time::SystemTime::now() - 2 * GRACE;
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: bool, old: bool| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("secret"), "").unwrap();
            if lock {
                std::fs::write(path.join(LOCK), "").unwrap();
            }
            if old {
                age(&path);
            }
            path
        };
        let used = Scratch::new_in(parent.path()).unwrap();
        age(used.folder.path());
        let killed = make("eciton-scratch-killed", true, true);
        let early = make("eciton-scratch-early", false, true);
        let stays = [
            make("eciton-scratch-new", true, false),
            make("eciton-scratch-starts", false, false),
            make("eciton-other", true, true),
            make(".tmpother", true, true),
        ];
        let elsewhere = make("elsewhere", true, true);
        let link = parent.path().join("eciton-scratch-link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let next = Scratch::new_in(parent.path()).unwrap();
        assert!(!killed.exists() && !early.exists());
        assert!(stays.iter().all(|path| path.join("secret").exists()));
        assert!(link.exists() && elsewhere.join("secret").exists() && used.folder.path().exists());
        let path = next.path("tokens").unwrap();
        assert!(path.is_dir());
        drop(next);
        assert!(!path.exists());
    }
}
