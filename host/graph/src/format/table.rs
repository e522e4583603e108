//! Text tables: comma, tab or blank separated, with quoted fields, `#` comments and an optional
//! header line.

use std::borrow::Cow;
use std::path::Path;

use super::file;
use crate::error::{Error, Place, Result};

/// What separates fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    Byte(u8),
    /// Any run of blanks and tabs.
    Blanks,
}

/// A text table in memory.
pub(crate) struct Table {
    text: String,
    separator: Separator,
    pub(crate) file: String,
}

/// A record: its line and its fields.
pub(crate) struct Record<'a> {
    pub(crate) line: u64,
    pub(crate) fields: Vec<Cow<'a, str>>,
}

impl Table {
    /// Reads a file; its extension chooses the separator (`tsv` tabs, `csv` commas; anything else a
    /// comma, tab or blanks, whichever the first line has).
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::new(file::read(path)?, &file::name(path))
    }

    pub(crate) fn new(bytes: Vec<u8>, name: &str) -> Result<Self> {
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to() as u64;
            Error::malformed(Place::byte(name, at), "UTF-8 text", "other bytes")
        })?;
        let first = text.lines().find(|l| is_record(l)).unwrap_or("");
        let separator = match name.strip_suffix(".gz").unwrap_or(name).rsplit('.').next() {
            Some("csv") => Separator::Byte(b','),
            Some("tsv") => Separator::Byte(b'\t'),
            _ if first.contains(',') => Separator::Byte(b','),
            _ if first.contains('\t') => Separator::Byte(b'\t'),
            _ => Separator::Blanks,
        };
        Ok(Self { text, separator, file: name.to_owned() })
    }

    /// The records in order, the header if any included.
    pub(crate) fn records(&self) -> Records<'_> {
        let rest = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        Records { rest, line: 0, separator: self.separator, file: &self.file }
    }

    /// An error about a field.
    pub(crate) fn wrong(&self, line: u64, expected: &str, found: &str) -> Error {
        let place = Place::line(&self.file, line);
        Error::malformed(place, expected, format!("{found:.60?}"))
    }
}

fn is_record(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// Iterates over records.
pub(crate) struct Records<'a> {
    rest: &'a str,
    line: u64,
    separator: Separator,
    file: &'a str,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.line += 1;
            if !is_record(line) {
                self.rest = rest;
                continue;
            }
            let start = self.line;
            if !line.contains('"') || self.separator == Separator::Blanks {
                self.rest = rest;
                let line = line.trim_end_matches('\r');
                let fields = match self.separator {
                    Separator::Blanks => line.split_whitespace().map(Cow::Borrowed).collect(),
                    Separator::Byte(byte) => {
                        line.split(char::from(byte)).map(|f| Cow::Borrowed(f.trim())).collect()
                    }
                };
                return Some(Ok(Record { line: start, fields }));
            }
            return Some(self.quoted(start));
        }
    }
}

impl<'a> Records<'a> {
    /// A record with quoted fields, in which separators and line ends are text and "" is a quote.
    fn quoted(&mut self, start: u64) -> Result<Record<'a>> {
        let Separator::Byte(separator) = self.separator else {
            return Ok(Record { line: start, fields: Vec::new() });
        };
        let (mut fields, mut field, mut open) = (Vec::new(), String::new(), false);
        let mut characters = self.rest.char_indices().peekable();
        let mut end = self.rest.len();
        while let Some((at, c)) = characters.next() {
            match c {
                '"' if open && characters.peek().is_some_and(|&(_, c)| c == '"') => {
                    characters.next();
                    field.push('"');
                }
                '"' => open = !open,
                '\n' if open => {
                    self.line += 1;
                    field.push('\n');
                }
                '\n' => {
                    end = at + 1;
                    break;
                }
                '\r' if !open => {}
                c if !open && c == char::from(separator) => {
                    fields.push(Cow::Owned(std::mem::take(&mut field)));
                }
                c => field.push(c),
            }
        }
        if open {
            let place = Place::line(self.file, start);
            self.rest = "";
            return Err(Error::malformed(place, "a closing quote", "the end of the file"));
        }
        self.rest = &self.rest[end..];
        fields.push(Cow::Owned(field));
        Ok(Record { line: start, fields })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn fields(text: &str, name: &str) -> Vec<(u64, Vec<String>)> {
        let table = Table::new(text.as_bytes().to_vec(), name).unwrap();
        table
            .records()
            .map(|r| r.unwrap())
            .map(|r| (r.line, r.fields.iter().map(|f| f.to_string()).collect()))
            .collect()
    }

    #[test]
    fn quotes_comments_and_line_ends() {
        let text = "\u{feff}# hello\r\na, b\r\n\r\n\"x, \"\"y\"\"\nz\",2\n3,\"4\"";
        let found = fields(text, "a.csv");
        let expected = [(2, vec!["a", "b"]), (4, vec!["x, \"y\"\nz", "2"]), (6, vec!["3", "4"])];
        assert_eq!(found.len(), 3);
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!((found.0, found.1.iter().map(String::as_str).collect::<Vec<_>>()), expected);
        }
        assert_eq!(fields("1  2\t3\n", "a.edges")[0].1.len(), 2);
        assert_eq!(fields("1  2 3\n", "a.txt")[0].1, ["1", "2", "3"]);
        assert_eq!(fields("1,2\n", "a.txt")[0].1, ["1", "2"]);
        assert_eq!(fields("1\t\t2\n", "a.tsv")[0].1, ["1", "", "2"]);
    }

    #[test]
    fn open_quotes_and_other_bytes_are_errors() {
        let table = Table::new(b"a,\"b\n".to_vec(), "a.csv").unwrap();
        let text = table.records().next().unwrap().err().unwrap().to_string();
        assert!(text.contains("a.csv, line 1"), "{text}");
        assert!(Table::new(vec![0xff], "a.csv").is_err());
    }
}
