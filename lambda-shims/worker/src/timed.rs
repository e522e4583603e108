//! Access to the object store with time limits.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_transport::{Condition, Counts, Key, Pipeline, Store, Stored, read_ranges};

use crate::error::{Error, Result};

/// Object store whose operations have time limits. There may be no store, so that all operations
/// fail.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Maximum time for one operation. The time for its bytes at [`SLOWEST_BYTES_PER_S`] is added.
    pub(crate) limit: Duration,
}

/// Minimum tolerated bandwidth of the object store, in bytes per second.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

impl Timed {
    fn limit_for(&self, bytes: u64) -> Duration {
        self.limit + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S)
    }

    fn store(&self, key: &Key) -> Result<&dyn Store> {
        let reason = "the function has no object store, because ECITON_BUCKET is not set".to_owned();
        self.store.as_deref().ok_or_else(|| Error::Key { key: key.to_string(), reason })
    }

    /// Reads an object, or a range of it. Returns fewer bytes if the object ends before the range
    /// does.
    pub(crate) async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        let limit = self.limit_for(range.as_ref().map_or(0, |r| r.end.saturating_sub(r.start)));
        self.within(limit, "reading", key, self.store(key)?.get(key, range)).await
    }

    /// Reads a range of an object, and passes the bytes to `sink` in order as they arrive. Requests
    /// overlap, so that there is no pause between them.
    pub(crate) async fn stream(
        &self,
        key: &Key,
        range: Range<u64>,
        sink: &mut (dyn FnMut(Bytes) -> eciton_transport::Result<()> + Send),
    ) -> Result<()> {
        self.store(key)?;
        let Some(store) = &self.store else { return Ok(()) };
        let limit = self.limit_for(range.end.saturating_sub(range.start));
        let read = read_ranges(store, key, range, Pipeline::default(), sink);
        self.within(limit, "streaming", key, read).await.map(|_| ())
    }

    /// Writes an object unless it exists. Returns whether the object was written.
    pub(crate) async fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Stored> {
        let limit = self.limit_for(bytes.len() as u64);
        self.within(limit, "writing", key, self.store(key)?.put(key, bytes, Condition::IfAbsent)).await
    }

    /// Returns the size of the object `key`, in bytes.
    pub(crate) async fn size(&self, key: &Key) -> Result<u64> {
        self.within(self.limit, "measuring", key, self.store(key)?.size(key)).await
    }

    /// Returns the numbers of requests and bytes so far.
    pub(crate) fn counts(&self) -> Counts {
        self.store.as_ref().map(|s| s.counts()).unwrap_or_default()
    }

    /// Returns true if there is no object store.
    pub(crate) fn is_none(&self) -> bool {
        self.store.is_none()
    }

    /// Runs a store operation, and returns an error if it takes longer than `limit`. `doing` and
    /// `key` describe the operation in errors.
    async fn within<T>(
        &self,
        limit: Duration,
        doing: &'static str,
        key: &Key,
        operation: impl Future<Output = eciton_transport::Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout(limit, operation).await {
            Ok(done) => {
                done.map_err(|source| Error::Store { doing, key: key.to_string(), source: Box::new(source) })
            }
            Err(_) => {
                let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                Err(Error::Slow { doing, key: key.to_string(), limit_ms })
            }
        }
    }
}
