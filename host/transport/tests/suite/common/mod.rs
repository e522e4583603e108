//! Helpers for the test suites of all stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

pub mod ministack;
pub mod script;
pub mod suite;

use std::sync::Arc;

use bytes::Bytes;
use eciton_transport::{Credentials, Key, S3Settings, S3Store, Store};

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Returns bytes that depend on the position and the seed.
pub fn content(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

pub const BUCKET: &str = "eciton-test";

/// Returns settings for a bucket at an address, with the limits of a function and parts of 5 MiB.
pub fn settings(endpoint: &str) -> S3Settings {
    let mut settings = S3Settings::new(BUCKET, "us-east-1");
    settings.endpoint = Some(endpoint.to_owned());
    settings.credentials = Credentials::keys("test", "test");
    settings.multipart_bytes = 5 << 20;
    settings.max_object_bytes = suite::MAX_OBJECT_BYTES;
    settings
}

pub fn s3(endpoint: &str) -> Arc<dyn Store> {
    Arc::new(S3Store::new(settings(endpoint)).unwrap())
}

/// Starts the emulator's S3, with the bucket and the keys of [`settings`].
pub async fn emulator() -> eciton_emulator::Emulator {
    let settings = eciton_emulator::Settings {
        buckets: vec![BUCKET.into()],
        access_key: "test".into(),
        secret_key: "test".into(),
        ..eciton_emulator::Settings::default()
    };
    eciton_emulator::Emulator::start(settings).await.unwrap()
}

/// Creates the bucket, for services in which it does not exist.
pub async fn make_bucket(endpoint: &str) {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(aws_sdk_s3::config::BehaviorVersion::v2026_01_12())
        .region(aws_sdk_s3::config::Region::new("us-east-1"))
        .credentials_provider(aws_sdk_s3::config::Credentials::from_keys("test", "test", None))
        .http_client(eciton_transport::s3::http::client(true).unwrap())
        .endpoint_url(endpoint)
        .force_path_style(true);
    let client = aws_sdk_s3::Client::from_conf(config.build());
    client.create_bucket().bucket(BUCKET).send().await.unwrap();
}

/// Returns a new random seed, or the one of `ECITON_SEED` to replay a failure.
pub fn seed() -> u64 {
    match std::env::var("ECITON_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        }
    }
}
