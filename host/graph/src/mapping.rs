//! A file as bytes in memory, read only when they are touched.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use eciton_tensor::SlabOwner;

use crate::error::{Error, Result};

/// A mapped file.
struct Mapping(memmap2::Mmap);

impl SlabOwner for Mapping {
    fn bytes(&self) -> &[u8] {
        &self.0
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
    let refused = |source| Error::Read { path: path.to_owned(), source };
    let file = eciton_input::file::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.len() == 0 {
        return Ok(Arc::new(Nothing));
    }
    // SAFETY: the mapping is private to this process and read only. That others leave the file alone
    // is the documented condition of the formats that are mapped; files are written under another name
    // and renamed when complete, so that no writer of this crate changes one in place.
    let mapping = unsafe { memmap2::Mmap::map(&file) }.map_err(refused)?;
    Ok(Arc::new(Mapping(mapping)))
}
