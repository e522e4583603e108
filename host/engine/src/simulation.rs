//! A seeded world around the engine: answers in random order, twice, late, or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::{Action, Counters, Engine, Error, Event, Policy, Reason, Settings};
use eciton_plan::{
    Attempt, Attribute, BackwardNeeds, DataShape, Direction, Epoch, Initialiser, IntervalId, Model,
    ParameterSpec, Program, RowsSpec, Scope, Signature, Stage, StageId, Step, Task, TaskKey, Value, Version,
};
use std::collections::BTreeSet;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

fn signature(kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Signature, String> {
    let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
    let out = attributes.iter().find_map(|attribute| match attribute.value {
        Value::Integer(out) => u32::try_from(out).ok(),
        _ => None,
    });
    let out = out.unwrap_or(inputs[0][0]);
    Ok(Signature {
        inputs: rows(inputs[0][0]),
        parameters: vec![ParameterSpec {
            name: "weight".into(),
            shape: vec![out],
            initialiser: Initialiser::Zeros,
        }],
        outputs: rows(out),
        kept: Vec::new(),
        backward_needs: BackwardNeeds { inputs: true, outputs: false },
        has_loss: kernel == "cross-entropy",
    })
}

fn gcn(layers: u32) -> Program {
    let model = Model::gcn(layers, 16, 0.5, 30, 7).unwrap();
    let shape = DataShape { rows: 100, features: 30, classes: 7 };
    // The head's weight would share its name with the last layer's.
    let named = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
        let mut found = signature(kernel, inputs, attributes)?;
        if kernel == "cross-entropy" {
            found.parameters[0].name = "bias".into();
        }
        Ok::<_, String>(found)
    };
    Program::build(&model, shape, &named).unwrap()
}

/// Chances in percent.
#[derive(Clone, Copy, Default)]
struct Faults {
    doubled: u64,
    host_fault: u64,
    /// An answer stays behind, perhaps until after its epoch.
    held: u64,
    /// A wild event that nothing asked for.
    noise: u64,
    /// Stop when this epoch's first gather is asked for.
    stop_at: Option<u32>,
}

/// What the world checks is written from the program alone, not from the engine's state.
struct World<'a> {
    program: &'a Program,
    settings: Settings,
    faults: Faults,
    random: Random,
    /// Events on their way.
    pending: Vec<Event>,
    held: Vec<Event>,
    asked: BTreeSet<Step>,
    committed: BTreeSet<Step>,
    gathered: BTreeSet<Step>,
    epoch: u32,
    log: Vec<Action>,
    end: Option<(Reason, Epoch)>,
}

impl<'a> World<'a> {
    fn new(program: &'a Program, settings: Settings, faults: Faults, seed: u64) -> Self {
        Self {
            program,
            settings,
            faults,
            random: Random(seed),
            pending: vec![Event::Started],
            held: Vec::new(),
            asked: BTreeSet::new(),
            committed: BTreeSet::new(),
            gathered: BTreeSet::new(),
            epoch: settings.first.0,
            log: Vec::new(),
            end: None,
        }
    }

    fn run(&mut self) -> Counters {
        let mut engine = Engine::new(self.program, self.settings).unwrap();
        let capacity = engine.queue_capacity();
        while self.end.is_none() {
            let event = self.next();
            let actions: Vec<Action> = engine.step(event).collect();
            for action in actions {
                self.take(action);
            }
        }
        assert_eq!(engine.queue_capacity(), capacity, "the queue of actions grew");
        // Nothing wakes a finished engine.
        let rest = [std::mem::take(&mut self.pending), std::mem::take(&mut self.held)].concat();
        for event in rest.into_iter().chain([Event::Started, Event::StopRequested]) {
            assert_eq!(engine.step(event).count(), 0, "{event:?} after the end");
        }
        assert!(engine.is_finished() && engine.running().count() == 0);
        *engine.counters()
    }

    fn next(&mut self) -> Event {
        if self.random.percent(self.faults.noise) {
            return self.noise();
        }
        if !self.held.is_empty() && self.random.percent(10) {
            let which = self.random.below(self.held.len() as u64) as usize;
            return self.held.swap_remove(which);
        }
        assert!(!self.pending.is_empty(), "the engine waits for nothing: deadlock");
        let which = self.random.below(self.pending.len() as u64) as usize;
        let event = self.pending.swap_remove(which);
        if self.random.percent(self.faults.doubled) && event != Event::Started {
            let late = self.random.percent(self.faults.held);
            if late { self.held.push(event) } else { self.pending.push(event) }
        }
        if let Event::Gathered(step) = event
            && step.epoch.0 == self.epoch
        {
            self.gathered.insert(step);
        }
        event
    }

    /// Something that was never asked for.
    fn noise(&mut self) -> Event {
        let step = Step {
            epoch: Epoch(self.settings.last.0 + 1 + self.random.below(3) as u32),
            stage: StageId(self.random.below(99) as u16),
            interval: IntervalId(self.random.below(99) as u32),
        };
        let key = TaskKey {
            epoch: Epoch(self.epoch),
            stage: step.stage,
            interval: IntervalId(self.settings.intervals + step.interval.0),
            attempt: Attempt(self.random.below(3) as u32),
        };
        match self.random.below(5) {
            0 => Event::Gathered(step),
            1 => Event::Completed(key),
            2 => Event::Failed { key, retryable: false },
            3 => Event::Updated { epoch: step.epoch },
            _ => Event::Evaluated { epoch: step.epoch },
        }
    }

    fn take(&mut self, action: Action) {
        assert!(self.end.is_none(), "{action:?} after the end");
        self.log.push(action);
        match action {
            Action::Gather(step) => {
                let gather = matches!(self.program.stage(step.stage), Some(Stage::Gather(_)));
                assert!(gather, "{step} is no gather");
                self.check_start(step);
                if self.faults.stop_at == Some(step.epoch.0) {
                    self.faults.stop_at = None;
                    self.pending.push(Event::StopRequested);
                }
                self.pending.push(Event::Gathered(step));
            }
            Action::Submit(task) => {
                assert_eq!(task.attempt, Attempt(0));
                self.check_start(task.step());
                self.submit(task);
            }
            Action::Retry(task) => {
                assert!(self.asked.contains(&task.step()) && task.attempt.0 > 0);
                assert!(!self.committed.contains(&task.step()), "{} is done", task.step());
                self.submit(task);
            }
            Action::Commit(key) => {
                let new = self.asked.contains(&key.step()) && self.committed.insert(key.step());
                assert!(new, "{key} committed twice or unasked");
            }
            Action::Update { epoch } => {
                assert_eq!(epoch.0, self.epoch);
                let steps = self.program.stages.len() * self.settings.intervals as usize;
                assert_eq!(self.committed.len() + self.gathered.len(), steps);
                self.pending.push(Event::Updated { epoch });
            }
            Action::Evaluate { epoch } => self.pending.push(Event::Evaluated { epoch }),
            Action::EpochFinished { epoch } => {
                assert_eq!(epoch.0, self.epoch);
                self.epoch += 1;
                self.asked.clear();
                self.committed.clear();
                self.gathered.clear();
            }
            Action::Finished { reason, epoch } => self.end = Some((reason, epoch)),
        }
    }

    fn submit(&mut self, task: Task) {
        let updates = u64::from(self.epoch - self.settings.first.0);
        assert_eq!(task.weights, Version(self.settings.weights.0 + updates));
        let key = task.key();
        let may_fail = task.attempt.0 + 1 < self.settings.attempts;
        if may_fail && self.random.percent(self.faults.host_fault) {
            self.pending.push(Event::Failed { key, retryable: true });
            // Sometimes the answer of an attempt that was given up comes all the same.
            if self.random.percent(30) {
                self.pending.push(Event::Completed(key));
            }
        } else {
            self.pending.push(Event::Completed(key));
        }
    }

    /// A step starts once, in its epoch, when what it reads is there.
    fn check_start(&mut self, step: Step) {
        assert_eq!(step.epoch.0, self.epoch, "{step} out of its epoch");
        assert!(step.interval.0 < self.settings.intervals);
        assert!(self.asked.insert(step), "{step} started twice");
        for (before, scope) in self.program.dependencies(step.stage) {
            let of = match scope {
                Scope::Own => step.interval.0..step.interval.0 + 1,
                Scope::All => 0..self.settings.intervals,
            };
            for interval in of {
                let needed = Step { stage: before, interval: IntervalId(interval), ..step };
                let there = self.committed.contains(&needed) || self.gathered.contains(&needed);
                assert!(there, "{step} before {needed}");
            }
        }
    }
}

fn settings(random: &mut Random) -> Settings {
    let intervals = [1, 2, 3, 8, 17, 64][random.below(6) as usize];
    let epochs = 1 + random.below(5) as u32;
    let eval_every = random.below(4) as u32;
    let first = Epoch(1 + random.below(3) as u32);
    let last = Epoch(first.0 + epochs - 1);
    let attempts = 1 + random.below(4) as u32;
    let weights = Version(u64::from(first.0) - 1);
    Settings { first, last, weights, eval_every, attempts, ..Settings::new(intervals, epochs) }
}

#[test]
fn every_step_is_done_once_in_any_order_and_with_any_faults() {
    let programs: Vec<Program> = (1..=4).map(gcn).collect();
    let mut seen = Counters::default();
    for seed in 0..1500 {
        let random = &mut Random(seed);
        let program = &programs[random.below(4) as usize];
        let settings = settings(random);
        let rough = Faults { doubled: 20, host_fault: 15, held: 50, noise: 5, stop_at: None };
        let faults = if seed % 3 == 0 { Faults::default() } else { rough };
        let mut world = World::new(program, settings, faults, seed);
        // The seed is in the message of any check that fails.
        let context = Context(format!("seed {seed}, {settings:?}"));
        let counters = world.run();
        assert_eq!(world.end, Some((Reason::Completed, settings.last)), "{context:?}");

        let epochs = settings.first.0..=settings.last.0;
        let count = epochs.clone().count() as u64;
        let of = |want: &dyn Fn(&Action) -> Option<u32>| -> Vec<u32> {
            world.log.iter().filter_map(want).collect()
        };
        let updates = of(&|action| match action {
            Action::Update { epoch } => Some(epoch.0),
            _ => None,
        });
        assert_eq!(updates, epochs.clone().collect::<Vec<_>>(), "{context:?}");
        let evaluated = of(&|action| match action {
            Action::Evaluate { epoch } => Some(epoch.0),
            _ => None,
        });
        let every = settings.eval_every;
        let due = |epoch: &u32| *epoch == settings.last.0 || (every > 0 && epoch.is_multiple_of(every));
        assert_eq!(evaluated, epochs.filter(due).collect::<Vec<_>>(), "{context:?}");
        let gathers = program.stages.iter().filter(|s| matches!(s, Stage::Gather(_))).count();
        let steps = count * u64::from(settings.intervals);
        assert_eq!(counters.gathers, steps * gathers as u64, "{context:?}");
        let tasks = steps * (program.stages.len() - gathers) as u64;
        assert_eq!((counters.tasks, counters.committed), (tasks, tasks), "{context:?}");
        assert_eq!(counters.updates, count, "{context:?}");
        if seed % 3 == 0 {
            let dropped = counters.duplicates + counters.late + counters.retries;
            assert_eq!(dropped, 0, "{context:?}");
        }
        seen.duplicates += counters.duplicates;
        seen.late += counters.late;
        seen.retries += counters.retries;
        seen.unexpected += counters.unexpected;
    }
    // The faults did happen.
    let all = [seen.duplicates, seen.late, seen.retries, seen.unexpected];
    assert!(all.into_iter().all(|count| count > 100), "{seen:?}");
}

/// Shows itself when a test fails on the way.
#[derive(Debug)]
struct Context(String);

impl Drop for Context {
    #[allow(clippy::disallowed_macros, clippy::print_stderr)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}", self.0);
        }
    }
}

#[test]
fn a_stop_ends_the_run_after_the_epoch_with_an_evaluation() {
    let program = gcn(2);
    for seed in 0..200 {
        let _context = Context(format!("seed {seed}"));
        let intervals = 1 + (seed % 9) as u32;
        let settings = Settings { eval_every: 0, ..Settings::new(intervals, 50) };
        let faults = Faults { doubled: 10, host_fault: 10, stop_at: Some(3), ..Faults::default() };
        let mut world = World::new(&program, settings, faults, seed);
        world.run();
        let Some((Reason::Stopped, Epoch(last))) = world.end else { panic!("{:?}", world.end) };
        assert!(last >= 3);
        let evaluations = world.log.iter().filter(|a| matches!(a, Action::Evaluate { .. }));
        assert_eq!(evaluations.collect::<Vec<_>>(), [&Action::Evaluate { epoch: Epoch(last) }]);
    }
}

#[test]
fn an_epoch_of_one_interval_is_the_program_in_order() {
    let program = gcn(2);
    let settings = Settings::new(1, 2);
    let mut world = World::new(&program, settings, Faults::default(), 1);
    world.run();
    let stages: Vec<u16> = world
        .log
        .iter()
        .filter_map(|action| match action {
            Action::Gather(step) => Some(step.stage.0),
            Action::Submit(task) => Some(task.stage.0),
            _ => None,
        })
        .collect();
    assert_eq!(stages, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let loss = program.stage(StageId(4)).unwrap();
    assert!(matches!(loss, Stage::Tensor(tensor) if tensor.direction == Direction::Loss));
    let end = [
        Action::Update { epoch: Epoch(2) },
        Action::Evaluate { epoch: Epoch(2) },
        Action::EpochFinished { epoch: Epoch(2) },
        Action::Finished { reason: Reason::Completed, epoch: Epoch(2) },
    ];
    assert!(world.log.ends_with(&end), "{:?}", world.log);
}

fn first_task(engine: &mut Engine) -> Task {
    let actions: Vec<Action> = engine.step(Event::Started).collect();
    let Some(&Action::Submit(task)) = actions.first() else { panic!("{actions:?}") };
    task
}

#[test]
fn a_task_is_tried_as_often_as_allowed_and_no_more() {
    let program = gcn(1);
    for attempts in [1, 2, 5, 100] {
        let settings = Settings { attempts, ..Settings::new(2, 3) };
        let mut engine = Engine::new(&program, settings).unwrap();
        let mut key = first_task(&mut engine).key();
        for _ in 1..attempts {
            let actions: Vec<_> = engine.step(Event::Failed { key, retryable: true }).collect();
            let [Action::Retry(task)] = actions[..] else { panic!("{actions:?}") };
            assert_eq!((task.step(), task.attempt.0), (key.step(), key.attempt.0 + 1));
            // The failure reported once more changes nothing.
            assert_eq!(engine.step(Event::Failed { key, retryable: true }).count(), 0);
            key = task.key();
        }
        let actions: Vec<_> = engine.step(Event::Failed { key, retryable: true }).collect();
        let reason = Reason::Failed { key, retryable: true };
        assert_eq!(actions, [Action::Finished { reason, epoch: Epoch(0) }]);
        assert_eq!(engine.counters().retries, u64::from(attempts) - 1);
        assert_eq!(engine.step(Event::Completed(key)).count(), 0);
        assert_eq!(engine.counters().late, 1);
    }
    let mut engine = Engine::new(&program, Settings::new(2, 3)).unwrap();
    let key = first_task(&mut engine).key();
    let actions: Vec<_> = engine.step(Event::Failed { key, retryable: false }).collect();
    let reason = Reason::Failed { key, retryable: false };
    assert_eq!(actions, [Action::Finished { reason, epoch: Epoch(0) }]);
}

#[test]
fn the_first_answer_wins_even_of_an_attempt_that_was_given_up() {
    let mut engine = Engine::new(&gcn(1), Settings::new(2, 3)).unwrap();
    let old = first_task(&mut engine).key();
    let _ = engine.step(Event::Failed { key: old, retryable: true }).count();
    let new = TaskKey { attempt: Attempt(1), ..old };
    let future = TaskKey { attempt: Attempt(2), ..old };
    assert_eq!(engine.step(Event::Completed(future)).count(), 0);
    assert_eq!(engine.counters().unexpected, 1);
    assert!(engine.running().any(|key| key == new));
    assert_eq!(engine.step(Event::Completed(old)).collect::<Vec<_>>(), [Action::Commit(old)]);
    assert_eq!(engine.step(Event::Completed(new)).count(), 0);
    assert_eq!(engine.step(Event::Failed { key: new, retryable: false }).count(), 0);
    assert_eq!(engine.counters().duplicates, 2);
    assert!(!engine.running().any(|key| key.step() == old.step()));
}

#[test]
fn an_evaluation_program_runs_once_a_restart() {
    let program = gcn(3).evaluation();
    let mut engine = Engine::new(&program, Settings::new(3, 0)).unwrap();
    let end: Vec<_> = engine.step(Event::Started).collect();
    assert_eq!(end, [Action::Finished { reason: Reason::Completed, epoch: Epoch(0) }]);
    for epoch in [Epoch(4), Epoch(8)] {
        let weights = Version(u64::from(epoch.0));
        engine.restart(epoch, epoch, weights);
        let mut todo: Vec<Action> = engine.step(Event::Started).collect();
        let mut done = 0;
        let mut last = Vec::new();
        while let Some(action) = todo.pop() {
            match action {
                Action::Gather(step) => todo.extend(engine.step(Event::Gathered(step))),
                Action::Submit(task) => {
                    assert_eq!((task.epoch, task.weights), (epoch, weights));
                    todo.extend(engine.step(Event::Completed(task.key())));
                }
                Action::Commit(_) => done += 1,
                other => last.push(other),
            }
        }
        assert_eq!(done, 4 * 3);
        let reason = Reason::Completed;
        let end = [Action::Finished { reason, epoch }, Action::EpochFinished { epoch }];
        assert_eq!(last, end);
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let program = gcn(2);
    let refused = |settings| Engine::new(&program, settings).unwrap_err().to_string();
    assert!(refused(Settings::new(0, 1)).contains("intervals: found 0"));
    assert!(refused(Settings::new(65_537, 1)).contains("65536"));
    assert!(refused(Settings { attempts: 101, ..Settings::new(1, 1) }).contains("attempts"));
    assert!(Engine::new(&program, Settings::new(65_536, 1)).is_ok());
    let deep = gcn(64);
    assert!(Engine::new(&deep, Settings::new(65_536, 1)).unwrap_err().to_string().contains("steps"));
    let mut turned = program.clone();
    turned.stages.swap(2, 3);
    assert!(matches!(Engine::new(&turned, Settings::new(1, 1)), Err(Error::Order { .. })));
    let mut empty = program.clone();
    empty.stages.clear();
    assert!(matches!(Engine::new(&empty, Settings::new(1, 1)), Err(Error::Setting { .. })));
    assert_eq!(Settings::new(1, 1).policy, Policy::Synchronous);
}
