//! Networks between a run and a worker that fail without closing a connection.
//!
//! A proxy carries the worker's connection and fails after a number of bytes, which may be in the middle of
//! a message. It never closes a connection by itself after that. `.ci/campaign network` does the same with a
//! network namespace instead of a proxy, 50 times.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::works;
use crate::workers::{Cluster, DIGITS, ended, lost, summary, worker};

/// Failure of a network.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// Accepts all bytes and delivers none.
    Swallow,
    /// Delivers one byte after each pause.
    Trickle(Duration),
}

/// A proxy whose first connection fails once it has carried a number of bytes.
struct Proxy {
    address: String,
    /// The time of the failure.
    failed: Arc<OnceLock<Instant>>,
}

impl Proxy {
    fn start(to: &str, after: u64, failure: Failure) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let failed = Arc::new(OnceLock::new());
        let (to, failed_at) = (to.to_owned(), failed.clone());
        std::thread::spawn(move || {
            for (number, worker) in (0..).zip(listener.incoming()) {
                let Ok(host) = TcpStream::connect(&to) else { return };
                let worker = worker.unwrap();
                let carried = Arc::new(AtomicU64::new(0));
                // Connections after the first one stay whole.
                let after = if number == 0 { after } else { u64::MAX };
                let back = (host.try_clone().unwrap(), worker.try_clone().unwrap());
                for (from, to) in [(worker, host), back] {
                    let (carried, failed) = (carried.clone(), failed_at.clone());
                    std::thread::spawn(move || carry(from, to, (&carried, after), failure, &failed));
                }
            }
        });
        Self { address, failed }
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    (carried, after): (&AtomicU64, u64),
    failure: Failure,
    failed: &OnceLock<Instant>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let before = carried.fetch_add(count as u64, Ordering::Relaxed);
        let whole = after.saturating_sub(before).min(count as u64) as usize;
        if to.write_all(&buffer[..whole]).is_err() {
            return;
        }
        if whole == count {
            continue;
        }
        failed.get_or_init(Instant::now);
        if let Failure::Trickle(pause) = failure {
            for byte in &buffer[whole..count] {
                std::thread::sleep(pause);
                if to.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    }
    if failed.get().is_none() {
        drop(to.shutdown(Shutdown::Write));
    }
}

const LANES: [&str; 4] = ["--epochs", "2", "--lanes", "2"];

/// Runs two workers, of which the first is connected by a failing network. Returns the summary, and the
/// time from the failure to the report of the worker's end.
fn disturbed(after: u64, failure: Failure, settings: &[&str]) -> (Value, Duration) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let line: Vec<&str> = LANES.into_iter().chain(["--workers", "2"]).chain(settings).collect();
    let (mut cluster, address) = Cluster::start(folder, &line);
    let proxy = Proxy::start(&address, after, failure);
    let mut first = worker(folder, &proxy.address, "worker-0.token", &[]);
    let second = worker(folder, &address, "worker-1.token", &[]);
    cluster.wait_for("worker at place 0 is gone");
    let noticed = proxy.failed.get().unwrap().elapsed();
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{after} {failure:?}: {err}");
    // The proxy never ends its connection.
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(ended(second).0, Some(0), "{after} {failure:?}");
    (summary(&out), noticed)
}

fn alone(folder: &Path) -> Value {
    summary(&works(folder, &[&DIGITS[..], &LANES].concat()))
}

#[test]
fn a_network_that_swallows_everything_is_noticed_wherever_it_begins() {
    let place = tempfile::tempdir().unwrap();
    let alone = alone(place.path());
    let whole = summary(&works(place.path(), &[&DIGITS[..], &LANES, &["--workers", "2"]].concat()));
    let traffic = &whole["workers"]["places"][0];
    let all = traffic["bytes_in"].as_u64().unwrap() + traffic["bytes_out"].as_u64().unwrap();
    std::thread::scope(|scope| {
        for (eighth, owner) in [(1, "host"), (3, "worker"), (5, "host"), (7, "host")] {
            let alone = &alone;
            scope.spawn(move || {
                let owner = format!("workers.owner={owner}");
                let after = all * eighth / 8;
                let settings = ["workers.silence_ms=2000", &owner];
                let (found, noticed) = disturbed(after, Failure::Swallow, &settings);
                assert!(noticed < Duration::from_secs(4), "{after} {owner}: {noticed:?}");
                assert_eq!(found["seeds"], alone["seeds"], "{after} {owner}");
                assert!(lost(&found) > 0, "{after} {owner}: {found}");
            });
        }
    });
}

#[test]
fn an_answer_that_trickles_in_is_overdue_although_the_connection_is_not_silent() {
    let place = tempfile::tempdir().unwrap();
    let settings = ["workers.silence_ms=1000", "workers.answer_s=2"];
    let (found, noticed) = disturbed(200_000, Failure::Trickle(Duration::from_millis(100)), &settings);
    assert!((1..4).contains(&noticed.as_secs()), "{noticed:?}");
    assert_eq!(found["seeds"], alone(place.path())["seeds"]);
}

#[test]
fn a_run_whose_only_worker_is_cut_off_ends_with_an_error_in_time() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let settings = ["--set", "workers.silence_ms=1000", "--set", "workers.wait_s=1"];
    let line = [&["--epochs", "2", "--lanes", "1", "--workers", "1"][..], &settings].concat();
    let (cluster, address) = Cluster::start(folder, &line);
    let proxy = Proxy::start(&address, 200_000, Failure::Swallow);
    let only = worker(folder, &proxy.address, "worker-0.token", &["--wait", "0"]);
    let (code, _, err) = cluster.end();
    let noticed = proxy.failed.get().unwrap().elapsed();
    assert!(code == Some(1) && err.contains("all workers have gone, and none has come for 1 s"), "{err}");
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    let (code, told) = ended(only);
    assert!(code == Some(1) && told.contains("no byte arrived for 1 s"), "{told}");
}

#[test]
fn a_worker_whose_first_dial_is_swallowed_dials_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let (cluster, address) = Cluster::start(folder, &["--epochs", "1", "--lanes", "1", "--workers", "1"]);
    let proxy = Proxy::start(&address, 300, Failure::Swallow);
    let only = worker(folder, &proxy.address, "worker-0.token", &[]);
    let (code, _, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(proxy.failed.get().is_some());
    assert_eq!(ended(only).0, Some(0));
}
