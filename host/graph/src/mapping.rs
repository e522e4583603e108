//! A file as bytes in memory, read only when they are touched.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use eciton_input::mapped::{self, Change};
use eciton_tensor::SlabOwner;

use crate::checksum;
use crate::error::{Error, Place, Result};

/// A mapped file.
struct Mapping {
    /// Watches the file. It is dropped before the mapping.
    _watched: Arc<mapped::Watched>,
    bytes: memmap2::Mmap,
    path: PathBuf,
    /// CRC-32 that a store's description states, which its reader compares before it hands out the bytes.
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

/// A file without bytes: some systems map none of these.
struct Nothing;

impl SlabOwner for Nothing {
    fn bytes(&self) -> &[u8] {
        &[]
    }
}

/// Maps a whole file. Nobody may change or shorten it while the mapping lives: a reader would see
/// other numbers than were checked, or be stopped by the operating system.
pub fn map(path: &Path) -> Result<Arc<dyn SlabOwner>> {
    map_checked(path, None)
}

/// [`map`] of a file with a known CRC-32. The caller compares the checksum before it hands out the bytes.
pub(crate) fn map_checked(path: &Path, crc32: Option<u32>) -> Result<Arc<dyn SlabOwner>> {
    let refused = |source| Error::Read { path: path.to_owned(), source };
    let file = eciton_input::file::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.len() == 0 {
        return Ok(Arc::new(Nothing));
    }
    // SAFETY: the mapping is private to this process and read only. That others leave the file alone
    // is the documented condition of the formats that are mapped; files are written under another name
    // and renamed when complete, so that no writer of this crate changes one in place.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.map_err(refused)?;
    let watched = mapped::watch(file, path, &bytes).map_err(refused)?;
    let mapping = Arc::new(Mapping { _watched: watched, bytes, path: path.to_owned(), crc32 });
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&mapping));
    Ok(mapping)
}

/// Mapped files of the process.
static ALL: Mutex<Vec<Weak<Mapping>>> = Mutex::new(Vec::new());

/// Refuses mapped files whose length or modification time has changed. Returns the path of a file that another
/// one has replaced, which changes no mapped byte.
///
/// # Errors
/// [`Error::Malformed`] with the file.
pub fn check_unchanged() -> Result<Option<PathBuf>> {
    match mapped::changed() {
        None => Ok(None),
        Some(Change::Replaced { path }) => Ok(Some(path)),
        Some(Change::Content { path, bytes: [then, now] }) => Err(Error::Malformed {
            place: Place::whole(path.display().to_string()),
            expected: format!("the file as it was mapped, {then} bytes"),
            found: format!("{now} bytes, written meanwhile"),
            remedy: "leave data alone during a run: restore the file, then continue with `eciton resume`, or \
                     start again",
        }),
    }
}

/// Compares the checksums of all mapped sections of stores once more.
///
/// # Errors
/// [`Error::Checksum`] for bytes that changed after they were mapped.
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
