//! Values in message bodies, which are in little-endian order and without padding.

use bytes::Bytes;

use crate::error::{Error, Result};

/// Appends values to the body of a message.
pub(super) fn put(values: &[f32], body: &mut Vec<u8>) {
    let start = body.len();
    body.resize(start + 4 * values.len(), 0);
    let words = body[start..].as_chunks_mut::<4>().0;
    words.iter_mut().zip(values).for_each(|(word, value)| *word = value.to_le_bytes());
}

/// Appends bfloat16 values to the body of a message.
pub(super) fn put_half(values: &[u16], body: &mut Vec<u8>) {
    let start = body.len();
    body.resize(start + 2 * values.len(), 0);
    let words = body[start..].as_chunks_mut::<2>().0;
    words.iter_mut().zip(values).for_each(|(word, value)| *word = value.to_le_bytes());
}

/// Reader of the values of a body.
#[derive(Debug)]
pub(super) struct Values<'a> {
    left: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn new(body: &'a Bytes) -> Self {
        Self { left: body }
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, left) = self.left.split_at_checked(count).unwrap_or((self.left, &[]));
        self.left = left;
        taken
    }

    /// Reads `into.len()` values. The body must have been checked to contain them.
    pub(super) fn take(&mut self, into: &mut [f32]) {
        let words = self.bytes(4 * into.len()).as_chunks::<4>().0;
        into.iter_mut().zip(words).for_each(|(value, word)| *value = f32::from_le_bytes(*word));
    }

    /// Reads `into.len()` bfloat16 values. The body must have been checked to contain them.
    pub(super) fn take_half(&mut self, into: &mut [u16]) {
        let words = self.bytes(2 * into.len()).as_chunks::<2>().0;
        into.iter_mut().zip(words).for_each(|(value, word)| *value = u16::from_le_bytes(*word));
    }
}

/// Checks the length of the body that host `from` has sent.
///
/// # Errors
/// Returns [`Error::Hosts`] if it is not `expected`.
pub(super) fn check(from: u32, what: &str, body: &Bytes, expected: u64) -> Result<()> {
    if body.len() as u64 == expected {
        return Ok(());
    }
    Err(Error::Hosts(format!(
        "host {from} has sent {} bytes of {what}, expected {expected}; all hosts must run the same version of \
         eciton with the same data and settings",
        body.len()
    )))
}
