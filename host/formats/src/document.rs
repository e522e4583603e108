//! Graph documents: GML, GraphML and node-link JSON, as networkx, igraph, Gephi and d3 write them.
//!
//! A reader of a document collects [`Records`] of nodes and of edges. They become a table of nodes and a table
//! of edges, which are read as those of a folder: attributes of nodes are columns with kinds, or labels, and
//! numbers of edges are edge features. Files beside the document hold what its nodes do not: `features`,
//! `labels` and `split`, as [`super::folder`] reads them.
//!
//! Nested attributes are columns of their own (`pos.x`, `pos.0`). Every edge counts in both directions. Memory
//! is the file, the attributes as text, and the two tables, beside the data set.

mod gml;
mod graphml;
mod json;
mod xml;

use std::collections::HashMap;
use std::path::Path;

use eciton_graph::dataset::Dataset;
use eciton_graph::error::{Error, Place, Result};

use super::folder::{self, roles::Roles};
use super::table::Table;
use super::{Request, file};

/// Multiple of a document's bytes that reading it takes.
const MEMORY_PER_BYTE: u64 = 8;
/// Maximum depth of nested attributes.
const MAX_DEPTH: usize = 64;

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Gml,
    GraphMl,
    Json,
}

impl Format {
    /// Returns the format of a file by the ending of its name.
    pub(crate) fn by_ending(ending: &str) -> Option<Self> {
        match ending {
            "gml" => Some(Self::Gml),
            "graphml" => Some(Self::GraphMl),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// Nodes or edges with their attributes, in the order of the document.
#[derive(Debug, Default)]
struct Records {
    keys: Vec<String>,
    positions: HashMap<String, u32>,
    /// Key and value of each attribute.
    cells: Vec<(u32, String)>,
    /// Number of cells at the end of each record.
    ends: Vec<usize>,
    /// Ids of each record: of a node one and an empty one, of an edge source and target.
    ids: Vec<[String; 2]>,
}

impl Records {
    fn key(&mut self, name: &str) -> u32 {
        if let Some(&at) = self.positions.get(name) {
            return at;
        }
        let at = self.keys.len() as u32;
        self.keys.push(name.to_owned());
        self.positions.insert(name.to_owned(), at);
        at
    }

    /// Adds an attribute to the record that is being read.
    fn add(&mut self, name: &str, value: String) {
        let key = self.key(name);
        self.cells.push((key, value));
    }

    /// Ends a record.
    fn end(&mut self, ids: [String; 2]) {
        self.ends.push(self.cells.len());
        self.ids.push(ids);
    }

    fn cells(&self, record: usize) -> &[(u32, String)] {
        let from = if record == 0 { 0 } else { self.ends[record - 1] };
        &self.cells[from..self.ends[record]]
    }

    /// Returns the values of a key if every record has a value of its own.
    fn distinct(&self, name: &str) -> Option<Vec<String>> {
        let key = *self.positions.get(name)?;
        let find = |record: usize| {
            let found = self.cells(record).iter().find(|(of, value)| *of == key && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        let values: Vec<String> = (0..self.ends.len()).map(find).collect::<Option<_>>()?;
        let distinct: std::collections::HashSet<&str> = values.iter().map(String::as_str).collect();
        (distinct.len() == values.len()).then_some(values)
    }

    /// Writes the records as a table whose first columns, `ids`, hold their ids. Keys of `without` are left out.
    fn table(&self, (path, file): (&Path, &str), ids: &[&str], without: &[&str]) -> Result<Table> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::malformed(
                Place::whole(file),
                "attributes that can be written as a table",
                error.to_string(),
            )
        };
        let chosen: Vec<usize> =
            (0..self.keys.len()).filter(|&at| !without.contains(&self.keys[at].as_str())).collect();
        let mut column = vec![usize::MAX; self.keys.len()];
        for (at, &key) in chosen.iter().enumerate() {
            column[key] = at;
        }
        let columns = (ids.len() + chosen.len()) as u64;
        let _charge = file::charge(file, columns.saturating_mul(self.ids.len() as u64))?;
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = chosen.iter().map(|&at| match self.keys[at].as_str() {
            // The ids have these names already.
            name if ids.contains(&name) => format!("{name} attribute"),
            name => name.to_owned(),
        });
        let header = ids.iter().map(|&id| id.to_owned()).chain(names);
        writer.write_record(header).map_err(|error| failed(&error))?;
        let mut row: Vec<&str> = Vec::new();
        for (record, of) in self.ids.iter().enumerate() {
            row.clear();
            row.extend(of.iter().take(ids.len()).map(String::as_str));
            row.resize(ids.len() + chosen.len(), "");
            for (key, value) in self.cells(record) {
                if let Some(slot) = row.get_mut(ids.len().saturating_add(column[*key as usize])) {
                    *slot = value;
                }
            }
            writer.write_record(&row).map_err(|error| failed(&error))?;
        }
        let text = writer.into_inner().map_err(|error| failed(&error))?;
        Ok(Table::of_text(text.into(), path, file))
    }
}

/// Content of a document.
#[derive(Debug, Default)]
struct Document {
    nodes: Records,
    edges: Records,
}

impl Document {
    /// Replaces the ids of nodes by `names`, at the ends of edges too.
    ///
    /// # Errors
    /// [`Error::UnknownVertex`] for an edge whose end is no node.
    fn renamed(&mut self, names: Vec<String>, file: &str) -> Result<()> {
        let mut positions = HashMap::new();
        for (at, [id, _]) in self.nodes.ids.iter().enumerate() {
            positions.insert(id.clone(), at);
        }
        for (edge, ids) in self.edges.ids.iter_mut().enumerate() {
            for id in ids {
                let at = positions.get(id.as_str()).ok_or_else(|| Error::UnknownVertex {
                    place: Place::row(format!("{file}, edges"), edge as u64),
                    vertex: eciton_input::text::cut(id, 60),
                    known: format!("it is the id of none of the {} nodes", names.len()),
                })?;
                *id = names[*at].clone();
            }
        }
        for ([id, _], name) in self.nodes.ids.iter_mut().zip(names) {
            *id = name;
        }
        Ok(())
    }
}

/// Reads a document, and what lies beside it.
///
/// # Errors
/// [`Error::Malformed`] with the line for text that is not of the format; as [`super::folder::open`].
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
            remedy: "write the table of nodes as a .csv with a column for labels: rows need no graph",
        });
    }
    let edges =
        document.edges.table((path, &format!("{name}, edges")), &["source", "target"], &["id", "key"])?;
    edges.set_edges();
    let folder = super::parent(path);
    // Files beside the document hold what its nodes do not.
    let bare = document.nodes.keys.iter().all(|key| key == "id") && folder::has_parts(folder);
    let nodes = match document.nodes.ids.is_empty() || bare {
        true => None,
        false => Some(document.nodes.table((path, &format!("{name}, nodes")), &["id"], &["id"])?),
    };
    drop(document);
    let mut made = folder::open_tables(folder, &Roles::beside(folder)?, edges, nodes, request)?;
    made.name = file::stem(path);
    Ok(made)
}
