//! One simulated run: a driver between engine and world that trusts neither. What it checks is
//! written from the program and the events alone, not from the engine's state.

use super::hash;
use super::world::{Faults, Item, World};
use crate::{Action, Counters, Engine, Event, Reason, Settings};
use eciton_plan::{Epoch, IntervalId, Program, Scope, Stage, StageId, Step, Task, TaskKey, Version};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Run<'a> {
    program: &'a Program,
    settings: Settings,
    pub world: World,
    pub engine: Engine,
    /// Steps of this epoch that were asked for: of gathers 0, else how many attempts.
    asked: BTreeMap<Step, u32>,
    /// What each step of this epoch that is done came to.
    values: BTreeMap<Step, u64>,
    /// Attempts of the whole run: what each one's answer is, and whether it was reported.
    attempts: BTreeMap<TaskKey, (u64, bool)>,
    epoch: Epoch,
    /// Stands for all parameters: changes with every update and by every gradient.
    pub weights: u64,
    pub log: Vec<Action>,
    pub end: Option<(Reason, Epoch)>,
    /// Counted here, to compare.
    pub expected: Counters,
    overdue: BTreeSet<TaskKey>,
    updating: Option<Epoch>,
    /// The first reports that came after their epoch.
    late: u64,
    events: u64,
    pub ended_us: u64,
    /// Before which event to stop or cancel.
    pub stop_at: Option<u64>,
    pub cancel_at: Option<u64>,
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, settings: Settings, faults: Faults, seed: u64) -> Self {
        let mut world = World::new(settings, faults, seed);
        world.after(0, Event::Started);
        Self {
            program,
            settings,
            world,
            engine: Engine::new(program, settings).unwrap(),
            asked: BTreeMap::new(),
            values: BTreeMap::new(),
            attempts: BTreeMap::new(),
            epoch: settings.first,
            weights: 1,
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
        }
    }

    /// To the end, and what is still under way beyond it. False: the engine waits for what never comes.
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
        for event in [Event::Started, Event::StopRequested, Event::Cancelled] {
            self.deliver(event);
        }
        assert!(self.engine.is_finished() && self.engine.running().count() == 0);
        assert_eq!(self.engine.queue_capacity(), capacity, "the queue of actions grew");
        self.check_counters(late, unreported);
        true
    }

    /// One thing that happens. False: nothing ever will.
    fn advance(&mut self) -> bool {
        self.events += 1;
        if self.stop_at == Some(self.events) {
            self.deliver(Event::StopRequested);
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

    pub(super) fn cancel(&mut self) {
        let finished = Epoch(self.epoch.0 - 1);
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

    /// Whether nothing of a step matters any more.
    fn is_over(&self, step: Step) -> bool {
        self.end.is_some() || step.epoch < self.epoch || self.values.contains_key(&step)
    }

    /// Counts what an event should come to; what it should commit, if anything.
    fn expect(&mut self, event: Event) -> Option<TaskKey> {
        let (key, answered) = match event {
            Event::Completed { key, .. } => (key, true),
            Event::Failed { key, .. } => (key, false),
            Event::Updated { epoch } => {
                self.expected.updates += u64::from(self.updating == Some(epoch) && self.end.is_none());
                if self.updating == Some(epoch) {
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
            Event::Gathered(step) if self.asked.contains_key(&step) && !self.is_over(step) => {
                let value = self.value(step);
                self.values.insert(step, value);
                return None;
            }
            _ => return None,
        };
        let over = self.is_over(key.step());
        let (_, reported) = self.attempts.get_mut(&key)?;
        let first = !std::mem::replace(reported, true);
        if !over {
            self.expected.failures += u64::from(!answered && first);
            self.expected.committed += u64::from(answered);
            self.expected.recovered += u64::from(answered && !first);
            return answered.then_some(key);
        }
        if first && self.end.is_none() && key.epoch == self.epoch {
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
            Action::Gather(step) => {
                let gather = matches!(self.program.stage(step.stage), Some(Stage::Gather(_)));
                assert!(gather, "{step} is no gather");
                self.check_start(step, 0);
                self.expected.gathers += 1;
                self.world.soon(Event::Gathered(step));
            }
            Action::Submit(task) => {
                let tensor = matches!(self.program.stage(task.stage), Some(Stage::Tensor(_)));
                assert!(tensor, "{} is no task", task.step());
                self.check_start(task.step(), 1);
                self.expected.tasks += 1;
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
            Action::Commit(key) => {
                let (value, _) = self.attempts[&key];
                assert!(self.asked.contains_key(&key.step()), "{key} was not asked for");
                let before = self.values.insert(key.step(), value);
                assert!(before.is_none(), "{key} committed twice");
            }
            Action::Update { epoch } => {
                assert_eq!(epoch, self.epoch);
                let steps = self.program.stages.len() * self.settings.intervals as usize;
                assert_eq!((self.values.len(), self.asked.len()), (steps, steps));
                self.weights = self.values.values().fold(self.weights, |sum, &value| hash(&[sum, value]));
                self.updating = Some(epoch);
                self.world.soon(Event::Updated { epoch });
            }
            Action::Evaluate { epoch } => self.world.soon(Event::Evaluated { epoch }),
            Action::EpochFinished { epoch } => {
                assert_eq!(epoch, self.epoch);
                self.epoch = Epoch(epoch.0 + 1);
                self.asked.clear();
                self.values.clear();
            }
            Action::Finished { reason, epoch } => {
                assert_eq!(epoch.0, self.epoch.0 - 1);
                self.end = Some((reason, epoch));
                self.ended_us = self.world.now_us;
            }
        }
    }

    fn launch(&mut self, task: Task) {
        let updates = u64::from(self.epoch.0 - self.settings.first.0);
        assert_eq!(task.weights, Version(self.settings.weights.0 + updates));
        let key = task.key();
        let before = self.attempts.insert(key, (self.value(task.step()), false));
        assert!(before.is_none(), "{key} launched twice");
        self.world.launch(key);
        if let Some(deadline_us) = self.engine.deadline_us(task.stage) {
            let limits = self.settings.deadlines.unwrap();
            let floor_us = limits.floor_us.min(limits.maximum_us);
            assert!((floor_us..=limits.maximum_us).contains(&deadline_us));
            self.world.timer(self.world.now_us + deadline_us, key, self.world.now_us);
        }
    }

    /// What a step comes to: a pure function of all it reads.
    fn value(&self, step: Step) -> u64 {
        let mut read = vec![step.stage.0.into(), step.interval.0.into(), self.weights];
        self.needed(step, &mut |needed| read.push(self.values[&needed]));
        hash(&read)
    }

    fn needed(&self, step: Step, each: &mut dyn FnMut(Step)) {
        for (stage, scope) in self.program.dependencies(step.stage) {
            let of = match scope {
                Scope::Own => step.interval.0..step.interval.0 + 1,
                Scope::All => 0..self.settings.intervals,
            };
            of.for_each(|interval| each(Step { stage, interval: IntervalId(interval), ..step }));
        }
    }

    /// A step starts once, in its epoch, when what it reads is there.
    fn check_start(&mut self, step: Step, attempts: u32) {
        assert_eq!(step.epoch, self.epoch, "{step} out of its epoch");
        assert!(step.interval.0 < self.settings.intervals && step.stage.index() < 1 << 16);
        self.needed(step, &mut |needed| {
            assert!(self.values.contains_key(&needed), "{step} before {needed}");
        });
        assert!(self.asked.insert(step, attempts).is_none(), "{step} started twice");
    }

    /// A further attempt follows the newest, within the limit, while the step is not done. Returns
    /// the newest so far.
    fn check_further(&mut self, task: Task) -> TaskKey {
        assert!(!self.is_over(task.step()), "{} is over", task.step());
        let attempts = self.asked.get_mut(&task.step()).unwrap();
        assert_eq!(task.attempt.0, *attempts);
        *attempts += 1;
        assert!(*attempts <= self.settings.attempts);
        TaskKey { attempt: eciton_plan::Attempt(task.attempt.0 - 1), ..task.key() }
    }

    /// How many attempts were launched at a step.
    pub(super) fn attempts_at(&self, step: Step) -> u32 {
        self.attempts.keys().filter(|key| key.step() == step).count() as u32
    }

    fn unreported(&self) -> u64 {
        self.attempts.values().filter(|(_, reported)| !reported).count() as u64
    }

    /// `late` first reports came after their epoch before the end of the run, which found so many
    /// attempts `unreported`.
    fn check_counters(&self, late: u64, unreported: u64) {
        let found = *self.engine.counters();
        let Counters { gathers, tasks, retries, relaunches, committed, recovered, .. } = self.expected;
        let Counters { failures, duplicates, updates, overdue, .. } = self.expected;
        let same = Counters { gathers, tasks, retries, relaunches, committed, recovered, ..found };
        assert_eq!(found, Counters { failures, duplicates, updates, overdue, ..same });
        assert_eq!(found.attempts(), self.attempts.len() as u64);
        // Each attempt is in one place, also those that were forgotten before they were reported.
        let Counters { late: told, lost, cancelled, .. } = found;
        assert_eq!(told + lost + cancelled + found.in_flight(), late + unreported);
        assert!(told <= self.late);
        let answered = committed - recovered + failures + duplicates;
        assert_eq!(found.attempts(), answered + told + lost + cancelled + found.in_flight());
        if self.settings.deadlines.is_none() {
            assert_eq!((relaunches, found.overdue), (0, 0));
        }
        assert!(relaunches <= found.overdue);
        let cancels = self.end.is_some_and(|(reason, _)| reason == Reason::Stopped);
        assert!(cancelled == 0 || cancels && found.in_flight() == 0);
    }

    /// A task's step, any of the run's.
    pub(super) fn any_task(&mut self) -> Step {
        let tensors = |&id: &u16| matches!(self.program.stages[usize::from(id)], Stage::Tensor(_));
        let stages: Vec<u16> = (0..self.program.stages.len() as u16).filter(tensors).collect();
        let random = &mut self.world.random;
        let epochs = u64::from(self.settings.last.0 - self.settings.first.0 + 1);
        let epoch = Epoch(self.settings.first.0 + random.below(epochs) as u32);
        let stage = StageId(stages[random.below(stages.len() as u64) as usize]);
        let interval = IntervalId(random.below(self.settings.intervals.into()) as u32);
        Step { epoch, stage, interval }
    }
}
