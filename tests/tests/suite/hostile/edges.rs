//! Edge kernels that fail, misbehave or lie, as layers of a model's own.

use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Config, Mode, ModelSettings};
use eciton_tests::{options, test_kernel, train};

use super::{SHORT, assert_says, config, refused};

/// Cora through a layer of 8 columns along edges, between two products.
fn along(kernel: &str) -> Config {
    let mut config = config(&test_kernel(kernel));
    config.kernels.clear();
    let path = test_kernel(kernel).display().to_string();
    let text = format!(
        "hidden = 8\n[[layers]]\nkernel = \"linear\"\nactivation = \"tanh\"\n[[layers]]\nkernel = \"{path}\"\n\
         width = 8\non = \"edges\"\n[[layers]]\nkernel = \"linear\"\n"
    );
    config.model = ModelSettings::parse(&text, "model").unwrap();
    config
}

fn fails(kernel: &str, words: &[&str]) {
    let text = refused(along(kernel));
    eprintln!("{kernel}: {text}");
    // The folder of this repository is in the kernel's own name here, and nowhere else.
    let path = test_kernel(kernel).display().to_string();
    assert_says(&text.replace(&path, "KERNEL"), &["KERNEL"]);
    assert_says(&text.replace(&path, "KERNEL"), words);
}

#[test]
fn an_edge_kernel_of_ones_own_trains_to_the_same_bits_everywhere() {
    let mut wanted = None;
    for (intervals, threads, mode, kind) in [
        (1, 1, Mode::Pipe, ExecutorKind::Local),
        (5, 2, Mode::Pipe, ExecutorKind::Local),
        (64, 2, Mode::Sync, ExecutorKind::Local),
        (3, 2, Mode::Pipe, ExecutorKind::Loopback),
    ] {
        let mut config = along("edge-plain");
        (config.run.epochs, config.run.intervals, config.run.threads) = (10, Some(intervals), Some(threads));
        (config.pipeline.mode, config.executor.kind) = (mode, kind);
        let (summary, losses) = train(&config, &options()).unwrap();
        assert!(losses[9] < losses[0], "{losses:?}");
        let found = (summary.model_digest, losses);
        assert_eq!(*wanted.get_or_insert(found.clone()), found, "{intervals} intervals, {mode:?}");
    }
}

#[test]
fn edge_kernels_that_panic_are_quoted() {
    fails("edge-trapping", &["round 1", "trapped in forward", "src/edges.rs:", "the test kernel panics on"]);
    let words =
        ["round 1", "trapped in backward-sources", "src/edges.rs:", "the test kernel panics in backward"];
    fails("edge-trapping-sources", &words);
}

#[test]
fn edge_kernels_that_never_return_are_ended() {
    let mut config = along("edge-looping");
    config.limits.task_ms = Some(SHORT);
    let text = refused(config);
    assert_says(
        &text.replace(env!("CARGO_MANIFEST_DIR"), ""),
        &["round 1", "forward", "limit task-time", "300 ms"],
    );
}

#[test]
fn promises_of_edge_kernels_are_kept_or_named() {
    fails("edge-unwritten", &["round 1", "forward", "output 0: rows", "were never written"]);
    fails("edge-unwritten-sum", &["round 1", "backward-targets", "output 2: it was never written"]);
    fails("edge-keeping", &["round 1", "forward", "still holds 1 handles"]);
    fails("edge-wrong-shape", &["round 1", "forward", "inner: y", "8]"]);
    fails("edge-wrong-signature", &["[9]", "[8]"]);
}

#[test]
fn not_a_number_in_an_edge_kernel_stops_the_run() {
    let text = refused(along("edge-nan"));
    assert_says(&text.replace(env!("CARGO_MANIFEST_DIR"), ""), &["loss", "NaN"]);
}

#[test]
fn a_kernel_of_the_other_kind_is_refused() {
    let path = test_kernel("edge-plain").display().to_string();
    let mut config = along("edge-plain");
    let text = format!(
        "[[layers]]\nkernel = \"linear\"\nwidth = 8\n[[layers]]\nkernel = \"{path}\"\nwidth = 8\n[[layers]]\nkernel = \"linear\"\n"
    );
    config.model = ModelSettings::parse(&text, "model").unwrap();
    let text = refused(config);
    eprintln!("{text}");
    assert_says(
        &text.replace(env!("CARGO_MANIFEST_DIR"), ""),
        &["edge", "source and target", "on = \"edges\""],
    );
}
