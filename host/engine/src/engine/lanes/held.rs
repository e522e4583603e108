//! Which places hold what forward steps keep for their backward steps, where the host does not.
//!
//! A backward step runs where all that its lane kept for the interval is held. Where something is not, since
//! the place that held it is gone, the forward step is done once more there: a pure task, so its rows are the
//! same bits. With shadows a place also does forward steps of the lanes at the next place, when it has
//! nothing else to do, so that it holds what it needs to take them over (Thorpe et al. 2023, Bamboo, section
//! 5: eager redundant forward, lazy redundant backward).

use std::collections::{BTreeMap, BTreeSet};

use eciton_plan::policy::Role;
use eciton_plan::{Attempt, IntervalId, Place, Program, StageId, Step};

use super::super::{Engine, planted};
use super::Lanes;
use crate::attempts::Progress;
use crate::event::{Action, Reason};
use crate::settings::{MAX_ATTEMPTS, Residence};

/// Where rows are.
#[derive(Clone, Debug)]
pub(super) struct Held {
    residence: Residence,
    /// Forward stages with their chunks, by lane of a replica.
    forward: Vec<Vec<(u16, u16)>>,
    /// By forward step that is done, the places that hold what it kept.
    at: BTreeMap<Step, BTreeSet<usize>>,
}

impl Held {
    pub(super) fn new(program: &Program, residence: Residence, depth: usize) -> Self {
        let mut forward = vec![Vec::new(); depth];
        let loss = program.loss().map_or(u16::MAX, |loss| loss.0);
        for (id, stage) in (0..loss).zip(&program.stages) {
            if let Place::Lane(lane) = stage.place
                && let Some(of) = forward.get_mut(usize::from(lane))
            {
                of.push((id, stage.chunk));
            }
        }
        Self { residence, forward, at: BTreeMap::new() }
    }

    pub(super) fn forget(&mut self) {
        self.at.clear();
    }

    /// A forward step was done at a place, or, where that is gone, nowhere.
    pub(super) fn put(&mut self, step: Step, place: Option<usize>) {
        if self.residence != Residence::Host {
            self.at.entry(step).or_default().extend(place);
        }
    }

    /// The visit of a step is over.
    pub(super) fn through(&mut self, role: Role, step: Step) {
        let stages = self.forward.get(usize::from(role.lane)).into_iter().flatten();
        for &(stage, _) in stages.filter(|(_, chunk)| *chunk == role.chunk) {
            self.at.remove(&Step { stage: StageId(stage), ..step });
        }
    }

    pub(super) fn lost(&mut self, place: usize) {
        for places in self.at.values_mut() {
            places.remove(&place);
        }
    }

    /// The first forward step of an interval on a lane that is done and not held at a place.
    fn missing(&self, lane: usize, place: usize, like: Step) -> Option<Step> {
        let steps = self.forward.get(lane)?.iter().map(|&(stage, _)| Step { stage: StageId(stage), ..like });
        let is_missing = |step: &Step| self.at.get(step).is_some_and(|places| !places.contains(&place));
        steps.into_iter().find(is_missing)
    }

    /// What a backward step at a place must wait for.
    pub(super) fn wanted(&self, lane: usize, place: usize, step: Step) -> Option<Step> {
        match self.residence {
            Residence::Host => None,
            Residence::Places | Residence::Shadowed => self.missing(lane, place, step),
        }
    }
}

impl Lanes {
    /// A step that a place without other work does for the lanes at the next one.
    fn shadow(&self, place: usize) -> Option<Step> {
        let count = self.alive.len();
        let next = (1..count).map(|by| (place + by) % count).find(|&at| self.alive[at])?;
        let mut first: Option<Step> = None;
        for &number in &self.homes[next] {
            for visit in self.lanes[number].open().keys() {
                let interval = IntervalId(visit.interval);
                let like = Step { round: visit.round, stage: StageId(0), interval };
                let found = self.held.missing(number % self.depth, place, like);
                // Somebody else may be at it.
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
    /// Does a finished step again because the rows that it kept are gone.
    pub(super) fn again(&mut self, step: Step) -> Option<Attempt> {
        let attempt = self.launch_again(step)?;
        self.counters.again += 1;
        Some(attempt)
    }

    /// Launches one more attempt at a finished step; `None` if the step has had as many as are
    /// allowed.
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

    /// Has workers without tasks do the forward steps that the next worker may lose.
    pub(super) fn hand_out_shadows(&mut self, lanes: &mut Lanes) {
        if lanes.held.residence != Residence::Shadowed {
            return;
        }
        for place in 0..lanes.doing.len() {
            if !lanes.doing[place].is_empty() || !lanes.alive[place] {
                continue;
            }
            let Some(step) = lanes.shadow(place) else { continue };
            // Redundant computation is no reason to fail.
            if let Some(attempt) = self.launch_again(step) {
                self.counters.redundant += 1;
                lanes.doing[place].push(key(step, attempt));
            }
        }
    }

    /// An attempt at a step that was done ended at a place.
    pub(in super::super) fn held_again(&mut self, step: Step, place: Option<usize>) {
        if planted!(self, ShadowNeverUsed) {
            return;
        }
        let round = self.intervals[step.interval.index()].round;
        if planted!(self, ShadowCounted) {
            let attempt = self.steps[self.place(step.stage.index(), step.interval.0)].attempts.newest();
            self.actions.push_back(Action::Commit(key(step, attempt)));
        }
        if let (Some(lanes), true) = (&mut self.lanes, round == Some(step.round))
            && lanes.held.at.contains_key(&step)
        {
            lanes.held.put(step, place);
        }
    }

    /// The end of a run whose step cannot be done as often as places are lost.
    pub(super) fn too_often(&mut self, step: Step) {
        let attempt = self.newest(self.place(step.stage.index(), step.interval.0));
        self.finish(Reason::Failed { key: key(step, attempt), retryable: true });
    }

    /// Notes where a forward step's kept rows are.
    pub(in super::super) fn held_at(&mut self, step: Step, place: Option<usize>) {
        let done = self.steps[self.place(step.stage.index(), step.interval.0)].attempts.progress();
        if let Some(lanes) = self.lanes.as_mut().filter(|lanes| !lanes.is_back(step))
            && done == Progress::Running
        {
            lanes.held.put(step, place);
        }
    }
}

fn key(step: Step, attempt: Attempt) -> eciton_plan::TaskKey {
    let Step { round, stage, interval } = step;
    eciton_plan::TaskKey { round, stage, interval, attempt }
}
