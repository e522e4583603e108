//! Reader for a folder of plain arrays:
//!
//! * `indptr.npy [V + 1]` and `indices.npy [E]`: in-neighbours of each vertex, as compressed sparse
//!   rows.
//! * `feat.npy [V, columns]`: features.
//! * `label.npy [V]`: classes (-1 means that there is no label), or numbers with fractions.
//!   `[V, labels]` is also accepted. Its values are Boolean labels if all are 0, 1 or NaN, and
//!   numbers otherwise.
//! * `train.npy`, `val.npy`, `test.npy`: vertex ids. Without these three files, 60 / 20 / 20 % of
//!   the labelled vertices are drawn with seed 0.
//! * `edge_feat.npy [E, columns]`, or `[E]` of weights: edge features in the order of `indices`.
//!
//! Repeated edges and weights of zero follow the rule of [`eciton_graph::edge_rule`]. The graph
//! keeps the directions of its edges.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use eciton_graph::adjacency::{Graph, Options, offsets_fault};
use eciton_graph::build;
use eciton_graph::dataset::{Dataset, EdgeFeatures, Names};
use eciton_graph::edge_rule::Findings;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::file::present;
use eciton_input::threads::processors;
use eciton_tensor::bytes_of_mut;

use super::array::Array;
use super::edge_rows::EdgeRows;
use super::folder::unused;
use super::npy::Npy;
use super::{bundle, file, indices, labels, npy};

/// Maximum number of columns of a feature array that is read directly into its final memory. Wider
/// arrays are first read as a whole.
const MAX_COLUMNS: usize = 1 << 20;

/// Reads a folder of plain arrays. `expected` describes the columns and classes of a trained model,
/// if there is one.
///
/// # Errors
/// Returns the errors of the array reader. Returns [`Error::Malformed`] if the offsets do not
/// ascend to E, and [`Error::UnknownVertex`] if a neighbour does not exist. Also returns the errors
/// of [`Dataset::validate`].
pub fn open(folder: &Path, expected: Option<&Expected>) -> Result<Dataset> {
    let offsets = read(folder, "indptr", |a| {
        a.expect_axes(1, "offsets [V + 1]")?;
        a.to_u64()
    })?;
    let indices = read(folder, "indices", |a| {
        a.expect_axes(1, "in-neighbours [E]")?;
        a.to_u32()
    })?;
    let place = || Place::whole(file::name(&folder.join("indptr.npy")));
    let stored = indices.len() as u64;
    if let Some(found) = offsets_fault(&offsets, stored) {
        let expected = format!("offsets that ascend from 0 to {stored}, the length of indices.npy");
        return Err(Error::malformed(place(), expected, found));
    }
    let vertices = offsets.len() as u64 - 1;
    eciton_graph::adjacency::check_vertices(vertices, place)?;
    if let Some(position) = indices.iter().position(|&source| u64::from(source) >= vertices) {
        return Err(Error::UnknownVertex {
            place: Place::row(file::name(&folder.join("indices.npy")), position as u64),
            vertex: indices[position].to_string(),
            known: format!("vertices are 0..{vertices}"),
        });
    }
    let edge_rows = EdgeRows::beside(&folder.join("edge_feat.npy"), indices.len(), "indices.npy")?;
    let (graph, edge_features) = graph(offsets, indices, edge_rows)?;
    let features = match present(&folder.join("feat.npy")) {
        true => features(&folder.join("feat.npy"))?,
        false => Features::identity(graph.vertices()),
    };
    // A trained model needs no labels.
    let (labels, classes) = match expected.is_none() || present(&folder.join("label.npy")) {
        true => read(folder, "label", |a| labels::from_array_expecting(&a, expected))?,
        false => (Labels::none(graph.vertices()), Vec::new()),
    };
    let has_split = present(&folder.join("train.npy"));
    let drawn = if has_split { String::new() } else { DRAWN.to_owned() };
    let split = match has_split {
        true => Split {
            train: read(folder, "train", |a| indices::rows_of(&a, labels.rows()))?,
            validation: read(folder, "val", |a| indices::rows_of(&a, labels.rows()))?,
            test: read(folder, "test", |a| indices::rows_of(&a, labels.rows()))?,
        }
        .sorted(),
        false => Split::random(&labels, [0.6, 0.2], 0),
    };
    const FILES: [&str; 8] = [
        "indptr.npy",
        "indices.npy",
        "feat.npy",
        "label.npy",
        "edge_feat.npy",
        "train.npy",
        "val.npy",
        "test.npy",
    ];
    unused::report(folder, &FILES, "indptr.npy and indices.npy are read");
    let name = file::folder_name(folder);
    Dataset {
        edge_features,
        names: Names { labels: classes, split: drawn, ..Names::default() },
        ..Dataset::new(name, graph, features, labels, split)
    }
    .checked()
}

/// Builds the graph from neighbour lists, which may be unsorted, and from the edge values in the
/// same order.
fn graph(
    offsets: Vec<u64>,
    indices: Vec<u32>,
    rows: Option<EdgeRows>,
) -> Result<(Graph, Option<EdgeFeatures>)> {
    let Some(rows) = rows else {
        let listed = indices.len() as u64;
        let graph = build::from_lists(offsets, indices, processors())?;
        let repeats = listed - graph.edges();
        Findings { repeats, ..Findings::default() }.report("indices.npy", false);
        return Ok((graph, None));
    };
    if build::are_lists(&offsets, &indices) && !rows.has_zeros() {
        let graph = build::from_lists(offsets, indices, processors())?;
        return Ok((graph, Some(rows.in_place()?)));
    }
    let mut edges = Vec::with_capacity(indices.len());
    for (target, span) in (0..).zip(offsets.windows(2)) {
        edges.extend(indices[span[0] as usize..span[1] as usize].iter().map(|&source| (source, target)));
    }
    let vertices = offsets.len() as u64 - 1;
    drop((offsets, indices));
    let as_stored = Options { symmetric: false, keep_self_loops: true };
    let (graph, rows) = rows.graph(vertices, &edges, as_stored, false)?;
    Ok((graph, Some(rows)))
}

/// Reads the feature array. Plain f32 rows are read directly into their final memory, and other
/// arrays are first read as a whole.
fn features(path: &Path) -> Result<Features> {
    let refused = |source| Error::Read { path: path.to_owned(), source };
    let mut file = eciton_input::file::open(path).map_err(refused)?;
    let length = file.metadata().map_err(refused)?.len();
    let mut start = Vec::new();
    (&file).take(npy::MAX_START_BYTES as u64).read_to_end(&mut start).map_err(refused)?;
    let plain = Npy::parse(&start, &file::name(path))?.plain_rows(&start);
    let whole = plain.filter(|&(rows, columns, first)| {
        let cells = rows.checked_mul(columns).and_then(|n| n.checked_mul(4));
        cells.and_then(|n| n.checked_add(first)) == usize::try_from(length).ok() && columns <= MAX_COLUMNS
    });
    let Some((rows, columns, first)) = whole.filter(|_| cfg!(target_endian = "little")) else {
        return bundle::dense(npy::parse(&file::read(path)?, &file::name(path))?);
    };
    file.seek(SeekFrom::Start(first as u64)).map_err(refused)?;
    Features::streamed(rows, columns, |values| file.read_exact(bytes_of_mut(values)).map_err(refused))
}

fn read<T>(folder: &Path, part: &str, as_type: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
    let path = folder.join(format!("{part}.npy"));
    let bytes = file::read(&path)?;
    as_type(npy::parse(&bytes, &file::name(&path))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_graph::random::SplitMix64;

    use super::*;
    use crate::npy::tests::{write, write_i64};

    fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(format!("{name}.npy")), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn lists_in_any_order_with_repeats_are_their_edges() {
        let seed = 41;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..40 {
            let vertices = 1 + random.below(30);
            let (mut offsets, mut indices) = (vec![0i64], Vec::new());
            for _ in 0..vertices {
                let mut list: Vec<i64> =
                    (0..random.below(6)).map(|_| random.below(vertices) as i64).collect();
                if case % 2 == 0 {
                    list.sort_unstable();
                    list.dedup();
                }
                indices.extend(list);
                offsets.push(indices.len() as i64);
            }
            let edges = (0..vertices as usize).flat_map(|target| {
                let list = &indices[offsets[target] as usize..offsets[target + 1] as usize];
                list.iter().map(move |&source| (source as u32, target as u32))
            });
            let options = Options { symmetric: false, keep_self_loops: true };
            let expected = Graph::from_edges(vertices, edges, options).unwrap();
            let folder = folder(&[
                ("indptr", write_i64(&[offsets.len()], &offsets)),
                ("indices", write_i64(&[indices.len()], &indices)),
                ("label", write_i64(&[vertices as usize], &vec![0; vertices as usize])),
            ]);
            let read = open(folder.path(), None).unwrap();
            assert_eq!(read.graph, expected, "case {case}");
            assert_eq!(read.features, Features::identity(vertices as u32));
        }
    }

    #[test]
    fn features_are_the_same_in_any_byte_order_and_however_full() {
        let seed = 42;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        // More rows than are read at a time, too.
        for (rows, columns, full) in [(1, 1, 1), (5, 64, 1), (5, 64, 9), (3000, 70, 2), (3000, 70, 7)] {
            let mut value = || if random.below(full) == 0 { 1.0 + random.below(9) as f32 } else { 0.0 };
            let values: Vec<f32> = (0..rows * columns).map(|_| value()).collect();
            let bytes = |to: fn(f32) -> [u8; 4]| values.iter().flat_map(|&v| to(v)).collect::<Vec<u8>>();
            let files = [
                ("little", write("<f4", false, &[rows, columns], &bytes(f32::to_le_bytes))),
                ("big", write(">f4", false, &[rows, columns], &bytes(f32::to_be_bytes))),
            ];
            let folder = folder(&files);
            let read = |name: &str| features(&folder.path().join(format!("{name}.npy")));
            let expected = Features::from_dense(columns as u32, &values).unwrap();
            assert_eq!(matches!(expected, Features::Sparse(_)), columns >= 64 && full > 5);
            assert_eq!(read("little").unwrap(), expected);
            assert_eq!(read("big").unwrap(), expected);
            let cut = &files[0].1[..files[0].1.len() - 1];
            std::fs::write(folder.path().join("cut.npy"), cut).unwrap();
            assert!(read("cut").is_err());
        }
    }
}
