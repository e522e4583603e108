//! Reading whole files within a limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::gzip;
use crate::error::{Error, Place, Result};

/// The longest file that is read.
pub const MAX_FILE_BYTES: u64 = 16 << 30;

/// All bytes of a file; those of a gzip file unpacked.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let refused = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(refused)?;
    let length = file.metadata().map_err(refused)?.len();
    let too_large = |found| Error::Limit {
        place: Place::whole(name(path)),
        limit: "file",
        unit: "bytes",
        allowed: MAX_FILE_BYTES,
        found,
        remedy: "split or shrink the file",
    };
    if length > MAX_FILE_BYTES {
        return Err(too_large(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // A pipe or a growing file has no length of its own.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    match gzip::is_gzip(&bytes) {
        true => gzip::unpack(&bytes, &name(path)),
        false => Ok(bytes),
    }
}

/// What errors call a file: its path as the user gave it.
pub(crate) fn name(path: &Path) -> String {
    path.display().to_string()
}

/// The file's name without folders, `.gz` and its last extension.
pub(crate) fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy());
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Path::new(plain).file_stem().map_or_else(|| "data".to_owned(), |s| s.to_string_lossy().into_owned())
}

/// The names in a folder, sorted; a name that is not Unicode is left out.
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

/// The folder's own name.
pub(crate) fn folder_name(folder: &Path) -> String {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    real.file_name().map_or_else(|| "data".to_owned(), |n| n.to_string_lossy().into_owned())
}
