#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const SETTINGS: TunerSettings =
    TunerSettings { least: 0, most: 1000, intervals: 500, tasks: 5000, round_trip_us: 10_000 };

/// Model of a run whose pace and cost depend only on the number of functions.
struct Model {
    tuner: Tuner,
    seen: Observation,
    decisions: Vec<Decision>,
}

impl Model {
    fn new(settings: TunerSettings) -> Self {
        Self { tuner: Tuner::new(settings), seen: NOTHING, decisions: Vec::new() }
    }

    /// Runs `tasks` completions. `at` returns for the number of functions the microseconds per
    /// task, the dollars per task, and the length of the queue.
    fn run(&mut self, tasks: u64, at: impl Fn(f64) -> (f64, f64, u64)) {
        let mut time_us = self.seen.time_us as f64;
        for _ in 0..tasks {
            let functions = self.tuner.functions();
            let (task_us, usd, waiting) = at(f64::from(functions));
            time_us += task_us;
            let Observation { completed, usd: before, .. } = self.seen;
            self.seen = Observation {
                time_us: time_us as u64,
                waiting,
                in_flight: functions,
                completed: completed + 1,
                usd: before + usd,
            };
            self.decisions.extend(self.tuner.observe(&self.seen));
            assert!(self.tuner.functions() <= self.tuner.settings.most);
        }
    }
}

/// Returns a model in which throughput grows with the number of functions, up to `useful`
/// functions. Each function is as fast as an eighth of the host, and costs half as much as the
/// host.
fn saturating(useful: f64) -> impl Fn(f64) -> (f64, f64, u64) {
    move |functions| {
        let task_us = 1000.0 / (1.0 + functions.min(useful) / 8.0);
        (task_us, task_us * 1e-9 * (1.0 + functions / 2.0), 1000)
    }
}

#[test]
fn it_starts_with_a_hundred_or_as_many_as_intervals_and_goes_up_while_that_pays() {
    let mut model = Model::new(SETTINGS);
    model.run(5000 * 30, saturating(1e9));
    let steps: Vec<_> = model.decisions.iter().map(|decision| (decision.from, decision.to)).collect();
    assert_eq!(steps[..3], [(0, 100), (100, 300), (300, 500)], "{:?}", model.decisions);
    assert!(model.tuner.is_settled() && model.tuner.functions() == 500, "{:?}", model.decisions);
    let mut few = Model::new(TunerSettings { intervals: 20, tasks: 200, ..SETTINGS });
    few.run(1000, saturating(1e9));
    assert_eq!(few.decisions[0].to, 20);
}

#[test]
fn functions_that_earn_less_than_they_cost_are_let_go() {
    // More than 60 are of no use: V is highest there.
    let mut model = Model::new(SETTINGS);
    model.run(5000 * 30, saturating(60.0));
    assert!(model.tuner.is_settled());
    let functions = model.tuner.functions();
    assert!((45..=80).contains(&functions), "{functions} {:?}", model.decisions);
    assert!(model.decisions.iter().any(|decision| matches!(decision.why, Why::Lost { .. } | Why::Between)));
    // None is of any use.
    let mut model = Model::new(SETTINGS);
    model.run(5000 * 30, saturating(0.0));
    assert_eq!((model.tuner.functions(), model.tuner.is_settled()), (0, true), "{:?}", model.decisions);
}

#[test]
fn nothing_goes_up_where_nothing_waits() {
    let mut model = Model::new(SETTINGS);
    let empty = |functions| {
        let (task_us, usd, _) = saturating(1e9)(functions);
        (task_us, usd, 0)
    };
    model.run(5000 * 30, empty);
    assert_eq!(model.decisions.iter().map(|decision| decision.to).max(), Some(100));
}

#[test]
fn epochs_shorter_than_a_few_round_trips_stay_on_the_host() {
    let mut model = Model::new(TunerSettings { tasks: 20, intervals: 4, ..SETTINGS });
    model.run(20 * 1000, saturating(1e9));
    assert_eq!(model.decisions.len(), 1, "{:?}", model.decisions);
    assert!(matches!(model.decisions[0].why, Why::Quick { window_us: 20_000, round_trip_us: 10_000 }));
    let none = Tuner::new(TunerSettings { most: 0, ..SETTINGS });
    assert_eq!(none.functions(), 0);
}

#[test]
fn a_change_of_the_work_is_noticed_and_noise_is_not() {
    let mut model = Model::new(SETTINGS);
    model.run(5000 * 30, saturating(60.0));
    let (before, count) = (model.tuner.functions(), model.decisions.len());
    // A fifth slower and quicker in turn.
    for turn in 0..20 {
        let times = if turn % 2 == 0 { 1.2 } else { 0.8 };
        model.run(5000, |functions| {
            let (task_us, usd, waiting) = saturating(60.0)(functions);
            (task_us * times, usd * times, waiting)
        });
    }
    assert_eq!((model.tuner.functions(), model.decisions.len()), (before, count));
    // Ten times the work a task, and functions that scale.
    model.run(5000 * 30, |functions| {
        let (task_us, usd, waiting) = saturating(1e9)(functions);
        (task_us * 10.0, usd * 10.0, waiting)
    });
    assert!(model.decisions.iter().any(|decision| matches!(decision.why, Why::Changed { .. })));
    assert!(model.tuner.functions() > before, "{:?}", model.decisions);
}

#[test]
fn no_observation_panics_and_the_same_ones_give_the_same_decisions() {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for round in 0..200 {
        let settings = TunerSettings {
            least: (random() % 3) as u32,
            most: (random() % 200) as u32,
            intervals: (random() % 300) as u32,
            tasks: random() % 400,
            round_trip_us: random() % 20_000,
        };
        let (mut one, mut other) = (Tuner::new(settings), Tuner::new(settings));
        let mut seen = NOTHING;
        for _ in 0..5000 {
            seen.time_us += random() % 5000;
            seen.completed += random() % 3;
            seen.usd += (random() % 100) as f64 * 1e-6;
            seen.waiting = random() % 500;
            seen.in_flight = (random() % 200) as u32;
            let decision = one.observe(&seen);
            assert_eq!(decision, other.observe(&seen));
            assert!(one.functions() <= settings.most.min(settings.intervals), "round {round}");
            assert!(decision.is_none_or(|decision| !decision.why.to_string().is_empty()));
        }
    }
}
