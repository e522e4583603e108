//! Test suite for every store. Each test has a prefix of its own.

use std::sync::Arc;

use bytes::Bytes;
use eciton_transport::{Condition, Counts, Error, Key, Store, Stored};
use tokio::task::JoinSet;

use super::{content, key};

/// Size limit of every store under test, in bytes.
pub const MAX_OBJECT_BYTES: u64 = 24 << 20;

/// Size above which objects are written to S3 in parts.
const LARGE: usize = (5 << 20) + 1;

type Shared = Arc<dyn Store>;

/// Runs all tests of the suite.
pub async fn run(store: Shared, is_s3: bool) {
    round_trips(&store).await;
    absent_objects(&store).await;
    conditions(&store).await;
    races(&store, "race/small", 1000).await;
    races(&store, "race/large", LARGE).await;
    ranges(&store).await;
    listings(&store).await;
    removals(&store).await;
    large_objects(&store, is_s3).await;
    hostile_keys(&store).await;
    size_limits(&store).await;
    readers(&store).await;
    no_torn_reads(&store).await;
    counts(&store).await;
}

async fn put(store: &Shared, name: &str, bytes: &Bytes) -> Key {
    let key = key(name);
    let stored = store.put(&key, bytes.clone(), Condition::Always).await.unwrap();
    assert_eq!(stored, Stored::Written);
    key
}

async fn round_trips(store: &Shared) {
    for len in [0, 1, 4096, (1 << 20) + 1] {
        let bytes = content(len as u64, len);
        let key = put(store, &format!("trip/{len}"), &bytes).await;
        assert_eq!(store.get(&key, None).await.unwrap(), bytes, "{len} bytes");
        assert_eq!(store.size(&key).await.unwrap(), len as u64);
    }
}

async fn absent_objects(store: &Shared) {
    let key = key("absent/object");
    let not_found = |error: Error| {
        assert!(error.is_not_found() && error.may_be_absent() && !error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("absent/object"), "{error}");
    };
    not_found(store.get(&key, None).await.unwrap_err());
    not_found(store.get(&key, Some(0..10)).await.unwrap_err());
    not_found(store.size(&key).await.unwrap_err());
    not_found(store.read(&key, None, &mut |_| panic!("there is nothing to read")).await.unwrap_err());
    store.delete(std::slice::from_ref(&key)).await.unwrap();
    store.delete(&[key.clone(), key]).await.unwrap();
    assert_eq!(store.list("absent/", 10).await.unwrap(), []);
}

async fn conditions(store: &Shared) {
    let key = key("condition/object");
    let [first, second] = [content(1, 10), content(2, 20)];
    let absent = |bytes: &Bytes| store.put(&key, bytes.clone(), Condition::IfAbsent);
    assert_eq!(absent(&first).await.unwrap(), Stored::Written);
    assert_eq!(absent(&second).await.unwrap(), Stored::Exists);
    assert_eq!(store.get(&key, None).await.unwrap(), first);
    assert_eq!(store.put(&key, second.clone(), Condition::Always).await.unwrap(), Stored::Written);
    assert_eq!(store.get(&key, None).await.unwrap(), second);
    store.delete(std::slice::from_ref(&key)).await.unwrap();
    assert_eq!(absent(&first).await.unwrap(), Stored::Written, "a removed object is absent");
}

/// Starts 16 concurrent writers of one key. One of them succeeds, and the object is the winner's.
async fn races(store: &Shared, name: &str, len: usize) {
    for round in 0..if len < LARGE { 20 } else { 2 } {
        let mut writers = JoinSet::new();
        for writer in 0..16_u64 {
            let (store, key) = (store.clone(), key(&format!("{name}/{round}")));
            writers.spawn(async move {
                let bytes = content(writer + 100, len);
                (writer, store.put(&key, bytes, Condition::IfAbsent).await.unwrap())
            });
        }
        let ends = writers.join_all().await;
        let winners: Vec<u64> =
            ends.iter().filter(|(_, stored)| *stored == Stored::Written).map(|(writer, _)| *writer).collect();
        let [winner] = winners[..] else { panic!("{name}, round {round}: winners {winners:?}") };
        let found = store.get(&key(&format!("{name}/{round}")), None).await.unwrap();
        assert!(found == content(winner + 100, len), "{name}, round {round}: not the winner's bytes");
    }
}

async fn ranges(store: &Shared) {
    let bytes = content(3, 100);
    let key = put(store, "range/object", &bytes).await;
    let get = |range: std::ops::Range<u64>| store.get(&key, Some(range));
    for (start, end, found) in [
        (0, 100, 0..100),
        (0, 1, 0..1),
        (10, 20, 10..20),
        (99, 100, 99..100),
        (90, 101, 90..100),
        (0, 1 << 40, 0..100),
        (50, u64::MAX, 50..100),
    ] {
        assert_eq!(get(start..end).await.unwrap(), bytes[found], "{start}..{end}");
    }
    for start in [100, 101, 1 << 40, i64::MAX as u64 - 1] {
        let error = get(start..start + 1).await.unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{start}: {error:?}");
        assert!(!error.is_retryable() && error.to_string().contains("range/object"), "{error}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
    let inverted = [5..4, 200..100, u64::MAX..0];
    for range in inverted {
        let shown = format!("{range:?}");
        assert!(matches!(get(range).await, Err(Error::Range { .. })), "{shown}");
    }
    let before = store.counts();
    for at in [0, 50, 100, 1000] {
        assert_eq!(get(at..at).await.unwrap(), Bytes::new(), "empty at {at}");
    }
    assert_eq!(store.counts(), before, "an empty range asks nothing");
    let empty = put(store, "range/empty", &Bytes::new()).await;
    assert!(matches!(store.get(&empty, Some(0..1)).await, Err(Error::Range { .. })));
}

fn names(found: &[(Key, u64)]) -> Vec<&str> {
    found.iter().map(|(key, _)| key.as_str()).collect()
}

async fn listings(store: &Shared) {
    let mut wanted = Vec::new();
    for i in [3, 1, 2, 10, 0] {
        let name = format!("list/a/{i:02}");
        put(store, &name, &content(1, i)).await;
        wanted.push(name);
    }
    for name in ["list/a", "list/a-", "list/b/x/y", "list/a.b", "list0"] {
        put(store, name, &content(1, 7)).await;
    }
    wanted.sort();
    let all = store.list("list/a/", 100).await.unwrap();
    assert_eq!(names(&all), wanted, "in order");
    assert_eq!(all.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [0, 1, 2, 3, 10]);
    for limit in [0, 1, 4, 5] {
        let some = store.list("list/a/", limit).await.unwrap();
        assert_eq!(some, all[..limit], "the first {limit}");
    }
    // A prefix is text, not a folder. `-`, `.` and `/` are ordered by their bytes.
    let under = store.list("list/a", 100).await.unwrap();
    assert_eq!(names(&under)[..4], ["list/a", "list/a-", "list/a.b", "list/a/00"]);
    assert_eq!(under.len(), 8);
    assert_eq!(names(&store.list("list/a/1", 100).await.unwrap()), ["list/a/10"]);
    assert_eq!(names(&store.list("list/b/", 100).await.unwrap()), ["list/b/x/y"]);
    assert_eq!(names(&store.list("list/", 2).await.unwrap()), ["list/a", "list/a-"]);
    assert_eq!(store.list("list/a/00/", 100).await.unwrap(), []);
    assert!(store.list("", 1000).await.unwrap().len() >= 10);
    for bad in ["/", "../", "a//", "A", "list/*"] {
        assert!(matches!(store.list(bad, 10).await, Err(Error::Key { .. })), "{bad}");
    }
}

/// Uses more keys than fit on one page of a listing, or into one request to delete.
async fn removals(store: &Shared) {
    const MANY: usize = 1203;
    let one = Bytes::from_static(b"1");
    let mut writers = JoinSet::new();
    for worker in 0..8 {
        let (store, one) = (store.clone(), one.clone());
        writers.spawn(async move {
            for i in (worker..MANY).step_by(8) {
                put(&store, &format!("many/{i:04}"), &one).await;
            }
        });
    }
    writers.join_all().await;
    put(store, "many-others", &one).await;
    let all = store.list("many/", 10_000).await.unwrap();
    assert_eq!(all.len(), MANY);
    assert!(all.is_sorted() && all.iter().all(|(_, size)| *size == 1));
    assert_eq!(store.list("many/", 1001).await.unwrap(), all[..1001]);
    let keys: Vec<Key> = all.into_iter().map(|(key, _)| key).collect();
    store.delete(&[]).await.unwrap();
    store.delete(&keys[..1]).await.unwrap();
    assert_eq!(store.list("many/", 10_000).await.unwrap().len(), MANY - 1);
    // The first object no longer exists, which is not an error.
    store.delete(&keys).await.unwrap();
    assert_eq!(store.list("many/", 10_000).await.unwrap(), []);
    assert_eq!(store.list("many", 10).await.unwrap().len(), 1, "its neighbour is still there");
}

async fn large_objects(store: &Shared, is_s3: bool) {
    for (len, parts) in [(5 << 20, 1), (LARGE, 2), (3 * (5 << 20) + 7, 4)] {
        let bytes = content(len as u64, len);
        let before = store.counts();
        let key = put(store, &format!("large/{len}"), &bytes).await;
        let added = store.counts().since(&before);
        let requests = if is_s3 { parts + 2 } else { 1 };
        let expected = Counts { puts: requests, bytes_out: len as u64, ..Counts::default() };
        assert_eq!(added, expected, "{len} bytes");
        assert!(store.get(&key, None).await.unwrap() == bytes, "{len} bytes");
        // Across the boundary of two parts.
        if parts > 1 {
            let range = (5 << 20) - 10..(5 << 20) + 1;
            let found = store.get(&key, Some(range.start as u64..range.end as u64)).await.unwrap();
            assert_eq!(found, bytes[range]);
        }
        let again = store.put(&key, content(1, len), Condition::IfAbsent).await.unwrap();
        assert_eq!(again, Stored::Exists);
        assert!(store.get(&key, None).await.unwrap() == bytes, "and is unchanged");
        store.delete(&[key]).await.unwrap();
    }
}

/// Checks the limits of valid keys. Invalid keys are refused before a store sees them.
async fn hostile_keys(store: &Shared) {
    let longest = format!("hostile/{0}/{0}/{1}", "x".repeat(Key::MAX_PART_BYTES), "y");
    assert!(longest.len() <= Key::MAX_BYTES);
    let full = format!("{longest}{}", "z".repeat(Key::MAX_BYTES - longest.len()));
    let names = [
        "hostile/a",
        "hostile/a/b",
        "hostile/a/b/c",
        "hostile/...",
        "hostile/a..b",
        "hostile/.hidden",
        "hostile/-",
        "hostile/_",
        "hostile/a.",
        full.as_str(),
    ];
    for (i, name) in names.iter().enumerate() {
        put(store, name, &content(i as u64, 10 + i)).await;
    }
    for (i, name) in names.iter().enumerate() {
        assert_eq!(store.get(&key(name), None).await.unwrap(), content(i as u64, 10 + i), "{name}");
    }
    store.delete(&[key("hostile/a")]).await.unwrap();
    assert!(store.get(&key("hostile/a"), None).await.unwrap_err().is_not_found());
    assert_eq!(store.size(&key("hostile/a/b")).await.unwrap(), 11, "what is below it stays");
    assert!(store.get(&key("hostile/a/b/c/d"), None).await.unwrap_err().is_not_found());
}

async fn size_limits(store: &Shared) {
    let most = content(9, MAX_OBJECT_BYTES as usize);
    let key = put(store, "limit/object", &most).await;
    assert!(store.get(&key, None).await.unwrap() == most);
    let over = Bytes::from(vec![0; MAX_OBJECT_BYTES as usize + 1]);
    let before = store.counts();
    for condition in [Condition::Always, Condition::IfAbsent] {
        let error = store.put(&key, over.clone(), condition).await.unwrap_err();
        let expected = MAX_OBJECT_BYTES;
        assert!(
            matches!(error, Error::TooLarge { found, allowed, .. } if found == expected + 1 && allowed == expected)
        );
    }
    assert_eq!(store.counts(), before, "what is too large is not sent");
    store.delete(&[key]).await.unwrap();
}

async fn readers(store: &Shared) {
    let bytes = content(5, 3_000_001);
    let key = put(store, "read/object", &bytes).await;
    for range in [None, Some(0..3_000_001), Some(17..2_999_999), Some(1_000_000..u64::MAX)] {
        let mut found = Vec::new();
        let mut sink = |piece: Bytes| {
            assert!(!piece.is_empty());
            found.extend_from_slice(&piece);
            Ok(())
        };
        let len = store.read(&key, range.clone(), &mut sink).await.unwrap();
        let range = range.unwrap_or(0..u64::MAX);
        let wanted = &bytes[range.start as usize..(range.end.min(3_000_001)) as usize];
        assert!(found == wanted && len == wanted.len() as u64, "{range:?}");
    }
    let mut calls = 0;
    let mut refuse = |_| {
        calls += 1;
        Err(Error::Refused { key: "read/object".into(), reason: "enough".into() })
    };
    let refused = store.read(&key, None, &mut refuse).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    assert_eq!(calls, 1, "who refuses is not asked again");
}

/// Checks that a reader sees either the old object or the new one, completely. Writes continue as
/// long as the reader reads.
async fn no_torn_reads(store: &Shared) {
    let versions = [Bytes::from(vec![1; 300_000]), Bytes::from(vec![2; 200_000])];
    let key = put(store, "torn/object", &versions[0]).await;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn({
        let (store, key, versions) = (store.clone(), key.clone(), versions.clone());
        async move {
            let mut writes = 0;
            // At least one write, even if the reader finishes before this task first runs.
            while writes == 0
                || matches!(stopped.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Empty))
            {
                writes += 1;
                store.put(&key, versions[writes % 2].clone(), Condition::Always).await.unwrap();
                tokio::task::yield_now().await;
            }
            writes
        }
    });
    for _ in 0..100 {
        let found = store.get(&key, None).await.unwrap();
        assert!(versions.contains(&found), "{} bytes beginning with {}", found.len(), found[0]);
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    assert!(writer.await.unwrap() > 0);
}

async fn counts(store: &Shared) {
    let before = store.counts();
    let bytes = content(6, 1000);
    let key = put(store, "count/object", &bytes).await;
    store.get(&key, None).await.unwrap();
    store.get(&key, Some(10..20)).await.unwrap();
    store.get(&key, Some(5000..6000)).await.unwrap_err();
    store.size(&key).await.unwrap();
    store.list("count/", 10).await.unwrap();
    store.put(&key, bytes, Condition::IfAbsent).await.unwrap();
    store.delete(&[key]).await.unwrap();
    let expected = Counts {
        gets: 3,
        puts: 2,
        lists: 1,
        deletes: 1,
        heads: 1,
        retries: 0,
        bytes_in: 1010,
        bytes_out: 2000,
    };
    assert_eq!(store.counts().since(&before), expected);
}
