//! Text tables, which are read in blocks of complete records. Fields are separated by commas, tabs
//! or spaces, and may be quoted. A header is optional. [`Table::blocks`] reads on all processors,
//! and [`Table::each`] on the calling thread.
//!
//! Before the first record, lines that start with `#` are comments. After it they are records. Only
//! in tables separated by spaces, a later line whose first word is `#` is a comment. Every record
//! has the same number of fields as the first one. Reading needs memory for a few blocks of the
//! file and its longest record. A table may be read any number of times. [`Table::view`] selects
//! columns, so that a single file can contain several tables.

mod parallel;
mod rows;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use eciton_graph::error::{Error, Place, Result};

use self::text::{BLOCK_BYTES, Blocks};
use super::gzip::Source;
use super::{columnar, file};

pub(crate) use rows::{Records, Row, Rows};

/// Separator between the fields of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Byte(u8),
    /// Any sequence of spaces and tabs.
    Blanks,
}

impl Separator {
    /// Returns the separator as a byte. Sequences of spaces and tabs are reduced to one space
    /// before.
    fn byte(self) -> u8 {
        match self {
            Self::Byte(byte) => byte,
            Self::Blanks => b' ',
        }
    }
}

/// Words that mark a first record as a header if they are its first field.
const HEADERS: [&str; 17] = [
    "id",
    "node",
    "vertex",
    "source",
    "src",
    "from",
    "u",
    "id_1",
    "node_1",
    "id1",
    "node1",
    "node_id",
    "vertex_id",
    "head",
    "name",
    "paper",
    "user",
];

/// Boolean that can be set through a shared reference.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new(value: bool) -> Self {
        Self(AtomicBool::new(value))
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, value: bool) {
        self.0.store(value, Relaxed);
    }
}

impl Clone for Flag {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

/// Text table in a file, which may be a view of some of the file's columns.
#[derive(Clone)]
pub(crate) struct Table {
    path: PathBuf,
    /// Name of the file for error messages.
    pub(crate) file: String,
    separator: Separator,
    /// True if the first record is a header, which [`Table::rows`] omits.
    pub(crate) header: Flag,
    /// True if the decision about the header is final, for instance after a comparison with other
    /// tables of the folder.
    settled: Flag,
    /// Positions of the fields that are columns of this table, in this order. If `None`, all fields
    /// are.
    select: Option<Arc<[usize]>>,
    /// Text of a table that was converted from another format. `None` for a text file.
    text: Option<Arc<[u8]>>,
    /// True if the records are the edges of a folder.
    edges: Flag,
    /// Number of bytes that are read from the file at a time.
    block_bytes: u64,
}

impl Table {
    /// Opens a table. The file name extension determines the separator (tabs for `tsv`, commas for
    /// `csv`). For other extensions, it is the first of comma, tab and space that the first record
    /// contains.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = file::name(path);
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("edges"));
        if columnar::is_columnar(path) {
            let edges = Flag::new(named);
            return Ok(Self { edges, ..Self::of_text(columnar::text(path)?, path, &file) });
        }
        let mut text = Blocks::new(Source::open(path)?, Separator::Byte(b','), BLOCK_BYTES);
        let first = text.first_line()?.unwrap_or_default().to_vec();
        let separator = match file.strip_suffix(".gz").unwrap_or(&file).rsplit('.').next() {
            Some("csv") => Separator::Byte(b','),
            Some("tsv") => Separator::Byte(b'\t'),
            _ if first.contains(&b',') => Separator::Byte(b','),
            _ if first.contains(&b'\t') => Separator::Byte(b'\t'),
            _ => Separator::Blanks,
        };
        if let Separator::Byte(wanted) = separator
            && !first.contains(&wanted)
            && let Some((_, seen)) =
                [(b';', ";"), (b'\t', "a tab")].into_iter().find(|(s, _)| first.contains(s))
        {
            return Err(Error::Malformed {
                place: Place::line(&file, text.first),
                expected: format!("fields separated by {}", if wanted == b',' { "commas" } else { "tabs" }),
                found: format!("{seen} between them"),
                remedy: "write the table with commas (.csv) or tabs (.tsv)",
            });
        }
        text.report_comments(&file, &first, separator);
        let (header, settled) = (Flag::new(false), Flag::new(false));
        let edges = Flag::new(named);
        let (path, block_bytes) = (path.to_owned(), BLOCK_BYTES);
        Ok(Self { path, file, separator, header, settled, select: None, text: None, edges, block_bytes })
    }

    /// Creates a table from comma-separated text with a header, which was converted from the file
    /// at `path`. `file` is the name for error messages.
    pub(crate) fn of_text(text: Arc<[u8]>, path: &Path, file: &str) -> Self {
        Self {
            path: path.to_owned(),
            file: file.to_owned(),
            separator: Separator::Byte(b','),
            header: Flag::new(true),
            settled: Flag::new(true),
            select: None,
            text: Some(text),
            edges: Flag::new(false),
            block_bytes: BLOCK_BYTES,
        }
    }

    /// Returns a view of the table whose columns are those at the positions `select`, in this
    /// order.
    pub(crate) fn view(&self, select: &[usize]) -> Self {
        let select = select.iter().map(|&at| self.select.as_ref().map_or(at, |of| of[at])).collect();
        Self { select: Some(select), ..self.clone() }
    }

    /// Returns the same table, but reads it in blocks of `block_bytes` bytes.
    #[cfg(test)]
    pub(crate) fn in_blocks(&self, block_bytes: u64) -> Self {
        Self { block_bytes, ..self.clone() }
    }

    /// Returns whether the table is a view that selects columns.
    pub(crate) fn is_view(&self) -> bool {
        self.select.is_some()
    }

    /// Marks the table as the edges of a folder, which changes some messages.
    pub(crate) fn set_edges(&self) {
        self.edges.set(true);
    }

    /// Returns the path of the table's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn source(&self) -> Result<Source> {
        match &self.text {
            Some(text) => Ok(Source::memory(text.clone(), &self.file)),
            None => Source::open(&self.path),
        }
    }

    /// Decides finally whether the first record is a header. Later calls of [`Table::set_header`]
    /// have no effect.
    pub(crate) fn settle(&self, header: bool) {
        self.header.set(header);
        self.settled.set(true);
    }

    /// Decides whether the first record is a header, unless the decision is already final.
    pub(crate) fn set_header(&self, header: bool) {
        if !self.settled.get() {
            self.header.set(header);
        }
    }

    /// Returns whether the decision about the header is final.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get()
    }

    /// Adds a fact to the reading report that states how the first record was read. `others` are
    /// views of the same file with further columns.
    pub(crate) fn report_header(&self, others: &[&Self]) {
        let Ok(first) = self.first(0) else { return };
        let others: Vec<Row> = others.iter().filter_map(|other| other.first(0).ok()).collect();
        let further = others.iter().flat_map(|row| row.fields().skip(1));
        let words: Vec<&str> = first.fields().chain(further).collect();
        let taken = match self.header.get() {
            true if is_header(first.get(0)) => "a header, by its first field",
            true => "a header, by the other records",
            false => "data",
        };
        let words = eciton_input::text::cut(&words.join(", "), 60);
        eciton_input::notes::fact(format!(
            "{}: the first record, line {} (\"{words}\"), was read as {taken}",
            self.file,
            first.line()
        ));
    }

    /// Returns a reader of all records, including a header. Each record must have at least `fields`
    /// fields.
    pub(crate) fn records(&self, fields: usize) -> Result<Rows<'_>> {
        Ok(Rows::new(
            Blocks::new(self.source()?, self.separator, self.block_bytes),
            Records::new(self, fields),
        ))
    }

    /// Returns a reader of all records except the header.
    pub(crate) fn rows(&self, fields: usize) -> Result<Rows<'_>> {
        let mut rows = self.records(fields)?;
        if self.header.get() {
            rows.next()?;
        }
        Ok(rows)
    }

    /// Calls `each` with every record except the header. Each record must have at least `fields`
    /// fields.
    pub(crate) fn each(&self, fields: usize, mut each: impl FnMut(&Row) -> Result<()>) -> Result<()> {
        let mut rows = self.rows(fields)?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    }

    /// Returns the first record, regardless of whether it is a header.
    pub(crate) fn first(&self, fields: usize) -> Result<Row> {
        let mut rows = self.records(fields)?;
        match rows.next()? {
            Some(row) => Ok(row.clone()),
            None => Err(self.empty("at least one record")),
        }
    }

    /// Returns the error for a table without records. `expected` describes the expected content.
    pub(crate) fn empty(&self, expected: &str) -> Error {
        Error::Malformed {
            place: Place::whole(&self.file),
            expected: expected.to_owned(),
            found: "none".to_owned(),
            remedy: "write the table with records, or remove the file",
        }
    }

    /// Decides whether the first record is a header. It is one if its first field is a known header
    /// word, or if its id is the only one that is not a number. Returns the decision.
    pub(crate) fn find_header(&self, fields: usize) -> Result<bool> {
        if self.settled.get() {
            return Ok(self.header.get());
        }
        let first = self.first(fields)?;
        let word = first.get(0);
        let is_word = crate::numbers::number(word).is_none();
        let header = is_header(word) || (is_word && self.numbers_below(0, is_number)?);
        self.header.set(header);
        Ok(header)
    }

    /// Decides about the header like [`Table::find_header`], for a table whose ids may be words. A
    /// word above numbers in the second column also indicates a header.
    pub(crate) fn find_header_of_words(&self) -> Result<()> {
        if self.settled.get() {
            return Ok(());
        }
        let first = self.first(2)?;
        let above = !self.find_header(2)?
            && !is_number(first.get(0))
            && is_word(first.get(1))
            && self.numbers_below(1, |field| !is_word(field))?;
        if above {
            self.header.set(true);
            self.note(true, "its second field is the only word in the column");
        }
        Ok(())
    }

    /// Decides about the header like [`Table::find_header`], for a table whose fields after the id
    /// are all numbers. A word among these fields in the first record also indicates a header.
    pub(crate) fn find_header_of_numbers(&self) -> Result<bool> {
        if self.settled.get() {
            return Ok(self.header.get());
        }
        let first = self.first(2)?;
        let words = !is_number(first.get(0)) && first.fields().skip(1).any(is_word);
        if !words {
            return self.find_header(2);
        }
        self.header.set(true);
        Ok(true)
    }

    /// Returns whether a column has fields below the first record, and `number` is true for all of
    /// them.
    fn numbers_below(&self, column: usize, number: impl Fn(&str) -> bool) -> Result<bool> {
        let mut rows = self.records(0)?;
        rows.next()?;
        let mut some = false;
        while let Some(row) = rows.next()? {
            if !number(row.get(column)) {
                return Ok(false);
            }
            some = true;
        }
        Ok(some)
    }

    /// Returns the column names of the header from position `first` on. The list is empty if there
    /// is no header, or if a name is empty or occurs twice.
    pub(crate) fn names(&self, first: usize) -> Result<Vec<String>> {
        if !self.header.get() {
            return Ok(Vec::new());
        }
        let head = self.first(0)?;
        let names: Vec<String> = head.fields().skip(first).map(named).collect();
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let own = sorted.first().is_some_and(|name| !name.is_empty())
            && sorted.windows(2).all(|pair| pair.first() != pair.last());
        Ok(if own { names } else { Vec::new() })
    }

    /// Returns whether the table contains the edges of a folder.
    pub(crate) fn is_edges(&self) -> bool {
        self.edges.get()
    }

    /// Returns an error if the first column has no name and counts the rows. pandas writes its
    /// index in this way.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the line of the header for such a column. Also returns the
    /// errors of reading the table.
    pub(crate) fn refuse_index(&self) -> Result<()> {
        let mut rows = self.records(0)?;
        let Some(first) = rows.next()? else { return Ok(()) };
        let (name, line) = (first.get(0).to_owned(), first.line());
        if !is_unnamed(&name) || first.len() < 2 {
            return Ok(());
        }
        let (mut expected, mut some) = (None, false);
        while let Some(row) = rows.next()? {
            let number: Option<u64> = row.get(0).parse().ok();
            let starts = expected.is_none() && number.is_some_and(|number| number < 2);
            if number.is_none() || (number != expected && !starts) {
                return Ok(());
            }
            expected = number.and_then(|number| number.checked_add(1));
            some = true;
        }
        if !some {
            return Ok(());
        }
        Err(Error::Malformed {
            place: Place::line(&self.file, line),
            expected: "a name for the first column".to_owned(),
            found: format!(
                "a column {} that counts the rows, as pandas writes its index",
                if name.is_empty() { "without a name".to_owned() } else { format!("{name:.40?}") }
            ),
            remedy: "write the table with to_csv(index=False); if the column contains ids, name it id",
        })
    }

    /// Returns the size of the file in bytes, which is the compressed size of a gzip file.
    pub(crate) fn bytes(&self) -> Result<u64> {
        if let Some(text) = &self.text {
            return Ok(text.len() as u64);
        }
        let refused = |source| Error::Read { path: self.path.clone(), source };
        Ok(std::fs::metadata(&self.path).map_err(refused)?.len())
    }

    /// Adds a note to the reading report that the first record was read as a header or as data.
    /// `why` is the reason.
    pub(crate) fn note(&self, header: bool, why: &str) {
        let Ok(first) = self.first(0) else { return };
        let words: Vec<&str> = first.fields().collect();
        let taken = if header { "a header" } else { "data" };
        let (words, line) = (eciton_input::text::cut(&words.join(", "), 60), first.line());
        eciton_input::notes::add(format!(
            "{}, line {line}: \"{words}\" was read as {taken}: {why}",
            self.file
        ));
    }

    /// Returns the error for an invalid field in the given line.
    pub(crate) fn wrong(&self, line: u64, expected: &str, found: &str) -> Error {
        let place = Place::line(&self.file, line);
        Error::malformed(place, expected, format!("{found:.60?}"))
    }
}

/// Returns whether a column name is empty or the name that pandas gives to a column without a name.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.is_empty() || name.strip_prefix("Unnamed: ").is_some_and(is_number)
}

/// Maximum length of a column name, in characters.
const MAX_NAME: usize = 200;

/// Returns the column name in a header field, cut to the maximum length.
pub(crate) fn named(field: &str) -> String {
    field.chars().take(MAX_NAME).collect()
}

/// Returns whether a word is an unsigned integer.
pub(crate) fn is_number(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

/// Returns whether a field is neither a number nor empty.
fn is_word(field: &str) -> bool {
    !field.is_empty() && field.parse::<f32>().is_err()
}

/// Returns whether a first field marks a record as a header. It is a known header word, or empty,
/// because ids are never empty and pandas writes an empty name for its index.
pub(crate) fn is_header(word: &str) -> bool {
    word.is_empty() || HEADERS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::lines::MAX_LINE_BYTES;

    fn read(text: &[u8], name: &str) -> Result<Vec<(u64, Vec<String>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let table = Table::open(&path)?;
        let mut rows = table.records(0)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((row.line(), row.fields().map(str::to_owned).collect()));
        }
        Ok(found)
    }

    fn fields(text: &str, name: &str) -> Vec<(u64, Vec<String>)> {
        read(text.as_bytes(), name).unwrap()
    }

    #[test]
    fn quotes_comments_and_line_ends() {
        let text = "\u{feff}# hello\r\na, b\r\n\r\n  # more, c\n\"x, \"\"y\"\"\n#z\",2\n3,\"4\"";
        let found = fields(text, "a.csv");
        let expected = [
            (2, vec!["a", "b"]),
            (4, vec!["# more", "c"]),
            (5, vec!["x, \"y\"\n#z", "2"]),
            (7, vec!["3", "4"]),
        ];
        assert_eq!(found.len(), 4);
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!((found.0, found.1.iter().map(String::as_str).collect::<Vec<_>>()), expected);
        }
        assert_eq!(fields("1  2\t3\n", "a.edges")[0].1.len(), 2);
        assert_eq!(fields(" 1  2 3 \n", "a.txt")[0].1, ["1", "2", "3"]);
        assert_eq!(fields("1,2\n", "a.txt")[0].1, ["1", "2"]);
        assert_eq!(fields("1\t\t2\n", "a.tsv")[0].1, ["1", "", "2"]);
        assert!(fields("# only\n\n", "a.csv").is_empty());
    }

    type Found = Vec<(u64, Vec<String>)>;

    fn owned(row: &Row) -> (u64, Vec<String>) {
        (row.line(), row.fields().map(str::to_owned).collect())
    }

    /// Tests that every division into blocks gives all records, with one thread and with many.
    #[test]
    fn blocks_of_any_size_hold_every_record_once() {
        let seed = 46_002;
        println!("seed {seed}");
        let mut random = eciton_graph::random::SplitMix64::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let words = ["1", "-2.5", "word", "", " x ", "\u{fc}", "5\" wide", "#"];
        let quoted = ["\"a,b\"", "\"\"", "\"say \"\"yes\"\"\"", "\"two\nlines\n\"", "\"\n,\t\""];
        for case in 0..120 {
            let (name, separator) = [("a.csv", ","), ("a.tsv", "\t"), ("a.txt", "  ")][case % 3];
            let (quotes, returns) = (case % 2 == 1 && name != "a.txt", case % 5 == 4);
            let mut text = ["", "# a comment\n\n", "\u{feff}"][random.below(3) as usize].to_owned();
            for _ in 0..1 + random.below(40) {
                let field =
                    |random: &mut eciton_graph::random::SplitMix64| match quotes && random.below(3) == 0 {
                        true => quoted[random.below(quoted.len() as u64) as usize],
                        false if name == "a.txt" => words[random.below(3) as usize],
                        false => words[random.below(words.len() as u64) as usize],
                    };
                let fields = ["0", field(&mut random), field(&mut random)];
                text.push_str(&fields.join(separator));
                text.push_str(["\n", "\n", "\n\n"][random.below(3) as usize]);
            }
            if returns {
                text = text.replace('\n', "\r\n");
            }
            if random.below(2) == 0 {
                text.truncate(text.trim_end_matches(['\r', '\n']).len());
            }
            let path = folder.path().join(name);
            std::fs::write(&path, &text).unwrap();
            let whole = Table::open(&path).unwrap();
            let mut expected = Found::new();
            whole
                .each(0, |row| {
                    expected.push(owned(row));
                    Ok(())
                })
                .unwrap();
            if name != "a.txt" && !returns {
                let start = text.find("0,").or(text.find("0\t")).unwrap();
                let mut reader = csv::ReaderBuilder::new();
                reader.has_headers(false).delimiter(separator.as_bytes()[0]);
                let records = reader.from_reader(&text.as_bytes()[start..]).into_records();
                let fields: Vec<Vec<String>> = records
                    .map(|record| record.unwrap().iter().map(|f| f.trim().to_owned()).collect())
                    .collect();
                assert_eq!(expected.iter().map(|(_, fields)| fields.clone()).collect::<Vec<_>>(), fields);
            }
            for block_bytes in [1, 2, 3, 7, 64, 500] {
                let table = whole.in_blocks(block_bytes);
                let mut one = Found::new();
                table
                    .each(0, |row| {
                        one.push(owned(row));
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(one, expected, "case {case}, {block_bytes} bytes of {text:?}");
                let mut many = Found::new();
                let block = |rows: &mut Records<'_>| {
                    let mut found = Found::new();
                    while let Some(row) = rows.next()? {
                        found.push(owned(row));
                    }
                    Ok(found)
                };
                table
                    .blocks(0, block, |found| {
                        many.extend(found);
                        Ok(true)
                    })
                    .unwrap();
                assert_eq!(many, expected, "case {case}, {block_bytes} bytes of {text:?}");
            }
        }
    }

    #[test]
    fn the_first_error_in_the_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let text =
            "1,2\n".repeat(300) + "1,x\n" + &"1,2\n".repeat(50) + "1,2,3\n" + &"1,2\n".repeat(300) + "\"";
        std::fs::write(&path, text).unwrap();
        let table = Table::open(&path).unwrap().in_blocks(16);
        let block = |rows: &mut Records<'_>| {
            while let Some(row) = rows.next()? {
                if row.get(1) == "x" {
                    return Err(Error::malformed(Place::line("a.csv", row.line()), "2", "x"));
                }
            }
            Ok(())
        };
        for _ in 0..20 {
            let error = table.blocks(2, block, |()| Ok(true)).unwrap_err().to_string();
            assert!(error.contains("line 301"), "{error}");
            let error = table.blocks(2, while_some, |()| Ok(true)).unwrap_err().to_string();
            assert!(error.contains("line 352: expected 2 fields"), "{error}");
        }
        let mut blocks = 0;
        let stopped = table.blocks(
            2,
            |rows| rows.next().map(drop),
            |()| {
                blocks += 1;
                Ok(blocks < 3)
            },
        );
        assert!(stopped.is_ok() && blocks == 3);
    }

    fn while_some(rows: &mut Records<'_>) -> Result<()> {
        while rows.next()?.is_some() {}
        Ok(())
    }

    #[test]
    fn lines_are_counted_across_blocks() {
        let text = "12345 6\n# a comment\n".repeat(40_000);
        let found = fields(&text, "a.txt");
        assert_eq!(found.len(), 40_000);
        assert!((0..).zip(&found).all(|(at, row)| row.0 == 2 * at + 1));
    }

    #[test]
    fn what_is_no_table_is_told_with_its_line() {
        let long = [b"a,b\n".to_vec(), vec![b'1'; MAX_LINE_BYTES as usize + 2]].concat();
        let open = [b"a,b\n\"".to_vec(), b"1\n".repeat(MAX_LINE_BYTES as usize / 2 + 1)].concat();
        for (text, said) in [
            (&b"c,d\na,\"b\n"[..], "a.csv, line 2: expected a closing quote, found the end of the file"),
            (b"c,d\na,\xff\n", "line 2: expected UTF-8 text"),
            (
                b"a,b\rc,d\r",
                "line 1: expected lines that end with LF or CR LF, found a carriage return (CR) alone",
            ),
            (b"# x\na;b\n", "line 2: expected fields separated by commas, found ; between them"),
            (b"a\tb\n", "found a tab between them"),
            (&long, "line 2: 16777218 bytes, above the limit record"),
            (&open, "line 2: 167772"),
        ] {
            let error = read(text, "a.csv").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
