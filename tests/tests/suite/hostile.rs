//! Kernels that fail, misbehave or lie: a run ends with an error that names the kernel, the place and
//! the reason; nothing panics, hangs or is left behind, and nothing steps in for a kernel that fails.
mod components;
mod edges;
mod instances;

use std::path::Path;
use std::time::{Duration, Instant};

use eciton_recipe::Config;
use eciton_tests::{cora, options, test_kernel, train};

/// How long a task may run where it is that limit which ends it, milliseconds.
const SHORT: u64 = 300;

/// Cora for three epochs with another `linear`, under tight limits. Time is ample here, so that it
/// is not what a slow machine runs into first.
fn config(kernel: &Path) -> Config {
    let mut config = cora(3);
    config.run.threads = Some(2);
    config.kernels.insert("linear".to_owned(), kernel.display().to_string());
    config.limits.task_ms = Some(20_000);
    config.limits.guest_memory_bytes = Some(64 << 20);
    config
}

/// What a run with this `linear` says. It must fail, soon, and leave nothing behind.
fn refused(config: Config) -> String {
    let (send, receive) = std::sync::mpsc::channel();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("runs/one");
    let runner = std::thread::spawn(move || {
        let options = eciton_train::Options { out: Some(out), ..options() };
        let _ = send.send(train(&config, &options).map(|(summary, _)| summary.model_digest));
    });
    let begun = Instant::now();
    let result = receive.recv_timeout(Duration::from_secs(40));
    let result = result.unwrap_or_else(|e| panic!("no answer after {:?}: {e}", begun.elapsed()));
    runner.join().unwrap();
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    result.expect_err("the run must fail").to_string()
}

/// Fails unless the words are all there.
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "a path of the builder's machine: {text}");
}

fn fails(kernel: &str, words: &[&str]) {
    fails_under(kernel, config(&test_kernel(kernel)), words);
}

/// A kernel that never returns.
fn is_ended(kernel: &str, words: &[&str]) {
    let mut config = config(&test_kernel(kernel));
    config.limits.task_ms = Some(SHORT);
    fails_under(kernel, config, words);
}

fn fails_under(kernel: &str, config: Config, words: &[&str]) {
    let text = refused(config);
    eprintln!("{kernel}: {text}");
    assert_says(&text, &["kernel `linear`"]);
    assert_says(&text, words);
}

#[test]
fn a_panic_is_quoted_with_its_line() {
    fails("trapping", &["round 1", "trapped in forward", "src/forward.rs:", "the test kernel panics on"]);
    fails(
        "trapping-backward",
        &["round 1", "trapped in backward", "src/lib.rs:", "the test kernel panics in backward"],
    );
}

#[test]
fn a_typed_error_is_passed_on() {
    fails("error", &["round 1", "forward", "kernel error: the test kernel does not want to"]);
}

#[test]
fn endless_loops_are_ended() {
    is_ended("looping", &["round 1", "trapped in forward", "limit task-time", "300 ms"]);
    is_ended("logging", &["forward", "300 ms"]);
}

#[test]
fn an_endless_loop_before_the_run_is_ended() {
    is_ended("looping-open", &["trapped in open", "limit task-time", "300 ms"]);
}

#[test]
fn endless_recursion_is_ended() {
    fails("recursing", &["round 1", "trapped in forward", "limit stack", "recursion"]);
}

#[test]
fn limits_are_named_with_both_figures() {
    fails("allocating", &["round 1", "forward", "limit guest-memory", "67108864 allowed"]);
    fails("handles", &["round 1", "forward", "handles: 4097 handles asked for, 4096 allowed"]);
    let mut few = config(&test_kernel("scratch"));
    few.limits.matrix_bytes = Some(20 << 20);
    let text = refused(few);
    let words = ["kernel `linear`", "forward", "matrix-bytes: 33554432 bytes asked for, 20971520 allowed"];
    assert_says(&text, &words);
    let mut little = config(&test_kernel("wrong-shape"));
    little.kernels.clear();
    little.limits.call_work = Some(10_000);
    assert_says(&refused(little), &["kernel `linear`", "forward", "call-work", "10000 allowed"]);
}

#[test]
fn the_limit_on_bytes_copied_is_named() {
    let mut little = config(&test_kernel("nan"));
    little.limits.call_bytes = Some(10_000);
    let text = refused(little);
    eprintln!("{text}");
    assert_says(&text, &["kernel `linear`", "forward", "call-bytes", "10000"]);
}

#[test]
fn a_guest_memory_smaller_than_the_kernel_asks_for_is_named() {
    let mut config = config(&test_kernel("doubled"));
    config.limits.guest_memory_bytes = Some(128 << 10);
    let text = refused(config);
    eprintln!("{text}");
    // Whichever kernel comes first.
    assert_says(&text, &["kernel `", "memory", "1114112"]);
}

#[test]
fn shapes_are_named() {
    fails(
        "wrong-shape",
        &["round 1", "forward", "shape error: linear: w has extents [1433, 16], expected [16, 16]"],
    );
    fails("wrong-signature", &["outputs", "17", "16"]);
}

#[test]
fn broken_promises_are_named() {
    fails("unwritten", &["round 1", "forward", "never written"]);
    fails("keeping", &["round 1", "forward", "still holds 1 handles"]);
}

/// Before the first task, so that its warm instance does not begin with a handle that is none.
#[test]
fn a_matrix_that_open_keeps_is_noticed() {
    fails("keeping-open", &["open", "still holds 1 handles"]);
}

#[test]
fn nan_ends_the_run() {
    let text = refused(config(&test_kernel("nan")));
    let place = "the first such value is NaN in layer 0 (counted from 0), kernel `linear` (";
    let rest = ["nan.wasm), forward, row 0, column 0", "eciton kernel check ", "rows of zeros"];
    // The path is the one that was typed.
    for word in ["epoch 1", "the loss is NaN", place].iter().chain(&rest) {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

#[test]
fn nothing_steps_in_for_a_kernel() {
    // Another kernel, another loss: it is the component that computes.
    let (plain, curve) = train(&cora(3), &options()).unwrap();
    let (doubled, other) = train(&config(&test_kernel("doubled")), &options()).unwrap();
    assert!(curve.iter().zip(&other).all(|(a, b)| a.to_bits() != b.to_bits()), "{curve:?} {other:?}");
    assert_ne!(plain.model_digest, doubled.model_digest);
    // A kernel that fails, on every cut and with fresh instances, fails the run.
    for (threads, intervals, fresh_instances) in [(1, 1, false), (2, 16, false), (2, 4, true)] {
        let mut config = config(&test_kernel("trapping"));
        (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
        let options = eciton_train::Options { fresh_instances, ..options() };
        let text = train(&config, &options).unwrap_err().to_string();
        assert_says(&text, &["kernel `linear`", "forward", "the test kernel panics"]);
    }
}

#[test]
fn a_failed_run_leaves_no_trace_in_the_process() {
    let (before, curve) = train(&cora(3), &options()).unwrap();
    for kernel in ["trapping", "allocating", "recursing", "keeping", "wrong-shape"] {
        refused(config(&test_kernel(kernel)));
        let (after, again) = train(&cora(3), &options()).unwrap();
        assert_eq!(after.model_digest, before.model_digest, "after {kernel}");
        assert_eq!(again, curve, "after {kernel}");
    }
}
