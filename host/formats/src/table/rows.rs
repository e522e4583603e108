//! Sequential reading of a table's records.

use std::io::Cursor;
use std::sync::Arc;

use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use eciton_graph::error::{Error, Place, Result};

use super::text::{Block, Blocks};
use super::{Separator, Table};
use crate::lines::lone_cr;

/// Record of a table.
#[derive(Clone, Default)]
pub(crate) struct Row {
    /// Text that contains all fields of the record.
    text: String,
    /// Start and end of each field in the text.
    fields: Vec<(usize, usize)>,
    /// Number of the line in which the record starts, from 1.
    line: u64,
    /// Positions of the fields that the row has, in this order. If `None`, the row has all fields
    /// of the record.
    select: Option<Arc<[usize]>>,
}

impl Row {
    /// Returns the number of the line in which the record starts, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the id in the field `field`.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the line if the field is empty.
    pub(crate) fn id(&self, table: &Table, field: usize) -> Result<&str> {
        match self.get(field) {
            "" => Err(Error::Malformed {
                place: Place::line(&table.file, self.line()),
                expected: format!("an id in column {}", field + 1),
                found: "an empty field".to_owned(),
                remedy: "write the id, or remove the line",
            }),
            word => Ok(word),
        }
    }

    /// Sets the row to the first line of `text`, which has no quotes. Returns the length of the
    /// line.
    fn split(&mut self, text: &str, separator: u8) -> usize {
        self.fields.clear();
        let (mut start, mut length) = (0, text.len());
        for (at, byte) in text.bytes().enumerate() {
            if byte == separator {
                self.fields.push((start, at));
                start = at + 1;
            } else if byte == b'\n' {
                length = at;
                break;
            }
        }
        self.fields.push((start, length));
        self.text.clear();
        self.text.push_str(text.get(..length).unwrap_or_default());
        length
    }

    /// Sets the row to a record that the csv crate has read.
    fn copy(&mut self, record: &StringRecord) {
        self.text.clear();
        self.text.push_str(record.as_slice());
        self.fields.clear();
        self.fields.extend((0..record.len()).filter_map(|at| record.range(at)).map(|of| (of.start, of.end)));
    }

    /// Returns the number of fields in the row.
    pub(crate) fn len(&self) -> usize {
        self.select.as_ref().map_or(self.fields.len(), |select| select.len())
    }

    /// Returns the text of a field without surrounding white space. The result is empty if the
    /// field does not exist.
    pub(crate) fn get(&self, field: usize) -> &str {
        let field = match &self.select {
            None => field,
            Some(select) => select.get(field).copied().unwrap_or(usize::MAX),
        };
        let field =
            self.fields.get(field).and_then(|&(from, to)| self.text.get(from..to)).unwrap_or_default();
        // Most fields have no blanks at their ends.
        match (field.bytes().next(), field.bytes().last()) {
            (Some(b'!'..=b'~'), Some(b'!'..=b'~')) => field,
            _ => field.trim(),
        }
    }

    /// Returns the texts of all fields, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|field| self.get(field))
    }
}

/// Reader of the records in a block.
pub(crate) struct Records<'a> {
    table: &'a Table,
    text: Text,
    /// Number of lines in the file before the block.
    before: u64,
    row: Row,
    /// True if the next call returns the current row once more.
    again: bool,
    /// Minimum number of fields of a record.
    fields: usize,
    /// Number of fields of the table's first record, and its line.
    first: Option<(usize, u64)>,
    /// Number of comments after the first record, and the line of the first one.
    pub(super) comments: (u64, u64),
}

/// Text of a block, prepared for reading.
enum Text {
    /// Text without quotes, with the position and the line of the next record.
    Plain(String, usize, u64),
    /// Text that has quotes or is not UTF-8, which the csv crate reads.
    Quoted(Box<Reader<Cursor<Vec<u8>>>>, StringRecord),
}

impl Text {
    fn new(separator: Separator, text: Vec<u8>) -> Self {
        let text = match memchr::memchr(b'"', &text).is_none() || separator == Separator::Blanks {
            true => String::from_utf8(text).map_err(std::string::FromUtf8Error::into_bytes),
            false => Err(text),
        };
        match text {
            Ok(text) => Self::Plain(text, 0, 1),
            Err(text) => {
                let mut reader = ReaderBuilder::new();
                reader.has_headers(false).flexible(true).quoting(separator != Separator::Blanks);
                reader.delimiter(separator.byte()).buffer_capacity(1 << 16);
                Self::Quoted(Box::new(reader.from_reader(Cursor::new(text))), StringRecord::new())
            }
        }
    }
}

impl<'a> Records<'a> {
    /// Creates a reader without a block, which has no records yet.
    pub(super) fn new(table: &'a Table, fields: usize) -> Self {
        Self {
            table,
            text: Text::Plain(String::new(), 0, 1),
            before: 0,
            row: Row { select: table.select.clone(), ..Row::default() },
            again: false,
            fields,
            first: None,
            comments: (0, 0),
        }
    }

    /// Returns a reader for another block of the same table.
    pub(super) fn following(&self, block: Block) -> Result<Self> {
        let mut made = Self { first: self.first, ..Self::new(self.table, self.fields) };
        made.open(block)?;
        Ok(made)
    }

    /// Starts reading the next block.
    pub(super) fn open(&mut self, block: Block) -> Result<()> {
        self.before = block.line - 1;
        let blanks = self.table.separator == Separator::Blanks;
        let text = match blanks || memchr::memchr(b'\r', &block.text).is_some() {
            true => self.plain(&block, blanks)?,
            false => block.text,
        };
        self.text = Text::new(self.table.separator, text);
        Ok(())
    }

    /// Returns the text of a block in the form that the csv crate reads. Lines end with LF, fields
    /// are separated by one space, and comments become empty lines.
    fn plain(&mut self, block: &Block, blanks: bool) -> Result<Vec<u8>> {
        let mut text = Vec::with_capacity(block.text.len());
        let mut open = false;
        for (number, line) in (block.line..).zip(block.text.split(|&byte| byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !open && memchr::memchr(b'\r', line).is_some() {
                return Err(lone_cr(&self.table.file, number));
            }
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).peekable();
            if !blanks {
                open ^= memchr::memchr_iter(b'"', line).count() % 2 == 1;
                text.extend_from_slice(line);
            } else if words.next_if_eq(&&b"#"[..]).is_some() {
                let first = if self.comments.0 == 0 { number } else { self.comments.1 };
                self.comments = (self.comments.0 + 1, first);
            } else {
                for (at, word) in words.enumerate() {
                    if at > 0 {
                        text.push(b' ');
                    }
                    text.extend_from_slice(word);
                }
            }
            text.push(b'\n');
        }
        Ok(text)
    }

    /// Returns the next row, or `None` at the end of the block.
    pub(crate) fn next(&mut self) -> Result<Option<&Row>> {
        Ok(if self.advance()? { Some(&self.row) } else { None })
    }

    /// Advances to the next row. Returns whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        loop {
            let line = match &mut self.text {
                Text::Plain(text, at, line) => {
                    let Some(rest) = text.get(*at..).filter(|rest| !rest.is_empty()) else {
                        return Ok(false);
                    };
                    let length = self.row.split(rest, self.table.separator.byte());
                    (*at, *line) = (*at + length + 1, *line + 1);
                    *line - 1
                }
                Text::Quoted(reader, record) => {
                    let before = reader.position().line();
                    match reader.read_record(record) {
                        Ok(true) => {}
                        Ok(false) => return Ok(false),
                        Err(error) => return Err(self.refused(error, before)),
                    }
                    // The record ends in the line before `after`. Lines that it does not span are
                    // blank lines before it.
                    let after = reader.position().line();
                    let spanned = match after.saturating_sub(before) {
                        0 | 1 => 0,
                        _ => memchr::memchr_iter(b'\n', record.as_slice().as_bytes()).count() as u64,
                    };
                    self.row.copy(record);
                    after.saturating_sub(1 + spanned).max(1)
                }
            };
            self.row.line = self.before + line;
            let found = self.row.fields.len();
            let tabs = self.table.separator == Separator::Byte(b'\t');
            if (found == 1 || tabs) && self.row.text.trim_ascii().is_empty() {
                continue;
            }
            if let Some((wanted, line)) = self.first.filter(|(wanted, _)| found != *wanted) {
                return Err(self.ragged(wanted, line));
            }
            if self.row.len() < self.fields {
                let (expected, found) =
                    (format!("at least {} fields", self.fields), format!("{found} field(s)"));
                return Err(self.table.wrong(self.row.line(), &expected, &found));
            }
            self.first.get_or_insert((found, self.row.line()));
            return Ok(true);
        }
    }

    /// Returns the error for a record that has another number of fields than the first record.
    /// `wanted` and `line` are those of the first record.
    fn ragged(&self, wanted: usize, line: u64) -> Error {
        let found = self.row.fields.len();
        let remedy = match self.row.get(0).starts_with('#') {
            true => {
                "after the first record, lines that start with # are records: move comments to the start of the file"
            }
            false if found > wanted && self.table.is_edges() => {
                "write one edge per line, each with the same columns (a vertex and all its neighbours \
                 in one line is an adjacency list)"
            }
            false if found == wanted + 1 => {
                "name every column in the header (R's write.table needs col.names=NA), and quote fields \
                 that hold the separator"
            }
            false if found > wanted => {
                "write the same number of fields in every line, and quote fields that contain the separator"
            }
            false => "write the same number of fields in every line, with an empty field for a missing value",
        };
        Error::Malformed {
            place: Place::line(&self.table.file, self.row.line()),
            expected: format!("{wanted} fields, as in line {line}"),
            found: if found == 1 { "1 field".to_owned() } else { format!("{found} fields") },
            remedy,
        }
    }

    /// Converts an error of the csv crate to an error with the line. `before` is the line at which
    /// the reader was before.
    fn refused(&self, error: csv::Error, before: u64) -> Error {
        let line = self.before + error.position().map_or(1, csv::Position::line).max(before);
        let place = Place::line(&self.table.file, line);
        match error.into_kind() {
            ErrorKind::Utf8 { .. } => Error::malformed(place, "UTF-8 text", "other bytes"),
            ErrorKind::Io(error) => match error.downcast::<Error>() {
                Ok(own) => own,
                Err(source) => Error::Read { path: self.table.path.clone(), source },
            },
            other => Error::malformed(place, "a record", format!("{other:?}")),
        }
    }
}

/// Sequential reader of all rows of a table.
pub(crate) struct Rows<'a> {
    pub(super) blocks: Blocks,
    pub(super) records: Records<'a>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(blocks: Blocks, records: Records<'a>) -> Self {
        Self { blocks, records }
    }

    /// Returns the next row, or `None` at the end of the table.
    pub(crate) fn next(&mut self) -> Result<Option<&Row>> {
        while !self.records.advance()? {
            let Some(block) = self.blocks.next()? else {
                self.records.table.report_comments(self.records.comments);
                return Ok(None);
            };
            self.records.open(block)?;
        }
        Ok(Some(&self.records.row))
    }

    /// Reads the first row without consuming it. Returns whether there is a row.
    pub(super) fn peek(&mut self) -> Result<bool> {
        self.records.again = self.next()?.is_some();
        Ok(self.records.again)
    }
}
