//! Edge lists as SNAP publishes them (Leskovec and Krevl, snap.stanford.edu/data): text, one edge a
//! line, `#` before comments, ids any whole numbers below 2^64 with gaps; plain or packed with gzip.
//!
//! ```text
//! # Directed graph: as-caida20071105.txt
//! # FromNodeId    ToNodeId
//! 1       3356
//! 1       3549
//! ```
//!
//! Fields are separated by blanks, tabs or commas. Further ones (weights, times) that are numbers behind the first
//! edge are columns of edge features, and then numbers behind every edge. `%` starts a comment as well, as in KONECT's lists.
//! Vertices are the ids that occur, in ascending order; results come back in these ids. Every edge counts
//! in both directions. What is known of the vertices lies beside the file: `features`, `labels` and
//! `split` as [`super::folder`] reads them.

use std::path::Path;

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_graph::error::{Error, Place, Result};

use super::dictionary::{Collector, Dictionary};
use super::edge_text::{self, EdgeText, Numbering, Ranges, ValueFields, records};
use super::file::Grown;
use super::folder::Attributes;
use super::gzip::Source;
use super::lines::Lines;
use super::{ValuedEdges, file};

/// How the files are called, each with or without `.gz`.
pub(crate) const EXTENSIONS: [&str; 6] = ["txt", "edges", "edgelist", "el", "tsv", "snap"];

/// Reads an edge list into memory, and what lies beside it.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::EmptyGraph`], [`Error::Limit`], and those of
/// [`super::folder::open`] for the files beside.
pub fn open(path: &Path) -> Result<Dataset> {
    let ((graph, edge_features), ids) = if Source::open(path)?.packed() {
        let (edges, dictionary) = unpacked(path)?;
        (edges.graph(dictionary.len())?, names(&dictionary))
    } else {
        let (source, ids) = edges(path, super::threads())?;
        (super::graph_and_values(&source)?, ids)
    };
    let vertices = u64::from(graph.vertices());
    let known = Attributes::beside(super::parent(path), &ids, vertices)?;
    known.dataset(file::stem(path), graph, edge_features, ids)
}

/// The edges of a plain file, to be streamed, with their values, and what the file calls the vertices.
///
/// The file is read once, by `threads` threads, to learn its ids and to check its values. Memory: 8 MiB of text and 32 MiB
/// of ids a thread, the dictionary (1.06 bit for each number up to the highest id, or 8 bytes an
/// id), and 8 bytes a vertex for what is returned unless ids are 0 to V - 1.
///
/// # Errors
/// [`Error::Malformed`] with the line, or for a packed file; [`Error::EmptyGraph`];
/// [`Error::Limit`].
pub fn edges(path: &Path, threads: usize) -> Result<(EdgeText, VertexIds)> {
    edge_text::refuse_packed(path)?;
    let text = Ranges::open(path, 0, 2)?;
    let values = text.value_fields()?;
    let collector = std::sync::Mutex::new(Collector::new(text.bytes()));
    text.visit(threads, |range| {
        let mut ids = Vec::new();
        text.records(range, |source, target, rest| {
            ids.extend([source, target]);
            values.read(rest, drop)
        })?;
        // Sorted before the lock is taken, so that threads wait for each other little.
        ids.sort_unstable();
        ids.dedup();
        collector.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(ids.into_iter());
        Ok(())
    })?;
    let collector = collector.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dictionary = collector.finish();
    check_vertices(dictionary.len(), || Place::whole(file::name(path)))?;
    let ids = names(&dictionary);
    Ok((EdgeText::new(text, Numbering::Listed(dictionary), values), ids))
}

fn names(dictionary: &Dictionary) -> VertexIds {
    match dictionary.dense() {
        true => VertexIds::Dense,
        false => VertexIds::Numbers(dictionary.ids()),
    }
}

/// The edges of a packed file: 16 bytes each while they are read, 8 afterwards; 4 a value.
fn unpacked(path: &Path) -> Result<(ValuedEdges, Dictionary)> {
    let mut lines = Lines::open(path)?;
    let name = lines.file().to_owned();
    let (mut numbers, mut collector, mut bytes) = (Grown::new(&name), None, 0);
    let (mut fields, mut values) = (None, Grown::new(&name));
    while let Some((first, block)) = lines.next()? {
        bytes += block.len() as u64;
        let from = numbers.len();
        // The shortest line has four bytes, the shortest value two.
        let (room, values) = (numbers.room(block.len() / 4 + 1)?, values.room(block.len() / 2 + 1)?);
        records(block, 2, |source, target, rest| {
            room.push((source, target));
            let fields = fields.get_or_insert_with(|| ValueFields::of_first_edge(rest));
            fields.read(rest, |value| values.push(value))
        })
        .map_err(|fault| at_line(&name, first, block, fault))?;
        let fresh = numbers.get(from..).unwrap_or_default();
        let ids = fresh.iter().flat_map(|&(source, target)| [source, target]);
        // A first block of a large file stands for the whole: what matters is the order of size.
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
    let columns = fields.map_or(0, |fields: ValueFields| fields.columns());
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    Ok((ValuedEdges { edges, columns, values: values.finish() }, dictionary))
}

/// The error of a fault in a block whose first line has this number.
pub(crate) fn at_line(file: &str, first: u64, block: &[u8], fault: edge_text::Fault) -> Error {
    let before = block.get(..fault.at).unwrap_or_default();
    let line = first + super::lines::count(before);
    Error::malformed(Place::line(file, line), fault.expected, fault.found)
}
