//! Objects under a key prefix of an S3-compatible bucket, with a blocking interface.

#[cfg(feature = "aws")]
mod client;
#[cfg(not(feature = "aws"))]
mod without;

#[cfg(feature = "aws")]
pub use client::Bucket;
#[cfg(not(feature = "aws"))]
pub use without::Bucket;

use eciton_transport::Key;

use crate::error::{Error, Result};

/// Address of objects in a bucket: the bucket with a key prefix, the service, and the region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// URL in the form `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// URL of the S3-compatible service, which starts with `http://` or `https://`. If `None`, the
    /// environment sets it, or else AWS is used.
    pub endpoint: Option<String>,
    /// Region of the bucket. If `None`, the environment or the AWS profile sets it.
    pub region: Option<String>,
}

/// Reason why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    /// Description of the error.
    pub text: String,
    /// True if the same request may succeed later.
    pub is_retryable: bool,
}

impl Address {
    /// Returns the bucket name and the key prefix in the URL. The prefix is empty or ends with a
    /// slash.
    ///
    /// # Errors
    /// Returns [`Error::Choice`] if the URL does not have the form `s3://BUCKET` or
    /// `s3://BUCKET/PREFIX`, or if the prefix is not valid.
    pub fn parts(&self) -> Result<(&str, String)> {
        let refused = |reason: &str| {
            let url = &self.url;
            Error::Choice(format!(
                "{url}: {reason}; write s3://BUCKET or s3://BUCKET/PREFIX, for instance s3://mine/sweeps"
            ))
        };
        let rest =
            self.url.strip_prefix("s3://").ok_or_else(|| refused("the URL does not begin with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refused("the URL has no bucket"));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            return Ok((bucket, String::new()));
        }
        Key::new(prefix).map_err(|error| refused(&error.to_string()))?;
        Ok((bucket, format!("{prefix}/")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_has_a_bucket_and_a_prefix() {
        let of = |url: &str| Address { url: url.to_owned(), ..Address::default() };
        for (url, bucket, prefix) in [
            ("s3://mine", "mine", ""),
            ("s3://mine/", "mine", ""),
            ("s3://mine/a", "mine", "a/"),
            ("s3://mine/a/b/", "mine", "a/b/"),
        ] {
            let address = of(url);
            assert_eq!(address.parts().unwrap(), (bucket, prefix.to_owned()), "{url}");
        }
        for (url, words) in [
            ("mine/a", "does not begin with s3://"),
            ("s3://", "the URL has no bucket"),
            ("s3:///a", "the URL has no bucket"),
            ("s3://mine/A", "object key"),
            ("s3://mine/../b", "object key"),
        ] {
            let text = of(url).parts().unwrap_err().to_string();
            assert!(text.contains(words) && text.contains("s3://BUCKET/PREFIX"), "{url}: {text}");
        }
    }
}
