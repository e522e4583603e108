//! Tensors of a model file. Their values are in memory, or are read in pieces.

use std::borrow::Cow;
use std::io;

/// Maximum size of a model file, in bytes.
pub const MAX_MODEL_BYTES: u64 = 4 << 30;
/// Number of values that are converted to bytes and written at a time.
const PIECE_VALUES: usize = 1 << 14;

/// A model parameter with its name, its extents and its values in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// Unique and non-empty name of the parameter, for instance `layer0.weight`.
    pub name: String,
    /// Extents of the tensor, rows first.
    pub shape: Vec<usize>,
    /// Row-major values. Their number is the product of the extents, and at least one.
    pub values: Vec<f32>,
}

/// A source of tensor values that are too large for memory and are read in pieces.
pub trait Pieces: std::fmt::Debug {
    /// Calls `take` with each piece of the values of the tensor with index `tensor`, in order.
    fn pieces(&self, tensor: usize, take: &mut dyn FnMut(&[f32]) -> io::Result<()>) -> io::Result<()>;
}

/// Values of one tensor that is to be written to a model file.
#[derive(Debug)]
pub enum Values<'a> {
    /// Numbers in memory (type F32).
    F32(Cow<'a, [f32]>),
    /// Bytes in memory (type U8).
    U8(Vec<u8>),
    /// Little-endian bytes of numbers, as in a model file (type F32).
    Bytes(&'a [u8]),
    /// Numbers that are read in pieces (type F32). The fields are their source and the index of the
    /// tensor in this source.
    Pieces(&'a dyn Pieces, usize),
}

/// A tensor to be written to a model file, with name, extents and values.
#[derive(Debug)]
pub struct Entry<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) shape: Cow<'a, [usize]>,
    pub(super) values: Values<'a>,
}

impl<'a> From<&'a NamedTensor> for Entry<'a> {
    fn from(tensor: &'a NamedTensor) -> Self {
        let (name, shape) = (Cow::Borrowed(&tensor.name[..]), Cow::Borrowed(&tensor.shape[..]));
        Self { name, shape, values: Values::F32(Cow::Borrowed(&tensor.values)) }
    }
}

impl<'a> Entry<'a> {
    /// Creates an entry from the name, the extents and the values of a tensor.
    pub fn new(name: impl Into<Cow<'a, str>>, shape: &'a [usize], values: Values<'a>) -> Self {
        Self { name: name.into(), shape: shape.into(), values }
    }
}

impl Values<'_> {
    /// Returns the number of values. Returns `None` for values that are read in pieces, whose
    /// number is the product of the extents.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::F32(values) => Some(values.len()),
            Self::U8(values) => Some(values.len()),
            Self::Bytes(values) => Some(values.len() / 4),
            Self::Pieces(..) => None,
        }
    }

    /// Calls `take` with each piece of the values as little-endian bytes, in order.
    pub(super) fn pieces(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::F32(values) => values.chunks(PIECE_VALUES).try_for_each(|piece| take(&bytes_of(piece))),
            Self::U8(values) => take(values),
            Self::Bytes(values) => take(values),
            Self::Pieces(of, tensor) => of.pieces(*tensor, &mut |piece| take(&bytes_of(piece))),
        }
    }

    /// Returns the data type as named in a safetensors header, and the number of bytes per value.
    pub(super) fn kind(&self) -> (&'static str, u64) {
        match self {
            Self::F32(_) | Self::Bytes(_) | Self::Pieces(..) => ("F32", 4),
            Self::U8(_) => ("U8", 1),
        }
    }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
