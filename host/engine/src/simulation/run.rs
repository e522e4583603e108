//! One simulated run, with a driver that checks both the engine and the simulated world. The checks
//! use only the program and the events, not the state of the engine.

use super::store::Store;
use super::world::{Faults, Item, World};
use super::{Planted, hash, is_task};
use crate::{Action, Counters, Engine, Event, Reason, Settings};
use eciton_program::{Program, Scope};
use eciton_types::{IntervalId, Round, StageId, Step, Task, TaskKey, Version};
use std::collections::{BTreeMap, BTreeSet};

/// Progress of an interval, which the test counts independently of the engine.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Current round of the interval, or 0 before the first round.
    round: Round,
    /// Version of the weights that the tasks of the interval read in the current round.
    weights: Option<Version>,
    /// Number of steps of the interval that have ended in the current round.
    done: usize,
}

pub(super) struct Run<'a> {
    program: &'a Program,
    settings: Settings,
    planted: Option<Planted>,
    pub world: World,
    pub engine: Engine,
    pub store: Store,
    places: Vec<Place>,
    /// Number of attempts at each step that the engine has submitted in the current rounds.
    asked: BTreeMap<Step, u32>,
    /// Steps that have ended.
    done: BTreeSet<Step>,
    /// Ages of the rows that each step in flight reads, by interval.
    reading: BTreeMap<Step, Vec<u32>>,
    /// Result of each attempt, and true if the attempt was reported.
    attempts: BTreeMap<TaskKey, (u64, bool)>,
    pub log: Vec<Action>,
    pub end: Option<(Reason, Round)>,
    /// Counters that the test expects, for comparison with those of the engine.
    pub expected: Counters,
    overdue: BTreeSet<TaskKey>,
    updating: Option<Round>,
    /// Number of attempts that were first reported after their round had ended.
    late: u64,
    events: u64,
    pub ended_us: u64,
    /// Number of the event before which the run is stopped. The next two fields do the same for a
    /// cancellation and for a synchronisation.
    pub stop_at: Option<u64>,
    pub cancel_at: Option<u64>,
    pub synchronise_at: Option<u64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, settings: Settings, faults: Faults, seed: u64) -> Self {
        Self::with(program, settings, faults, seed, None)
    }

    /// Creates a run of an engine with a planted defect.
    pub(super) fn with(
        program: &'a Program,
        settings: Settings,
        faults: Faults,
        seed: u64,
        planted: Option<Planted>,
    ) -> Self {
        let mut world = World::new(settings, faults, seed);
        world.after(0, Event::Started);
        let mut engine = Engine::new(program, settings).unwrap();
        engine.planted = planted;
        Self {
            program,
            settings,
            planted,
            world,
            engine,
            store: Store::new(program, settings, planted),
            places: vec![Place::default(); settings.intervals as usize],
            asked: BTreeMap::new(),
            done: BTreeSet::new(),
            reading: BTreeMap::new(),
            attempts: BTreeMap::new(),
            log: Vec::new(),
            end: None,
            expected: Counters::default(),
            overdue: BTreeSet::new(),
            updating: None,
            late: 0,
            events: 0,
            ended_us: 0,
            stop_at: None,
            cancel_at: None,
            synchronise_at: None,
        }
    }

    /// Simulates the run until its end, and then until nothing is in flight. Returns false if the
    /// engine waits for an event that never arrives.
    pub(super) fn finish(&mut self) -> bool {
        let capacity = self.engine.queue_capacity();
        while self.end.is_none() {
            if !self.advance() {
                return false;
            }
        }
        let unreported = self.unreported();
        let late = self.late;
        // Nothing wakes a finished engine.
        let mut further = 0;
        while further < 2000 && self.advance() {
            further += 1;
        }
        for event in [Event::Started, Event::StopRequested, Event::Synchronise, Event::Cancelled] {
            self.deliver(event);
        }
        assert!(self.engine.is_finished() && self.engine.running().count() == 0);
        assert_eq!(self.engine.parked().count(), 0);
        assert_eq!(self.engine.queue_capacity(), capacity, "the queue of actions grew");
        self.check_counters(late, unreported);
        true
    }

    /// Processes the next event of the world. Returns false if there is none.
    fn advance(&mut self) -> bool {
        self.events += 1;
        if self.stop_at == Some(self.events) {
            self.deliver(Event::StopRequested);
        }
        if self.synchronise_at == Some(self.events) {
            // What no interval has entered yet is exact from now on.
            let furthest = self.places.iter().map(|place| place.round).max().unwrap_or_default();
            self.store.exact_from = Some(Round(furthest.max(self.settings.first).0 + 1));
            self.deliver(Event::Synchronise);
        }
        if self.cancel_at == Some(self.events) {
            self.cancel();
        }
        match self.world.next() {
            None => return false,
            Some(Item::Event(event)) => self.deliver(event),
            Some(Item::Timer(key, launched_us)) => {
                let over = self.is_over(key.step()) || self.attempts[&key].1;
                let deadline_us = self.engine.deadline_us(key.stage).unwrap();
                if over {
                    if self.world.is_stale_told() {
                        self.deliver(Event::Overdue(key));
                    }
                } else if self.world.now_us - launched_us >= deadline_us {
                    self.deliver(Event::Overdue(key));
                    if self.world.is_stale_told() {
                        self.deliver(Event::Overdue(key));
                    }
                } else {
                    self.world.timer(launched_us + deadline_us, key, launched_us);
                }
            }
        }
        true
    }

    /// Returns the last finished round.
    fn finished(&self) -> Round {
        Round(self.settings.first.0 + self.store.over - 1)
    }

    pub(super) fn cancel(&mut self) {
        let finished = self.finished();
        if self.end.is_none() {
            self.deliver(Event::Cancelled);
            assert_eq!(self.end, Some((Reason::Stopped, finished)));
        }
    }

    fn deliver(&mut self, event: Event) {
        let ended = self.end.is_some();
        let commit = self.expect(event);
        let actions: Vec<Action> = self.engine.step(event).collect();
        assert!(!ended || actions.is_empty(), "{event:?} after the end gave {actions:?}");
        let first = actions.first().copied();
        assert_eq!(commit.map(Action::Commit), first.filter(|a| matches!(a, Action::Commit(_))));
        for action in actions {
            self.take(action, event);
        }
        let counters = self.engine.counters();
        if counters.cancelled == 0 {
            assert_eq!(counters.in_flight(), self.engine.alive(), "{event:?}");
        }
    }

    /// Returns true if `step` has ended, so that reports about it no longer matter.
    fn is_over(&self, step: Step) -> bool {
        let round = self.places[step.interval.index()].round;
        self.end.is_some() || step.round < round || self.done.contains(&step)
    }

    /// Updates the expected counters for an event. Returns the attempt that the engine must commit,
    /// if any.
    fn expect(&mut self, event: Event) -> Option<TaskKey> {
        let (key, answered) = match event {
            Event::Completed { key, .. } => (key, true),
            Event::Failed { key, .. } => (key, false),
            Event::Updated { round } => {
                self.expected.updates += u64::from(self.updating == Some(round) && self.end.is_none());
                if self.updating == Some(round) {
                    self.updating = None;
                }
                return None;
            }
            Event::Overdue(key) => {
                let newest = self.asked.get(&key.step()) == Some(&(key.attempt.0 + 1));
                let awaited = newest && !self.is_over(key.step()) && !self.attempts[&key].1;
                self.expected.overdue += u64::from(awaited && self.overdue.insert(key));
                return None;
            }
            _ => return None,
        };
        let over = key.interval.0 >= self.settings.intervals || self.is_over(key.step());
        let (value, reported) = self.attempts.get_mut(&key)?;
        let value = *value;
        let first = !std::mem::replace(reported, true);
        if answered && self.planted == Some(Planted::GradientUnkeyed) && self.end.is_none() {
            self.store.add_gradient(key.step(), value);
        }
        if !is_task(self.program, key.stage) {
            assert!(answered, "{key} failed");
            return (!over).then_some(key);
        }
        if !over {
            self.expected.failures += u64::from(!answered && first);
            self.expected.committed += u64::from(answered);
            self.expected.recovered += u64::from(answered && !first);
            return answered.then_some(key);
        }
        if first && self.end.is_none() && key.round == self.places[key.interval.index()].round {
            self.expected.duplicates += 1;
        } else if first {
            self.late += 1;
        }
        None
    }

    fn take(&mut self, action: Action, cause: Event) {
        assert!(self.end.is_none(), "{action:?} after the end");
        self.log.push(action);
        match action {
            Action::Submit(task) => {
                self.check_start(task.step());
                match is_task(self.program, task.stage) {
                    true => self.expected.tasks += 1,
                    false => self.expected.host_steps += 1,
                }
                assert_eq!(task.attempt.0, 0);
                self.launch(task);
            }
            Action::Retry(task) => {
                let before = self.check_further(task);
                assert_eq!(cause, Event::Failed { key: before, retryable: true });
                self.expected.retries += 1;
                self.launch(task);
            }
            Action::Relaunch(task) => {
                let before = self.check_further(task);
                assert_eq!(cause, Event::Overdue(before));
                self.expected.relaunches += 1;
                self.launch(task);
            }
            Action::Again(task) => panic!("{task:?} without lanes"),
            Action::Commit(key) => {
                let (value, _) = self.attempts[&key];
                assert!(self.asked.contains_key(&key.step()), "{key} was not asked for");
                self.finish_step(key.step(), value);
                if self.planted != Some(Planted::GradientUnkeyed) {
                    self.store.add_gradient(key.step(), value);
                }
            }
            Action::Update { round } => {
                let all = |place: &Place| {
                    place.round > round || place.round == round && place.done == self.program.stages.len()
                };
                assert!(self.places.iter().all(all), "update of {round} before it is over");
                let held = self.places.iter().filter(|place| place.round > round).filter_map(|p| p.weights);
                self.store.update(round, held);
                self.updating = Some(round);
                self.world.soon(Event::Updated { round });
            }
            Action::Evaluate { round } => self.world.soon(Event::Evaluated { round }),
            Action::Share { .. } => panic!("a run on one host shares sums"),
            Action::RoundFinished { round } => {
                assert_eq!(round.0, self.settings.first.0 + self.store.over);
                self.store.over += 1;
            }
            Action::Finished { reason, round } => {
                assert_eq!(round, self.finished());
                self.end = Some((reason, round));
                self.ended_us = self.world.now_us;
            }
        }
    }

    /// Checks the weights that an attempt reads. All steps of an interval in a round must read the
    /// version that was chosen when the interval entered the round.
    fn settle(&mut self, step: Step, weights: Version) {
        let place = &mut self.places[step.interval.index()];
        if let Some(before) = place.weights {
            assert_eq!(weights, before, "{step} reads other weights than before");
        } else {
            place.weights = Some(weights);
            self.store.check_version(step.round, weights);
        }
    }

    fn launch(&mut self, task: Task) {
        self.settle(task.step(), task.weights);
        let key = task.key();
        let value = self.value(task.step());
        let before = self.attempts.insert(key, (value, false));
        assert!(before.is_none(), "{key} launched twice");
        match is_task(self.program, task.stage) {
            true => self.world.launch(key),
            false => self.world.begin(key),
        }
        if let Some(deadline_us) = self.engine.deadline_us(task.stage) {
            let limits = self.settings.deadlines.unwrap();
            let floor_us = limits.floor_us.min(limits.maximum_us);
            assert!((floor_us..=limits.maximum_us).contains(&deadline_us));
            self.world.timer(self.world.now_us + deadline_us, key, self.world.now_us);
        }
    }

    /// Returns the result of a step, which is a hash of everything that the step reads.
    fn value(&self, step: Step) -> u64 {
        let mut read = vec![step.stage.0.into(), step.interval.0.into()];
        for (stage, scope) in self.program.dependencies(step.stage) {
            match scope {
                Scope::Own => read.push(self.store.own(stage, step)),
                Scope::All => {
                    let ages = (0..).zip(&self.reading[&step]);
                    read.extend(ages.map(|(of, &age)| self.store.read(stage, of, step, age)));
                }
            }
        }
        if self.program.operation(step.stage).is_some() {
            let weights = self.places[step.interval.index()].weights.unwrap();
            read.push(self.store.read_weights(weights));
        }
        hash(&read)
    }

    /// Checks the start of a step. It must start only once, in the round of its interval, and after
    /// all rows that it reads are available.
    fn check_start(&mut self, step: Step) {
        assert!(step.interval.0 < self.settings.intervals && step.stage.index() < self.program.stages.len());
        let place = self.places[step.interval.index()];
        if step.round != place.round {
            let next = if place.round == Round(0) { self.settings.first } else { Round(place.round.0 + 1) };
            let whole = place.round == Round(0) || place.done == self.program.stages.len();
            assert!(step.round == next && whole, "{step} out of its round: {place:?}");
            self.store.check_entry(step.round);
            self.asked.retain(|of, _| of.interval != step.interval);
            self.done.retain(|of| of.interval != step.interval);
            self.places[step.interval.index()] = Place { round: step.round, ..Place::default() };
        }
        assert!(self.asked.insert(step, 1).is_none(), "{step} started twice");
        let ages = self.ages(step);
        for (stage, scope) in self.program.dependencies(step.stage) {
            if scope == Scope::Own {
                self.store.own(stage, step);
                continue;
            }
            assert_eq!((ages.len(), ages[step.interval.index()]), (self.places.len(), 0));
            for (of, &age) in (0..).zip(&ages) {
                self.store.open(stage, of, step, age);
            }
            self.reading.insert(step, ages.clone());
        }
        self.store.begin(step);
    }

    /// Returns the ages in rounds of the rows that `step` reads, by interval.
    fn ages(&self, step: Step) -> Vec<u32> {
        let none = || vec![0; self.settings.intervals as usize];
        self.engine.ages(step).map_or_else(none, |ages| ages.iter().map(|&age| age.into()).collect())
    }

    fn finish_step(&mut self, step: Step, value: u64) {
        assert!(self.done.insert(step), "{step} committed twice");
        let ages = self.reading.remove(&step).unwrap_or_default();
        for (stage, scope) in self.program.dependencies(step.stage) {
            for (of, &age) in (0..).zip(ages.iter().filter(|_| scope == Scope::All)) {
                self.store.close(stage, of, step, age);
            }
        }
        self.places[step.interval.index()].done += 1;
        self.store.publish(step, value);
    }

    /// Checks another attempt at a step. The step must not have ended, and the attempt must follow
    /// the newest one within the maximum. Returns the newest attempt before it.
    fn check_further(&mut self, task: Task) -> TaskKey {
        assert!(!self.is_over(task.step()), "{} is over", task.step());
        let attempts = self.asked.get_mut(&task.step()).unwrap();
        assert_eq!(task.attempt.0, *attempts);
        *attempts += 1;
        assert!(*attempts <= self.settings.attempts && is_task(self.program, task.stage));
        if let Some(ages) = self.reading.get(&task.step()) {
            assert_eq!(*ages, self.ages(task.step()), "{} reads other rows than before", task.key());
        }
        TaskKey { attempt: eciton_types::Attempt(task.attempt.0 - 1), ..task.key() }
    }

    /// Returns the number of attempts at `step` that were launched.
    pub(super) fn attempts_at(&self, step: Step) -> u32 {
        self.attempts.keys().filter(|key| key.step() == step).count() as u32
    }

    fn unreported(&self) -> u64 {
        self.attempts_at_tasks().filter(|(_, reported)| !reported).count() as u64
    }

    fn attempts_at_tasks(&self) -> impl Iterator<Item = &(u64, bool)> {
        self.attempts.iter().filter(|(key, _)| is_task(self.program, key.stage)).map(|(_, attempt)| attempt)
    }

    /// Checks the counters of the engine. `late` is the number of attempts first reported after
    /// their round but before the end of the run. `unreported` is the number of attempts not
    /// reported at the end.
    fn check_counters(&self, late: u64, unreported: u64) {
        let found = *self.engine.counters();
        let Counters { host_steps, tasks, retries, relaunches, committed, recovered, .. } = self.expected;
        let Counters { failures, mut duplicates, updates, overdue, .. } = self.expected;
        let mut late = late;
        if self.settings.in_flight.is_some() && found.duplicates < duplicates {
            // An interval enters a round before its first step there has its turn: a report that
            // comes between is late, which cannot be seen from here.
            late += duplicates - found.duplicates;
            duplicates = found.duplicates;
        }
        let same = Counters { host_steps, tasks, retries, relaunches, committed, recovered, ..found };
        assert_eq!(found, Counters { failures, duplicates, updates, overdue, ..same });
        assert_eq!(found.attempts(), self.attempts_at_tasks().count() as u64);
        // Each attempt is in one place, also those that were forgotten before they were reported.
        let Counters { late: told, lost, cancelled, .. } = found;
        assert_eq!(told + lost + cancelled + found.in_flight(), late + unreported);
        assert!(told <= self.late + self.expected.duplicates - duplicates);
        let answered = committed - recovered + failures + duplicates;
        assert_eq!(found.attempts(), answered + told + lost + cancelled + found.in_flight());
        if self.settings.deadlines.is_none() {
            assert_eq!((relaunches, found.overdue), (0, 0));
        }
        assert!(relaunches <= found.overdue);
        let cancels = self.end.is_some_and(|(reason, _)| reason == Reason::Stopped);
        assert!(cancelled == 0 || cancels && found.in_flight() == 0);
    }

    /// Returns a random step of the run that is a task.
    pub(super) fn any_task(&mut self) -> Step {
        let tasks = |&id: &u16| is_task(self.program, StageId(id));
        let stages: Vec<u16> = (0..self.program.stages.len() as u16).filter(tasks).collect();
        let random = &mut self.world.random;
        let rounds = u64::from(self.settings.last.0 - self.settings.first.0 + 1);
        let round = Round(self.settings.first.0 + random.below(rounds) as u32);
        let stage = StageId(stages[random.below(stages.len() as u64) as usize]);
        let interval = IntervalId(random.below(self.settings.intervals.into()) as u32);
        Step { round, stage, interval }
    }
}
