//! The list schedule: each lane takes the first step of its order that it may take, whenever it is
//! free.
//!
//! A [`List`] is jobs, each on a lane of a replica, with what each reads. [`Grid`] makes one of a
//! program on lanes, the planner one of the stages that it thinks of. What a step takes, how long
//! rows are on their way and what an update takes, a [`World`] says.
//!
//! A lane's intervals come in by their numbers, at most its cap of them between their first and
//! last step.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::{Cell, Grid};
use crate::ids::StageId;
use crate::lanes::{Lanes, Order};

/// What one lane of a replica does on each interval once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The lane of a replica.
    pub lane: u32,
    /// Whether it is the loss or behind it.
    pub back: bool,
    /// The jobs that must be done before.
    pub reads: Vec<u16>,
}

/// Jobs on lanes.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// By number, what each reads before it.
    pub jobs: Vec<Job>,
    pub lanes: Lanes,
    /// By lane of a replica, the most intervals at once.
    pub caps: Vec<u32>,
    /// Intervals of a round.
    pub intervals: u32,
    pub rounds: u32,
    /// How many rounds an interval may be ahead.
    pub bound: u32,
}

/// What steps take. Times are seconds from the first step.
pub(crate) trait World {
    /// How long a job takes on an interval.
    fn took(&self, job: u16, interval: u32) -> f64;

    /// When what a job left at `now` is where another job needs it.
    fn carried(&mut self, now: f64, _from: u16, _to: u16, _interval: u32) -> f64 {
        now
    }

    /// When the weights are there that follow from a round whose last step ended at `now`.
    fn updated(&mut self, now: f64) -> f64 {
        now
    }
}

/// (what comes later, round, interval, job).
type Ready = (bool, u32, u32, u16);

/// (round, interval).
type Place = (u32, u32);

struct Lane {
    /// Steps of intervals that are in.
    ready: BTreeSet<Ready>,
    /// Steps of intervals that are not, by interval.
    outside: BTreeSet<(Place, Ready)>,
    free: f64,
    /// Intervals between their first step here and their last, each with what is left.
    open: Vec<(Place, u32)>,
    next: Place,
    /// How many jobs it has.
    count: u32,
}

impl Lane {
    fn has(&self, place: Place) -> bool {
        self.open.iter().any(|&(of, _)| of == place)
    }

    fn insert(&mut self, step: Ready) {
        let place = (step.1, step.2);
        if self.has(place) {
            self.ready.insert(step);
        } else {
            self.outside.insert((place, step));
        }
    }

    /// The next interval's first ready step, in order.
    fn entering(&self) -> Option<Ready> {
        let least = (self.next, (false, 0, 0, 0));
        let steps = self.outside.range(least..).take_while(|(place, _)| *place == self.next);
        steps.map(|&(_, step)| step).next()
    }

    /// Lets the next interval in.
    fn enter(&mut self, after: Place) {
        let place = self.next;
        self.open.push((place, self.count));
        let steps: Vec<_> = self.outside.range((place, (false, 0, 0, 0))..).copied().collect();
        for step in steps.into_iter().take_while(|(of, _)| *of == place) {
            self.outside.remove(&step);
            self.ready.insert(step.1);
        }
        self.next = after;
    }
}

/// A time that is never NaN.
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
    /// A job of an interval is done.
    Done(u16, u32),
    /// What a job of an interval reads from another is there.
    There(u16, u32),
    /// The weights of another round are there.
    Updated,
}

struct Making<'a, W> {
    list: &'a List,
    world: &'a mut W,
    followers: Vec<Vec<u16>>,
    lanes: Vec<Lane>,
    /// By job and interval, what the step of the interval's round still waits for.
    waits: Vec<u32>,
    /// By interval: the round that it is in, and what is left of it.
    intervals: Vec<Place>,
    /// By round: how many intervals are through.
    through: Vec<u32>,
    /// Rounds that all intervals are through.
    over: u32,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    /// Lanes that may begin something.
    touched: BTreeSet<usize>,
    grid: Grid,
}

impl List {
    /// The schedule.
    pub(crate) fn run(&self, world: &mut impl World) -> Grid {
        let mut followers = vec![Vec::new(); self.jobs.len()];
        // A list has at most 2^16 jobs.
        for (job, id) in self.jobs.iter().zip(0u16..) {
            for &read in &job.reads {
                if let Some(of) = followers.get_mut(usize::from(read)) {
                    of.push(id);
                }
            }
        }
        let depth = self.lanes.depth().max(1);
        let lanes = self.lanes.width.max(1) * depth;
        let lane = |number: u32| Lane {
            ready: BTreeSet::new(),
            outside: BTreeSet::new(),
            free: 0.0,
            open: Vec::new(),
            next: (0, number / depth),
            count: self.jobs.iter().filter(|job| job.lane == number % depth).count() as u32,
        };
        let making = Making {
            list: self,
            world,
            followers,
            lanes: (0..lanes).map(lane).collect(),
            waits: vec![0; self.jobs.len() * self.intervals as usize],
            intervals: vec![(0, 0); self.intervals as usize],
            through: vec![0; self.rounds as usize],
            over: 0,
            events: BinaryHeap::new(),
            number: 0,
            touched: BTreeSet::new(),
            grid: Grid { cells: Vec::new(), lanes, rounds: Vec::new() },
        };
        making.run()
    }

    /// The lane of a job on an interval, over all replicas.
    fn lane(&self, job: u16, interval: u32) -> usize {
        let lane = self.jobs.get(usize::from(job)).map_or(0, |job| job.lane);
        self.lanes.of(lane, interval) as usize
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
            Event::There(job, interval) => self.there(job, interval),
            Event::Updated => {
                self.grid.rounds.push(now);
                self.let_in();
            }
        }
    }

    fn round(&self, interval: u32) -> u32 {
        self.intervals.get(interval as usize).map_or(0, |of| of.0)
    }

    fn ready(&mut self, job: u16, interval: u32) {
        let back = self.list.jobs.get(usize::from(job)).is_some_and(|job| job.back);
        let later = back == (self.list.lanes.order == Order::ForwardFirst);
        let (number, round) = (self.list.lane(job, interval), self.round(interval));
        if let Some(lane) = self.lanes.get_mut(number) {
            lane.insert((later, round, interval, job));
            self.touched.insert(number);
        }
    }

    fn there(&mut self, job: u16, interval: u32) {
        let at = usize::from(job) * self.list.intervals as usize + interval as usize;
        let Some(waits) = self.waits.get_mut(at) else { return };
        *waits = waits.saturating_sub(1);
        if *waits == 0 {
            self.ready(job, interval);
        }
    }

    fn enter(&mut self, round: u32, interval: u32) {
        if let Some(of) = self.intervals.get_mut(interval as usize) {
            *of = (round, self.list.jobs.len() as u32);
        }
        let list = self.list;
        for (job, id) in list.jobs.iter().zip(0u16..) {
            let at = usize::from(id) * list.intervals as usize + interval as usize;
            if let Some(waits) = self.waits.get_mut(at) {
                *waits = job.reads.len() as u32;
            }
            if job.reads.is_empty() {
                self.ready(id, interval);
            }
        }
    }

    /// Begins a step of a lane, if it may.
    fn begin(&mut self, number: usize, now: f64) {
        let (list, depth) = (self.list, self.list.lanes.depth().max(1) as usize);
        let cap = list.caps.get(number % depth).copied().unwrap_or(1);
        let Some(lane) = self.lanes.get_mut(number).filter(|lane| lane.free <= now) else { return };
        let inside = lane.ready.first().copied();
        let may_enter = (lane.open.len() as u32) < cap;
        let entering = if may_enter { lane.entering() } else { None };
        let Some(step) = [inside, entering].into_iter().flatten().min() else { return };
        let (_, round, interval, job) = step;
        if !lane.has((round, interval)) {
            let next = interval + list.lanes.width.max(1);
            let wraps = next >= list.intervals;
            lane.enter(if wraps { (round + 1, interval % list.lanes.width.max(1)) } else { (round, next) });
        }
        lane.ready.remove(&step);
        let end = now + self.world.took(job, interval).max(0.0);
        lane.free = end;
        let back = list.jobs.get(usize::from(job)).is_some_and(|job| job.back);
        let stage = StageId(job);
        let cell = Cell { lane: number as u32, round, stage, back, interval, time: (now, end) };
        self.grid.cells.push(cell);
        self.after(end, Event::Done(job, interval));
    }

    fn done(&mut self, job: u16, interval: u32, now: f64) {
        let (number, round) = (self.list.lane(job, interval), self.round(interval));
        if let Some(lane) = self.lanes.get_mut(number) {
            for (place, left) in &mut lane.open {
                *left -= u32::from(*place == (round, interval));
            }
            lane.open.retain(|&(_, left)| left > 0);
        }
        self.touched.insert(number);
        for follower in self.followers.get(usize::from(job)).cloned().unwrap_or_default() {
            let there = self.world.carried(now, job, follower, interval);
            if there <= now {
                self.there(follower, interval);
            } else {
                self.after(there, Event::There(follower, interval));
            }
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

    /// Lets intervals into their next rounds.
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
