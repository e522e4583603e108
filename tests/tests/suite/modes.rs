//! Modes of the pipeline: what each may change of a result, and how stale what is read may be.
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Config, Mode, Pipeline, RowFormat, WeightVersions};
use eciton_tests::{cora, options, train, train_reports};
use eciton_train::{Options, Recording, RowsByAge};

fn with(pipeline: Pipeline, intervals: u32, threads: u32, epochs: u32) -> Config {
    let mut config = cora(epochs);
    (config.run.threads, config.run.intervals) = (Some(threads), Some(intervals));
    config.pipeline = pipeline;
    config
}

fn bits(losses: &[f64]) -> Vec<u64> {
    losses.iter().map(|loss| loss.to_bits()).collect()
}

#[test]
fn barriers_change_no_bit() {
    let run = |mode, intervals, threads| {
        let pipeline = Pipeline { mode, ..Pipeline::default() };
        let (summary, losses) = train(&with(pipeline, intervals, threads, 15), &options()).unwrap();
        assert_eq!((summary.rows_by_age, summary.intervals), (None, intervals));
        (summary.model_digest, bits(&losses))
    };
    let wanted = run(Mode::Pipe, 1, 1);
    for (intervals, threads) in [(1, 2), (3, 1), (3, 8), (16, 2), (64, 1), (64, 8)] {
        for mode in [Mode::Sync, Mode::Pipe] {
            assert_eq!(run(mode, intervals, threads), wanted, "{mode:?}, {intervals} on {threads}");
        }
    }
    // One interval has no neighbours to be ahead of.
    assert_eq!(run(Mode::Async, 1, 2), wanted);
}

/// W(t+1) = W(t) - lr grad f(W(t-1)): epochs 1 and 2 read W0, epoch 3 W1, epoch 4 W2 = W0 - 2 lr grad f(W0).
#[test]
fn two_buffered_weights_are_one_epoch_late() {
    let losses = |weights, lr: f64, intervals, mode, staleness| {
        let pipeline = Pipeline { mode, staleness, weights, ..Pipeline::default() };
        let mut config = with(pipeline, intervals, 2, 6);
        for setting in ["model.dropout=0", "optimiser.kind=sgd", "optimiser.weight_decay=0"] {
            config.set(setting).unwrap();
        }
        config.optimiser.lr = lr;
        train(&config, &options()).unwrap().1
    };
    let late = losses(Some(WeightVersions::TwoBuffered), 0.5, 1, Mode::Pipe, 0);
    let (sync, double) = (losses(None, 0.5, 1, Mode::Pipe, 0), losses(None, 1.0, 1, Mode::Pipe, 0));
    assert_eq!(bits(&late[..3]), bits(&[sync[0], sync[0], sync[1]]));
    assert!((late[3] - double[1]).abs() < 1e-6 * double[1], "{late:?}, {double:?}");
    assert!(late[5] < late[3] && late[3] < late[2], "{late:?}");
    for intervals in [4, 64] {
        let cut = losses(Some(WeightVersions::TwoBuffered), 0.5, intervals, Mode::Pipe, 0);
        assert_eq!(bits(&cut), bits(&late), "{intervals} intervals");
    }
    // A stash that one interval never has to wait for is as late.
    assert_eq!(bits(&losses(Some(WeightVersions::Stash), 0.5, 1, Mode::Async, 1)), bits(&late));
}

/// Runs one interval after the other as far as it may: nothing reads older rows than this.
fn aged(staleness: u32, synchronous_last: u32, epochs: u32) -> (Option<RowsByAge>, Vec<f64>) {
    let in_flight = Some(0);
    let pipeline = Pipeline { synchronous_last, in_flight, ..Pipeline::asynchronous(staleness) };
    let oldest = Options { newest_first: true, ..options() };
    let (summary, losses) = train(&with(pipeline, 8, 1, epochs), &oldest).unwrap();
    (summary.rows_by_age, losses)
}

#[test]
fn rows_are_as_old_as_the_bound_allows_and_no_older() {
    for staleness in [0, 1, 3] {
        let (ages, losses) = aged(staleness, 0, 60);
        let ages = ages.unwrap();
        // Of the epoch itself, and of as many as S + 1 before it.
        assert_eq!(ages.shares.len() as u32, staleness + 2, "{ages:?}");
        let oldest = ages.shares.last().unwrap();
        assert!(*oldest >= 0.05, "S = {staleness}: {ages:?}");
        let stale: f64 = ages.shares[1..].iter().sum();
        assert!(stale >= 0.2 && (staleness > 1 || ages.shares[staleness as usize] >= 0.2), "{ages:?}");
        assert!((ages.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(losses[59] < 0.75 * losses[0], "S = {staleness}: {} to {}", losses[0], losses[59]);
        assert_eq!(bits(&aged(staleness, 0, 60).1), bits(&losses), "one thread, one order");
    }
    let all = aged(2, 1_000_000, 30);
    assert_eq!(all.0, None);
    let sync = train(&with(Pipeline::default(), 8, 1, 30), &options()).unwrap();
    assert_eq!(bits(&all.1), bits(&sync.1));
}

/// Once the target is reached no row is old any more, also after a resume; before it is, rows are.
#[test]
fn a_run_goes_on_synchronously_near_its_target() {
    let run = |target: Option<f64>| {
        let pipeline = Pipeline { in_flight: Some(0), synchronous_at: target, ..Pipeline::asynchronous(2) };
        let mut config = with(pipeline, 8, 1, 60);
        config.run.eval_every = 1.into();
        let oldest = Options { newest_first: true, ..options() };
        let (summary, reports) = train_reports(&config, &oldest).unwrap();
        let stale = summary.rows_by_age.as_ref().map_or(0, |ages| ages.rows);
        (summary.seeds[0].synchronised_after, stale, reports)
    };
    let (never, all, _) = run(None);
    assert_eq!(never, None);
    let (after, some, reports) = run(Some(0.6));
    let reached = |report: &&eciton_train::EpochReport| report.metrics.unwrap().validation >= Some(0.6);
    assert_eq!(after, reports.iter().find(reached).map(|report| report.epoch));
    let share = f64::from(after.unwrap()) / 60.0;
    // Two epochs more than that may have begun.
    let most = (f64::from(after.unwrap() + 2) / 60.0 + 0.02) * all as f64;
    assert!(some > 0 && (some as f64) < most, "{some} of {all} after {share} of the run");
    assert_eq!(run(Some(1.0)).0, None, "no such accuracy");
    assert_eq!(run(Some(1.0)).1, all);
}

#[test]
fn an_asynchronous_run_is_repeated_from_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let pipeline = Pipeline { in_flight: Some(3), ..Pipeline::asynchronous(1) };
    let config = |threads, intervals| with(pipeline, intervals, threads, 15);
    let recorded =
        Options { recording: Recording { events: Some(path.clone()), ..Recording::default() }, ..options() };
    let (first, losses) = train(&config(2, 16), &recorded).unwrap();
    let repeating =
        Options { recording: Recording { replay: Some(path), ..Recording::default() }, ..options() };
    for threads in [1, 2, 4] {
        let (again, found) = train(&config(threads, 16), &repeating).unwrap();
        assert_eq!((again.model_digest, bits(&found)), (first.model_digest.clone(), bits(&losses)));
        assert_eq!(again.rows_by_age, first.rows_by_age);
    }
    // What decides the order is taken from the log where it is left out.
    let mut bare = cora(15);
    bare.run.threads = Some(3);
    let (again, found) = train(&bare, &repeating).unwrap();
    assert_eq!((again.model_digest, bits(&found)), (first.model_digest.clone(), bits(&losses)));
    assert_eq!(again.intervals, 16);
    let refused = train(&config(2, 8), &repeating).unwrap_err().to_string();
    assert!(refused.contains("run.intervals is 16 in the log, but 8 in this run"), "{refused}");
    let mut other = bare.clone();
    other.pipeline.in_flight = Some(4);
    let refused = train(&other, &repeating).unwrap_err().to_string();
    assert!(refused.contains("pipeline.in_flight is 3 in the log, but 4 in this run"), "{refused}");
}

/// Old rows are rounded rows, and are kept as such: their order and nothing else decides the bits.
#[test]
fn an_asynchronous_run_of_bfloat16_rows_is_repeated_from_its_events() {
    let folder = tempfile::tempdir().unwrap();
    for staleness in [0, 1, 3] {
        let path = folder.path().join(format!("events-{staleness}"));
        let config = |threads, rows| {
            let pipeline = Pipeline { in_flight: Some(0), ..Pipeline::asynchronous(staleness) };
            let mut config = with(pipeline, 12, threads, 20);
            config.run.row_storage = rows;
            config
        };
        let recording = Recording { events: Some(path.clone()), ..Recording::default() };
        let recorded = Options { recording, newest_first: true, ..options() };
        let (first, losses) = train(&config(2, RowFormat::Bf16), &recorded).unwrap();
        let ages = first.rows_by_age.clone().unwrap();
        assert!(ages.shares[1..].iter().sum::<f64>() > 0.2, "S = {staleness}: {ages:?}");
        let recording = Recording { replay: Some(path), ..Recording::default() };
        let repeating = Options { recording, ..options() };
        for threads in [1, 2] {
            let (again, found) = train(&config(threads, RowFormat::Bf16), &repeating).unwrap();
            let found = (&again.model_digest, bits(&found), &again.rows_by_age);
            let wanted = (&first.model_digest, bits(&losses), &first.rows_by_age);
            assert_eq!(found, wanted, "S = {staleness}, {threads} threads");
        }
        let (whole, _) = train(&config(2, RowFormat::F32), &repeating).unwrap();
        assert_ne!(whole.model_digest, first.model_digest, "S = {staleness}: rows that are not rounded");
        assert_eq!(whole.rows_by_age, first.rows_by_age);
    }
}

#[test]
fn answers_in_messages_run_apart_as_well() {
    let mut config = with(Pipeline::asynchronous(1), 6, 2, 20);
    config.executor.kind = ExecutorKind::Loopback;
    let (summary, losses) = train(&config, &options()).unwrap();
    let ages = summary.rows_by_age.unwrap();
    assert!(ages.shares.len() <= 3 && losses[19] < losses[0], "{ages:?} {losses:?}");
}

#[test]
fn a_trace_shows_every_step_and_what_intervals_wait_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let traced =
        Options { recording: Recording { trace: Some(path.clone()), ..Recording::default() }, ..options() };
    let mut config = with(Pipeline::asynchronous(1), 8, 2, 5);
    config.run.eval_every = 0.into();
    let (summary, _) = train(&config, &traced).unwrap();
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |category: &str, process: u64| {
        let is = |e: &&serde_json::Value| e["cat"] == category && e["pid"] == process;
        events.iter().filter(is).count()
    };
    // Five tensor stages and four gathers, by thread and by interval; three and two in the evaluation.
    assert_eq!((of("step", 1), of("step", 2)), (5 * 8 * 9, 5 * 8 * 9));
    assert_eq!(of("evaluation", 1), 8 * 5);
    assert_eq!(summary.tasks, 5 * 8 * 5 + 8 * 3);
    assert_eq!(of("update", 1), 5);
    let waits: Vec<_> = events.iter().filter(|e| e["cat"] == "wait").collect();
    assert!(waits.iter().all(|w| w["name"].as_str().unwrap().starts_with("waits for ")), "{waits:?}");
    assert!(!waits.is_empty());
    for event in events.iter().filter(|e| e["cat"] == "step") {
        assert!(event["dur"].as_f64().unwrap() >= 0.0 && event["ts"].as_f64().unwrap() >= 0.0);
        let age = event["args"]["oldest_rows_epochs"].as_u64();
        assert!(age.is_none_or(|age| age <= 2), "{event}");
    }
    assert!(events.iter().any(|e| e["args"]["oldest_rows_epochs"].as_u64() >= Some(1)));
}
