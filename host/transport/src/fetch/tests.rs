use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use eciton_tensor::View;
use eciton_tensor::frame::{Encoding, Header, Writer};
use tokio::sync::oneshot;

use super::*;
use crate::memory::MemoryStore;
use crate::store::{Condition, Counts, Pending, Stored};

/// Latency of a request, in seconds.
const LATENCY: f64 = 0.015;
const PIECE: usize = 64 << 10;
/// Bandwidth in bytes per second: 200 Mbit/s.
const RATE: f64 = 25e6;

/// Simulated clock in seconds. It advances when no task can proceed.
#[derive(Debug, Default)]
struct Clock {
    now: Mutex<f64>,
    /// Sleeping tasks, by wake-up time (as the bits of a positive number) and order of
    /// registration.
    sleepers: Mutex<BTreeMap<(u64, u64), oneshot::Sender<()>>>,
    turns: AtomicU64,
}

impl Clock {
    fn now(&self) -> f64 {
        *self.now.lock().unwrap()
    }

    async fn sleep_until(&self, moment: f64) {
        let (wake, woken) = oneshot::channel();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.sleepers.lock().unwrap().insert((moment.to_bits(), turn), wake);
        woken.await.unwrap();
    }

    /// Runs `work` to its end, and wakes sleepers in the order of their times.
    async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let wake = async {
            loop {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                if let Some(((moment, _), wake)) = self.sleepers.lock().unwrap().pop_first() {
                    let moment = f64::from_bits(moment);
                    let mut now = self.now.lock().unwrap();
                    *now = now.max(moment);
                    // A sleeper that was cancelled does not receive the message.
                    let _ = wake.send(());
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            never = wake => never,
        }
    }
}

/// Store at the other end of a link whose bandwidth its readers share.
#[derive(Debug)]
struct Paced {
    bytes: Bytes,
    /// Number of bytes that exist. A read beyond them fails.
    fails_at: u64,
    clock: Clock,
    ready_at: Mutex<f64>,
    under_way: AtomicU64,
    most: AtomicU64,
    requests: AtomicU64,
}

struct UnderWay<'a>(&'a AtomicU64, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

fn paced(len: usize) -> Arc<Paced> {
    Arc::new(Paced {
        bytes: (0..len).map(|i| ((i * 31) >> 7) as u8).collect(),
        fails_at: u64::MAX,
        clock: Clock::default(),
        ready_at: Mutex::default(),
        under_way: AtomicU64::new(0),
        most: AtomicU64::new(0),
        requests: AtomicU64::new(0),
    })
}

impl Store for Paced {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        range: Option<Range<u64>>,
        sink: &'a mut Sink<'_>,
    ) -> Pending<'a, u64> {
        Box::pin(async move {
            let range = range.unwrap();
            let len = range.end - range.start;
            self.requests.fetch_add(1, Ordering::Relaxed);
            let all = self.under_way.fetch_add(len, Ordering::Relaxed) + len;
            self.most.fetch_max(all, Ordering::Relaxed);
            let _under_way = UnderWay(&self.under_way, len);
            self.clock.sleep_until(self.clock.now() + LATENCY).await;
            let end = (range.end as usize).min(self.bytes.len());
            let mut rest = self.bytes.slice(range.start as usize..end);
            let mut at = range.start;
            while !rest.is_empty() {
                let piece = rest.split_to(PIECE.min(rest.len()));
                let arrives = {
                    let mut ready_at = self.ready_at.lock().unwrap();
                    *ready_at = ready_at.max(self.clock.now()) + piece.len() as f64 / RATE;
                    *ready_at
                };
                self.clock.sleep_until(arrives).await;
                at += piece.len() as u64;
                if at > self.fails_at {
                    let reason = "lost".into();
                    return Err(Error::Timeout { operation: "get", key: key.to_string(), reason });
                }
                sink(piece)?;
            }
            Ok(end as u64 - range.start)
        })
    }

    fn get<'a>(&'a self, _: &'a Key, _: Option<Range<u64>>) -> Pending<'a, Bytes> {
        unreachable!("a fetch reads")
    }
    fn put<'a>(&'a self, _: &'a Key, _: Bytes, _: Condition) -> Pending<'a, Stored> {
        unreachable!("a fetch reads")
    }
    fn delete<'a>(&'a self, _: &'a [Key]) -> Pending<'a, ()> {
        unreachable!("a fetch reads")
    }
    fn list<'a>(&'a self, _: &'a str, _: usize) -> Pending<'a, Vec<(Key, u64)>> {
        unreachable!("a fetch reads")
    }
    fn size<'a>(&'a self, _: &'a Key) -> Pending<'a, u64> {
        unreachable!("a fetch reads")
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

fn key() -> Key {
    Key::new("a").unwrap()
}

/// Reads everything, while a kernel processes the rows at the speed of the link. Returns the total
/// time, relative to the transfer alone.
async fn overlap(len: usize, pipeline: Pipeline) -> (f64, Arc<Paced>) {
    let link = paced(len);
    let clock = &link.clock;
    let store: Arc<dyn Store> = link.clone();
    let mut found = Vec::new();
    let mut computed = 0.0;
    let mut sink = |piece: Bytes| {
        computed = clock.now().max(computed) + piece.len() as f64 / RATE;
        found.extend_from_slice(&piece);
        Ok(())
    };
    let key = key();
    let traffic = clock.run(read_ranges(&store, &key, 0..len as u64, pipeline, &mut sink)).await.unwrap();
    assert!(found == link.bytes, "in order and complete");
    assert_eq!((traffic.bytes_len, traffic.blocks), (len as u64, link.requests.load(Ordering::Relaxed)));
    (clock.now().max(computed) / (len as f64 / RATE), link)
}

#[tokio::test]
async fn a_streamed_fetch_takes_little_more_than_the_link() {
    let len = 32 << 20;
    let (ratio, link) = overlap(len, Pipeline::default()).await;
    assert!(ratio < 1.05, "{ratio}");
    assert_eq!(link.requests.load(Ordering::Relaxed), 4);
    assert!(link.most.load(Ordering::Relaxed) <= (16 << 20) + (512 << 10));
    // Waiting for each block costs one latency per block. Requesting much at once divides the link.
    let (waiting, _) = overlap(len, Pipeline { block_bytes: 512 << 10, ahead_bytes: 0 }).await;
    let (divided, _) = overlap(len, Pipeline { block_bytes: 8 << 20, ahead_bytes: 32 << 20 }).await;
    assert!(waiting > 1.5 && divided > 1.5, "{waiting} {divided}");
    let (blocks, _) = overlap(len, Pipeline { block_bytes: 512 << 10, ahead_bytes: 1 << 20 }).await;
    assert!(blocks < 1.1, "{blocks}");
}

#[tokio::test]
async fn what_is_asked_for_ahead_is_bounded() {
    for (block, ahead) in [(64 << 10, 0), (64 << 10, 256 << 10), (1 << 20, 512 << 10), (1 << 20, 4 << 20)] {
        let pipeline = Pipeline { block_bytes: block, ahead_bytes: ahead };
        let (_, link) = overlap((8 << 20) + 13, pipeline).await;
        let most = link.most.load(Ordering::Relaxed);
        assert!(most <= block + ahead.div_ceil(block) * block, "{pipeline:?}: {most}");
        assert_eq!(link.requests.load(Ordering::Relaxed), ((8_u64 << 20) + 13).div_ceil(block));
        assert_eq!(link.under_way.load(Ordering::Relaxed), 0);
    }
    let store: Arc<dyn Store> = paced(10);
    for (block_bytes, ahead_bytes) in [
        (Pipeline::MIN_BLOCK_BYTES - 1, 0),
        (Pipeline::MAX_BYTES + 1, 0),
        (Pipeline::MAX_BYTES, Pipeline::MAX_BYTES + 1),
    ] {
        let pipeline = Pipeline { block_bytes, ahead_bytes };
        let refused = read_ranges(&store, &key(), 0..10, pipeline, &mut |_| Ok(())).await;
        assert!(matches!(refused, Err(Error::Settings { .. })), "{pipeline:?}");
    }
}

/// Checks that no request is in flight. Aborted tasks end when they are next polled.
async fn nothing_is_under_way(link: &Paced) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(link.under_way.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_fetch_that_ends_early_cancels_what_is_under_way() {
    let pipeline = Pipeline { block_bytes: 1 << 20, ahead_bytes: 4 << 20 };
    let link = paced(8 << 20);
    let store: Arc<dyn Store> = link.clone();
    let mut pieces = 0;
    let mut enough = |_| {
        pieces += 1;
        match pieces {
            3 => Err(Error::Refused { key: "a".into(), reason: "enough".into() }),
            _ => Ok(()),
        }
    };
    let key = key();
    let refused = link.clock.run(read_ranges(&store, &key, 0..8 << 20, pipeline, &mut enough)).await;
    assert!(matches!(refused, Err(Error::Refused { .. })) && pieces == 3);
    nothing_is_under_way(&link).await;

    let mut pieces = 0;
    let mut count = |_| {
        pieces += 1;
        Ok(())
    };
    {
        let fetch = read_ranges(&store, &key, 0..8 << 20, pipeline, &mut count);
        let until = link.clock.sleep_until(link.clock.now() + 0.1);
        link.clock
            .run(async {
                tokio::select! { _ = fetch => panic!("too early"), () = until => {} }
            })
            .await;
    }
    assert!(pieces > 0);
    nothing_is_under_way(&link).await;

    let mut broken = paced(8 << 20);
    Arc::get_mut(&mut broken).unwrap().fails_at = 3 << 20;
    let store: Arc<dyn Store> = broken.clone();
    let mut came = 0;
    let mut count = |piece: Bytes| {
        came += piece.len() as u64;
        Ok(())
    };
    let failed = broken.clock.run(read_ranges(&store, &key, 0..8 << 20, pipeline, &mut count)).await;
    assert!(matches!(failed, Err(Error::Timeout { .. })));
    assert_eq!(came, 3 << 20, "what came before the failure was passed on");
}

#[tokio::test]
async fn ranges_must_exist_and_may_be_empty() {
    let memory = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = memory.clone();
    store.put(&key(), Bytes::from(vec![7; 200_000]), Condition::Always).await.unwrap();
    let small = Pipeline { block_bytes: 64 << 10, ahead_bytes: 64 << 10 };
    let mut none = |_| -> Result<()> { panic!("there is nothing") };
    let traffic = read_ranges(&store, &key(), 5..5, small, &mut none).await.unwrap();
    assert_eq!((traffic.bytes_len, traffic.blocks, memory.counts().gets), (0, 0, 0));
    for end in [200_001, 300_000] {
        let short = read_ranges(&store, &key(), 0..end, small, &mut |_| Ok(())).await;
        assert!(matches!(short, Err(Error::Range { .. })), "{end}: {short:?}");
    }
    let absent = Key::new("b").unwrap();
    let absent = read_ranges(&store, &absent, 0..1, small, &mut |_| Ok(())).await;
    assert!(absent.unwrap_err().is_not_found());
    #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
    let inverted = read_ranges(&store, &key(), 2..1, small, &mut |_| Ok(())).await;
    assert!(matches!(inverted, Err(Error::Range { .. })));
}

#[tokio::test]
async fn rows_arrive_and_damage_is_seen_at_both_ends() {
    let (rows, columns) = (3000, 50);
    let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let mut writer = Writer::new(b"{}".to_vec());
    let part = writer.view(View::new(&values, rows, columns), Encoding::F32).unwrap();
    let frame = writer.finish().unwrap();
    let header = Header::parse(&frame).unwrap();
    let part = header.part(part).unwrap();
    let pipeline = Pipeline { block_bytes: 64 << 10, ahead_bytes: 128 << 10 };
    let stream = |frame: Vec<u8>| async move {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        store.put(&key(), frame.into(), Condition::Always).await.unwrap();
        let (sink, arriving) = RowSink::channel(part).unwrap();
        let result = read_streamed(&store, &key(), part, sink, pipeline).await;
        (result, arriving.wait(rows, Some(Duration::from_secs(5))))
    };
    let (traffic, arrived) = stream(frame.clone()).await;
    assert_eq!(traffic.unwrap().bytes_len, (rows * columns * 4) as u64);
    assert_eq!(arrived.unwrap(), rows);

    let mut changed = frame.clone();
    *changed.last_mut().unwrap() ^= 1;
    let (damaged, arrived) = stream(changed).await;
    let damaged = damaged.unwrap_err();
    assert!(matches!(damaged, Error::Frame { .. }) && damaged.is_retryable(), "{damaged:?}");
    assert!(arrived.is_err());

    let mut cut = frame;
    cut.truncate(cut.len() - 100);
    let (short, arrived) = stream(cut).await;
    assert!(matches!(short, Err(Error::Range { .. })), "{short:?}");
    assert!(arrived.is_err());
}
