//! List schedule: whenever a lane is free, it takes the first step that its policy
//! ([`crate::policy`]) allows.
//!
//! A [`List`] has jobs, their policy, and the jobs that each of them reads. [`Grid`] makes a list
//! from a program on lanes, and the planner makes one from candidate stages. A [`World`] gives the
//! times of steps, of row transfers and of updates.
//!
//! A step is ready when the steps that it reads have ended. A lane that takes it waits for their rows
//! to arrive, like a worker does, even if another step could begin earlier.
//!
//! A lane takes a step when it is free, so no visit is closing ([`crate::policy::Lane::peek`]).
//! The engine differs: it sends a worker its next steps in advance, and counts visits whose last
//! step has been sent to the worker.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::{Cell, Grid};
use crate::policy::{Lane, Policy};
use eciton_types::ids::{IntervalId, Round, StageId};
use eciton_types::task::Step;

/// Jobs on lanes, as input of the list schedule. Each job runs once on each interval, on one lane
/// of a replica.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// Policy that has the roles of the jobs and the caps of the lanes.
    pub policy: Policy,
    /// Indices of the jobs that must run before each job.
    pub reads: Vec<Vec<u16>>,
    /// Number of intervals (micro-batches) per round.
    pub intervals: u32,
    pub rounds: u32,
    /// Maximum number of rounds that an interval may be ahead of the slowest.
    pub bound: u32,
}

/// Times of steps, transfers and updates that a list schedule follows. Times are in seconds from
/// the first step.
pub(crate) trait World {
    /// Returns the time that a job takes on an interval, in seconds.
    fn took(&self, job: u16, interval: u32) -> f64;

    /// Returns the time at which the output of job `_from`, written at `now`, arrives at the lane
    /// of job `_to`.
    fn carried(&mut self, now: f64, _from: u16, _to: u16, _interval: u32) -> f64 {
        now
    }

    /// Returns the time at which the weights of the next round are available, if the last step of a
    /// round ended at `now`.
    fn updated(&mut self, now: f64) -> f64 {
        now
    }
}

/// Round, and a number of intervals or steps in that round.
type Place = (u32, u32);

/// Time in seconds, with a total order. It is never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A job has ended on an interval.
    Done(u16, u32),
    /// The weights of one more round are available.
    Updated,
}

struct Making<'a, W> {
    list: &'a List,
    world: &'a mut W,
    followers: Vec<Vec<u16>>,
    lanes: Vec<Lane>,
    /// Time at which each lane becomes free.
    free: Vec<f64>,
    /// For each job and interval, the number of inputs that the step in the interval's present
    /// round still waits for.
    waits: Vec<u32>,
    /// For each job and interval, the time at which the last input of that step arrives.
    arrivals: Vec<f64>,
    /// Present round of each interval, with the number of remaining steps in that round.
    intervals: Vec<Place>,
    /// Number of intervals that have finished each round.
    through: Vec<u32>,
    /// Number of rounds that all intervals have finished.
    over: u32,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    /// Lanes that may be able to begin a step.
    touched: BTreeSet<usize>,
    grid: Grid,
}

impl List {
    /// Computes the schedule with the times of `world`.
    pub(crate) fn run(&self, world: &mut impl World) -> Grid {
        let mut followers = vec![Vec::new(); self.reads.len()];
        // A list has at most 2^16 jobs.
        for (reads, id) in self.reads.iter().zip(0u16..) {
            for &read in reads {
                if let Some(of) = followers.get_mut(usize::from(read)) {
                    of.push(id);
                }
            }
        }
        let lanes = self.policy.start(Round(0));
        let count = lanes.len();
        let making = Making {
            list: self,
            world,
            followers,
            lanes,
            free: vec![0.0; count],
            waits: vec![0; self.reads.len() * self.intervals as usize],
            arrivals: vec![0.0; self.reads.len() * self.intervals as usize],
            intervals: vec![(0, 0); self.intervals as usize],
            through: vec![0; self.rounds as usize],
            over: 0,
            events: BinaryHeap::new(),
            number: 0,
            touched: BTreeSet::new(),
            grid: Grid { cells: Vec::new(), lanes: count as u32, rounds: Vec::new() },
        };
        making.run()
    }
}

impl<W: World> Making<'_, W> {
    fn run(mut self) -> Grid {
        if self.list.rounds > 0 {
            (0..self.list.intervals).for_each(|interval| self.enter(0, interval));
        }
        let mut now = 0.0;
        loop {
            while let Some(&Reverse((Time(at), _, event))) = self.events.peek()
                && at <= now
            {
                self.events.pop();
                self.happened(event, now);
            }
            for lane in std::mem::take(&mut self.touched) {
                self.begin(lane, now);
            }
            match self.events.peek() {
                Some(&Reverse((Time(at), ..))) => now = at.max(now),
                None => return self.grid,
            }
        }
    }

    fn after(&mut self, time: f64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((Time(time), self.number, event)));
    }

    fn happened(&mut self, event: Event, now: f64) {
        match event {
            Event::Done(job, interval) => self.done(job, interval, now),
            Event::Updated => {
                self.grid.rounds.push(now);
                self.let_in();
            }
        }
    }

    fn step(&self, job: u16, interval: u32) -> Step {
        let round = self.intervals.get(interval as usize).map_or(0, |of| of.0);
        Step { round: Round(round), stage: StageId(job), interval: IntervalId(interval) }
    }

    /// Returns the index of a job on an interval in `waits` and `arrivals`.
    fn at(&self, job: u16, interval: u32) -> usize {
        usize::from(job) * self.list.intervals as usize + interval as usize
    }

    fn ready(&mut self, job: u16, interval: u32) {
        let step = self.step(job, interval);
        let (policy, number) = (&self.list.policy, self.list.policy.lane(step));
        if let Some(lane) = self.lanes.get_mut(number) {
            lane.insert(policy.visit(step), policy.rank(step));
            self.touched.insert(number);
        }
    }

    /// Counts an input of a step that arrives at `time`. The step is ready after its last one.
    fn input(&mut self, job: u16, interval: u32, time: f64) {
        let at = self.at(job, interval);
        let (Some(waits), Some(arrival)) = (self.waits.get_mut(at), self.arrivals.get_mut(at)) else {
            return;
        };
        *waits = waits.saturating_sub(1);
        *arrival = arrival.max(time);
        if *waits == 0 {
            self.ready(job, interval);
        }
    }

    fn enter(&mut self, round: u32, interval: u32) {
        if let Some(of) = self.intervals.get_mut(interval as usize) {
            *of = (round, self.list.reads.len() as u32);
        }
        let list = self.list;
        for (reads, id) in list.reads.iter().zip(0u16..) {
            let at = self.at(id, interval);
            if let (Some(waits), Some(arrival)) = (self.waits.get_mut(at), self.arrivals.get_mut(at)) {
                (*waits, *arrival) = (reads.len() as u32, 0.0);
            }
            if reads.is_empty() {
                self.ready(id, interval);
            }
        }
    }

    /// Begins the next step of a lane, if the policy and the time allow one.
    fn begin(&mut self, number: usize, now: f64) {
        let policy = &self.list.policy;
        let (Some(lane), Some(free)) = (self.lanes.get_mut(number), self.free.get_mut(number)) else {
            return;
        };
        let Some(rank) = lane.peek(0).filter(|_| *free <= now) else { return };
        policy.begin(lane, rank);
        let Step { round: Round(round), stage, interval: IntervalId(interval) } = rank.step();
        let at = usize::from(stage.0) * self.list.intervals as usize + interval as usize;
        let start = self.arrivals.get(at).map_or(now, |&arrival| arrival.max(now));
        let end = start + self.world.took(stage.0, interval).max(0.0);
        *free = end;
        let role = policy.role(stage);
        let (lane, chunk, back) = (number as u32, role.chunk.into(), role.back);
        self.grid.cells.push(Cell { lane, round, stage, chunk, back, interval, time: (start, end) });
        self.after(end, Event::Done(stage.0, interval));
    }

    fn done(&mut self, job: u16, interval: u32, now: f64) {
        let step = self.step(job, interval);
        let (round, number) = (step.round.0, self.list.policy.lane(step));
        if let Some(lane) = self.lanes.get_mut(number) {
            self.list.policy.done(lane, step);
        }
        self.touched.insert(number);
        for follower in self.followers.get(usize::from(job)).cloned().unwrap_or_default() {
            let arrival = self.world.carried(now, job, follower, interval);
            self.input(follower, interval, arrival);
        }
        let Some((_, left)) = self.intervals.get_mut(interval as usize) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        if let Some(through) = self.through.get_mut(round as usize) {
            *through += 1;
        }
        // Rounds end in order.
        while self.through.get(self.over as usize) == Some(&self.list.intervals) {
            self.over += 1;
            let there = self.world.updated(now);
            if there <= now {
                self.grid.rounds.push(now);
            } else {
                self.after(there, Event::Updated);
            }
        }
        self.let_in();
    }

    /// Admits intervals to their next rounds, as far as the bound allows.
    fn let_in(&mut self) {
        let over = self.grid.rounds.len() as u32;
        for interval in 0..self.list.intervals {
            let Some(&(round, left)) = self.intervals.get(interval as usize) else { continue };
            let next = round + 1;
            if left == 0 && next < self.list.rounds && next <= over + self.list.bound {
                self.enter(next, interval);
            }
        }
    }
}
