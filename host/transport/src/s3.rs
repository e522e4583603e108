//! Object store in a bucket of S3 or of a compatible service.
//!
//! Design decisions:
//! * **No trailing checksums.** By default the SDK would send every body in aws-chunked pieces,
//!   followed by a CRC. Frames already have a CRC per part, which covers the whole way from tensor
//!   to tensor, and TLS protects the connection. So checksums are computed only where the protocol
//!   requires one (removing many objects). For the same reason, bodies are not hashed for the
//!   signature. On a small function, hashing 8 MiB takes more time than sending it.
//! * **No stalled-stream protection.** It measures throughput and gives up on streams that pause. A
//!   function's link is limited by a token bucket, and pauses are normal. This store has other
//!   limits, which stop a dead link but not a slow one. A body that arrives must not be without a
//!   single byte for [`S3Settings::idle_timeout`]. For a body that is sent, and for whole
//!   operations, time limits grow with the size at [`S3Settings::slowest_bytes_per_s`].
//! * **Retries** are the SDK's standard ones. The pause is random, up to a bound that doubles from
//!   50 ms to 2 s. There are at most [`S3Settings::max_attempts`] attempts, and a budget that many
//!   consecutive failures use up. The SDK's *adaptive* mode is not used. It knows a rate only after
//!   many requests. Until then one `SlowDown` delays the next attempt for ten seconds (5 tokens at
//!   0.5 per second). All clients of a process would also share its state, while each store has its
//!   own budget. The SDK does not retry a body that breaks off. [`S3Store`] continues from the byte
//!   where the body broke off, with the object's ETag, so that two versions are never mixed.
//! * **Large writes** are sent in parts. The condition [`Condition::IfAbsent`] is checked when the
//!   object appears, on completion.
//! * **One behaviour version** of the SDK is pinned, so that an update does not change behaviour.
//! * **`AccessDenied` may mean not found.** S3 returns it for absent objects to roles without
//!   `s3:ListBucket`. The error is passed on unchanged.

mod count;
mod download;
mod failure;
pub mod http;
mod settings;
mod upload;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    StalledStreamProtectionConfig,
};
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::key::{Key, check_prefix};
use crate::store::{Condition, Counter, Counts, Pending, Sink, Store, Stored, check_size};

pub use settings::{Credentials, S3Settings, Secret};

/// Maximum number of keys in one page of a listing and in one deletion request. S3 allows no more.
const PAGE: usize = 1000;

/// Maximum number of pages that a listing reads, which corresponds to a million keys.
const MAX_PAGES: usize = 1000;

/// Upper bound on the random pause before another attempt.
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Upper bound on the random pause before the second attempt. It doubles with each further attempt.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Object store in a bucket of S3 or of a compatible service.
#[derive(Debug)]
pub struct S3Store {
    inner: Arc<Inner>,
}

/// State that an [`S3Store`] shares with its background tasks.
#[derive(Debug)]
struct Inner {
    client: Client,
    settings: S3Settings,
    counter: Arc<Counter>,
}

impl S3Store {
    /// Creates the client of a bucket, and makes no request. Reads the root certificates of the
    /// system unless the endpoint is plain HTTP. A process should create one store and reuse it,
    /// because the store holds the connections.
    pub fn new(settings: S3Settings) -> Result<Self> {
        settings.check()?;
        let counter = Arc::new(Counter::default());
        let plain = settings.endpoint.as_deref().is_some_and(http::is_plain);
        let retries = RetryConfig::standard()
            .with_max_attempts(settings.max_attempts)
            .with_initial_backoff(FIRST_BACKOFF)
            .with_max_backoff(MAX_BACKOFF);
        let mut config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(settings.region.clone()))
            .credentials_provider(settings.credentials.provider()?)
            .http_client(http::client(plain)?)
            .retry_config(retries)
            .retry_partition(RetryPartition::custom("eciton").build())
            .timeout_config(timeouts(&settings, 0))
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .interceptor(count::Counting(counter.clone()));
        if let Some(endpoint) = &settings.endpoint {
            // Buckets as host names require a name service entry for each. Compatible services
            // usually have none.
            config = config.endpoint_url(endpoint).force_path_style(true);
        }
        let client = Client::from_conf(config.build());
        Ok(Self { inner: Arc::new(Inner { client, settings, counter }) })
    }

    /// Returns the name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.inner.settings.bucket
    }
}

/// Returns the time limits of a request that transfers `bytes` bytes.
fn timeouts(settings: &S3Settings, bytes: u64) -> TimeoutConfig {
    let body = settings.time_for(bytes);
    TimeoutConfig::builder()
        .connect_timeout(settings.connect_timeout)
        .operation_attempt_timeout(settings.attempt_timeout + body)
        .operation_timeout(settings.operation_timeout + body)
        .build()
}

impl Inner {
    async fn delete(&self, keys: &[Key]) -> Result<()> {
        if let [key] = keys {
            let request = self.client.delete_object().bucket(&self.settings.bucket).key(key.as_str());
            return match request.send().await {
                Ok(_) => Ok(()),
                Err(error) => match failure::from_sdk("delete", key.as_str(), error) {
                    // S3 does not report this, but other services do.
                    Error::NotFound { .. } => Ok(()),
                    error => Err(error),
                },
            };
        }
        for page in keys.chunks(PAGE) {
            self.delete_page(page).await?;
        }
        Ok(())
    }

    async fn delete_page(&self, keys: &[Key]) -> Result<()> {
        let Some(first) = keys.first() else { return Ok(()) };
        let named = |key: &Key| ObjectIdentifier::builder().key(key.as_str()).build();
        let objects: std::result::Result<Vec<_>, _> = keys.iter().map(named).collect();
        let delete =
            objects.and_then(|objects| Delete::builder().set_objects(Some(objects)).quiet(true).build());
        let delete = delete.map_err(|error| failure::ours("delete", first.as_str(), "Request", &error))?;
        let request = self.client.delete_objects().bucket(&self.settings.bucket).delete(delete);
        let answer =
            request.send().await.map_err(|error| failure::from_sdk("delete", first.as_str(), error))?;
        match answer.errors().iter().find(|error| error.code() != Some("NoSuchKey")) {
            None => Ok(()),
            Some(error) => Err(failure::coded(
                "delete",
                error.key().unwrap_or(first.as_str()),
                error.code(),
                error.message(),
                None,
            )),
        }
    }

    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<(Key, u64)>> {
        check_prefix(prefix)?;
        let mut found = Vec::new();
        let mut token = None;
        for _ in 0..MAX_PAGES {
            let wanted = (limit - found.len()).min(PAGE);
            if wanted == 0 {
                return Ok(found);
            }
            let request = self.client.list_objects_v2().bucket(&self.settings.bucket).prefix(prefix);
            // The number is at most one page, so it fits.
            let request = request.max_keys(wanted as i32).set_continuation_token(token);
            let page = request.send().await.map_err(|error| failure::from_sdk("list", prefix, error))?;
            for object in page.contents() {
                let Some(Ok(key)) = object.key().map(Key::new) else { continue };
                if key.as_str().starts_with(prefix) && found.len() < limit {
                    found.push((key, object.size().and_then(|size| size.try_into().ok()).unwrap_or(0)));
                }
            }
            token = page.next_continuation_token().map(str::to_owned);
            if token.is_none() || page.is_truncated() != Some(true) {
                return Ok(found);
            }
        }
        Err(failure::ours(
            "list",
            prefix,
            "Endless",
            &format!("the list does not end after {MAX_PAGES} pages"),
        ))
    }

    async fn size(&self, key: &Key) -> Result<u64> {
        let request = self.client.head_object().bucket(&self.settings.bucket).key(key.as_str());
        let answer = request.send().await.map_err(|error| failure::from_sdk("size", key.as_str(), error))?;
        let len = answer.content_length().and_then(|len| u64::try_from(len).ok());
        len.ok_or_else(|| failure::ours("size", key.as_str(), "NoLength", &"the response has no length"))
    }
}

impl Store for S3Store {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        range: Option<Range<u64>>,
        sink: &'a mut Sink<'_>,
    ) -> Pending<'a, u64> {
        Box::pin(self.inner.download(key, range, download::Taker::Sink(sink)))
    }

    fn get<'a>(&'a self, key: &'a Key, range: Option<Range<u64>>) -> Pending<'a, Bytes> {
        Box::pin(self.inner.get(key, range))
    }

    fn put<'a>(&'a self, key: &'a Key, bytes: Bytes, condition: Condition) -> Pending<'a, Stored> {
        Box::pin(async move {
            check_size(key, bytes.len() as u64, self.inner.settings.max_object_bytes)?;
            self.inner.put(key, bytes, condition).await
        })
    }

    fn delete<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, ()> {
        Box::pin(self.inner.delete(keys))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> Pending<'a, Vec<(Key, u64)>> {
        Box::pin(self.inner.list(prefix, limit))
    }

    fn size<'a>(&'a self, key: &'a Key) -> Pending<'a, u64> {
        Box::pin(self.inner.size(key))
    }

    fn counts(&self) -> Counts {
        self.inner.counter.counts()
    }
}

/// Waits before attempt number `tries` + 1. The pause is random, up to a bound that doubles with
/// each attempt. Clients that failed together therefore do not retry together.
async fn pause(tries: u32) {
    use std::hash::{BuildHasher as _, Hasher as _};
    let bound = FIRST_BACKOFF.saturating_mul(1 << tries.min(8)).min(MAX_BACKOFF);
    // The hash seeds of the standard library are random, so no further generator is needed.
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    tokio::time::sleep(bound.mul_f64(random as f64 / u64::MAX as f64)).await;
}
