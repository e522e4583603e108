//! Tracks which workers store rows or gradient sums that a later step or the update needs.
//!
//! * Stash: the rows that a forward step stores for its backward step. A backward step runs on a
//!   worker that has the stash of its interval. If that worker failed, another worker runs the
//!   forward step again first.
//! * Sums: a worker adds up the gradients of its lane until the update
//!   ([`crate::Settings::sums_stay`]). If the worker fails, the backward steps in its sums are
//!   *owed*: they are run again before the update. By the rule `Previous`, a lane stays
//!   on its worker while that worker has sums of the lane, so that all of a lane's sums are on one
//!   worker. By the rule `Peers`, each worker of the lane has sums of its intervals.
//!
//! Steps are pure functions, so each repetition gives the same bits. With redundant computation, an
//! idle worker also runs forward steps of the next worker's lanes. If the next worker fails, it
//! already has the stash (Thorpe et al. 2023, Bamboo, section 5: eager redundant forward, lazy
//! redundant backward).

use std::collections::{BTreeMap, BTreeSet};

use eciton_planner::policy::Role;
use eciton_program::{Place, Program};
use eciton_types::{Attempt, IntervalId, Location, Round, StageId, Step, TaskKey};

use super::super::{Engine, Track, planted};
use super::Lanes;
use crate::attempts::Progress;
use crate::event::{Action, Reason};
use crate::settings::{MAX_ATTEMPTS, Residence, Settings};

/// Table of the workers that have stashes (rows for backward steps) and gradient sums.
#[derive(Clone, Debug)]
pub(super) struct Held {
    residence: Residence,
    /// True for each stage whose gradients stay in the sums of workers until the update.
    sums: Vec<bool>,
    /// Forward stages of each lane of a replica. Each stage has the number of its chunk.
    forward: Vec<Vec<(u16, u16)>>,
    /// Workers that have the stash of each finished forward step.
    at: BTreeMap<Step, BTreeSet<usize>>,
    /// Index of the worker whose sums include the gradients of each finished backward step.
    summed: BTreeMap<Step, usize>,
    /// Finished backward steps whose gradients no worker has. These steps must run again before the
    /// update.
    owed: BTreeSet<Step>,
}

impl Held {
    pub(super) fn new(program: &Program, settings: &Settings, depth: usize) -> Self {
        let mut forward = vec![Vec::new(); depth];
        let loss = program.loss().map_or(u16::MAX, |loss| loss.0);
        for (id, stage) in (0..loss).zip(&program.stages) {
            if let Place::Lane(lane) = stage.place
                && let Some(of) = forward.get_mut(usize::from(lane))
            {
                of.push((id, stage.chunk));
            }
        }
        let stays = settings.sums_stay() && program.trains();
        let sums = program.stages.iter().map(|stage| stays && !stage.sums.is_empty()).collect();
        let (at, summed, owed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { residence: settings.residence, sums, forward, at, summed, owed }
    }

    pub(super) fn forget(&mut self) {
        self.updated(Round(u32::MAX));
    }

    /// Forgets all gradient sums after an update has read them, and the stashes of its round.
    pub(super) fn updated(&mut self, round: Round) {
        self.at.retain(|step, _| step.round > round);
        self.summed.clear();
        self.owed.clear();
    }

    /// Returns true if the gradients of `step` stay in the sums of its worker until the update.
    fn is_summed(&self, step: Step) -> bool {
        self.sums.get(step.stage.index()) == Some(&true)
    }

    /// Records that the sums of the worker `place` include the gradients of `step`. If `place` is
    /// `None`, no worker has them, and the step is owed.
    fn sum(&mut self, role: Role, step: Step, place: Option<usize>) {
        if !self.is_summed(step) {
            return;
        }
        match place {
            Some(place) => {
                self.owed.remove(&step);
                self.summed.insert(step, place);
            }
            None => {
                self.summed.remove(&step);
                self.owed.insert(step);
                for stash in self.stashes(role, step) {
                    self.at.entry(stash).or_default();
                }
            }
        }
    }

    /// Returns the forward steps in the same visit as `like`. A visit consists of all steps of one
    /// interval in one chunk of a lane.
    fn stashes(&self, role: Role, like: Step) -> Vec<Step> {
        let stages = self.forward.get(usize::from(role.lane)).into_iter().flatten();
        let stages = stages.filter(|(_, chunk)| *chunk == role.chunk);
        stages.map(|&(stage, _)| Step { stage: StageId(stage), ..like }).collect()
    }

    /// Records that the worker `place` has the stash of the forward step `step`. If `place` is
    /// `None`, no worker has it.
    pub(super) fn put(&mut self, step: Step, place: Option<usize>) {
        if self.residence != Residence::Host {
            self.at.entry(step).or_default().extend(place);
        }
    }

    /// Forgets the stashes of a finished visit, unless a step that must run again needs them.
    pub(super) fn through(&mut self, role: Role, step: Step) {
        let is_owed = |of: &Step| (of.round, of.interval) == (step.round, step.interval);
        if self.owed.iter().any(is_owed) {
            return;
        }
        for stash in self.stashes(role, step) {
            self.at.remove(&stash);
        }
    }

    /// Records that the worker `place` no longer has any stash.
    pub(super) fn forgot(&mut self, place: usize) {
        for places in self.at.values_mut() {
            places.remove(&place);
        }
    }

    /// Records that the worker `place` failed. Returns the steps whose gradients were in its sums.
    pub(super) fn lost(&mut self, place: usize) -> Vec<Step> {
        self.forgot(place);
        self.summed.iter().filter(|(_, at)| **at == place).map(|(step, _)| *step).collect()
    }

    /// Returns the finished forward steps whose stashes the worker `place` has.
    pub(super) fn steps_at(&self, place: usize) -> impl Iterator<Item = &Step> {
        self.at.iter().filter(move |(_, places)| places.contains(&place)).map(|(step, _)| step)
    }

    /// Returns the finished backward steps whose gradients workers have in their sums, each with
    /// the worker.
    pub(super) fn sums(&self) -> impl Iterator<Item = (Step, Location)> + '_ {
        // At most as many workers as there are lanes.
        self.summed.iter().map(|(step, at)| (*step, Location::worker(*at as u32)))
    }

    /// Returns the first finished forward step of the lane `lane` whose stash the worker `place`
    /// lacks. The round and the interval are those of `like`.
    fn missing(&self, lane: usize, place: usize, like: Step) -> Option<Step> {
        let steps = self.forward.get(lane)?.iter().map(|&(stage, _)| Step { stage: StageId(stage), ..like });
        let is_missing = |step: &Step| self.at.get(step).is_some_and(|places| !places.contains(&place));
        steps.into_iter().find(is_missing)
    }

    /// Returns the forward step that the worker `place` must run again before the backward step
    /// `step`, if any.
    pub(super) fn wanted(&self, lane: usize, place: usize, step: Step) -> Option<Step> {
        match self.residence {
            Residence::Host => None,
            Residence::Workers | Residence::Redundant => self.missing(lane, place, step),
        }
    }
}

impl Lanes {
    /// Records that the sums of the worker `place` include the gradients of `step`. If `place` is
    /// `None`, no worker has them.
    pub(super) fn sum(&mut self, step: Step, place: Option<usize>) {
        let role = self.policy.role(step.stage);
        self.held.sum(role, step, place);
        let is_open = self.lanes[self.policy.lane(step)].open().contains_key(&self.policy.visit(step));
        if place.is_some() && !is_open {
            self.held.through(role, step);
        }
    }

    /// Returns true if the worker `place` has, or is computing, gradient sums of the lane `number`
    /// that no update has read.
    pub(super) fn is_summing(&self, number: usize, place: usize) -> bool {
        let summed = self.held.summed.iter().filter(|(_, at)| **at == place).map(|(step, _)| *step);
        let doing = self.doing[place].iter().map(|key| key.step()).filter(|step| self.held.is_summed(*step));
        summed.chain(doing).any(|step| self.policy.lane(step) == number)
    }

    /// Returns the first step that the worker `place` must run again before the update, if any. A
    /// worker to which the step belonged before may still be running it.
    pub(super) fn owed(&self, place: usize) -> Option<Step> {
        let own = |step: &Step| self.home(self.policy.lane(*step), step.interval) == place;
        let runs = |step: &Step, at: &[TaskKey]| at.iter().any(|key| key.step() == *step);
        let elsewhere =
            |step: &Step| self.doing.iter().enumerate().any(|(at, doing)| at != place && runs(step, doing));
        self.held.owed.iter().find(|step| own(step) && !elsewhere(step)).copied()
    }

    /// Returns a forward step of the next worker's lanes that the idle worker `place` can run
    /// (redundant computation).
    fn shadow(&self, place: usize) -> Option<Step> {
        let count = self.alive.len();
        let next = (1..count).map(|by| (place + by) % count).find(|&at| self.alive[at])?;
        let mut first: Option<Step> = None;
        for &number in &self.homes[next] {
            for visit in self.lanes[number].open().keys() {
                let interval = IntervalId(visit.interval);
                if self.home(number, interval) != next {
                    continue;
                }
                let like = Step { round: visit.round, stage: StageId(0), interval };
                let found = self.held.missing(number % self.depth, place, like);
                // Another worker may have an attempt at it.
                let idle = |step: &Step| !self.doing.iter().flatten().any(|key| key.step() == *step);
                let earlier = |step: &Step| {
                    first.is_none_or(|known| (step.round, step.interval) < (known.round, known.interval))
                };
                first = found.filter(idle).filter(earlier).or(first);
            }
        }
        first
    }
}

impl Engine {
    /// Launches another attempt at a finished step whose results are lost. Returns `None` if the
    /// step has had the maximum number of attempts.
    pub(super) fn again(&mut self, step: Step) -> Option<Attempt> {
        let attempt = self.launch_again(step)?;
        self.counters.again += 1;
        Some(attempt)
    }

    /// Launches another attempt at a finished step. Returns `None` if the step has had the maximum
    /// number of attempts.
    fn launch_again(&mut self, step: Step) -> Option<Attempt> {
        let at = self.place(step.stage.index(), step.interval.0);
        let attempts = &mut self.steps[at].attempts;
        if attempts.launched() >= MAX_ATTEMPTS {
            return None;
        }
        let attempt = attempts.launch_again();
        self.actions.push_back(Action::Again(self.task(step, attempt)));
        Some(attempt)
    }

    /// Submits forward steps of the next worker's lanes to idle workers (redundant computation).
    pub(super) fn hand_out_shadows(&mut self, lanes: &mut Lanes) {
        if lanes.held.residence != Residence::Redundant {
            return;
        }
        for place in 0..lanes.doing.len() {
            if !lanes.doing[place].is_empty() || !lanes.alive[place] {
                continue;
            }
            let Some(step) = lanes.shadow(place) else { continue };
            // If it cannot be launched, the run continues without it.
            if let Some(attempt) = self.launch_again(step) {
                self.counters.redundant += 1;
                lanes.doing[place].push(key(step, attempt));
            }
        }
    }

    /// Handles the end of another attempt at a finished step, on the worker `place`.
    pub(in super::super) fn held_again(&mut self, step: Step, place: Option<usize>) {
        if planted!(self, ShadowNeverUsed) {
            return;
        }
        let round = self.intervals[step.interval.index()].round;
        if planted!(self, ShadowCounted) {
            let attempt = self.steps[self.place(step.stage.index(), step.interval.0)].attempts.newest();
            self.actions.push_back(Action::Commit(key(step, attempt)));
        }
        let Some(lanes) = self.lanes.as_mut().filter(|_| round == Some(step.round)) else { return };
        if lanes.held.at.contains_key(&step) {
            lanes.held.put(step, place);
        }
        if lanes.held.owed.contains(&step) && place.is_some() {
            lanes.sum(step, place);
            self.paid();
        }
    }

    /// Returns true if a step must run again before the update, because its gradients are lost.
    pub(in super::super) fn owes(&self) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| !lanes.held.owed.is_empty())
    }

    /// Continues with the update when no more steps must run again before it.
    fn paid(&mut self) {
        match self.track {
            _ if self.owes() => {}
            // The driver could not collect all sums.
            Track::Updating => self.actions.push_back(Action::Update { round: self.round() }),
            _ => self.advance(),
        }
    }

    /// Ends the run, because the workers of a step failed as often as the step may be attempted.
    pub(super) fn too_often(&mut self, step: Step) {
        let attempt = self.newest(self.place(step.stage.index(), step.interval.0));
        self.finish(Reason::Failed { key: key(step, attempt), retryable: true });
    }

    /// Records that the worker `place` has the results of `step`, which are its stash or its
    /// gradients.
    pub(in super::super) fn held_at(&mut self, step: Step, place: Option<usize>) {
        let done = self.steps[self.place(step.stage.index(), step.interval.0)].attempts.progress();
        let Some(lanes) = self.lanes.as_mut().filter(|_| done == Progress::Running) else { return };
        match lanes.is_back(step) {
            true => lanes.sum(step, place),
            false => lanes.held.put(step, place),
        }
    }
}

fn key(step: Step, attempt: Attempt) -> TaskKey {
    let Step { round, stage, interval } = step;
    TaskKey { round, stage, interval, attempt }
}
