//! Tests with hostile clients, which send garbage, too much, too slowly, too often or nothing. Each
//! gets a typed refusal or a closed connection within the limits, and the services continue.
//!
//! `ECITON_FUZZ_SECONDS=600 cargo test --release -p eciton-emulator --test suite hostile::fuzz --
//! --nocapture` fuzzes for ten minutes; `ECITON_FUZZ_SEED` repeats a run.

use crate::common::raw::{Random, Reply, address, connect, exchange, read_reply, signed, signed_head};
use crate::common::{invoke, lambda, settings, soon, start};
use eciton_emulator::{Emulator, Settings};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns settings with short deadlines, so that slow clients are disconnected within the time of
/// a test.
fn strict() -> Settings {
    Settings {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        connections: 16,
        ..settings()
    }
}

/// Returns the addresses of Lambda and S3, and of the Runtime API and S3 of one worker.
async fn doors(emulator: &Emulator) -> [(&'static str, SocketAddr); 4] {
    let variables = invoke(&lambda(emulator), r#"{"do":"environment"}"#).await.json();
    let variable = |name: &str| address(variables[name].as_str().unwrap());
    [
        ("lambda", address(&emulator.endpoint())),
        ("s3", address(&emulator.s3_endpoint())),
        ("runtime", variable("AWS_LAMBDA_RUNTIME_API")),
        ("worker's s3", variable("AWS_ENDPOINT_URL_S3")),
    ]
}

/// Performs an exchange on a thread of its own.
async fn send(at: SocketAddr, bytes: Vec<u8>) -> Option<Reply> {
    tokio::task::spawn_blocking(move || exchange(at, &bytes, PATIENCE))
        .await
        .unwrap()
        .expect("neither an answer nor an end of the connection in time")
}

async fn still_works(emulator: &Emulator) {
    assert_eq!(invoke(&lambda(emulator), "[1]").await.text(), "[1]");
    let reply = send(address(&emulator.s3_endpoint()), signed("s3", "PUT", "/eciton/still-works", &[], b"x"))
        .await
        .unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_oversized_heads() {
    let emulator = start(strict()).await;
    for (door, at) in doors(&emulator).await {
        for garbage in [
            &b"\0\xff\xfe nonsense\r\n\r\n"[..],
            b"GET\r\n\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"GET / HTTP/9.9\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let reply = send(at, garbage.to_vec()).await;
            assert!(
                reply.as_ref().is_none_or(|reply| (400..=505).contains(&reply.status)),
                "{door}: {reply:?}"
            );
        }
        let many: String = (0..1000).map(|at| format!("x-{at}: y\r\n")).collect();
        for head in [
            format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "y".repeat(200_000)),
            format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(200_000)),
            format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"),
        ] {
            let reply = send(at, head.into_bytes()).await;
            assert!(
                reply.as_ref().is_none_or(|reply| matches!(reply.status, 414 | 431)),
                "{door}: {reply:?}"
            );
        }
        let reply =
            send(at, b"GET /2015-03-31/functions HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()).await.unwrap();
        assert!(matches!(reply.status, 403 | 404), "{door}: {reply:?}");
    }
    still_works(&emulator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_and_slow_requests() {
    let emulator = start(strict()).await;
    let [(_, lambda_at), (_, s3_at), (_, runtime_at), _] = doors(&emulator).await;
    let whole =
        |service: &str, target: &str, method: &str| signed(service, method, target, &[], &vec![b'1'; 1000]);
    let requests = [
        (
            lambda_at,
            whole("lambda", "/2015-03-31/functions/echo/invocations", "POST"),
            "invalidrequestcontentexception",
            "requesttimeoutexception",
        ),
        (s3_at, whole("s3", "/eciton/truncated", "PUT"), "incompletebody", "requesttimeout"),
        (
            runtime_at,
            b"POST /2018-06-01/runtime/init/error HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n1111"
                .to_vec(),
            "badrequest",
            "requesttimeout",
        ),
    ];
    let trial = async |(at, request, broken, slow): (SocketAddr, Vec<u8>, &'static str, &'static str)| {
        // Truncated, with the sending side closed.
        let cut = request[..request.len() - 3].to_vec();
        if let Some(reply) = send(at, cut.clone()).await {
            let text = (reply.head.clone() + &reply.text()).to_lowercase();
            assert!((400..500).contains(&reply.status) && text.contains(broken), "{reply:?}");
        }
        // Truncated, with the connection open. The deadline of the body passes.
        let reply = tokio::task::spawn_blocking(move || {
            let mut stream = connect(at, PATIENCE);
            stream.write_all(&cut).unwrap();
            let begun = Instant::now();
            (read_reply(&mut stream).unwrap().unwrap(), begun.elapsed())
        });
        let (reply, took) = reply.await.unwrap();
        let text = (reply.head.clone() + &reply.text()).to_lowercase();
        assert!((400..500).contains(&reply.status) && text.contains(slow), "{reply:?}");
        assert!((Duration::from_millis(250)..Duration::from_secs(3)).contains(&took), "{took:?}");
        // One byte now and then. The deadline of the whole body passes, which is ten times as long.
        let drip = tokio::task::spawn_blocking(move || {
            let mut stream = connect(at, PATIENCE);
            let head = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            stream.write_all(&request[..head]).unwrap();
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE && stream.write_all(b"1").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                if stream.read(&mut [0; 1000]).is_ok() {
                    break;
                }
            }
            begun.elapsed()
        });
        let took = drip.await.unwrap();
        assert!((Duration::from_secs(2)..Duration::from_secs(8)).contains(&took), "{took:?}");
    };
    // The services wait at the same time.
    let [first, second, third] = requests;
    tokio::join!(trial(first), trial(second), trial(third));
    assert_eq!(
        send(s3_at, signed("s3", "GET", "/eciton/truncated", &[], b"")).await.unwrap().status,
        404,
        "nothing half-written is kept"
    );
    still_works(&emulator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_and_idle_connections_are_closed_and_make_room() {
    let emulator = start(strict()).await;
    let mut waiting = Vec::new();
    for (door, at) in doors(&emulator).await {
        // Three times as many connections as are admitted. The rest wait, but not for ever.
        let streams: Vec<_> = (0..48)
            .map(|number| {
                let mut stream = connect(at, PATIENCE);
                if number % 2 == 0 {
                    stream.write_all(b"POST /x HT").unwrap();
                }
                stream
            })
            .collect();
        let begun = Instant::now();
        let closed = tokio::task::spawn_blocking(move || {
            for mut stream in streams {
                let mut rest = Vec::new();
                let end = stream.read_to_end(&mut rest);
                assert!(
                    end.is_ok()
                        || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
                    "{door}: still open"
                );
            }
        });
        waiting.push((door, begun, closed));
    }
    for (door, begun, closed) in waiting {
        closed.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(8), "{door}: {:?}", begun.elapsed());
    }
    still_works(&emulator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_bodies() {
    let emulator = start(strict()).await;
    let at = address(&emulator.endpoint());
    let body = vec![b'1'; eciton_emulator::SYNCHRONOUS_PAYLOAD_BYTES + 1];
    let reply = send(at, signed("lambda", "POST", "/2015-03-31/functions/echo/invocations", &[], &body))
        .await
        .unwrap();
    assert!(
        reply.status == 413 && reply.head.contains("x-amzn-errortype: requesttoolargeexception"),
        "{reply:?}"
    );
    assert!(
        reply.text().contains("Request must be smaller than 6291456 bytes for the InvokeFunction operation")
    );
    // A length is announced and nothing sent. No memory is allocated, and the deadline passes.
    let head = signed_head(
        "lambda",
        "POST",
        "/2015-03-31/functions/echo/invocations",
        &[("content-length", "999999999999")],
        "x",
    ) + "\r\n";
    if let Some(reply) = send(at, head.into_bytes()).await {
        assert!((400..500).contains(&reply.status), "{reply:?}");
    }
    let head =
        signed_head("s3", "PUT", "/eciton/huge", &[("content-length", "99999999999999")], "UNSIGNED-PAYLOAD")
            + "\r\n";
    let reply = send(address(&emulator.s3_endpoint()), head.into_bytes()).await.unwrap();
    assert!(reply.status == 400 && reply.text().contains("EntityTooLarge"), "{reply:?}");
    still_works(&emulator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn path_tricks() {
    let emulator = start(strict()).await;
    let (lambda_at, s3_at) = (address(&emulator.endpoint()), address(&emulator.s3_endpoint()));
    for name in
        ["..", "%2e%2e", "echo%2f..%2fecho", "%00", "%ff", "%zz", "echo;x", "a%20b", "ECHO", &"e".repeat(65)]
    {
        let reply = send(
            lambda_at,
            signed("lambda", "POST", &format!("/2015-03-31/functions/{name}/invocations"), &[], b"{}"),
        )
        .await
        .unwrap();
        assert!(matches!(reply.status, 400 | 403 | 404), "{name}: {reply:?}");
    }
    for target in [
        "/eciton/../x",
        "/eciton/%2e%2e/%2e%2e/etc/passwd",
        "/../eciton/x",
        "//eciton/x",
        "/eciton/%00",
        "/eciton/%ff%fe",
        "/eciton/%",
        "/ECITON/x",
        "/none/x",
        "/eciton?list-type=2&prefix=%00",
        "/eciton?list-type=2&continuation-token=%21",
    ] {
        let reply = send(s3_at, signed("s3", "GET", target, &[], b"")).await.unwrap();
        assert!(matches!(reply.status, 200 | 400 | 403 | 404), "{target}: {reply:?}");
        assert!(!reply.text().contains("root:"), "{target}");
    }
    assert_eq!(emulator.bill().function_errors, 0);
    still_works(&emulator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_lies() {
    let emulator = start(settings()).await;
    let [_, _, (_, at), _] = doors(&emulator).await;
    let post = |path: &str| {
        format!("POST /2018-06-01/runtime/{path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}")
            .into_bytes()
    };
    for (path, kind) in [
        ("invocation/00000000-0000-4000-8000-000000000000/response", "InvalidRequestID"),
        ("invocation/../error", "InvalidRequestID"),
        ("init/error", "InvalidStateTransition"),
        ("invocation/next", "NotFound"),
        ("restore/next", "NotFound"),
    ] {
        let reply = send(at, post(path)).await.unwrap();
        assert!((400..500).contains(&reply.status) && reply.text().contains(kind), "{path}: {reply:?}");
    }
    assert_eq!(invoke(&lambda(&emulator), "[2]").await.text(), "[2]");
}

/// Returns a valid signed request of a random kind, which is then damaged.
fn seedling(random: &mut Random, door: &str) -> Vec<u8> {
    let keys = [
        "a",
        "a/b",
        "..",
        "%00",
        "%F0%9F%98%80",
        "k?uploads",
        "k?uploadId=0&partNumber=1",
        "k?partNumber=99999&uploadId=x",
    ];
    let queries = [
        "?list-type=2",
        "?list-type=2&max-keys=-1",
        "?list-type=2&delimiter=%2F&prefix=a&max-keys=1",
        "?delete",
        "?location",
        "?versioning",
        "",
    ];
    let bodies: [&[u8]; 6] = [
        b"",
        b"{}",
        b"[1,2,3]",
        b"<Delete><Object><Key>a</Key></Object></Delete>",
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>",
        b"5;chunk-signature=0000\r\nhello\r\n0;chunk-signature=00\r\n\r\n",
    ];
    let body = random.pick(&bodies).to_vec();
    match door {
        "lambda" => {
            let targets = [
                "/2015-03-31/functions/echo/invocations",
                "/2015-03-31/functions/echo",
                "/2016-08-19/account-settings/",
                "/2015-03-31/functions/echo/invocations?Qualifier=x",
            ];
            let headers: [&[(&str, &str)]; 4] = [
                &[],
                &[("x-amz-log-type", "Tail")],
                &[("x-amz-invocation-type", "DryRun")],
                &[("x-amz-invocation-type", "?")],
            ];
            signed(
                "lambda",
                random.pick(&["POST", "GET", "PUT"]),
                random.pick(&targets),
                random.pick(&headers),
                &body,
            )
        }
        "runtime" => {
            let paths = ["invocation/x/response", "invocation/x/error", "init/error", "invocation/", ""];
            format!(
                "POST /2018-06-01/runtime/{} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
                random.pick(&paths),
                body.len()
            )
            .into_bytes()
            .into_iter()
            .chain(body)
            .collect()
        }
        _ => {
            let target = if random.below(2) == 0 {
                format!("/eciton/{}", random.pick(&keys))
            } else {
                format!("/eciton{}", random.pick(&queries))
            };
            let headers: [&[(&str, &str)]; 7] = [
                &[],
                &[("if-none-match", "*")],
                &[("range", "bytes=5-1")],
                &[("range", "bytes=-99999999999999999999")],
                &[("x-amz-checksum-crc32", "AAAA")],
                &[("x-amz-decoded-content-length", "5"), ("content-encoding", "aws-chunked")],
                &[("transfer-encoding", "chunked")],
            ];
            signed(
                "s3",
                random.pick(&["PUT", "GET", "HEAD", "POST", "DELETE"]),
                &target,
                random.pick(&headers),
                &body,
            )
        }
    }
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            4 => {
                let piece: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + random.below(200)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fuzz() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = variable("ECITON_FUZZ_SECONDS").unwrap_or(3);
    let seed = variable("ECITON_FUZZ_SEED").unwrap_or(20_261_121);
    println!("fuzz: seed {seed}, {seconds} s");
    let emulator = start(strict()).await;
    let doors = doors(&emulator).await;
    let end = Instant::now() + Duration::from_secs(seconds);
    let threads: Vec<_> = doors
        .into_iter()
        .enumerate()
        .map(|(number, (door, at))| {
            tokio::task::spawn_blocking(move || {
                let mut random = Random(seed ^ (number as u64) << 32);
                let (mut sent, mut answered, mut fine) = (0_u64, 0_u64, 0_u64);
                while Instant::now() < end {
                    let mut bytes = seedling(&mut random, door);
                    damage(&mut random, &mut bytes);
                    let shown = String::from_utf8_lossy(&bytes).into_owned();
                    let reply = exchange(at, &bytes, PATIENCE).unwrap_or_else(|error| {
                        panic!("{door}, seed {seed}, request {sent}: {error}\n{shown}")
                    });
                    sent += 1;
                    if let Some(reply) = reply {
                        answered += 1;
                        fine += u64::from(reply.status < 300);
                        // Status 500 would be a failure of the service, and 501 is a call that is
                        // not emulated.
                        assert!(
                            reply.status != 500 && reply.status < 504,
                            "{door}, seed {seed}, request {sent}: {reply:?}\n{shown}"
                        );
                    }
                }
                println!("fuzz: {door}: {sent} requests, {answered} answered, {fine} of them served");
                assert!(sent > 20 && answered > sent / 3, "{door}: {sent} sent, {answered} answered");
            })
        })
        .collect();
    for thread in threads {
        thread.await.unwrap();
    }
    soon("all work is done", || emulator.instances().iter().all(|instance| !instance.busy)).await;
    still_works(&emulator).await;
    assert_eq!(emulator.bill().crashes, 0);
}
