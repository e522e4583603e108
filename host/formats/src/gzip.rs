//! Decompression of gzip data (RFC 1952) within limits. Gzip files are recognised by their first
//! bytes, regardless of their names.
//!
//! Ordinary text compresses to a third or a tenth of its size, and rows of rare words to about
//! 1/140. Zeros compress to 1/228 at zlib's fastest level and to 1/1,032 at its best one. Therefore
//! any file may decompress to [`FREE_BYTES`]. Larger results are limited to [`MAX_RATIO`] times the
//! size of the file and to [`MAX_UNPACKED_BYTES`]. The same limits apply to the entries of zip
//! archives.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_graph::error::{Error, Place, Result};
use flate2::bufread::MultiGzDecoder;

use super::file::{self, Bytes, Grown};

/// Decompressed size in bytes that is allowed for every file, regardless of its ratio.
pub const FREE_BYTES: u64 = 64 << 20;
/// Maximum ratio of decompressed to compressed size for results above [`FREE_BYTES`].
pub const MAX_RATIO: u64 = 192;
/// Maximum decompressed size of a file, in bytes.
pub const MAX_UNPACKED_BYTES: u64 = 64 << 30;

/// Number of bytes that are decompressed into memory at a time.
const UNPACKED_AT_ONCE: usize = 1 << 20;

/// Returns whether `bytes` begin with the gzip magic number.
pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Returns the maximum decompressed size that is allowed for `packed` compressed bytes.
pub(super) fn allowed(packed: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).clamp(FREE_BYTES, MAX_UNPACKED_BYTES)
}

fn too_large(file: &str, allowed: u64, found: u64) -> Error {
    Error::Limit {
        place: Place::whole(file),
        limit: "unpacked gzip",
        unit: "bytes",
        allowed,
        found,
        remedy: "if you trust the file, uncompress it with gunzip and give the plain file",
    }
}

fn damaged(file: &str, at: u64, error: &std::io::Error) -> Error {
    let place = Place::byte(file, at);
    Error::malformed(
        place,
        "a complete gzip file (the byte position is that of the uncompressed content)",
        error.to_string(),
    )
}

/// Decompresses a whole file in memory. The result may have up to [`file::MAX_FILE_BYTES`].
pub(crate) fn unpack(packed: &[u8], file: &str) -> Result<Bytes> {
    let allowed = allowed(packed.len() as u64).min(file::MAX_FILE_BYTES);
    let mut bytes = Grown::new(file);
    let mut decoder = MultiGzDecoder::new(packed);
    loop {
        let before = bytes.len();
        let into = bytes.room(UNPACKED_AT_ONCE)?;
        // Reads one byte less than the capacity, so that the list never grows beyond what is
        // charged.
        let outcome = decoder.by_ref().take(UNPACKED_AT_ONCE as u64 - 1).read_to_end(into);
        let found = into.len() as u64;
        match outcome {
            Err(error) => return Err(damaged(file, found, &error)),
            Ok(_) if found > allowed => return Err(too_large(file, allowed, found)),
            Ok(_) if into.len() == before => return Ok(bytes.into_bytes()),
            Ok(_) => {}
        }
    }
}

/// Sequential reader of a file, which decompresses gzip files.
pub(crate) struct Source {
    reader: Reader,
    path: PathBuf,
    file: String,
    given: u64,
    allowed: u64,
}

enum Reader {
    Memory(std::io::Cursor<Arc<[u8]>>),
    Plain(File),
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let refused = |source| Error::Read { path: path.to_owned(), source };
        let mut opened = eciton_input::file::open(path).map_err(refused)?;
        let length = opened.metadata().map_err(refused)?.len();
        let mut magic = Vec::new();
        opened.by_ref().take(2).read_to_end(&mut magic).map_err(refused)?;
        opened.rewind().map_err(refused)?;
        let (reader, allowed) = match is_gzip(&magic) {
            true => {
                let buffered = BufReader::with_capacity(1 << 18, opened);
                (Reader::Gzip(Box::new(MultiGzDecoder::new(buffered))), allowed(length))
            }
            false => (Reader::Plain(opened), u64::MAX),
        };
        Ok(Self { reader, path: path.to_owned(), file: file::name(path), given: 0, allowed })
    }

    /// Creates a reader of bytes in memory. `file` is their name in error messages.
    pub(crate) fn memory(bytes: Arc<[u8]>, file: &str) -> Self {
        let reader = Reader::Memory(std::io::Cursor::new(bytes));
        Self { reader, path: PathBuf::from(file), file: file.to_owned(), given: 0, allowed: u64::MAX }
    }

    /// Returns whether the file is compressed with gzip.
    pub(crate) fn packed(&self) -> bool {
        matches!(self.reader, Reader::Gzip(_))
    }

    /// Returns the name of the file for error messages.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Appends up to `most` further bytes to `into`. Returns their number, which is 0 at the end of
    /// the file.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>, most: u64) -> Result<u64> {
        let before = into.len();
        let outcome = match &mut self.reader {
            Reader::Memory(bytes) => bytes.take(most).read_to_end(into),
            Reader::Plain(file) => file.take(most).read_to_end(into),
            Reader::Gzip(decoder) => decoder.take(most).read_to_end(into),
        };
        self.given += (into.len() - before) as u64;
        match outcome {
            Err(error) if self.packed() => Err(damaged(&self.file, self.given, &error)),
            Err(source) => Err(Error::Read { path: self.path.clone(), source }),
            Ok(_) if self.given > self.allowed => Err(too_large(&self.file, self.allowed, self.given)),
            Ok(bytes) => Ok(bytes as u64),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    /// Compresses bytes with gzip, for the tests of this crate.
    pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_follow_each_other() {
        let mut two = pack(b"ab");
        two.extend(pack(b"c"));
        assert_eq!(&unpack(&two, "x.gz").unwrap()[..], b"abc");
        assert!(is_gzip(&two) && !is_gzip(b"1f"));
    }

    #[test]
    fn damage_is_named() {
        let whole = pack(&[7; 1000]);
        for end in 2..whole.len() {
            let text = unpack(&whole[..end], "x.gz").unwrap_err().to_string();
            assert!(text.contains("x.gz, byte"), "{end}: {text}");
        }
        let mut wrong = whole.clone();
        let crc = wrong.len() - 6;
        wrong[crc] ^= 1;
        assert!(unpack(&wrong, "x.gz").is_err());
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        // One MiB of zeros, packed, eighty times one after the other: 80 MiB from 80 kB.
        let bomb = pack(&vec![0; 1 << 20]).repeat(80);
        assert!((bomb.len() as u64) * MAX_RATIO < FREE_BYTES);
        let text = unpack(&bomb, "bomb.gz").unwrap_err().to_string();
        assert!(text.contains(&format!("limit unpacked gzip of {FREE_BYTES} bytes")), "{text}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb");
        std::fs::write(&path, &bomb).unwrap();
        let mut source = Source::open(&path).unwrap();
        let (mut bytes, mut total) = (Vec::new(), 0);
        let refused = loop {
            bytes.clear();
            match source.read(&mut bytes, 1 << 20) {
                Ok(more) => total += more,
                Err(error) => break error.to_string(),
            }
        };
        assert!(total <= FREE_BYTES && refused.contains("gunzip"), "{total} {refused}");
        // At the limit and not above it.
        let most = pack(&vec![0; 1 << 20]).repeat(64);
        assert_eq!(unpack(&most, "most.gz").unwrap().len() as u64, FREE_BYTES);
    }

    #[test]
    fn rare_words_are_within_the_ratio() {
        // A bag of words: one of 100 cells of 4 bytes is 1, at an irregular distance.
        let (cells, mut random) = (1 << 18, eciton_graph::random::SplitMix64::new(7));
        let mut words = Vec::with_capacity(4 * cells);
        for _ in 0..cells {
            let value = if random.below(100) == 0 { 1f32 } else { 0.0 };
            words.extend(value.to_le_bytes());
        }
        assert!(pack(&words).len() as u64 * MAX_RATIO > words.len() as u64);
    }
}
