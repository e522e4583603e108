//! The snapshot of parameters that workers own. It is a file with the values and optimiser moments
//! after one update.
//!
//! A snapshot replaces the previous one when it is complete. Its file has no name, so the operating
//! system removes it when the process ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Number of values that are converted to or from bytes at a time.
const PIECE: usize = 1 << 14;

/// The current snapshot, which is complete, and the file of the next one.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    whole: File,
    next: File,
    /// Number of values of each parameter. `starts` has the offset of each parameter's first matrix
    /// in the file, counted in values.
    lengths: Vec<usize>,
    starts: Vec<u64>,
    /// Number of matrices per parameter.
    matrices: usize,
    /// Version of the weights in the current snapshot.
    version: u64,
}

impl Log {
    /// Creates the files of two snapshots in `folder`. `lengths` has the number of values of each
    /// parameter, and `matrices` is the number of matrices per parameter.
    pub(super) fn new(folder: &Path, lengths: Vec<usize>, matrices: usize) -> Result<Self> {
        let file = || tempfile::tempfile_in(folder).map_err(|source| failed(folder, source));
        let mut end = 0;
        let start = |length: &usize| {
            let start = end;
            end += (length * matrices) as u64;
            start
        };
        let starts = lengths.iter().map(start).collect();
        let (whole, next) = (file()?, file()?);
        Ok(Self { folder: folder.to_owned(), whole, next, lengths, starts, matrices, version: 0 })
    }

    /// Returns the version of the weights in the current snapshot.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of matrices per parameter.
    pub(super) fn matrices(&self) -> usize {
        self.matrices
    }

    /// Returns the offset of a matrix in the file, in bytes, and its number of values.
    fn at(&self, parameter: usize, matrix: usize) -> (u64, usize) {
        let length = self.lengths.get(parameter).copied().unwrap_or(0);
        let start = self.starts.get(parameter).copied().unwrap_or(0);
        ((start + (matrix.min(self.matrices) * length) as u64) * 4, length)
    }

    /// Writes the row-major values of a matrix to the next snapshot.
    pub(super) fn put(&self, parameter: usize, matrix: usize, values: &[f32]) -> Result<()> {
        let (mut at, length) = self.at(parameter, matrix);
        if values.len() != length {
            return Err(Error::Internal(format!("{} values do not fit parameter {parameter}", values.len())));
        }
        for piece in values.chunks(PIECE) {
            let bytes: Vec<u8> = piece.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.next.write_all_at(&bytes, at).map_err(|source| failed(&self.folder, source))?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Makes the next snapshot, which is complete, the current one. Its values are of `version`.
    pub(super) fn turn(&mut self, version: u64) {
        std::mem::swap(&mut self.whole, &mut self.next);
        self.version = version;
    }

    /// Calls `take` with the values of a matrix in the current snapshot, in pieces of at most
    /// [`PIECE`] values.
    pub(super) fn pieces(
        &self,
        (parameter, matrix): (usize, usize),
        take: &mut dyn FnMut(&[f32]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut at, mut left) = self.at(parameter, matrix);
        let mut bytes = vec![0; PIECE.min(left) * 4];
        let mut values = Vec::with_capacity(PIECE.min(left));
        while left > 0 {
            let count = left.min(PIECE);
            let piece = bytes.get_mut(..count * 4).unwrap_or_default();
            self.whole.read_exact_at(piece, at)?;
            values.clear();
            values.extend(piece.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)));
            take(&values)?;
            (at, left) = (at + (count * 4) as u64, left - count);
        }
        Ok(())
    }

    /// Returns the row-major values of a matrix in the current snapshot.
    pub(super) fn get(&self, parameter: usize, matrix: usize) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(self.lengths.get(parameter).copied().unwrap_or(0));
        let read = self.pieces((parameter, matrix), &mut |values| {
            all.extend_from_slice(values);
            Ok(())
        });
        read.map_err(|source| failed(&self.folder, source))?;
        Ok(all)
    }

    /// Returns the folder of the snapshot files, for error messages.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Returns the error for a snapshot file in `folder` that cannot be created, read or written.
pub(super) fn failed(folder: &Path, source: io::Error) -> Error {
    Error::Log { folder: folder.to_owned(), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_entry_stays_until_the_next_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path(), vec![PIECE + 3, 2], 2).unwrap();
        let values: Vec<f32> = (0..PIECE + 3).map(|at| at as f32).collect();
        let halves: Vec<f32> = values.iter().map(|value| value / 2.0).collect();
        for (at, matrix) in [(0, &values), (1, &halves)] {
            log.put(0, at, matrix).unwrap();
            log.put(1, at, &[at as f32, -1.0]).unwrap();
        }
        log.turn(4);
        log.put(0, 0, &halves).unwrap();
        assert_eq!((log.version(), log.get(0, 0).unwrap()), (4, values));
        assert_eq!((log.get(0, 1).unwrap(), log.get(1, 1).unwrap()), (halves.clone(), vec![1.0, -1.0]));
        log.turn(5);
        assert_eq!((log.version(), log.get(0, 0).unwrap()), (5, halves));
        assert!(log.put(1, 0, &[1.0]).is_err());
        assert!(Log::new(&folder.path().join("none"), vec![1], 1).unwrap_err().to_string().contains("none"));
    }
}
