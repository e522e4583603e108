//! Tests of the autotuner on eight workloads, compared with the best fixed number of functions.
//!
//! The suite compares with the number that a sweep found best, which each workload has.
//! `ECITON_CAMPAIGN=1 cargo test --release -p eciton-simulate tuning` repeats the sweep, and also
//! tests a constant queue on three workloads.

#![allow(clippy::unwrap_used, clippy::panic)]

use eciton_program::Profile;
use eciton_recipe::{Pipeline, Prices};

use crate::{
    Bursts, Error, Kind, LayerOrder, Placement, Report, Settings, Shape, Signal, Transport, simulate,
};

#[derive(Clone)]
struct Workload {
    name: &'static str,
    /// Best fixed number of functions, as found by the sweep.
    best: u32,
    shape: Shape,
    profile: Profile,
    settings: Settings,
}

/// Returns the built-in profile with `times` times the operations in tensor stages, for kernels
/// that compute more per row than one product.
fn heavier(shape: &Shape, times: f64) -> Profile {
    let mut profile = Profile::default();
    profile.stages = profile.stages(&shape.program(&profile).unwrap(), shape.stored).unwrap();
    // The same processors: a vCPU is half a core.
    profile.function.seconds_per_flop = 2.0 * profile.host.seconds_per_flop;
    profile.stages.iter_mut().for_each(|stage| stage.flops_per_row *= times);
    profile
}

fn shape(vertices: u32, edges: u64, features: u32, stored: f64) -> Shape {
    Shape {
        name: "test".into(),
        vertices,
        edges,
        features,
        stored,
        classes: 16,
        hidden: 64,
        layers: 2,
        kind: Kind::Gcn,
        order: LayerOrder::default(),
    }
}

/// Returns settings with one c5n.xlarge of 2 cores, and up to 1,000 functions of one vCPU.
fn settings(intervals: u32, epochs: u32) -> Settings {
    let mut settings = Settings::new(intervals, epochs);
    settings.hosts.mbits = 25_000.0;
    (settings.hosts.cores, settings.hosts.hour_usd) = (2, 0.216);
    settings.functions.count = 1000;
    settings.functions.placement = Placement::Shared;
    settings
}

fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    let mut add = |name, best, shape: Shape, times: f64, settings: Settings| {
        all.push(Workload { name, best, profile: heavier(&shape, times), shape, settings });
    };
    // A hundred times the operations of a GCN's layer.
    add("compute-bound", 1000, shape(2_000_000, 20_000_000, 100, 1.0), 100.0, settings(1024, 100));
    // Wide features, over connections that functions pay for.
    let mut direct = settings(256, 100);
    direct.functions.transport = Transport::Direct;
    add("bandwidth-bound", 0, shape(1_000_000, 10_000_000, 602, 1.0), 20.0, direct);
    // With three edges per vertex, gathers take little time.
    add("sparse", 1000, shape(4_000_000, 12_000_000, 128, 1.0), 40.0, settings(1024, 100));
    // With a thousand edges per vertex, gathers take most of the time.
    add("dense", 0, shape(100_000, 100_000_000, 128, 1.0), 10.0, settings(256, 100));
    let mut straggling = settings(1024, 100);
    (straggling.faults.straggle, straggling.faults.crash) = (0.03, 0.005);
    add("stragglers", 1000, shape(2_000_000, 20_000_000, 100, 1.0), 100.0, straggling);
    // The account may run forty functions.
    let mut throttled = settings(512, 100);
    throttled.cloud.concurrency = 40;
    add("throttled", 40, shape(1_000_000, 10_000_000, 100, 1.0), 100.0, throttled);
    // Cora's size.
    add("tiny", 0, shape(2708, 10_556, 1433, 0.0127), 1.0, settings(8, 2000));
    // Functions are eight times slower for a third of each ten seconds; epochs run into each other.
    let mut bursty = settings(512, 100);
    bursty.pipeline = Pipeline::asynchronous(0);
    bursty.faults.bursts = Some(Bursts { period_s: 10.0, share: 0.3, factor: 8.0 });
    add("bursty", 256, shape(1_000_000, 10_000_000, 100, 1.0), 100.0, bursty);
    all
}

fn prices() -> Prices {
    eciton_recipe::Cloud::parse(include_str!("../../../infra/cloud.toml"))
        .unwrap()
        .region("us-east-1")
        .unwrap()
        .clone()
}

impl Workload {
    fn run(&self, functions: u32, auto: Option<Signal>) -> Option<Report> {
        let mut settings = self.settings.clone();
        settings.functions.auto = auto;
        settings.functions.count = functions;
        match simulate(&self.shape, &self.profile, &prices(), &settings) {
            Ok(report) => Some(report),
            // The account does not allow this number, so the run fails and has no value.
            Err(Error::Failed { .. }) => None,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    fn value(&self, functions: u32) -> f64 {
        self.run(functions, None).map_or(0.0, |report| report.value)
    }

    /// Finds the best fixed number of functions. It tries 0, every power of two up to the limit,
    /// the limit, and a quarter more and less than the best of these. A quarter of the epochs
    /// selects the best two numbers. These, and numbers near the first, run all epochs. (V = 1 / (T
    /// x C) decreases with the square of the epochs.)
    fn best_fixed(&self) -> (u32, f64) {
        if !is_campaign() {
            return (self.best, self.value(self.best));
        }
        let most = self.settings.functions.count.min(self.settings.intervals);
        let powers = (0..).map(|power| 1 << power).take_while(|&number| number < most);
        let mut short = self.clone();
        short.settings.epochs /= 4;
        let mut values: Vec<(u32, f64)> = std::iter::once(0)
            .chain(powers)
            .chain([most])
            .map(|number| (number, short.value(number)))
            .collect();
        values.sort_by(|one, other| other.1.total_cmp(&one.1));
        let best = values[0].0;
        let full = [best, values[1].0, best - best / 4, (best + best / 4).min(most)];
        let full = full.map(|number| (number, self.value(number)));
        full.into_iter().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap()
    }

    fn tuned(&self, signal: Signal) -> Report {
        self.run(self.settings.functions.count, Some(signal)).unwrap()
    }
}

/// Returns true if the environment requests the long form of the tests.
#[allow(clippy::disallowed_methods)]
pub(crate) fn is_campaign() -> bool {
    std::env::var_os("ECITON_CAMPAIGN").is_some()
}

fn workload(name: &str) -> Workload {
    let mut workload = workloads().into_iter().find(|workload| workload.name == name).unwrap();
    // No expected value depends on the seed.
    #[allow(clippy::disallowed_methods)]
    let seed = std::env::var("ECITON_SEED").ok().and_then(|text| text.parse().ok());
    workload.settings.seed = seed.unwrap_or(0);
    workload
}

/// Returns the number of changes of direction among the numbers that the tuner tried.
fn turns(report: &Report) -> usize {
    let steps = report.decisions.iter().filter(|chosen| chosen.from != chosen.to);
    let ups: Vec<bool> = steps.map(|chosen| chosen.to > chosen.from).collect();
    ups.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Checks that the tuner reaches nine tenths of the value of the best fixed number, and does not
/// oscillate. It changes direction at most twelve times, and does not change the number in the
/// second half of the run.
#[allow(clippy::disallowed_macros, clippy::print_stderr)]
fn earns_nine_tenths(name: &str) {
    let workload = workload(name);
    let (number, best) = workload.best_fixed();
    let tuned = workload.tuned(Signal::Queue);
    let share = tuned.value / best;
    eprintln!("{name}: best with {number}; tuned {share:.3} of it, {} turns", turns(&tuned));
    let shown = || {
        let lines =
            tuned.decisions.iter().map(|d| format!("{:.2} s {} -> {}: {}", d.seconds, d.from, d.to, d.why));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(share > 0.9, "{name}: {share} of the value with {number}\n{}", shown());
    assert!(turns(&tuned) <= 12, "{name}\n{}", shown());
    let late = tuned.decisions.iter().filter(|chosen| chosen.from != chosen.to);
    assert!(late.clone().all(|chosen| chosen.seconds < tuned.seconds / 2.0), "{name}\n{}", shown());
    if is_campaign() {
        assert_eq!(tuned, workload.tuned(Signal::Queue), "the same seed");
        let frozen = workload.tuned(Signal::Frozen(0)).value / best;
        eprintln!("{name}: {frozen:.3} with a queue that always looks empty");
    }
}

#[test]
fn compute_bound() {
    earns_nine_tenths("compute-bound");
}

#[test]
fn bandwidth_bound() {
    earns_nine_tenths("bandwidth-bound");
}

#[test]
fn sparse() {
    earns_nine_tenths("sparse");
}

#[test]
fn dense() {
    earns_nine_tenths("dense");
}

#[test]
fn stragglers() {
    earns_nine_tenths("stragglers");
}

#[test]
fn throttled() {
    earns_nine_tenths("throttled");
}

#[test]
fn tiny() {
    earns_nine_tenths("tiny");
}

#[test]
fn bursty() {
    earns_nine_tenths("bursty");
}

/// Checks that a queue which always looks empty stops the increase of functions. (It compares with
/// the tuner itself, whose value is not above that of the best fixed number by more than noise.)
#[test]
fn without_the_queue_it_loses_a_quarter_on_three_workloads() {
    let names = ["compute-bound", "sparse", "stragglers"];
    for name in if is_campaign() { &names[..] } else { &names[..1] } {
        let workload = workload(name);
        let share = workload.tuned(Signal::Frozen(0)).value / workload.tuned(Signal::Queue).value;
        assert!(share < 0.75, "{name}: {share}");
    }
}
