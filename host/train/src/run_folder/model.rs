//! `model.safetensors`: the weights of one seed, f32, in the order of the program.
//!
//! Eight bytes of header length (little-endian), a JSON header padded to a multiple of 8, the values.
//! Written here, because equal weights must be equal files (crate safetensors writes its metadata in
//! random order); read by crate safetensors. The header's `__metadata__` says with which version, on
//! what and from which seed the weights were made, and their digest.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, shown};

/// The most bytes of a model file.
pub const MAX_MODEL_BYTES: u64 = 4 << 30;
/// The most bytes of its header.
pub const MAX_HEADER_BYTES: u64 = 1 << 20;
/// The most tensors of a model.
pub const MAX_TENSORS: usize = 4096;

/// What the header calls its metadata; no tensor may be named so.
const METADATA: &str = "__metadata__";
/// Values are written in pieces of so many.
const PIECE_VALUES: usize = 1 << 14;

/// A parameter under its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// For instance `layer0.weight`; unique, not empty.
    pub name: String,
    /// Extents, rows first.
    pub shape: Vec<usize>,
    /// Row-major, as many as the extents' product, at least one.
    pub values: Vec<f32>,
}

/// Values that come piece by piece, in the order of the tensors.
pub(crate) trait Pieces {
    /// Hands the values of a tensor to `take`.
    fn pieces(&self, tensor: usize, take: &mut dyn FnMut(&[f32]) -> io::Result<()>) -> io::Result<()>;
}

impl Pieces for [NamedTensor] {
    fn pieces(&self, tensor: usize, take: &mut dyn FnMut(&[f32]) -> io::Result<()>) -> io::Result<()> {
        let values = self.get(tensor).map_or(&[][..], |tensor| &tensor.values);
        values.chunks(PIECE_VALUES).try_for_each(take)
    }
}

/// A tensor's name and extents, rows first.
pub(crate) type Named = (String, Vec<usize>);

pub(super) fn named(tensors: &[NamedTensor]) -> Vec<Named> {
    tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape.clone())).collect()
}

/// SHA-256 of weights, hexadecimal.
///
/// Of each tensor in order: its name's length in bytes, the name (UTF-8), the number of extents, the
/// extents, the values' bits. Lengths and extents are unsigned 64-bit, values 32-bit, all little-endian.
#[must_use]
pub fn model_digest(tensors: &[NamedTensor]) -> String {
    // Values that are there are always read.
    digest_of(&named(tensors), tensors).unwrap_or_default()
}

/// The same of values that come piece by piece.
pub(crate) fn digest_of<P: Pieces + ?Sized>(tensors: &[Named], values: &P) -> io::Result<String> {
    let mut hasher = Sha256::new();
    for (at, (name, shape)) in tensors.iter().enumerate() {
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update((shape.len() as u64).to_le_bytes());
        for &extent in shape {
            hasher.update((extent as u64).to_le_bytes());
        }
        values.pieces(at, &mut |piece| {
            hasher.update(bytes_of(piece));
            Ok(())
        })?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A model file's content: what is written, and what was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// In the file's order.
    pub tensors: Vec<NamedTensor>,
    /// `eciton`, `model`, `dataset`, `seed`, `digest` and whatever else was given.
    pub metadata: BTreeMap<String, String>,
}

/// The header of a file of at most `most` bytes, refusing what [`decode`] would refuse. `path` is named
/// in errors.
pub(crate) fn header(
    tensors: &[NamedTensor],
    metadata: &BTreeMap<String, String>,
    most: u64,
    path: &Path,
) -> Result<Vec<u8>> {
    for NamedTensor { name, shape, values } in tensors {
        let product = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        if product != Some(values.len()) {
            let found = format!("{} values for extents {shape:?}", values.len());
            return Err(few(name, found, path));
        }
    }
    header_of(&named(tensors), metadata, most, path)
}

/// A tensor whose values are not as many as its extents say.
fn few(name: &str, found: String, path: &Path) -> Error {
    let what = format!("tensor {}", shown(name));
    let expected = "as many values as its extents say, at least 1".to_owned();
    Error::Values { path: path.to_owned(), what, expected, found }
}

/// The same of tensors whose values come piece by piece.
pub(crate) fn header_of(
    tensors: &[Named],
    metadata: &BTreeMap<String, String>,
    most: u64,
    path: &Path,
) -> Result<Vec<u8>> {
    limit(path, "tensors of a model", "tensors", MAX_TENSORS as u64, tensors.len() as u64)?;
    let mut names = HashSet::new();
    let mut end = 0u64;
    let mut infos = Vec::with_capacity(tensors.len());
    for (name, shape) in tensors {
        if name.is_empty() || name == METADATA || !names.insert(name) {
            let (what, expected) = ("a tensor's name".to_owned(), "unique, not empty".to_owned());
            let found = format!("{:?}", shown(name));
            return Err(Error::Values { path: path.to_owned(), what, expected, found });
        }
        let values = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).unwrap_or(0);
        if values == 0 {
            return Err(few(name, format!("0 values for extents {shape:?}"), path));
        }
        let start = end;
        end = start.saturating_add(values as u64 * 4);
        infos.push(json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] }));
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let written = serializer.serialize_map(None).and_then(|mut map| {
        map.serialize_entry(METADATA, metadata)?;
        for ((name, _), info) in tensors.iter().zip(&infos) {
            map.serialize_entry(name, info)?;
        }
        map.end()
    });
    written.map_err(|e| Error::Write { path: path.to_owned(), source: e.into() })?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    limit(path, "header of a model", "bytes", MAX_HEADER_BYTES, bytes.len() as u64)?;
    limit(path, "size of a model", "bytes", most, end.saturating_add(8 + bytes.len() as u64))?;
    Ok(bytes)
}

/// Writes the file that `header` begins, of so many tensors.
pub(crate) fn write<P: Pieces + ?Sized>(
    mut out: impl Write,
    header: &[u8],
    (count, values): (usize, &P),
) -> io::Result<()> {
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header)?;
    for tensor in 0..count {
        values.pieces(tensor, &mut |piece| out.write_all(&bytes_of(piece)))?;
    }
    out.flush()
}

/// Reads a whole file and checks its weights against the digest in its metadata.
pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Model> {
    let wrong = |expected: &str, found: String| Error::Malformed {
        path: path.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    // Bounds what the header can make the reader allocate.
    let header = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    limit(path, "header of a model", "bytes", MAX_HEADER_BYTES, header)?;
    let (length, head) = SafeTensors::read_metadata(bytes)
        .map_err(|e| wrong("a whole safetensors file", shown(&e.to_string())))?;
    let infos = head.tensors();
    limit(path, "tensors of a model", "tensors", MAX_TENSORS as u64, infos.len() as u64)?;
    let data = bytes.get(8 + length..).unwrap_or_default();
    let mut tensors = Vec::with_capacity(infos.len());
    for name in head.offset_keys() {
        let info = infos.get(&name);
        let cells = info.and_then(|i| data.get(i.data_offsets.0..i.data_offsets.1)).unwrap_or_default();
        let Some(info) = info.filter(|i| i.dtype == Dtype::F32 && !cells.is_empty() && !name.is_empty())
        else {
            let found = format!("{:?}: {info:?}", shown(&name));
            return Err(wrong("named tensors of F32 with at least one value", shown(&found)));
        };
        let (cells, _) = cells.as_chunks::<4>();
        let values = cells.iter().map(|&cell| f32::from_le_bytes(cell)).collect();
        tensors.push(NamedTensor { shape: info.shape.clone(), values, name });
    }
    let metadata: BTreeMap<String, String> = head.metadata().iter().flatten().map(clone_pair).collect();
    let Some(expected) = metadata.get("digest") else {
        return Err(wrong("weights with their `digest` in the metadata", "none".to_owned()));
    };
    check_digest(&tensors, expected, "its own header", path)?;
    Ok(Model { tensors, metadata })
}

fn clone_pair((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// Compares the weights with a digest that `place` gives.
pub(super) fn check_digest(
    tensors: &[NamedTensor],
    expected: &str,
    place: &'static str,
    path: &Path,
) -> Result<()> {
    let found = model_digest(tensors);
    if found == expected {
        return Ok(());
    }
    Err(Error::Digest { path: path.to_owned(), place, expected: shown(expected), found })
}

/// Refuses what is above a limit.
pub(super) fn limit(
    path: &Path,
    what: &'static str,
    unit: &'static str,
    allowed: u64,
    found: u64,
) -> Result<()> {
    if found <= allowed {
        return Ok(());
    }
    Err(Error::Limit { path: path.to_owned(), what, unit, allowed, found })
}
