//! Reader for `.npz` files, which are zip archives of `.npy` files.

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use eciton_graph::error::{Error, Place, Result};

use super::file::{self, Bytes};
use super::gzip;

/// Maximum decompressed size of an entry, in bytes.
pub const MAX_ENTRY_BYTES: u64 = 4 << 30;
/// Maximum number of entries per archive.
pub const MAX_ENTRIES: usize = 4096;

/// Opened `.npz` archive.
pub struct Npz<R> {
    archive: zip::ZipArchive<R>,
    file: String,
    entry_limit: u64,
}

impl Npz<Cursor<Bytes>> {
    /// Opens the archive at `path`.
    ///
    /// # Errors
    /// Returns [`Error::Read`] if the file cannot be read, and the errors of [`Npz::new`].
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = super::file::read(path)?;
        Self::new(Cursor::new(bytes), &super::file::name(path), MAX_ENTRY_BYTES)
    }
}

impl<R: Read + Seek> Npz<R> {
    /// Opens an archive from a reader. `file` is the name for error messages. No entry may
    /// decompress to more than `entry_limit` bytes.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the content is not a zip archive. Returns [`Error::Limit`]
    /// if there are more than [`MAX_ENTRIES`] entries.
    pub fn new(reader: R, file: &str, entry_limit: u64) -> Result<Self> {
        let archive = zip::ZipArchive::new(reader)
            .map_err(|e| Error::malformed(Place::whole(file), "a zip archive", e.to_string()))?;
        if archive.len() > MAX_ENTRIES {
            return Err(Error::Limit {
                place: Place::whole(file),
                limit: "archive entries",
                unit: "entries",
                allowed: MAX_ENTRIES as u64,
                found: archive.len() as u64,
                remedy: "write an archive with the arrays of a single data set",
            });
        }
        Ok(Self { archive, file: file.to_owned(), entry_limit })
    }

    /// Returns the names of all arrays in sorted order, without `.npy`.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self
            .archive
            .file_names()
            .filter_map(std::result::Result::ok)
            .map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_owned())
            .collect();
        keys.sort();
        keys
    }

    /// Returns the name of the array `key` for error messages, for instance `cora.npz!labels`.
    pub fn place(&self, key: &str) -> String {
        format!("{}!{key}", self.file)
    }

    /// Returns the decompressed `.npy` file of the array `key`.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the entry is missing or damaged. Returns [`Error::Limit`] if
    /// it decompresses to too many bytes, even if the archive's directory states a smaller size.
    pub fn entry(&mut self, key: &str) -> Result<Bytes> {
        let name = self.place(key);
        let place = Place::whole(name.clone());
        let wrong = |e: String| Error::malformed(place.clone(), "a complete .npy entry", e);
        let entry = match self.archive.by_name(&format!("{key}.npy")) {
            Ok(entry) => entry,
            Err(e) => return Err(wrong(e.to_string())),
        };
        // The limit is the compression that deflate reaches for ordinary numbers, as with gzip.
        let limit = self.entry_limit.min(gzip::allowed(entry.compressed_size()));
        let too_large = |found| Error::Limit {
            place: place.clone(),
            limit: "unpacked entry",
            unit: "bytes",
            allowed: limit,
            found,
            remedy: "if you trust the file, convert the data set to plain .npy files",
        };
        let declared = entry.size();
        if declared > limit {
            return Err(too_large(declared));
        }
        // The directory may be wrong, so the allocation is limited to the maximum expansion of
        // deflate.
        let plausible = entry.compressed_size().saturating_mul(1040).min(declared);
        let charge = file::charge(&name, declared)?;
        let mut bytes = Vec::with_capacity(plausible as usize);
        let mut limited = entry.take(declared.saturating_add(1));
        limited.read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
        if bytes.len() as u64 > declared {
            return Err(wrong("more bytes than the archive's directory states".to_owned()));
        }
        Ok(Bytes::new(bytes, charge))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    /// Writes a deflated archive, for the tests of this crate.
    pub(crate) fn write(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (key, bytes) in entries {
            let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
            writer.start_file(format!("{key}.npy"), options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = write(&[("big", vec![0; 1 << 20]), ("small", vec![1, 2])]);
        assert!(bomb.len() < 4096);
        let mut npz = Npz::new(Cursor::new(bomb.clone()), "bomb.npz", 1000).unwrap();
        assert_eq!(npz.keys(), ["big", "small"]);
        let text = npz.entry("big").unwrap_err().to_string();
        assert!(text.contains("bomb.npz!big") && text.contains("1000 bytes"), "{text}");
        assert_eq!(npz.entry("small").unwrap()[..], [1, 2]);
        assert!(npz.entry("none").is_err());

        // A directory that claims 10 bytes for the same data.
        let mut liar = bomb;
        let real = (1u32 << 20).to_le_bytes();
        let mut at = 0;
        while at + 4 <= liar.len() {
            if liar[at..at + 4] == real {
                liar[at..at + 4].copy_from_slice(&10u32.to_le_bytes());
            }
            at += 1;
        }
        let found = Npz::new(Cursor::new(liar), "liar.npz", 1000).and_then(|mut z| z.entry("big"));
        assert!(found.is_err());
    }

    #[test]
    fn truncated_archives_are_errors() {
        let file = write(&[("a", vec![7; 40])]);
        for end in 0..file.len() {
            let found = Npz::new(Cursor::new(file[..end].to_vec()), "a", 1000).and_then(|mut z| z.entry("a"));
            assert!(found.is_err(), "{end}");
        }
    }
}
