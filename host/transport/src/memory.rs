//! Object store in memory, for tests within one process.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::ops::{Bound, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{Key, check_prefix};
use crate::store::{
    Condition, Counter, Counts, Kind, MAX_OBJECT_BYTES, Pending, Sink, Store, Stored, check_range,
    check_size, cut_range,
};

/// Object store in memory, for tests in one process. Its total size is limited.
#[derive(Debug)]
pub struct MemoryStore {
    objects: Mutex<Objects>,
    counter: Counter,
    max_object_bytes: u64,
    max_bytes: u64,
}

#[derive(Debug, Default)]
struct Objects {
    by_key: BTreeMap<Key, Bytes>,
    bytes: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates a store whose total size is limited to [`MAX_OBJECT_BYTES`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(MAX_OBJECT_BYTES, MAX_OBJECT_BYTES)
    }

    /// Creates a store that refuses objects larger than `max_object_bytes` bytes. The store refuses
    /// writes that would increase its total size to more than `max_bytes` bytes.
    #[must_use]
    pub fn with_limits(max_object_bytes: u64, max_bytes: u64) -> Self {
        Self { objects: Mutex::default(), counter: Counter::default(), max_object_bytes, max_bytes }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, operation: &'static str, key: &Key) -> Result<Bytes> {
        let found = self.objects().by_key.get(key).cloned();
        found.ok_or_else(|| Error::NotFound { operation, key: key.to_string() })
    }

    fn get_now(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        if let Some(range) = &range
            && check_range(key, range)?.is_none()
        {
            return Ok(Bytes::new());
        }
        self.counter.request(Kind::Get);
        let bytes = self.find("get", key)?;
        let bytes = match range {
            None => bytes,
            Some(range) => {
                let cut = cut_range(key, &range, bytes.len() as u64)?;
                // The range is within the length of a slice in memory.
                bytes.slice(cut.start as usize..cut.end as usize)
            }
        };
        self.counter.came(bytes.len());
        Ok(bytes)
    }

    fn put_now(&self, key: &Key, bytes: Bytes, condition: Condition) -> Result<Stored> {
        let len = bytes.len() as u64;
        check_size(key, len, self.max_object_bytes)?;
        self.counter.request(Kind::Put);
        self.counter.went(len);
        let mut objects = self.objects();
        let old = objects.by_key.get(key).map(|old| old.len() as u64);
        if condition == Condition::IfAbsent && old.is_some() {
            return Ok(Stored::Exists);
        }
        let all = objects.bytes - old.unwrap_or(0) + len;
        if all > self.max_bytes {
            return Err(Error::TooLarge { what: "the store".into(), found: all, allowed: self.max_bytes });
        }
        objects.bytes = all;
        objects.by_key.insert(key.clone(), bytes);
        Ok(Stored::Written)
    }

    fn list_now(&self, prefix: &str, limit: usize) -> Result<Vec<(Key, u64)>> {
        check_prefix(prefix)?;
        self.counter.request(Kind::List);
        let objects = self.objects();
        Ok(objects
            .by_key
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix))
            .take(limit)
            .map(|(key, bytes)| (key.clone(), bytes.len() as u64))
            .collect())
    }
}

/// Returns a future that is already complete with `result`.
fn done<'a, T: Send + 'a>(result: Result<T>) -> Pending<'a, T> {
    let ready: Ready<Result<T>> = ready(result);
    Box::pin(ready)
}

impl Store for MemoryStore {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        range: Option<Range<u64>>,
        sink: &'a mut Sink<'_>,
    ) -> Pending<'a, u64> {
        done(self.get_now(key, range).and_then(|bytes| {
            let len = bytes.len() as u64;
            if len > 0 {
                sink(bytes)?;
            }
            Ok(len)
        }))
    }

    fn get<'a>(&'a self, key: &'a Key, range: Option<Range<u64>>) -> Pending<'a, Bytes> {
        done(self.get_now(key, range))
    }

    fn put<'a>(&'a self, key: &'a Key, bytes: Bytes, condition: Condition) -> Pending<'a, Stored> {
        done(self.put_now(key, bytes, condition))
    }

    fn delete<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, ()> {
        if !keys.is_empty() {
            self.counter.request(Kind::Delete);
        }
        let mut objects = self.objects();
        for key in keys {
            if let Some(old) = objects.by_key.remove(key) {
                objects.bytes -= old.len() as u64;
            }
        }
        done(Ok(()))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> Pending<'a, Vec<(Key, u64)>> {
        done(self.list_now(prefix, limit))
    }

    fn size<'a>(&'a self, key: &'a Key) -> Pending<'a, u64> {
        self.counter.request(Kind::Head);
        done(self.find("size", key).map(|bytes| bytes.len() as u64))
    }

    fn counts(&self) -> Counts {
        self.counter.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_whole_store_is_limited_and_replacing_counts_once() {
        let store = MemoryStore::with_limits(10, 15);
        let (a, b) = (Key::new("a").unwrap(), Key::new("b").unwrap());
        let ten = Bytes::from_static(&[0; 10]);
        store.put(&a, ten.clone(), Condition::Always).await.unwrap();
        store.put(&a, ten.clone(), Condition::Always).await.unwrap();
        let full = store.put(&b, ten.slice(..6), Condition::Always).await;
        assert!(matches!(full, Err(Error::TooLarge { found: 16, allowed: 15, .. })));
        store.put(&b, ten.slice(..5), Condition::Always).await.unwrap();
        store.delete(&[a]).await.unwrap();
        store.put(&b, ten, Condition::Always).await.unwrap();
    }
}
