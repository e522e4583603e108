//! Benchmark of the transfer speed. It is tiny by default. For figures run `ECITON_SPEED_MB=64
//! cargo test --release -p eciton-transport --test suite speed -- --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::ministack::Ministack;
use crate::common::script::{Script, answer};
use crate::common::{content, key};
use bytes::Bytes;
use eciton_transport::{
    Carrier, Condition, INLINE_FRAME_BYTES, Invocation, MemoryStore, Pipeline, S3Store, Store, read_ranges,
};

fn megabytes() -> usize {
    std::env::var("ECITON_SPEED_MB").map_or(1, |text| text.parse().unwrap())
}

/// Returns the fastest of several runs.
fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let timed = |work: &mut dyn FnMut() -> T| {
        let started = Instant::now();
        let kept = work();
        let took = started.elapsed();
        drop(kept);
        took
    };
    (0..runs).map(|_| timed(&mut work)).min().unwrap()
}

#[test]
fn envelope() {
    let len = if megabytes() > 1 { 4 << 20 } else { 1 << 16 };
    assert!(len as u64 <= INLINE_FRAME_BYTES);
    let event = Invocation {
        frame: Carrier::Inline(content(1, len)),
        answer_key: Some(key("runs/r/p000000/e000001/s000/i00000/answer")),
        max_inline_bytes: INLINE_FRAME_BYTES,
        stream: true,
    };
    let write = best(9, || event.to_json().unwrap());
    let json = event.to_json().unwrap();
    let read = best(9, || Invocation::from_json(&json).unwrap());
    eprintln!("envelope of {len} bytes: write {write:?}, read {read:?}");
    assert!(write + read < Duration::from_secs(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_and_first_request() {
    let script = Script::answers(vec![answer("200 OK", &[], b"there")]).await;
    // The first run of the process includes lazy initialisation.
    for round in ["first", "second"] {
        let started = Instant::now();
        let store = S3Store::new(crate::common::settings(&script.endpoint)).unwrap();
        let made = started.elapsed();
        store.get(&key("a"), None).await.unwrap();
        let first = started.elapsed() - made;
        let again = Instant::now();
        for _ in 0..100 {
            store.get(&key("a"), None).await.unwrap();
        }
        let warm = again.elapsed() / 100;
        eprintln!("{round} client over http: made {made:?}, first request {first:?}, later ones {warm:?}");
        assert!(made < Duration::from_millis(200));
    }
    let mut settings = crate::common::settings("https://127.0.0.1:1");
    settings.endpoint = Some("https://127.0.0.1:1".into());
    let started = Instant::now();
    drop(S3Store::new(settings).unwrap());
    eprintln!("client over https (root certificates are read): made {:?}", started.elapsed());
}

async fn road(name: &str, store: Arc<dyn Store>) {
    let len = megabytes() << 20;
    let bytes = content(7, len);
    let rate = |took: Duration, bytes: usize| bytes as f64 / 1e6 / took.as_secs_f64();
    let large = key("speed/large");
    let started = Instant::now();
    store.put(&large, bytes.clone(), Condition::Always).await.unwrap();
    let put = started.elapsed();
    let started = Instant::now();
    assert!(store.get(&large, None).await.unwrap() == bytes);
    let get = started.elapsed();
    let started = Instant::now();
    let mut came = 0;
    let mut sink = |piece: Bytes| {
        came += piece.len();
        Ok(())
    };
    read_ranges(&store, &large, 0..len as u64, Pipeline::default(), &mut sink).await.unwrap();
    let streamed = started.elapsed();
    assert_eq!(came, len);
    let small = content(8, 4096);
    let started = Instant::now();
    for _ in 0..100 {
        store.put(&key("speed/small"), small.clone(), Condition::Always).await.unwrap();
        store.get(&key("speed/small"), None).await.unwrap();
    }
    let pair = started.elapsed() / 100;
    store.delete(&[large, key("speed/small")]).await.unwrap();
    eprintln!(
        "{name}: {len} bytes: put {:.0} MB/s, get {:.0} MB/s, streamed {:.0} MB/s; 4 KiB put and get {pair:?}",
        rate(put, len),
        rate(get, len),
        rate(streamed, len)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores() {
    road("memory", Arc::new(MemoryStore::new())).await;
    let folder = tempfile::tempdir().unwrap();
    road("folder", Arc::new(eciton_transport::FolderStore::open(folder.path()).unwrap())).await;
    let s3 = |endpoint: &str| {
        let mut settings = crate::common::settings(endpoint);
        settings.multipart_bytes = 8 << 20;
        settings.max_object_bytes = 5 << 30;
        Arc::new(S3Store::new(settings).unwrap())
    };
    let emulator = crate::common::emulator().await;
    road("s3 (emulator)", s3(&emulator.s3_endpoint())).await;
    emulator.stop().await.unwrap();
    if let Some(ministack) = Ministack::start().await {
        road("s3 (ministack)", s3(&ministack.endpoint)).await;
    }
}
