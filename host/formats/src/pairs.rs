//! Reader for tables of vertex pairs whose links a user wants to predict. Each line has two ids.
//!
//! ```text
//! source,target
//! ann,cyn
//! bob,dan
//! ```
//!
//! The table is read like `edges.csv` ([`super::folder`]), with the same separators, comments and
//! header. Columns after the second one are ignored. The ids are those of the data set.

use std::collections::HashMap;
use std::path::Path;

use eciton_graph::dataset::VertexIds;
use eciton_graph::error::{Error, Place, Result};

use super::numbers::canonical;
use super::table::Table;

/// Table of vertex pairs, each given by two ids.
pub struct PairTable {
    table: Table,
}

impl PairTable {
    /// Opens a table of vertex pairs, and checks its first record.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the line if a record is invalid, or if there is no pair.
    /// Returns [`Error::Read`] if the file cannot be read, and [`Error::Limit`] if it is too large.
    pub fn open(path: &Path) -> Result<Self> {
        let table = Table::open(path)?;
        table.refuse_index()?;
        let mut some = table.records(2)?.next()?.is_some();
        if some && table.find_header(2)? {
            some = table.rows(2)?.next()?.is_some();
        }
        if !some {
            return Err(Error::Malformed {
                place: Place::whole(&table.file),
                expected: "a pair of vertices (source,target) per line".to_owned(),
                found: "no pair".to_owned(),
                remedy: "write two ids of the data set's vertices per line",
            });
        }
        Ok(Self { table })
    }

    /// Converts the pairs to vertex indices below `vertices`, in the order of the table. `ids` are
    /// the ids of the data set's vertices.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the line if an id does not belong to any vertex.
    pub fn find(&self, ids: &VertexIds, vertices: u32) -> Result<Vec<(u32, u32)>> {
        let places = Places::new(ids, vertices);
        let mut pairs = Vec::new();
        self.table.each(2, |row| {
            let end = |field: usize| {
                let word = row.get(field);
                places.find(word).ok_or_else(|| Error::Malformed {
                    place: Place::line(&self.table.file, row.line()),
                    expected: places.known(vertices),
                    found: format!("{word:.60?}"),
                    remedy: "write the ids in the same form as in the data set",
                })
            };
            pairs.push((end(0)?, end(1)?));
            Ok(())
        })?;
        Ok(pairs)
    }
}

/// Lookup table from ids to vertices.
enum Places<'a> {
    /// Ids are 0 to V - 1 and equal the vertices. The value is V.
    Dense(u32),
    /// Id of each vertex, and the vertices in ascending order of their ids. The ids of a store may
    /// be in any order.
    Numbers(&'a [u64], Vec<u32>),
    Words(HashMap<&'a str, u32>),
}

impl<'a> Places<'a> {
    fn new(ids: &'a VertexIds, vertices: u32) -> Self {
        match ids {
            VertexIds::Dense => Self::Dense(vertices),
            VertexIds::Numbers(ids) => {
                let mut places: Vec<u32> = (0..ids.len() as u32).collect();
                places.sort_unstable_by_key(|&place| ids[place as usize]);
                Self::Numbers(ids, places)
            }
            VertexIds::Words(ids) => Self::Words(ids.iter().map(String::as_str).zip(0..).collect()),
        }
    }

    fn find(&self, word: &str) -> Option<u32> {
        match self {
            Self::Dense(vertices) => {
                canonical(word).and_then(|id| u32::try_from(id).ok()).filter(|id| id < vertices)
            }
            Self::Numbers(ids, places) => {
                let id = canonical(word)?;
                let at = places.binary_search_by_key(&id, |&place| ids[place as usize]).ok()?;
                places.get(at).copied()
            }
            Self::Words(places) => places.get(word).copied(),
        }
    }

    /// Describes the valid ids for error messages.
    fn known(&self, vertices: u32) -> String {
        match self {
            Self::Dense(_) => format!("ids of vertices, 0 to {}", vertices.saturating_sub(1)),
            _ => format!("ids of the data set's {vertices} vertices"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn found(name: &str, text: &str, ids: &VertexIds, vertices: u32) -> Result<Vec<(u32, u32)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        PairTable::open(&path)?.find(ids, vertices)
    }

    fn words() -> VertexIds {
        VertexIds::Words(["ann", "bob", "c, d", "7"].map(str::to_owned).to_vec())
    }

    #[test]
    fn pairs_are_places_in_the_order_of_the_file() {
        let text = "# a comment\n\nsource,target,note\nann,bob,x\r\n\n\"c, d\",ann,\n7,7,y\n";
        assert_eq!(found("a.csv", text, &words(), 4).unwrap(), [(0, 1), (2, 0), (3, 3)]);
        // Without a header, and in any order of ids.
        let numbers = VertexIds::Numbers(vec![30, 10, 1 << 40]);
        let text = "30 10\n1099511627776 30\n";
        assert_eq!(found("a.txt", text, &numbers, 3).unwrap(), [(0, 1), (2, 0)]);
        assert_eq!(found("a.csv", "u,v\n0,2\n", &VertexIds::Dense, 3).unwrap(), [(0, 2)]);
    }

    #[test]
    fn what_is_no_pair_is_told_with_its_line() {
        let numbers = VertexIds::Numbers(vec![3, 5]);
        for (text, ids, vertices, said) in [
            (
                "ann,bob\nann,eve\n",
                &words(),
                4,
                "line 2: expected ids of the data set's 4 vertices, found \"eve\"",
            ),
            ("ann,\n", &words(), 4, "line 1: expected ids of the data set's 4 vertices, found \"\""),
            ("0,1\n0,3\n", &VertexIds::Dense, 3, "line 2: expected ids of vertices, 0 to 2, found \"3\""),
            ("0,01\n", &VertexIds::Dense, 3, "found \"01\""),
            ("3,4\n", &numbers, 2, "found \"4\""),
            ("0,1\n2\n", &VertexIds::Dense, 3, "line 2: expected 2 fields, as in line 1, found 1 field"),
            (",a,b\n0,0,1\n1,1,2\n", &VertexIds::Dense, 3, "as pandas writes its index"),
            ("source,target\n", &VertexIds::Dense, 3, "a.csv: expected a pair of vertices"),
            ("# nothing\n\n", &VertexIds::Dense, 3, "found no pair; write two ids"),
        ] {
            let error = found("a.csv", text, ids, vertices).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("a.csv"), "{text:?}: {error}");
        }
    }
}
