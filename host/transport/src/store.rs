//! The interface of object stores, and the counts of their requests.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::Key;

/// Default maximum size of an object that may be read or written, in bytes.
pub const MAX_OBJECT_BYTES: u64 = 5 << 30;

/// Maximum number of parts of one object. S3 allows no more.
pub(crate) const MAX_PARTS: u64 = 10_000;

/// Default size of the parts of an upload, in bytes. Smaller objects are written in a single
/// request.
pub(crate) const MULTIPART_BYTES: u64 = 8 << 20;

/// Returns the number of write requests that S3 charges for an object of `bytes_len` bytes with
/// default settings. An object smaller than 8 MiB takes one request. A larger one takes one request
/// per part and two more, to start and to complete the upload.
#[must_use]
pub fn put_requests(bytes_len: u64) -> u64 {
    if bytes_len < MULTIPART_BYTES {
        return 1;
    }
    bytes_len.div_ceil(MULTIPART_BYTES.max(bytes_len.div_ceil(MAX_PARTS))) + 2
}

/// Future of a store operation. Dropping it cancels the operation. A cancelled write may have been
/// completed.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Callback that receives the bytes of an object in order, in pieces of any size. An error from it
/// stops the transfer.
pub type Sink<'a> = dyn FnMut(Bytes) -> Result<()> + Send + 'a;

/// Condition under which an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The object is written, and replaces an existing object.
    Always,
    /// The object is written only if no object with its key exists. Exactly one of several
    /// concurrent writes succeeds.
    IfAbsent,
}

/// Result of a write without errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The object was written.
    Written,
    /// An object with the key exists, and the condition was [`Condition::IfAbsent`]. If the answer
    /// to a write is lost, a retry may find the caller's own object.
    Exists,
}

/// Object store: immutable objects under [keys](Key). Objects can be read completely or by range.
///
/// A read sees every write that was completed before the read started. Ranges are half-open byte
/// offsets:
/// * An end beyond the end of the object is reduced to it. So a reader that does not know the size
///   may ask for more.
/// * A start at or beyond the end of the object gives [`Error::Range`], and so does an inverted
///   range.
/// * An empty range gives no bytes, without a request.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Reads an object or a range of it, and passes the bytes to `sink` as they arrive. Returns the
    /// number of bytes. After an error, the sink may have received some bytes, but never the same
    /// bytes twice.
    fn read<'a>(
        &'a self,
        key: &'a Key,
        range: Option<Range<u64>>,
        sink: &'a mut Sink<'_>,
    ) -> Pending<'a, u64>;

    /// Reads an object or a range of it into memory.
    fn get<'a>(&'a self, key: &'a Key, range: Option<Range<u64>>) -> Pending<'a, Bytes>;

    /// Writes an object atomically, so that no reader sees part of it.
    fn put<'a>(&'a self, key: &'a Key, bytes: Bytes, condition: Condition) -> Pending<'a, Stored>;

    /// Deletes the objects `keys`. It is not an error if an object does not exist.
    fn delete<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, ()>;

    /// Returns the first `limit` keys that start with `prefix`, in byte order, with the sizes of
    /// their objects. Objects whose names are not valid [`Key`]s are omitted.
    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> Pending<'a, Vec<(Key, u64)>>;

    /// Returns the size of the object `key`, in bytes.
    fn size<'a>(&'a self, key: &'a Key) -> Pending<'a, u64>;

    /// Returns the numbers of requests and bytes of this store so far.
    fn counts(&self) -> Counts;
}

/// Numbers of HTTP requests, as a service charges them, and of transferred bytes. Each page of a
/// listing, each part of an upload and each retry is one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Number of requests that read objects or ranges.
    pub gets: u64,
    /// Number of requests that write objects. An upload in parts counts its start, each part and
    /// its completion.
    pub puts: u64,
    /// Number of listing requests, one per page.
    pub lists: u64,
    /// Number of deletion requests, including aborted uploads.
    pub deletes: u64,
    /// Number of requests for the size of an object.
    pub heads: u64,
    /// Number of retries, which the other counts include.
    pub retries: u64,
    /// Number of bytes of objects that were received.
    pub bytes_in: u64,
    /// Number of bytes of objects that were sent, including retries.
    pub bytes_out: u64,
}

impl Counts {
    /// Returns the difference between these counts and `earlier` counts of the same store.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            gets: self.gets.saturating_sub(earlier.gets),
            puts: self.puts.saturating_sub(earlier.puts),
            lists: self.lists.saturating_sub(earlier.lists),
            deletes: self.deletes.saturating_sub(earlier.deletes),
            heads: self.heads.saturating_sub(earlier.heads),
            retries: self.retries.saturating_sub(earlier.retries),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
        }
    }

    /// Returns the total number of requests.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.gets + self.puts + self.lists + self.deletes + self.heads
    }
}

/// Kinds of requests, which are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put,
    List,
    Delete,
    Head,
}

/// Thread-safe counter, from which [`Counter::counts`] returns [`Counts`].
#[derive(Debug, Default)]
pub(crate) struct Counter {
    requests: [AtomicU64; 5],
    retries: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Counter {
    pub(crate) fn request(&self, kind: Kind) {
        self.requests[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "aws")]
    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn came(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn went(&self, bytes: u64) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let of = |kind: Kind| self.requests[kind as usize].load(Ordering::Relaxed);
        Counts {
            gets: of(Kind::Get),
            puts: of(Kind::Put),
            lists: of(Kind::List),
            deletes: of(Kind::Delete),
            heads: of(Kind::Head),
            retries: self.retries.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// Checks a byte range. Returns an error if it is inverted, and `None` if it is empty, so that no
/// request is necessary.
pub(crate) fn check_range(key: &Key, range: &Range<u64>) -> Result<Option<()>> {
    if range.start > range.end {
        return Err(range_error(key, range, "the end of the range is before its start".into()));
    }
    Ok((range.start < range.end).then_some(()))
}

/// Returns the part of `range` that is within an object of `len` bytes. Returns an error if the
/// range starts at or after the end.
pub(crate) fn cut_range(key: &Key, range: &Range<u64>, len: u64) -> Result<Range<u64>> {
    if range.start >= len {
        return Err(range_error(key, range, format!("the object has {len} bytes")));
    }
    Ok(range.start..range.end.min(len))
}

pub(crate) fn range_error(key: &Key, range: &Range<u64>, reason: String) -> Error {
    Error::Range { key: key.to_string(), range: range.clone(), reason }
}

pub(crate) fn check_size(key: &Key, found: u64, allowed: u64) -> Result<()> {
    if found > allowed {
        return Err(Error::TooLarge { what: format!("object {key}"), found, allowed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_differences() {
        let counter = Counter::default();
        counter.request(Kind::Get);
        counter.came(10);
        let before = counter.counts();
        counter.request(Kind::Get);
        counter.request(Kind::List);
        counter.retry();
        counter.came(5);
        counter.went(7);
        let added = counter.counts().since(&before);
        let expected =
            Counts { gets: 1, lists: 1, retries: 1, bytes_in: 5, bytes_out: 7, ..Counts::default() };
        assert_eq!(added, expected);
        assert_eq!(counter.counts().requests(), 3);
    }

    #[test]
    fn ranges_are_cut_or_refused() {
        let key = Key::new("k").unwrap();
        #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
        let inverted = 5..4;
        assert!(check_range(&key, &inverted).is_err());
        assert_eq!(check_range(&key, &(4..4)).unwrap(), None);
        assert_eq!(check_range(&key, &(4..5)).unwrap(), Some(()));
        assert_eq!(cut_range(&key, &(4..u64::MAX), 9).unwrap(), 4..9);
        assert!(cut_range(&key, &(9..10), 9).is_err());
        assert!(cut_range(&key, &(0..1), 0).is_err());
    }
}
