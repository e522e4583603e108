//! Built-in data set Cora (`data/cora.bin`), with the vertex order and the public split of
//! Planetoid.
//!
//! The file starts with the eight bytes `ECITCOR1`. All further numbers are varints, with seven
//! bits per byte, lowest bits first. The high bit is set in all bytes except the last. The numbers
//! are:
//!
//! ```text
//! vertices, columns, classes
//! per vertex: label, number of features, then the gaps between ascending columns (value 1 each)
//! per vertex: number of neighbours above it, then the gaps between their ascending ids
//! three times (train, validation, test): count, then the gaps between ascending ids
//! ```
//!
//! Lists have ascending numbers and are stored as gaps. The first gap of a list is counted from -1,
//! or from the vertex itself for neighbours. A gap is at least 1, and is stored minus 1.

use eciton_graph::adjacency::{Graph, check_vertices};
use eciton_graph::corrections::Corrections;
use eciton_graph::dataset::{Dataset, Names};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::{Features, SparseRows};
use eciton_graph::labels::Labels;
use eciton_graph::split::Split;

static BYTES: &[u8] = include_bytes!("../data/cora.bin");
const MAGIC: &[u8] = b"ECITCOR1";
const FILE: &str = "cora.bin";

/// Research fields of the papers (McCallum et al. 2000), in the order of Planetoid's classes.
const FIELDS: [&str; 7] = [
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
];

/// Parses the built-in file.
pub(super) fn load() -> Result<Dataset> {
    parse(BYTES)
}

fn parse(bytes: &[u8]) -> Result<Dataset> {
    let mut cursor = Cursor { bytes, at: MAGIC.len() };
    if !bytes.starts_with(MAGIC) {
        return Err(Error::malformed(Place::byte(FILE, 0), "ECITCOR1", "other bytes"));
    }
    let (vertices, columns, classes) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    check_vertices(u64::from(vertices), || Place::whole(FILE))?;
    // Each vertex takes at least three bytes.
    if vertices as usize > bytes.len() / 3 {
        return Err(cursor.wrong("a number of vertices that fits the length of the file"));
    }
    let mut labels = Vec::with_capacity(vertices as usize);
    let (mut offsets, mut indices) = (vec![0], Vec::with_capacity(bytes.len()));
    for _ in 0..vertices {
        labels.push(cursor.varint()?);
        cursor.list(-1, &mut indices)?;
        offsets.push(indices.len() as u64);
    }
    let values = vec![1.0; indices.len()];
    let features = SparseRows {
        columns,
        offsets: offsets.into(),
        indices: indices.into(),
        values: values.into(),
        corrections: Corrections::NONE,
    };
    let mut edges = Vec::with_capacity(bytes.len() / 2);
    let mut above = Vec::new();
    for vertex in 0..vertices {
        above.clear();
        cursor.list(i64::from(vertex), &mut above)?;
        edges.extend(above.iter().map(|&other| (vertex, other)));
    }
    let mut split = Split::default();
    for part in [&mut split.train, &mut split.validation, &mut split.test] {
        cursor.list(-1, part)?;
    }
    if cursor.at != bytes.len() {
        return Err(cursor.wrong("the end of the file"));
    }
    Dataset {
        names: Names { labels: FIELDS.map(str::to_owned).to_vec(), ..Names::default() },
        ..Dataset::new(
            "cora".to_owned(),
            Graph::from_edges(u64::from(vertices), edges.iter().copied(), crate::edge_graph::AS_LISTED)?,
            Features::Sparse(features),
            Labels::classes(labels, classes),
            split,
        )
    }
    .checked()
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn wrong(&self, expected: &str) -> Error {
        Error::malformed(Place::byte(FILE, self.at as u64), expected, "something else")
    }

    fn varint(&mut self) -> Result<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.wrong("another byte"));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| self.wrong("a number of 32 bits"));
            }
        }
        Err(self.wrong("a number of 32 bits"))
    }

    /// Reads a list, which is a count followed by that many ascending numbers above `last`, and
    /// appends it to `into`.
    fn list(&mut self, mut last: i64, into: &mut Vec<u32>) -> Result<()> {
        for _ in 0..self.varint()? {
            last += 1 + i64::from(self.varint()?);
            into.push(u32::try_from(last).map_err(|_| self.wrong("an id of 32 bits"))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_graph::random::SplitMix64;

    use super::*;

    #[test]
    fn has_the_published_extents() {
        let cora = load().unwrap();
        assert_eq!((cora.graph.vertices(), cora.graph.edges()), (2708, 10556));
        assert_eq!((cora.features.columns(), cora.features.filled(), cora.labels.width()), (1433, 49216, 7));
        let split = &cora.split;
        assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (140, 500, 1000));
        assert!(BYTES.len() < 150_000);
    }

    #[test]
    fn damage_is_an_error_or_another_valid_set() {
        for end in (0..BYTES.len()).step_by(97) {
            assert!(parse(&BYTES[..end]).is_err());
        }
        let seed = 11;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..300 {
            let mut bytes = BYTES.to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            drop(parse(&bytes));
        }
    }
}
