//! The engine, a state machine that moves each interval (a contiguous range of rows) through its
//! rounds.

mod answers;
mod lanes;
mod progress;
mod readings;
mod received;

use crate::attempts::{Attempts, Progress};
use crate::counters::Counters;
use crate::error::Error;
use crate::event::{Action, Event};
use crate::pace::Pace;
use crate::settings::{
    Deadlines, MAX_APART_INTERVALS, MAX_ATTEMPTS, MAX_DEADLINE_RATIO, MAX_DEADLINE_US, MAX_INTERVALS,
    MAX_STEPS, Settings,
};
use eciton_program::{Place, Program, Scope};
use eciton_recipe::Mode;
use eciton_types::{IntervalId, Location, Round, StageId, Step, TaskKey, Version};
use readings::Readings;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Expands to true if a test of the simulation has planted the named defect. Expands to false in
/// builds that are not tests.
macro_rules! planted {
    ($engine:expr, $defect:ident) => {{
        #[cfg(test)]
        {
            $engine.planted == Some(crate::simulation::Planted::$defect)
        }
        #[cfg(not(test))]
        {
            false
        }
    }};
}
pub(crate) use planted;

/// Scheduler that runs the rounds (optimiser steps) of a program on intervals (contiguous ranges of
/// rows). It processes one event at a time.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    trains: bool,
    stages: Vec<StageInfo>,
    /// Stages that wait for other stages, as one list. [`StageInfo::followers`] is the range of
    /// those that wait for one stage.
    followers: Vec<(u16, Scope)>,
    /// State of each step, by stage and interval, in the current round of the interval.
    /// [`Engine::place`] computes the index.
    steps: Vec<StepInfo>,
    intervals: Vec<IntervalInfo>,
    readings: Readings,
    /// Ready steps that wait because the maximum number of steps is in flight. The steps are
    /// submitted in the order of round, stage and interval.
    ready: BinaryHeap<Reverse<(Round, u16, u32)>>,
    /// Number of steps in flight that count towards [`Settings::in_flight`].
    handed_out: u32,
    /// State of the lanes (workers' shares of the pipeline), if the program has lanes.
    lanes: Option<lanes::Lanes>,
    /// Maximum number of rounds in flight, which is the staleness bound plus 1.
    spread: u32,
    /// Number of intervals that have finished each stage, for each round in flight.
    done: Vec<u32>,
    /// Number of intervals that have finished each round in flight.
    completed: Vec<u32>,
    /// Number of intervals of this host that have finished each round in flight.
    completed_own: Vec<u32>,
    /// Reports about intervals of other hosts that arrived before their round.
    early: received::Early,
    phase: Phase,
    track: Track,
    /// Number of rounds that are complete, including their update and evaluation.
    over: u32,
    finished: Round,
    /// Latest round that any interval has entered.
    furthest: Round,
    /// Last round that an interval may enter. A stop request lowers it.
    until: Round,
    /// First of the last rounds whose steps read only rows of their own round.
    exact_from: Round,
    /// First and last round before the last restart. Late reports about these rounds are ignored.
    forgotten: Option<(Round, Round)>,
    weights: Version,
    /// True if the first round continues an earlier run. The round then reads the last version of
    /// the weights of that run.
    goes_on: bool,
    stopping: bool,
    counters: Counters,
    actions: VecDeque<Action>,
    #[cfg(test)]
    pub(crate) planted: Option<crate::simulation::Planted>,
}

#[derive(Clone, Debug)]
struct StageInfo {
    place: Place,
    /// Number of stages for which a step of this stage waits.
    waits: u32,
    followers: std::ops::Range<u32>,
    /// Stages whose rows of all intervals this stage reads, in ascending order.
    reads: Vec<u16>,
    /// True if steps of other intervals wait for this stage, so that hosts report it to each other.
    travels: bool,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
struct StepInfo {
    /// Number of stages for which the step still waits.
    waits: u32,
    attempts: Attempts,
}

/// Ensures that a step takes as many bytes as the documentation of [`MAX_STEPS`] states.
const _: () = assert!(size_of::<StepInfo>() == 20);

#[derive(Clone, Copy, Debug)]
struct IntervalInfo {
    /// Current round of the interval, or `None` before its first round. If `left` is 0, the
    /// interval has finished this round.
    round: Option<Round>,
    /// Number of steps of the current round that have not ended.
    left: u32,
    /// Version of the weights that the tasks of the interval read in the current round.
    weights: Version,
    /// Latest round that another host has finished on its interval. `None` before the first one.
    ended: Option<Round>,
}

impl IntervalInfo {
    /// Creates the state of an interval before its first round.
    fn new(weights: Version) -> Self {
        Self { round: None, left: 0, weights, ended: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The engine has not received [`Event::Started`] yet.
    Ready,
    Running,
    Finished,
}

/// Current activity for the oldest round in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Track {
    Steps,
    Updating,
    Evaluating,
}

/// An interval without a step in flight, and the reason why it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The interval that waits.
    pub interval: IntervalId,
    /// Reason why the interval waits.
    pub waits_for: WaitsFor,
}

/// Reason why an interval (a contiguous range of rows) has no step in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The interval waits until all intervals have finished this round and its update is complete.
    Round(Round),
    /// The step would overwrite rows that another step is still reading.
    Readers(Step),
    /// The maximum number of steps is in flight, so this step waits.
    Turn(Step),
    /// The step reads rows that other steps have not written yet.
    Rows(Step),
}

impl Engine {
    /// Creates an engine that runs `program`.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if the number of intervals, attempts or steps, or a deadline, is
    /// out of range. Returns [`Error::Ratio`] if the deadline ratio is out of range. Returns
    /// [`Error::Pipeline`] if settings of the pipeline contradict each other, and [`Error::Order`]
    /// if a stage reads a later stage.
    pub fn new(program: &Program, settings: Settings) -> Result<Self, Error> {
        check(program, &settings)?;
        let intervals = settings.intervals;
        let count = program.stages.len();
        let mut after: Vec<Vec<(u16, Scope)>> = vec![Vec::new(); count];
        let mut stages: Vec<StageInfo> = Vec::with_capacity(count);
        for id in (0u16..=u16::MAX).take(count) {
            let mut needed = program.dependencies(StageId(id));
            let all = needed.iter().filter(|(_, scope)| *scope == Scope::All);
            let reads = all.map(|(stage, _)| stage.0).collect();
            let before = id.checked_sub(1).filter(|_| program.sampling != Some(StageId(id)));
            if let (Mode::Sync, Some(before)) = (settings.pipeline.mode, before) {
                needed.retain(|&(stage, _)| stage.0 != before);
                needed.push((StageId(before), Scope::All));
            }
            for &(before, scope) in &needed {
                let (stage, needs) = (StageId(id), before);
                let is_earlier = before < stage || Some(before) == program.sampling;
                let earlier = if is_earlier { after.get_mut(before.index()) } else { None };
                earlier.ok_or(Error::Order { stage, needs })?.push((id, scope));
            }
            // A program has at most 2^16 stages.
            let waits = u32::try_from(needed.len()).unwrap_or(u32::MAX);
            let place = program.place(StageId(id));
            stages.push(StageInfo {
                place,
                waits,
                followers: 0..0,
                reads,
                travels: false,
                pace: Pace::default(),
            });
        }
        let mut followers = Vec::new();
        for (stage, after) in stages.iter_mut().zip(after) {
            let start = u32::try_from(followers.len()).unwrap_or(u32::MAX);
            stage.travels = after.iter().any(|(_, scope)| *scope == Scope::All);
            followers.extend(after);
            stage.followers = start..u32::try_from(followers.len()).unwrap_or(u32::MAX);
        }
        // Maximum number of actions of one event: all stages on all intervals, and a few more.
        let starts = stages.iter().filter(|stage| stage.waits == 0).count();
        let widest = stages.iter().map(|stage| stage.followers.len()).max().unwrap_or(0);
        let most = (starts + widest).saturating_mul(intervals as usize);
        let spread = settings.pipeline.gradient_versions();
        let reads = stages.iter().flat_map(|stage| &stage.reads);
        let readings = Readings::new(&settings.pipeline, intervals, reads.copied(), count);
        let idle = StepInfo { waits: 0, attempts: Attempts::NONE };
        let mut engine = Self {
            settings,
            trains: program.trains(),
            steps: vec![idle; count * intervals as usize],
            intervals: vec![IntervalInfo::new(Version(0)); intervals as usize],
            readings,
            ready: BinaryHeap::new(),
            handed_out: 0,
            lanes: lanes::Lanes::new(program, &settings),
            spread,
            done: vec![0; count * spread as usize],
            completed: vec![0; spread as usize],
            completed_own: vec![0; spread as usize],
            early: received::Early::default(),
            stages,
            followers,
            phase: Phase::Ready,
            track: Track::Steps,
            over: 0,
            finished: Round(0),
            furthest: Round(0),
            until: Round(0),
            exact_from: Round(0),
            forgotten: None,
            weights: Version(0),
            goes_on: false,
            stopping: false,
            counters: Counters::default(),
            actions: VecDeque::with_capacity(most.min(1 << 20) + 8),
            #[cfg(test)]
            planted: None,
        };
        engine.restart(settings.first, settings.last, settings.weights);
        Ok(engine)
    }

    /// Prepares the engine for another [`Event::Started`] with the rounds from `first` to `last`.
    /// Only the counters and the average times of the stages are kept. The engine of an evaluation
    /// is restarted for each evaluation.
    ///
    /// The first round is treated as the first round of a new run. [`Engine::go_on`] makes it
    /// continue an earlier run.
    ///
    /// Task keys do not contain the number of restarts. If rounds are repeated, the driver must not
    /// report attempts from before the restart.
    pub fn restart(&mut self, first: Round, last: Round, weights: Version) {
        if self.phase != Phase::Ready {
            let (from, to) = self.forgotten.unwrap_or((self.settings.first, self.furthest));
            self.forgotten = Some((from.min(self.settings.first), to.max(self.furthest)));
            self.counters.lost += self.counters.in_flight();
            self.steps.fill(StepInfo { waits: 0, attempts: Attempts::NONE });
        }
        self.settings.first = first;
        self.settings.last = last;
        self.weights = weights;
        self.settings.weights = weights;
        self.goes_on = false;
        self.intervals.fill(IntervalInfo::new(weights));
        self.forget_ready();
        self.done.fill(0);
        self.completed.fill(0);
        self.completed_own.fill(0);
        self.early.clear();
        self.over = 0;
        self.finished = Round(first.0.saturating_sub(1));
        self.furthest = first;
        self.until = last;
        let exact = self.settings.pipeline.synchronous_last;
        self.exact_from = Round(last.0.saturating_sub(exact).saturating_add(1));
        self.phase = Phase::Ready;
        self.track = Track::Steps;
        self.stopping = false;
        self.actions.clear();
    }

    /// Makes the first round continue an earlier run. The version before `weights` is then
    /// available, and the round reads it if the pipeline delays weights by a version (`2bw`). This
    /// must be called between [`Engine::restart`] and [`Event::Started`].
    pub fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// Processes an event, and returns the actions that follow from it. The caller must take and
    /// carry out all actions, because actions that remain in the iterator are lost.
    pub fn step(&mut self, event: Event) -> impl Iterator<Item = Action> + '_ {
        self.actions.clear();
        match event {
            Event::Started => self.started(),
            Event::Completed { key, took_us } => self.completed(key, took_us),
            Event::Overdue(key) => self.overdue(key),
            Event::Failed { key, retryable } => self.failed(key, retryable),
            Event::Received(step) => self.received(step),
            Event::Shared { first, end, round } => self.shared((first, end), round),
            Event::EndAfter { round } => self.end_after(round),
            Event::SynchroniseFrom { round } => self.synchronise_from(round),
            Event::Updated { round } => self.updated(round),
            Event::Evaluated { round } => self.evaluated(round),
            Event::Synchronise => self.synchronise(),
            Event::StopRequested => self.stop_requested(),
            Event::Cancelled => self.cancelled(),
            Event::WorkerFailed { at } => self.worker_lost(at),
            Event::Forgot { at } => self.worker_forgot(at),
            Event::Joined { at } => self.worker_joined(at),
        }
        self.hand_out();
        self.hand_out_lanes();
        self.actions.drain(..)
    }

    /// Returns the time in microseconds after which the driver reports an attempt at `stage` as
    /// [`Event::Overdue`]. It is `max(floor, ratio * average)`, limited to the maximum
    /// ([`Deadlines`]). Before the first answer of the stage, it is the maximum.
    ///
    /// Each answer changes this time. A driver therefore calls this function again when its timer
    /// expires, and regularly before. The result depends only on the events so far. Returns `None`
    /// without deadlines, for an unknown stage, and for a stage of the host.
    #[must_use]
    pub fn deadline_us(&self, stage: StageId) -> Option<u64> {
        let stage = self.stages.get(stage.index()).filter(|stage| stage.place.is_task())?;
        self.settings.deadlines.as_ref().map(|deadlines| stage.pace.deadline_us(deadlines))
    }

    /// Returns the numbers of steps, attempts and events so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the settings. Their rounds and weights are those of the last restart.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the oldest unfinished round. This is the first round before the start, and the last
    /// round after the end.
    #[must_use]
    pub fn round(&self) -> Round {
        let round = self.settings.first.0.saturating_add(self.over);
        Round(round.min(self.furthest.0))
    }

    /// Returns the newest version of the weights.
    #[must_use]
    pub fn weights(&self) -> Version {
        self.weights
    }

    /// Returns the ages of the rows that a step in flight reads, by interval. The age is the number
    /// of rounds by which rows are older than the step's own round. Returns `None` if all ages are
    /// 0. All attempts at a step read rows of the same ages.
    #[must_use]
    pub fn ages(&self, step: Step) -> Option<&[u8]> {
        let asked = self.intervals.get(step.interval.index())?.round == Some(step.round);
        self.readings.ages(step.stage, step.interval).filter(|_| asked)
    }

    /// Returns true if the run has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// Returns the location of the worker of each lane (a share of the pipeline). If several
    /// workers have gradient sums of the lane ([`Engine::sums`]), it is one of them: the lane's own
    /// worker, or the first one. The list is empty if the program has no lanes.
    #[must_use]
    pub fn homes(&self) -> Vec<Location> {
        self.lanes.as_ref().map_or_else(Vec::new, lanes::Lanes::homes)
    }

    /// Returns the capacity of the list of actions. Tests check that it never grows.
    #[cfg(test)]
    pub(crate) fn queue_capacity(&self) -> usize {
        self.actions.capacity()
    }

    /// Returns the number of attempts at tasks in flight, from a count of the attempts themselves.
    /// Tests compare it with the counters.
    #[cfg(test)]
    pub(crate) fn alive(&self) -> u64 {
        let tasks = self.stages.iter().zip(self.steps.chunks(self.settings.intervals as usize));
        let tasks = tasks.filter(|(stage, _)| stage.place.is_task()).flat_map(|(_, steps)| (0..).zip(steps));
        let own = tasks.filter(|(interval, _)| self.owns(*interval));
        own.map(|(_, step)| u64::from(step.attempts.alive())).sum()
    }

    /// Returns the newest attempt at each submitted step that has not ended, which are the attempts
    /// that a stalled run waits for. The time is proportional to the number of steps.
    pub fn running(&self) -> impl Iterator<Item = TaskKey> + '_ {
        let active = self.phase == Phase::Running;
        let intervals = self.settings.intervals as usize;
        self.steps.iter().enumerate().filter_map(move |(place, step)| {
            let running = active && step.attempts.progress() == Progress::Running;
            // Both fit, because indices were made from such numbers.
            let (stage, interval) = (StageId((place / intervals) as u16), (place % intervals) as u32);
            let round = self.intervals.get(interval as usize)?.round?;
            let (interval, attempt) = (IntervalId(interval), step.attempts.newest());
            running.then_some(TaskKey { round, stage, interval, attempt })
        })
    }

    /// Returns the intervals without a step in flight, each with the reason. The time is
    /// proportional to the number of steps.
    pub fn parked(&self) -> impl Iterator<Item = Parked> + '_ {
        let active = self.phase == Phase::Running;
        let numbers = 0..self.settings.intervals;
        numbers.filter(move |&interval| active && self.owns(interval)).filter_map(|interval| {
            let info = self.intervals.get(interval as usize)?;
            let round = info.round?;
            let waits_for = if info.left == 0 {
                let next = Round(round.0.checked_add(1).filter(|&next| next <= self.until.0)?);
                WaitsFor::Round(Round(next.0.saturating_sub(1 + self.bound(next))))
            } else {
                let of = |stage: usize| &self.steps[self.place(stage, interval)];
                let mut stages = 0..self.stages.len();
                if stages.clone().any(|stage| of(stage).attempts.progress() == Progress::Running) {
                    return None;
                }
                let step = |stage: usize| Step {
                    round,
                    stage: StageId(stage as u16),
                    interval: IntervalId(interval),
                };
                let waiting = |&stage: &usize| of(stage).attempts.progress() == Progress::Waiting;
                let stage = stages.find(waiting)?;
                let blocked = || self.readings.blocked.contains(&(stage as u16, interval));
                match of(stage).waits {
                    0 if blocked() => WaitsFor::Readers(step(stage)),
                    0 => WaitsFor::Turn(step(stage)),
                    _ => WaitsFor::Rows(step(stage)),
                }
            };
            Some(Parked { interval: IntervalId(interval), waits_for })
        })
    }

    /// Returns true if the step of `stage` on `interval` is a task, which functions or workers may
    /// run.
    fn is_task(&self, stage: StageId, interval: IntervalId) -> bool {
        self.owns(interval.0) && self.stages.get(stage.index()).is_some_and(|stage| stage.place.is_task())
    }

    /// Returns the index in `steps` of the step of `stage` on `interval`.
    fn place(&self, stage: usize, interval: u32) -> usize {
        stage * self.settings.intervals as usize + interval as usize
    }

    fn is_forgotten(&self, round: Round) -> bool {
        self.forgotten.is_some_and(|(from, to)| (from..=to).contains(&round))
    }
}

fn check(program: &Program, settings: &Settings) -> Result<(), Error> {
    let within = |what, found: u64, most: u64| {
        let allowed = (1..=most).contains(&found);
        if allowed { Ok(()) } else { Err(Error::Setting { what, found, least: 1, most }) }
    };
    let intervals = u64::from(settings.intervals);
    let stages = program.stages.len() as u64;
    within("intervals", intervals, u64::from(MAX_INTERVALS))?;
    within("attempts", u64::from(settings.attempts), u64::from(MAX_ATTEMPTS))?;
    if let Some(Deadlines { floor_us, ratio, maximum_us }) = settings.deadlines {
        within("longest deadline in microseconds", maximum_us, MAX_DEADLINE_US)?;
        within("shortest deadline in microseconds", floor_us, maximum_us)?;
        if !(ratio > 1.0 && ratio <= MAX_DEADLINE_RATIO) {
            return Err(Error::Ratio { found: ratio, most: MAX_DEADLINE_RATIO });
        }
    }
    if let Some(most) = settings.in_flight {
        within("steps in flight", u64::from(most), MAX_STEPS)?;
    }
    if let Some((first, end)) = settings.own {
        within("end of the host's intervals", end.into(), intervals)?;
        within("intervals of the host", u64::from(end.saturating_sub(first)), intervals)?;
        if settings.lanes.count > 0 {
            let message = "lanes and several hosts exclude each other".to_owned();
            return Err(Error::Pipeline { message });
        }
    }
    settings.pipeline.check().map_err(|error| Error::Pipeline { message: error.to_string() })?;
    if settings.pipeline.mode == Mode::Async {
        within("intervals of an asynchronous run", intervals, u64::from(MAX_APART_INTERVALS))?;
    }
    within("stages of the program", stages, 1 << 16)?;
    within("steps of a round (stages x intervals)", stages * intervals, MAX_STEPS)
}
