//! Place from which the files of a store are read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::description::{DESCRIPTION, MAX_DESCRIPTION_BYTES};

/// Place with the files of a store, for instance a folder or a bucket.
pub trait Source {
    /// Returns the path or address of the file with the given name, for messages.
    fn shown(&self, name: &str) -> PathBuf;

    /// Reads the file [`DESCRIPTION`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    fn description(&self) -> io::Result<Vec<u8>>;

    /// Opens the file with the given name, of which the bytes `needed` are read. All other bytes may
    /// be absent or zeros.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    fn open(&self, name: &str, needed: Range<u64>) -> io::Result<File>;
}

impl Source for Path {
    fn shown(&self, name: &str) -> PathBuf {
        self.join(name)
    }

    fn description(&self) -> io::Result<Vec<u8>> {
        eciton_input::file::read(&self.join(DESCRIPTION), MAX_DESCRIPTION_BYTES)
    }

    fn open(&self, name: &str, _: Range<u64>) -> io::Result<File> {
        eciton_input::file::open(&self.join(name))
    }
}
