//! Cache folder of downloaded data sets, with files such as `FOLDER/planetoid/ind.cora.x`. A file
//! receives its final name only after its length and SHA-256 have been checked.
//!
//! Each file is first written under a temporary name (`.part-...`) in the same folder, locked, and
//! renamed once it is complete. An interrupted fetch therefore never leaves a file under a final
//! name. Concurrent fetches are safe, because all of them rename identical bytes to the same name.
//! The next fetch into the folder removes temporary files of killed processes.

use std::fs::{self, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::catalogue::{File, Set};
use crate::error::{Error, Result};

/// Prefix of the names of temporary files. A fetch renames such a file once it is complete.
const PART: &str = ".part-";
/// Minimum age at which an unlocked temporary file is removed as a remnant of a killed fetch. A
/// younger file may belong to a fetch that has not locked it yet.
const PART_AGE: Duration = Duration::from_secs(60);

/// Cache folder of data set files, with the subfolders named by [`Set::folder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// Location of a cached data set. Both fields are arguments for `eciton_formats::open`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Path of the data set's file, or of the folder that contains its files.
    pub path: PathBuf,
    /// Name of the data set within the folder, or `None` if `path` alone identifies the data set.
    pub name: Option<&'static str>,
}

/// Way in which a fetch obtained one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The cache already contained the file with the correct checksum, so nothing was downloaded.
    Present,
    /// The file was downloaded or copied into the cache.
    Brought,
}

impl Cache {
    /// Returns the cache of the current user. Its folder is `ECITON_DATA` if that variable is set,
    /// otherwise `eciton/data` in `XDG_CACHE_HOME` or in `~/.cache`.
    ///
    /// # Errors
    /// Returns [`Error::NoCache`] if `ECITON_DATA` is not set, and neither `XDG_CACHE_HOME` nor
    /// `HOME` is an absolute path.
    pub fn of_user() -> Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self::among(variable("ECITON_DATA"), variable("XDG_CACHE_HOME"), variable("HOME"))
    }

    fn among(data: Option<PathBuf>, cache: Option<PathBuf>, home: Option<PathBuf>) -> Result<Self> {
        let cache = cache
            .filter(|path| path.is_absolute())
            .or_else(|| home.filter(|home| home.is_absolute()).map(|home| home.join(".cache")));
        match data.or_else(|| cache.map(|cache| cache.join("eciton/data"))) {
            Some(folder) => Ok(Self { folder }),
            None => Err(Error::NoCache),
        }
    }

    /// Creates a cache in `folder`. The folder is created by the first fetch if it does not exist.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the path of the cache folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path at which the cache stores a data set's file. The file need not exist.
    pub fn place(&self, set: &Set, file: &File) -> PathBuf {
        self.folder.join(set.folder).join(file.name)
    }

    /// Returns the location of a data set, or `None` if a file is absent from the cache or has the
    /// wrong length. Checksums are not compared. To compare them, use [`Cache::open`].
    pub fn find(&self, set: &Set) -> Option<Found> {
        let here = |file: &File| fs::metadata(self.place(set, file)).is_ok_and(|m| m.len() == file.bytes);
        if !set.files.iter().all(here) {
            return None;
        }
        let folder = self.folder.join(set.folder);
        Some(match (set.member, set.files) {
            (Some(member), [one]) if one.name == member => Found { path: folder.join(member), name: None },
            (member, _) => Found { path: folder, name: member },
        })
    }

    /// Returns the location of a data set after comparing the SHA-256 of every file with the
    /// catalogue. Returns `None` if the cache does not contain all files.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the SHA-256 of a file differs, and [`Error::Io`] if a file
    /// cannot be read.
    pub fn open(&self, set: &Set) -> Result<Option<Found>> {
        let Some(found) = self.find(set) else { return Ok(None) };
        for file in set.files {
            if !self.holds(set, file)? {
                return Err(Error::Damaged {
                    path: self.place(set, file),
                    set: set.name,
                    expected: file.sha256,
                });
            }
        }
        Ok(Some(found))
    }

    /// Returns whether the cache contains a file with the length and SHA-256 that the catalogue
    /// states.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file exists but cannot be read.
    pub fn holds(&self, set: &Set, file: &File) -> Result<bool> {
        let path = self.place(set, file);
        let Ok(mut opened) = eciton_input::file::open(&path) else { return Ok(false) };
        let refused = |source| Error::Io { path: path.clone(), action: "cannot be read", source };
        if opened.metadata().map_err(refused)?.len() != file.bytes {
            return Ok(false);
        }
        let mut sum = Checked::new(file);
        Ok(sum.copy(&mut opened, &mut std::io::sink()).is_ok() && sum.verdict("").is_ok())
    }

    /// Reads `from` to its end, checks length and SHA-256, and stores the bytes as a file of the
    /// cache. `origin` is the address or path that error messages name.
    ///
    /// # Errors
    /// Returns [`Failure::Read`] if reading `from` fails. Returns [`Failure::Other`] with
    /// [`Error::Length`] or [`Error::Checksum`] if the bytes differ from the catalogue, and with
    /// [`Error::Io`] if they cannot be stored.
    pub(crate) fn take(
        &self,
        set: &Set,
        file: &File,
        origin: &str,
        from: &mut dyn Read,
    ) -> std::result::Result<(), Failure> {
        let folder = self.folder.join(set.folder);
        let refused = |action| {
            let path = folder.clone();
            move |source| Failure::Other(Error::Io { path, action, source })
        };
        fs::create_dir_all(&folder).map_err(refused("cannot be created"))?;
        sweep(&folder);
        let mut part = tempfile::Builder::new()
            .prefix(PART)
            .tempfile_in(&folder)
            .map_err(refused("cannot be written to"))?;
        // If the file system has no locks, only its age protects the temporary file from removal.
        let _ = part.as_file().try_lock();
        let mut sum = Checked::new(file);
        sum.copy(from, part.as_file_mut()).map_err(|side| match side {
            Side::From(problem) => Failure::Read(problem),
            Side::To(source) => refused("cannot be written to")(source),
        })?;
        sum.verdict(origin).map_err(Failure::Other)?;
        part.as_file().sync_data().map_err(refused("cannot be written to"))?;
        share(part.as_file());
        let place = self.place(set, file);
        part.persist(&place).map_err(|error| {
            Failure::Other(Error::Io {
                path: place,
                action: "the downloaded file cannot be renamed to it",
                source: error.error,
            })
        })?;
        Ok(())
    }
}

/// Reason why [`Cache::take`] did not store a file.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The source of the file failed while it was read, for instance a broken connection.
    Read(std::io::Error),
    Other(Error),
}

/// Sets the permissions of a new file to 0644, because temporary files are readable by their owner
/// only.
fn share(file: &fs::File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // If this fails, other users cannot read the file. The fetch itself is not affected.
        let _ = file.set_permissions(fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = file;
}

/// Removes the temporary files of killed fetches from `folder`. Errors are ignored, because a
/// leftover file does no harm.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PART) {
            continue;
        }
        let old = entry
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= PART_AGE));
        let free = || match eciton_input::file::open(&entry.path()) {
            Ok(file) => !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        };
        if old && free() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Length and SHA-256 of a file, computed while the file is copied and compared with the catalogue
/// at the end.
struct Checked<'a> {
    file: &'a File,
    sum: Sha256,
    bytes: u64,
}

enum Side {
    From(std::io::Error),
    To(std::io::Error),
}

impl<'a> Checked<'a> {
    fn new(file: &'a File) -> Self {
        Self { file, sum: Sha256::new(), bytes: 0 }
    }

    /// Copies `from` to `to`, and stops one byte after the length that the catalogue states. The
    /// extra byte reveals that a file is too long.
    fn copy(&mut self, from: &mut dyn Read, to: &mut dyn Write) -> std::result::Result<(), Side> {
        let mut from = from.take(self.file.bytes + 1);
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => piece.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Side::From(error)),
            };
            self.sum.update(read);
            self.bytes += read.len() as u64;
            to.write_all(read).map_err(Side::To)?;
        }
    }

    fn verdict(self, origin: &str) -> Result<()> {
        let (file, origin) = (self.file, origin.to_owned());
        if self.bytes != file.bytes {
            return Err(Error::Length { origin, file: file.name, expected: file.bytes, found: self.bytes });
        }
        let found: String = self.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        match found == file.sha256 {
            true => Ok(()),
            false => Err(Error::Checksum { origin, file: file.name, expected: file.sha256, found }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const SET: Set = Set {
        name: "tiny",
        description: "d",
        layout: "l",
        folder: "tiny-npz",
        member: Some("a.npz"),
        base: "https://example.invalid/",
        licence: "none",
        citation: "nobody",
        files: &[File {
            name: "a.npz",
            path: "x/a.npz",
            bytes: 3,
            // printf abc | sha256sum
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        }],
    };

    #[test]
    fn the_folder_follows_the_variables() {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        for (data, cache, home, expected) in [
            ("/d", "/c", "/h", "/d"),
            ("d", "", "", "d"),
            ("", "/c", "/h", "/c/eciton/data"),
            ("", "relative", "/h", "/h/.cache/eciton/data"),
            ("", "", "/h", "/h/.cache/eciton/data"),
        ] {
            let found = Cache::among(path(data), path(cache), path(home)).unwrap();
            assert_eq!(found.folder(), Path::new(expected));
        }
        assert!(matches!(Cache::among(None, None, None), Err(Error::NoCache)));
    }

    #[test]
    fn only_what_is_right_gets_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("deep/er"));
        let file = &SET.files[0];
        let take = |bytes: &[u8]| cache.take(&SET, file, "here", &mut &bytes[..]);
        let names = || fs::read_dir(cache.folder().join("tiny-npz")).unwrap().count();
        for (bytes, expected) in
            [(&b"ab"[..], "here: found 2 bytes"), (b"abcdef", "here: found 4 bytes"), (b"abd", "SHA-256")]
        {
            let Err(Failure::Other(error)) = take(bytes) else { panic!("{bytes:?}") };
            assert!(error.to_string().contains(expected) && !error.is_retryable(), "{error}");
            assert_eq!((names(), cache.find(&SET)), (0, None));
        }
        take(b"abc").unwrap();
        assert_eq!(names(), 1);
        assert!(cache.holds(&SET, file).unwrap());
        let found = cache.find(&SET).unwrap();
        assert_eq!((found.path, found.name), (cache.folder().join("tiny-npz/a.npz"), None));
        // A reader that breaks off takes nothing away.
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::ConnectionReset.into())
            }
        }
        assert!(matches!(cache.take(&SET, file, "there", &mut Broken), Err(Failure::Read(_))));
        assert_eq!((names(), cache.holds(&SET, file).unwrap()), (1, true));
        assert_eq!(cache.open(&SET).unwrap(), cache.find(&SET));
        fs::write(cache.place(&SET, file), b"abx").unwrap();
        assert!(!cache.holds(&SET, file).unwrap());
        let refused = cache.open(&SET).unwrap_err().to_string();
        assert!(refused.contains("a.npz") && refused.contains("eciton data fetch tiny"), "{refused}");
    }

    #[test]
    fn remainders_are_swept_if_old_and_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let old = std::time::SystemTime::now() - 2 * PART_AGE;
        let mut held = None;
        for (name, aged) in [(".part-old", true), (".part-held", true), (".part-new", false), ("a.npz", true)]
        {
            let file = fs::File::create(path(name)).unwrap();
            if aged {
                file.set_modified(old).unwrap();
            }
            if name == ".part-held" {
                file.try_lock().unwrap();
                held = Some(file);
            }
        }
        sweep(folder.path());
        let exists = |name: &str| path(name).exists();
        assert!(!exists(".part-old") && exists(".part-held") && exists(".part-new") && exists("a.npz"));
        // A lock is gone with its file, for instance with a killed process.
        drop(held);
        sweep(folder.path());
        assert!(!exists(".part-held"));
    }
}
