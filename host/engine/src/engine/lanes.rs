//! Lanes: which step a place does next, and how many intervals each lane has let in.
//!
//! A lane lets intervals in by round and number, and no more than its cap at once, so the smallest interval
//! that is not through can always go on: a lane that has not let it in holds none behind it.

mod held;

use std::collections::BTreeSet;

use eciton_plan::{Lanes as Settings, Order, Place, Program, Round, Step, TaskKey, lanes::caps};

use super::{Engine, planted};
use crate::attempts::{Progress, Report};
use crate::event::Action;
use crate::settings::{MAX_ATTEMPTS, Residence};
use held::Held;

/// A step that could be done: (what comes later, round, interval, stage).
type Waiting = (bool, Round, u32, u16);

/// All lanes. A lane is a number ([`Settings::of`]); where it runs, a place, is the same number until
/// places are lost.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    settings: Settings,
    intervals: u32,
    /// The first stage that goes back.
    loss: u16,
    /// By lane of a replica: most intervals at once, and how many stages it does.
    caps: Vec<u32>,
    stages: Vec<u32>,
    /// By lane.
    lanes: Vec<Lane>,
    /// Attempts of each place, in the order in which it does them.
    doing: Vec<Vec<TaskKey>>,
    /// Most attempts of a place at once.
    credit: usize,
    /// By place: whether it is there, and the lanes that run there.
    alive: Vec<bool>,
    homes: Vec<Vec<usize>>,
    held: Held,
    /// By lane of a replica and interval: steps of the interval's round that are not done.
    left: Vec<u32>,
    /// The most intervals that a lane had at once, by lane.
    most: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Lane {
    ready: BTreeSet<Waiting>,
    /// Intervals between their first step and their last.
    open: u32,
    /// Who is let in next.
    next: (Round, u32),
}

impl Lanes {
    pub(super) fn new(
        program: &Program,
        (settings, residence, credit): (Settings, Residence, u32),
        intervals: u32,
    ) -> Option<Self> {
        if settings.count == 0 {
            return None;
        }
        let depth = settings.depth();
        let mut stages = vec![0; depth as usize];
        for stage in &program.stages {
            if let Place::Lane(lane) = stage.place
                && let Some(count) = stages.get_mut(usize::from(lane))
            {
                *count += 1;
            }
        }
        let of_replica = intervals.div_ceil(settings.width.max(1));
        let count = settings.count as usize;
        let lane = |_| Lane { ready: BTreeSet::new(), open: 0, next: (Round(0), 0) };
        let loss = program.loss().map_or(u16::MAX, |loss| loss.0);
        Some(Self {
            settings,
            intervals,
            loss,
            caps: caps(program, &settings, of_replica),
            stages,
            lanes: (0..count).map(lane).collect(),
            doing: vec![Vec::new(); count],
            credit: credit.max(1) as usize,
            alive: vec![true; count],
            homes: (0..count).map(|lane| vec![lane]).collect(),
            held: Held::new(program, residence, depth as usize, loss),
            left: vec![0; depth as usize * intervals as usize],
            most: vec![0; count],
        })
    }

    /// Forgets all that waits, before rounds from `first` on.
    pub(super) fn restart(&mut self, first: Round) {
        let depth = self.settings.depth().max(1);
        for (number, lane) in (0..).zip(&mut self.lanes) {
            lane.ready.clear();
            lane.open = 0;
            lane.next = (first, number / depth);
        }
        self.doing.iter_mut().for_each(Vec::clear);
        self.left.fill(0);
        self.held.forget();
    }

    fn waiting(&self, step: Step) -> Waiting {
        let back = step.stage.0 >= self.loss;
        let later = back == (self.settings.order == Order::ForwardFirst);
        (later, step.round, step.interval.0, step.stage.0)
    }

    /// The number of a replica's lane for an interval.
    fn number(&self, lane: u16, interval: u32) -> usize {
        self.settings.of(u32::from(lane), interval) as usize
    }

    fn left(&mut self, lane: u16, interval: u32) -> &mut u32 {
        &mut self.left[usize::from(lane) * self.intervals as usize + interval as usize]
    }

    /// A step is to be done once more.
    fn put(&mut self, lane: u16, step: Step) {
        let waiting = self.waiting(step);
        let number = self.number(lane, step.interval.0);
        self.lanes[number].ready.insert(waiting);
    }

    /// The step that a lane would do next. Of its intervals, so many are `closing`.
    fn peek(&self, number: usize, (cap, closing): (u32, u32)) -> Option<Waiting> {
        let within = self.within(number);
        let lane = &self.lanes[number];
        let may = |&&(_, round, interval, _): &&Waiting| {
            let inside = self.left[within + interval as usize] > 0;
            inside || lane.open < cap + closing && lane.next == (round, interval)
        };
        lane.ready.iter().find(may).copied()
    }

    /// Where what is left of a lane's intervals begins.
    fn within(&self, number: usize) -> usize {
        number % self.settings.depth().max(1) as usize * self.intervals as usize
    }

    /// The step that a lane does now.
    fn pick(&mut self, number: usize, (cap, closing): (u32, u32)) -> Option<Waiting> {
        let found = self.peek(number, (cap, closing))?;
        let within = self.within(number);
        let lane = &mut self.lanes[number];
        lane.ready.remove(&found);
        let (_, round, interval, _) = found;
        let left = &mut self.left[within + interval as usize];
        if *left == 0 {
            *left = self.stages[within / self.intervals as usize];
            lane.open += 1;
            self.most[number] = self.most[number].max(lane.open - closing);
            let next = interval + self.settings.width;
            lane.next = match next < self.intervals {
                true => (round, next),
                false => (Round(round.0 + 1), interval % self.settings.width),
            };
        }
        Some(found)
    }

    /// A step is done, by whichever attempt.
    fn done(&mut self, lane: u16, step: Step) {
        let number = self.number(lane, step.interval.0);
        // A lost attempt that answered all the same.
        let waiting = self.waiting(step);
        self.lanes[number].ready.remove(&waiting);
        let left = self.left(lane, step.interval.0);
        *left -= 1;
        if *left == 0 {
            self.lanes[number].open -= 1;
            self.held.through(usize::from(lane), step);
        }
    }

    /// Where a lost place's lanes go: to the nearest place before it that is there.
    fn reassign(&mut self, place: usize) {
        let count = self.alive.len();
        let before = (1..count).map(|by| (place + count - by) % count).find(|&at| self.alive[at]);
        let Some(before) = before else { return };
        let moved = std::mem::take(&mut self.homes[place]);
        self.homes[before].extend(moved);
    }
}

impl Engine {
    /// The place of a step under way that is on a lane.
    #[must_use]
    pub fn place_of(&self, step: Step) -> Option<u32> {
        let lanes = self.lanes.as_ref()?;
        let newest = |doing: &Vec<TaskKey>| {
            let of = doing.iter().filter(|key| key.step() == step);
            of.map(|key| key.attempt).max()
        };
        let places = (0u32..).zip(&lanes.doing).filter_map(|(at, doing)| Some((newest(doing)?, at)));
        places.max().map(|(_, at)| at)
    }

    /// The most intervals that each lane has had between their first and their last step there.
    #[must_use]
    pub fn most_on_lanes(&self) -> &[u32] {
        self.lanes.as_ref().map_or(&[], |lanes| &lanes.most)
    }

    pub(super) fn lane_of(&self, stage: usize) -> Option<u16> {
        match self.stages.get(stage)?.place {
            Place::Lane(lane) => Some(lane),
            _ => None,
        }
    }

    /// Puts a step that could be done on its lane.
    pub(super) fn put_on_lane(&mut self, lane: u16, step: Step) {
        let (wrong, early) = (planted!(self, WrongReplica), planted!(self, ForwardBeforeBackward));
        let Some(lanes) = &mut self.lanes else { return };
        let mut waiting = lanes.waiting(step);
        let back = step.stage.0 >= lanes.loss;
        waiting.0 ^= early;
        let number = lanes.number(lane, step.interval.0 + u32::from(wrong && back));
        if let Some(lane) = lanes.lanes.get_mut(number) {
            lane.ready.insert(waiting);
        }
    }

    /// An attempt was reported, for the first time or again: its place has it no more. Gives back which, if it is there.
    pub(super) fn lane_reported(&mut self, key: TaskKey) -> Option<usize> {
        let doing = &mut self.lanes.as_mut()?.doing;
        let place = doing.iter().position(|doing| doing.contains(&key))?;
        doing[place].retain(|of| *of != key);
        Some(place)
    }

    /// A step is done.
    pub(super) fn lane_done(&mut self, step: Step) {
        let lane = self.lane_of(step.stage.index());
        if let (Some(lane), Some(lanes)) = (lane, &mut self.lanes) {
            lanes.done(lane, step);
        }
    }

    /// Starts steps on places that have fewer than they may.
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

    /// Starts a step on a place.
    fn hand_out_to(&mut self, lanes: &mut Lanes, place: usize) -> Option<TaskKey> {
        let depth = lanes.settings.depth().max(1) as usize;
        let more = u32::from(planted!(self, CapOffByOne));
        let cap = |lanes: &Lanes, number: usize| {
            let cap = lanes.caps.get(number % depth).map_or(1, |cap| cap + more);
            (cap, self.closing(lanes, place, number))
        };
        // Of several lanes the one whose step comes first.
        let homes = lanes.homes[place].iter();
        let first = homes.filter_map(|&number| Some((lanes.peek(number, cap(lanes, number))?, number)));
        let (waiting, number) = first.min()?;
        let (_, round, interval, stage) = waiting;
        let (stage, interval) = (eciton_plan::StageId(stage), eciton_plan::IntervalId(interval));
        let step = Step { round, stage, interval };
        if stage.0 >= lanes.loss
            && let Some(wanted) = lanes.held.wanted(number % depth, place, step)
        {
            // What it reads went with another place, unless it comes back just now.
            if lanes.doing[place].iter().any(|key| key.step() == wanted) {
                return None;
            }
            let Some(attempt) = self.again(wanted) else {
                self.too_often(wanted);
                return None;
            };
            return Some(TaskKey { round, stage: wanted.stage, interval, attempt });
        }
        let cap = cap(lanes, number);
        lanes.pick(number, cap)?;
        self.begin(stage.index(), interval.0)?;
        let attempt = self.newest(self.place(stage.index(), interval.0));
        Some(TaskKey { round, stage, interval, attempt })
    }

    /// Intervals of a lane that a place is through with once it has done what it has.
    fn closing(&self, lanes: &Lanes, place: usize, number: usize) -> u32 {
        let within = lanes.within(number);
        let is_last = |key: &&TaskKey| {
            let step = key.step();
            let lane = self.lane_of(step.stage.index());
            let at = self.place(step.stage.index(), step.interval.0);
            lane.is_some_and(|lane| lanes.number(lane, step.interval.0) == number)
                && lanes.left[within + step.interval.index()] == 1
                && self.steps[at].attempts.progress() == Progress::Running
        };
        // At most as many as a place has.
        lanes.doing[place].iter().filter(is_last).count() as u32
    }

    /// Starts a lane's step, or, where a place with it was lost, starts it once more.
    fn begin(&mut self, stage: usize, interval: u32) -> Option<()> {
        let place = self.place(stage, interval);
        if self.steps[place].attempts.progress() != Progress::Running {
            self.launch(stage, interval);
            return Some(());
        }
        let round = self.intervals[interval as usize].round.unwrap_or_default();
        let (stage, interval) = (eciton_plan::StageId(stage as u16), eciton_plan::IntervalId(interval));
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

    /// A place is gone.
    pub(super) fn place_lost(&mut self, place: u32) {
        let place = place as usize;
        let Some(mut lanes) = self.lanes.take() else { return self.counters.unexpected += 1 };
        if lanes.alive.get(place) == Some(&true) {
            lanes.alive[place] = false;
            lanes.reassign(place);
            lanes.held.lost(place);
            let forgotten = planted!(self, PlaceForgotten);
            for key in std::mem::take(&mut lanes.doing[place]).into_iter().filter(|_| !forgotten) {
                self.lost(&mut lanes, key);
            }
        } else {
            self.counters.ignored += 1;
        }
        self.lanes = Some(lanes);
    }

    /// An attempt went with its place: the step is done once more, unless another attempt has done it.
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
        if let Some(lane) = self.lane_of(step.stage.index()).filter(|_| key.attempt == self.newest(at)) {
            lanes.put(lane, step);
        }
    }

    fn newest(&self, at: usize) -> eciton_plan::Attempt {
        self.steps[at].attempts.newest()
    }

    /// A place is there again.
    pub(super) fn place_joined(&mut self, place: u32) {
        let place = place as usize;
        let Some(lanes) = &mut self.lanes else { return self.counters.unexpected += 1 };
        if lanes.alive.get(place) != Some(&false) {
            return self.counters.ignored += 1;
        }
        lanes.alive[place] = true;
        // Its own, and those of places after it that are gone: it is the nearest before them now.
        let count = lanes.alive.len();
        lanes.homes.iter_mut().for_each(Vec::clear);
        for number in 0..lanes.lanes.len() {
            let home = (0..count).map(|by| (number + count - by) % count).find(|&at| lanes.alive[at]);
            lanes.homes[home.unwrap_or(number)].push(number);
        }
    }
}
