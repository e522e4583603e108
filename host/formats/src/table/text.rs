//! Division of a table's text into blocks of complete records.

use eciton_graph::error::{Error, Place, Result};

use super::{Separator, is_header, is_number};
use crate::gzip::Source;
use crate::lines::{MAX_LINE_BYTES, count, lone_cr};

/// Number of bytes of the first block, which suffices to examine the first record.
const FIRST_BYTES: u64 = 1 << 18;
/// Number of bytes of all other blocks. A block is larger only if a record is longer.
pub(super) const BLOCK_BYTES: u64 = 2 << 20;

/// Block of complete records.
pub(super) struct Block {
    pub(super) text: Vec<u8>,
    /// Number of the block's first line, from 1.
    pub(super) line: u64,
}

/// Reader that divides a text into blocks of complete records. Comments before the first record are
/// omitted. The division depends only on the text.
pub(super) struct Blocks {
    source: Source,
    separator: Separator,
    /// Bytes that have been read but not returned yet. They start with a record.
    raw: Vec<u8>,
    /// Number of the line in which `raw` starts.
    line: u64,
    /// Number of bytes of `raw` that have been searched for the ends of records.
    searched: usize,
    /// Position in `raw` of a quote that has not been closed yet.
    open: Option<usize>,
    /// Line number of the first record, from 1. It is 0 before the record has been found.
    pub(super) first: u64,
    done: bool,
    block_bytes: u64,
    /// Number of comments before the first record. `doubtful` is the first of them that may be a
    /// record.
    comments: u64,
    doubtful: Option<(u64, Vec<u8>)>,
}

impl Blocks {
    pub(super) fn new(source: Source, separator: Separator, block_bytes: u64) -> Self {
        Self {
            source,
            separator,
            raw: Vec::new(),
            line: 1,
            searched: 0,
            open: None,
            first: 0,
            done: false,
            block_bytes,
            comments: 0,
            doubtful: None,
        }
    }

    /// Adds the number of comments before the first record to the reading report. Warns if a
    /// comment has as many fields as the first record, because it may be a record whose id starts
    /// with `#`.
    pub(super) fn report_comments(&self, file: &str, first: &[u8], separator: Separator) {
        use eciton_input::notes;
        if self.comments > 0 {
            let lines = if self.comments == 1 { "line that starts" } else { "lines that start" };
            notes::fact(format!(
                "{file}: {} {lines} with # before the first record: read as a comment",
                self.comments
            ));
        }
        let count = |line: &[u8]| match separator {
            Separator::Byte(byte) => line.iter().filter(|&&b| b == byte).count() + 1,
            Separator::Blanks => line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count(),
        };
        let word = |line: &[u8]| {
            let end = line.iter().position(|byte| b",\t ".contains(byte)).unwrap_or(line.len());
            String::from_utf8_lossy(line.get(..end).unwrap_or_default()).trim().to_owned()
        };
        if let Some((line, text)) = &self.doubtful
            && count(text) == count(first)
            && count(first) > 1
            && !is_number(&word(first))
            && !is_header(&word(first))
            && !is_header(word(text).trim_start_matches('#'))
        {
            let shown = eciton_input::text::cut(&String::from_utf8_lossy(text), 60);
            notes::warn(format!(
                "{file}, line {line}: \"{shown}\" was read as a comment, but it has the same number of fields as a record; \
                 if it is one, write a header line before it, or quote its first field"
            ));
        }
    }

    /// Reads up to the first line that is neither blank nor a comment. Returns that line, or `None`
    /// if there is none.
    pub(super) fn first_line(&mut self) -> Result<Option<&[u8]>> {
        let mut from = 0;
        while self.first == 0 {
            let fresh = self.raw.get(self.searched..).unwrap_or_default();
            let end = memchr::memchr(b'\n', fresh).map(|end| self.searched + end);
            let Some(end) = end.or((self.done && from < self.raw.len()).then_some(self.raw.len())) else {
                if self.done {
                    self.raw.clear();
                    self.searched = 0;
                    return Ok(None);
                }
                self.raw.drain(..std::mem::take(&mut from));
                self.searched = self.raw.len();
                self.read()?;
                continue;
            };
            let line = self.raw.get(from..end).unwrap_or_default().to_vec();
            if self.skips(&line)? {
                self.line += 1;
                from = self.raw.len().min(end + 1);
                self.searched = from;
            } else {
                self.first = self.line;
                self.raw.drain(..from);
                self.searched = 0;
            }
        }
        let end = memchr::memchr(b'\n', &self.raw).unwrap_or(self.raw.len());
        let line = self.raw.get(..end).unwrap_or_default();
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Returns whether a line before the first record is blank or a comment.
    fn skips(&mut self, line: &[u8]) -> Result<bool> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if memchr::memchr(b'\r', line).is_some() {
            return Err(lone_cr(self.source.file(), self.line));
        }
        let trimmed = line.trim_ascii();
        if !trimmed.starts_with(b"#") {
            return Ok(trimmed.is_empty());
        }
        self.comments += 1;
        let word = trimmed.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if self.doubtful.is_none() && word != b"#" && !trimmed.starts_with(b"##") {
            self.doubtful = Some((self.line, trimmed.to_vec()));
        }
        Ok(true)
    }

    /// Returns the next block, or `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Block>> {
        if self.first_line()?.is_none() {
            return Ok(None);
        }
        loop {
            let end = match (self.ends(), self.done) {
                (0, true) => self.raw.len(),
                (end, _) => end,
            };
            if let (Some(open), true) = (self.open, self.done) {
                return Err(Error::malformed(
                    Place::line(self.source.file(), self.line_of(open)),
                    "a closing quote",
                    "the end of the file",
                ));
            }
            if end > 0 {
                let rest = self.raw.split_off(end);
                let text = std::mem::replace(&mut self.raw, rest);
                self.searched = self.searched.saturating_sub(end);
                self.open = self.open.map(|open| open.saturating_sub(end));
                let line = self.line;
                self.line += count(&text);
                return Ok(Some(Block { text, line }));
            }
            if self.done {
                return Ok(None);
            }
            self.read()?;
        }
    }

    /// Reads further bytes of the source into `raw`.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] if an incomplete record is too long.
    fn read(&mut self) -> Result<()> {
        let (found, start) = (self.raw.len() as u64, self.line == 1 && self.raw.is_empty());
        if found > MAX_LINE_BYTES {
            return Err(Error::Limit {
                place: Place::line(self.source.file(), self.line_of(self.open.unwrap_or_default())),
                limit: "record",
                unit: "bytes",
                allowed: MAX_LINE_BYTES,
                found,
                remedy: "write one record per line, and close all quotes",
            });
        }
        // A byte order mark must be read as a whole.
        let bytes = if self.first == 0 { self.block_bytes.clamp(4, FIRST_BYTES) } else { self.block_bytes };
        self.raw.reserve(bytes as usize);
        self.done = self.source.read(&mut self.raw, bytes)? == 0;
        if start && self.raw.starts_with(b"\xef\xbb\xbf") {
            self.raw.drain(..3);
        }
        Ok(())
    }

    /// Returns the line number of the byte at position `at` of `raw`.
    fn line_of(&self, at: usize) -> u64 {
        self.line + count(self.raw.get(..at).unwrap_or_default())
    }

    /// Searches the new bytes of `raw` for ends of records. Returns the end of the last complete
    /// record, or 0 if there is none.
    ///
    /// A quote opens only at the start of a field, as in the csv crate. Line breaks do not end the
    /// record until the quote closes.
    fn ends(&mut self) -> usize {
        let (mut end, mut at) = (0, self.searched);
        while let Some(rest) = self.raw.get(at..).filter(|rest| !rest.is_empty()) {
            let quote = match self.separator {
                Separator::Byte(_) => memchr::memchr(b'"', rest),
                Separator::Blanks => None,
            };
            if self.open.is_some() {
                let Some(quote) = quote else { break };
                match rest.get(quote + 1) {
                    Some(b'"') => at += quote + 2,
                    // The next byte determines whether the quote closes.
                    None if !self.done => {
                        self.searched = at + quote;
                        return end;
                    }
                    _ => {
                        self.open = None;
                        at += quote + 1;
                    }
                }
                continue;
            }
            let plain = rest.get(..quote.unwrap_or(rest.len())).unwrap_or_default();
            if let Some(last) = memchr::memrchr(b'\n', plain) {
                end = at + last + 1;
            }
            let Some(quote) = quote.map(|quote| at + quote) else { break };
            let before = quote.checked_sub(1).and_then(|before| self.raw.get(before));
            let starts = |&byte: &u8| byte == b'\n' || Separator::Byte(byte) == self.separator;
            if before.is_none_or(starts) {
                self.open = Some(quote);
            }
            at = quote + 1;
        }
        self.searched = self.raw.len();
        end
    }
}
