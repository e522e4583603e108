//! Memory-mapped files, whose pages are read when they are first accessed.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use eciton_input::mapped::{self, Change};
use eciton_tensor::SlabOwner;

use crate::checksum;
use crate::error::{Error, Place, Result};

/// Memory-mapped file, whose bytes slabs refer to.
struct Mapping {
    /// Watch on changes of the file. It is dropped before the mapping.
    _watched: Arc<mapped::Watched>,
    bytes: memmap2::Mmap,
    path: PathBuf,
    /// CRC-32 checksum from the description of a store. The store's reader compares it before it
    /// returns the bytes.
    crc32: Option<u32>,
}

impl SlabOwner for Mapping {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn crc32(&self) -> Option<u32> {
        self.crc32
    }
}

/// Empty file, which is not mapped because some operating systems cannot map it.
struct Nothing;

impl SlabOwner for Nothing {
    fn bytes(&self) -> &[u8] {
        &[]
    }
}

/// Maps a whole file into memory. The file must not be changed or truncated while the mapping
/// exists. Otherwise readers see unchecked values, or the operating system stops the process.
pub fn map(path: &Path) -> Result<Arc<dyn SlabOwner>> {
    let file = eciton_input::file::open(path);
    map_file(file.map_err(|source| Error::Read { path: path.to_owned(), source })?, path, None)
}

/// Maps the open file `file` like [`map`], and stores its known CRC-32 checksum. The caller must
/// compare the checksum before it returns the bytes. Messages name the file by `path`.
pub(crate) fn map_file(file: File, path: &Path, crc32: Option<u32>) -> Result<Arc<dyn SlabOwner>> {
    let refused = |source| Error::Read { path: path.to_owned(), source };
    if file.metadata().map_err(refused)?.len() == 0 {
        return Ok(Arc::new(Nothing));
    }
    // SAFETY: the mapping is private to this process and read-only. The documentation of the mapped
    // formats requires that others do not change the file. This crate writes files under another
    // name and renames them when they are complete, so none of its writers changes a file in place.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.map_err(refused)?;
    let watched = mapped::watch(file, path, &bytes).map_err(refused)?;
    let mapping = Arc::new(Mapping { _watched: watched, bytes, path: path.to_owned(), crc32 });
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&mapping));
    Ok(mapping)
}

/// Memory-mapped file of this process, which only this process writes.
struct Temporary(memmap2::Mmap);

impl SlabOwner for Temporary {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Maps a file without a name for reading. Only the caller may write it, and only bytes that no
/// reader of the mapping uses meanwhile.
///
/// # Errors
/// Returns the error of the operating system if the file cannot be mapped.
pub fn map_temporary(file: &File) -> std::io::Result<Arc<dyn SlabOwner>> {
    if file.metadata()?.len() == 0 {
        return Ok(Arc::new(Nothing));
    }
    // SAFETY: the file has no name, so that no other process opens it. It is never truncated. The
    // caller writes only bytes that nobody reads meanwhile.
    let bytes = unsafe { memmap2::Mmap::map(file) }?;
    Ok(Arc::new(Temporary(bytes)))
}

/// All memory-mapped files of this process that still exist.
static ALL: Mutex<Vec<Weak<Mapping>>> = Mutex::new(Vec::new());

/// Checks that the length and the modification time of all mapped files are unchanged. Returns the
/// path of a file that another file has replaced. A replacement does not change any mapped byte.
///
/// # Errors
/// Returns [`Error::Malformed`] with the path of a file that has changed.
pub fn check_unchanged() -> Result<Option<PathBuf>> {
    match mapped::changed() {
        None => Ok(None),
        Some(Change::Replaced { path }) => Ok(Some(path)),
        Some(Change::Content { path, bytes: [then, now] }) => Err(Error::Malformed {
            place: Place::whole(path.display().to_string()),
            expected: format!("the file as it was at the start of the run, {then} bytes"),
            found: format!("{now} bytes, changed during the run"),
            remedy: "do not change data during a run: restore the file, then continue with `eciton resume`, or \
                     start again",
        }),
    }
}

/// Computes the checksums of all mapped store sections again, and compares them with those that are
/// stored.
///
/// # Errors
/// Returns [`Error::Checksum`] if bytes have changed after they were mapped.
pub fn check_content() -> Result<()> {
    let all: Vec<Arc<Mapping>> =
        ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    let known = || all.iter().filter_map(|mapping| Some((mapping, mapping.crc32?)));
    let found = checksum::crc32s(known().map(|(mapping, _)| &mapping.bytes[..]).collect());
    for ((mapping, expected), found) in known().zip(found) {
        if found != expected {
            return Err(Error::Checksum { path: mapping.path.clone(), expected, found });
        }
    }
    Ok(())
}
