//! Reader for edge lists in the format of SNAP (Leskovec and Krevl, snap.stanford.edu/data), plain
//! or compressed with gzip. The text has one edge per line, and comments start with `#`. Ids are
//! integers below 2^64 and may have gaps.
//!
//! ```text
//! # Directed graph: as-caida20071105.txt
//! # FromNodeId    ToNodeId
//! 1       3356
//! 1       3549
//! ```
//!
//! Fields are separated by spaces, tabs or commas, and every line has as many fields as the first
//! edge. Further fields such as weights and times are edge features if they are numbers in the
//! first edge. They must then be numbers in every edge. `%` also starts a comment, as in the lists
//! of KONECT. A comment after the first edge adds a warning to the reading report.
//!
//! The vertices are the ids that occur, in ascending order, and results are reported with these
//! ids. Every edge is used in both directions. Files next to the list may contain `features`,
//! `labels` and `split` of the vertices, as described in [`super::folder`].

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::threads::processors;

use super::dictionary::{Collector, Dictionary};
use super::edge_graph::{ValuedEdges, graph_and_values};
use super::edge_text::{self, BYTE_ORDER_MARK, EdgeText, FirstEdge, Numbering, OtherEdges, Ranges, records};
use super::file;
use super::file::Grown;
use super::folder::Attributes;
use super::gzip::Source;
use super::lines::Lines;
use super::request::Request;

/// File name extensions of edge lists, each with or without `.gz`.
pub(crate) const EXTENSIONS: [&str; 6] = ["txt", "edges", "edgelist", "el", "tsv", "snap"];

/// Reads an edge list into memory, together with the tables next to it.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid, [`Error::EmptyGraph`] if
/// there are no edges, and [`Error::Limit`] if there are too many vertices. Also returns the errors
/// of [`super::folder::open`] for the tables.
pub fn open(path: &Path, request: Request<'_>) -> Result<Dataset> {
    let ((graph, edge_features), ids) = if Source::open(path)?.packed() {
        let (edges, dictionary) = unpacked(path)?;
        (edges.graph(&file::name(path), dictionary.len())?, names(&dictionary))
    } else {
        let (source, ids) = edges(path, processors())?;
        (graph_and_values(&file::name(path), &source)?, ids)
    };
    let vertices = u64::from(graph.vertices());
    let known = Attributes::beside(file::parent(path), &ids, vertices, request)?;
    known.dataset(file::stem(path), graph, edge_features)
}

/// Returns whether the first record of a text starts with two ids, as in an edge list.
pub(crate) fn has_ids(path: &Path) -> bool {
    let Ok(mut lines) = Lines::open(path) else { return false };
    let Ok(Some((_, block))) = lines.next() else { return false };
    let comment =
        |line: &&[u8]| line.trim_ascii().is_empty() || line.starts_with(b"#") || line.starts_with(b"%");
    let Some(line) = block.split(|&byte| byte == b'\n').find(|line| !comment(line)) else { return false };
    let mut words = line.split(|byte| b" \t,\r".contains(byte)).filter(|word| !word.is_empty());
    let mut id = || words.next().is_some_and(|word| word.iter().all(u8::is_ascii_digit));
    id() && id()
}

/// Returns the edges of a plain file for streaming, with their values and the ids of the vertices
/// in the file.
///
/// The file is read once by `threads` threads, to collect its ids and to check its values. Reading
/// needs 8 MiB for text and 32 MiB for ids per thread, and memory for the dictionary of ids. The
/// dictionary has 1.06 bits per number up to the highest id, or 8 bytes per id. The result has 8
/// bytes per vertex, unless the ids are 0 to V - 1.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid, or if the file is compressed.
/// Returns [`Error::EmptyGraph`] if there are no edges, and [`Error::Limit`] if there are too many
/// vertices.
pub fn edges(path: &Path, threads: usize) -> Result<(EdgeText, VertexIds)> {
    edge_text::refuse_packed(path)?;
    let text = Ranges::open(path, 0, 2)?;
    let first = text.value_fields()?;
    let values = first.values.clone();
    let collector = Collector::new(text.bytes());
    let survey = Survey::new(first);
    text.visit(threads, |range| {
        let (mut ids, mut found) = (Vec::new(), Found::default());
        let comments = text.records_and_comments(range, |source, target, rest| {
            ids.extend([source, target]);
            survey.see(source, target, rest, &mut found);
            values.read(rest, drop)
        })?;
        survey.add(&found, comments);
        collector.share(ids.into_iter());
        Ok(())
    })?;
    let dictionary = collector.finish();
    check_vertices(dictionary.len(), || Place::whole(file::name(path)))?;
    survey.report(&file::name(path), dictionary.len());
    let ids = names(&dictionary);
    let numbering = match ids {
        VertexIds::Dense => Numbering::Dense(dictionary.len()),
        _ => Numbering::Listed(dictionary),
    };
    Ok((EdgeText::new(text, numbering, values), ids))
}

/// Counts of a whole edge list for the reading report. Several threads add to them.
struct Survey {
    first: FirstEdge,
    edges: AtomicU64,
    /// Number of edge ends that equal the source of the first edge, and number that equal its
    /// target.
    ends: [AtomicU64; 2],
    /// Number of edges that have a number in a field where the first edge has a word.
    numbers: AtomicU64,
    comments: AtomicU64,
}

/// Counts of one range of an edge list, which are added to a [`Survey`].
#[derive(Default)]
struct Found {
    edges: u64,
    ends: [u64; 2],
    numbers: u64,
}

impl Survey {
    fn new(first: FirstEdge) -> Self {
        let zero = || AtomicU64::new(0);
        Self { first, edges: zero(), ends: [zero(), zero()], numbers: zero(), comments: zero() }
    }

    fn see(&self, source: u64, target: u64, rest: &[u8], found: &mut Found) {
        found.edges += 1;
        if let Some((a, b)) = self.first.ids {
            found.ends[0] += u64::from(source == a) + u64::from(target == a);
            found.ends[1] += u64::from(source == b) + u64::from(target == b);
        }
        if self.first.values.has_words() {
            found.numbers += u64::from(self.first.values.finds_number(rest));
        }
    }

    fn add(&self, found: &Found, comments: u64) {
        self.edges.fetch_add(found.edges, Relaxed);
        self.ends[0].fetch_add(found.ends[0], Relaxed);
        self.ends[1].fetch_add(found.ends[1], Relaxed);
        self.numbers.fetch_add(found.numbers, Relaxed);
        self.comments.fetch_add(comments, Relaxed);
    }

    /// Adds the counts and possible doubts to the reading report. `vertices` is the number of
    /// distinct ids.
    fn report(&self, file: &str, vertices: u64) {
        let edges = self.edges.load(Relaxed);
        eciton_input::notes::fact(format!("{file}: {edges} lines with an edge, {vertices} distinct ids"));
        edge_text::report_comments(file, self.comments.load(Relaxed));
        self.first.values.report_words(file, &self.first.rest, self.numbers.load(Relaxed));
        // If the first edge is a self-loop, both its ends are equal.
        let looped = self.first.ids.is_some_and(|(a, b)| a == b);
        let own = if looped { 2 } else { 1 };
        let again = self.ends.each_ref().map(|ends| ends.load(Relaxed) > own);
        let only_first = again.iter().filter(|again| !**again).count() as u64;
        let others = OtherEdges {
            vertices: vertices.saturating_sub(if looped { only_first / 2 } else { only_first }),
            edges: edges.saturating_sub(1),
            has_first: again != [false, false],
        };
        self.first.report_doubts(file, &others);
    }
}

fn names(dictionary: &Dictionary) -> VertexIds {
    match dictionary.dense() {
        true => VertexIds::Dense,
        false => VertexIds::Numbers(dictionary.ids()),
    }
}

/// Reads the edges of a compressed file into memory. While it is read, an edge takes 16 bytes, and
/// afterwards 8. Each value takes 4 bytes.
fn unpacked(path: &Path) -> Result<(ValuedEdges, Dictionary)> {
    let mut lines = Lines::open(path)?;
    let name = lines.file().to_owned();
    let (mut numbers, mut collector, mut bytes) = (Grown::new(&name), None, 0u64);
    let (mut survey, mut found, mut comments): (Option<Survey>, _, _) = (None, Found::default(), 0);
    let mut values = Grown::new(&name);
    while let Some((first, block)) = lines.next()? {
        let start = bytes == 0;
        bytes += block.len() as u64;
        let from = numbers.len();
        // The shortest line has four bytes, the shortest value two.
        let (room, values) = (numbers.room(block.len() / 4 + 1)?, values.room(block.len() / 2 + 1)?);
        let mark = if start && block.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let text = block.get(mark..).unwrap_or_default();
        records(text, 2, |source, target, rest| {
            room.push((source, target));
            let survey = survey.get_or_insert_with(|| Survey::new(FirstEdge::new(source, target, rest)));
            survey.see(source, target, rest, &mut found);
            survey.first.values.read(rest, |value| values.push(value))
        })
        .map_err(|fault| at_line(&name, first, block, fault))?;
        comments += edge_text::comments(text, start);
        let fresh = numbers.get(from..).unwrap_or_default();
        let ids = fresh.iter().flat_map(|&(source, target)| [source, target]);
        // The size of a large file is estimated from its first block. Only the order of magnitude
        // matters.
        collector.get_or_insert_with(|| Collector::new(64 * bytes)).add(ids);
    }
    let dictionary = collector.unwrap_or_else(|| Collector::new(0)).finish();
    check_vertices(dictionary.len(), || Place::whole(name.clone()))?;
    let find = |id: u64| {
        dictionary.find(id).ok_or_else(|| {
            Error::malformed(Place::whole(&name), "ids that are in the dictionary", id.to_string())
        })
    };
    let _charge = file::charge(&name, 8 * numbers.len() as u64)?;
    let edges = numbers.iter().map(|&(s, t)| Ok((find(s)?, find(t)?))).collect::<Result<_>>()?;
    if let Some(survey) = &survey {
        survey.add(&found, comments);
        survey.report(&name, dictionary.len());
    }
    let columns = survey.map_or(0, |survey| survey.first.values.columns());
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    Ok((ValuedEdges { edges, columns, values: values.finish(), weight: columns == 1 }, dictionary))
}

/// Converts the fault of a block to an error with its line number. `first` is the line number of
/// the block's first line.
pub(crate) fn at_line(file: &str, first: u64, block: &[u8], fault: edge_text::Fault) -> Error {
    let before = block.get(..fault.at).unwrap_or_default();
    let line = first + super::lines::count(before);
    fault.at(Place::line(file, line))
}
