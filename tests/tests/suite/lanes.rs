//! Pipelines on lanes of this machine: however a network is cut, replicated and scheduled, one version of the
//! weights gives the same bits; two versions give those of the rule that says which.

use eciton_recipe::Config;
use eciton_tests::{options, train};

/// A perceptron of six layers over the digits, a batch of 1,024.
fn config(settings: &[&str]) -> Config {
    let text = "[data]\nsource = \"digits\"\n[model]\nkind = \"mlp\"\nlayers = 6\nhidden = 24\ndropout = 0.1\n\
                [batch]\nrows = 1024\n[run]\nepochs = 2\neval_every = 0\n[optimiser]\nlr = 0.003\n";
    let mut config = Config::parse(text, "lanes.toml").unwrap();
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

fn digest(settings: &[&str]) -> String {
    let config = config(settings);
    config.check().unwrap();
    train(&config, &options()).unwrap_or_else(|error| panic!("{settings:?}: {error}")).0.model_digest
}

#[test]
fn every_cut_replica_and_order_of_one_version_ends_with_the_same_bits() {
    let wanted = digest(&[]);
    assert_ne!(digest(&["run.seed=1"]), wanted);
    for depth in 1..=4 {
        for width in 1..=2 {
            for micro in [1, 2, 4, 8].into_iter().filter(|micro| micro % width == 0) {
                for order in ["forward-first", "backward-first"] {
                    let settings = [
                        format!("lanes.count={}", depth * width),
                        format!("lanes.width={width}"),
                        format!("batch.micro={micro}"),
                        format!("lanes.order={order}"),
                    ];
                    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
                    assert_eq!(digest(&settings), wanted, "{settings:?}");
                }
            }
        }
    }
    for other in [
        &["lanes.count=3", "lanes.cut=[0,1,5]", "batch.micro=4"][..],
        &["lanes.count=4", "lanes.cap=1", "batch.micro=4"],
        &["lanes.count=4", "batch.micro=4", "run.threads=1"],
    ] {
        assert_eq!(digest(other), wanted, "{other:?}");
    }
}

/// Observer that records the number of floating-point operations of each epoch.
#[derive(Default)]
struct Flops(Vec<u64>);

impl eciton_train::Observer for Flops {
    fn epoch(&mut self, report: &eciton_train::EpochReport) {
        self.0.push(report.flops);
    }
}

#[test]
fn fused_stages_of_lanes_count_the_operations_of_all_their_stages() {
    let of = |settings: &[&str]| {
        let mut flops = Flops::default();
        eciton_train::train(&config(settings), &options(), &mut flops).unwrap();
        flops.0
    };
    let wanted = of(&["batch.micro=4"]);
    assert!(wanted.len() == 2 && wanted[0] > 0);
    assert_eq!(of(&["batch.micro=4", "lanes.count=3"]), wanted);
}

#[test]
fn interleaved_lanes_end_with_the_bits_of_one_lane() {
    let wanted = digest(&["lanes.count=1"]);
    for (depth, chunks) in [(1, 2), (2, 2), (2, 3), (3, 2)] {
        for (width, micro) in [(1, 1), (1, 4), (1, 8), (2, 2), (2, 8)] {
            let settings = [
                format!("lanes.count={}", depth * width),
                format!("lanes.width={width}"),
                format!("lanes.chunks={chunks}"),
                format!("batch.micro={micro}"),
                "lanes.order=interleaved".to_owned(),
            ];
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            assert_eq!(digest(&settings), wanted, "{settings:?}");
        }
    }
    let cut = ["lanes.count=2", "lanes.order=interleaved", "lanes.cut=[0,1,2,4]", "batch.micro=4"];
    assert_eq!(digest(&cut), wanted, "{cut:?}");
}

#[test]
fn lanes_that_compute_rows_again_end_with_the_same_bits() {
    for order in ["forward-first", "backward-first", "interleaved"] {
        let order = format!("lanes.order={order}");
        let base = ["lanes.count=3", "batch.micro=8", &order];
        let wanted = digest(&base);
        for recompute in ["[0]", "[1]", "[0,1,2]"] {
            let recompute = format!("lanes.recompute={recompute}");
            let settings = [&base[..], &[&recompute]].concat();
            assert_eq!(digest(&settings), wanted, "{settings:?}");
        }
        let wide = ["lanes.count=6", "lanes.width=2", "batch.micro=8", &order, "lanes.recompute=[0,1]"];
        assert_eq!(digest(&wide), wanted, "{wide:?}");
    }
    let two = ["lanes.count=3", "batch.micro=4", "pipeline.weights=2bw"];
    assert_eq!(digest(&[&two[..], &["lanes.recompute=[0,1,2]"]].concat()), digest(&two));
}

#[test]
fn norms_over_the_rows_of_a_micro_batch_have_the_bits_of_a_run_without_lanes() {
    for norm in ["model.norm=batch", "model.norm=pair"] {
        for base in [&["batch.micro=1"][..], &["batch.micro=4"], &["batch.micro=4", "pipeline.weights=2bw"]] {
            let with = |more: &[&str]| digest(&[&[norm], base, more].concat());
            let wanted = with(&[]);
            assert_ne!(wanted, digest(&[&["model.norm=layer"], base].concat()));
            for lanes in [
                &["lanes.count=1"][..],
                &["lanes.count=3"],
                &["lanes.count=3", "lanes.order=forward-first"],
                &["lanes.count=2", "lanes.order=interleaved"],
            ] {
                assert_eq!(with(lanes), wanted, "{norm} {base:?} {lanes:?}");
            }
        }
    }
}

#[test]
fn two_versions_are_one_rule_for_every_cut() {
    let two = ["pipeline.weights=2bw", "batch.micro=4"];
    let with = |more: &[&str]| digest(&[&two[..], more].concat());
    let wanted = with(&[]);
    assert_ne!(wanted, digest(&["batch.micro=4"]));
    for other in [
        &["lanes.count=1"][..],
        &["lanes.count=4"],
        &["lanes.count=4", "lanes.width=2"],
        &["lanes.count=3"],
        &["lanes.count=3", "lanes.order=interleaved"],
    ] {
        assert_eq!(with(other), wanted, "{other:?}");
    }
}

#[test]
fn lanes_that_cannot_be_are_refused_in_words() {
    let refused = |settings: &[&str]| {
        let config = config(settings);
        let checked = config.check().map_err(|error| error.to_string());
        checked.and_then(|()| train(&config, &options()).map(drop).map_err(|e| e.to_string())).unwrap_err()
    };
    for (settings, part) in [
        (&["lanes.count=4", "lanes.width=3"][..], "a divisor of lanes.count"),
        (&["lanes.width=2"], "set the number of lanes"),
        (&["lanes.count=2", "lanes.cut=[0,3,4]"], "the first layer of each lane"),
        (&["lanes.count=2", "lanes.cut=[3,4]"], "the first layer of each lane"),
        (&["lanes.count=64"], "use fewer lanes"),
        (&["lanes.count=2", "lanes.recompute=[2]"], "list lanes of one replica"),
        (&["lanes.count=2", "lanes.chunks=2"], "lanes.order = \"interleaved\""),
        (&["lanes.count=2", "lanes.order=interleaved", "lanes.chunks=1"], "lanes.chunks to at least 2"),
        (&["lanes.count=2", "lanes.order=interleaved", "lanes.cap=3"], "remove lanes.cap"),
        (&["lanes.count=2", "lanes.order=interleaved", "lanes.cut=[0,3]"], "the first layer of each run"),
        (&["lanes.count=4", "lanes.order=interleaved", "lanes.chunks=3"], "use fewer lanes or chunks"),
        (&["lanes.count=2", "executor.fuse=auto"], "remove executor.fuse"),
        (&["lanes.count=2", "executor.kind=loopback"], "lanes run on threads or on workers"),
        (&["lanes.count=2", "pipeline.mode=sync"], "lanes exchange rows of one round"),
        (
            &["lanes.count=2", "data.source=cora", "model.kind=gcn", "batch.sampler=neighbours"],
            "models without a graph",
        ),
    ] {
        let found = refused(settings);
        assert!(found.contains(part), "{settings:?}: {found}");
    }
}
