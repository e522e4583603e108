//! Tests of hostile peers. Whatever a stranger sends to a listener, or a listener to a worker,
//! gives a typed error in time, and delays nobody else.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{
    Certificate, Dialled, Error, Hello, Joined, Listener, Message, Token, Welcome, dial, limits,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_millis(300);

fn hello() -> Hello {
    Hello { numeric_classes: vec!["portable-1".to_owned()], pid: 1, ..Hello::default() }
}

fn welcome(silence_ms: u64) -> Welcome {
    Welcome {
        run: "r".to_owned(),
        place: 0,
        silence_ms,
        numeric_class: Some("portable-1".to_owned()),
        peers: 0,
        plain: false,
    }
}

async fn listen(places: u32, silence_ms: u64) -> (Listener, Vec<Token>) {
    let certificate = Certificate::new().unwrap();
    let tokens: Vec<Token> = (0..places).map(|place| certificate.token(place).unwrap()).collect();
    let bound = (tokens.clone(), places);
    let listener = Listener::bind("127.0.0.1:0", &certificate, bound, welcome(silence_ms)).await;
    (listener.unwrap(), tokens)
}

async fn join(listener: &mut Listener, token: &Token) -> (Joined, Dialled) {
    let address = listener.address.to_string();
    let (joined, dialled) =
        tokio::join!(listener.next(), dial(&address, std::slice::from_ref(token), hello(), PATIENCE, || {}));
    (joined.unwrap(), dialled.unwrap())
}

/// Returns pseudo-random bytes (xorshift).
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(|_| next()).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limits::HANDSHAKE * 2;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_counted_and_hold_nobody_up() {
    let (mut listener, tokens) = listen(1, 5_000).await;
    let address = listener.address;
    // Garbage, plain HTTP, half of a handshake, and no bytes at all.
    let mut open = Vec::new();
    for seed in 1..=100u64 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let bytes = match seed % 4 {
            0 => noise(seed, 4096),
            1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            2 => [&[22, 3, 1, 2, 0, 1][..], &noise(seed, 200)].concat(),
            _ => Vec::new(),
        };
        let _ = stream.write_all(&bytes).await;
        if seed % 4 == 3 {
            open.push(stream);
        }
    }
    // Silent connections are still open when a worker connects.
    let begun = Instant::now();
    let (joined, _dialled) = join(&mut listener, &tokens[0]).await;
    assert_eq!(joined.seat.index, 0);
    assert!(begun.elapsed() < limits::HANDSHAKE, "{:?}", begun.elapsed());
    let strangers = || listener.refusals.strangers.load(Ordering::Relaxed);
    until("those that sent something wrong were shown out", || strangers() >= 75).await;
    drop(open);
    until("so were those that went", || strangers() == 100).await;
    assert_eq!(listener.refusals.refused.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_strangers_keep_no_worker_out() {
    let (mut listener, tokens) = listen(4, 5_000).await;
    let mut idle = Vec::new();
    while idle.len() < 1000 {
        match TcpStream::connect(listener.address).await {
            Ok(stream) => idle.push(stream),
            Err(error) => {
                // Frees file descriptors for the workers and for the listener.
                idle.truncate(idle.len() - 2 * limits::STRANGERS_OF_ADDRESS);
                println!("{} idle strangers, not 1000: {error}", idle.len());
                break;
            }
        }
    }
    let begun = Instant::now();
    for token in &tokens {
        let (joined, _dialled) = join(&mut listener, token).await;
        assert_eq!(joined.seat.index, token.number);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let strangers = || listener.refusals.strangers.load(Ordering::Relaxed);
    until("idle strangers are dropped", || strangers() == idle.len() as u64).await;
    assert!(begun.elapsed() < limits::FIRST_BYTE + Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_for_one_worker_of_one_run_at_a_time() {
    let (mut listener, tokens) = listen(2, 5_000).await;
    let address = listener.address.to_string();
    let refused = |token: Token, hello: Hello| {
        let address = address.clone();
        async move {
            dial(&address, std::slice::from_ref(&token), hello, PATIENCE, || {})
                .await
                .unwrap_err()
                .to_string()
        }
    };
    // A worker of another run at this address, with another certificate.
    let other = Certificate::new().unwrap();
    let told = refused(other.token(0).unwrap(), hello()).await;
    assert!(told.contains("not the certificate of the token's run"), "{told}");
    // The token of worker 1 with the index of worker 0.
    let text = serde_json::to_string(&tokens[1]).unwrap().replace("\"number\":1", "\"number\":0");
    let told = refused(serde_json::from_str(&text).unwrap(), hello()).await;
    assert!(told.contains("its token is not one of this run"), "{told}");
    let text = text.replace("\"number\":0", "\"number\":4000000000");
    let told = refused(serde_json::from_str(&text).unwrap(), hello()).await;
    assert!(told.contains("its token is not one of this run"), "{told}");
    let told =
        refused(tokens[0].clone(), Hello { numeric_classes: vec!["neon-fma-1".to_owned()], ..hello() }).await;
    assert!(
        told.contains("the worker supports the numeric classes neon-fma-1, but this run uses portable-1"),
        "{told}"
    );
    let (joined, dialled) = join(&mut listener, &tokens[0]).await;
    let refusals = || listener.refusals.refused.load(Ordering::Relaxed);
    until("three hellos are refused", || refusals() == 3).await;
    // A second worker with the token waits, although a place is free, and a third one replaces it.
    let (waits, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    let another = || {
        let (address, token, waits) = (address.clone(), tokens[0].clone(), waits.clone());
        tokio::spawn(async move {
            dial(&address, std::slice::from_ref(&token), hello(), Duration::ZERO, || waits.send(()).unwrap())
                .await
        })
    };
    let second = another();
    waiting.recv().await.unwrap();
    let third = another();
    waiting.recv().await.unwrap();
    let told = second.await.unwrap().unwrap_err().to_string();
    assert!(told.contains("another worker with the same token waits"), "{told}");
    // The first worker leaves, and the third one gets its place.
    drop((joined, dialled));
    assert_eq!(listener.next().await.unwrap().seat.index, 0);
    assert_eq!(third.await.unwrap().unwrap().welcome.place, 0);
    assert_eq!(listener.refusals.refused.load(Ordering::Relaxed), 3);
}

/// Treatment of the worker's bytes after the first [`FIRST`].
#[derive(Clone, Copy)]
enum Rest {
    Passes,
    Stops,
    Trickles(Duration),
}

/// Number of bytes, more than a handshake has.
const FIRST: usize = 4096;

/// Relays bytes between a worker and a listener. Returns all bytes that the worker sent.
async fn relay(to: SocketAddr, rest: Rest) -> (SocketAddr, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (worker, _) = listener.accept().await.unwrap();
        let host = TcpStream::connect(to).await.unwrap();
        let ((mut from_worker, mut to_worker), (mut from_host, mut to_host)) =
            (worker.into_split(), host.into_split());
        let back = tokio::spawn(async move { tokio::io::copy(&mut from_host, &mut to_worker).await });
        let (mut kept, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from_worker.read(&mut part).await {
            let first = FIRST.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(&part[..count]);
            let sent = match rest {
                Rest::Passes => to_host.write_all(&part[..count]).await,
                Rest::Stops => to_host.write_all(&part[..first]).await,
                Rest::Trickles(pause) => {
                    to_host.write_all(&part[..first]).await.unwrap();
                    for byte in &part[first..count] {
                        tokio::time::sleep(pause).await;
                        to_host.write_all(&[*byte]).await.unwrap();
                    }
                    Ok(())
                }
            };
            sent.unwrap();
        }
        drop(to_host);
        let _ = back.await;
        kept
    });
    (address, task)
}

/// Connects a worker through a relay.
async fn join_by(rest: Rest, silence_ms: u64) -> (Joined, Dialled, Listener) {
    let (mut listener, tokens) = listen(1, silence_ms).await;
    let address = relay(listener.address, rest).await.0.to_string();
    let (joined, dialled) = tokio::join!(
        listener.next(),
        dial(&address, std::slice::from_ref(&tokens[0]), hello(), PATIENCE, || {})
    );
    (joined.unwrap(), dialled.unwrap(), listener)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_stops_in_the_middle_is_silence() {
    let (mut joined, mut dialled, _listener) = join_by(Rest::Stops, 300).await;
    let sent = Message::Task { number: 1, frame: noise(7, 20 << 20).into() };
    let sending = tokio::spawn(async move { dialled.sender.send(&sent).await });
    let begun = Instant::now();
    let told = joined.receiver.next().await.unwrap_err();
    assert!(matches!(told, Error::Silent(_)), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_message_is_no_silence() {
    let (mut joined, mut dialled, _listener) = join_by(Rest::Trickles(Duration::from_millis(1)), 200).await;
    // A single TLS record whose bytes take several times the silence to arrive.
    let sent = Message::Task { number: 1, frame: noise(7, FIRST + 600).into() };
    let begun = Instant::now();
    let (_, received) = tokio::join!(dialled.sender.send(&sent), joined.receiver.next());
    assert_eq!(received.unwrap().0, sent);
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_is_worth_nothing() {
    let (mut listener, tokens) = listen(1, 5_000).await;
    let (address, recorded) = relay(listener.address, Rest::Passes).await;
    let address = address.to_string();
    let (joined, dialled) = tokio::join!(
        listener.next(),
        dial(&address, std::slice::from_ref(&tokens[0]), hello(), PATIENCE, || {})
    );
    drop((joined.unwrap(), dialled.unwrap()));
    let recorded = recorded.await.unwrap();
    assert!(recorded.len() > 300, "a session and a hello: {}", recorded.len());
    let mut stream = TcpStream::connect(listener.address).await.unwrap();
    stream.write_all(&recorded).await.unwrap();
    let strangers = || listener.refusals.strangers.load(Ordering::Relaxed);
    until("a session that was recorded is another's", || strangers() == 1).await;
    let none = tokio::time::timeout(PATIENCE, listener.next()).await;
    assert!(none.is_err(), "nobody was let in: {none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_whole_and_in_order_and_silence_is_told() {
    let (mut listener, tokens) = listen(1, 300).await;
    let (mut joined, mut dialled) = join(&mut listener, &tokens[0]).await;
    let body = Bytes::from(noise(7, 5 << 20));
    let sent = Message::Task { number: 1, frame: body.clone() };
    let (bytes, received) = tokio::join!(joined.sender.send(&sent), dialled.receiver.next());
    let (message, length) = received.unwrap();
    assert_eq!((message, length), (sent, bytes.unwrap()));
    let answer = Message::Answer { number: 1, frame: body, passed: 0 };
    let (sent, received) = tokio::join!(dialled.sender.send(&answer), joined.receiver.next());
    sent.unwrap();
    assert_eq!(received.unwrap().0, answer);
    dialled.sender.send(&Message::Alive).await.unwrap();
    assert_eq!(joined.receiver.next().await.unwrap().0, Message::Alive);
    let begun = Instant::now();
    assert!(matches!(joined.receiver.next().await, Err(Error::Silent(_))));
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    drop(dialled);
    assert!(matches!(joined.receiver.next().await, Err(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_is_short_and_comes_first() {
    let (listener, tokens) = listen(1, 5_000).await;
    let address = listener.address.to_string();
    let long = Hello { numeric_classes: vec!["x".repeat(limits::STRANGER_BYTES as usize)], ..hello() };
    let told = dial(&address, std::slice::from_ref(&tokens[0]), long, PATIENCE, || {}).await.unwrap_err();
    assert!(matches!(told, Error::NoWelcome { .. } | Error::System { .. }), "{told}");
    until("it was shown out", || listener.refusals.strangers.load(Ordering::Relaxed) >= 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_trusts_nobody_but_its_run() {
    // Another program at the address: it sends garbage, or nothing, or has another certificate.
    let token = Certificate::new().unwrap().token(0).unwrap();
    for seed in 0..8u64 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(&noise(seed, 600)).await;
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
        };
        let dialled = dial(&address, std::slice::from_ref(&token), hello(), PATIENCE, || {});
        let told = tokio::select! {
            told = dialled => told.unwrap_err(),
            () = answer => panic!("seed {seed}: the worker went without a word"),
        };
        assert!(matches!(told, Error::Tls { .. }), "seed {seed}: {told}");
    }
    let nobody =
        dial("127.0.0.1:1", std::slice::from_ref(&token), hello(), Duration::ZERO, || {}).await.unwrap_err();
    assert!(matches!(nobody, Error::System { .. }), "{nobody}");
}
