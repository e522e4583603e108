//! One suite, every store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;

use common::ministack::Ministack;
use common::suite;
use eciton_transport::{FolderStore, MemoryStore, S3Store, Store as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let store = MemoryStore::with_limits(suite::MAX_OBJECT_BYTES, 1 << 30);
    suite::run(Arc::new(store), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::with_limit(folder.path(), suite::MAX_OBJECT_BYTES).unwrap();
    suite::run(Arc::new(store), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_as_ministack_speaks_it() {
    let Some(ministack) = Ministack::start().await else { return };
    suite::run(common::s3(&ministack.endpoint), true).await;
    limits_hold_for_what_is_there(&ministack.endpoint).await;
}

/// An object that another writer made larger than this reader takes.
async fn limits_hold_for_what_is_there(endpoint: &str) {
    let store = common::s3(endpoint);
    let key = common::key("limit/theirs");
    store.put(&key, common::content(1, 1001), eciton_transport::Condition::Always).await.unwrap();
    let mut settings = common::settings(endpoint);
    settings.max_object_bytes = 1000;
    let strict = S3Store::new(settings).unwrap();
    let error = strict.get(&key, None).await.unwrap_err();
    assert!(
        matches!(error, eciton_transport::Error::TooLarge { found: 1001, allowed: 1000, .. }),
        "{error:?}"
    );
    assert_eq!(strict.get(&key, Some(0..1000)).await.unwrap(), common::content(1, 1001)[..1000]);
}
