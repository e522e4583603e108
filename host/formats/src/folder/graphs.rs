//! Reader for `graphs.csv`, which assigns each vertex to a graph.

use std::path::{Path, PathBuf};

use eciton_graph::dataset::VertexIds;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::graphs::Graphs;
use eciton_input::file::present;

use super::ids::{Ids, Placed, Words};
use crate::array::Array;
use crate::table::Table;

/// Returns the path of `graphs.csv` next to a graph file, if it exists. Files with other spellings
/// are ignored, because they may be edge lists.
pub(crate) fn graphs_beside(folder: &Path) -> Option<PathBuf> {
    ["graphs.csv", "graphs.csv.gz"].iter().map(|name| folder.join(name)).find(|path| present(path))
}

/// Graph of each vertex, and the ids of the graphs in the user's data.
pub(super) struct GraphIds {
    pub(super) graphs: Graphs,
    pub(super) ids: Ids,
    /// Representative vertex of each graph, by graph. It has the labels of the graph.
    pub(super) at: Vec<u32>,
}

impl GraphIds {
    /// Reads the table that assigns each vertex to a graph.
    pub(super) fn from_table(table: &Table, ids: &Ids) -> Result<Self> {
        // Graph of each vertex, as an index of the words of the file.
        let (mut words, mut of) = (Words::new(&table.file), vec![u32::MAX; ids.len() as usize]);
        let mut placed = Placed::new(ids);
        let unused: Vec<String> = table.names(0)?.into_iter().skip(2).collect();
        if !unused.is_empty() {
            let why = "the second column contains the graph";
            eciton_input::notes::add(crate::columns::unused(&table.file, why, &unused));
        }
        table.each(2, |row| {
            let vertex = placed.place(table, row, ids)?;
            if row.get(1).is_empty() {
                return Err(table.wrong(row.line(), "an id and its graph", ""));
            }
            let word = words.add(row.get(1))?;
            if let Some(slot) = of.get_mut(vertex as usize) {
                *slot = word;
            }
            Ok(())
        })?;
        if let Some(vertex) = placed.first_missing() {
            return Err(Error::Malformed {
                place: Place::whole(&table.file),
                expected: format!("a graph for each of {} vertices", ids.len()),
                found: format!("none for vertex {}", ids.names.name(vertex)),
                remedy: "add a line with the vertex and its graph",
            });
        }
        // Graphs are ordered by their first vertex.
        let mut first = vec![None; words.names.len()];
        let (mut ordered, mut standing) =
            (Vec::with_capacity(words.names.len()), Vec::with_capacity(of.len()));
        for (vertex, &word) in (0..).zip(&of) {
            let slot = &mut first[word as usize];
            if slot.is_none() {
                ordered.push(words.names[word as usize].clone());
            }
            standing.push(*slot.get_or_insert(vertex));
        }
        let known = Ids { of_graphs: true, ..Ids::of_words(&ordered, &table.file)? };
        let mut at = vec![0; known.len() as usize];
        for (word, &vertex) in words.names.iter().zip(&first) {
            if let (Some(position), Some(vertex)) = (known.position(word), vertex)
                && let Some(slot) = at.get_mut(position as usize)
            {
                *slot = vertex;
            }
        }
        let names = match &known.names {
            // Words are in order of first appearance, which is the order of graphs.
            VertexIds::Words(words) => VertexIds::Words(words.clone()),
            _ => {
                let mut order: Vec<u32> = (0..at.len() as u32).collect();
                order.sort_unstable_by_key(|&graph| at[graph as usize]);
                let number = |graph: u32| match &known.names {
                    VertexIds::Numbers(numbers) => numbers[graph as usize],
                    _ => graph.into(),
                };
                VertexIds::Numbers(order.into_iter().map(number).collect())
            }
        };
        Ok(Self { graphs: Graphs::from_standing(standing, names, &table.file)?, ids: known, at })
    }

    /// Returns an error if the rows of `array` do not correspond to graphs that are numbered from
    /// 0.
    pub(super) fn check_rows(&self, array: &Array<'_>) -> Result<()> {
        let (found, expected) = (array.rows() as u64, self.ids.len());
        if self.ids.names != VertexIds::Dense {
            return Err(Error::Malformed {
                place: Place::whole(&array.file),
                expected: format!("graphs numbered 0 to {}, because labels are an array", expected - 1),
                found: "other ids in graphs.csv".to_owned(),
                remedy: "write labels.csv, or number the graphs from 0",
            });
        }
        if found != expected {
            let (place, other) = (Place::whole(&array.file), "graphs.csv".to_owned());
            return Err(Error::Mismatch { place, what: "rows", found, expected, other });
        }
        Ok(())
    }
}
