//! Runs one suite against every store.

use std::sync::Arc;

use crate::common::ministack::Ministack;
use crate::common::suite;
use eciton_transport::{Condition, FolderStore, MemoryStore, S3Store, Store as _};

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
async fn s3_as_the_emulator_speaks_it() {
    let emulator = crate::common::emulator().await;
    suite::run(crate::common::s3(&emulator.s3_endpoint()), true).await;
    limits_hold_for_what_is_there(&emulator.s3_endpoint()).await;
    emulator.stop().await.unwrap();
}

/// Checks that client and service count the same requests.
#[tokio::test]
async fn both_ends_count_alike() {
    let emulator = crate::common::emulator().await;
    let store = S3Store::new(crate::common::settings(&emulator.s3_endpoint())).unwrap();
    let (a, b) = (crate::common::key("count/a"), crate::common::key("count/b"));
    let large = crate::common::content(1, 11 << 20);
    store.put(&a, large.clone(), Condition::IfAbsent).await.unwrap();
    store.put(&a, large.clone(), Condition::IfAbsent).await.unwrap();
    store.put(&b, large.slice(..1000), Condition::Always).await.unwrap();
    assert!(store.get(&a, None).await.unwrap() == large);
    store.get(&b, Some(10..30)).await.unwrap();
    store.get(&b, Some(1000..2000)).await.unwrap_err();
    store.get(&crate::common::key("count/c"), None).await.unwrap_err();
    store.size(&a).await.unwrap();
    store.list("count/", 10).await.unwrap();
    store.delete(std::slice::from_ref(&a)).await.unwrap();
    store.delete(&[a, b]).await.unwrap();
    let (ours, theirs) = (store.counts(), emulator.bill().s3);
    assert_eq!(
        (ours.gets, ours.puts, ours.lists, ours.deletes, ours.heads, ours.bytes_in, ours.bytes_out),
        (
            theirs.gets,
            theirs.puts,
            theirs.lists,
            theirs.deletes,
            theirs.heads,
            theirs.bytes_out,
            theirs.bytes_in
        )
    );
    assert_eq!(ours.bytes_in, (11 << 20) + 20);
    emulator.stop().await.unwrap();
}

#[tokio::test]
async fn a_wrong_secret_is_refused_once() {
    let emulator = crate::common::emulator().await;
    let mut settings = crate::common::settings(&emulator.s3_endpoint());
    settings.credentials = eciton_transport::Credentials::keys("test", "not-test");
    let store = S3Store::new(settings).unwrap();
    let refused = store
        .put(&crate::common::key("a"), crate::common::content(1, 10), Condition::Always)
        .await
        .unwrap_err();
    let eciton_transport::Error::Service { code, retryable: false, .. } = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(code, "SignatureDoesNotMatch");
    assert_eq!(store.counts().puts, 1);
    emulator.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_as_ministack_speaks_it() {
    let Some(ministack) = Ministack::start().await else { return };
    suite::run(crate::common::s3(&ministack.endpoint), true).await;
    limits_hold_for_what_is_there(&ministack.endpoint).await;
}

/// Checks that an object which another writer made too large is refused.
async fn limits_hold_for_what_is_there(endpoint: &str) {
    let store = crate::common::s3(endpoint);
    let key = crate::common::key("limit/theirs");
    store.put(&key, crate::common::content(1, 1001), Condition::Always).await.unwrap();
    let mut settings = crate::common::settings(endpoint);
    settings.max_object_bytes = 1000;
    let strict = S3Store::new(settings).unwrap();
    let error = strict.get(&key, None).await.unwrap_err();
    assert!(
        matches!(error, eciton_transport::Error::TooLarge { found: 1001, allowed: 1000, .. }),
        "{error:?}"
    );
    assert_eq!(strict.get(&key, Some(0..1000)).await.unwrap(), crate::common::content(1, 1001)[..1000]);
}
