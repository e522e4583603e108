//! Durable files, which are complete on disk or absent, also after a power failure.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run_folder::{Result, reading, writing};

/// Suffix of the temporary name that a file has until it is complete.
pub const TEMPORARY: &str = ".partial";

/// Writes the file `name` in `folder` atomically. After a power failure, the file is complete or
/// absent. The content is written under a temporary name and synced to disk before the file is
/// renamed.
pub fn write(
    folder: &Path,
    name: &str,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}{TEMPORARY}")));
    let fill = || {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(&temporary)?);
        content(&mut file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_folder(folder)
    };
    fill().map_err(|error| {
        // If the disk is full, this frees its space.
        let _ = fs::remove_file(&temporary);
        writing(&path)(error)
    })
}

/// Syncs the entries of a folder to disk. Does nothing on systems other than Unix, which cannot
/// open folders.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Returns the SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Length and digest of the start of a file. A checkpoint records them for a file that grows during
/// the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The number of bytes from the start of the file.
    pub bytes: u64,
    /// SHA-256 of these bytes, in hexadecimal.
    pub sha256: String,
}

/// An append-only file, together with the running SHA-256 of its content.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    hasher: Sha256,
}

impl Journal {
    /// Creates an empty journal at `path`. An existing file is overwritten.
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(writing(&path))?;
        Ok(Self { path, file, bytes: 0, hasher: Sha256::new() })
    }

    /// Opens an existing journal and truncates it after `content`, which must be the start of the
    /// file.
    pub fn cut(path: PathBuf, content: &[u8]) -> Result<Self> {
        let mut file = OpenOptions::new().write(true).open(&path).map_err(writing(&path))?;
        let cut = file.set_len(content.len() as u64);
        cut.and_then(|()| io::Seek::seek(&mut file, io::SeekFrom::End(0)).map(drop))
            .map_err(writing(&path))?;
        let hasher = Sha256::new_with_prefix(content);
        Ok(Self { path, file, bytes: content.len() as u64, hasher })
    }

    /// Returns the length of the journal in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends bytes to the journal. After a partial write, the journal is truncated to its
    /// previous length.
    ///
    /// # Errors
    /// Returns an error of the operating system if the bytes cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // A partial write would precede the next append, so it is cut off.
            let cut = self.file.set_len(self.bytes);
            let _ = cut.and_then(|()| io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes)));
            return Err(writing(&self.path)(error));
        }
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Syncs the journal to disk. Returns the length and the digest of its content.
    pub fn sync(&mut self) -> Result<Extent> {
        self.file.sync_data().map_err(writing(&self.path))?;
        Ok(Extent { bytes: self.bytes, sha256: hex(self.hasher.clone()) })
    }
}

/// Reads the start of the file `path` and checks it against `extent`. Returns `None` if the file
/// does not exist, is shorter, or has another digest.
pub fn read_extent(path: &Path, extent: &Extent) -> Result<Option<Vec<u8>>> {
    let file = match eciton_input::file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reading(path)(error)),
    };
    let there = file.metadata().map_err(reading(path))?;
    // Limits the memory that a wrong extent can make this function allocate.
    if !there.is_file() || there.len() < extent.bytes {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(extent.bytes).read_to_end(&mut bytes).map_err(reading(path))?;
    Ok((sha256(&bytes) == extent.sha256).then_some(bytes))
}
