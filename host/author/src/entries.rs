//! Common format of the lock files for kernels. It is TOML with a format number and one entry per
//! kernel. Files are read with a size limit and written atomically.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file;

/// Format number that this program writes and accepts.
const FORMAT: u32 = 1;
/// Maximum size of a lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 1 << 20;

/// An entry of a lock file, which describes one kernel.
pub(crate) trait Entry: Serialize + DeserializeOwned {
    /// Comment at the start of the file, which says how the file is written and explains the
    /// fields.
    const HEADING: &'static str;
    /// Instruction for the user if the lock file cannot be parsed.
    const REMEDY: &'static str;

    /// Returns the key of the entry, for instance the kernel's name. It is unique in the file.
    fn key(&self) -> &str;

    /// Returns a description of what is wrong with a parsed entry, or `None` if the entry is valid.
    fn odd(&self) -> Option<String> {
        None
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound = "E: Entry")]
struct File<E> {
    format: u32,
    #[serde(rename = "kernel", default = "Vec::new")]
    entries: Vec<E>,
}

/// Returns the entries of the lock file at `path`, in the order of the file.
///
/// # Errors
/// Returns an error if the file cannot be read, is not TOML of this format, or has two entries with
/// the same key.
pub(crate) fn read<E: Entry>(path: &Path) -> Result<Vec<E>> {
    let odd = |found: String| Error::Lock { path: path.to_owned(), found, remedy: E::REMEDY };
    let text =
        String::from_utf8(file::read(path, MAX_LOCK_BYTES)?).map_err(|_| odd("not UTF-8".to_owned()))?;
    // The format number is read first, because another format may have other fields.
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| odd(error.to_string()))?;
    match table.get("format").map(toml::Value::as_integer) {
        Some(Some(format)) if format == i64::from(FORMAT) => {}
        Some(Some(format)) => return Err(odd(format!("format {format}, this program knows {FORMAT}"))),
        Some(None) | None => {
            return Err(odd(format!("no line `format = {FORMAT}`, so no lock file of kernels")));
        }
    }
    let File { entries, .. } = toml::from_str::<File<E>>(&text).map_err(|error| odd(error.to_string()))?;
    for (at, entry) in entries.iter().enumerate() {
        if entries.iter().skip(at + 1).any(|other| other.key() == entry.key()) {
            return Err(odd(format!("kernel {:?} is listed twice", entry.key())));
        }
        if let Some(found) = entry.odd() {
            return Err(odd(format!("kernel {:?}: {found}", entry.key())));
        }
    }
    Ok(entries)
}

/// Writes entries to the lock file at `path`, sorted by key. An existing file is replaced
/// atomically.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write<E: Entry + Clone>(path: &Path, entries: &[E]) -> Result<()> {
    let mut entries = entries.to_vec();
    entries.sort_by(|one, other| one.key().cmp(other.key()));
    let odd = |error: toml::ser::Error| Error::Lock {
        path: path.to_owned(),
        found: error.to_string(),
        remedy: E::REMEDY,
    };
    let text = toml::to_string(&File { format: FORMAT, entries }).map_err(odd)?;
    file::write(path, format!("{}{text}", E::HEADING).as_bytes())
}

/// Inserts an entry in the order of keys. Returns the earlier entry with the same key, which is
/// removed, or `None`.
pub(crate) fn put<E: Entry>(entries: &mut Vec<E>, entry: E) -> Option<E> {
    let former = entries.iter().position(|known| known.key() == entry.key());
    let former = former.map(|at| entries.swap_remove(at));
    entries.push(entry);
    entries.sort_by(|one, other| one.key().cmp(other.key()));
    former
}
