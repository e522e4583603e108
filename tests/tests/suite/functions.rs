//! The same run on functions: frames, real worker processes, faults; the same weights.
//!
//! `ECITON_CAMPAIGN=200 cargo test --release -p eciton-tests --test suite functions::faults` runs the long
//! campaign; the suite runs a short one.
mod cloud;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cloud::{Cloud, Opened, Product};
use eciton_exec::{Answered, Completion, Executor as _, LocalPool, Settings, loopback};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{
    Config, EdgePlace, Executor, FunctionCount, ModelKind, Pipeline, RowFormat, Transport, VertexOrder,
};
use eciton_tensor::Buffer;
use eciton_tests::{cora, data, options, train};
use eciton_train::{EpochReport, Observer, Options, Recording, Summary};
use eciton_types::Attempt;

/// The worker that cargo built for this run of the suites.
fn worker() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found = exe.ancestors().map(|folder| folder.join("bootstrap")).find(|path| path.is_file());
    found.expect("no worker program; `cargo build --release -p eciton-worker` makes it")
}

fn on(config: &Config, kind: ExecutorKind, transport: Transport) -> Config {
    let mut config = config.clone();
    (config.executor.kind, config.executor.transport) = (kind, transport);
    config.emulator.worker = Some(worker().to_str().unwrap().to_owned());
    config
}

/// Some tests look at this process's children: one test at a time.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static CHILDREN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CHILDREN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const ALL: [Transport; 3] = [Transport::Payload, Transport::S3, Transport::Auto];

fn bits(losses: &[f64]) -> Vec<u64> {
    losses.iter().map(|loss| loss.to_bits()).collect()
}

/// All that can go wrong, and enough attempts to come through.
fn with_faults(config: &mut Config, seed: u64) {
    let emulator = std::mem::take(&mut config.emulator);
    config.emulator = eciton_recipe::Emulator {
        seed,
        crash: 0.05,
        lose: 0.025,
        corrupt: 0.05,
        double: 0.025,
        straggle: 0.1,
        straggle_ms: 150,
        throttle: 0.05,
        ..emulator
    };
    (config.executor.deadline_ms, config.executor.deadline_ratio) = (40, 4.0);
    config.limits.attempts = Some(16);
}

/// Runs, and looks at what every run on functions must keep.
fn checked(config: &Config) -> (Summary, Vec<u64>) {
    let (summary, losses) = train(config, &options()).unwrap();
    assert_eq!(summary.executor, config.executor.kind.name());
    let attempts = summary.attempts.unwrap();
    // Every step is committed once: as many as the local run has tasks.
    assert_eq!(attempts.committed + attempts.retries + attempts.relaunches, summary.tasks, "{attempts:?}");
    (summary, bits(&losses))
}

fn local(config: &Config) -> (Summary, Vec<u64>) {
    let (summary, losses) = train(config, &options()).unwrap();
    assert!(summary.attempts.is_none() && summary.bill.is_none());
    (summary, bits(&losses))
}

/// All executors and transports give the local run's bits, and one invocation a task.
fn equal_on_all(config: &Config) {
    let (wanted, losses) = local(config);
    for transport in ALL {
        for kind in [ExecutorKind::Loopback, ExecutorKind::Emulated] {
            let (found, curve) = checked(&on(config, kind, transport));
            assert_eq!(found.model_digest, wanted.model_digest, "{kind:?} {transport:?}");
            assert_eq!(curve, losses, "{kind:?} {transport:?}");
            assert_eq!(found.attempts.unwrap().committed, wanted.tasks);
            if kind == ExecutorKind::Emulated {
                let bill = found.bill.unwrap();
                assert_eq!(
                    bill.invocations, wanted.tasks,
                    "{transport:?}: one a task, as the service counts"
                );
                assert!(bill.cold_starts >= 1 && bill.billed_ms > 0 && bill.gb_seconds > 0.0, "{bill:?}");
                // Compiled kernels are fetched from the store in any case: some 350 kB.
                let by_store = transport != Transport::Payload;
                assert_eq!(bill.store_bytes_host > 600_000, by_store, "{transport:?} {bill:?}");
                let by_payload = transport != Transport::S3;
                assert_eq!(bill.bytes_to_functions > 1_000_000, by_payload, "{transport:?} {bill:?}");
            }
        }
    }
}

#[test]
fn cora_is_the_same_on_functions() {
    let _alone = alone();
    equal_on_all(&cora(4));
    let mut config = cora(2);
    config.run.intervals = Some(5);
    equal_on_all(&config);
    // Rows whose numbers are a list.
    config.run.order = VertexOrder::Rabbit;
    equal_on_all(&config);
}

#[test]
fn amazon_photo_is_the_same_on_functions() {
    let _alone = alone();
    let Some(data) = data().map(|data| data.join("graphdata-npz/amazon_photo.npz")).filter(|p| p.is_file())
    else {
        eprintln!("skipped: no graphdata-npz/amazon_photo.npz (set ECITON_DATA to the folder of data sets)");
        return;
    };
    let mut config = cora(2);
    config.data.source = data.to_str().unwrap().to_owned();
    // So many that each interval's features fit into a request.
    config.run.intervals = Some(8);
    equal_on_all(&config);
}

/// Lists and the rows that they name travel.
#[test]
fn edge_kernels_are_the_same_on_functions() {
    let _alone = alone();
    let epochs = 2;
    let mut config = cora(epochs);
    (config.model.kind, config.run.intervals) = (ModelKind::Gatv2, Some(3));
    config.run.order = VertexOrder::Rabbit;
    let (wanted, losses) = local(&config);
    config.executor.edge_kernels = EdgePlace::Functions;
    for (kind, transport) in [
        (ExecutorKind::Loopback, Transport::Payload),
        (ExecutorKind::Loopback, Transport::S3),
        (ExecutorKind::Emulated, Transport::Auto),
        (ExecutorKind::Emulated, Transport::S3),
    ] {
        let (found, curve) = checked(&on(&config, kind, transport));
        assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses), "{kind:?} {transport:?}");
        if let Some(bill) = found.bill.filter(|_| kind == ExecutorKind::Emulated) {
            // Two layers on three intervals: forward and two ways back, and forward to evaluate at the end.
            let edges = u64::from(3 * 2 * (3 * epochs + 1));
            assert_eq!(bill.invocations, wanted.tasks + edges, "{transport:?} {bill:?}");
        }
    }
    let mut config = on(&config, ExecutorKind::Emulated, Transport::Auto);
    with_faults(&mut config, 5);
    (config.emulator.crash, config.emulator.lose, config.executor.timeout_s) = (0.2, 0.1, 2);
    let (found, curve) = checked(&config);
    assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses), "with faults");
}

/// A changed answer fails its attempt, whatever part of it is changed, and the task is tried again.
#[test]
fn corrupted_answers_are_tried_again() {
    let _alone = alone();
    let mut config = cora(4);
    config.run.intervals = Some(3);
    let (wanted, losses) = local(&config);
    for transport in ALL {
        let mut config = on(&config, ExecutorKind::Emulated, transport);
        (config.emulator.corrupt, config.emulator.seed) = (0.2, 3);
        config.limits.attempts = Some(16);
        let (found, curve) = checked(&config);
        assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses), "{transport:?}");
        let attempts = found.attempts.unwrap();
        assert!(attempts.retries > 0, "{transport:?}: {attempts:?}");
    }
}

/// An edge kernel's step that a function is late with, or fails at, gets further attempts as any task
/// does. They read the same rows, also where rows of several rounds are there.
#[test]
fn edge_kernels_are_tried_again() {
    let _alone = alone();
    let mut config = cora(4);
    (config.model.kind, config.run.intervals) = (ModelKind::Gatv2, Some(3));
    let (wanted, losses) = local(&config);
    config.executor.edge_kernels = EdgePlace::Functions;
    let mut late = on(&config, ExecutorKind::Loopback, Transport::Auto);
    (late.emulator.straggle, late.emulator.straggle_ms) = (0.25, 60);
    (late.executor.deadline_ms, late.executor.deadline_ratio) = (5, 1.01);
    let mut failing = on(&config, ExecutorKind::Emulated, Transport::Auto);
    with_faults(&mut failing, 3);
    (failing.emulator.crash, failing.executor.timeout_s) = (0.3, 2);
    let mut apart = late.clone();
    apart.pipeline = Pipeline::asynchronous(1);
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    for (config, what) in [(&late, "overdue"), (&failing, "failed"), (&apart, "overdue")] {
        let plan = eciton_train::plan(config, &options()).unwrap();
        let of_edges = |stage: &str| plan.stages[stage.parse::<usize>().unwrap()].name.starts_with("gatv2");
        let recording = Recording { events: Some(events.clone()), ..Recording::default() };
        let (found, curve) = train(config, &Options { recording, ..options() }).unwrap();
        if config.pipeline == Pipeline::default() {
            assert_eq!((found.model_digest, bits(&curve)), (wanted.model_digest.clone(), losses.clone()));
        }
        let log = std::fs::read_to_string(&events).unwrap();
        // `overdue ROUND STAGE INTERVAL ATTEMPT`
        let lines = log.lines().skip(1).map(|line| line.split(' ').collect::<Vec<_>>());
        let again = lines.filter(|words| words[0] == what && of_edges(words[2])).count();
        let attempts = found.attempts.unwrap();
        assert!(again > 0, "{what}: {attempts:?}");
        assert_eq!(attempts.committed + attempts.retries + attempts.relaunches, found.tasks, "{what}");
    }
}

#[test]
fn tasks_that_are_launched_twice_change_nothing() {
    let _alone = alone();
    let mut config = cora(8);
    config.run.intervals = Some(3);
    let (wanted, losses) = local(&config);
    for transport in ALL {
        let mut config = on(&config, ExecutorKind::Loopback, transport);
        // Every fourth answer is held up for as long as its step needs a second attempt, and longer.
        (config.emulator.straggle, config.emulator.straggle_ms) = (0.25, 60);
        (config.executor.deadline_ms, config.executor.deadline_ratio) = (5, 1.01);
        let (found, curve) = checked(&config);
        assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses), "{transport:?}");
        let attempts = found.attempts.unwrap();
        assert!(attempts.relaunches > 5, "{transport:?} {attempts:?}");
        assert!(attempts.duplicates + attempts.late > 0, "{transport:?} {attempts:?}");
        assert_eq!(attempts.committed, wanted.tasks, "{transport:?}");
    }
}

/// Rows that are stored as bfloat16 travel so, both ways: half the bytes, and no other bits than on this
/// machine.
#[test]
fn rows_of_bfloat16_are_half_as_long_on_their_way() {
    let _alone = alone();
    let epochs = 3;
    let mut config = cora(epochs);
    config.run.intervals = Some(3);
    let sent = |config: &Config, transport| {
        let (summary, curve) = checked(&on(config, ExecutorKind::Loopback, transport));
        let (wanted, losses) = local(config);
        assert_eq!((summary.model_digest, curve), (wanted.model_digest, losses), "{transport:?}");
        let bill = summary.bill.unwrap();
        [bill.bytes_to_functions, bill.bytes_from_functions]
    };
    let full = sent(&config, Transport::Payload);
    config.run.row_storage = RowFormat::Bf16;
    let half = sent(&config, Transport::Payload);
    sent(&config, Transport::S3);
    // What tasks read and write of rows in an epoch and its evaluation, in values a row (hidden 16, 7
    // classes): scores leave the run as f32.
    let (read, written) = (16 + 7 + (16 + 7) + 16 + 16 + 7, 16 + 7 + 7 + 16 + 16 + 7);
    for (at, values) in [read, written].into_iter().enumerate() {
        let saved = (full[at] - half[at]) as f64 / f64::from(2708 * values * 2 * epochs);
        assert!((0.98..1.4).contains(&saved), "{saved}: {full:?}, {half:?}, text or bytes");
    }
}

/// Rows on their way to a layer of signs are a bit a value and two scales, with which values are within 1 on their
/// way back; all else as it was, and the same bits.
#[test]
fn rows_of_signs_are_a_bit_a_value_on_their_way() {
    let _alone = alone();
    let epochs = 3;
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recipes/cora/binary.toml");
    let mut config = Config::parse(&std::fs::read_to_string(recipe).unwrap(), "binary.toml").unwrap();
    (config.run.epochs, config.run.intervals) = (epochs, Some(3));
    let (wanted, losses) = local(&config);
    let mut sent = |rows, transport| {
        config.executor.rows = rows;
        let (summary, curve) = checked(&on(&config, ExecutorKind::Loopback, transport));
        assert_eq!((summary.model_digest, curve), (wanted.model_digest.clone(), losses.clone()), "{rows:?}");
        let bill = summary.bill.unwrap();
        [bill.bytes_to_functions, bill.bytes_from_functions]
    };
    let numbers = sent(RowFormat::F32, Transport::Payload);
    let bits = sent(RowFormat::Bits, Transport::Payload);
    sent(RowFormat::Bits, Transport::S3);
    // Rows of 64 hidden values: forward in an epoch and in its evaluation, and back.
    let (forward, backward) = (4 * 64 - (8 + 8), 4 * 64 - (12 + 8 + 8));
    let saved = (numbers[0] - bits[0]) as f64 / f64::from(2708 * (2 * forward + backward) * epochs);
    assert!((0.98..1.4).contains(&saved), "{saved}: {numbers:?}, {bits:?}, text or bytes");
    assert_eq!(numbers[1], bits[1], "answers are numbers");
}

#[test]
fn any_number_of_functions_gives_the_same_bits() {
    let _alone = alone();
    let mut config = cora(6);
    (config.run.intervals, config.run.eval_every, config.run.threads) = (Some(6), 1.into(), Some(2));
    let (wanted, losses) = local(&config);
    for kind in [ExecutorKind::Loopback, ExecutorKind::Emulated] {
        let mut config = on(&config, kind, Transport::Auto);
        // A round trip of a function as it is over a network.
        (config.emulator.straggle, config.emulator.straggle_ms) = (1.0, 3);
        for count in [0, 1, 3].map(FunctionCount::Fixed).into_iter().chain([FunctionCount::Auto]) {
            config.executor.functions = count;
            let (found, curve) = checked(&config);
            assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses), "{kind:?} {count:?}");
            let (helpers, attempts) = (found.helpers.unwrap(), found.attempts.unwrap());
            assert_eq!(attempts.committed, wanted.tasks, "{kind:?} {count:?}");
            assert_eq!(helpers.tasks + helpers.own_tasks, wanted.tasks, "{helpers:?}");
            assert_eq!(helpers.auto, count == FunctionCount::Auto);
            match count {
                FunctionCount::Fixed(count) => {
                    assert_eq!((helpers.least, helpers.last, helpers.most), (count, count, count));
                    assert_eq!(helpers.tasks == 0, count == 0, "{helpers:?}");
                }
                FunctionCount::Auto => assert_eq!(helpers.least, 0, "the host is first"),
            }
        }
    }
}

/// Rounded rows are rounded wherever a task is done, on the host too.
#[test]
fn rounded_rows_are_the_same_for_any_share_of_the_host() {
    let _alone = alone();
    let mut config = cora(2);
    (config.run.intervals, config.run.eval_every, config.run.threads) = (Some(6), 1.into(), Some(2));
    let (plain, _) = local(&config);
    config.executor.rows = RowFormat::Bf16;
    config.executor.functions = FunctionCount::Fixed(64);
    let (wanted, losses) = checked(&on(&config, ExecutorKind::Loopback, Transport::Auto));
    assert_eq!(wanted.helpers.unwrap().own_tasks, 0);
    assert_ne!(wanted.model_digest, plain.model_digest);
    for kind in [ExecutorKind::Loopback, ExecutorKind::Emulated] {
        for transport in [Transport::Auto, Transport::S3] {
            let mut config = on(&config, kind, transport);
            (config.emulator.straggle, config.emulator.straggle_ms) = (1.0, 3);
            for count in [0, 1, 3].map(FunctionCount::Fixed).into_iter().chain([FunctionCount::Auto]) {
                config.executor.functions = count;
                let (found, curve) = checked(&config);
                assert_eq!(found.model_digest, wanted.model_digest, "{kind:?} {transport:?} {count:?}");
                assert_eq!(curve, losses, "{kind:?} {transport:?} {count:?}");
                let helpers = found.helpers.unwrap();
                assert!(helpers.own_tasks > 0, "{helpers:?}");
                if let FunctionCount::Fixed(count) = count {
                    assert_eq!(helpers.tasks == 0, count == 0, "{helpers:?}");
                }
            }
        }
    }
}

/// A further attempt may have company. Where there may be no function it is the host's all the same.
#[test]
fn a_retry_is_the_hosts_where_no_function_may_be() {
    let _alone = alone();
    let product = Product::new(64, 8, 8);
    let opened = Opened::new("slow", &product);
    let mut in_place =
        LocalPool::new(Settings { threads: 1, fresh_instances: false, newest_first: false, lanes: 0 })
            .unwrap();
    let next = |pool: &mut dyn eciton_exec::Executor| {
        let mut done = Vec::new();
        while done.is_empty() {
            pool.drain(&mut done, None);
        }
        match done.pop() {
            Some(Completion::Ended { timing, result: Ok(answered), key, .. }) => {
                (timing.thread, answered, key.attempt)
            }
            other => panic!("{other:?}"),
        }
    };
    let bits = |rows: &Buffer| rows.to_vec().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    in_place.submit(product.job(&opened.layer, 1, 0));
    assert!(matches!(next(&mut in_place), (Some(0), Answered::InPlace(_), Attempt(0))));
    let wanted = bits(&product.y);
    for most in [0, 2] {
        let functions = FunctionCount::Fixed(most);
        let executor = Executor { kind: ExecutorKind::Loopback, functions, ..Executor::default() };
        let mut pool = loopback::start(opened.wanted(executor), &eciton_recipe::Emulator::default()).unwrap();
        pool.set_limit(0);
        pool.submit(product.job(&opened.layer, 1, 1));
        // Its leases have ended, and its answer waits until the engine says that it counts.
        let mut rows = product.y.write(0..product.y.rows()).unwrap();
        rows.view_mut().row_mut(0).fill(7.0);
        drop(rows);
        let (thread, answered, attempt) = next(&mut pool);
        assert_eq!((thread, attempt, pool.usage().bill.unwrap().invocations), (Some(0), Attempt(1), 0));
        let Answered::Apart(answer) = answered else { panic!("in place") };
        assert_ne!(bits(&product.y), wanted);
        answer.into_targets(product.call().rows_out.into_iter().flatten().collect(), Vec::new()).unwrap();
        assert_eq!(bits(&product.y), wanted);
        if most > 0 {
            pool.set_limit(1);
            pool.submit(product.job(&opened.layer, 1, 2));
            let (thread, _, attempt) = next(&mut pool);
            assert_eq!((thread, attempt, pool.usage().bill.unwrap().invocations), (None, Attempt(2), 1));
        }
    }
}

/// The number rises and falls while attempts are held up, crash and are launched twice.
#[test]
fn a_tuned_run_with_faults_has_the_same_bits() {
    let _alone = alone();
    let mut config = cora(16);
    (config.run.intervals, config.run.threads) = (Some(8), Some(2));
    // Epochs that are not too short for functions to be tried.
    config.set("model.hidden=512").unwrap();
    let (wanted, losses) = local(&config);
    let mut config = on(&config, ExecutorKind::Emulated, Transport::S3);
    // So dear a host that functions are worth their money.
    (config.executor.functions, config.executor.host_hour_usd) = (FunctionCount::Auto, Some(10_000.0));
    with_faults(&mut config, 1);
    let (found, curve) = checked(&config);
    assert_eq!((&found.model_digest, &curve), (&wanted.model_digest, &losses));
    let helpers = found.helpers.unwrap();
    assert!(helpers.most > 0 && helpers.changes > 0 && helpers.tasks > 0, "{helpers:?}");
    assert_eq!(found.attempts.unwrap().committed, wanted.tasks);
}

#[test]
fn several_seeds_and_late_evaluation_do_not_mix() {
    let _alone = alone();
    let mut config = cora(3);
    (config.run.eval_every, config.run.intervals) = (0.into(), Some(2));
    let several = Options { seeds: 3, ..options() };
    let digests = |summary: &Summary| {
        summary.seeds.iter().map(|s| (s.model_digest.clone(), s.metrics)).collect::<Vec<_>>()
    };
    let (wanted, _) = train(&config, &several).unwrap();
    for transport in ALL {
        let (found, _) = train(&on(&config, ExecutorKind::Emulated, transport), &several).unwrap();
        assert_eq!(digests(&found), digests(&wanted), "{transport:?}");
    }
}

/// What the client counts from answers is what the service saw: the only bill there is at AWS.
#[test]
fn the_clients_bill_is_the_services() {
    let _alone = alone();
    let worker = worker();
    // An answer within the reply, one as an object, one as an object in parts.
    let sizes = [(64, 8, 8), (4096, 64, 64), (32_768, 16, 128)];
    for transport in [Transport::S3, Transport::Auto] {
        for (rows, columns, width) in sizes {
            let product = Product::new(rows, columns, width);
            let executor = Executor { transport, ..Executor::default() };
            let mut cloud = Cloud::start(worker.to_str().unwrap(), "slow", &product, executor, 0.0);
            cloud.run(&product);
            cloud.run(&product);
            let (service, mut client) =
                (cloud.cloud.usage().bill.unwrap(), cloud.cloud.client_bill().unwrap());
            assert_eq!(service.invocations, 2);
            // A product of two sums, or a sum of products.
            assert!((client.gb_seconds - service.gb_seconds).abs() < 1e-9);
            client.gb_seconds = service.gb_seconds;
            // A report rounds to hundredths.
            assert!(service.init_ms > 0.0 && (client.init_ms - service.init_ms).abs() < 0.011);
            client.init_ms = service.init_ms;
            assert_eq!(client, service, "{transport:?} [{rows}, {columns}] x [{columns}, {width}]");
        }
    }
}

#[test]
fn no_worker_no_run() {
    let _alone = alone();
    let mut config = on(&cora(1), ExecutorKind::Emulated, Transport::Auto);
    config.emulator.worker = Some("/nowhere/bootstrap".to_owned());
    let error = train(&config, &options()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/bootstrap"), "{error}");
}

#[test]
fn rows_as_bf16_train_nearly_as_well() {
    let _alone = alone();
    let config = cora(30);
    let (wanted, losses) = local(&config);
    let mut config = on(&config, ExecutorKind::Emulated, Transport::Auto);
    let (full, _) = checked(&config);
    config.executor.rows = RowFormat::Bf16;
    let (found, curve) = checked(&config);
    assert_ne!(found.model_digest, wanted.model_digest, "rounded rows are another computation");
    let (first, second) = (f64::from_bits(losses[29]), f64::from_bits(curve[29]));
    assert!((first - second).abs() < 0.02 * first, "{first} {second}");
    let (full, half) = (full.bill.unwrap(), found.bill.unwrap());
    let back = half.bytes_from_functions as f64 / full.bytes_from_functions as f64;
    assert!(back < 0.75, "replies shrink to {back}");
}

/// Sends each epoch's report on.
struct Reports(mpsc::Sender<EpochReport>);

impl Observer for Reports {
    fn epoch(&mut self, report: &EpochReport) {
        let _ = self.0.send(report.clone());
    }
}

/// Worker processes that are children of this process.
fn workers() -> Vec<u32> {
    let own = std::process::id().to_string();
    let is_ours = |status: &str| {
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        field("Name:") == Some("bootstrap")
            && field("PPid:") == Some(own.as_str())
            && field("State:").is_some_and(|state| !state.starts_with('Z'))
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| is_ours(&s)))
        .collect()
}

/// Runs in a thread; the receiver hears of epochs.
fn watched(
    config: &Config,
    options: Options,
) -> (mpsc::Receiver<EpochReport>, std::thread::JoinHandle<eciton_train::Result<Summary>>) {
    let (sender, receiver) = mpsc::channel();
    let config = config.clone();
    let run = std::thread::spawn(move || eciton_train::train(&config, &options, &mut Reports(sender)));
    (receiver, run)
}

#[test]
fn a_worker_killed_by_pid_changes_nothing() {
    let _alone = alone();
    let config = cora(40);
    let (wanted, _) = local(&config);
    let (epochs, run) = watched(&on(&config, ExecutorKind::Emulated, Transport::Auto), options());
    let mut killed = BTreeSet::new();
    let (mut seen, mut largest) = (Vec::new(), 0);
    for report in &epochs {
        seen.push(report.loss.to_bits());
        let alive = workers();
        largest = largest.max(alive.len());
        if report.epoch % 10 == 5 {
            let pid = *alive.iter().find(|pid| !killed.contains(*pid)).expect("a worker process is there");
            let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            assert!(status.success());
            killed.insert(pid);
        }
    }
    let found = run.join().unwrap().unwrap();
    assert_eq!(found.model_digest, wanted.model_digest);
    assert_eq!(killed.len(), 4, "four different processes were killed");
    assert!(largest >= 1);
    let bill = found.bill.unwrap();
    assert!(bill.cold_starts >= 5, "each was replaced by a new one: {bill:?}");
    assert!(workers().is_empty(), "no worker outlives its run");
}

#[test]
fn a_stop_cancels_what_is_under_way() {
    let _alone = alone();
    stops(on(&cora(1_000_000), ExecutorKind::Emulated, Transport::Auto));
    let mut edges = cora(1_000_000);
    (edges.model.kind, edges.executor.edge_kernels) = (ModelKind::Gatv2, EdgePlace::Functions);
    stops(on(&edges, ExecutorKind::Emulated, Transport::Auto));
}

fn stops(mut config: Config) {
    config.run.intervals = Some(4);
    // Sooner or later a task is held up for ten minutes.
    (config.emulator.straggle, config.emulator.straggle_ms) = (0.02, 600_000);
    (config.executor.deadline_ms, config.executor.timeout_s) = (600_000, 900);
    let stop = Arc::new(eciton_train::Stop::default());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let options = Options { stop: stop.clone(), out: Some(out.clone()), ..options() };
    let (epochs, run) = watched(&config, options);
    let mut finished = 0;
    // Until nothing moves for a second: a task is held up.
    while let Ok(report) = epochs.recv_timeout(Duration::from_secs(1)) {
        finished = report.epoch;
    }
    stop.ask(eciton_train::Ask::Finish);
    let begun = Instant::now();
    let result = run.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    match result {
        Ok(summary) => {
            assert!(summary.stopped && finished >= 1);
            assert_eq!(summary.seeds[0].epochs, finished);
            let attempts = summary.attempts.unwrap();
            assert!(attempts.cancelled >= 1, "{attempts:?}");
            assert!(attempts.committed + attempts.cancelled + attempts.late >= summary.tasks, "{attempts:?}");
            assert!(Path::new(&out).join("model.safetensors").is_file());
            assert!(eciton_train::checkpoint::is_resumable(&out), "it can go on from its last whole epoch");
        }
        Err(error) => {
            assert_eq!(finished, 0, "{error}");
            assert!(matches!(error, eciton_train::Error::Stopped), "{error}");
        }
    }
    assert!(workers().is_empty());
}

#[test]
fn faults_change_nothing() {
    let _alone = alone();
    let runs: u64 = std::env::var("ECITON_CAMPAIGN").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut config = cora(4);
    config.run.intervals = Some(3);
    let (wanted, losses) = local(&config);
    let (mut retried, mut relaunched, mut throttled, mut failed) = (0, 0, 0, 0);
    for seed in 0..runs {
        let transport = ALL[seed as usize % 3];
        let mut config = on(&config, ExecutorKind::Emulated, transport);
        with_faults(&mut config, seed);
        config.emulator.account_concurrency = 2;
        let (found, curve) = checked(&config);
        assert_eq!(found.model_digest, wanted.model_digest, "seed {seed} {transport:?}");
        assert_eq!(curve, losses, "seed {seed} {transport:?}");
        let attempts = found.attempts.unwrap();
        assert_eq!(attempts.committed, wanted.tasks, "seed {seed}: every gradient once");
        let bill = found.bill.unwrap();
        (retried, relaunched) = (retried + attempts.retries, relaunched + attempts.relaunches);
        (throttled, failed) = (throttled + bill.throttled, failed + bill.failed);
    }
    eprintln!(
        "{runs} runs: {retried} retried, {relaunched} relaunched, {throttled} throttled, {failed} failed"
    );
    assert!(retried > 0 && relaunched > 0 && throttled > 0 && failed > 0, "the faults were there");
}
