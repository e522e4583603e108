//! A store whose operations end within a stated time.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_transport::{Condition, Counts, Key, Pipeline, Store, Stored, read_ranges};

use crate::error::{Error, Result};

/// A store with limits on time; also the lack of one.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    pub(crate) store: Option<Arc<dyn Store>>,
    /// One operation, beside the time for its bytes.
    pub(crate) limit: Duration,
}

/// The slowest store that is waited for.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

impl Timed {
    fn limit_for(&self, bytes: u64) -> Duration {
        self.limit + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S)
    }

    fn store(&self, key: &Key) -> Result<&dyn Store> {
        let reason = "the function has no store: ECITON_BUCKET is not set".to_owned();
        self.store.as_deref().ok_or_else(|| Error::Key { key: key.to_string(), reason })
    }

    /// Bytes of an object; fewer where it ends before the range does.
    pub(crate) async fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        let limit = self.limit_for(range.as_ref().map_or(0, |r| r.end.saturating_sub(r.start)));
        self.within(limit, "reading", key, self.store(key)?.get(key, range)).await
    }

    /// Reads a range in order, in pieces as they come, the next request sent before the last one's
    /// bytes are all there.
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

    /// Writes an object that must not be there.
    pub(crate) async fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Stored> {
        let limit = self.limit_for(bytes.len() as u64);
        self.within(limit, "writing", key, self.store(key)?.put(key, bytes, Condition::IfAbsent)).await
    }

    /// An object's length.
    pub(crate) async fn size(&self, key: &Key) -> Result<u64> {
        self.within(self.limit, "measuring", key, self.store(key)?.size(key)).await
    }

    /// What was asked of the store so far.
    pub(crate) fn counts(&self) -> Counts {
        self.store.as_ref().map(|s| s.counts()).unwrap_or_default()
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.store.is_none()
    }

    /// `operation`, or an error when its time has passed.
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
