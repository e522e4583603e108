//! The engine: progress of every step of the current epoch.

mod answers;

use crate::attempts::{Attempts, Progress, Report};
use crate::counters::Counters;
use crate::error::Error;
use crate::event::{Action, Event, Reason};
use crate::pace::Pace;
use crate::settings::{
    Deadlines, MAX_ATTEMPTS, MAX_DEADLINE_RATIO, MAX_DEADLINE_US, MAX_INTERVALS, MAX_STEPS, Settings,
};
use answers::Found;
use eciton_plan::{Attempt, Epoch, IntervalId, Program, Scope, Stage, StageId, Step, Task, TaskKey, Version};
use std::collections::VecDeque;

/// Runs a program's epochs over intervals, one event at a time.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    trains: bool,
    stages: Vec<StageInfo>,
    /// Stages to tell when one is done: `StageInfo::followers` are ranges of it.
    followers: Vec<(u16, Scope)>,
    /// Steps of the epoch, each at its [`Engine::place`].
    steps: Vec<StepInfo>,
    /// Steps of the epoch that are not done.
    left: u64,
    phase: Phase,
    epoch: Epoch,
    finished: Epoch,
    /// The first and last epoch asked for before restarts.
    forgotten: Option<(Epoch, Epoch)>,
    weights: Version,
    stopping: bool,
    counters: Counters,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug)]
struct StageInfo {
    gather: bool,
    /// How many stages a step of this one waits for.
    waits: u32,
    followers: std::ops::Range<u32>,
    /// Intervals that have done it in this epoch.
    done: u32,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
struct StepInfo {
    /// How many stages it still waits for.
    waits: u32,
    /// A gather has one, which is not counted.
    attempts: Attempts,
}

/// What [`MAX_STEPS`] says of the room that a step takes.
const _: () = assert!(size_of::<StepInfo>() == 20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before `Started`.
    Ready,
    Steps,
    Updating,
    Evaluating,
    Finished,
}

impl Engine {
    /// An engine for a program. It keeps what it needs of it.
    ///
    /// # Errors
    /// [`Error::Setting`] for intervals, attempts, deadlines or steps out of range, [`Error::Ratio`] for
    /// such a ratio of deadlines, [`Error::Order`] for a program whose stages are out of order.
    pub fn new(program: &Program, settings: Settings) -> Result<Self, Error> {
        let within = |what, found: u64, most: u64| {
            let allowed = (1..=most).contains(&found);
            if allowed { Ok(()) } else { Err(Error::Setting { what, found, least: 1, most }) }
        };
        let intervals = u64::from(settings.intervals);
        let stage_count = program.stages.len() as u64;
        within("intervals", intervals, u64::from(MAX_INTERVALS))?;
        within("attempts", u64::from(settings.attempts), u64::from(MAX_ATTEMPTS))?;
        if let Some(Deadlines { floor_us, ratio, maximum_us }) = settings.deadlines {
            within("longest deadline in microseconds", maximum_us, MAX_DEADLINE_US)?;
            within("shortest deadline in microseconds", floor_us, maximum_us)?;
            if !(ratio > 1.0 && ratio <= MAX_DEADLINE_RATIO) {
                return Err(Error::Ratio { found: ratio, most: MAX_DEADLINE_RATIO });
            }
        }
        within("stages of the program", stage_count, 1 << 16)?;
        within("steps of an epoch (stages x intervals)", stage_count * intervals, MAX_STEPS)?;

        let mut after: Vec<Vec<(u16, Scope)>> = vec![Vec::new(); program.stages.len()];
        let mut stages = Vec::with_capacity(program.stages.len());
        for (id, stage) in (0u16..=u16::MAX).zip(&program.stages) {
            let needed = program.dependencies(StageId(id));
            for &(before, scope) in &needed {
                let (stage, needs) = (StageId(id), before);
                let earlier = if before < stage { after.get_mut(before.index()) } else { None };
                earlier.ok_or(Error::Order { stage, needs })?.push((id, scope));
            }
            // A program has at most 2^16 stages.
            let waits = u32::try_from(needed.len()).unwrap_or(u32::MAX);
            let gather = matches!(stage, Stage::Gather(_));
            stages.push(StageInfo { gather, waits, followers: 0..0, done: 0, pace: Pace::default() });
        }
        let mut followers = Vec::new();
        for (stage, after) in stages.iter_mut().zip(after) {
            let start = u32::try_from(followers.len()).unwrap_or(u32::MAX);
            followers.extend(after);
            stage.followers = start..u32::try_from(followers.len()).unwrap_or(u32::MAX);
        }
        let idle = StepInfo { waits: 0, attempts: Attempts::NONE };
        let steps = vec![idle; stages.len() * settings.intervals as usize];
        // Stages that one event can start at most, on every interval, and what goes with them.
        let starts = stages.iter().filter(|stage| stage.waits == 0).count();
        let widest = stages.iter().map(|stage| stage.followers.len()).max().unwrap_or(0);
        let most = starts.max(widest).saturating_mul(settings.intervals as usize);
        let mut engine = Self {
            settings,
            trains: program.trains(),
            stages,
            followers,
            steps,
            left: 0,
            phase: Phase::Ready,
            epoch: Epoch(0),
            finished: Epoch(0),
            forgotten: None,
            weights: Version(0),
            stopping: false,
            counters: Counters::default(),
            actions: VecDeque::with_capacity(most.min(1 << 20) + 8),
        };
        engine.restart(settings.first, settings.last, settings.weights);
        Ok(engine)
    }

    /// Makes the engine ready for [`Event::Started`] once more, for other epochs; whatever ran is
    /// forgotten but for the counters and what is known of each stage's pace. For an evaluation
    /// program, once per evaluation.
    ///
    /// A key does not say before or after which restart: reports of attempts of before must not reach
    /// the engine any more if their epochs come again.
    pub fn restart(&mut self, first: Epoch, last: Epoch, weights: Version) {
        if self.phase != Phase::Ready {
            let (from, to) = self.forgotten.unwrap_or((self.settings.first, self.epoch));
            self.forgotten = Some((from.min(self.settings.first), to.max(self.epoch)));
            self.counters.lost += self.counters.in_flight();
            self.steps.fill(StepInfo { waits: 0, attempts: Attempts::NONE });
        }
        self.settings.first = first;
        self.settings.last = last;
        self.weights = weights;
        self.epoch = first;
        self.finished = Epoch(first.0.saturating_sub(1));
        self.phase = Phase::Ready;
        self.stopping = false;
        self.actions.clear();
    }

    /// Takes an event and says what to do. Carry out everything that comes back: actions that are
    /// not taken from the iterator are lost.
    pub fn step(&mut self, event: Event) -> impl Iterator<Item = Action> + '_ {
        self.actions.clear();
        match event {
            Event::Started => self.started(),
            Event::Gathered(step) => self.gathered(step),
            Event::Completed { key, took_us } => self.completed(key, took_us),
            Event::Overdue(key) => self.overdue(key),
            Event::Failed { key, retryable } => self.failed(key, retryable),
            Event::Updated { epoch } => self.updated(epoch),
            Event::Evaluated { epoch } => self.evaluated(epoch),
            Event::StopRequested => self.stop_requested(),
            Event::Cancelled => self.cancelled(),
        }
        self.actions.drain(..)
    }

    /// How long an attempt at this stage may be under way before it is [`Event::Overdue`], in
    /// microseconds: `max(floor, ratio * average)`, at most the maximum, and the maximum until the first
    /// answer to the stage ([`Deadlines`]). It moves with every answer, so ask again when a
    /// timer runs out, and often enough to see that it came nearer. A pure function of the events so far.
    ///
    /// `None`: no deadlines are set, or the program has no such stage, or it is a gather.
    #[must_use]
    pub fn deadline_us(&self, stage: StageId) -> Option<u64> {
        let stage = self.stages.get(stage.index()).filter(|stage| !stage.gather)?;
        self.settings.deadlines.as_ref().map(|deadlines| stage.pace.deadline_us(deadlines))
    }

    /// What it has seen.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The settings, with the epochs and weights of the last restart.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The current epoch; before the start and after the end the nearest one.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The newest version of the weights.
    #[must_use]
    pub fn weights(&self) -> Version {
        self.weights
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// Room for actions; it never grows.
    #[cfg(test)]
    pub(crate) fn queue_capacity(&self) -> usize {
        self.actions.capacity()
    }

    /// Attempts under way, counted one by one.
    #[cfg(test)]
    pub(crate) fn alive(&self) -> u64 {
        let tasks = self.stages.iter().zip(self.steps.chunks(self.settings.intervals as usize));
        let tasks = tasks.filter(|(stage, _)| !stage.gather).flat_map(|(_, steps)| steps);
        tasks.map(|step| u64::from(step.attempts.alive())).sum()
    }

    /// The newest attempt at each step that was asked for and is not done: what a stalled run waits
    /// for. (Not for every event: it looks at all steps.)
    pub fn running(&self) -> impl Iterator<Item = TaskKey> + '_ {
        let active = self.phase == Phase::Steps;
        let intervals = self.settings.intervals as usize;
        self.steps.iter().enumerate().filter_map(move |(place, step)| {
            let running = active && step.attempts.progress() == Progress::Running;
            // Both fit: places were made from such numbers.
            let (stage, interval) = (StageId((place / intervals) as u16), (place % intervals) as u32);
            let (epoch, interval, attempt) = (self.epoch, IntervalId(interval), step.attempts.newest());
            running.then_some(TaskKey { epoch, stage, interval, attempt })
        })
    }

    /// Where a step of the current epoch lies in `steps`.
    fn place(&self, stage: usize, interval: u32) -> usize {
        stage * self.settings.intervals as usize + interval as usize
    }

    fn is_forgotten(&self, epoch: Epoch) -> bool {
        self.forgotten.is_some_and(|(from, to)| (from..=to).contains(&epoch))
    }

    fn started(&mut self) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else if self.phase != Phase::Ready {
            self.counters.unexpected += 1;
        } else if self.stopping {
            self.finish(Reason::Stopped);
        } else if self.settings.first > self.settings.last {
            self.finish(Reason::Completed);
        } else {
            self.start_epoch();
        }
    }

    fn start_epoch(&mut self) {
        self.phase = Phase::Steps;
        self.left = self.steps.len() as u64;
        // Of this run: after a restart no step has attempts.
        let over = Epoch(self.epoch.0.saturating_sub(1));
        let intervals = self.settings.intervals as usize;
        for (stage, steps) in self.stages.iter_mut().zip(self.steps.chunks_mut(intervals)) {
            stage.done = 0;
            for step in steps {
                step.waits = stage.waits;
                self.counters.lost += u64::from(step.attempts.renew(over));
            }
        }
        for stage in 0..self.stages.len() {
            if self.stages[stage].waits == 0 {
                for interval in 0..self.settings.intervals {
                    self.start(stage, interval);
                }
            }
        }
    }

    fn start(&mut self, stage: usize, interval: u32) {
        let place = self.place(stage, interval);
        let attempt = self.steps[place].attempts.launch();
        let (epoch, weights) = (self.epoch, self.weights);
        // A program has at most 2^16 stages.
        let (id, interval) = (StageId(stage as u16), IntervalId(interval));
        if self.stages[stage].gather {
            self.counters.gathers += 1;
            self.actions.push_back(Action::Gather(Step { epoch, stage: id, interval }));
        } else {
            self.counters.tasks += 1;
            let task = Task { epoch, stage: id, interval, attempt, weights };
            self.actions.push_back(Action::Submit(task));
        }
    }

    fn gathered(&mut self, step: Step) {
        match self.find(step, true) {
            Some(Found::Now(place)) => match self.steps[place].attempts.report(Attempt(0)) {
                Report::First => self.done(place, step),
                Report::Again => self.counters.ignored += 1,
                Report::Unknown => self.counters.unexpected += 1,
            },
            Some(_) => self.counters.ignored += 1,
            None => {}
        }
    }

    /// Marks a step done and starts what waited for it.
    fn done(&mut self, place: usize, step: Step) {
        self.steps[place].attempts.done();
        self.left -= 1;
        let stage = &mut self.stages[step.stage.index()];
        stage.done += 1;
        let all_done = stage.done == self.settings.intervals;
        for follower in stage.followers.clone() {
            let (stage, scope) = self.followers[follower as usize];
            match scope {
                Scope::Own => self.tell(usize::from(stage), step.interval.0),
                // The barrier: every interval has published.
                Scope::All if all_done => {
                    for interval in 0..self.settings.intervals {
                        self.tell(usize::from(stage), interval);
                    }
                }
                Scope::All => {}
            }
        }
        if self.left == 0 {
            self.steps_done();
        }
    }

    /// One of the stages that a step waits for is there.
    fn tell(&mut self, stage: usize, interval: u32) {
        let place = self.place(stage, interval);
        let step = &mut self.steps[place];
        step.waits -= 1;
        if step.waits == 0 {
            self.start(stage, interval);
        }
    }

    fn steps_done(&mut self) {
        if self.trains {
            self.phase = Phase::Updating;
            self.actions.push_back(Action::Update { epoch: self.epoch });
        } else {
            self.end_epoch();
        }
    }

    fn updated(&mut self, epoch: Epoch) {
        if self.phase != Phase::Updating || epoch != self.epoch {
            self.dropped(epoch);
            return;
        }
        self.counters.updates += 1;
        self.weights = Version(self.weights.0.saturating_add(1));
        let every = self.settings.eval_every;
        let due = every != 0 && epoch.0.is_multiple_of(every);
        if due || self.stopping || epoch == self.settings.last {
            self.phase = Phase::Evaluating;
            self.actions.push_back(Action::Evaluate { epoch });
        } else {
            self.end_epoch();
        }
    }

    fn evaluated(&mut self, epoch: Epoch) {
        if self.phase == Phase::Evaluating && epoch == self.epoch {
            self.end_epoch();
        } else {
            self.dropped(epoch);
        }
    }

    /// An update or evaluation that is not awaited.
    fn dropped(&mut self, epoch: Epoch) {
        let over = epoch < self.epoch || self.phase == Phase::Finished;
        let asked = epoch >= self.settings.first && epoch <= self.epoch && self.phase != Phase::Ready;
        let again = self.phase == Phase::Evaluating;
        if asked && (over || again) || self.is_forgotten(epoch) {
            self.counters.ignored += 1;
        } else {
            self.counters.unexpected += 1;
        }
    }

    fn end_epoch(&mut self) {
        self.finished = self.epoch;
        self.actions.push_back(Action::EpochFinished { epoch: self.epoch });
        if self.epoch >= self.settings.last {
            self.finish(Reason::Completed);
        } else if self.stopping {
            self.finish(Reason::Stopped);
        } else {
            self.epoch = Epoch(self.epoch.0 + 1);
            self.start_epoch();
        }
    }

    fn stop_requested(&mut self) {
        // Before the start: `Started` ends the run at once. Later: at the end of the epoch.
        self.stopping = true;
    }

    fn finish(&mut self, reason: Reason) {
        self.phase = Phase::Finished;
        self.actions.push_back(Action::Finished { reason, epoch: self.finished });
    }
}
