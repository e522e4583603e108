//! A store that is a bucket: S3 itself, and whatever speaks its protocol.
//!
//! What was decided, and why:
//! * **No trailing checksums.** The SDK would by default send every body in aws-chunked pieces with a
//!   CRC behind it. Frames carry a CRC for each part already, over the whole way from tensor to tensor,
//!   and TLS protects the road; so checksums are computed only where the protocol demands one
//!   (removing many objects). Bodies are not hashed for the signature either, for the same reason:
//!   hashing 8 MiB costs a small function more than sending it.
//! * **No stalled-stream protection.** It measures throughput and gives up on streams that pause. A
//!   function's link is paced by a token bucket and pauses by design. In its place there is one limit
//!   that a slow link cannot reach and a dead one must: [`S3Settings::idle_timeout`] without a single
//!   byte, for bodies that come; for bodies that go, and for everything as a whole, limits that grow
//!   with the bytes at [`S3Settings::slowest_bytes_per_s`].
//! * **Retries** are the SDK's standard ones: full jitter between nothing and a bound that doubles from
//!   50 ms to 2 s, at most [`S3Settings::max_attempts`] tries, and a budget that many failures in a row
//!   use up. Its *adaptive* mode is not used: it knows a rate only after many requests, and until then
//!   one `SlowDown` makes the next try wait for ten seconds (5 tokens at 0.5 a second). Its state
//!   would also be shared by all clients of a process; each store has its own budget.
//!   The SDK does not retry a body that breaks off: [`S3Store`] goes on from the byte where it broke,
//!   with the object's ETag, so that two versions never mix.
//! * **Large writes** go in parts. The condition of [`Condition::IfAbsent`] is checked where the object
//!   appears: at the completion.
//! * **One behaviour version** of the SDK is pinned, so that an update changes nothing unasked.
//! * **`AccessDenied` may mean not found**: S3 says so of absent objects to roles without
//!   `s3:ListBucket`. It stays what the service said.

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

/// Names on one page of a listing, and in one request to remove: what S3 allows.
const PAGE: usize = 1000;

/// Pages after which a listing is given up: a million names.
const MAX_PAGES: usize = 1000;

/// The longest pause before another try.
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The longest pause before the second try; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Objects in a bucket.
#[derive(Debug)]
pub struct S3Store {
    inner: Arc<Inner>,
}

/// State that the tasks of a store share.
#[derive(Debug)]
struct Inner {
    client: Client,
    settings: S3Settings,
    counter: Arc<Counter>,
}

impl S3Store {
    /// Makes the client. Nothing is asked of the service yet; root certificates are read only if the
    /// endpoint is not plain HTTP. Make one store and keep it: it holds the connections.
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
            // Buckets as host names need a name service for each; a stand-in has none.
            config = config.endpoint_url(endpoint).force_path_style(true);
        }
        let client = Client::from_conf(config.build());
        Ok(Self { inner: Arc::new(Inner { client, settings, counter }) })
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.inner.settings.bucket
    }
}

/// The limits on a request that carries `bytes` of body.
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
                Err(error) => match failure::of("delete", key.as_str(), error) {
                    // S3 does not say so, others do.
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
        let answer = request.send().await.map_err(|error| failure::of("delete", first.as_str(), error))?;
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
            // At most a page, so it fits.
            let request = request.max_keys(wanted as i32).set_continuation_token(token);
            let page = request.send().await.map_err(|error| failure::of("list", prefix, error))?;
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
        Err(failure::ours("list", prefix, "Endless", &format!("no end after {MAX_PAGES} pages")))
    }

    async fn size(&self, key: &Key) -> Result<u64> {
        let request = self.client.head_object().bucket(&self.settings.bucket).key(key.as_str());
        let answer = request.send().await.map_err(|error| failure::of("size", key.as_str(), error))?;
        let len = answer.content_length().and_then(|len| u64::try_from(len).ok());
        len.ok_or_else(|| failure::ours("size", key.as_str(), "NoLength", &"the answer has no length"))
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

/// A random pause before try number `tries` + 1: between nothing and a bound that doubles, so that
/// those who failed together do not come back together.
async fn pause(tries: u32) {
    use std::hash::{BuildHasher as _, Hasher as _};
    let bound = FIRST_BACKOFF.saturating_mul(1 << tries.min(8)).min(MAX_BACKOFF);
    // The standard library's hash seeds are random; no generator is needed for a jitter.
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    tokio::time::sleep(bound.mul_f64(random as f64 / u64::MAX as f64)).await;
}
