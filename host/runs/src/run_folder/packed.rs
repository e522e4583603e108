//! Weights of layers of signs in a model file: a bit a weight and a scale a column.
//!
//! In the place of `NAME`, f32 of extents [rows, ...], stand two tensors: `NAME.signs`, U8 of extents
//! [rows, bytes], of each row a bit a column from the lowest on, 1 for weights from 0 on; and
//! `NAME.scales`, F32 of the extents behind the rows. The weight is its column's scale with its sign. The
//! header's `digest` is that of the weights that were trained, its `unpacked_digest` that of those that the
//! file holds.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use eciton_tensor::signs::{Columns, plane};

use super::error::{Result, limit, malformed, shown};
use super::tensor::{Entry, MAX_MODEL_BYTES, NamedTensor, Values};

/// The metadata that says that there are packed weights: the digest of what they are unpacked to.
pub(super) const UNPACKED: &str = "unpacked_digest";
/// The ends of the names of signs, and of scales.
const SIGNS: &str = ".signs";
const SCALES: &str = ".scales";

/// The entries of a file of tensors, of which those that `names` names are packed where they can be; and the
/// tensors that will be read back, if any differ.
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

/// Signs whose scales come next.
pub(super) struct Signs<'a> {
    name: &'a str,
    rows: usize,
    bytes: usize,
    bits: &'a [u8],
}

impl<'a> Signs<'a> {
    /// The signs of a tensor of bytes; `None`: it is none of signs.
    pub(super) fn of(name: &'a str, shape: &[usize], bits: &'a [u8]) -> Option<Self> {
        let (name, [rows, bytes]) = (name.strip_suffix(SIGNS).filter(|name| !name.is_empty())?, shape) else {
            return None;
        };
        Some(Self { name, rows: *rows, bytes: *bytes, bits })
    }

    /// The weights, of which `values` bytes were read before.
    ///
    /// # Errors
    /// Scales of another tensor or of other extents; more bytes of weights than a file may have.
    pub(super) fn with(
        &self,
        (name, shape, scales): (&str, &[usize], Vec<f32>),
        values: u64,
        path: &Path,
    ) -> Result<NamedTensor> {
        let Self { rows, bytes, bits, .. } = *self;
        let wanted = format!("{}{SCALES}", self.name);
        if name != wanted || scales.is_empty() || plane(scales.len()) != bytes {
            let found = format!("{:?} of extents {shape:?} behind {rows} x {bytes} bytes", shown(name));
            return Err(malformed(path, "signs, and behind them their scales", &found));
        }
        let weights = (rows as u64).saturating_mul(scales.len() as u64).saturating_mul(4);
        limit(path, "size of a model's weights", "bytes", MAX_MODEL_BYTES, values.saturating_add(weights))?;
        let shape = [&[rows], shape].concat();
        let values = Columns { bits: bits.to_vec(), scales }.values();
        Ok(NamedTensor { name: self.name.to_owned(), shape, values })
    }
}
