//! Networks between a run and a worker that fail without closing a connection.
//!
//! A proxy carries the worker's connection and fails after a number of bytes, which may be in the middle of
//! a message. It never closes a connection by itself after that. `.ci/campaign network` does the same with a
//! network namespace instead of a proxy, 50 times.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    cluster.wait_for("worker 0 was removed from the run");
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
    assert!(
        code == Some(75) && err.contains("all workers have failed, and none has connected for 1 s"),
        "{err}"
    );
    assert!(noticed < Duration::from_secs(5), "{noticed:?}");
    let (code, told) = ended(only);
    assert!(code == Some(69) && told.contains("no byte arrived for 1 s"), "{told}");
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

/// Idle connections, each of which is replaced once there are so many newer ones.
struct Strangers {
    opened: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Strangers {
    fn start(address: &str, count: usize) -> Self {
        let (opened, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (address, number, over) = (address.to_owned(), opened.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut idle = VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                idle.extend(TcpStream::connect(&address));
                if idle.len() > count {
                    idle.pop_front();
                }
                if number.fetch_add(1, Ordering::Relaxed) > count {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Self { opened, stop, thread }
    }
}

/// Returns the limit of open files of this process.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn idle_connections_of_strangers_keep_no_worker_out() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let alone = alone(folder);
    let (cluster, address) = Cluster::start(folder, &[&LANES[..], &["--workers", "2"]].concat());
    let count = open_files().saturating_sub(200).min(1000);
    assert!(count >= 300, "the limit of open files allows {count} connections; raise it to 500 (ulimit -n)");
    let strangers = Strangers::start(&address, count);
    while strangers.opened.load(Ordering::Relaxed) <= count {
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    let mut workers = [0, 1].map(|at| worker(folder, &address, &format!("worker-{at}.token"), &[]));
    for worker in &mut workers {
        let mut line = String::new();
        BufReader::new(worker.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("connected to run "), "{line}");
    }
    let admitted = begun.elapsed();
    let (code, out, err) = cluster.end();
    strangers.stop.store(true, Ordering::Relaxed);
    strangers.thread.join().unwrap();
    println!("{count} connections, admitted after {admitted:?}");
    assert!(admitted < Duration::from_secs(5), "{admitted:?}");
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(summary(&out)["seeds"], alone["seeds"]);
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
}
