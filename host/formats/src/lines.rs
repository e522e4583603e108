//! Reader of plain or compressed text files of any size, in blocks of complete lines.

use std::path::Path;

use eciton_graph::error::{Error, Place, Result};

use super::gzip::Source;

/// Maximum length of a line, in bytes.
pub const MAX_LINE_BYTES: u64 = 16 << 20;
/// Number of bytes per block. A block is larger only if a line is longer.
const BLOCK_BYTES: u64 = 4 << 20;

/// Reader of a text file in blocks of complete lines. It needs memory for one block or for the
/// longest line.
pub(crate) struct Lines {
    source: Source,
    block: Vec<u8>,
    /// Number of bytes of `block` that have been returned to the caller.
    used: usize,
    /// Line number of the next block's first line, from 1.
    line: u64,
    done: bool,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self { source: Source::open(path)?, block: Vec::new(), used: 0, line: 1, done: false })
    }

    /// Returns the name of the file for error messages.
    pub(crate) fn file(&self) -> &str {
        self.source.file()
    }

    /// Returns the next block of complete lines with the line number of its first line. Returns
    /// `None` at the end of the file. The last line of the file may lack its line break.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        let handed = self.block.get(..self.used).unwrap_or_default();
        self.line += count(handed);
        self.block.drain(..self.used);
        self.used = 0;
        let mut searched = 0;
        while !self.done {
            self.done = self.source.read(&mut self.block, BLOCK_BYTES)? == 0;
            let fresh = self.block.get(searched..).unwrap_or_default();
            if let Some(end) = fresh.iter().rposition(|&byte| byte == b'\n') {
                self.used = searched + end + 1;
                break;
            }
            searched = self.block.len();
            if searched as u64 > MAX_LINE_BYTES {
                return Err(Error::Limit {
                    place: Place::line(self.source.file(), self.line),
                    limit: "line",
                    unit: "bytes",
                    allowed: MAX_LINE_BYTES,
                    found: searched as u64,
                    remedy: "write one record per line",
                });
            }
        }
        if self.used == 0 {
            self.used = self.block.len();
        }
        match self.block.get(..self.used) {
            None | Some([]) => Ok(None),
            Some(block) => Ok(Some((self.line, block))),
        }
    }

    /// Calls `each` with the line number (from 1) and the text of every line, without its line
    /// break.
    pub(crate) fn each(mut self, mut each: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let file = self.file().to_owned();
        while let Some((first, block)) = self.next()? {
            let block = block.strip_suffix(b"\n").unwrap_or(block);
            for (number, line) in (first..).zip(block.split(|&byte| byte == b'\n')) {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if memchr::memchr(b'\r', line).is_some() {
                    return Err(lone_cr(&file, number));
                }
                each(number, line)?;
            }
        }
        Ok(())
    }
}

/// Returns the number of line feeds in `bytes`.
pub(crate) fn count(bytes: &[u8]) -> u64 {
    // Counts in pieces whose count fits into a byte, so that the loop is vectorised.
    let piece = |piece: &[u8]| u64::from(piece.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>());
    bytes.chunks(255).map(piece).sum()
}

/// Returns the error for a file whose lines end with CR alone, as on old Macs. The whole file would
/// otherwise be a single line.
pub(crate) fn lone_cr(file: &str, line: u64) -> Error {
    Error::Malformed {
        place: Place::line(file, line),
        expected: "lines that end with LF or CR LF".to_owned(),
        found: "a carriage return (CR) alone".to_owned(),
        remedy: "convert the line ends, for instance: tr '\\r' '\\n' < OLD > NEW",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::gzip::tests::pack;

    fn lines(bytes: &[u8]) -> Vec<(u64, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut found = Vec::new();
        let mut both = Vec::new();
        for bytes in [bytes.to_vec(), pack(bytes)] {
            std::fs::write(&path, bytes).unwrap();
            let push = |number, line: &[u8]| {
                found.push((number, String::from_utf8_lossy(line).into_owned()));
                Ok(())
            };
            Lines::open(&path).unwrap().each(push).unwrap();
            both.push(std::mem::take(&mut found));
        }
        assert_eq!(both[0], both[1]);
        both.swap_remove(0)
    }

    #[test]
    fn lines_have_their_numbers_across_blocks() {
        assert!(lines(b"").is_empty());
        let expected = [(1, "a"), (2, ""), (3, "b")].map(|(n, l)| (n, l.to_owned()));
        assert_eq!(lines(b"a\r\n\nb"), expected);
        assert_eq!(lines(b"a\n\nb\n"), expected);
        // Lines of 7 bytes over more than two blocks: 4 MiB is no multiple of 7.
        let many = b"123456\n".repeat(2 * BLOCK_BYTES as usize / 7 + 10);
        let found = lines(&many);
        assert_eq!(found.len(), 2 * BLOCK_BYTES as usize / 7 + 10);
        assert!((1..).zip(&found).all(|(n, line)| *line == (n, "123456".to_owned())));
    }

    #[test]
    fn a_line_at_the_limit_reads_and_a_longer_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (bytes, reads) in [(MAX_LINE_BYTES as usize, true), (MAX_LINE_BYTES as usize + 1, false)] {
            std::fs::write(&path, vec![b'1'; bytes]).unwrap();
            let mut lines = Lines::open(&path).unwrap();
            match lines.next() {
                Ok(block) => assert!(reads && block.unwrap().1.len() == bytes),
                Err(error) => assert!(!reads && error.to_string().contains("line 1"), "{error}"),
            }
        }
    }
}
