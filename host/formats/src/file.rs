//! Reading of whole files within a size limit.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use eciton_graph::error::{Error, Place, Result};
use eciton_input::budget::{Charge, Exceeded};

use super::gzip;

/// Maximum size of a file that is read into memory, in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 30;

/// Contents of a file, charged to the memory budget for reading.
#[derive(Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl Bytes {
    pub(crate) fn new(bytes: Vec<u8>, charge: Charge) -> Self {
        Self { bytes, _charge: charge }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Growing list whose capacity is charged to the memory budget for reading.
pub(crate) struct Grown<T> {
    items: Vec<T>,
    charge: Charge,
    /// Name of the file whose contents the list stores, for error messages.
    file: String,
}

impl<T> Grown<T> {
    pub(crate) fn new(file: &str) -> Self {
        Self { items: Vec::new(), charge: Charge::default(), file: file.to_owned() }
    }

    pub(crate) fn push(&mut self, item: T) -> Result<()> {
        self.room(1)?.push(item);
        Ok(())
    }

    /// Returns the list after ensuring capacity for `more` further items.
    pub(crate) fn room(&mut self, more: usize) -> Result<&mut Vec<T>> {
        if self.items.capacity() - self.items.len() < more {
            // Growth by half, because most of the reserved memory is used.
            let more = more.max(self.items.len() / 2).max(1024);
            let bytes = (self.items.len() + more).saturating_mul(size_of::<T>()) as u64;
            self.charge.grow_to(bytes).map_err(|exceeded| self::exceeded(&self.file, exceeded))?;
            self.items.reserve_exact(more);
        }
        Ok(&mut self.items)
    }

    /// Converts the items to bytes that keep their memory charge.
    pub(crate) fn into_bytes(self) -> Bytes
    where
        Vec<T>: Into<Vec<u8>>,
    {
        Bytes::new(self.items.into(), self.charge)
    }

    /// Returns the items. Their memory remains charged until the reading of the input ends.
    pub(crate) fn finish(self) -> Vec<T> {
        self.charge.keep();
        self.items
    }
}

impl<T> Deref for Grown<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> DerefMut for Grown<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

/// Charges `bytes` to the memory budget for reading. `file` is the name for the error message.
pub(crate) fn charge(file: &str, bytes: u64) -> Result<Charge> {
    Charge::take(bytes).map_err(|exceeded| self::exceeded(file, exceeded))
}

/// Returns the error that reading `file` would exceed the memory budget.
pub(crate) fn exceeded(file: &str, Exceeded { found, allowed }: Exceeded) -> Error {
    Error::Limit {
        place: Place::whole(file),
        limit: "memory for reading",
        unit: "bytes",
        allowed,
        found,
        remedy: "raise the limit with --input-memory, or convert the data set on a machine with more memory",
    }
}

/// Reads a whole file, and decompresses it if it is a gzip file.
pub(crate) fn read(path: &Path) -> Result<Bytes> {
    let refused = |source| Error::Read { path: path.to_owned(), source };
    let name = name(path);
    let length = std::fs::metadata(path).map_err(refused)?.len();
    let too_large = |found| Error::Limit {
        place: Place::whole(name.clone()),
        limit: "file",
        unit: "bytes",
        allowed: MAX_FILE_BYTES,
        found,
        remedy: "split the file or reduce its size",
    };
    if length > MAX_FILE_BYTES {
        return Err(too_large(length));
    }
    let mut charge = charge(&name, length)?;
    let bytes =
        eciton_input::file::read(path, MAX_FILE_BYTES.min(eciton_input::budget::limit())).map_err(refused)?;
    // The file may have grown.
    charge.grow_to(bytes.capacity() as u64).map_err(|exceeded| self::exceeded(&name, exceeded))?;
    match gzip::is_gzip(&bytes) {
        true => gzip::unpack(&bytes, &name),
        false => Ok(Bytes::new(bytes, charge)),
    }
}

/// Returns the name of a file for error messages, which is the path as the user gave it.
pub(crate) fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the name of a file without its folder, `.gz` and extension.
pub(crate) fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy());
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Path::new(plain).file_stem().map_or_else(|| "data".to_owned(), |s| s.to_string_lossy().into_owned())
}

/// Returns the name of a file without its folder and `.gz`.
pub(crate) fn plain_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(".gz").map_or(name.clone(), str::to_owned))
}

/// Returns the folder that contains a file.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the names of the entries of a folder in sorted order. Names that are not Unicode are
/// skipped.
pub(crate) fn list(folder: &Path) -> Result<Vec<String>> {
    let refused = |source| Error::Read { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        if let Ok(name) = entry.map_err(refused)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the name of a folder without its parent folders.
pub(crate) fn folder_name(folder: &Path) -> String {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    real.file_name().map_or_else(|| "data".to_owned(), |n| n.to_string_lossy().into_owned())
}
