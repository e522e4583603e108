//! Durable files: whole on disk, or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run_folder::{Result, reading, writing};

/// What a file is called until it is whole.
pub(super) const TEMPORARY: &str = ".partial";

/// Writes a file: under another name, forced to disk, renamed, its folder forced to disk.
pub(super) fn write(
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
        // On a full disk its room is wanted.
        let _ = fs::remove_file(&temporary);
        writing(&path)(error)
    })
}

/// Forces a folder's names to disk. (Elsewhere than on Unix folders cannot be opened.)
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A SHA-256, hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The start of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extent {
    pub bytes: u64,
    pub sha256: String,
}

/// A file that only grows.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    hasher: Sha256,
}

impl Journal {
    /// A new, empty one in place of whatever is there.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(writing(&path))?;
        Ok(Self { path, file, bytes: 0, hasher: Sha256::new() })
    }

    /// Goes on after `content`, with which the file must begin; what follows that is cut off.
    pub(super) fn cut(path: PathBuf, content: &[u8]) -> Result<Self> {
        let mut file = OpenOptions::new().write(true).open(&path).map_err(writing(&path))?;
        let cut = file.set_len(content.len() as u64);
        cut.and_then(|()| io::Seek::seek(&mut file, io::SeekFrom::End(0)).map(drop))
            .map_err(writing(&path))?;
        let hasher = Sha256::new_with_prefix(content);
        Ok(Self { path, file, bytes: content.len() as u64, hasher })
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // What was written of them would come before what is appended next.
            let cut = self.file.set_len(self.bytes);
            let _ = cut.and_then(|()| io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes)));
            return Err(writing(&self.path)(error));
        }
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Forces it to disk; what it is now.
    pub(super) fn sync(&mut self) -> Result<Extent> {
        self.file.sync_data().map_err(writing(&self.path))?;
        Ok(Extent { bytes: self.bytes, sha256: hex(self.hasher.clone()) })
    }
}

/// The start of a file that is to be what `extent` says; `None` if it is not.
pub(super) fn read_extent(path: &Path, extent: &Extent) -> Result<Option<Vec<u8>>> {
    let file = match eciton_input::file::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reading(path)(error)),
    };
    let there = file.metadata().map_err(reading(path))?;
    // Bounds what a false extent can make this read.
    if !there.is_file() || there.len() < extent.bytes {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(extent.bytes).read_to_end(&mut bytes).map_err(reading(path))?;
    Ok((sha256(&bytes) == extent.sha256).then_some(bytes))
}
