//! A folder of plain arrays: `indptr.npy [V + 1]`, `indices.npy [E]` (in-neighbours of each vertex),
//! `feat.npy [V, columns]`, `label.npy [V]` (-1 is none) and `train.npy`, `val.npy`, `test.npy`
//! (vertex ids). The graph is taken as it is stored, directed if it is; without the three splits
//! 60 / 20 / 20 % of the labelled vertices are drawn from seed 0.

use std::path::Path;

use super::array::Array;
use super::{bundle, file, labels, npy};
use crate::adjacency::{Graph, Options};
use crate::dataset::{Dataset, VertexIds};
use crate::error::{Error, Place, Result};
use crate::features::Features;
use crate::split::Split;

/// Reads such a folder.
///
/// # Errors
/// Those of the array reader; [`Error::Malformed`] for offsets that do not ascend to E;
/// [`Error::UnknownVertex`]; those of [`Dataset::validate`].
pub fn open(folder: &Path) -> Result<Dataset> {
    let offsets = read(folder, "indptr", |a| a.to_u64())?;
    let indices = read(folder, "indices", |a| a.to_u32())?;
    let place = || Place::whole(file::name(&folder.join("indptr.npy")));
    let stored = indices.len() as u64;
    if offsets.first() != Some(&0) || offsets.last() != Some(&stored) || !offsets.is_sorted() {
        let found = format!("offsets from {:?} to {:?}", offsets.first(), offsets.last());
        let expected = format!("offsets that ascend from 0 to {stored}, the length of indices.npy");
        return Err(Error::malformed(place(), expected, found));
    }
    let vertices = offsets.len() as u64 - 1;
    crate::adjacency::check_vertices(vertices, place)?;
    let edges = offsets.windows(2).enumerate().flat_map(|(target, pair)| {
        let list = &indices[pair[0] as usize..pair[1] as usize];
        list.iter().map(move |&source| (source, target as u32))
    });
    let options = Options { symmetric: false, keep_self_loops: true };
    let graph = Graph::from_edges(vertices, edges, options)?;
    let features = match folder.join("feat.npy").exists() {
        true => read(folder, "feat", bundle::dense)?,
        false => Features::identity(graph.vertices()),
    };
    let label_file = file::name(&folder.join("label.npy"));
    let numbers = read(folder, "label", |a| a.to_i64())?;
    let (labels, classes) = labels::from_numbers(&numbers, &label_file)?;
    let split = match folder.join("train.npy").exists() {
        true => Split {
            train: read(folder, "train", |a| a.to_u32())?,
            validation: read(folder, "val", |a| a.to_u32())?,
            test: read(folder, "test", |a| a.to_u32())?,
        }
        .sorted(),
        false => Split::random(&labels, [0.6, 0.2], 0),
    };
    let name = file::folder_name(folder);
    Dataset { name, graph, features, labels, classes, split, ids: VertexIds::Dense }.checked()
}

fn read<T>(folder: &Path, part: &str, as_type: impl FnOnce(Array<'_>) -> Result<T>) -> Result<T> {
    let path = folder.join(format!("{part}.npy"));
    let bytes = file::read(&path)?;
    as_type(npy::parse(&bytes, &file::name(&path))?)
}
