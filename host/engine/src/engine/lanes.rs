//! Lanes (workers' shares of the pipeline), and the choice of each worker's next step. The rules
//! are those of [`eciton_planner::policy`].

mod held;

use std::collections::{BTreeMap, BTreeSet};

use eciton_planner::Policy;
use eciton_planner::policy::{Lane, Rank, Takeover};
use eciton_program::{Place, Program};
use eciton_types::{IntervalId, Location, Round, Step, TaskKey};

use super::{Engine, planted};
use crate::attempts::{Progress, Report};
use crate::event::Action;
use crate::settings::{MAX_ATTEMPTS, Settings};
use held::Held;

/// State of all lanes (workers' shares of the pipeline), numbered across replicas. Each lane runs
/// on the worker with its own index, until workers fail. In this module and its children, `place`
/// is the index of a worker.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    depth: usize,
    policy: Policy,
    /// State of each lane, by lane number.
    lanes: Vec<Lane>,
    /// Attempts that each worker has received and not answered, in the order in which the worker
    /// runs them.
    doing: Vec<Vec<TaskKey>>,
    /// Maximum number of attempts that a worker has at the same time.
    credit: usize,
    /// True for each worker that is available.
    alive: Vec<bool>,
    /// Rule that selects the workers of a lane, and the lanes to which it applies.
    takeover: (Takeover, eciton_recipe::Lanes),
    /// Worker of each interval, by lane number and by the position of the interval in the run of
    /// its replica. A lane without intervals has one worker.
    assigned: Vec<Vec<usize>>,
    /// Numbers of the lanes that have an interval on each worker.
    homes: Vec<Vec<usize>>,
    held: Held,
}

impl Lanes {
    pub(super) fn new(program: &Program, settings: &Settings) -> Option<Self> {
        let lanes = settings.lanes;
        if lanes.count == 0 {
            return None;
        }
        let policy = Policy::from_program(program, lanes, settings.intervals);
        let (count, depth) = (lanes.count as usize, lanes.depth().max(1) as usize);
        let run = |lane: usize| lanes.run((lane / depth) as u32, settings.intervals).len().max(1);
        Some(Self {
            depth,
            lanes: policy.start(Round(0)),
            policy,
            doing: vec![Vec::new(); count],
            credit: settings.credit.max(1) as usize,
            alive: vec![true; count],
            takeover: (settings.takeover(), lanes),
            assigned: (0..count).map(|lane| vec![lane; run(lane)]).collect(),
            homes: (0..count).map(|lane| vec![lane]).collect(),
            held: Held::new(program, settings, depth),
        })
    }

    /// Removes all waiting steps, and prepares the lanes for the round `first`.
    pub(super) fn restart(&mut self, first: Round) {
        self.lanes = self.policy.start(first);
        self.doing.iter_mut().for_each(Vec::clear);
        self.held.forget();
        self.rehome([false; 2]);
    }

    fn is_back(&self, step: Step) -> bool {
        self.policy.role(step.stage).back
    }

    /// Adds a step that must be run again to the ready steps of its lane.
    fn put(&mut self, step: Step) {
        let number = self.policy.lane(step);
        self.lanes[number].insert(self.policy.visit(step), self.policy.rank(step));
    }

    /// Records the end of a step in the state of its lane, and frees the stash after the last step
    /// of a visit.
    fn done(&mut self, step: Step) {
        let number = self.policy.lane(step);
        if self.policy.done(&mut self.lanes[number], step) {
            self.held.through(self.policy.role(step.stage), step);
        }
    }

    /// Returns the worker that runs an interval of the lane `number`.
    fn home(&self, number: usize, interval: IntervalId) -> usize {
        let of = self.assigned.get(number);
        let index = self.policy.index(interval.0) as usize;
        of.and_then(|of| of.get(index)).copied().unwrap_or(number)
    }

    /// Returns the rank of a step of the lane `number` on the worker `place`. Returns `None` if
    /// another worker runs the interval, unless `shared` is true (a defect that a test plants).
    fn turn(&self, place: usize, number: usize, rank: Rank, shared: bool) -> Option<Rank> {
        let is_home = shared || self.home(number, rank.step().interval) == place;
        let of_peers = self.takeover.0 == Takeover::Peers && self.homes[place].len() > 1;
        let turn = if of_peers { self.policy.shared_rank(rank) } else { rank };
        is_home.then_some(turn)
    }

    /// Returns the workers of the lane `number` by the rule of takeover.
    fn homes_of(&self, number: usize) -> Vec<usize> {
        let (takeover, lanes) = &self.takeover;
        takeover.homes(lanes, &self.alive, number)
    }

    /// Returns the location of a worker of each lane. If several workers have gradient sums of the
    /// lane, it is the lane's own worker or the first of them. A lane without sums has the first
    /// worker that runs it.
    pub(super) fn homes(&self) -> Vec<Location> {
        let mut sums: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (step, at) in self.held.sums() {
            sums.entry(self.policy.lane(step)).or_default().insert(at.index());
        }
        let first = |number: usize| {
            let sums = sums.get(&number);
            let own = sums.and_then(|sums| sums.get(&number).or_else(|| sums.first()));
            own.or_else(|| self.assigned[number].first()).copied()
        };
        // At most as many as there are lanes.
        (0..self.lanes.len()).map(|number| Location::worker(first(number).unwrap_or(number) as u32)).collect()
    }

    /// Assigns the intervals of each lane to workers. The arguments are defects that a test plants.
    /// With the first, a lane moves although gradient sums of it stay on an available worker. With
    /// the second, the intervals that a failed worker has taken over stay there.
    fn rehome(&mut self, defects: [bool; 2]) {
        let count = self.lanes.len();
        self.assigned = (0..count).map(|number| self.assign(number, defects)).collect();
        self.homes = vec![Vec::new(); count];
        for (number, of) in self.assigned.iter().enumerate() {
            for &at in of {
                if self.homes[at].last() != Some(&number) {
                    self.homes[at].push(number);
                }
            }
        }
    }

    /// Returns the workers of the intervals of the lane `number`. By the rule
    /// [`Takeover::Previous`], a lane whose gradient sums are on an available worker stays there
    /// until the update, so that all of the sums are on one worker. By the rule
    /// [`Takeover::Peers`], the sums are on several workers, and the intervals move at once.
    fn assign(&self, number: usize, [split, forgotten]: [bool; 2]) -> Vec<usize> {
        let (now, homes) = (&self.assigned[number], self.homes_of(number));
        let stays = |at: &usize| self.alive[*at] && !split && self.is_summing(number, *at);
        let stays = now.first().copied().filter(|_| self.takeover.0 == Takeover::Previous).filter(stays);
        match (stays, &homes[..]) {
            _ if forgotten && !now.contains(&number) => now.clone(),
            (Some(one), _) | (None, &[one]) => vec![one; now.len()],
            _ => (0..now.len()).map(|index| self.peer(number, index, &homes)).collect(),
        }
    }

    /// Returns the worker of an interval of the lane `number`, which several workers share. A
    /// worker that has a stash of the interval takes precedence.
    fn peer(&self, number: usize, index: usize, homes: &[usize]) -> usize {
        let now = self.assigned[number][index];
        let has = |at: &usize| homes.contains(at) && self.has_stash(number, index, *at);
        let fair = || Takeover::home(&self.takeover.1, homes, number, index);
        let stays = Some(now).into_iter().chain(homes.iter().copied()).find(has);
        stays.or_else(fair).unwrap_or(number)
    }

    /// Returns true if the worker `place` has a stash of an interval of the lane `number`.
    fn has_stash(&self, number: usize, index: usize, place: usize) -> bool {
        let is_of = |step: &Step| {
            self.policy.lane(*step) == number && self.policy.index(step.interval.0) as usize == index
        };
        self.held.steps_at(place).any(is_of)
    }
}

impl Engine {
    /// Returns the worker that has the newest attempt at a step of a lane. Returns this host for a
    /// step that is not in flight or not on a lane.
    #[must_use]
    pub fn location_of(&self, step: Step) -> Location {
        let newest = |doing: &Vec<TaskKey>| {
            let of = doing.iter().filter(|key| key.step() == step);
            of.map(|key| key.attempt).max()
        };
        let doing = self.lanes.iter().flat_map(|lanes| Location::workers().zip(&lanes.doing));
        let newest = doing.filter_map(|(at, doing)| Some((newest(doing)?, at))).max();
        newest.map_or(Location::HOST, |(_, at)| at)
    }

    /// Returns the worker that runs the interval of a step on the lane of the step. Returns this
    /// host for a step that is not on a lane.
    #[must_use]
    pub fn home_of(&self, step: Step) -> Location {
        let lanes = self.lanes.as_ref().filter(|_| self.lane_of(step.stage.index()).is_some());
        let home = lanes.map(|lanes| lanes.home(lanes.policy.lane(step), step.interval));
        // At most as many as there are lanes.
        home.map_or(Location::HOST, |home| Location::worker(home as u32))
    }

    /// Returns the finished backward steps of the round whose gradients are in the sums of a
    /// worker, each with that worker. By the rule [`Takeover::Peers`], the sums of a lane may be on
    /// several workers.
    pub fn sums(&self) -> impl Iterator<Item = (Step, Location)> + '_ {
        let is_wrong = planted!(self, SumAtHome);
        let sums = self.lanes.iter().flat_map(|lanes| lanes.held.sums());
        sums.map(move |(step, at)| (step, if is_wrong { self.home_of(step) } else { at }))
    }

    pub(super) fn lane_of(&self, stage: usize) -> Option<u16> {
        match self.stages.get(stage)?.place {
            Place::Lane(lane) => Some(lane),
            _ => None,
        }
    }

    /// Adds a ready step to the ready steps of its lane.
    pub(super) fn put_on_lane(&mut self, step: Step) {
        let (wrong, early) = (planted!(self, WrongReplica), planted!(self, BackwardBeforeForward));
        let Some(lanes) = &mut self.lanes else { return };
        let (policy, mut rank) = (&lanes.policy, lanes.policy.rank(step));
        rank.back ^= early;
        let of = eciton_types::IntervalId(step.interval.0 + u32::from(wrong && policy.role(step.stage).back));
        if let Some(lane) = lanes.lanes.get_mut(policy.lane(Step { interval: of, ..step })) {
            lane.insert(policy.visit(step), rank);
        }
    }

    /// Removes a reported attempt from the list of the worker that received it. Returns the index
    /// of that worker, or `None` if no worker has the attempt.
    pub(super) fn lane_reported(&mut self, key: TaskKey) -> Option<usize> {
        let doing = &mut self.lanes.as_mut()?.doing;
        let place = doing.iter().position(|doing| doing.contains(&key))?;
        doing[place].retain(|of| *of != key);
        Some(place)
    }

    /// Records the end of a step in the state of its lane. Does nothing for a step that is not on a
    /// lane.
    pub(super) fn lane_done(&mut self, step: Step) {
        if let (Some(_), Some(lanes)) = (self.lane_of(step.stage.index()), &mut self.lanes) {
            lanes.done(step);
        }
    }

    /// Submits steps to the workers that may receive more.
    pub(super) fn hand_out_lanes(&mut self) {
        let Some(mut lanes) = self.lanes.take() else { return };
        for place in 0..lanes.doing.len() {
            while lanes.doing[place].len() < lanes.credit && lanes.alive[place] && !self.is_finished() {
                let Some(key) = self.hand_out_to(&mut lanes, place) else { break };
                lanes.doing[place].push(key);
            }
        }
        if !self.is_finished() {
            self.hand_out_shadows(&mut lanes);
        }
        self.lanes = Some(lanes);
    }

    /// Submits the next step to the worker `place`. Returns `None` if the worker has to wait.
    fn hand_out_to(&mut self, lanes: &mut Lanes, place: usize) -> Option<TaskKey> {
        if let Some(owed) = lanes.owed(place) {
            let number = lanes.policy.lane(owed);
            let wanted = lanes.held.wanted(number % lanes.depth, place, owed).unwrap_or(owed);
            return self.again_at(lanes, place, wanted);
        }
        // Of several lanes, the one with the first step. The worker's own lane precedes others.
        let shared = planted!(self, PeersShare);
        let first = lanes.homes[place].iter().filter_map(|&number| {
            let more = u32::from(planted!(self, CapOffByOne));
            let closing = self.closing(lanes, place, number) + more;
            let turn = |rank| lanes.turn(place, number, rank, shared);
            let (turn, rank) = lanes.lanes[number].peek_of(closing, turn)?;
            Some((turn, number != place, number, rank))
        });
        let (.., number, rank) = first.min()?;
        let step = rank.step();
        let Step { round, stage, interval } = step;
        if lanes.is_back(step)
            && let Some(wanted) = lanes.held.wanted(number % lanes.depth, place, step)
        {
            return self.again_at(lanes, place, wanted);
        }
        lanes.policy.begin(&mut lanes.lanes[number], rank);
        self.begin(stage.index(), interval.0)?;
        let attempt = self.newest(self.place(stage.index(), interval.0));
        Some(TaskKey { round, stage, interval, attempt })
    }

    /// Submits a finished step again to the worker `place`. Returns `None` if the worker already
    /// has an attempt at it.
    fn again_at(&mut self, lanes: &Lanes, place: usize, step: Step) -> Option<TaskKey> {
        if lanes.doing[place].iter().any(|key| key.step() == step) {
            return None;
        }
        let Some(attempt) = self.again(step) else {
            self.too_often(step);
            return None;
        };
        let Step { round, stage, interval } = step;
        Some(TaskKey { round, stage, interval, attempt })
    }

    /// Moves lanes back to their own workers after the update of `round`, which has read all
    /// gradient sums.
    pub(super) fn sums_read(&mut self, round: Round) {
        if let Some(lanes) = &mut self.lanes {
            lanes.held.updated(round);
            lanes.rehome([false; 2]);
        }
    }

    /// Returns the number of visits of the lane `number` whose last step the worker `place` has
    /// received. A visit consists of all steps of one interval in one chunk of the lane.
    fn closing(&self, lanes: &Lanes, place: usize, number: usize) -> u32 {
        let is_last = |key: &&TaskKey| {
            let step = key.step();
            let at = self.place(step.stage.index(), step.interval.0);
            lanes.policy.lane(step) == number
                && lanes.lanes[number].open().get(&lanes.policy.visit(step)) == Some(&1)
                && self.steps[at].attempts.progress() == Progress::Running
        };
        if planted!(self, ClosingForgotten) {
            return 0;
        }
        // At most as many as a worker may have.
        lanes.doing[place].iter().filter(is_last).count() as u32
    }

    /// Submits a step of a lane. If the worker of an earlier attempt failed, this launches another
    /// attempt.
    fn begin(&mut self, stage: usize, interval: u32) -> Option<()> {
        let place = self.place(stage, interval);
        if self.steps[place].attempts.progress() != Progress::Running {
            self.launch(stage, interval);
            return Some(());
        }
        let round = self.intervals[interval as usize].round.unwrap_or_default();
        let (stage, interval) = (eciton_types::StageId(stage as u16), eciton_types::IntervalId(interval));
        let step = Step { round, stage, interval };
        if self.steps[place].attempts.launched() >= MAX_ATTEMPTS {
            self.too_often(step);
            return None;
        }
        let attempt = self.steps[place].attempts.launch();
        self.counters.retries += 1;
        self.actions.push_back(Action::Retry(self.task(step, attempt)));
        Some(())
    }

    /// Handles the failure of a worker. Its lanes move to other workers, which run its unfinished
    /// steps again.
    pub(super) fn worker_lost(&mut self, at: Location) {
        let place = at.index();
        let Some(mut lanes) = self.lanes.take() else { return self.counters.unexpected += 1 };
        if lanes.alive.get(place) == Some(&true) {
            lanes.alive[place] = false;
            lanes.rehome([false, planted!(self, PeerForgotten)]);
            let summed = lanes.held.lost(place);
            for step in summed.into_iter().filter(|_| !planted!(self, SumForgotten)) {
                lanes.sum(step, None);
            }
            self.all_lost(&mut lanes, place);
        } else {
            self.counters.ignored += 1;
        }
        self.lanes = Some(lanes);
    }

    /// Handles a worker's report that it no longer has the rows that a step reads.
    pub(super) fn worker_forgot(&mut self, at: Location) {
        let place = at.index();
        let Some(mut lanes) = self.lanes.take() else { return self.counters.unexpected += 1 };
        if lanes.alive.get(place) == Some(&true) {
            lanes.held.forgot(place);
            self.all_lost(&mut lanes, place);
        } else {
            self.counters.ignored += 1;
        }
        self.lanes = Some(lanes);
    }

    /// Counts all attempts of the worker `place` as lost.
    fn all_lost(&mut self, lanes: &mut Lanes, place: usize) {
        let forgotten = planted!(self, PlaceForgotten);
        for key in std::mem::take(&mut lanes.doing[place]).into_iter().filter(|_| !forgotten) {
            self.lost(lanes, key);
        }
    }

    /// Counts a lost attempt, and adds its step to the ready steps of its lane again. Does nothing
    /// if another attempt has finished the step.
    fn lost(&mut self, lanes: &mut Lanes, key: TaskKey) {
        let step = key.step();
        let at = self.place(step.stage.index(), step.interval.0);
        let now = self.intervals[step.interval.index()].round == Some(step.round);
        let attempts = &mut self.steps[at].attempts;
        if !now {
            return;
        }
        let first = attempts.report(key.attempt) == Report::First;
        if attempts.progress() != Progress::Running {
            self.counters.duplicates += u64::from(first);
            return;
        }
        self.counters.failures += u64::from(first);
        if self.lane_of(step.stage.index()).is_some() && key.attempt == self.newest(at) {
            lanes.put(step);
        }
    }

    fn newest(&self, at: usize) -> eciton_types::Attempt {
        self.steps[at].attempts.newest()
    }

    /// Handles the return of a failed worker, which gets its own lanes back.
    pub(super) fn worker_joined(&mut self, at: Location) {
        let place = at.index();
        let split = planted!(self, SumSplit);
        let Some(lanes) = &mut self.lanes else { return self.counters.unexpected += 1 };
        if lanes.alive.get(place) != Some(&false) {
            return self.counters.ignored += 1;
        }
        lanes.alive[place] = true;
        lanes.rehome([split, false]);
    }
}
