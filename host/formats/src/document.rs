//! Graph documents in GML, GraphML and node-link JSON, as written by networkx, igraph, Gephi and
//! d3.
//!
//! The reader of a document collects [`records::Records`] of nodes and of edges. They are converted
//! to a node table and an edge table, which are read like the tables of a folder. Node attributes
//! become feature columns or labels, and numeric edge attributes become edge features. Files next
//! to the document (`features`, `labels` and `split`) may provide the rest, as described in
//! [`super::folder`].
//!
//! Nested attributes become separate columns, for instance `pos.x` or `pos.0`. Every edge is used
//! in both directions. In addition to the data set, reading needs memory for the file, the
//! attributes as text, and the two tables.

mod gml;
mod graphml;
mod json;
mod records;
mod xml;

use std::path::Path;

use eciton_graph::dataset::Dataset;
use eciton_graph::error::{Error, Place, Result};

use super::file;
use super::folder::{self, roles::Roles};
use super::request::Request;

/// Estimated memory for reading a document, in bytes per byte of the file.
const MEMORY_PER_BYTE: u64 = 8;

/// Format of a graph document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Gml,
    GraphMl,
    Json,
}

impl Format {
    /// Returns the format with this file name extension, or `None` if the extension is unknown.
    pub(crate) fn by_ending(ending: &str) -> Option<Self> {
        match ending {
            "gml" => Some(Self::Gml),
            "graphml" => Some(Self::GraphMl),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Reads a graph document together with the tables next to it.
///
/// # Errors
/// Returns [`Error::Malformed`] with the line if the text does not follow the format. Also returns
/// the errors of [`super::folder::open`].
pub(crate) fn open(path: &Path, format: Format, request: Request<'_>) -> Result<Dataset> {
    let name = file::name(path);
    let bytes = file::read(path)?;
    let _charge = file::charge(&name, bytes.len() as u64 * MEMORY_PER_BYTE)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        Error::malformed(Place::line(&name, line), "UTF-8 text", "other bytes")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let document = match format {
        Format::Gml => gml::read(text, &name)?,
        Format::GraphMl => graphml::read(text, &name)?,
        Format::Json => json::read(text, &name)?,
    };
    drop(bytes);
    if document.edges.ids.is_empty() {
        return Err(Error::Malformed {
            place: Place::whole(name),
            expected: "at least one edge".to_owned(),
            found: format!("{} nodes and no edge", document.nodes.ids.len()),
            remedy: "add edges, or write the nodes as a .csv table with a label column, which needs no graph",
        });
    }
    let edges =
        document.edges.table((path, &format!("{name}, edges")), &["source", "target"], &["id", "key"])?;
    edges.set_edges();
    let folder = file::parent(path);
    // Files next to the document contain what its nodes lack.
    let bare = document.nodes.keys.iter().all(|key| key == "id") && folder::has_parts(folder);
    let nodes = match document.nodes.ids.is_empty() || bare {
        true => None,
        false => Some(document.nodes.table((path, &format!("{name}, nodes")), &["id"], &["id"])?),
    };
    drop(document);
    let own = nodes.is_some();
    let mut made = folder::open_tables(folder, &Roles::beside(folder)?, edges, (nodes, own), request)?;
    made.name = file::stem(path);
    Ok(made)
}
