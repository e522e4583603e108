//! Nodes and edges of a graph document with their attributes, before they are converted to tables.

use std::collections::HashMap;
use std::path::Path;

use eciton_graph::error::{Error, Place, Result};

use crate::file;
use crate::table::Table;

/// Maximum nesting depth of attributes.
pub(super) const MAX_DEPTH: usize = 64;

/// Nodes or edges with their attributes, in the order of the document.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) keys: Vec<String>,
    pub(super) positions: HashMap<String, u32>,
    /// Attributes of all records, as pairs of key index and value.
    pub(super) cells: Vec<(u32, String)>,
    /// Position in `cells` at which the attributes of each record end.
    pub(super) ends: Vec<usize>,
    /// Ids of each record. A node has its own id and an empty string. An edge has the ids of its
    /// source and target.
    pub(super) ids: Vec<[String; 2]>,
}

impl Records {
    pub(super) fn key(&mut self, name: &str) -> u32 {
        if let Some(&at) = self.positions.get(name) {
            return at;
        }
        let at = self.keys.len() as u32;
        self.keys.push(name.to_owned());
        self.positions.insert(name.to_owned(), at);
        at
    }

    /// Adds an attribute to the current record.
    pub(super) fn add(&mut self, name: &str, value: String) {
        let key = self.key(name);
        self.cells.push((key, value));
    }

    /// Completes the current record, which has the given ids.
    pub(super) fn end(&mut self, ids: [String; 2]) {
        self.ends.push(self.cells.len());
        self.ids.push(ids);
    }

    pub(super) fn cells(&self, record: usize) -> &[(u32, String)] {
        let from = if record == 0 { 0 } else { self.ends[record - 1] };
        &self.cells[from..self.ends[record]]
    }

    /// Returns the value of the key `name` for every record. Returns `None` if a record has no
    /// value, or if two records have the same value.
    pub(super) fn distinct(&self, name: &str) -> Option<Vec<String>> {
        let key = *self.positions.get(name)?;
        let find = |record: usize| {
            let found = self.cells(record).iter().find(|(of, value)| *of == key && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        let values: Vec<String> = (0..self.ends.len()).map(find).collect::<Option<_>>()?;
        let distinct: std::collections::HashSet<&str> = values.iter().map(String::as_str).collect();
        (distinct.len() == values.len()).then_some(values)
    }

    /// Converts the records to a table. Its first columns contain the ids of the records and have
    /// the names `ids`. Attributes whose keys are in `without` are omitted.
    pub(super) fn table(&self, (path, file): (&Path, &str), ids: &[&str], without: &[&str]) -> Result<Table> {
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
            // The columns of ids have these names already.
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

/// Nodes and edges of a graph document.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Records,
    pub(super) edges: Records,
}

impl Document {
    /// Replaces the ids of all nodes by `names`, including at the ends of edges.
    ///
    /// # Errors
    /// Returns [`Error::UnknownVertex`] if an edge has an end that is not a node.
    pub(super) fn renamed(&mut self, names: Vec<String>, file: &str) -> Result<()> {
        let mut positions = HashMap::new();
        for (at, [id, _]) in self.nodes.ids.iter().enumerate() {
            positions.insert(id.clone(), at);
        }
        for (edge, ids) in self.edges.ids.iter_mut().enumerate() {
            for id in ids {
                let at = positions.get(id.as_str()).ok_or_else(|| Error::UnknownVertex {
                    place: Place::row(format!("{file}, edges"), edge as u64),
                    vertex: eciton_input::text::cut(id, 60),
                    known: format!("none of the {} nodes has this id", names.len()),
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
