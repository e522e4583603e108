//! Edge lists as text files with one edge per line. A line has two whole numbers, optionally
//! followed by further fields. A file is divided into byte ranges, which threads read
//! independently.
//!
//! Fields are separated by spaces, tabs or commas. Lines that start with `#` or `%` are comments. A
//! range contains the lines that start in it, so the result does not depend on the size of the
//! ranges.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use eciton_graph::edges::{EdgeSource, MAX_CHUNK_EDGES};
use eciton_graph::error::{Error, Place, Result};

use super::dictionary::Dictionary;
use super::lines::{MAX_LINE_BYTES, count};
use super::{file, gzip};

/// Number of bytes per range. The shortest line has four bytes (`0 1` and a line break), so a range
/// has at most [`MAX_CHUNK_EDGES`] edges.
const RANGE_BYTES: u64 = 8 << 20;
const _: () = assert!(RANGE_BYTES / 4 < MAX_CHUNK_EDGES as u64);

/// Byte order mark with which some programs start a UTF-8 file.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Invalid line in a block of text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Position of the line's first byte within the block.
    pub(crate) at: usize,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Fault {
    /// Converts the fault to an error with this location.
    pub(crate) fn at(self, place: Place) -> Error {
        let remedy = if self.expected.contains("as the first edge") {
            "write one edge per line with the same columns (a vertex and all its neighbours in one line is an adjacency \
             list), and remove a first line of counts"
        } else if self.expected.contains("vertex ids") {
            "write ids as whole numbers without a header; a table with words, a header or ids like 1.0 is read as \
             edges.csv in a folder"
        } else {
            "the file is damaged or of another kind; fetch or write it again"
        };
        let Self { expected, found, .. } = self;
        Error::Malformed { place, expected, found, remedy }
    }
}

/// Calls `each` with the two ids of every line of `block`. A line must have at least `fields`
/// fields. If `each` returns an error, its text describes what was expected, and the fault is in
/// that line.
pub(crate) fn pairs(
    block: &[u8],
    fields: usize,
    mut each: impl FnMut(u64, u64) -> std::result::Result<(), String>,
) -> std::result::Result<(), Fault> {
    records(block, fields, |source, target, _| each(source, target))
}

/// Calls `each` with the two ids of every line like [`pairs`], and also with the rest of the line.
pub(crate) fn records(
    block: &[u8],
    fields: usize,
    mut each: impl FnMut(u64, u64, &[u8]) -> std::result::Result<(), String>,
) -> std::result::Result<(), Fault> {
    let returns = memchr::memchr(b'\r', block).is_some();
    let mut at = 0;
    while let Some(&first) = block.get(at) {
        if separates(first) || first == b'\n' {
            at += 1;
            continue;
        }
        let start = at;
        if first == b'#' || first == b'%' {
            at = line_end(block, at) + 1;
            continue;
        }
        let fault = |expected: String| {
            let line = block.get(start..line_end(block, start)).unwrap_or_default();
            Fault { at: start, expected, found: excerpt(line) }
        };
        let (Some(source), Some(target)) = (number(block, &mut at), number(block, &mut at)) else {
            return Err(fault("two vertex ids, which are whole numbers from 0 to 2^64 - 1".to_owned()));
        };
        if fields > 2 && matches!(block.get(at), None | Some(b'\n')) {
            return Err(fault(format!("{fields} fields")));
        }
        let end = if block.get(at) == Some(&b'\n') { at } else { line_end(block, at) };
        // In a file whose lines end with CR alone, the first line would contain all others.
        let inner = block.get(start..end.saturating_sub(1)).unwrap_or_default();
        if returns && memchr::memchr(b'\r', inner).is_some() {
            return Err(fault("lines that end with LF or CR LF, not CR alone".to_owned()));
        }
        each(source, target, block.get(at..end).unwrap_or_default()).map_err(fault)?;
        at = end + 1;
    }
    Ok(())
}

/// Returns the number of comment lines of a block. If `start` is true, comments before the first
/// edge are not counted.
pub(crate) fn comments(block: &[u8], start: bool) -> u64 {
    if memchr::memchr2(b'#', b'%', block).is_none() {
        return 0;
    }
    let is_comment = |line: &&[u8]| matches!(line.first(), Some(b'#' | b'%'));
    let mut lines = block.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start).peekable();
    if start {
        while lines.next_if(|line| line.is_empty() || is_comment(line)).is_some() {}
    }
    lines.filter(is_comment).count() as u64
}

/// Adds a warning to the reading report if `count`, the number of comment lines after the first
/// edge, is not 0.
pub(crate) fn report_comments(file: &str, count: u64) {
    if count > 0 {
        eciton_input::notes::warn(format!(
            "{file}: {count} lines that start with # or % after the first edge were read as comments; if they are \
             edges between words, write them as edges.csv in a folder"
        ));
    }
}

/// Returns whether a byte is a separator between the fields of a line.
pub(crate) fn separates(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b',')
}

/// Returns the end of the line at `at`, which is the position of its line break, or the length of
/// the block.
fn line_end(block: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', block.get(at..).unwrap_or_default()).map_or(block.len(), |end| at + end)
}

/// Parses the number at `at`, and advances `at` to the next field or to the end of the line.
fn number(block: &[u8], at: &mut usize) -> Option<u64> {
    let start = *at;
    let mut value = 0u64;
    while let Some(&byte) = block.get(*at) {
        match byte {
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                *at += 1;
            }
            b'\n' => break,
            _ if separates(byte) => break,
            _ => return None,
        }
    }
    let end = *at;
    while block.get(*at).is_some_and(|&byte| separates(byte)) {
        *at += 1;
    }
    (end > start).then_some(value)
}

/// Returns the start of a line in quotes, for error messages.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let start = line.get(..line.len().min(60)).unwrap_or_default();
    format!("{:?}", String::from_utf8_lossy(start).trim_end())
}

/// Description of the expected content, for the error about a file that changes while it is read.
const CHANGED: &str = "the ids that the file had when it was opened";

/// Mapping from the ids in a file to vertices.
#[derive(Debug)]
pub(crate) enum Numbering {
    /// Ids are 0 to V - 1 and equal the vertices. The value is V.
    Dense(u64),
    /// Ids are 1 to V. The value is V.
    FromOne(u64),
    /// Ids are arbitrary. The dictionary maps them to vertices.
    Listed(Dictionary),
}

impl Numbering {
    pub(crate) fn vertices(&self) -> u64 {
        match self {
            Self::Dense(vertices) | Self::FromOne(vertices) => *vertices,
            Self::Listed(dictionary) => dictionary.len(),
        }
    }

    pub(crate) fn find(&self, id: u64) -> std::result::Result<u32, String> {
        match self {
            Self::Dense(vertices) if id < *vertices => Ok(id as u32),
            Self::FromOne(vertices) if (1..=*vertices).contains(&id) => Ok((id - 1) as u32),
            Self::FromOne(vertices) => Err(format!("two ids from 1 to {vertices}")),
            Self::Dense(_) => Err(CHANGED.to_owned()),
            Self::Listed(dictionary) => dictionary.find(id).ok_or_else(|| CHANGED.to_owned()),
        }
    }
}

/// Selection of the fields that are edge values, among the fields after the two ids of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueFields {
    /// Positions of the value fields in ascending order. Position 0 is the first field after the
    /// ids.
    fields: Vec<usize>,
    /// Positions of the fields that are words in the first edge, in ascending order. They are not
    /// read. Position 0 is the first field after the ids.
    words: Vec<usize>,
    /// Number of all fields after the two ids.
    count: usize,
    /// Reason why each edge must have these fields, as the last clause of the error message.
    reason: &'static str,
}

impl Default for ValueFields {
    /// Returns a selection without any fields.
    fn default() -> Self {
        let (fields, words) = (Vec::new(), Vec::new());
        Self { fields, words, count: 0, reason: "as each entry of the matrix has" }
    }
}

impl ValueFields {
    /// Returns the selection of the first field after the two ids, which is the value of a
    /// MatrixMarket entry.
    pub(crate) fn first() -> Self {
        Self { fields: vec![0], words: Vec::new(), count: 1, reason: "as each entry of the matrix has" }
    }

    /// Returns the selection of the fields that are numbers in the first edge. `rest` is the text
    /// after the ids. All edges must have the same number of fields.
    pub(crate) fn of_first_edge(rest: &[u8]) -> Self {
        let (mut values, mut words) = (Vec::new(), Vec::new());
        for (at, word) in fields(rest).enumerate() {
            match finite(word) {
                Some(_) => values.push(at),
                None => words.push(at),
            }
        }
        let count = values.len() + words.len();
        Self { fields: values, words, count, reason: "as the first edge has" }
    }

    /// Returns whether some fields are words, which are not read.
    pub(crate) fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// Returns whether this edge has a number in a field that is a word in the first edge. `rest`
    /// is the text after the ids.
    pub(crate) fn finds_number(&self, rest: &[u8]) -> bool {
        fields(rest).enumerate().any(|(at, word)| self.words.contains(&at) && finite(word).is_some())
    }

    /// Adds a note about unused word fields to the reading report. It is a warning if `numbers`,
    /// the number of other edges with a number in such a field, is not 0.
    pub(crate) fn report_words(&self, file: &str, first: &str, numbers: u64) {
        use eciton_input::notes::{add, warn};
        if self.words.is_empty() {
            return;
        }
        let at: Vec<String> = self.words.iter().map(|at| (at + 3).to_string()).collect();
        let text = format!(
            "{file}: field {} of each edge is not used, because it is not a number in the first edge ({})",
            at.join(", "),
            eciton_input::text::cut(first.trim(), 60)
        );
        match numbers {
            0 => add(text),
            _ => warn(format!(
                "{text}, but it is one in {numbers} other edges; if it is a feature of edges, give the first \
                 edge a number"
            )),
        }
    }

    pub(crate) fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Calls `each` with the values of an edge. `rest` is the text after the ids. If a value is
    /// missing or not a number, returns a description of the expected content as the error.
    pub(crate) fn read(&self, rest: &[u8], mut each: impl FnMut(f32)) -> std::result::Result<(), String> {
        let (mut words, mut next) = (fields(rest), 0);
        for &field in &self.fields {
            let value = words.nth(field - next).and_then(finite);
            let expected = || format!("a finite number in field {}, {}", field + 3, self.reason);
            each(value.ok_or_else(expected)?);
            next = field + 1;
        }
        match next + words.count() {
            count if count == self.count => Ok(()),
            _ => Err(format!("{} fields, {}", self.count + 2, self.reason)),
        }
    }
}

/// First edge of an edge list, whose fields determine the fields of all edges.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstEdge {
    /// Ids of the two ends. `None` if the list has no edge.
    pub(crate) ids: Option<(u64, u64)>,
    pub(crate) values: ValueFields,
    /// Text after the two ids.
    pub(crate) rest: String,
}

impl FirstEdge {
    pub(crate) fn new(source: u64, target: u64, rest: &[u8]) -> Self {
        let values = ValueFields::of_first_edge(rest);
        let rest = rest.get(..rest.len().min(60)).unwrap_or_default();
        Self { ids: Some((source, target)), values, rest: String::from_utf8_lossy(rest).into_owned() }
    }

    /// Adds a warning to the reading report if the first line may be a header or a line of counts
    /// instead of an edge.
    pub(crate) fn report_doubts(&self, file: &str, others: &OtherEdges) {
        let (Some(ids), 0) = (self.ids, self.values.count) else { return };
        let OtherEdges { vertices, edges, .. } = *others;
        if !report_counts(file, ids, others)
            && ids == (0, 1)
            && edges > 1
            && !others.has_first
            && edges * 2 > vertices
        {
            eciton_input::notes::warn(format!(
                "{file}: the first line, \"0 1\", was read as an edge, but neither id occurs again; if it is a \
                 header of column numbers, remove it (to_csv(header=False))"
            ));
        }
    }
}

/// Adds a warning to the reading report if the numbers of the first line equal the numbers of
/// vertices and edges in the other lines. Returns whether they do.
pub(crate) fn report_counts(file: &str, (a, b): (u64, u64), others: &OtherEdges) -> bool {
    let OtherEdges { vertices, edges, .. } = *others;
    // With few edges, the order edges, vertices occurs by chance: `1 2` before `2 3`.
    let counts = (a, b) == (vertices, edges) || (edges >= 3 && (b, a) == (vertices, edges));
    if edges == 0 || a == b || !counts {
        return false;
    }
    let (first, second) = if a == vertices { ("vertices", "edges") } else { ("edges", "vertices") };
    eciton_input::notes::warn(format!(
        "{file}: the first line, \"{a} {b}\", was read as an edge, but the lines after it have {a} {first} and \
         {b} {second}; if it is a line of counts, remove it"
    ));
    true
}

/// Counts of an edge list without its first edge.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OtherEdges {
    /// Number of distinct ids.
    pub(crate) vertices: u64,
    pub(crate) edges: u64,
    /// True if an end of the first edge occurs in another edge.
    pub(crate) has_first: bool,
}

fn fields(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    rest.split(|&byte| separates(byte)).filter(|word| !word.is_empty())
}

fn finite(word: &[u8]) -> Option<f32> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|value: &f32| value.is_finite())
}

/// Edge list in a plain text file, as an [`EdgeSource`]. Each line is an edge. The file is read in
/// chunks of 8 MiB and is not kept in memory.
#[derive(Debug)]
pub struct EdgeText {
    text: Ranges,
    numbering: Numbering,
    values: ValueFields,
}

impl EdgeText {
    pub(crate) fn new(text: Ranges, numbering: Numbering, values: ValueFields) -> Self {
        Self { text, numbering, values }
    }

    pub(crate) fn numbering(&self) -> &Numbering {
        &self.numbering
    }

    pub(crate) fn text(&self) -> &Ranges {
        &self.text
    }
}

impl EdgeSource for EdgeText {
    fn vertices(&self) -> u64 {
        self.numbering.vertices()
    }

    fn chunks(&self) -> u64 {
        self.text.count()
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        self.text.records(chunk, |source, target, _| {
            edges.push((self.numbering.find(source)?, self.numbering.find(target)?));
            Ok(())
        })
    }

    fn columns(&self) -> u32 {
        u32::try_from(self.values.columns()).unwrap_or(u32::MAX)
    }

    fn is_weight(&self) -> bool {
        self.values.columns() == 1
    }

    fn read_with_values(&self, chunk: u64, edges: &mut Vec<(u32, u32)>, values: &mut Vec<f32>) -> Result<()> {
        self.text.records(chunk, |source, target, rest| {
            edges.push((self.numbering.find(source)?, self.numbering.find(target)?));
            self.values.read(rest, |value| values.push(value))
        })
    }
}

/// Plain text file that is divided into byte ranges, each with the lines that start in it.
#[derive(Debug)]
pub(crate) struct Ranges {
    path: PathBuf,
    /// Position of the first line, after a byte order mark.
    start: u64,
    end: u64,
    range_bytes: u64,
    fields: usize,
}

impl Ranges {
    /// Opens a plain text file whose lines begin at byte `start`. Each line must have at least
    /// `fields` fields.
    pub(crate) fn open(path: &Path, start: u64, fields: usize) -> Result<Self> {
        let refused = |source| Error::Read { path: path.to_owned(), source };
        let end = std::fs::metadata(path).map_err(refused)?.len();
        let mut mark = Vec::new();
        if start == 0 {
            let file = eciton_input::file::open(path).map_err(refused)?;
            file.take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut mark).map_err(refused)?;
        }
        let start = if mark == BYTE_ORDER_MARK { BYTE_ORDER_MARK.len() as u64 } else { start };
        Ok(Self { path: path.to_owned(), start, end, range_bytes: RANGE_BYTES, fields })
    }

    /// Returns the number of bytes of the text.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the number of ranges into which the file is divided.
    pub(crate) fn count(&self) -> u64 {
        self.bytes().div_ceil(self.range_bytes)
    }

    #[cfg(test)]
    pub(crate) fn by(mut self, range_bytes: u64) -> Self {
        self.range_bytes = range_bytes;
        self
    }

    /// Calls `each` with the two ids of every line of a range and with the rest of the line.
    pub(crate) fn records(
        &self,
        range: u64,
        each: impl FnMut(u64, u64, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<()> {
        self.block(range, each).map(drop)
    }

    /// Calls `each` like [`Ranges::records`], and returns the number of comment lines in the range.
    /// Comments before the first edge of the file are not counted.
    pub(crate) fn records_and_comments(
        &self,
        range: u64,
        each: impl FnMut(u64, u64, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<u64> {
        self.block(range, each).map(|block| comments(&block, range == 0))
    }

    /// Calls `each` like [`Ranges::records`], and returns the text of the range.
    fn block(
        &self,
        range: u64,
        each: impl FnMut(u64, u64, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<Vec<u8>> {
        let (from, block) = self.lines(range)?;
        records(&block, self.fields, each).map_err(|fault| {
            let place = self.place(from + fault.at as u64);
            fault.at(place)
        })?;
        Ok(block)
    }

    /// Returns the first edge of the file.
    pub(crate) fn value_fields(&self) -> Result<FirstEdge> {
        for range in 0..self.count() {
            let mut found = None;
            // The first edge ends the loop. Other faults are reported when the whole file is read.
            let _ = records(&self.lines(range)?.1, self.fields, |source, target, rest| {
                found = Some(FirstEdge::new(source, target, rest));
                Err(String::new())
            });
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Ok(FirstEdge::default())
    }

    /// Returns the position of the first line that starts in a range, and the text of all lines
    /// that start in the range.
    fn lines(&self, range: u64) -> Result<(u64, Vec<u8>)> {
        let refused = |source| Error::Read { path: self.path.clone(), source };
        let from = self.start.saturating_add(range.saturating_mul(self.range_bytes));
        let to = from.saturating_add(self.range_bytes).min(self.end);
        if from >= to {
            return Ok((from, Vec::new()));
        }
        // Reads from one byte earlier. If that byte ends a line, the range starts with a complete
        // line.
        let early = if range == 0 { from } else { from - 1 };
        let mut file = eciton_input::file::open(&self.path).map_err(refused)?;
        file.seek(SeekFrom::Start(early)).map_err(refused)?;
        let mut block = Vec::with_capacity((to - early) as usize + 256);
        file.by_ref().take(to - early).read_to_end(&mut block).map_err(refused)?;
        // The last line may end in the next range.
        let mut whole = block.ends_with(b"\n");
        let mut beyond = 0;
        while !whole && to + beyond < self.end {
            if beyond > MAX_LINE_BYTES {
                return Err(Error::Limit {
                    place: self.place(to),
                    limit: "line",
                    unit: "bytes",
                    allowed: MAX_LINE_BYTES,
                    found: beyond,
                    remedy: "write one edge per line",
                });
            }
            let before = block.len();
            let read = file.by_ref().take(256 << (beyond / 65536).min(12)).read_to_end(&mut block);
            beyond += read.map_err(refused)? as u64;
            let fresh = block.get(before..).unwrap_or_default();
            if fresh.is_empty() {
                break;
            }
            if let Some(end) = fresh.iter().position(|&byte| byte == b'\n') {
                block.truncate(before + end + 1);
                whole = true;
            }
        }
        if range == 0 {
            return Ok((from, block));
        }
        // Text up to the first line end belongs to the range before.
        let skipped = line_end(&block, 0) + 1;
        if skipped as u64 > to - early {
            return Ok((to, Vec::new()));
        }
        Ok((early + skipped as u64, block.split_off(skipped.min(block.len()))))
    }

    /// Returns the location of a byte as a line number. The lines are only counted if an error
    /// occurs.
    fn place(&self, byte: u64) -> Place {
        let name = file::name(&self.path);
        let lines_before = || {
            let mut file = eciton_input::file::open(&self.path)?.take(byte);
            let (mut piece, mut lines) = (vec![0; 1 << 20], 0);
            loop {
                match file.read(&mut piece)? {
                    0 => return Ok::<u64, std::io::Error>(lines),
                    read => lines += count(piece.get(..read).unwrap_or_default()),
                }
            }
        };
        match lines_before() {
            Ok(lines) => Place::line(name, lines + 1),
            Err(_) => Place::byte(name, byte),
        }
    }

    /// Calls `visit` once for every range, from up to `threads` threads. If several calls fail,
    /// returns the error of the lowest range.
    pub(crate) fn visit(&self, threads: usize, visit: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
        let (next, fault) = (AtomicU64::new(0), Mutex::new(None::<(u64, Error)>));
        let work = || {
            loop {
                let range = next.fetch_add(1, Ordering::Relaxed);
                if range >= self.count() {
                    return;
                }
                if let Err(error) = visit(range) {
                    let mut fault = fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if fault.as_ref().is_none_or(|(at, _)| range < *at) {
                        *fault = Some((range, error));
                    }
                    // Ranges are assigned in order, so all lower ones are being read already.
                    next.store(self.count(), Ordering::Relaxed);
                    return;
                }
            }
        };
        let helpers = (threads as u64).min(self.count()).clamp(1, 64) - 1;
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                eciton_input::threads::spawn(scope, work);
            }
            work();
        });
        match fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// Returns an error if the file is compressed, because the edges of a compressed file cannot be
/// streamed.
pub(crate) fn refuse_packed(path: &Path) -> Result<()> {
    if !gzip::Source::open(path)?.packed() {
        return Ok(());
    }
    Err(Error::Malformed {
        place: Place::whole(file::name(path)),
        expected: "a plain text file, because a compressed file cannot be streamed".to_owned(),
        found: "a gzip file".to_owned(),
        remedy: "uncompress it with gunzip, or read it into memory without streaming",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_graph::random::SplitMix64;

    use super::*;

    fn read(text: &str, fields: usize) -> std::result::Result<Vec<(u64, u64)>, Fault> {
        let mut found = Vec::new();
        pairs(text.as_bytes(), fields, |s, t| {
            found.push((s, t));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn separators_comments_and_further_fields() {
        let text = "# a\n1 2\n\n  3\t4\r\n% b\n5,6, 7.5\n18446744073709551615 0";
        assert_eq!(read(text, 2).unwrap(), [(1, 2), (3, 4), (5, 6), (u64::MAX, 0)]);
        assert_eq!(read("", 2).unwrap(), []);
        assert_eq!(read("1 2 3\n", 3).unwrap(), [(1, 2)]);
    }

    #[test]
    fn values_are_fields_that_the_first_edge_has_as_numbers() {
        let fields = ValueFields::of_first_edge(b"  0.5,street\t-1e2 nan 7\r");
        assert_eq!(fields.fields, [0, 2, 4]);
        let read = |rest: &[u8]| {
            let mut found = Vec::new();
            fields.read(rest, |value| found.push(value)).map(|()| found)
        };
        assert_eq!(read(b"1 2 3 4 5").unwrap(), [1.0, 3.0, 5.0]);
        let said = read(b"1 2 3 4").unwrap_err();
        assert!(said.starts_with("a finite number in field 7, as the first edge has"), "{said}");
        assert!(read(b"1 2 inf 4 5").unwrap_err().contains("field 5"));
        assert_eq!(ValueFields::of_first_edge(b"").columns(), 0);
        assert!(read(b"1 2 3 4 5").is_ok() && read(b"1 2 3 4 5 6").unwrap_err().contains("7 fields"));
        assert!(
            fields.has_words() && fields.finds_number(b"1 2 3 4 5") && !fields.finds_number(b"1 a 3 b 5")
        );
    }

    #[test]
    fn faults_say_where() {
        for (text, at) in
            [("1 2\n3\n", 4), ("1 x\n", 0), ("-1 2", 0), ("1 2.5", 0), ("1", 0), ("1 2\n ,3", 6)]
        {
            assert_eq!(read(text, 2).unwrap_err().at, at, "{text}");
        }
        assert!(read("18446744073709551616 0", 2).is_err());
        let short = read("1 2\n", 3).unwrap_err();
        assert_eq!((short.expected.as_str(), short.found.as_str()), ("3 fields", "\"1 2\""));
        let refused = pairs(b"1 2", 2, |_, _| Err("less".to_owned())).unwrap_err();
        assert_eq!(refused.expected, "less");
    }

    /// Tests that every division into ranges gives all edges.
    #[test]
    fn ranges_of_any_size_hold_every_line_once() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.txt");
        for _ in 0..40 {
            let mut text = "# start\n".to_owned();
            let start = text.len() as u64;
            for _ in 0..random.below(60) {
                match random.below(6) {
                    0 => text.push('\n'),
                    1 => text.push_str("# a comment that is longer than a range\n"),
                    _ => text.push_str(&format!("{} {}\n", random.below(1 << 20), random.below(9))),
                }
            }
            if random.below(2) == 0 {
                text.pop();
            }
            let expected = read(&text, 2).unwrap();
            std::fs::write(&path, &text).unwrap();
            for range_bytes in [1, 2, 3, 5, 7, 16, 64, 1 << 20] {
                let ranges = Ranges::open(&path, start, 2).unwrap().by(range_bytes);
                let mut found = Vec::new();
                for range in 0..ranges.count() {
                    let push = |s, t, _: &[u8]| {
                        found.push((s, t));
                        Ok(())
                    };
                    ranges.records(range, push).unwrap();
                }
                assert_eq!(found, expected, "{range_bytes} of {text:?}");
            }
        }
    }

    #[test]
    fn the_first_fault_is_told_for_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.txt");
        let text = "1 2\n".repeat(100) + "1 y\n" + &"1 2\n".repeat(20) + "z\n" + &"3 4\n".repeat(300);
        std::fs::write(&path, text).unwrap();
        for threads in [0, 1, 2, 7] {
            let ranges = Ranges::open(&path, 0, 2).unwrap().by(10);
            let found = ranges.visit(threads, |range| ranges.records(range, |_, _, _| Ok(())));
            let text = found.unwrap_err().to_string();
            assert!(
                text.contains("edges.txt, line 101: expected two vertex ids") && text.contains("1 y"),
                "{text}"
            );
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.txt");
        std::fs::write(&path, vec![b'1'; MAX_LINE_BYTES as usize + (1 << 22)]).unwrap();
        let ranges = Ranges::open(&path, 0, 2).unwrap().by(1 << 10);
        let text = ranges.records(0, |_, _, _| Ok(())).unwrap_err().to_string();
        assert!(text.contains("limit line of 16777216 bytes"), "{text}");
        // A later range has no line start, and leaves the fault to the first.
        ranges.records(1, |_, _, _| Ok(())).unwrap_err();
    }
}
