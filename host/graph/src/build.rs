//! Builders of graphs, which turn edges in any order into sorted adjacency lists without repeats.
//!
//! [`in_memory`] builds a [`Graph`]. [`external`] writes a store to disk and stays within a memory
//! limit. The result depends only on the edges. The same edges give the same bytes for any number
//! of threads and any division of the source into chunks.
//!
//! ```
//! use eciton_graph::{adjacency::Options, build};
//! let edges = [(0, 1), (2, 1), (0, 1)];
//! let graph = build::in_memory(&(3, &edges[..]), Options::default(), 2)?;
//! assert_eq!(graph.in_neighbours(1), [0, 2]);
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

mod buckets;
mod external;
mod keys;
mod lists;
mod spill;
mod transpose;

use eciton_input::threads::threads_for;
use eciton_tensor::Slab;

use crate::adjacency::{Adjacency, Graph, Options, check_vertices, offsets_fault};
use crate::edge_rule::Findings;
use crate::edges::{EdgeSource, MAX_STREAMED_COLUMNS};
use crate::error::{Error, Place, Result};
use crate::store::Writer;
use crate::store::section::Section;
use crate::store::writer::GraphSize;
pub use external::MIN_MEMORY_BYTES;
use external::Room;
use keys::Keys;
pub use keys::Listed;
pub use lists::are_lists;
pub(crate) use lists::trusted;

/// Builds a graph from the edges of `source` with `threads` threads (at least one). The peak memory
/// is 12 bytes per directed edge, of which 4 are for the result, and 8 bytes per vertex. In
/// addition, each thread needs memory for one chunk of the source.
///
/// # Errors
/// Returns the errors of `source`. Returns [`Error::EmptyGraph`](crate::error::Error::EmptyGraph)
/// for a source without vertices, and [`Error::Limit`](crate::error::Error::Limit) for too many
/// vertices or a chunk that is too long. Returns
/// [`Error::UnknownVertex`](crate::error::Error::UnknownVertex) with the edge's chunk and position
/// if an edge has an invalid vertex. If several chunks have faults, the fault of the first chunk is
/// returned.
pub fn in_memory(source: &dyn EdgeSource, options: Options, threads: usize) -> Result<Graph> {
    in_memory_counted(source, options, threads).map(|(graph, _)| graph)
}

/// Builds a graph like [`in_memory`], and also returns the numbers of edges and self-loops that
/// were read.
///
/// # Errors
/// Returns the errors of [`in_memory`].
pub fn in_memory_counted(
    source: &dyn EdgeSource,
    options: Options,
    threads: usize,
) -> Result<(Graph, Listed)> {
    check_vertices(source.vertices(), || Place::whole("edges"))?;
    let threads = threads.max(1);
    let keys = Keys::into(source, options);
    let incoming = buckets::lists(&keys, threads)?;
    let graph = match options.symmetric {
        true => Graph::from_parts(incoming, None)?,
        false => with_transpose(incoming, threads)?,
    };
    Ok((graph, keys.listed()))
}

/// Returns the graph without the edges for which `keep` is false. `keep` has one value per edge, in
/// the order of [`Graph::incoming`].
///
/// # Errors
/// Returns [`Error::Malformed`] if `keep` does not have one value per edge.
pub fn retained(graph: &Graph, keep: &[bool]) -> Result<Graph> {
    let lists = graph.incoming();
    if keep.len() != lists.neighbours().len() {
        let expected = format!("a decision for each of {} edges", lists.neighbours().len());
        return Err(Error::malformed(Place::whole("edges"), expected, keep.len().to_string()));
    }
    let mut neighbours = Vec::with_capacity(keep.iter().filter(|keep| **keep).count());
    let mut offsets = Vec::with_capacity(lists.offsets().len());
    offsets.push(0);
    for span in lists.offsets().windows(2) {
        let span = span[0] as usize..span[1] as usize;
        let list = lists.neighbours()[span.clone()].iter().zip(&keep[span]);
        neighbours.extend(list.filter(|(_, keep)| **keep).map(|(&neighbour, _)| neighbour));
        offsets.push(neighbours.len() as u64);
    }
    let threads = threads_for(neighbours.len() as u64);
    with_transpose(trusted(offsets, neighbours), threads)
}

/// Builds a graph from lists of in-neighbours, which may contain self-loops. Lists that do not
/// ascend are sorted, and repeats are dropped. `offsets` must ascend from 0 to the number of
/// neighbours.
///
/// # Errors
/// Returns the errors of [`in_memory`].
pub fn from_lists(offsets: Vec<u64>, neighbours: Vec<u32>, threads: usize) -> Result<Graph> {
    if are_lists(&offsets, &neighbours) {
        return with_transpose(Adjacency::from_parts(offsets, neighbours)?, threads);
    }
    let as_stored = Options { symmetric: false, keep_self_loops: true };
    in_memory(&transpose::Lists::new(&offsets, &neighbours), as_stored, threads)
}

/// Builds a graph from lists in memory that other objects may share. If `options` requires no
/// change of the lists, they are used without a copy. `outgoing` is true if each list contains the
/// targets of one source, and false if it contains the sources of one target.
///
/// ```
/// use eciton_graph::{adjacency::Options, build};
/// let directed = Options { symmetric: false, ..Options::default() };
/// let graph = build::of_lists((vec![0, 1, 1], vec![1]), true, directed, 1)?;
/// assert_eq!((graph.out_neighbours(0), graph.in_neighbours(1)), (&[1][..], &[0][..]));
/// # Ok::<(), eciton_graph::error::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of [`in_memory`], and [`Error::Malformed`] if the offsets do not ascend from
/// 0 to the number of neighbours.
pub fn of_lists(
    (offsets, neighbours): (impl Into<Slab<u64>>, impl Into<Slab<u32>>),
    outgoing: bool,
    options: Options,
    threads: usize,
) -> Result<Graph> {
    let (offsets, neighbours) = (offsets.into(), neighbours.into());
    let (stored, threads) = (neighbours.len() as u64, threads.max(1));
    check_vertices((offsets.len() as u64).saturating_sub(1), || Place::whole("lists"))?;
    if let Some(found) = offsets_fault(&offsets, stored) {
        let expected = format!("offsets that ascend from 0 to {stored}, the number of neighbours");
        return Err(Error::malformed(Place::whole("lists"), expected, found));
    }
    let loops = || {
        let mut lists = (0..).zip(offsets.windows(2));
        lists.any(|(v, at)| neighbours[at[0] as usize..at[1] as usize].binary_search(&v).is_ok())
    };
    let made = match are_lists(&offsets, &neighbours) && (options.keep_self_loops || !loops()) {
        true => {
            let lists = Adjacency::from_parts(offsets, neighbours)?;
            match options.symmetric && !transpose::equals_own(&lists, threads) {
                true => in_memory(&transpose::Lists::from_adjacency(&lists), options, threads)?,
                false => with_transpose(lists, threads)?,
            }
        }
        false => in_memory(&transpose::Lists::new(&offsets, &neighbours), options, threads)?,
    };
    Ok(if outgoing { made.reversed() } else { made })
}

fn with_transpose(incoming: Adjacency, threads: usize) -> Result<Graph> {
    if transpose::equals_own(&incoming, threads) {
        return Ok(Graph::from_pair(incoming, None));
    }
    let as_stored = Options { symmetric: false, keep_self_loops: true };
    let outgoing =
        buckets::lists(&Keys::out_of(&transpose::Lists::from_adjacency(&incoming), as_stored), threads)?;
    Ok(Graph::from_pair(incoming, Some(outgoing)))
}

/// Builds the graph of a store within `memory_bytes` of memory (at least [`MIN_MEMORY_BYTES`]). It
/// uses at most `threads` threads, and fewer if the memory does not suffice. Returns counts of the
/// edges that the edge rule changed.
///
/// Memory of the source itself is not included, nor is an index of 16 bytes for each block of the
/// temporary file. A block is about a 512th of the memory, at most 1 MiB. The temporary file is in
/// the folder of the sections. It takes 8 bytes per directed edge, or with edge values 16 bytes
/// plus 8 for every two values. It takes twice that if most edges are at few vertices. The file is
/// removed before this function returns.
///
/// The sections have the same bytes as with [`in_memory`] and [`Writer::graph`]. The source's
/// values become the store's edge features by the rule of [`EdgeRule`](crate::edge_rule::EdgeRule).
/// If they are [weights](EdgeSource::is_weight),
/// [`Zeros::NoEdges`](crate::edge_rule::Zeros::NoEdges) applies.
///
/// # Errors
/// Returns the errors of [`in_memory`]. Returns [`Error::Write`](crate::error::Error::Write) or
/// [`Error::Read`](crate::error::Error::Read) if a file cannot be written or read, and
/// [`Error::Malformed`](crate::error::Error::Malformed) if `memory_bytes` is too small. Returns
/// [`Error::NotFinite`](crate::error::Error::NotFinite) for an infinite value or NaN, and
/// [`Error::Limit`](crate::error::Error::Limit) for too many value columns.
pub fn external(
    source: &dyn EdgeSource,
    options: Options,
    memory_bytes: u64,
    threads: usize,
    writer: &mut Writer,
) -> Result<Findings> {
    external_in(source, options, &Room::new(memory_bytes, threads, source.columns())?, writer)
}

fn external_in(
    source: &dyn EdgeSource,
    options: Options,
    room: &Room,
    writer: &mut Writer,
) -> Result<Findings> {
    let vertices = source.vertices();
    check_vertices(vertices, || Place::whole("edges"))?;
    if source.columns() > MAX_STREAMED_COLUMNS {
        return Err(Error::Limit {
            place: Place::whole("edges"),
            limit: "values of an edge that are streamed",
            unit: "columns",
            allowed: MAX_STREAMED_COLUMNS.into(),
            found: source.columns().into(),
            remedy: "remove columns that are not needed, or write the data as a folder with edges.csv, which is read as a whole",
        });
    }
    let incoming = [Section::Offsets, Section::Neighbours];
    let keys = Keys::into(source, options).with_values();
    let lists = external::lists(&keys, room, writer, incoming, true)?;
    let (incoming, rows, found) = (lists.sections, lists.rows, lists.findings);
    let mut symmetric = options.symmetric;
    if !symmetric {
        let outgoing = [Section::OutOffsets, Section::OutNeighbours];
        let keys = Keys::out_of(source, options);
        // If the values are weights, they decide which edges exist.
        let keys = if source.is_weight() { keys.with_values() } else { keys };
        let outgoing = external::lists(&keys, room, writer, outgoing, false)?.sections;
        symmetric = writer.same(&incoming[0], &outgoing[0])? && writer.same(&incoming[1], &outgoing[1])?;
        for section in outgoing {
            match symmetric {
                true => writer.discard(section.section)?,
                false => writer.keep(section),
            }
        }
    }
    let edges = incoming[1].values;
    incoming.into_iter().for_each(|section| writer.keep(section));
    if let Some(rows) = rows {
        writer.keep_edge_features(keys.columns(), rows);
    }
    writer.set_graph(GraphSize { vertices, edges, symmetric });
    let read = keys.listed();
    Ok(match keys.columns() {
        0 => {
            let edges = if options.symmetric { (edges - found.loops) / 2 + found.loops } else { edges };
            let dropped = if options.keep_self_loops { 0 } else { read.loops };
            let repeats = read.edges.saturating_sub(dropped).saturating_sub(edges);
            Findings { repeats, loops: dropped, ..Findings::default() }
        }
        _ => Findings { loops: if options.keep_self_loops { 0 } else { read.loops }, ..found.findings },
    })
}

#[cfg(test)]
mod tests;
