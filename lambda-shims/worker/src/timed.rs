//! Object store whose operations have time limits.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_transport::{Condition, Counts, Key, Pipeline, Store, Stored, read_ranges};

use crate::error::{Error, Result};

/// Object store with time limits, or none.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Maximum time of one operation, in addition to the time for its bytes.
    pub(crate) limit: Duration,
}

/// Minimum bandwidth of the store, in bytes per second, from which the time for the bytes is
/// computed.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

impl Timed {
    fn limit_for(&self, bytes: u64) -> Duration {
        self.limit + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S)
    }

    fn store(&self, key: &Key) -> Result<&dyn Store> {
        let reason = "the function has no store: ECITON_BUCKET is not set".to_owned();
        self.store.as_deref().ok_or_else(|| Error::Key { key: key.to_string(), reason })
    }

    /// Reads the bytes of an object. There are fewer if the object ends before the range does.
    pub(crate) async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        let limit = self.limit_for(range.as_ref().map_or(0, |r| r.end.saturating_sub(r.start)));
        self.within(limit, "reading", key, self.store(key)?.get(key, range)).await
    }

    /// Reads a range in order, in pieces as they arrive. Each request is sent before the bytes of
    /// the previous one have all arrived.
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

    /// Writes an object that must not exist.
    pub(crate) async fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Stored> {
        let limit = self.limit_for(bytes.len() as u64);
        self.within(limit, "writing", key, self.store(key)?.put(key, bytes, Condition::IfAbsent)).await
    }

    /// Returns the length of an object, in bytes.
    pub(crate) async fn size(&self, key: &Key) -> Result<u64> {
        self.within(self.limit, "measuring", key, self.store(key)?.size(key)).await
    }

    /// Returns the counts of requests to the store so far.
    pub(crate) fn counts(&self) -> Counts {
        self.store.as_ref().map(|s| s.counts()).unwrap_or_default()
    }

    /// Returns true if there is no store.
    pub(crate) fn is_none(&self) -> bool {
        self.store.is_none()
    }

    /// Runs `operation`, and returns an error if it exceeds its time limit.
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
