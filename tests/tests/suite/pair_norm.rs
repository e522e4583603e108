//! PairNorm end to end: one model for any cut, asynchronous runs, resumed runs, deep models.
//! The comparison with the oracle is in `models.rs`.
use std::sync::Arc;

use eciton_recipe::{Config, Mode};
use eciton_tests::{cora, options, train};
use eciton_train::{Ask, EpochReport, Observer, Options, Silent, Stop};

fn deep(norm: &str, layers: u32, epochs: u32) -> Config {
    let mut config = cora(epochs);
    config.set(&format!("model.norm={norm}")).unwrap();
    config.set(&format!("model.layers={layers}")).unwrap();
    config
}

#[test]
fn sums_over_all_rows_do_not_depend_on_the_cut() {
    let run = |intervals, threads, mode| {
        let mut config = deep("pair", 3, 8);
        (config.run.intervals, config.run.threads) = (Some(intervals), Some(threads));
        config.pipeline.mode = mode;
        let (summary, losses) = train(&config, &options()).unwrap();
        assert_eq!((summary.intervals, summary.threads), (intervals, threads));
        (summary.model_digest, losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>())
    };
    let wanted = run(1, 1, Mode::Pipe);
    for (intervals, threads) in [(1, 2), (2, 1), (2, 2), (5, 1), (5, 2)] {
        for mode in [Mode::Sync, Mode::Pipe] {
            let found = run(intervals, threads, mode);
            assert_eq!(found, wanted, "{intervals} intervals, {threads} threads, {mode:?}");
        }
    }
}

#[test]
fn an_asynchronous_run_reads_older_rows_and_learns() {
    let mut config = deep("pair", 3, 30);
    (config.run.intervals, config.run.threads) = (Some(5), Some(2));
    (config.pipeline.mode, config.pipeline.staleness) = (Mode::Async, 1);
    let (summary, losses) = train(&config, &options()).unwrap();
    assert!(summary.rows_by_age.is_some());
    assert!(losses[29] < losses[0], "{losses:?}");
}

/// Asks the run to leave after an epoch.
struct Leaves(Arc<Stop>, u32);

impl Observer for Leaves {
    fn epoch(&mut self, report: &EpochReport) {
        if report.epoch == self.1 {
            self.0.ask(Ask::Leave);
        }
    }
}

#[test]
fn a_resumed_run_ends_as_one_that_was_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut config = deep("pair", 3, 12);
    (config.run.intervals, config.run.threads) = (Some(3), Some(2));
    let stop = Arc::new(Stop::default());
    let stopping = Options { out: Some(out.clone()), stop: stop.clone(), ..options() };
    // A run that leaves has a checkpoint and no summary.
    let _ = eciton_train::train(&config, &stopping, &mut Leaves(stop, 5));
    assert!(eciton_train::checkpoint::is_resumable(&out) && !eciton_train::is_finished(&out));
    let resumed = eciton_train::resume(&out, false, &options(), &mut Silent).unwrap();
    assert_eq!(resumed.seeds[0].epochs, 12);
    assert_eq!(resumed.model_digest, train(&config, &options()).unwrap().0.model_digest);
}

/// Eight convolutions smooth rows into one, PairNorm keeps them apart. Only training is asserted.
#[test]
fn a_deep_model_trains_with_pair_norm() {
    for norm in ["none", "pair"] {
        let (summary, losses) = train(&deep(norm, 8, 100), &options()).unwrap();
        let accuracy = summary.test_metric.unwrap();
        let (first, last) = (losses[0], losses[99]);
        println!("8 layers, norm {norm}: test accuracy {accuracy:.3}, loss {first:.3} to {last:.3}");
        assert!(losses.iter().all(|loss| loss.is_finite()), "{norm}: {losses:?}");
        assert!(norm == "none" || last < first, "{norm}: {losses:?}");
    }
}
