//! Reader for tabular data sets without a graph, which are rows of features with labels. Every row
//! becomes a vertex without neighbours.
//!
//! | at the path | features | labels | split |
//! | --- | --- | --- | --- |
//! | `FILE.csv`, or `FILE.tsv` with a label column | all other columns | the last column, or that named `label`, `target`, `class` or `y` | column `split` |
//! | `FILE.npz` | `x`, or `data` (scikit-learn's), `[V, columns]` | `y`, or `target`, `[V]` or `[V, labels]` | `train_mask`, `val_mask`, `test_mask`, `[V]` |
//! | folder without edges | `x.npy`, `data.npy`, `feat.npy` | `y.npy`, `target.npy`, `label.npy` | `train.npy`, `val.npy`, `test.npy`, of row numbers |
//!
//! A folder with `features.*` and `labels.*` but without `edges.*` is read by
//! [`folder`](super::folder). Without a split, 60 / 20 / 20 % of the labelled rows are drawn with
//! seed 0.

pub(crate) mod text;

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use eciton_graph::adjacency::{Graph, Options, check_vertices};
use eciton_graph::dataset::{Dataset, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::names::DRAWN;
use eciton_graph::split::Split;
use eciton_input::file::present;

use super::array::Array;
use super::folder::unused;
use super::npz::Npz;
use super::{bundle, file, indices, labels, npy};

/// Names of the arrays with features and labels in an archive.
const NAMES: [(&str, &str); 2] = [("x", "y"), ("data", "target")];
/// Names of the files with features and labels in a folder, without extension.
const FILES: [(&str, &str); 3] = [("x", "y"), ("data", "target"), ("feat", "label")];
/// Names of the mask arrays of the split in an archive.
const MASKS: [&str; 3] = ["train_mask", "val_mask", "test_mask"];
/// Names of the files with the split's row numbers in a folder, without extension.
const PARTS: [&str; 3] = ["train", "val", "test"];

/// Returns the names of the feature and label arrays if an archive contains rows without a graph.
/// Archives with arrays of edges have another layout. If `expected` is set, a trained model reads
/// the archive, and labels are not required.
pub(crate) fn names(keys: &[String], expected: Option<&Expected>) -> Option<(&'static str, &'static str)> {
    let has = |wanted: &str| keys.iter().any(|key| key == wanted);
    let edges = keys.iter().any(|key| key.starts_with("edge") || key.starts_with("adj"));
    NAMES.into_iter().find(|(x, y)| has(x) && (has(y) || expected.is_some())).filter(|_| !edges)
}

/// Returns the paths of the feature and label arrays if a folder contains rows without a graph. If
/// `expected` is set, a trained model reads the folder, and labels are not required.
pub(crate) fn files(folder: &Path, expected: Option<&Expected>) -> Option<[PathBuf; 2]> {
    let both = FILES.map(|(x, y)| [x, y].map(|name| folder.join(format!("{name}.npy"))));
    both.into_iter().find(|[x, y]| present(x) && (expected.is_some() || present(y)))
}

/// Reads an archive of rows. `x` and `y` are the names of its feature and label arrays.
pub(crate) fn archive<R: Read + Seek>(
    npz: &mut Npz<R>,
    name: String,
    (x, y): (&str, &str),
    expected: Option<&Expected>,
) -> Result<Dataset> {
    let keys = npz.keys();
    let mut entry = |key: &str| Ok::<_, Error>((npz.entry(key)?, npz.place(key)));
    let (bytes, place) = entry(x)?;
    let features = bundle::dense(npy::parse_images(&bytes, &place)?)?;
    let (labels, classes) = match keys.iter().any(|key| key == y) {
        false => (Labels::none(features.rows() as u32), Vec::new()),
        true => {
            let (bytes, place) = entry(y)?;
            labels::from_array_expecting(&npy::parse(&bytes, &place)?, expected)?
        }
    };
    let split = match MASKS.iter().any(|mask| keys.iter().any(|key| key == mask)) {
        false => None,
        true => {
            let mut parts = [Vec::new(), Vec::new(), Vec::new()];
            for (part, mask) in parts.iter_mut().zip(MASKS) {
                if keys.iter().any(|key| key == mask) {
                    let (bytes, place) = entry(mask)?;
                    *part = masked(&npy::parse(&bytes, &place)?, labels.rows())?;
                }
            }
            let [train, validation, test] = parts;
            Some(Split { train, validation, test })
        }
    };
    let names = Names { labels: classes, ..Names::default() };
    dataset(name, features, labels, split, VertexIds::Dense, names)
}

fn masked(mask: &Array<'_>, rows: usize) -> Result<Vec<u32>> {
    mask.expect_axes(1, "a mask [V]")?;
    let flags = mask.to_bool()?;
    if flags.len() != rows {
        return Err(Error::Mismatch {
            place: Place::whole(&mask.file),
            what: "rows",
            found: flags.len() as u64,
            expected: rows as u64,
            other: "the labels".to_owned(),
        });
    }
    Ok((0..).zip(flags).filter_map(|(row, holds)| holds.then_some(row)).collect())
}

/// Reads a folder of rows, with the paths of the two arrays that [`files`] returned.
pub(crate) fn folder(folder: &Path, [x, y]: &[PathBuf; 2], expected: Option<&Expected>) -> Result<Dataset> {
    fn read<T>(path: &Path, read: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
        let bytes = file::read(path)?;
        read(npy::parse(&bytes, &file::name(path))?)
    }
    let features = bundle::dense(npy::parse_images(&file::read(x)?, &file::name(x))?)?;
    let (labels, classes) = match present(y) {
        true => read(y, |array| labels::from_array_expecting(&array, expected))?,
        false => (Labels::none(features.rows() as u32), Vec::new()),
    };
    let rows = labels.rows();
    let paths = PARTS.map(|part| folder.join(format!("{part}.npy")));
    let split = match present(&paths[0]) {
        false => None,
        true => {
            let [train, validation, test] = paths.map(|path| match present(&path) {
                true => read(&path, |array| indices::rows_of(&array, rows)),
                false => Ok(Vec::new()),
            });
            Some(Split { train: train?, validation: validation?, test: test? }.sorted())
        }
    };
    let mut used: Vec<String> = PARTS.iter().map(|part| format!("{part}.npy")).collect();
    used.extend([x, y].into_iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)));
    let used: Vec<&str> = used.iter().map(String::as_str).collect();
    unused::report(folder, &used, "arrays of features and labels were read as rows without a graph");
    let names = Names { labels: classes, ..Names::default() };
    dataset(file::folder_name(folder), features, labels, split, VertexIds::Dense, names)
}

/// Creates a data set of rows without edges. If `split` is `None`, 60 / 20 / 20 % of the labelled
/// rows are drawn with seed 0.
pub(crate) fn dataset(
    name: String,
    features: Features,
    labels: Labels,
    split: Option<Split>,
    ids: VertexIds,
    mut names: Names,
) -> Result<Dataset> {
    let rows = features.rows() as u64;
    check_vertices(rows, || Place::whole(name.clone()))?;
    let graph = Graph::from_edges(rows, std::iter::empty(), Options::default())?;
    if split.is_none() {
        names.split = DRAWN.to_owned();
    }
    let split = split.unwrap_or_else(|| Split::random(&labels, [0.6, 0.2], 0));
    Dataset { ids, names, ..Dataset::new(name, graph, features, labels, split) }.checked()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn edges_are_another_layouts() {
        let keys = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let names = |keys: &[String]| names(keys, None);
        assert_eq!(names(&keys(&["x", "y"])), Some(("x", "y")));
        assert_eq!(names(&keys(&["data", "images", "target", "target_names"])), Some(("data", "target")));
        assert_eq!(names(&keys(&["x", "y", "edge_index"])), None);
        assert_eq!(names(&keys(&["x", "labels"])), None);
        let model = Expected::default();
        assert_eq!(super::names(&keys(&["x", "labels"]), Some(&model)), Some(("x", "y")));
    }
}
