//! The file `model.safetensors`, which contains the weights of one seed as f32, in the order of the
//! program's parameters. Weights of binary layers are packed as in [`packed`](super::packed).
//!
//! The file starts with the length of the header (eight bytes, little-endian). A JSON header,
//! padded to a multiple of 8, and the values follow. The crate safetensors reads the file, but this
//! module writes it. That crate writes metadata in random order, and equal weights must give equal
//! files.
//!
//! `__metadata__` in the header has the version of Eciton, the model, the data set, the seed, and
//! the digest of the weights.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensors};
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::error::{Error, Result, limit, malformed, shown};
use super::packed::{Signs, UNPACKED};
use super::tensor::{Entry, NamedTensor};

/// Maximum size of the header of a model file, in bytes.
pub const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Maximum number of tensors in a model file.
pub const MAX_TENSORS: usize = 4096;

/// Metadata key under which a file has the digest of the trained weights.
pub(super) const DIGEST: &str = "digest";
/// Metadata key under which a file has the version of Eciton that wrote it. Files of other programs
/// lack it.
const VERSION: &str = "eciton";
/// Key of the metadata in the header of a safetensors file. No tensor may have this name.
const METADATA: &str = "__metadata__";

/// Returns the SHA-256 of a model's weights, in hexadecimal.
///
/// The tensors are hashed in order. Each contributes the length of its name in bytes, the name
/// (UTF-8), the number of extents, the extents, and the bits of the values. Lengths and extents are
/// unsigned 64-bit, and values 32-bit, all little-endian.
#[must_use]
pub fn model_digest(tensors: &[NamedTensor]) -> String {
    let entries: Vec<_> = tensors.iter().map(Entry::from).collect();
    // Values in memory can always be read.
    digest_of(&entries).unwrap_or_default()
}

/// Returns the [`model_digest`] of tensors whose values may be read in pieces.
///
/// # Errors
/// Returns an error if the source of the values cannot be read.
pub fn digest_of(tensors: &[Entry<'_>]) -> io::Result<String> {
    let mut hasher = Sha256::new();
    tensors.iter().try_for_each(|tensor| hash(&mut hasher, tensor, &mut |_| Ok(())))?;
    Ok(hex(hasher))
}

/// Content of a model file: tensors and metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Tensors, in the order of the file.
    pub tensors: Vec<NamedTensor>,
    /// Metadata of the file. Eciton writes the keys `eciton`, `model`, `dataset`, `seed` and
    /// `digest`, and callers may add more.
    pub metadata: BTreeMap<String, String>,
}

impl Model {
    /// Returns the digest of the trained weights that the metadata records. Returns an empty string
    /// for a file of another program.
    pub fn digest(&self) -> &str {
        self.metadata.get(DIGEST).map_or("", String::as_str)
    }

    /// Returns true if another program than Eciton wrote the file. Such a file has no digest, so
    /// its weights were not verified.
    pub fn is_foreign(&self) -> bool {
        !self.metadata.contains_key(VERSION)
    }
}

/// Returns the header of a model file with these tensors. Fails if the whole file would exceed
/// `most` bytes. `path` is the path of the file, for error messages.
///
/// # Errors
/// Returns an [`Error`] for tensors that [`decode`] would reject.
pub fn header(
    tensors: &[Entry<'_>],
    metadata: &BTreeMap<String, String>,
    most: u64,
    path: &Path,
) -> Result<Vec<u8>> {
    let wrong = |what: String, expected: &str, found: String| Error::Values {
        path: path.to_owned(),
        what,
        expected: expected.to_owned(),
        found,
    };
    limit(path, "tensors of a model", "tensors", MAX_TENSORS as u64, tensors.len() as u64)?;
    let mut names = HashSet::new();
    let mut end = 0u64;
    let mut infos = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let name = shown(&tensor.name);
        if tensor.name.is_empty() || tensor.name == METADATA || !names.insert(&tensor.name) {
            return Err(wrong("a tensor's name".to_owned(), "unique and not empty", format!("{name:?}")));
        }
        let product = tensor.shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        let values = tensor.values.len().or(product).unwrap_or(0);
        if values == 0 || product != Some(values) {
            let found = format!("{values} values for the shape {:?}", tensor.shape);
            return Err(wrong(
                format!("the values of tensor {name}"),
                "at least 1, and as many as its shape has",
                found,
            ));
        }
        let start = end;
        let (kind, bytes) = tensor.values.kind();
        end = start.saturating_add(values as u64 * bytes);
        infos.push(json!({ "dtype": kind, "shape": tensor.shape, "data_offsets": [start, end] }));
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let written = serializer.serialize_map(None).and_then(|mut map| {
        map.serialize_entry(METADATA, metadata)?;
        for (tensor, info) in tensors.iter().zip(&infos) {
            map.serialize_entry(&tensor.name, info)?;
        }
        map.end()
    });
    written.map_err(|e| Error::Write { path: path.to_owned(), source: e.into() })?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    limit(path, "header of a model", "bytes", MAX_HEADER_BYTES, bytes.len() as u64)?;
    limit(path, "size of a model", "bytes", most, end.saturating_add(8 + bytes.len() as u64))?;
    Ok(bytes)
}

/// Writes a model file: the length of `header`, `header`, and the values of `tensors`. `written` is
/// called with the number of tensors that are written so far. Returns the digest of the tensors
/// ([`digest_of`]).
///
/// # Errors
/// Returns an error if the operating system refuses to write, or if the source of the values cannot
/// be read.
pub fn write(
    mut out: impl Write,
    header: &[u8],
    tensors: &[Entry<'_>],
    written: &dyn Fn(usize),
) -> io::Result<String> {
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header)?;
    let mut hasher = Sha256::new();
    for (at, tensor) in tensors.iter().enumerate() {
        hash(&mut hasher, tensor, &mut |piece| out.write_all(piece))?;
        written(at + 1);
    }
    out.flush()?;
    Ok(hex(hasher))
}

/// Replaces the header of a model file by `header`, which has the same length.
///
/// # Errors
/// Returns an error if the operating system refuses to write.
pub fn rewrite(mut out: impl Write + io::Seek, header: &[u8]) -> io::Result<()> {
    out.seek(io::SeekFrom::Start(8))?;
    out.write_all(header)?;
    out.flush()
}

/// Adds a tensor to a digest. `take` is called with each piece of its values.
fn hash(
    hasher: &mut Sha256,
    tensor: &Entry<'_>,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    hasher.update((tensor.name.len() as u64).to_le_bytes());
    hasher.update(tensor.name.as_bytes());
    hasher.update((tensor.shape.len() as u64).to_le_bytes());
    for &extent in tensor.shape.iter() {
        hasher.update((extent as u64).to_le_bytes());
    }
    tensor.values.pieces(&mut |piece| {
        hasher.update(piece);
        take(piece)
    })
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Location of one tensor within the bytes of a model file.
#[derive(Debug)]
pub struct Cells {
    /// Name of the tensor.
    pub name: String,
    /// Data type, extents and data offsets from the file header.
    pub info: TensorInfo,
    /// Byte range of the values, counted from the start of the file.
    pub place: Range<usize>,
}

/// Parses the header of a model file. Returns the location of each tensor, in the order of the
/// file, and the metadata. No value is copied.
///
/// # Errors
/// Returns an [`Error`] if the file is damaged or exceeds a limit.
pub fn cells(bytes: &[u8], path: &Path) -> Result<(Vec<Cells>, BTreeMap<String, String>)> {
    let wrong = |expected: &str, found: String| malformed(path, expected, &found);
    // This limits the memory that a header can make the reader allocate.
    let header = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    limit(path, "header of a model", "bytes", MAX_HEADER_BYTES, header)?;
    let (length, head) =
        SafeTensors::read_metadata(bytes).map_err(|e| wrong("a complete safetensors file", e.to_string()))?;
    let infos = head.tensors();
    limit(path, "tensors of a model", "tensors", MAX_TENSORS as u64, infos.len() as u64)?;
    let metadata: BTreeMap<String, String> = head.metadata().iter().flatten().map(clone_pair).collect();
    let place = |name: String| {
        let info = TensorInfo::clone(infos.get(&name)?);
        let (start, end) = info.data_offsets;
        Some(Cells { name, info, place: 8 + length + start..8 + length + end })
    };
    Ok((head.offset_keys().into_iter().filter_map(place).collect(), metadata))
}

impl Cells {
    /// Returns the bytes of the tensor's values. `bytes` is the whole file. Returns `None` if the
    /// tensor has no value, no name, or another type than F32.
    pub fn values<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let cells = bytes.get(self.place.clone()).filter(|cells| !cells.is_empty());
        cells.filter(|_| self.info.dtype == Dtype::F32 && !self.name.is_empty())
    }

    /// Returns the error to report for a tensor for which [`Cells::values`] returns `None`.
    pub fn wrong(&self, path: &Path) -> Error {
        let found = format!("{:?}: {:?}", self.name, self.info);
        malformed(path, "named tensors of F32 with at least one value", &found)
    }
}

/// Converts little-endian bytes to f32 values.
pub fn values_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&cell| f32::from_le_bytes(cell)).collect()
}

/// Parses a model file that Eciton wrote, and verifies its weights by the digest in its metadata.
pub fn decode(bytes: &[u8], path: &Path) -> Result<Model> {
    tensors_of(bytes, path, true)
}

/// Parses a model file that any program may have written. Weights without a digest in the metadata
/// are not verified.
///
/// # Errors
/// Returns an [`Error`] if the file is damaged, exceeds a limit, or differs from its digest.
pub fn decode_any(bytes: &[u8], path: &Path) -> Result<Model> {
    tensors_of(bytes, path, false)
}

/// Parses a model file. If `own` is true, a file that Eciton did not write is an error.
fn tensors_of(bytes: &[u8], path: &Path, own: bool) -> Result<Model> {
    let wrong = |expected: &str, found: String| malformed(path, expected, &found);
    let (all, metadata) = cells(bytes, path)?;
    let unpacked = metadata.get(UNPACKED);
    let mut tensors: Vec<NamedTensor> = Vec::with_capacity(all.len());
    let (mut signs, mut read): (Option<Signs<'_>>, u64) = (None, 0);
    for one in &all {
        let Cells { name, info, place } = one;
        let bits = (info.dtype == Dtype::U8 && unpacked.is_some() && signs.is_none())
            .then(|| bytes.get(place.clone()).unwrap_or_default());
        if let Some(found) = bits.and_then(|cells| Signs::parse(name, &info.shape, cells)) {
            signs = Some(found);
            continue;
        }
        let values = values_of(one.values(bytes).ok_or_else(|| one.wrong(path))?);
        let tensor = match signs.take() {
            Some(signs) => signs.with((name, &info.shape, values), read, path)?,
            None => NamedTensor { shape: info.shape.clone(), values, name: name.clone() },
        };
        read = read.saturating_add(4 * tensor.values.len() as u64);
        tensors.push(tensor);
    }
    if signs.is_some() {
        return Err(wrong("signs followed by their scales", "signs without scales".to_owned()));
    }
    let expected = unpacked.or(metadata.get(DIGEST));
    match expected.filter(|_| own || metadata.contains_key(VERSION)) {
        Some(expected) => check_digest(&tensors, expected, "its own header", path)?,
        None if own || metadata.contains_key(VERSION) => {
            return Err(wrong("weights with their `digest` in the metadata", "none".to_owned()));
        }
        None => {}
    }
    Ok(Model { tensors, metadata })
}

fn clone_pair((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// Compares the digest of `tensors` with the expected one. `place` is the name of the file that
/// records the expected digest, for the error message.
fn check_digest(tensors: &[NamedTensor], expected: &str, place: &'static str, path: &Path) -> Result<()> {
    let found = model_digest(tensors);
    if found == expected {
        return Ok(());
    }
    Err(Error::Digest { path: path.to_owned(), place, expected: shown(expected), found })
}
