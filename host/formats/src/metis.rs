//! Reader for METIS graph files and partition files (Karypis, METIS 5 manual, sections 4.1 and
//! 4.2), plain or compressed with gzip.
//!
//! ```text
//! % a path of three vertices: 3 vertices, 2 edges
//! 3 2
//! 2
//! 1 3
//! 2
//! ```
//!
//! The first line has the number of vertices and of undirected edges. Optionally, `fmt` (three
//! flags for vertex sizes, vertex weights and edge weights) and `ncon` (the number of weights per
//! vertex) follow. Then each vertex has one line with its neighbours. Lines that start with `%` are
//! comments.
//!
//! Edge weights become a column of edge features, and edges of weight 0 are dropped. Sizes and
//! weights of vertices are ignored. Vertices keep their ids 1 to V. Files next to the graph may
//! contain `features`, `labels` and `split`, as described in [`super::folder`].

use std::path::Path;

use eciton_graph::adjacency::{Options, check_vertices};
use eciton_graph::dataset::{Dataset, VertexIds};
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::threads::processors;

use super::edge_graph::AS_LISTED;
use super::edge_text::excerpt;
use super::file;
use super::file::Grown;
use super::folder::Attributes;
use super::lines::Lines;
use super::request::Request;

/// File name extensions of METIS graph files, each with or without `.gz`.
pub(crate) const EXTENSIONS: [&str; 2] = ["graph", "metis"];
/// Maximum number of weights per vertex (`ncon`).
pub const MAX_WEIGHTS: u64 = 64;

/// Contents of the first line of a graph file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    vertices: u64,
    edges: u64,
    /// Number of values before the neighbours in each line, which are the vertex's size and
    /// weights.
    before: u64,
    /// True if each neighbour is followed by an edge weight.
    weighted: bool,
}

/// Reads a METIS graph file into memory, together with the tables next to it. Reading needs memory
/// for the whole text, and 8 bytes per neighbour, or 12 with edge weights.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid, and [`Error::UnknownVertex`]
/// if a neighbour does not exist. Returns [`Error::Mismatch`] if the number of edges differs from
/// the first line. Returns [`Error::EmptyGraph`] if there are no vertices, and [`Error::Limit`] if
/// there are too many. Also returns the errors of [`super::folder::open`] for the tables.
pub fn open(path: &Path, request: Request<'_>) -> Result<Dataset> {
    let (bytes, name) = (file::read(path)?, file::name(path));
    let mut lines =
        (1u64..).zip(bytes.split(|&byte| byte == b'\n')).filter(|(_, line)| !line.starts_with(b"%"));
    let header = lines.by_ref().find(|(_, line)| !line.trim_ascii().is_empty());
    let Some((number, line)) = header else {
        let expected = "a first line with the numbers of vertices and edges";
        return Err(Error::malformed(Place::whole(name), expected, "the end of the file"));
    };
    let header = Header::parse(line).ok_or_else(|| {
        let expected = "the first line: vertices, edges, and perhaps fmt (000 to 111) and ncon";
        Error::malformed(Place::line(&name, number), expected, excerpt(line))
    })?;
    check_vertices(header.vertices, || Place::line(&name, number))?;
    // Each vertex has a line. The last line may lack its line end.
    if header.vertices > bytes.len() as u64 {
        let expected = format!("{} lines, one per vertex", header.vertices);
        let found = format!("{} bytes", bytes.len());
        return Err(Error::malformed(Place::whole(name), expected, found));
    }
    let (mut pairs, mut weights) = (Grown::new(&name), Grown::new(&name));
    let mut vertex = 0;
    for (number, line) in lines {
        if vertex == header.vertices {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let expected = format!("no more than {} lines of vertices", header.vertices);
            return Err(Error::malformed(Place::line(&name, number), expected, excerpt(line)));
        }
        // A neighbour and its separator take at least two bytes.
        let (room, values) = (pairs.room(line.len() / 2 + 1)?, weights.room(line.len() / 2 + 1)?);
        header.neighbours(line, &name, number, |neighbour, weight| {
            room.push((neighbour, vertex as u32));
            values.extend(weight.map(|weight| weight as f32));
        })?;
        vertex += 1;
    }
    if vertex < header.vertices {
        let expected = format!("{} lines, one per vertex", header.vertices);
        return Err(Error::malformed(Place::whole(name), expected, format!("{vertex}")));
    }
    if pairs.len() as u64 != header.edges.saturating_mul(2) {
        return Err(Error::Mismatch {
            place: Place::whole(name),
            what: "neighbours (two for each edge)",
            found: pairs.len() as u64,
            expected: header.edges.saturating_mul(2),
            other: "the first line".to_owned(),
        });
    }
    drop(bytes);
    let listed = Options { symmetric: false, keep_self_loops: true };
    let rule = EdgeRule::new(&name, listed);
    let (graph, found) = rule.merged(&(header.vertices, &pairs[..]), processors())?;
    if !graph.symmetric() {
        let found = "an edge that is listed at one end only";
        return Err(Error::malformed(Place::whole(name), "each edge at both its ends", found));
    }
    let (graph, edge_features, found) = match header.weighted {
        false => (graph, None, found),
        true => {
            // Each edge is listed at both ends, so the rule combines the two directions.
            let rule = EdgeRule::new(&name, AS_LISTED).with_zeros(Zeros::NoEdges);
            let (graph, rows, found) = rule.placed(graph, &pairs, 1, &weights)?;
            (graph, Some(rows), found)
        }
    };
    found.report(&name, false);
    drop((pairs, weights));
    let ids = VertexIds::Numbers((1..=header.vertices).collect());
    let known = Attributes::beside(file::parent(path), &ids, header.vertices, request)?;
    known.dataset(file::stem(path), graph, edge_features)
}

impl Header {
    fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words.get(at).map(|word| word.parse::<u64>().ok());
        let (vertices, edges) = (number(0)??, number(1)??);
        let flags = match words.get(2) {
            None => [false; 3],
            Some(flags) if (1..=3).contains(&flags.len()) => {
                let mut set = [false; 3];
                for (to, byte) in set.iter_mut().rev().zip(flags.bytes().rev()) {
                    *to = match byte {
                        b'0' => false,
                        b'1' => true,
                        _ => return None,
                    };
                }
                set
            }
            Some(_) => return None,
        };
        let [sizes, weights, weighted] = flags;
        let each = match number(3) {
            None => 1,
            Some(each) => each.filter(|each| (1..=MAX_WEIGHTS).contains(each) && weights)?,
        };
        let before = u64::from(sizes) + if weights { each } else { 0 };
        (words.len() <= 4).then_some(Self { vertices, edges, before, weighted })
    }

    /// Parses the line of a vertex. Calls `each` with every neighbour (numbered from 0) and the
    /// weight of its edge. `number` is the line number for error messages.
    fn neighbours(
        &self,
        line: &[u8],
        file: &str,
        number: u64,
        mut each: impl FnMut(u32, Option<u64>),
    ) -> Result<()> {
        let wrong = |expected: &str, word: &[u8]| {
            Error::malformed(Place::line(file, number), expected, excerpt(word))
        };
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        for _ in 0..self.before {
            let word = words.next().unwrap_or_default();
            whole(word)
                .ok_or_else(|| wrong("the vertex's sizes and weights, which are whole numbers", word))?;
        }
        while let Some(word) = words.next() {
            let neighbour =
                whole(word).ok_or_else(|| wrong("a neighbour, which is a whole number from 1", word))?;
            if neighbour == 0 || neighbour > self.vertices {
                return Err(Error::UnknownVertex {
                    place: Place::line(file, number),
                    vertex: neighbour.to_string(),
                    known: format!("vertices are 1 to {}", self.vertices),
                });
            }
            let mut weight = None;
            if self.weighted {
                let word = words.next().unwrap_or_default();
                let expected = "a weight after each neighbour (because of fmt in the first line)";
                weight = Some(whole(word).ok_or_else(|| wrong(expected, word))?);
            }
            each((neighbour - 1) as u32, weight);
        }
        Ok(())
    }
}

fn whole(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

/// Reads a partition file as `gpmetis` writes it. It has one line per vertex with the part of the
/// vertex, from 0. `vertices` is the expected number of lines, or `None` if it is not known.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text is invalid. Returns [`Error::Mismatch`]
/// if the number of vertices is not the expected one. Returns [`Error::EmptyGraph`] if the file is
/// empty, and [`Error::Limit`] if there are too many vertices.
pub fn partition(path: &Path, vertices: Option<u64>) -> Result<Vec<u32>> {
    let name = file::name(path);
    let mut parts = Vec::new();
    Lines::open(path)?.each(|number, line| {
        let word = line.trim_ascii();
        if word.is_empty() || word.starts_with(b"%") {
            return Ok(());
        }
        match whole(word).and_then(|part| u32::try_from(part).ok()).filter(|&part| part < u32::MAX) {
            Some(part) if (parts.len() as u64) < eciton_graph::adjacency::MAX_VERTICES => parts.push(part),
            Some(_) => {
                return Ok(check_vertices(parts.len() as u64 + 1, || Place::line(&name, number))?);
            }
            None => {
                let place = Place::line(&name, number);
                return Err(Error::malformed(
                    place,
                    "the vertex's part, which is one whole number",
                    excerpt(line),
                ));
            }
        }
        Ok(())
    })?;
    let found = parts.len() as u64;
    check_vertices(found, || Place::whole(&name))?;
    match vertices {
        Some(expected) if expected != found => Err(Error::Mismatch {
            place: Place::whole(&name),
            what: "vertices",
            found,
            expected,
            other: "the graph".to_owned(),
        }),
        _ => Ok(parts),
    }
}
