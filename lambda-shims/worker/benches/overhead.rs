//! Benchmark of the cost of an invocation around its kernel, and of a cold start.
//!
//! `cargo bench -p eciton-worker` starts the real `bootstrap` behind a Runtime API. Next to it, it
//! starts a function that returns its event (this program itself). It prints medians of the time
//! from the first byte of the event to the last byte of the answer. *Overhead* is the worker's time
//! minus the kernel's time, and minus the echo's time for the same event. Then it runs a task
//! within this process, whose input comes from a store that is as slow as the kernel. The input is
//! either streamed, or fetched completely first. `cargo test` runs the benchmark with tiny numbers.
//! `ECITON_BOOTSTRAP` names another binary to measure, such as `target/worker/bootstrap`.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/suite/process/api.rs"]
mod api;
#[path = "../tests/suite/fixture/mod.rs"]
mod fixture;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Instance;
use eciton_kernel::Kind;
use eciton_kernel::wire::{Answer, Encoding};
use eciton_transport::{Carrier, Invocation, Reply};
use fixture::paced::PacedStore;
use fixture::{Case, Fixture, Shape, package, trusted};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;

/// Environment variable that makes this program the function that returns its event.
const ECHO: &str = "ECITON_ECHO";

fn main() {
    if std::env::var_os(ECHO).is_some() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let echo = service_fn(|event: LambdaEvent<Box<RawValue>>| async move {
            Ok::<_, lambda_runtime::Error>(event.payload)
        });
        // Runs until the Runtime API is gone.
        let _ = tokio.block_on(lambda_runtime::run(echo));
        return;
    }
    // A test runner such as cargo-nextest asks for the list of tests.
    let asked = |flag: &str| std::env::args().any(|a| a == flag);
    if asked("--list") || asked("--ignored") {
        if !asked("--ignored") {
            println!("overhead: test");
        }
        return;
    }
    let full = asked("--bench");
    let (starts, rounds) = if full { (21, 301) } else { (1, 3) };
    let given = std::env::var_os("ECITON_BOOTSTRAP");
    let bootstrap = given.as_deref().map_or(Path::new(env!("CARGO_BIN_EXE_bootstrap")), Path::new);
    let own = std::env::current_exe().unwrap();
    let (root, _) = package(&["linear", "head"]);
    let (key, root) = (trusted().to_string(), root.path().display().to_string());
    let environment = [("ECITON_SIGNING_KEY", key.as_str()), ("LAMBDA_TASK_ROOT", root.as_str())];

    let case = Case::new(Shape::linear(Kind::Forward, 64, 16, 16));
    let small = case.inline(case.frame(Encoding::F32)).to_json().unwrap();
    let mut cold: Vec<Duration> = (0..starts)
        .map(|_| {
            let begun = Instant::now();
            let mut instance = Instance::start(bootstrap, &environment);
            assert!(instance.invoke(&small).ok);
            begun.elapsed()
        })
        .collect();
    println!("cold start, process start to first answer: {} ({starts} starts)", spread(&mut cold));

    let mut worker = Instance::start(bootstrap, &environment);
    let mut echo = Instance::start(&own, &[(ECHO, "1")]);
    assert!(worker.invoke(&small).ok && echo.invoke(&small).ok);
    println!(
        "{:>12} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "event bytes", "answer bytes", "worker us", "kernel us", "echo us", "overhead us"
    );
    for (rows, columns) in [(64, 16), (1000, 64), (4000, 64), (12_000, 64)] {
        let case = Case::new(Shape::linear(Kind::Forward, rows, columns, 16));
        let event = Invocation { answer_key: None, ..case.inline(case.frame(Encoding::F32)) };
        let event = event.to_json().unwrap();
        let rounds = if rows > 4000 { rounds / 3 } else { rounds };
        let (mut whole, mut kernel, mut echoed, mut over) = (vec![], vec![], vec![], vec![]);
        let mut answered = 0;
        for round in 0..rounds + 2 {
            let (ours, theirs) = (worker.invoke(&event), echo.invoke(&event));
            assert!(ours.ok && theirs.ok && theirs.body == event);
            answered = ours.body.len();
            let Carrier::Inline(frame) = Reply::from_json(&ours.body).unwrap().frame else { panic!() };
            let answer = Answer::parse(frame.to_vec()).unwrap();
            let computed = Duration::from_micros(answer.meta().times.compute_us);
            if round < 2 {
                continue;
            }
            whole.push(ours.took);
            kernel.push(computed);
            echoed.push(theirs.took);
            over.push(ours.took.saturating_sub(computed + theirs.took));
        }
        let us = |times: &mut Vec<Duration>| median(times).as_micros();
        println!(
            "{:>12} {:>12} {:>10} {:>10} {:>10} {:>10}",
            event.len(),
            answered,
            us(&mut whole),
            us(&mut kernel),
            us(&mut echoed),
            us(&mut over)
        );
    }
    println!(
        "memory of the worker at most: {} KiB; of the echo: {} KiB",
        worker.status("VmHWM"),
        echo.status("VmHWM")
    );
    drop((worker, echo));
    if full {
        streaming(12_000, 1024, 5);
    } else {
        streaming(600, 4, 1);
    }
}

/// Measures the same task streamed and not streamed, with a store that is as slow as the kernel.
fn streaming(rows: usize, features: u32, rounds: usize) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let store = Arc::new(PacedStore::new());
        let own = store.clone();
        let fixture = Fixture::with(|s| s.store = Some(own));
        let case = Case::new(Shape::linear(Kind::Forward, rows, 256, features));
        let frame = case.frame(Encoding::F32);
        let bytes = frame.len() as u64;
        let wanted = case.direct();
        let mut computed = Vec::new();
        for _ in 0..rounds {
            let event = case.stored(&*store, frame.clone(), false).await;
            store.forget(&case.answer_key()).await;
            let answer = fixture::read(fixture.ask(&event).await.unwrap(), &*store).await;
            computed.push(Duration::from_micros(answer.meta().times.compute_us));
        }
        let compute = median(&mut computed);
        for stream in [true, false] {
            let mut took = Vec::new();
            for _ in 0..rounds {
                let event = case.stored(&*store, frame.clone(), stream).await;
                let event = Invocation { max_inline_bytes: 0, ..event };
                store.forget(&case.answer_key()).await;
                store.pace((bytes as f64 / compute.as_secs_f64()) as u64);
                let begun = Instant::now();
                let reply = fixture.ask(&event).await.unwrap();
                let whole = begun.elapsed();
                store.pace(0);
                // Without the time to send the answer, which is not part of the measurement.
                let send_us = reply.send_us;
                let answer = fixture::read(reply, &*store).await;
                let answering = Duration::from_micros(answer.meta().times.encode_us + send_us);
                took.push(whole.saturating_sub(answering));
                assert_eq!(case.read(answer).0, wanted);
            }
            let took = median(&mut took);
            println!(
                "{bytes} bytes, kernel {compute:?}, fetch the same, {}: {took:?}, {:.2} of it",
                if stream { "streamed" } else { "fetched first" },
                took.as_secs_f64() / compute.as_secs_f64()
            );
        }
    });
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn spread(times: &mut [Duration]) -> String {
    let middle = median(times);
    format!("median {middle:?}, least {:?}, most {:?}", times[0], times[times.len() - 1])
}
