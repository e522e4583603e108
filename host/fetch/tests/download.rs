//! Tests of downloads against a local server that fails in all ways in which a server can fail.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use eciton_fetch::cache::{Cache, Outcome};
use eciton_fetch::catalogue::{File, Set};
use eciton_fetch::download::{Limits, Origin, fetch};
use eciton_fetch::error::Error;
use eciton_fetch::local;

/// Data set of two files, which contain `abc` and `hello` with a line end (`printf abc |
/// sha256sum`).
static SET: Set = Set {
    name: "tiny",
    description: "two files",
    layout: "none",
    folder: "tiny-folder",
    member: Some("tiny"),
    base: "http://localhost:1/base/",
    licence: "none",
    citation: "nobody",
    files: &[
        File {
            name: "a.bin",
            path: "x/a",
            bytes: 3,
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        },
        File {
            name: "b.txt",
            path: "y/b",
            bytes: 6,
            sha256: "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        },
    ],
};
const A: &[u8] = b"abc";
const B: &[u8] = b"hello\n";

/// Action of the test server for one request.
#[derive(Clone)]
enum Act {
    /// Sends a status, further header lines, and a body with its true length.
    Answer(u16, String, Vec<u8>),
    /// Sends the body that belongs to the requested file.
    Asked(&'static [(&'static str, &'static [u8])]),
    /// Announces this length, sends these bytes, and closes the connection.
    Short(usize, Vec<u8>),
    /// Sends a body without a length, which ends when the connection is closed.
    Unmeasured(Vec<u8>),
    /// Sends the header and these bytes, and then nothing until the client gives up.
    Silent(Vec<u8>),
    /// Sends zeros without end and without a length.
    Endless,
    /// Sends one byte after another without end, each within the time limit of silence.
    Trickle,
    /// Closes the connection without an answer.
    HangUp,
    /// Sends bytes that are not HTTP.
    Nonsense,
}

fn ok(body: &[u8]) -> Act {
    Act::Answer(200, String::new(), body.to_vec())
}

struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    closed: Receiver<()>,
}

/// Starts a server that performs one act per request, on separate connections, and ends after the
/// last.
fn serve(acts: Vec<Act>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (done, closed) = channel();
    let seen = asked.clone();
    std::thread::spawn(move || {
        for act in acts {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split_whitespace().nth(1).unwrap_or("").to_owned();
            let act = match act {
                Act::Asked(files) => ok(files.iter().find(|(name, _)| path.ends_with(name)).unwrap().1),
                other => other,
            };
            seen.lock().unwrap().push(path);
            while line.trim_end() != "" {
                line.clear();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    break;
                }
            }
            perform(&act, stream);
        }
        drop(done);
    });
    Server { url, asked, closed }
}

fn perform(act: &Act, mut stream: TcpStream) {
    // A client that went away is no failure of the server.
    let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
    match act {
        Act::Answer(status, headers, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            send(head.as_bytes());
            send(body);
        }
        Act::Asked(_) => unreachable!("the server has looked which it is"),
        Act::Short(length, body) => {
            send(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
                    .as_bytes(),
            );
            send(body);
        }
        Act::Unmeasured(body) => {
            send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            send(body);
        }
        Act::Silent(body) => {
            send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
            send(body);
            // Until the client gives up.
            let _ = stream.read(&mut [0; 64]);
        }
        Act::Endless => {
            send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            while send(&[0; 4096]) {}
        }
        Act::Trickle => {
            send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nX-Slow: ");
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut gone = [0];
            // The client's end is seen as a read of nothing.
            while !matches!(stream.read(&mut gone), Ok(0)) {
                if stream.write_all(b"x").is_err() {
                    break;
                }
            }
        }
        Act::HangUp => {}
        Act::Nonsense => {
            send(b"220 mail.example ready\r\n");
        }
    }
}

fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(5),
        silence: Duration::from_millis(300),
        file: Duration::from_secs(5),
        pause: Duration::ZERO,
        proxy: false,
        ..Limits::default()
    }
}

struct Ran {
    outcome: Result<Vec<Outcome>, Error>,
    asked: Vec<String>,
    names: Vec<String>,
    cache: Cache,
    _folder: tempfile::TempDir,
}

fn run(acts: Vec<Act>) -> Ran {
    run_with(acts, &limits())
}

fn run_with(acts: Vec<Act>, limits: &Limits) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("data"));
    let server = serve(acts);
    let mut told = Vec::new();
    let origin = Origin::Mirror(format!("{}/", server.url));
    let outcome = fetch(&SET, &cache, &origin, limits, &mut |_, outcome| told.push(outcome)).map(|()| told);
    let asked = server.asked.lock().unwrap().clone();
    let names = names(&cache);
    Ran { outcome, asked, names, cache, _folder: folder }
}

fn names(cache: &Cache) -> Vec<String> {
    let listed = std::fs::read_dir(cache.folder().join("tiny-folder"));
    let mut names: Vec<String> =
        listed.into_iter().flatten().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn right_files_arrive_and_are_not_asked_for_again() {
    let ran = run(vec![ok(A), ok(B)]);
    assert_eq!(ran.outcome.unwrap(), [Outcome::Brought; 2]);
    assert_eq!(ran.asked, ["/tiny-folder/a.bin", "/tiny-folder/b.txt"]);
    assert_eq!(ran.names, ["a.bin", "b.txt"]);
    assert_eq!(std::fs::read(ran.cache.place(&SET, &SET.files[1])).unwrap(), B);
    let found = ran.cache.find(&SET).unwrap();
    assert_eq!((found.path, found.name), (ran.cache.folder().join("tiny-folder"), Some("tiny")));
    // Nothing listens at this address any more, and nothing is asked.
    let mut told = Vec::new();
    let nobody = Origin::Mirror("http://127.0.0.1:1".to_owned());
    fetch(&SET, &ran.cache, &nobody, &limits(), &mut |file, outcome| told.push((file.name, outcome)))
        .unwrap();
    assert_eq!(told, [("a.bin", Outcome::Present), ("b.txt", Outcome::Present)]);
}

#[test]
fn a_length_is_not_needed() {
    let ran = run(vec![Act::Unmeasured(A.to_vec()), Act::Unmeasured(B.to_vec())]);
    assert_eq!(ran.outcome.unwrap().len(), 2);
}

#[test]
fn another_file_is_refused_at_once_and_leaves_nothing() {
    for (act, expected) in [
        (ok(b"abd"), "SHA-256"),
        (Act::Unmeasured(b"abd".to_vec()), "SHA-256"),
        (ok(b"abcd"), "4 bytes, but a.bin has 3"),
        (ok(b"ab"), "2 bytes, but a.bin has 3"),
        (Act::Unmeasured(b"abcdefg".to_vec()), "4 bytes, but a.bin has 3"),
        (Act::Unmeasured(b"ab".to_vec()), "2 bytes, but a.bin has 3"),
        (Act::Endless, "4 bytes, but a.bin has 3"),
    ] {
        let ran = run(vec![act]);
        let error = ran.outcome.unwrap_err();
        let said = error.to_string();
        assert!(said.contains(expected) && said.contains("/tiny-folder/a.bin"), "{said}");
        assert!(!error.is_retryable());
        assert_eq!((ran.asked.len(), ran.names.len()), (1, 0));
    }
}

#[test]
fn what_is_not_there_is_said_with_the_way_out() {
    let ran = run(vec![ok(A), Act::Answer(404, String::new(), b"not found".to_vec())]);
    let error = ran.outcome.unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, Error::Status { status: 404, attempts: 1, .. }), "{said}");
    assert!(
        said.contains("/tiny-folder/b.txt") && said.contains("eciton data fetch tiny --from FOLDER"),
        "{said}"
    );
    // What came before stays, and is not asked for again.
    assert_eq!(ran.names, ["a.bin"]);
    let server = serve(vec![ok(B)]);
    fetch(&SET, &ran.cache, &Origin::Mirror(server.url), &limits(), &mut |_, _| ()).unwrap();
    assert!(ran.cache.find(&SET).is_some());
}

#[test]
fn troubles_that_pass_are_tried_again() {
    for trouble in [
        Act::Answer(500, String::new(), b"oops".to_vec()),
        Act::Answer(503, String::new(), Vec::new()),
        Act::Answer(429, String::new(), Vec::new()),
        Act::Short(3, b"ab".to_vec()),
        Act::Silent(b"ab".to_vec()),
        Act::HangUp,
        Act::Nonsense,
    ] {
        let ran = run(vec![trouble.clone(), trouble, ok(A), ok(B)]);
        assert_eq!(ran.outcome.unwrap().len(), 2);
        assert_eq!(ran.asked.len(), 4);
        assert_eq!(ran.names, ["a.bin", "b.txt"]);
    }
}

#[test]
fn troubles_that_stay_end() {
    let cases = [
        (Act::Answer(500, String::new(), Vec::new()), "answered 500 (3 attempt(s))"),
        (Act::Short(3, b"a".to_vec()), "the transfer broke off"),
        (Act::Silent(Vec::new()), "3 attempt(s)"),
        (Act::HangUp, "3 attempt(s)"),
    ];
    for (trouble, expected) in cases {
        let ran = run(vec![trouble; 3]);
        let said = ran.outcome.unwrap_err().to_string();
        assert!(said.contains(expected) && said.contains("--from FOLDER"), "{said}");
        assert_eq!((ran.asked.len(), ran.names.len()), (3, 0));
    }
}

#[test]
fn a_body_without_end_in_time_is_given_up() {
    let limits = Limits { file: Duration::from_millis(400), attempts: 2, ..limits() };
    let start = Instant::now();
    let ran = run_with(vec![Act::Trickle, Act::Trickle], &limits);
    let said = ran.outcome.unwrap_err().to_string();
    assert!(said.contains("timeout") && said.contains("2 attempt(s)"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(ran.names.is_empty());
}

#[test]
fn redirections_are_followed_but_not_for_ever() {
    let to = |place: &str| Act::Answer(302, format!("Location: {place}\r\n"), Vec::new());
    let ran = run(vec![to("/elsewhere"), to("again?x=1"), ok(A), ok(B)]);
    assert_eq!(ran.outcome.unwrap().len(), 2);
    assert_eq!(ran.asked[1..3], ["/elsewhere", "/again?x=1"]);
    let limits = Limits { redirects: 3, attempts: 1, ..limits() };
    let ran = run_with(vec![to("/loop"); 4], &limits);
    assert!(ran.outcome.unwrap_err().to_string().contains("redirect"));
    // To where nobody answers.
    let ran = run(vec![to("http://127.0.0.1:1/x"), to("http://127.0.0.1:1/x"), to("http://127.0.0.1:1/x")]);
    assert!(matches!(ran.outcome.unwrap_err(), Error::Unreachable { attempts: 3, .. }));
}

#[test]
fn no_network_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let limits = Limits { attempts: 2, ..limits() };
    for origin in [Origin::Published, Origin::Mirror("http://no-such-host.invalid".to_owned())] {
        let error = fetch(&SET, &cache, &origin, &limits, &mut |_, _| ()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("http://") && said.contains("eciton data fetch tiny --from FOLDER"), "{said}");
        assert!(error.is_retryable() && names(&cache).is_empty());
    }
    for wrong in ["", "ftp://a", "http://", "http://a b", "a/b"] {
        let origin = Origin::Mirror(wrong.to_owned());
        let error = fetch(&SET, &cache, &origin, &limits, &mut |_, _| ()).unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{wrong}: {error}");
    }
}

#[test]
fn a_damaged_file_in_the_cache_is_replaced() {
    let ran = run(vec![ok(A), ok(B)]);
    std::fs::write(ran.cache.place(&SET, &SET.files[0]), b"abx").unwrap();
    let server = serve(vec![ok(A)]);
    let mut told = Vec::new();
    let origin = Origin::Mirror(server.url);
    fetch(&SET, &ran.cache, &origin, &limits(), &mut |_, outcome| told.push(outcome)).unwrap();
    assert_eq!(told, [Outcome::Brought, Outcome::Present]);
    assert_eq!(std::fs::read(ran.cache.place(&SET, &SET.files[0])).unwrap(), A);
    assert!(server.closed.recv().is_err());
}

#[test]
fn fetches_at_the_same_time_do_not_clash() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    // Who finds the first file brought by another asks for the second one first.
    let either = || Act::Asked(&[("a.bin", A), ("b.txt", B)]);
    let servers: Vec<Server> = (0..8).map(|_| serve(vec![either(), either()])).collect();
    let start = std::sync::Barrier::new(servers.len());
    std::thread::scope(|scope| {
        for server in &servers {
            let (origin, start, cache) = (Origin::Mirror(server.url.clone()), &start, &cache);
            scope.spawn(move || {
                start.wait();
                fetch(&SET, cache, &origin, &limits(), &mut |_, _| ()).unwrap();
            });
        }
    });
    assert_eq!(names(&cache), ["a.bin", "b.txt"]);
    assert!(SET.files.iter().all(|file| cache.holds(&SET, file).unwrap()));
}

#[test]
fn folders_of_ones_own_are_checked_too() {
    let own = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path());
    let mut told = Vec::new();
    let mut bring =
        || local::fetch(&SET, &cache, own.path(), &mut |file, outcome| told.push((file.name, outcome)));
    std::fs::write(own.path().join("a.bin"), A).unwrap();
    let said = bring().unwrap_err().to_string();
    assert!(said.contains("neither b.txt nor tiny-folder/b.txt") && said.contains("/base/y/b"), "{said}");
    std::fs::create_dir(own.path().join("tiny-folder")).unwrap();
    std::fs::write(own.path().join("tiny-folder/b.txt"), b"hallo\n").unwrap();
    let said = bring().unwrap_err().to_string();
    assert!(said.contains("SHA-256") && said.contains("b.txt"), "{said}");
    std::fs::write(own.path().join("tiny-folder/b.txt"), B).unwrap();
    bring().unwrap();
    assert_eq!(told.last(), Some(&("b.txt", Outcome::Brought)));
    assert_eq!(names(&cache), ["a.bin", "b.txt"]);
}
