//! Packed weights of binary layers in a model file, with one bit per weight and one scale per
//! column.
//!
//! Two tensors replace the tensor `NAME` with extents [rows, ...]. `NAME.signs` is of type U8 with
//! extents [rows, bytes]. It has one bit per weight, lowest bit first, which is 1 for weights of 0
//! and above. `NAME.scales` is of type F32 and has the extents after the rows. An unpacked weight
//! is the scale of its column, with the sign that the bit stands for.
//!
//! `digest` in the metadata is that of the trained weights. `unpacked_digest` is that of the
//! weights that a reader unpacks from the file.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use eciton_tensor::signs::{Columns, plane};

use super::error::{Result, limit, malformed, shown};
use super::tensor::{Entry, MAX_MODEL_BYTES, NamedTensor, Values};

/// Metadata key of the digest of the unpacked weights. Only files with packed weights have this
/// key.
pub(super) const UNPACKED: &str = "unpacked_digest";
/// Suffix of the name of a tensor of signs. The suffix for scales follows.
const SIGNS: &str = ".signs";
const SCALES: &str = ".scales";

/// Returns the entries of a model file, in which the tensors named in `names` are packed if
/// possible. If any tensor is packed, also returns all tensors with the values that a reader will
/// unpack.
pub(super) fn entries<'a>(
    tensors: &'a [NamedTensor],
    names: &BTreeSet<String>,
) -> (Vec<Entry<'a>>, Option<Vec<NamedTensor>>) {
    let mut entries = Vec::with_capacity(tensors.len());
    let mut unpacked = names.iter().next().map(|_| tensors.to_vec());
    let mut any = false;
    for (at, tensor) in tensors.iter().enumerate() {
        let columns: usize = tensor.shape.iter().skip(1).product();
        let packed = match tensor.shape.len() {
            2.. if names.contains(&tensor.name) => Columns::pack(&tensor.values, columns),
            _ => None,
        };
        let (Some(packed), [rows, rest @ ..]) = (packed, &tensor.shape[..]) else {
            entries.push(Entry::from(tensor));
            continue;
        };
        any = true;
        if let Some(tensor) = unpacked.as_mut().and_then(|all| all.get_mut(at)) {
            tensor.values = packed.values();
        }
        let mut entry = |end: &str, shape: Vec<usize>, values| {
            entries.push(Entry {
                name: Cow::Owned(format!("{}{end}", tensor.name)),
                shape: shape.into(),
                values,
            });
        };
        entry(SIGNS, vec![*rows, plane(columns)], Values::U8(packed.bits));
        entry(SCALES, rest.to_vec(), Values::F32(packed.scales.into()));
    }
    (entries, unpacked.filter(|_| any))
}

/// Signs of a packed tensor that was read. The next tensor of the file has the scales.
pub(super) struct Signs<'a> {
    name: &'a str,
    rows: usize,
    bytes: usize,
    bits: &'a [u8],
}

impl<'a> Signs<'a> {
    /// Returns the signs in a tensor of bytes. Returns `None` if the tensor does not contain signs.
    pub(super) fn parse(name: &'a str, shape: &[usize], bits: &'a [u8]) -> Option<Self> {
        let (name, [rows, bytes]) = (name.strip_suffix(SIGNS).filter(|name| !name.is_empty())?, shape) else {
            return None;
        };
        Some(Self { name, rows: *rows, bytes: *bytes, bits })
    }

    /// Combines the signs with their scales to the unpacked tensor. `values` is the number of bytes
    /// of weights that were unpacked before, which counts towards the size limit.
    ///
    /// # Errors
    /// Returns an error if the scales belong to another tensor or have other extents. Also returns
    /// one if the weights of the file exceed [`MAX_MODEL_BYTES`].
    pub(super) fn with(
        &self,
        (name, shape, scales): (&str, &[usize], Vec<f32>),
        values: u64,
        path: &Path,
    ) -> Result<NamedTensor> {
        let Self { rows, bytes, bits, .. } = *self;
        let wanted = format!("{}{SCALES}", self.name);
        if name != wanted || scales.is_empty() || plane(scales.len()) != bytes {
            let found = format!("{:?} of shape {shape:?} after {rows} x {bytes} bytes", shown(name));
            return Err(malformed(path, "signs followed by their scales", &found));
        }
        let weights = (rows as u64).saturating_mul(scales.len() as u64).saturating_mul(4);
        limit(path, "size of a model's weights", "bytes", MAX_MODEL_BYTES, values.saturating_add(weights))?;
        let shape = [&[rows], shape].concat();
        let values = Columns { bits: bits.to_vec(), scales }.values();
        Ok(NamedTensor { name: self.name.to_owned(), shape, values })
    }
}
