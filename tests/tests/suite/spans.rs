//! Spans: a run of stages as one task gives the bits of its stages one by one, here and in frames.

use eciton_recipe::Config;
use eciton_tests::{cora, options, train};

fn config(epochs: u32, settings: &[&str]) -> Config {
    let mut config = cora(epochs);
    config.run.threads = Some(2);
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

/// The digest of a run, and how many tasks it had.
fn run(epochs: u32, settings: &[&str]) -> (String, u64) {
    let (summary, _) = train(&config(epochs, settings), &options()).unwrap();
    (summary.model_digest, summary.tasks)
}

const PARTS: [&[&str]; 3] = [
    &["batch.sampler=neighbours", "batch.rows=50", "batch.fan_out=4", "batch.micro=2"],
    &["batch.sampler=walk", "batch.rows=600", "batch.walk_length=3"],
    &["batch.sampler=parts", "batch.micro=3", "batch.drop_edges=0.3"],
];

const MODELS: [&[&str]; 4] = [
    &["model.kind=gcn"],
    &["model.kind=sage", "run.gather_features=each-epoch"],
    &["model.kind=gin", "model.layers=3", "model.residual=true"],
    &["model.kind=appnp", "run.row_storage=bf16"],
];

#[test]
fn a_round_of_parts_is_one_task_with_the_same_bits() {
    for part in PARTS {
        for model in MODELS {
            let (wanted, many) = run(2, &[part, model].concat());
            let (found, few) = run(2, &[part, model, &["executor.fuse=auto"]].concat());
            assert_eq!(found, wanted, "{part:?} {model:?}");
            assert!(few < many, "{part:?} {model:?}: {few} tasks for {many}");
        }
    }
}

#[test]
fn runs_of_all_rows_fuse_what_reads_no_other_interval() {
    for model in MODELS.iter().chain(&[&["model.kind=gat", "model.heads=2"][..], &["model.norm=batch"]]) {
        let model = [model, &["run.intervals=3"][..]].concat();
        let (wanted, many) = run(2, &model);
        let (found, few) = run(2, &[&model[..], &["executor.fuse=auto"]].concat());
        assert_eq!(found, wanted, "{model:?}");
        assert!(few <= many, "{model:?}");
    }
}

/// Every way to cut a round of two gathers into runs, where each run has a kernel.
#[test]
fn all_cuts_give_the_same_bits() {
    let part: &[&str] = &["batch.sampler=neighbours", "batch.rows=70", "batch.fan_out=4"];
    let wanted = run(1, part).0;
    let plan = eciton_train::plan(&config(1, part), &options()).unwrap();
    let count = plan.stages.len() as u32;
    assert!((6..=9).contains(&count), "{count} stages");
    let (mut done, mut refused) = (0, 0);
    for cut in 0..1u32 << (count - 1) {
        let firsts = (0..count).filter(|&at| at == 0 || cut >> (at - 1) & 1 == 1);
        let firsts = firsts.map(|first| first.to_string()).collect::<Vec<_>>().join(", ");
        let spans = format!("executor.fuse=[{firsts}]");
        match train(&config(1, &[part, &[&spans]].concat()), &options()) {
            Ok((summary, _)) => {
                assert_eq!(summary.model_digest, wanted, "{spans}");
                done += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("executor.fuse"), "{spans}: {error}");
                refused += 1;
            }
        }
    }
    assert!(done > refused && done >= 32, "{done} cuts, {refused} refused");
}

#[test]
fn frames_of_spans_give_the_same_bits() {
    for part in PARTS {
        for model in MODELS {
            let settings = [part, model].concat();
            let wanted = run(1, &settings).0;
            let there = ["executor.kind=loopback", "executor.fuse=auto"];
            assert_eq!(run(1, &[&settings[..], &there].concat()).0, wanted, "{settings:?}");
            // Held up every third time, so that tasks are launched again.
            let late = ["emulator.straggle=0.3", "emulator.straggle_ms=60", "executor.deadline_ms=10"];
            let late = [&settings[..], &there, &late].concat();
            assert_eq!(run(1, &late).0, wanted, "{late:?}");
        }
    }
    let part = PARTS[0];
    let wanted = run(1, part).0;
    for spans in ["executor.fuse=[0, 3]", "executor.fuse=[0, 2, 5]", "executor.fuse=[0, 1]"] {
        let settings = [part, &["executor.kind=loopback", spans]].concat();
        assert_eq!(run(1, &settings).0, wanted, "{spans}");
    }
}

#[test]
fn cuts_that_cannot_be_are_refused_in_words() {
    let refused = |settings: &[&str]| {
        let error = train(&config(1, settings), &options()).map(|_| ()).unwrap_err();
        error.to_string()
    };
    let text = refused(&["executor.fuse=[1]"]);
    assert!(text.contains("in ascending order from 0"), "{text}");
    let text = refused(&["executor.fuse=[0]"]);
    assert!(text.contains("gather") && text.contains("other intervals"), "{text}");
    let text = refused(&["executor.fuse=auto", "executor.kind=loopback", "executor.rows=bf16"]);
    assert!(text.contains("run.row_storage"), "{text}");
}
