//! Tests of whole runs whose intervals are in different rounds, in every mode and with every rule
//! for weight versions.

use super::run::Run;
use super::world::Faults;
use super::{Context, Random, gatv2, gcn, programs, runs, seeds, settings};
use crate::{Action, Engine, Event, Reason, Settings};
use eciton_program::{Place, Program};
use eciton_recipe::{Mode, Pipeline, WeightVersions};
use eciton_types::{Round, Version};
use std::collections::{BTreeMap, VecDeque};

/// Returns all valid pipeline settings with a staleness of at most 3.
pub(super) fn pipelines() -> Vec<Pipeline> {
    let mut all = Vec::new();
    for mode in [Mode::Sync, Mode::Pipe, Mode::Async] {
        for staleness in 0..4 {
            for weights in [None, Some(WeightVersions::Latest), Some(WeightVersions::TwoBuffered)] {
                for synchronous_last in [0, 2] {
                    let drawn =
                        Pipeline { mode, staleness, weights, synchronous_last, ..Pipeline::default() };
                    all.push(drawn);
                }
            }
        }
    }
    all.retain(|pipeline| pipeline.check().is_ok());
    all
}

/// Simulates a run, and checks that it completes all rounds. Returns the run with its observations.
fn drift<'a>(program: &'a Program, settings: Settings, faults: Faults, seed: u64) -> Run<'a> {
    let context = Context(format!("seed {seed}, {settings:?}, {faults:?}"));
    let mut run = Run::new(program, settings, faults, seed);
    assert!(run.finish(), "stalled: {context:?}");
    assert_eq!(run.end, Some((Reason::Completed, settings.last)), "{context:?}");
    run
}

#[test]
fn intervals_that_run_apart_keep_every_bound() {
    keep_every_bound(0);
}

#[test]
fn intervals_that_run_apart_keep_every_bound_of_odd_seeds() {
    keep_every_bound(1);
}

/// Checks the bounds of asynchronous runs for every second seed, starting at `first`.
fn keep_every_bound(first: u64) {
    let programs = programs();
    let all = pipelines();
    // By staleness: rows by age, the most versions of weights.
    let mut seen: BTreeMap<u32, (BTreeMap<u32, u64>, usize)> = BTreeMap::new();
    for seed in (first..seeds(2000)).step_by(2) {
        let random = &mut Random(seed);
        let program = &programs[random.below(programs.len() as u64) as usize];
        let pipeline = all[random.below(all.len() as u64) as usize];
        let in_flight = [None, None, Some(1), Some(3), Some(20)][random.below(5) as usize];
        let only_host_steps = random.percent(50);
        let settings = Settings { pipeline, in_flight, only_host_steps, ..settings(random) };
        if pipeline.mode != Mode::Async {
            // The same bits whatever happens.
            runs::complete(program, settings, Faults::APART, seed);
            continue;
        }
        let run = drift(program, settings, Faults::APART, seed);
        let (ages, versions) = seen.entry(pipeline.staleness).or_default();
        run.store.ages.iter().for_each(|(age, count)| *ages.entry(*age).or_default() += count);
        *versions = (*versions).max(run.store.versions);
        if seed % 8 < 2 {
            let again = drift(program, settings, Faults::APART, seed);
            assert_eq!((&run.log, run.store.value()), (&again.log, again.store.value()), "seed {seed}");
        }
    }
    for (staleness, (ages, versions)) in seen {
        // Rows of every allowed age were read, and of no other.
        assert_eq!(
            ages.keys().copied().collect::<Vec<_>>(),
            (0..=staleness + 1).collect::<Vec<_>>(),
            "{ages:?}"
        );
        assert_eq!(versions, staleness as usize + 1, "staleness {staleness}");
    }
}

#[test]
fn barriers_give_the_same_bits_in_every_mode_without_delayed_weights() {
    let programs = [gcn(3), gatv2(2, Place::Host)];
    for seed in 0..seeds(100) {
        let random = &mut Random(seed);
        let program = &programs[seed as usize % 2];
        let settings = settings(random);
        let value = |pipeline| {
            let settings = Settings { pipeline, ..settings };
            drift(program, settings, Faults::APART, seed).store.value()
        };
        let pipe = value(Pipeline::default());
        assert_eq!(value(Pipeline { mode: Mode::Sync, ..Pipeline::default() }), pipe, "seed {seed}");
        // With as many synchronous rounds as there are, asynchrony is none.
        let all = Pipeline { synchronous_last: 1000, ..Pipeline::asynchronous(2) };
        assert_eq!(value(all), pipe, "seed {seed}");
        let delayed = Pipeline { weights: Some(WeightVersions::TwoBuffered), ..Pipeline::default() };
        let sync = Pipeline { mode: Mode::Sync, ..delayed };
        assert_eq!(value(delayed), value(sync), "seed {seed}");
        assert_eq!(value(delayed) == pipe, settings.last.0 - settings.first.0 < 1, "seed {seed}");
    }
}

#[test]
fn an_asynchronous_run_is_ahead_of_its_slowest_interval_and_shorter() {
    let program = gcn(2);
    // Three in ten intervals are slow now and then: a barrier waits for the slowest of each stage.
    let faults = Faults { straggling: 10, slow_host: 10, ..Faults::default() };
    let time = |pipeline| {
        let settings = Settings { pipeline, ..Settings::new(16, 40) };
        drift(&program, settings, faults, 11).ended_us
    };
    let (sync, pipe) =
        (time(Pipeline { mode: Mode::Sync, ..Pipeline::default() }), time(Pipeline::default()));
    let [s0, s1, s3] = [0, 1, 3].map(|s| time(Pipeline::asynchronous(s)));
    assert!(pipe <= sync && s0 < pipe && s1 < s0 && s3 < s1, "{sync} {pipe} {s0} {s1} {s3}");
}

#[test]
fn all_steps_of_a_round_read_the_same_weights() {
    let program = gatv2(1, Place::Host);
    let weights = Version(7);
    let first = Round(3);
    let settings = Settings { first, last: Round(4), weights, ..Settings::new(2, 2) };
    let mut engine = Engine::new(&program, settings).unwrap();
    let mut waiting: VecDeque<Event> = [Event::Started].into();
    let mut seen = Vec::new();
    while let Some(event) = waiting.pop_front() {
        let actions: Vec<Action> = engine.step(event).collect();
        for action in actions {
            match action {
                Action::Submit(task) => {
                    seen.push((task.round.0, task.weights));
                    waiting.push_back(Event::Completed { key: task.key(), took_us: 1 });
                }
                Action::Update { round } => waiting.push_back(Event::Updated { round }),
                Action::Evaluate { round } => waiting.push_back(Event::Evaluated { round }),
                _ => {}
            }
        }
    }
    assert!(engine.is_finished());
    // Every stage on two intervals.
    let steps = 2 * program.stages.len();
    assert_eq!(seen, [vec![(3, Version(7)); steps], vec![(4, Version(8)); steps]].concat());
}

/// Checks that a run can become synchronous at any moment, even before its start. Rounds that no
/// interval has entered yet then run one at a time and read only rows of their own round. The store
/// checks this for all rows and weights.
#[test]
fn a_run_is_synchronous_from_any_moment_on() {
    let program = gcn(3);
    let mut stale = 0;
    for seed in 0..seeds(250) {
        let random = &mut Random(seed);
        let pipeline = Pipeline::asynchronous(random.below(4) as u32);
        let settings = Settings { pipeline, ..settings(random) };
        let context = Context(format!("seed {seed}, {settings:?}"));
        let mut run = Run::new(&program, settings, Faults::APART, seed);
        // The first event is the start.
        run.synchronise_at = Some(1 + random.below(300));
        assert!(run.finish(), "stalled: {context:?}");
        assert_eq!(run.end, Some((Reason::Completed, settings.last)), "{context:?}");
        stale += run.store.ages.iter().filter(|(age, _)| **age > 0).map(|(_, count)| count).sum::<u64>();
        let mut all = Run::new(&program, settings, Faults::APART, seed);
        all.synchronise_at = Some(1);
        assert!(all.finish(), "stalled: {context:?}");
        let pipe = Settings { pipeline: Pipeline::default(), ..settings };
        assert!(all.store.ages.is_empty(), "{context:?}");
        assert_eq!(
            all.store.value(),
            drift(&program, pipe, Faults::APART, seed).store.value(),
            "{context:?}"
        );
    }
    assert!(stale > 1000, "{stale} rows were old before");
}

#[test]
fn a_stop_ends_an_asynchronous_run_after_the_furthest_round() {
    let program = gcn(2);
    for seed in 0..seeds(200) {
        let _context = Context(format!("seed {seed}"));
        let pipeline = Pipeline::asynchronous((seed % 4) as u32);
        let settings =
            Settings { pipeline, eval_every: 0, ..Settings::new(1 + (seed % 9) as u32, 1_000_000) };
        let mut run = Run::new(&program, settings, Faults::APART, seed);
        run.stop_at = Some(2 + Random(seed).below(2000));
        assert!(run.finish());
        let Some((Reason::Stopped, last)) = run.end else { panic!("{:?}", run.end) };
        let furthest = run.log.iter().filter_map(|action| match action {
            Action::Submit(task) => Some(task.round),
            _ => None,
        });
        assert_eq!(furthest.max(), Some(last));
        let evaluated: Vec<_> = run.log.iter().filter(|a| matches!(a, Action::Evaluate { .. })).collect();
        assert_eq!(evaluated, [&Action::Evaluate { round: last }]);
    }
}
