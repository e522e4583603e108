//! Immutable slice of numbers, which owns a vector or refers to the bytes of another owner.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, Result};

mod sealed {
    /// Number types without padding, for which every bit pattern is a valid value.
    pub trait Sealed: Copy + Send + Sync + PartialEq + fmt::Debug + 'static {}
    use std::fmt;
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Number type of which a [`Slab`] can consist, for instance `u32` or `f32`.
pub trait Plain: sealed::Sealed {
    /// Name of the type in stored files, for instance `u32`.
    const NAME: &'static str;
}

impl Plain for u8 {
    const NAME: &'static str = "u8";
}
impl Plain for u16 {
    const NAME: &'static str = "u16";
}
impl Plain for u32 {
    const NAME: &'static str = "u32";
}
impl Plain for u64 {
    const NAME: &'static str = "u64";
}
impl Plain for f32 {
    const NAME: &'static str = "f32";
}
impl Plain for f64 {
    const NAME: &'static str = "f64";
}

/// Returns the bytes of a slice of numbers, in the byte order of this machine.
pub fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers have no padding. Every byte is valid and needs no alignment. The bytes
    // are borrowed as long as the numbers.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Returns the bytes of a slice of numbers, so that they can be overwritten.
pub fn bytes_of_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`. Every bit pattern that is written is a valid value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Owner of bytes that slabs refer to, for instance a mapped file. The bytes must neither move nor
/// change while the owner lives.
pub trait SlabOwner: Send + Sync {
    /// Returns all bytes of the owner.
    fn bytes(&self) -> &[u8];

    /// Returns the CRC-32 checksum of all bytes, or `None` if the owner does not know it.
    fn crc32(&self) -> Option<u32> {
        None
    }
}

#[derive(Clone)]
enum Owner<T> {
    Vector(Arc<Vec<T>>),
    Bytes(Arc<dyn SlabOwner>),
}

/// Immutable slice of numbers, which is cheap to clone. It owns a vector, or refers to the bytes of
/// another owner that it keeps alive.
pub struct Slab<T: Plain> {
    data: NonNull<T>,
    len: usize,
    owner: Owner<T>,
}

// SAFETY: the memory is never written while a slab lives. Both kinds of owners may be shared and
// dropped by any thread.
unsafe impl<T: Plain> Send for Slab<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Slab<T> {}

impl<T: Plain> Slab<T> {
    /// Creates a slab over the byte range `range` of `owner`, without a copy.
    ///
    /// # Errors
    /// Returns [`Error::Argument`] if the range exceeds the bytes, is not a whole number of values,
    /// or is not aligned. Also returns it on a big-endian processor.
    pub fn over(owner: Arc<dyn SlabOwner>, range: Range<usize>) -> Result<Self> {
        let wrong = |reason: String| Error::Argument { operation: "slab", reason };
        let bytes = owner.bytes();
        let Some(part) = bytes.get(range.clone()) else {
            return Err(wrong(format!("bytes {range:?} are out of range: there are {} bytes", bytes.len())));
        };
        if part.is_empty() {
            // An empty range has no values, so its alignment does not matter.
            return Ok(Self::default());
        }
        let width = size_of::<T>();
        if !part.len().is_multiple_of(width) || !part.as_ptr().addr().is_multiple_of(align_of::<T>()) {
            return Err(wrong(format!("bytes {range:?} are not aligned values of {width} bytes")));
        }
        if cfg!(target_endian = "big") && width > 1 {
            return Err(wrong(
                "little-endian bytes cannot be used in place on this big-endian processor".to_owned(),
            ));
        }
        // The pointer of a slice is never null.
        let data = NonNull::from(part).cast::<T>();
        Ok(Self { data, len: part.len() / width, owner: Owner::Bytes(owner) })
    }

    /// Returns the size of the values in bytes.
    pub fn bytes_len(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Returns the CRC-32 checksum of the values in memory, or `None` if their owner does not know
    /// it.
    pub fn crc32(&self) -> Option<u32> {
        match &self.owner {
            Owner::Bytes(owner) if owner.bytes().len() == self.bytes_len() => owner.crc32(),
            _ => None,
        }
    }

    /// Returns true if the values lie in the bytes of another owner, and not in a vector.
    pub fn is_borrowed(&self) -> bool {
        matches!(self.owner, Owner::Bytes(_))
    }

    /// Converts the slab to a vector. The values are copied unless this is the only reference to an
    /// owned vector.
    pub fn into_vec(self) -> Vec<T> {
        let (data, len) = (self.data, self.len);
        match self.owner {
            Owner::Vector(vector) => Arc::try_unwrap(vector).unwrap_or_else(|shared| shared.to_vec()),
            // SAFETY: the owner is alive in this branch, and has `len` values at `data`.
            Owner::Bytes(_owner) => unsafe { std::slice::from_raw_parts(data.as_ptr(), len) }.to_vec(),
        }
    }
}

impl<T: Plain> Deref for Slab<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `data` points to `len` aligned values. They belong to a vector that nothing
        // changes, or to bytes that `over` checked and that do not change by the contract of
        // `SlabOwner`. Every bit pattern is a value of a `Plain` type. The owner lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T: Plain> From<Vec<T>> for Slab<T> {
    fn from(values: Vec<T>) -> Self {
        let vector = Arc::new(values);
        // The pointer of a vector is never null. Moving the vector into the Arc does not move its
        // values.
        let data = NonNull::from(vector.as_slice()).cast::<T>();
        Self { data, len: vector.len(), owner: Owner::Vector(vector) }
    }
}

impl<T: Plain> Default for Slab<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T: Plain> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Self { data: self.data, len: self.len, owner: self.owner.clone() }
    }
}

impl<T: Plain> PartialEq for Slab<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Plain + Eq> Eq for Slab<T> {}

impl<T: Plain> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes whose address is a multiple of 8.
    struct Words(Vec<u64>);

    impl SlabOwner for Words {
        fn bytes(&self) -> &[u8] {
            // SAFETY: a word has eight bytes, and bytes need no alignment.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
        }
    }

    #[test]
    fn owned_and_borrowed_are_equal_by_content() {
        let owner: Arc<dyn SlabOwner> =
            Arc::new(Words(vec![u64::from_le_bytes([1, 0, 0, 0, 2, 0, 0, 0]), 3]));
        let borrowed = Slab::<u32>::over(owner.clone(), 0..12).unwrap();
        drop(owner);
        let owned = Slab::from(vec![1u32, 2, 3]);
        assert_eq!(borrowed, owned);
        assert!(borrowed.is_borrowed() && !owned.is_borrowed());
        assert_eq!((borrowed.len(), borrowed.bytes_len()), (3, 12));
        assert_eq!(format!("{borrowed:?}"), "[1, 2, 3]");
        let clone = borrowed.clone();
        drop(borrowed);
        assert_eq!(clone.into_vec(), [1, 2, 3]);
        assert_eq!(owned.clone().into_vec(), owned.into_vec());
        if cfg!(target_endian = "little") {
            assert_eq!(bytes_of(&[0x0201u16, 3]), [1, 2, 3, 0]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let owner: Arc<dyn SlabOwner> = Arc::new(Words(vec![0; 2]));
        assert!(Slab::<u32>::over(owner.clone(), 0..17).is_err(), "beyond the end");
        assert!(Slab::<u32>::over(owner.clone(), 0..7).is_err(), "no whole number");
        assert!(Slab::<u32>::over(owner.clone(), 2..6).is_err(), "not aligned");
        #[expect(clippy::reversed_empty_ranges, reason = "that is the case")]
        let backwards = 8..4;
        assert!(Slab::<u32>::over(owner.clone(), backwards).is_err(), "backwards");
        assert_eq!(Slab::<u64>::over(owner, 16..16).unwrap(), Slab::default());
    }
}
