//! The text of a table: whole lines without comments.

use std::io;

use eciton_graph::error::{Error, Place, Result};

use super::{BLOCK_BYTES, Separator, is_header, is_number};
use crate::gzip::Source;
use crate::lines::MAX_LINE_BYTES;

/// A text as bytes for crate csv: line ends are `\n`, the last line has one, comments are empty lines.
pub(super) struct Text {
    source: Source,
    /// Read, but not handed on yet.
    raw: Vec<u8>,
    /// Bytes to be handed out, from `given` on.
    out: Vec<u8>,
    given: usize,
    /// The line that `raw` starts in.
    line: u64,
    /// The first line that is a record.
    pub(super) first: u64,
    /// The line of a quote that is open, and the bytes since.
    open: Option<(u64, u64)>,
    blanks: bool,
    done: bool,
    /// Comments before the first record, and the first of them that may be a record.
    comments: u64,
    doubtful: Option<(u64, Vec<u8>)>,
    /// Comments after the first record, and the line of the first one.
    later: (u64, u64),
}

impl Text {
    /// Returns the text of a source. Fields are separated by blanks if `blanks` is true.
    pub(super) fn new(source: Source, blanks: bool) -> Self {
        let (raw, out) = (Vec::new(), Vec::new());
        Self {
            source,
            raw,
            out,
            given: 0,
            line: 1,
            first: 0,
            open: None,
            blanks,
            done: false,
            comments: 0,
            doubtful: None,
            later: (0, 0),
        }
    }

    /// Adds comments before the first record to the reading report. A comment with as many fields as the
    /// first record may be a record whose id starts with `#`.
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
                "{file}, line {line}: \"{shown}\" was read as a comment, but it has as many fields as a record; \
                 if it is one, write a header line before it, or quote its first field"
            ));
        }
    }

    /// The first line that is no comment and not blank.
    pub(super) fn first_line(&mut self) -> Result<Option<&[u8]>> {
        while self.first == 0 && !self.done {
            self.out.clear();
            self.fill()?;
        }
        Ok(self.out.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()))
    }

    /// Reads a block and appends its whole lines to `out`.
    fn fill(&mut self) -> Result<()> {
        let before = self.raw.len();
        self.done = self.source.read(&mut self.raw, BLOCK_BYTES)? == 0;
        if self.line == 1 && self.raw.starts_with(b"\xef\xbb\xbf") {
            self.raw.drain(..3);
        }
        if self.done && !self.raw.is_empty() {
            self.raw.push(b'\n');
        }
        let mut raw = std::mem::take(&mut self.raw);
        let mut rest = &raw[..];
        // The bytes of earlier blocks hold no line end.
        let mut searched = before.min(rest.len());
        while let Some(end) = rest.get(searched..).and_then(|fresh| memchr::memchr(b'\n', fresh)) {
            let (line, after) = rest.split_at(searched + end);
            self.take(line)?;
            rest = after.get(1..).unwrap_or_default();
            searched = 0;
            self.line += 1;
        }
        let bytes = rest.len() as u64 + self.open.map_or(0, |(_, bytes)| bytes);
        if bytes > MAX_LINE_BYTES {
            return Err(self.too_long(bytes));
        }
        // A line of many blocks stays in place: copying it for each block would take quadratic time.
        let handed = raw.len() - rest.len();
        raw.drain(..handed);
        self.raw = raw;
        if let (true, (count @ 1.., line)) = (self.done, self.later) {
            eciton_input::notes::warn(format!(
                "{}: lines that start with # after the first record were read as comments: {count}, the \
                 first is line {line}; if they are records, write the table as .csv",
                self.source.file()
            ));
        }
        match self.open {
            Some((line, _)) if self.done => Err(Error::malformed(
                Place::line(self.source.file(), line),
                "a closing quote",
                "the end of the file",
            )),
            _ => Ok(()),
        }
    }

    /// Appends one line.
    fn take(&mut self, line: &[u8]) -> Result<()> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.open.is_none() {
            if memchr::memchr(b'\r', line).is_some() {
                return Err(lone_cr(self.source.file(), self.line));
            }
            let trimmed = line.trim_ascii();
            let word = trimmed.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let comment = trimmed.starts_with(b"#") && (self.first == 0 || (self.blanks && word == b"#"));
            if comment && self.first == 0 {
                self.comments += 1;
                if self.doubtful.is_none() && word != b"#" && !trimmed.starts_with(b"##") {
                    self.doubtful = Some((self.line, trimmed.to_vec()));
                }
            } else if comment {
                let line = if self.later.0 == 0 { self.line } else { self.later.1 };
                self.later = (self.later.0 + 1, line);
            }
            if trimmed.is_empty() || comment {
                self.out.push(b'\n');
                return Ok(());
            }
        }
        if self.first == 0 {
            self.first = self.line;
        }
        if self.blanks {
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            for (at, word) in words.enumerate() {
                if at > 0 {
                    self.out.push(b' ');
                }
                self.out.extend_from_slice(word);
            }
        } else {
            if memchr::memchr(b'"', line).is_some() {
                let odd = line.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
                match self.open {
                    Some(_) if odd => self.open = None,
                    None if odd => self.open = Some((self.line, 0)),
                    _ => {}
                }
            }
            if let Some((_, bytes)) = &mut self.open {
                *bytes += line.len() as u64 + 1;
                if *bytes > MAX_LINE_BYTES {
                    let bytes = *bytes;
                    return Err(self.too_long(bytes));
                }
            }
            self.out.extend_from_slice(line);
        }
        self.out.push(b'\n');
        Ok(())
    }

    fn too_long(&self, found: u64) -> Error {
        Error::Limit {
            place: Place::line(self.source.file(), self.open.map_or(self.line, |(line, _)| line)),
            limit: "record",
            unit: "bytes",
            allowed: MAX_LINE_BYTES,
            found,
            remedy: "write one record a line, and close quotes",
        }
    }
}

/// An error about line ends of old Macs, which would make one line of the file.
pub(crate) fn lone_cr(file: &str, line: u64) -> Error {
    Error::Malformed {
        place: Place::line(file, line),
        expected: "lines that end with LF or CR LF".to_owned(),
        found: "a carriage return (CR) alone".to_owned(),
        remedy: "write the file with other line ends, for instance: tr '\\r' '\\n' < OLD > NEW",
    }
}

impl io::Read for Text {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() && !self.done {
            self.out.clear();
            self.given = 0;
            self.fill().map_err(io::Error::other)?;
        }
        let rest = self.out.get(self.given..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}
