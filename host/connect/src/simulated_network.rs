//! Tests of the wire code on a simulated network with simulated time. Each connection is a pair of
//! [`tokio::io::duplex`] streams with a relay between them, which delays, splits, swallows or cuts off
//! bytes at a chosen position. Time is paused, so a day of a connection takes less than a second.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::dial::{Dialled, dial_over};
use crate::error::{Error, Result};
use crate::limits::{FIRST_BYTE, HANDSHAKE, MESSAGE_BYTES, SIGNS};
use crate::listener::{Door, Joined};
use crate::message::{Hello, Message, Welcome};
use crate::secret::{Certificate, Token};
use crate::watched::Watched;
use crate::wire::{Receiver, Sender};

/// Maximum silence, which is longer than a handshake may take.
const SILENCE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Faults of the network in one direction of a connection.
#[derive(Debug, Clone, Copy)]
struct Fault {
    /// Maximum number of bytes that arrive at once, and the time before each of these parts.
    part: usize,
    delay: Duration,
    /// Number of bytes after which the network swallows everything in both directions, the ends of
    /// the streams included.
    swallows_after: usize,
    /// Age of the connection from which the network swallows everything in this direction.
    swallows_from: Duration,
    /// Number of bytes after which the network closes the direction.
    closes_after: usize,
}

const NONE: Fault = Fault {
    part: usize::MAX,
    delay: Duration::from_millis(20),
    swallows_after: usize::MAX,
    swallows_from: Duration::MAX,
    closes_after: usize::MAX,
};

/// Passes bytes from `from` to `to`, and counts them in `passed`. The flag `dead` is true once the
/// network swallows both directions.
async fn relay(
    (mut from, mut to): (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>),
    fault: Fault,
    passed: Arc<AtomicUsize>,
    dead: Arc<AtomicBool>,
) {
    let swallows = |begun: Instant| {
        dead.fetch_or(passed.load(Ordering::Relaxed) >= fault.swallows_after, Ordering::Relaxed);
        dead.load(Ordering::Relaxed) || begun.elapsed() >= fault.swallows_from
    };
    let begun = Instant::now();
    let mut buffer = vec![0; 16 << 10];
    while passed.load(Ordering::Relaxed) < fault.closes_after {
        let before = passed.load(Ordering::Relaxed);
        let part = buffer.len().min(fault.part).min(fault.closes_after - before);
        let Ok(count @ 1..) = from.read(&mut buffer[..part]).await else { break };
        sleep(fault.delay).await;
        let left = if swallows(begun) { 0 } else { count.min(fault.swallows_after - before) };
        passed.store(before + count, Ordering::Relaxed);
        if to.write_all(&buffer[..left]).await.is_err() {
            break;
        }
    }
    if swallows(begun) {
        sleep(DAY * 2).await;
    }
    drop(to.shutdown().await);
}

/// Connects two streams. `up` applies to the bytes from the first end to the second one. Also returns
/// the numbers of bytes in each direction.
fn network(up: Fault, down: Fault) -> (DuplexStream, DuplexStream, [Arc<AtomicUsize>; 2]) {
    let (worker, near) = duplex(64 << 10);
    let (far, host) = duplex(64 << 10);
    let passed = [Arc::<AtomicUsize>::default(), Arc::default()];
    let dead = Arc::<AtomicBool>::default();
    let ((near_from, near_to), (far_from, far_to)) = (tokio::io::split(near), tokio::io::split(far));
    tokio::spawn(relay((near_from, far_to), up, passed[0].clone(), dead.clone()));
    tokio::spawn(relay((far_from, near_to), down, passed[1].clone(), dead));
    (worker, host, passed)
}

/// A run with its door. Each connection to it has the next of the faults, and later ones have none.
struct Run {
    door: Arc<Door>,
    joined: mpsc::Receiver<Joined>,
    tokens: Vec<Token>,
    faults: Mutex<Vec<(Fault, Fault)>>,
    /// Numbers of bytes of the first connection, in each direction.
    passed: Mutex<Option<[Arc<AtomicUsize>; 2]>>,
}

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7070))
}

fn hello() -> Hello {
    Hello { numeric_classes: vec!["portable-1".to_owned()], pid: 1, ..Hello::default() }
}

impl Run {
    fn new(places: u32, tokens: u32, faults: &[(Fault, Fault)]) -> Self {
        Self::with(places, tokens, faults, false)
    }

    /// Creates a run whose connections leave TLS if `plain` is true.
    fn with(places: u32, tokens: u32, faults: &[(Fault, Fault)], plain: bool) -> Self {
        let certificate = Certificate::new().unwrap();
        let tokens: Vec<Token> = (0..tokens).map(|number| certificate.token(number).unwrap()).collect();
        let silence_ms = u64::try_from(SILENCE.as_millis()).unwrap();
        let welcome =
            Welcome { run: "r".to_owned(), place: 0, silence_ms, numeric_class: None, peers: 0, plain };
        let (door, joined) = Door::new(&certificate, (tokens.clone(), places), welcome).unwrap();
        let faults = Mutex::new(faults.iter().rev().copied().collect());
        Self { door, joined, tokens, faults, passed: Mutex::default() }
    }

    /// Opens a connection, at whose other end the host performs its handshake.
    async fn connect(&self) -> Result<(DuplexStream, SocketAddr)> {
        let (up, down) = self.faults.lock().unwrap().pop().unwrap_or((NONE, NONE));
        let (worker, host, passed) = network(up, down);
        self.passed.lock().unwrap().get_or_insert(passed);
        let (stream, arrivals) = Watched::new(host);
        tokio::spawn(self.door.clone().let_in(stream, arrivals, peer()));
        Ok((worker, peer()))
    }

    /// Connects a worker with token `token`. Calls `waits` if no place is free.
    async fn dial(&self, token: usize, patience: Duration, waits: impl FnMut()) -> Result<Dialled> {
        dial_over(|| self.connect(), &self.tokens[token..=token], hello(), patience, waits).await
    }
}

/// Exchanges signs of life until the connection ends. Returns the error and the time until then.
async fn live(mut receiver: Receiver, mut sender: Sender) -> (Error, Duration) {
    let begun = Instant::now();
    let signs = async {
        while sender.send(&Message::Alive).await.is_ok() {
            sleep(SILENCE / SIGNS).await;
        }
        std::future::pending::<std::convert::Infallible>().await
    };
    let reading = async {
        loop {
            match receiver.next().await {
                Ok((message, _)) => assert_eq!(message, Message::Alive),
                Err(error) => return error,
            }
        }
    };
    tokio::select! {
        error = reading => (error, begun.elapsed()),
        never = signs => match never {},
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_lives_for_a_day_and_ends_after_one_silence() {
    // The network swallows both directions, or only the one to the host.
    for both in [true, false] {
        let up = Fault { swallows_from: DAY, ..NONE };
        let down = if both { up } else { NONE };
        let mut run = Run::new(1, 1, &[(up, down)]);
        let begun = Instant::now();
        let dialled = run.dial(0, SILENCE, || panic!("it waits")).await.unwrap();
        let joined = run.joined.recv().await.unwrap();
        let worker = live(dialled.receiver, dialled.sender);
        let host = async { (live(joined.receiver, joined.sender).await.0, begun.elapsed()) };
        let ((from_worker, _), (from_host, ended)) = tokio::join!(worker, host);
        assert!(matches!(from_host, Error::Silent(_)), "{from_host}");
        // Silence counts from the latest byte, which has arrived at most one sign before.
        let noticed = ended - DAY;
        assert!(noticed <= SILENCE && noticed + SILENCE / SIGNS * 2 > SILENCE, "{noticed:?}");
        // The worker hears the end of the stream if its direction still works.
        assert_eq!(matches!(from_worker, Error::Silent(_)), both, "{from_worker}");
    }
}

/// Returns the two halves of a connection without TLS, from a sender to a receiver.
fn halves(fault: Fault) -> (Sender, Receiver) {
    let (from, to, _) = network(fault, NONE);
    let (stream, arrivals) = Watched::new(to);
    let (reading, writing) = tokio::io::split(stream);
    // The connection is open as long as both of its halves are.
    std::mem::forget(writing);
    (Sender::new(from), Receiver::new(reading, arrivals, (MESSAGE_BYTES, SILENCE)))
}

fn task() -> Message {
    Message::Task { number: 7, frame: Bytes::from(vec![3; 100]) }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_cut_off_or_swallowed_after_any_byte_is_an_error() {
    let (start, body) = task().encode().unwrap();
    let length = start.len() + body.len();
    for count in 0..=length {
        let (mut sender, mut receiver) = halves(Fault { closes_after: count, ..NONE });
        drop(sender.send(&task()).await);
        let received = receiver.next().await;
        match count {
            0 => assert!(matches!(received, Err(Error::Closed)), "{received:?}"),
            _ if count == length => assert_eq!(received.unwrap().0, task()),
            _ => assert!(matches!(received, Err(Error::Message { .. })), "byte {count}: {received:?}"),
        }
        let (mut sender, mut receiver) = halves(Fault { swallows_after: count, ..NONE });
        sender.send(&task()).await.unwrap();
        let begun = Instant::now();
        let received = receiver.next().await;
        let elapsed = begun.elapsed();
        if count == length {
            assert_eq!(received.unwrap().0, task());
        } else {
            assert!(matches!(received, Err(Error::Silent(_))), "byte {count}: {received:?}");
            assert!(elapsed >= SILENCE && elapsed <= SILENCE + NONE.delay * 2, "{elapsed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_is_not_silent_and_a_dropped_future_loses_no_byte() {
    let slow = Fault { part: 1, delay: SILENCE / 10 * 9, ..NONE };
    let (mut sender, mut receiver) = halves(slow);
    sender.send(&task()).await.unwrap();
    let begun = Instant::now();
    // The caller asks again and again, each time for less than the time of a byte.
    let received = loop {
        match timeout(SILENCE / 2, receiver.next()).await {
            Ok(received) => break received,
            Err(_) => assert!(begun.elapsed() < DAY),
        }
    };
    assert_eq!(received.unwrap().0, task());
    assert!(begun.elapsed() > SILENCE * 100, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_first_byte_or_without_a_proof_ends_in_time() {
    let mut run = Run::new(1, 1, &[]);
    for (bytes, wanted) in [(&b""[..], FIRST_BYTE), (&[22, 3, 1, 2, 0, 1, 9][..], HANDSHAKE)] {
        let (mut stream, _) = run.connect().await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let begun = Instant::now();
        let ended = timeout(HANDSHAKE * 2, stream.read_u8()).await.unwrap();
        assert!(ended.is_err());
        let elapsed = begun.elapsed();
        assert!(elapsed >= wanted && elapsed <= wanted + NONE.delay * 4, "{elapsed:?}");
    }
    assert_eq!(run.door.refusals.strangers.load(Ordering::Relaxed), 2);
    assert!(run.joined.try_recv().is_err());
}

/// Wherever the handshake is cut off or swallowed, and in whichever direction, the worker dials again
/// and has a place. If the host has seated the lost connection, the worker waits for one silence.
#[tokio::test(start_paused = true)]
async fn a_worker_whose_handshake_is_interrupted_at_any_byte_gets_its_place() {
    interrupt_at_any_byte(false).await;
}

/// The message with which a worker leaves TLS may be lost too.
#[tokio::test(start_paused = true)]
async fn a_host_without_tls_whose_handshake_is_interrupted_at_any_byte_gets_its_place() {
    interrupt_at_any_byte(true).await;
}

async fn interrupt_at_any_byte(plain: bool) {
    let lengths = {
        let mut run = Run::with(1, 1, &[], plain);
        let _dialled = run.dial(0, SILENCE, || {}).await.unwrap();
        let _joined = run.joined.recv().await.unwrap();
        let passed = run.passed.lock().unwrap().clone().unwrap();
        passed.map(|passed| passed.load(Ordering::Relaxed))
    };
    assert!(lengths.iter().all(|length| *length > 300), "{lengths:?}");
    let (mut waited, mut cases) = (0, 0);
    for (direction, length) in lengths.into_iter().enumerate() {
        for count in (0..length).step_by(23) {
            for swallows in [true, false] {
                let fault = match swallows {
                    true => Fault { swallows_after: count, ..NONE },
                    false => Fault { closes_after: count, ..NONE },
                };
                let faults = if direction == 0 { (fault, NONE) } else { (NONE, fault) };
                let mut run = Run::with(1, 1, &[faults], plain);
                let begun = Instant::now();
                // The host drops a connection that is silent or has ended. It reports one that lives.
                let (lives, mut alive) = mpsc::channel(1);
                let mut joined = std::mem::replace(&mut run.joined, mpsc::channel(1).1);
                let host = async {
                    let mut connections = tokio::task::JoinSet::new();
                    while let Some(Joined { seat, receiver, sender, .. }) = joined.recv().await {
                        let lives = lives.clone();
                        connections.spawn(async move {
                            if timeout(SILENCE * 3, live(receiver, sender)).await.is_err() {
                                let _ = lives.send(seat.index).await;
                            }
                            drop(seat);
                        });
                    }
                };
                let worker = async {
                    loop {
                        let dialled = run.dial(0, SILENCE * 2, || waited += 1).await;
                        let Dialled { receiver, sender, .. } =
                            dialled.unwrap_or_else(|error| panic!("{direction} {count} {swallows}: {error}"));
                        let took = begun.elapsed();
                        assert!(took <= HANDSHAKE + SILENCE * 2, "{direction} {count} {swallows}: {took:?}");
                        live(receiver, sender).await;
                    }
                };
                let place = tokio::select! {
                    place = alive.recv() => place,
                    () = host => None,
                    () = worker => None,
                };
                assert_eq!(place, Some(0), "{direction} {count} {swallows}");
                cases += 1;
            }
        }
    }
    println!("{cases} interruptions; the worker has waited {waited} times");
    // A connection that leaves TLS has its place only after the worker has answered the welcome.
    assert!(plain || waited > 0, "no interruption followed the proof");
}

#[tokio::test(start_paused = true)]
async fn a_spare_waits_for_a_day_and_replaces_a_worker_that_falls_silent() {
    let up = Fault { swallows_from: DAY, ..NONE };
    let mut run = Run::new(1, 2, &[(up, NONE)]);
    let first = run.dial(0, SILENCE, || panic!("it waits")).await.unwrap();
    let joined = run.joined.recv().await.unwrap();
    let worker = tokio::spawn(live(first.receiver, first.sender));
    let host = tokio::spawn(async move {
        let ended = live(joined.receiver, joined.sender).await;
        drop(joined.seat);
        (ended, Instant::now())
    });
    let mut waits = 0;
    let spare = run.dial(1, SILENCE, || waits += 1).await.unwrap();
    let seated = Instant::now();
    let ((error, lived), ended) = host.await.unwrap();
    assert!(matches!(error, Error::Silent(_)) && lived > DAY, "{error}: {lived:?}");
    assert!(seated - ended < Duration::from_secs(1), "{:?}", seated - ended);
    assert_eq!((spare.welcome.place, waits), (0, 1));
    let joined = run.joined.recv().await.unwrap();
    assert_eq!((joined.seat.index, joined.seat.token), (0, 1));
    // The first worker hears that its connection has ended.
    assert!(matches!(worker.await.unwrap().0, Error::Closed));
}

#[tokio::test(start_paused = true)]
async fn workers_with_copies_of_all_tokens_take_different_ones() {
    let mut run = Run::new(2, 3, &[]);
    let mut joined = std::mem::replace(&mut run.joined, mpsc::channel(1).1);
    // All of them try the tokens in the same order.
    let dial = async |waits: &AtomicUsize| {
        let waits = || waits.store(waits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let dialled = dial_over(|| run.connect(), &run.tokens, hello(), SILENCE, waits).await.unwrap();
        (dialled.token, dialled.welcome.place, dialled)
    };
    let waits = [const { AtomicUsize::new(0) }; 4];
    let (first, second) = tokio::join!(dial(&waits[0]), dial(&waits[1]));
    let mut admitted = [(first.0, first.1), (second.0, second.1)];
    admitted.sort_unstable();
    assert_eq!(admitted, [(0, 0), (1, 1)]);
    // The third waits with the third token. The fourth finds all tokens in use, and then waits with
    // the one that has become free.
    let (spare, fourth) = (dial(&waits[2]), dial(&waits[3]));
    let host = async {
        let (one, other) = (joined.recv().await.unwrap(), joined.recv().await.unwrap());
        sleep(SILENCE).await;
        drop(one);
        let spare = joined.recv().await.unwrap();
        assert_eq!((spare.seat.token, spare.seat.index), (2, 0));
        sleep(SILENCE).await;
        drop(other);
        (spare, joined.recv().await.unwrap())
    };
    let (spare, fourth, (_, last)) = tokio::join!(spare, fourth, host);
    assert_eq!((spare.0, spare.1, fourth.1, last.seat.index), (2, 0, 1, 1));
    assert_eq!(waits.map(|waits| waits.into_inner()), [0, 0, 1, 2]);
}
