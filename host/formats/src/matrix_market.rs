//! Reader for MatrixMarket coordinate files (Boisvert, Pozo and Remington 1996, NISTIR 5935), plain
//! or compressed with gzip. The stored entries of a square sparse matrix are the edges of a graph.
//!
//! ```text
//! %%MatrixMarket matrix coordinate pattern symmetric
//! % a path of three vertices
//! 3 3 2
//! 2 1
//! 3 2
//! ```
//!
//! The field is `pattern`, `real` or `integer`, and the symmetry is `general` or `symmetric`. The
//! values of `real` and `integer` matrices are edge weights. The vertices are the rows and keep
//! their ids 1 to V. Every edge is used in both directions, even for a general matrix. Repeated
//! entries and zeros follow the rule of [`eciton_graph::edge_rule`]. Files next to the matrix may
//! contain features, labels and split, as described in [`super::folder`].

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::threads::processors;

use super::edge_graph::{ValuedEdges, graph_and_values};
use super::edge_text::{self, EdgeText, Numbering, Ranges, ValueFields, excerpt, records};
use super::file;
use super::file::Grown;
use super::folder::Attributes;
use super::gzip::Source;
use super::lines::{Lines, count};
use super::request::Request;
use super::snap::at_line;

/// First bytes of a MatrixMarket file, ignoring case.
pub(crate) const BANNER: &[u8] = b"%%MatrixMarket";
/// Number of bytes at the start of a file within which the size line must occur. The comments
/// before it are short.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Number of vertices that a file may have in addition to one per byte. This limit prevents a size
/// line alone from causing a large allocation.
pub const FREE_VERTICES: u64 = 1 << 16;

/// Contents of the banner and the size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    vertices: u64,
    entries: u64,
    /// Number of fields per entry. It is 2 for the field `pattern` (two ids), and otherwise 3 (with
    /// a value).
    fields: usize,
    /// Length in bytes of all lines up to and including the size line.
    bytes: usize,
    /// Number of lines up to and including the size line.
    lines: u64,
}

/// Reads a MatrixMarket file into memory, together with the tables next to it. For a compressed
/// file, reading needs 8 bytes per entry in addition to the data set, or 12 if entries have values.
///
/// Returns [`Error::Malformed`] with the line if the text is invalid or a value is not finite.
/// Dense, rectangular and complex matrices and other symmetries are rejected in the same way.
/// Returns [`Error::Mismatch`] if the number of entries differs from the size line. Returns
/// [`Error::EmptyGraph`] if there are no vertices, and [`Error::Limit`] if there are too many. Also
/// returns the errors of [`super::folder::open`] for the tables.
pub fn open(path: &Path, request: Request<'_>) -> Result<Dataset> {
    let header = Header::read(path)?;
    let ((graph, edge_features), ids) = if Source::open(path)?.packed() {
        (entries(path, header)?.graph(&file::name(path), header.vertices)?, names(header.vertices))
    } else {
        let (source, ids) = edges(path, processors())?;
        (graph_and_values(&file::name(path), &source)?, ids)
    };
    let known = Attributes::beside(file::parent(path), &ids, header.vertices, request)?;
    known.dataset(file::stem(path), graph, edge_features)
}

/// Returns the edges of a plain file for streaming, with their values and the ids of the vertices
/// in the file (1 to V). The file is read once by `threads` threads to check its entries. Reading
/// needs 8 MiB per thread, and 8 bytes per vertex.
///
/// # Errors
/// Returns the errors of [`open`]. Also returns [`Error::Malformed`] if the file is compressed.
pub fn edges(path: &Path, threads: usize) -> Result<(EdgeText, VertexIds)> {
    edge_text::refuse_packed(path)?;
    let name = file::name(path);
    let header = Header::read(path)?;
    let text = Ranges::open(path, header.bytes as u64, header.fields)?;
    header.check_vertices(text.bytes(), &name)?;
    let source = EdgeText::new(text, Numbering::FromOne(header.vertices), header.value_fields());
    let values = header.value_fields();
    // A separate pass, so that a fault is reported before anything is built.
    let found = AtomicU64::new(0);
    source.text().visit(threads, |range| {
        let mut entries = 0;
        source.text().records(range, |s, t, rest| {
            entries += 1;
            source.numbering().find(s).and(source.numbering().find(t))?;
            values.read(rest, drop)
        })?;
        found.fetch_add(entries, Ordering::Relaxed);
        Ok(())
    })?;
    header.check_entries(found.into_inner(), &name)?;
    Ok((source, names(header.vertices)))
}

fn names(vertices: u64) -> VertexIds {
    VertexIds::Numbers((1..=vertices).collect())
}

/// Reads all entries of a plain or compressed file into memory.
fn entries(path: &Path, header: Header) -> Result<ValuedEdges> {
    let mut lines = Lines::open(path)?;
    let name = lines.file().to_owned();
    let numbering = Numbering::FromOne(header.vertices);
    let (mut edges, mut values, mut rest, mut bytes) =
        (Grown::new(&name), Grown::new(&name), header.bytes, 0);
    let fields = header.value_fields();
    while let Some((mut first, mut block)) = lines.next()? {
        bytes += block.len() as u64;
        if rest > 0 {
            let (before, after) = block.split_at(rest.min(block.len()));
            (first, block, rest) = (first + count(before), after, rest - before.len());
        }
        let (room, values) = (edges.room(block.len() / 4 + 1)?, values.room(block.len() / 2 + 1)?);
        records(block, header.fields, |s, t, rest| {
            room.push((numbering.find(s)?, numbering.find(t)?));
            fields.read(rest, |value| values.push(value))
        })
        .map_err(|fault| at_line(&name, first, block, fault))?;
    }
    header.check_vertices(bytes, &name)?;
    header.check_entries(edges.len() as u64, &name)?;
    let (edges, columns, values) = (edges.finish(), fields.columns() as u32, values.finish());
    Ok(ValuedEdges { edges, columns, values, weight: true })
}

impl Header {
    fn read(path: &Path) -> Result<Self> {
        let mut start = Vec::new();
        Source::open(path)?.read(&mut start, MAX_HEADER_BYTES)?;
        Self::parse(&start, &file::name(path))
    }

    /// Parses the lines up to the size line. `text` is the start of the file.
    fn parse(text: &[u8], file: &str) -> Result<Self> {
        let mut bytes = 0;
        let mut fields = 0;
        for (number, line) in (1u64..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
            bytes += line.len();
            let words: Vec<String> =
                String::from_utf8_lossy(line).split_whitespace().map(str::to_ascii_lowercase).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let wrong = |expected: &str, remedy: &'static str| Error::Malformed {
                place: Place::line(file, number),
                expected: expected.to_owned(),
                found: excerpt(line),
                remedy,
            };
            if number == 1 {
                fields = banner(&words).map_err(|(expected, remedy)| wrong(expected, remedy))?;
                continue;
            }
            if words.is_empty() || line.starts_with(b"%") {
                continue;
            }
            let sizes: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
            let Some(&[rows, columns, entries]) = sizes.as_deref() else {
                return Err(wrong("the size line: rows, columns, entries", DAMAGED));
            };
            if rows != columns {
                return Err(wrong(
                    "the same number of rows and columns",
                    "for a bipartite graph, write one square matrix over the vertices of both sides",
                ));
            }
            check_vertices(rows, || Place::line(file, number))?;
            return Ok(Self { vertices: rows, entries, fields, bytes, lines: number });
        }
        Err(Self::missing(file))
    }

    fn missing(file: &str) -> Error {
        Error::malformed(Place::whole(file), "a banner line and a size line", "the end of the header")
    }

    /// Returns the selection of the field that contains the value of an entry. It is empty if
    /// entries have no values.
    fn value_fields(&self) -> ValueFields {
        if self.fields > 2 { ValueFields::first() } else { ValueFields::default() }
    }

    /// Checks that the size line does not claim many more vertices than the file can contain.
    fn check_vertices(&self, text_bytes: u64, file: &str) -> Result<()> {
        let allowed = FREE_VERTICES + text_bytes;
        if self.vertices <= allowed {
            return Ok(());
        }
        Err(Error::Limit {
            place: Place::line(file, self.lines),
            limit: "vertices of a file of this length",
            unit: "vertices",
            allowed,
            found: self.vertices,
            remedy: "remove rows that have no entry",
        })
    }

    fn check_entries(&self, found: u64, file: &str) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        Err(Error::Mismatch {
            place: Place::whole(file),
            what: "entries",
            found,
            expected: self.entries,
            other: "its size line".to_owned(),
        })
    }
}

const DAMAGED: &str = "the file is damaged or has another format; download or write it again";

/// Returns the number of fields per entry, given the words of the banner. An error consists of the
/// expected value and the remedy.
fn banner(words: &[&str]) -> std::result::Result<usize, (&'static str, &'static str)> {
    let &["%%matrixmarket", object, format, field, symmetry] = words else {
        return Err(("%%MatrixMarket matrix coordinate FIELD SYMMETRY", DAMAGED));
    };
    if object != "matrix" {
        return Err(("a matrix", "only matrices can be read as graphs"));
    }
    if format != "coordinate" {
        return Err((
            "the format coordinate (array is a dense matrix)",
            "write a sparse matrix: scipy.io.mmwrite(file, scipy.sparse.coo_array(matrix))",
        ));
    }
    if !matches!(symmetry, "general" | "symmetric") {
        return Err((
            "the symmetry general or symmetric",
            "write the matrix as general, because only the positions of the entries are used",
        ));
    }
    match field {
        "pattern" => Ok(2),
        "real" | "integer" => Ok(3),
        _ => Err((
            "the field pattern, real or integer",
            "write the matrix as pattern, because only the positions of the entries are used",
        )),
    }
}
