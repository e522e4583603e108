//! Ids of vertices or graphs in the user's data, with their indices.

use std::borrow::Cow;

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::VertexIds;
use eciton_graph::error::{Error, Place, Result};
use eciton_input::budget::Charge;

use crate::dictionary::{Codes, Collector, Dictionary};
use crate::file;
use crate::numbers::canonical;
use crate::table::{Row, Table};

/// Ids of vertices or graphs in the user's data, with their indices.
pub(super) struct Ids {
    pub(super) names: VertexIds,
    pub(super) lookup: Lookup,
    pub(super) count: u64,
    /// True for ids of graphs, and false for ids of vertices.
    pub(super) of_graphs: bool,
}

/// Method that finds the index of an id.
pub(super) enum Lookup {
    Dense,
    /// Ids are numbers in ascending order, and are found by binary search.
    Sorted,
    /// Ids are numbers, and the index of an id is its rank.
    Ranks(Dictionary),
    Words(Codes<Box<str>>),
    /// Records have no ids. Their index is their place in the table.
    Order,
}

/// Distinct words, numbered in order of first appearance.
pub(super) struct Words {
    pub(super) names: Vec<String>,
    positions: Codes<Box<str>>,
    file: String,
    charge: Charge,
    bytes: u64,
}

impl Words {
    pub(super) fn new(file: &str) -> Self {
        let (names, positions) = (Vec::new(), Codes::default());
        Self { names, positions, file: file.to_owned(), charge: Charge::default(), bytes: 0 }
    }

    /// Returns the index of a word, and adds the word if it is new.
    pub(super) fn add(&mut self, word: &str) -> Result<u32> {
        if let Some(&position) = self.positions.get(word) {
            return Ok(position);
        }
        if crate::missing::is_word(word) {
            eciton_input::notes::warn(format!(
                "{}: one of the ids is \"{word}\", a word for a missing value; rename it if it is an id, or remove \
                 its lines",
                self.file
            ));
        }
        let position = self.names.len() as u32;
        check_vertices(u64::from(position) + 1, || Place::whole(&self.file))?;
        // A name and a key, each with its text. At worst half of the slots of the map are empty.
        self.bytes += 2 * word.len() as u64 + 96;
        self.charge.grow_to(self.bytes).map_err(|exceeded| file::exceeded(&self.file, exceeded))?;
        self.names.push(word.to_owned());
        self.positions.insert(word.into(), position);
        Ok(position)
    }

    pub(super) fn finish(self) -> Ids {
        self.charge.keep();
        let count = self.names.len() as u64;
        Ids {
            names: VertexIds::Words(self.names),
            lookup: Lookup::Words(self.positions),
            count,
            of_graphs: false,
        }
    }
}

impl Ids {
    pub(super) fn dense(vertices: u64) -> Self {
        Self { names: VertexIds::Dense, lookup: Lookup::Dense, count: vertices, of_graphs: false }
    }

    /// Creates the ids of `records` records that are numbered in their order.
    pub(super) fn in_order(records: u64) -> Self {
        Self { lookup: Lookup::Order, ..Self::dense(records) }
    }

    pub(super) fn numbers(ids: Dictionary) -> Self {
        let count = ids.len();
        if ids.dense() {
            return Self::dense(count);
        }
        Self { names: VertexIds::Numbers(ids.ids()), lookup: Lookup::Ranks(ids), count, of_graphs: false }
    }

    /// Collects the distinct ids in a column of a table.
    pub(super) fn of_column(table: &Table, column: usize) -> Result<Self> {
        let mut numbers = Collector::new(table.bytes()?);
        let mut words = false;
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            match canonical(row.get(column)) {
                Some(id) => numbers.add([id].into_iter()),
                None => {
                    words = true;
                    break;
                }
            }
        }
        if !words {
            return Ok(Self::numbers(numbers.finish()));
        }
        let mut ids = Words::new(&table.file);
        table.each(2, |row| ids.add(row.id(table, column)?).map(drop))?;
        Ok(ids.finish())
    }

    /// Creates ids from distinct words, in this order.
    pub(super) fn of_words(words: &[String], file: &str) -> Result<Self> {
        if words.iter().all(|word| canonical(word).is_some()) {
            let mut numbers = Collector::new(words.len() as u64);
            numbers.add(words.iter().filter_map(|word| canonical(word)));
            return Ok(Self::numbers(numbers.finish()));
        }
        let mut ids = Words::new(file);
        words.iter().try_for_each(|word| ids.add(word).map(drop))?;
        Ok(ids.finish())
    }

    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Returns whether ids are words, so that any text may be an id.
    pub(super) fn are_words(&self) -> bool {
        matches!(self.names, VertexIds::Words(_))
    }

    pub(super) fn position(&self, word: &str) -> Option<u32> {
        match (&self.lookup, &self.names) {
            (Lookup::Words(positions), _) => positions.get(word).copied(),
            (Lookup::Ranks(ids), _) => ids.find(canonical(word)?),
            (Lookup::Sorted, VertexIds::Numbers(numbers)) => {
                numbers.binary_search(&canonical(word)?).ok().map(|at| at as u32)
            }
            _ => canonical(word).filter(|&id| id < self.count).map(|id| id as u32),
        }
    }

    /// Returns a hint that names the id that the user may have meant by `word`, if there is a
    /// similar one.
    fn similar(&self, word: &str) -> Option<String> {
        let names = (0..self.count.min(1 << 20)).map(|vertex| Cow::Owned(self.names.name(vertex as u32)));
        super::likeness::similar(word, names)
    }

    pub(super) fn find(&self, table: &Table, line: u64, word: &str) -> Result<u32> {
        let place = || Place::line(&table.file, line);
        if word.is_empty() {
            return Err(Error::Malformed {
                place: place(),
                expected: "an id".to_owned(),
                found: "an empty field".to_owned(),
                remedy: "write the id, or remove the line",
            });
        }
        let similar = || self.similar(word).map(|text| format!("; {text}")).unwrap_or_default();
        self.position(word).ok_or_else(|| match self.of_graphs {
            true => Error::Malformed {
                place: place(),
                expected: format!("one of the {} graphs of graphs.csv", self.count),
                found: format!("{word:.60?}"),
                remedy: "correct the id; if there is a graphs.csv, labels and split have ids of graphs",
            },
            false if !table.is_edges() => {
                let found = format!("{word:.60?}{}", similar());
                let remedy = "correct the id, or add the vertex to features or edges";
                let expected = match self.names {
                    VertexIds::Dense => format!("a vertex, 0 to {}", self.count.saturating_sub(1)),
                    _ => format!("the id of one of the {} vertices", self.count),
                };
                Error::Malformed { place: place(), expected, found, remedy }
            }
            false => Error::UnknownVertex {
                place: place(),
                vertex: eciton_input::text::cut(word, 60),
                known: match self.names {
                    VertexIds::Dense => format!("vertices are 0..{}{}", self.count, similar()),
                    _ => format!("it is not among the {} known ids{}", self.count, similar()),
                },
            },
        })
    }
}

/// Set of the vertices that have occurred in a table in which each vertex may have one row.
pub(super) struct Placed {
    seen: Vec<bool>,
    /// Number of rows without ids that have occurred.
    rows: u32,
}

impl Placed {
    pub(super) fn new(ids: &Ids) -> Self {
        Self { seen: vec![false; ids.len() as usize], rows: 0 }
    }

    /// Returns the vertex of a row, and records that it has occurred. Returns an error if it has
    /// occurred before.
    pub(super) fn place(&mut self, table: &Table, row: &Row, ids: &Ids) -> Result<u32> {
        let vertex = match ids.lookup {
            Lookup::Order => self.rows,
            _ => ids.find(table, row.line(), row.get(0))?,
        };
        self.rows += 1;
        self.mark(table, vertex, row.line(), ids)?;
        Ok(vertex)
    }

    /// Records that the vertices of several rows have occurred, and returns them. `rows` has pairs
    /// of vertex and line.
    pub(super) fn all(&mut self, table: &Table, rows: &[(u32, u64)], ids: &Ids) -> Result<Vec<u32>> {
        let place = |&(vertex, line): &(u32, u64)| self.mark(table, vertex, line, ids).map(|()| vertex);
        rows.iter().map(place).collect()
    }

    fn mark(&mut self, table: &Table, vertex: u32, line: u64, ids: &Ids) -> Result<()> {
        match self.seen.get_mut(vertex as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(table.wrong(line, "each id once", &ids.names.name(vertex))),
        }
        Ok(())
    }

    pub(super) fn first_missing(&self) -> Option<u32> {
        self.seen.iter().position(|seen| !seen).map(|at| at as u32)
    }
}
