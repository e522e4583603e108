//! Buckets that are accessed with the S3 client of AWS.

use std::ops::Range;
use std::sync::Arc;

use eciton_transport::fetch::{Pipeline, read_ranges};
use eciton_transport::{Condition, Counts, Credentials, Key, S3Settings, S3Store, Store, Stored};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Address, Fault};
use crate::aws;
use crate::error::{Result, at_store};
use crate::runtime::runtime;

/// Maximum number of requests in flight at the same time.
const AT_ONCE: usize = 16;
/// Requests of [`Bucket::read`]. A request of S3 fills only a part of a fast link, so that several
/// are in flight.
const AHEAD: Pipeline = Pipeline { block_bytes: 8 << 20, ahead_bytes: 64 << 20 };

/// Objects under a key prefix of an S3-compatible bucket, with a blocking interface.
#[derive(Debug)]
pub struct Bucket {
    store: Arc<S3Store>,
    prefix: String,
    runtime: Runtime,
}

impl Bucket {
    /// Creates a client with credentials from the default AWS provider chain. Makes no request.
    ///
    /// Returns an [`Error`](crate::Error) if the URL is not valid, if no region is known, or if the
    /// S3 client rejects a setting.
    pub fn open(address: &Address) -> Result<Self> {
        let (bucket, prefix) = address.parts()?;
        let runtime = runtime(2)?;
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let config = runtime.block_on(aws::sdk(address.region.as_deref(), None))?;
        let region = config.region().map(ToString::to_string).unwrap_or_default();
        let mut settings = S3Settings::new(bucket, region);
        let given = address.endpoint.clone().or_else(|| variable("AWS_ENDPOINT_URL_S3"));
        settings.endpoint = given.or_else(|| config.endpoint_url().map(str::to_owned));
        if let Some(provider) = config.credentials_provider() {
            settings.credentials = Credentials::Provider(provider);
        }
        let store = S3Store::new(settings).map_err(at_store(format!("open {}", address.url)))?;
        Ok(Self { store: Arc::new(store), prefix, runtime })
    }

    /// Reads the object `key`, whose size may be at most `limit` bytes.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the object does not exist, if it is larger than `limit`, or if the
    /// store fails.
    pub fn get(&self, key: &str, limit: u64) -> Result<Vec<u8>, Fault> {
        let absent = || Fault { text: format!("object `{key}` does not exist"), is_retryable: false };
        self.find(key, limit)?.ok_or_else(absent)
    }

    /// Reads the object `key`, whose size may be at most `limit` bytes. Returns `None` if it does
    /// not exist.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the object is larger than `limit`, or if the store fails.
    pub fn find(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>, Fault> {
        let key = self.key(key)?;
        self.runtime.block_on(find(self.store.clone(), key, limit))
    }

    /// Returns the size of the object `key` in bytes. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the store fails.
    pub fn size(&self, key: &str) -> Result<Option<u64>, Fault> {
        let key = self.key(key)?;
        match self.runtime.block_on(self.store.size(&key)) {
            Ok(size) => Ok(Some(size)),
            Err(error) if error.may_be_absent() => Ok(None),
            Err(error) => Err(fault("look up", &key)(error)),
        }
    }

    /// Reads a range of the object `key`, and passes its bytes to `sink` in order. An error of the
    /// sink ends the transfer.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the object does not contain the range, or if the store or the sink
    /// fails.
    pub fn read(
        &self,
        key: &str,
        range: Range<u64>,
        sink: &mut (dyn FnMut(&[u8]) -> std::io::Result<()> + Send),
    ) -> Result<(), Fault> {
        let key = self.key(key)?;
        let store: Arc<dyn Store> = self.store.clone();
        let mut take = |bytes: bytes::Bytes| {
            let path = key.as_str().into();
            sink(&bytes).map_err(|source| eciton_transport::Error::Io { operation: "copy", path, source })
        };
        let read = read_ranges(&store, &key, range, AHEAD, &mut take);
        self.runtime.block_on(read).map(drop).map_err(fault("read", &key))
    }

    /// Reads several objects of at most `limit` bytes each, up to [`AT_ONCE`] at the same time.
    /// Calls `report` for each with the index of its key. The result is `None` for an object that
    /// does not exist.
    pub fn find_each(
        &self,
        keys: &[String],
        limit: u64,
        report: &mut dyn FnMut(usize, Result<Option<Vec<u8>>, Fault>),
    ) {
        let mut waiting = keys.iter().enumerate();
        self.runtime.block_on(async {
            let mut flying = JoinSet::new();
            loop {
                while flying.len() < AT_ONCE
                    && let Some((at, key)) = waiting.next()
                {
                    match self.key(key) {
                        Err(fault) => report(at, Err(fault)),
                        Ok(key) => {
                            let store = self.store.clone();
                            flying.spawn(async move { (at, find(store, key, limit).await) });
                        }
                    }
                }
                match flying.join_next().await {
                    Some(Ok((at, found))) => report(at, found),
                    Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                    None => return,
                }
            }
        });
    }

    /// Returns true if the object `key` exists.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the store fails.
    pub fn has(&self, key: &str) -> Result<bool, Fault> {
        let key = self.key(key)?;
        self.runtime.block_on(has(&self.store, &key))
    }

    /// Writes the object `key`. If `only_absent` is true, an existing object is not replaced.
    /// Returns true if the object was written.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the store fails.
    pub fn put(&self, key: &str, bytes: Vec<u8>, only_absent: bool) -> Result<bool, Fault> {
        let key = self.key(key)?;
        let condition = if only_absent { Condition::IfAbsent } else { Condition::Always };
        let put = self.store.put(&key, bytes.into(), condition);
        let stored = self.runtime.block_on(put).map_err(fault("write", &key))?;
        Ok(stored == Stored::Written)
    }

    /// Deletes the object `key`, if it exists.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the store fails.
    pub fn delete(&self, key: &str) -> Result<(), Fault> {
        let key = self.key(key)?;
        self.runtime.block_on(self.store.delete(std::slice::from_ref(&key))).map_err(fault("delete", &key))
    }

    /// Writes those objects that do not exist yet, up to [`AT_ONCE`] at the same time. A HEAD
    /// request before each PUT avoids the upload of an object that exists.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the store fails.
    pub fn put_absent(&self, objects: Vec<(String, Vec<u8>)>) -> Result<(), Fault> {
        let mut waiting = objects.into_iter();
        self.runtime.block_on(async {
            let mut flying: JoinSet<Result<(), Fault>> = JoinSet::new();
            loop {
                while flying.len() < AT_ONCE
                    && let Some((key, bytes)) = waiting.next()
                {
                    let (key, store) = (self.key(&key)?, self.store.clone());
                    flying.spawn(async move {
                        if has(&store, &key).await? {
                            return Ok(());
                        }
                        let put = store.put(&key, bytes.into(), Condition::IfAbsent).await;
                        put.map(drop).map_err(fault("write", &key))
                    });
                }
                match flying.join_next().await {
                    Some(Ok(done)) => done?,
                    Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                    None => return Ok(()),
                }
            }
        })
    }

    /// Returns the numbers of requests and bytes so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }

    /// Adds the prefix of this bucket to `key`.
    fn key(&self, key: &str) -> Result<Key, Fault> {
        let name = format!("{}{key}", self.prefix);
        Key::new(name).map_err(|error| Fault { text: error.to_string(), is_retryable: false })
    }
}

/// Returns a function that converts a store error to a [`Fault`]. `doing` and `key` describe the
/// operation that failed.
fn fault<'a>(doing: &'a str, key: &'a Key) -> impl Fn(eciton_transport::Error) -> Fault + 'a {
    move |error| Fault {
        text: format!("cannot {doing} object `{key}`: {error}"),
        is_retryable: error.is_retryable(),
    }
}

async fn has(store: &S3Store, key: &Key) -> Result<bool, Fault> {
    match store.size(key).await {
        Ok(_) => Ok(true),
        Err(error) if error.may_be_absent() => Ok(false),
        Err(error) => Err(fault("look up", key)(error)),
    }
}

async fn find(store: Arc<S3Store>, key: Key, limit: u64) -> Result<Option<Vec<u8>>, Fault> {
    let size = match store.size(&key).await {
        Ok(size) => size,
        // Credentials that may not list a bucket get the same answer for absent and for forbidden
        // objects. The request for the object itself tells them apart no better, so both count as
        // absent.
        Err(error) if error.may_be_absent() => return Ok(None),
        Err(error) => return Err(fault("look up", &key)(error)),
    };
    if size > limit {
        let text = format!("object `{key}` has {size} bytes, but the limit is {limit} bytes");
        return Err(Fault { text, is_retryable: false });
    }
    store.get(&key, None).await.map(|bytes| Some(bytes.into())).map_err(fault("read", &key))
}
