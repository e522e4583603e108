//! Settings of an S3 store: bucket, credentials and limits.

use std::time::Duration;

use aws_credential_types::Credentials as AwsCredentials;
use aws_credential_types::provider::SharedCredentialsProvider;

use crate::error::{Error, Result};
use crate::store::{MAX_OBJECT_BYTES, MULTIPART_BYTES};

const MIB: u64 = 1 << 20;

/// Minimum size of a part in bytes, except for the last part. S3 refuses smaller parts.
const MIN_PART_BYTES: u64 = 5 * MIB;

/// Maximum size of a part in bytes. S3 refuses larger parts.
const MAX_PART_BYTES: u64 = 5 << 30;

/// Settings of an S3 store: the bucket, credentials, part sizes and time limits.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// Name of the bucket.
    pub bucket: String,
    /// AWS region of the bucket, which is part of request signatures.
    pub region: String,
    /// URL of a compatible service or a private endpoint, which starts with `http://` or
    /// `https://`. If `None`, the URL of AWS is used.
    pub endpoint: Option<String>,
    /// Credentials with which requests are signed.
    pub credentials: Credentials,
    /// Size of the parts of an upload in bytes, from 5 MiB to 5 GiB. Smaller objects are written in
    /// a single request.
    pub multipart_bytes: u64,
    /// Maximum number of parts of one upload that are in flight at the same time, from 1 to 16.
    pub parts_at_once: usize,
    /// Maximum size of an object that may be read or written, in bytes. It may not exceed 5 GiB.
    pub max_object_bytes: u64,
    /// Maximum number of attempts at a request, from 1 to 10. It also limits how often the download
    /// of an object continues after an early end.
    pub max_attempts: u32,
    /// Maximum time to establish a connection.
    pub connect_timeout: Duration,
    /// Maximum time from a request to the headers of its response. The time for the body is added.
    pub attempt_timeout: Duration,
    /// Maximum time for an operation with all its attempts and pauses. The time for the bytes is
    /// added.
    pub operation_timeout: Duration,
    /// Maximum time without a byte while a body is received.
    pub idle_timeout: Duration,
    /// Minimum tolerated bandwidth in bytes per second, at least 1. The time limits increase by the
    /// time that the bytes take at this rate.
    pub slowest_bytes_per_s: u64,
}

/// Source of the credentials with which requests are signed.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// The environment variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, if set,
    /// `AWS_SESSION_TOKEN`. They are read when the store is created. In a function, they are valid
    /// for the lifetime of the process.
    #[default]
    Environment,
    /// Fixed credentials.
    Keys {
        /// Access key ID.
        access_key_id: String,
        /// Secret access key.
        secret_access_key: Secret,
        /// Session token, which temporary credentials need.
        session_token: Option<Secret>,
    },
    /// Provider that renews its credentials when they expire, for instance for profiles and single
    /// sign-on.
    Provider(SharedCredentialsProvider),
}

/// Text that `Debug` does not print, for instance a secret key.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text` so that `Debug` does not print it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Credentials {
    /// Creates credentials from a fixed access key.
    pub fn keys(access_key_id: impl Into<String>, secret_access_key: impl Into<String>) -> Self {
        Self::Keys {
            access_key_id: access_key_id.into(),
            secret_access_key: Secret::new(secret_access_key),
            session_token: None,
        }
    }

    pub(super) fn provider(&self) -> Result<SharedCredentialsProvider> {
        let credentials = match self {
            Self::Provider(provider) => return Ok(provider.clone()),
            Self::Keys { access_key_id, secret_access_key, session_token } => AwsCredentials::from_keys(
                access_key_id,
                &secret_access_key.0,
                session_token.as_ref().map(|token| token.0.clone()),
            ),
            Self::Environment => AwsCredentials::from_keys(
                required("AWS_ACCESS_KEY_ID", &environment)?,
                required("AWS_SECRET_ACCESS_KEY", &environment)?,
                environment("AWS_SESSION_TOKEN"),
            ),
        };
        Ok(SharedCredentialsProvider::new(credentials))
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn required(name: &'static str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String> {
    let reason = || "this environment variable is not set, but access to the bucket requires it".to_owned();
    lookup(name).ok_or_else(|| Error::Settings { name, reason: reason() })
}

impl S3Settings {
    /// Creates settings for a bucket at AWS. Credentials come from the environment, and the limits
    /// are suitable for a function.
    #[must_use]
    pub fn new(bucket: impl Into<String>, region: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            region: region.into(),
            endpoint: None,
            credentials: Credentials::Environment,
            multipart_bytes: MULTIPART_BYTES,
            parts_at_once: 4,
            max_object_bytes: MAX_OBJECT_BYTES,
            max_attempts: 5,
            connect_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(20),
            slowest_bytes_per_s: 16 << 10,
        }
    }

    /// Creates settings with the region in `AWS_REGION` or `AWS_DEFAULT_REGION`, and the endpoint
    /// in `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`.
    pub fn from_environment(bucket: impl Into<String>) -> Result<Self> {
        Self::from_lookup(bucket, &environment)
    }

    fn from_lookup(bucket: impl Into<String>, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let region =
            required("AWS_REGION", lookup).or_else(|missing| lookup("AWS_DEFAULT_REGION").ok_or(missing))?;
        let endpoint = lookup("AWS_ENDPOINT_URL_S3").or_else(|| lookup("AWS_ENDPOINT_URL"));
        Ok(Self { endpoint, ..Self::new(bucket, region) })
    }

    /// Returns the time to transfer `bytes` bytes at the minimum tolerated bandwidth.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_secs(bytes / self.slowest_bytes_per_s.max(1))
    }

    pub(super) fn check(&self) -> Result<()> {
        let refused = |name, reason: String| Err(Error::Settings { name, reason });
        if self.bucket.is_empty() || self.bucket.contains('/') || self.bucket.len() > 255 {
            return refused("bucket", format!("{:?} is not a valid bucket name", self.bucket));
        }
        if self.region.is_empty() {
            return refused("region", "the region is empty".into());
        }
        let scheme = |url: &String| super::http::is_plain(url) || url.starts_with("https://");
        if let Some(endpoint) = self.endpoint.as_ref().filter(|url| !scheme(url)) {
            return refused("endpoint", format!("{endpoint:?} begins with neither http:// nor https://"));
        }
        if !(MIN_PART_BYTES..=MAX_PART_BYTES).contains(&self.multipart_bytes) {
            let found = self.multipart_bytes;
            return refused(
                "multipart_bytes",
                format!("found {found}, expected {MIN_PART_BYTES} to {MAX_PART_BYTES}"),
            );
        }
        if !(1..=16).contains(&self.parts_at_once) {
            return refused("parts_at_once", format!("found {}, expected 1 to 16", self.parts_at_once));
        }
        if self.max_object_bytes > MAX_OBJECT_BYTES {
            let found = self.max_object_bytes;
            return refused(
                "max_object_bytes",
                format!("found {found}, but the maximum is {MAX_OBJECT_BYTES}"),
            );
        }
        if !(1..=10).contains(&self.max_attempts) {
            return refused("max_attempts", format!("found {}, expected 1 to 10", self.max_attempts));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_region_and_endpoint() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let lookup = with(&[("AWS_DEFAULT_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL", "http://a")]);
        let settings = S3Settings::from_lookup("b", &lookup).unwrap();
        assert_eq!((settings.region.as_str(), settings.endpoint.as_deref()), ("eu-west-1", Some("http://a")));
        let lookup = with(&[
            ("AWS_REGION", "us-east-1"),
            ("AWS_DEFAULT_REGION", "x"),
            ("AWS_ENDPOINT_URL", "http://a"),
            ("AWS_ENDPOINT_URL_S3", "http://b"),
        ]);
        let settings = S3Settings::from_lookup("b", &lookup).unwrap();
        assert_eq!((settings.region.as_str(), settings.endpoint.as_deref()), ("us-east-1", Some("http://b")));
        let missing = S3Settings::from_lookup("b", &with(&[])).unwrap_err();
        assert!(matches!(missing, Error::Settings { name: "AWS_REGION", .. }), "{missing}");
    }

    #[test]
    fn limits_are_checked_at_both_ends() {
        let good = || S3Settings::new("bucket", "us-east-1");
        good().check().unwrap();
        let changes: [fn(&mut S3Settings); 13] = [
            |s| s.bucket.clear(),
            |s| s.bucket = "a/b".into(),
            |s| s.region.clear(),
            |s| s.endpoint = Some("ftp://host".into()),
            |s| s.endpoint = Some(String::new()),
            |s| s.multipart_bytes = MIN_PART_BYTES - 1,
            |s| s.multipart_bytes = MAX_PART_BYTES + 1,
            |s| s.parts_at_once = 0,
            |s| s.parts_at_once = 17,
            |s| s.max_object_bytes = MAX_OBJECT_BYTES + 1,
            |s| s.max_attempts = 0,
            |s| s.max_attempts = 11,
            |s| s.bucket = "b".repeat(256),
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut settings = good();
            change(&mut settings);
            assert!(settings.check().is_err(), "change {at}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let mut settings = S3Settings::new("bucket", "us-east-1");
        settings.credentials = Credentials::keys("the-name", "the-secret");
        let shown = format!("{settings:?}");
        assert!(shown.contains("the-name") && !shown.contains("the-secret"), "{shown}");
    }

    #[test]
    fn time_grows_with_bytes_and_the_largest_object_has_few_enough_parts() {
        let settings = S3Settings::new("bucket", "us-east-1");
        assert_eq!(settings.time_for(0), Duration::ZERO);
        assert_eq!(settings.time_for(8 << 20), Duration::from_secs(512));
        assert!(MAX_OBJECT_BYTES.div_ceil(MIN_PART_BYTES) <= crate::store::MAX_PARTS);
    }
}
