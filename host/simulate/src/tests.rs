//! Tests of simulated worlds: small ones with results that were computed by hand, and larger ones
//! with properties that must hold.

#![allow(clippy::unwrap_used, clippy::panic)]

use eciton_engine::Deadlines;
use eciton_program::{Profile, StageProfile};
use eciton_recipe::{Pipeline, Prices};
use eciton_types::StageId;

use crate::{
    Error, Faults, Kind, LayerOrder, Named, Placement, Report, Settings, Shape, Transport, simulate,
};

fn prices() -> Prices {
    eciton_recipe::Cloud::parse(include_str!("../../../infra/cloud.toml"))
        .unwrap()
        .region("us-east-1")
        .unwrap()
        .clone()
}

/// Returns a shape of one layer with `vertices` rows and no edges. Its stages are T, G, loss, G'
/// and T'.
fn line(vertices: u32) -> Shape {
    let name = "line".to_owned();
    Shape {
        name,
        vertices,
        edges: 0,
        features: 1,
        stored: 1.0,
        classes: 2,
        hidden: 1,
        layers: 1,
        kind: Kind::Gcn,
        order: LayerOrder::default(),
    }
}

/// Returns a profile for that shape. Tensor stages take 1, 4 and 2 operations per row, and gathers
/// 3 and 5 values. An operation takes 1 ms, a gathered value 0.1 ms, and a task in a function 0.01
/// s more.
fn profile() -> Profile {
    let stage = |stage, flops_per_row, gather_width| StageProfile {
        stage: StageId(stage),
        flops_per_row,
        gather_width,
        host_seconds_per_row: None,
        function_seconds_per_row: None,
        host_seconds_per_call: None,
        constant_bytes_per_row: 0.0,
        bytes_in_per_row: 0.0,
        bytes_in_per_task: 0.0,
        bytes_out_per_row: 0.0,
        bytes_out_per_task: 0.0,
    };
    let stages =
        vec![stage(0, 1.0, 0), stage(1, 0.0, 3), stage(2, 4.0, 0), stage(3, 0.0, 5), stage(4, 2.0, 0)];
    let mut profile = Profile { stages, ..Profile::default() };
    profile.host.seconds_per_flop = 1e-3;
    profile.host.seconds_per_edge_value = 1e-4;
    profile.host.seconds_per_byte = 0.0;
    profile.host.seconds_per_step = 0.0;
    profile.host.seconds_per_value_added = 0.0;
    profile.function.seconds_per_flop = 1e-3;
    profile.function.seconds_per_step = 0.01;
    profile
}

/// Returns settings without jitter, with functions that start immediately.
fn exact(intervals: u32, epochs: u32) -> Settings {
    let mut settings = Settings::new(intervals, epochs);
    settings.jitter = 0.0;
    settings.cloud.latency_us = 0;
    settings.cloud.cold_us = 0;
    settings.cloud.init_us = 0;
    settings.cloud.store_us = 0;
    settings.cloud.alone_mbits = 1e12;
    settings.cloud.hundred_mbits = 1e12;
    settings.hosts.mbits = 1e12;
    settings
}

fn run(shape: &Shape, profile: &Profile, settings: &Settings) -> Report {
    simulate(shape, profile, &prices(), settings).unwrap()
}

fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9 * other.abs().max(1.0), "{one} {other}");
}

/// Time of the optimiser: ten operations for each of the two values of weight and bias.
const UPDATE_S: f64 = 0.04;

#[test]
fn one_core_does_all_steps_one_after_the_other() {
    let mut settings = exact(2, 3);
    settings.hosts.cores = 1;
    let report = run(&line(2), &profile(), &settings);
    // Two intervals of one row: 1 + 0.3 + 4 + 0.5 + 2 ms each.
    let epoch = 2.0 * 7.8e-3 + UPDATE_S;
    assert_eq!(report.epoch_seconds.len(), 3);
    report.epoch_seconds.iter().for_each(|&seconds| near(seconds, epoch));
    near(report.seconds, 3.0 * epoch);
    near(report.hosts_busy, 2.0 * 7.8e-3 / epoch);
    near(report.usd.total, 3.0 * epoch / 3600.0 * 0.34);
    near(report.value, 1.0 / (report.seconds * report.usd.total));
    assert_eq!((report.local_tasks, report.functions.invocations), (3 * 2 * 3, 0));
}

#[test]
fn as_many_cores_as_intervals_take_the_critical_path() {
    let settings = exact(4, 2);
    let epoch = run(&line(4), &profile(), &settings).seconds / 2.0;
    near(epoch, 7.8e-3 + UPDATE_S);
    // Five intervals on four cores: where all wait for all, each of the five stages takes two rounds.
    let mut settings = exact(5, 1);
    settings.pipeline.mode = eciton_recipe::Mode::Sync;
    near(run(&line(5), &profile(), &settings).seconds, 2.0 * 7.8e-3 + UPDATE_S);
}

#[test]
fn functions_without_latency_take_the_critical_path_and_gathers_stay_on_the_host() {
    for transport in [Transport::Auto, Transport::Direct] {
        let mut settings = exact(4, 2);
        settings.functions.count = 4;
        settings.functions.transport = transport;
        let report = run(&line(4), &profile(), &settings);
        // Three tasks of 10 ms and their operations, two gathers.
        near(report.seconds / 2.0, 0.011 + 0.0003 + 0.014 + 0.0005 + 0.012 + UPDATE_S);
        assert_eq!((report.local_tasks, report.functions.invocations), (0, 24));
        assert_eq!((report.functions.cold_starts, report.functions.most_running), (4, 4));
        // One function does them in turn.
        settings.functions.count = 1;
        let report = run(&line(4), &profile(), &settings);
        assert_eq!((report.functions.cold_starts, report.functions.most_in_flight), (1, 1));
        assert!(report.seconds / 2.0 > 4.0 * 0.037 + UPDATE_S);
    }
}

#[test]
fn a_bill_by_hand() {
    let mut settings = exact(4, 2);
    settings.functions.count = 4;
    settings.functions.memory_mb = 1769;
    settings.cloud.latency_us = 700;
    settings.cloud.cold_us = 100_000;
    settings.cloud.init_us = 5200;
    let report = run(&line(4), &profile(), &settings);
    // 11, 14 and 12 ms, two epochs, four intervals; four cold starts add 5.2 ms to 11, which is 17 rounded up.
    assert_eq!(report.functions.billed_ms, 2 * 4 * (11 + 14 + 12) + 4 * 6);
    let gb_seconds = 1769.0 / 1024.0 * 0.32;
    near(report.functions.gb_seconds, gb_seconds);
    near(report.usd.functions, gb_seconds * 0.000_016_666_7);
    near(report.usd.requests, 24.0 * 0.2e-6);
    near(report.usd.store, 0.0);
    let epochs = 2.0 * (0.037 + 0.0008 + 3.0 * 0.0007 + UPDATE_S) + 0.1052;
    near(report.seconds, epochs);
    near(report.usd.hosts, epochs * 0.34 / 3600.0);
    near(report.usd.total, report.usd.functions + report.usd.requests + report.usd.hosts);
}

#[test]
fn rows_that_do_not_fit_a_request_go_through_the_store() {
    let mut profile = profile();
    profile.stages[0].bytes_in_per_row = 5e6;
    profile.stages[0].bytes_out_per_row = 4e6;
    let mut settings = exact(1, 1);
    settings.functions.count = 1;
    settings.cloud.store_us = 20_000;
    settings.cloud.alone_mbits = 800.0;
    settings.cloud.hundred_mbits = 800.0;
    let report = run(&line(1), &profile, &settings);
    // 5 MB are 6.7 MB in base64, 4 MB are 5.3 MB, and 6 MiB are 6.3 MB: in by an object, out by the reply.
    assert_eq!((report.functions.store_writes, report.functions.store_reads), (1, 1));
    near(report.usd.store, 0.005e-3 + 0.0004e-3);
    assert_eq!((report.bytes.to_functions, report.bytes.store), (5_000_000, 5_000_000));
    assert_eq!(report.bytes.from_functions, 5_333_333);
    // Up at 100 MB/s and 20 ms to be stored; 20 ms and 50 ms to be read, 11 ms of work meanwhile; then down.
    let transfers = 0.05 + 0.02 + (0.02 + 0.05) + 4e6 * 4.0 / 3.0 / 1e8;
    near((report.seconds - (transfers + 0.0003 + 0.014 + 0.0005 + 0.012 + UPDATE_S)).abs().max(2e-6), 2e-6);
    // Directly all of it is the function's time.
    settings.functions.transport = Transport::Direct;
    let report = run(&line(1), &profile, &settings);
    assert_eq!((report.functions.store_writes, report.functions.billed_ms), (0, 50 + 11 + 40 + 14 + 12));
}

fn reddit() -> (Shape, Settings) {
    let shape = Named::find("reddit-small").unwrap().shape();
    let mut settings = Settings::new(64, 4);
    settings.hosts.count = 2;
    settings.functions.count = 40;
    (shape, settings)
}

const ROUGH: Faults =
    Faults { straggle: 0.05, straggle_factor: 20.0, crash: 0.05, lose: 0.02, double: 0.1, bursts: None };

#[test]
fn the_same_seed_gives_the_same_report_to_the_bit_and_another_seed_another() {
    let (shape, mut settings) = reddit();
    settings.faults = ROUGH;
    settings.pipeline = Pipeline::asynchronous(1);
    let profile = Profile::default();
    let first = run(&shape, &profile, &settings);
    for _ in 0..3 {
        let again = run(&shape, &profile, &settings);
        assert_eq!(again, first);
        assert_eq!(again.seconds.to_bits(), first.seconds.to_bits());
        assert_eq!(again.value.to_bits(), first.value.to_bits());
    }
    settings.seed = 1;
    assert_ne!(run(&shape, &profile, &settings).seconds, first.seconds);
}

#[test]
fn faults_change_times_and_costs_but_every_step_is_committed_once() {
    let (shape, mut settings) = reddit();
    let profile = Profile::default();
    let modes = [Pipeline::default(), Pipeline::asynchronous(0), Pipeline::asynchronous(2)];
    for (pipeline, transport, placement) in modes.into_iter().flat_map(|pipeline| {
        [(pipeline, Transport::Auto, Placement::Functions), (pipeline, Transport::Direct, Placement::Shared)]
    }) {
        settings.pipeline = pipeline;
        settings.functions.transport = transport;
        settings.functions.placement = placement;
        settings.faults = Faults::default();
        settings.deadlines = Some(Deadlines { floor_us: 100_000, ratio: 4.0, maximum_us: 5_000_000 });
        let calm = run(&shape, &profile, &settings);
        settings.faults = ROUGH;
        // Shared: the cores take what they can, so that fewer tasks can go wrong.
        let rough = run(&shape, &profile, &settings);
        for report in [&calm, &rough] {
            let engine = report.engine;
            // Five tensor stages, four gathers.
            assert_eq!(
                (engine.tasks, engine.committed, engine.gathers),
                (4 * 5 * 64, 4 * 5 * 64, 4 * 4 * 64)
            );
            assert!(report.functions.most_in_flight <= 40 && report.functions.most_running <= 40);
            assert!(report.functions_busy <= 1.0 && report.hosts_busy <= 1.0);
            assert_eq!(report.epoch_seconds.len(), 4);
            near(report.epoch_seconds.iter().sum(), report.seconds);
        }
        assert!(rough.seconds > calm.seconds, "{pipeline:?} {rough:?} {calm:?}");
        let extra = rough.engine.retries + rough.engine.relaunches;
        assert!(extra > 0 && rough.engine.duplicates + rough.engine.late > 0, "{rough:?}");
        // Ages are bounded by S + 1, and there are some in asynchronous runs only.
        let most = pipeline.row_versions() as usize;
        assert!(calm.ages.len() <= most && rough.ages.len() <= most, "{:?}", rough.ages);
        assert_eq!(calm.ages.is_empty(), pipeline.mode != eciton_recipe::Mode::Async);
    }
}

#[test]
fn no_more_functions_run_than_the_account_may_and_refused_ones_come_later() {
    let (shape, mut settings) = reddit();
    settings.cloud.concurrency = 7;
    let profile = Profile::default();
    let throttled = run(&shape, &profile, &settings);
    assert_eq!(throttled.functions.most_running, 7);
    assert!(throttled.functions.throttled > 10, "{throttled:?}");
    assert_eq!(throttled.engine.committed, throttled.engine.tasks);
    // Four new ones at once and ten a second: the forty come within four seconds.
    settings.cloud.concurrency = 1000;
    settings.cloud.burst = 4;
    settings.cloud.burst_per_10_s = 100;
    let slow = run(&shape, &profile, &settings);
    assert!(slow.functions.throttled > 0 && slow.functions.cold_starts > 4, "{slow:?}");
    // Nothing refused is paid.
    assert_eq!(slow.functions.invocations, slow.engine.tasks + slow.engine.relaunches + slow.engine.retries);
}

#[test]
fn more_hosts_move_rows_and_divide_the_work() {
    let (shape, mut settings) = reddit();
    let profile = Profile::default();
    settings.functions.count = 0;
    settings.hosts.count = 1;
    let one = run(&shape, &profile, &settings);
    settings.hosts.count = 4;
    let four = run(&shape, &profile, &settings);
    assert_eq!(one.bytes.between_hosts, 0);
    // Rows that are gathered: 128, 41, 41 and 128 values, each needed on all three others (493 edges a row);
    // and the weights, 602 x 128 + 128 x 41 with biases of 128 and 41, around and back.
    let rows = 232_965.0 * 4.0 * 338.0 * 3.0;
    let weights = 2.0 * 3.0 * 4.0 * (602.0 * 128.0 + 128.0 * 41.0 + 128.0 + 41.0);
    near(four.bytes.between_hosts as f64, 4.0 * (rows + weights));
    assert!(
        four.seconds < one.seconds * 0.6 && four.seconds > one.seconds / 4.0,
        "{} {}",
        four.seconds,
        one.seconds
    );
}

#[test]
fn what_cannot_be_is_refused_and_a_run_that_fails_says_why() {
    let (shape, settings) = reddit();
    let profile = Profile::default();
    let refused = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings.clone();
        change(&mut settings);
        simulate(&shape, &profile, &prices(), &settings).unwrap_err().to_string()
    };
    assert!(refused(&|s| s.hosts.count = 65).contains("1 to 64"));
    assert!(refused(&|s| s.functions.count = 100_001).contains("100001"));
    assert!(refused(&|s| s.faults.crash = 1.5).contains("crash"));
    assert!(refused(&|s| s.jitter = f64::NAN).contains("jitter"));
    assert!(refused(&|s| s.intervals = 70_000).contains("intervals"));
    assert!(refused(&|s| s.pipeline.staleness = 1).contains("staleness"));
    let failed = refused(&|s| s.faults.crash = 1.0);
    assert!(failed.contains("failed 4 times"), "{failed}");
    // Lost answers without deadlines are given up.
    let mut lost = settings.clone();
    (lost.faults.lose, lost.deadlines) = (0.01, None);
    let report = run(&shape, &profile, &lost);
    assert!(report.seconds > 60.0 && report.engine.retries > 0, "{report:?}");
    let mut small = Settings { intervals: 2, ..settings };
    small.functions.memory_mb = 512;
    assert!(matches!(simulate(&shape, &profile, &prices(), &small), Err(Error::Memory { .. })));
}
