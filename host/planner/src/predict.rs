//! Predicts the time of a partition's round (update) by its list schedule, with transfers over
//! network links.
//!
//! Rows pass over the sender's link, over the host's link if there is a host, and over the
//! receiver's link. A transfer begins when all of these links are free. It occupies each link for
//! its bytes divided by that link's bandwidth, and ends after its bytes divided by the smallest
//! bandwidth, plus the fixed time of a transfer ([`Machine::transfer`]), which occurs twice if rows
//! pass through the host. Links work in both directions at the same time.
//!
//! ```text
//! bytes an update      rows     2 B sum |A|      B rows; A: bytes a row that a stage reads of another
//!                      weights  (1 + w) |W|      owner = host
//!                      weights  2 (w - 1) |W|    owner = lanes, in a ring
//! memory of the host   (v + c) |W| + w sum (k + 1) b |A|      k in flight where A is made
//! ```

use super::machine::{Lane, Machine, Shape};
use super::partition::{Counted, Partition};
use super::stage_time::Setting;
use crate::policy;
use crate::policy::{Policy, Role};
use crate::schedule::Grid;
use crate::schedule::list::{List, World};
use eciton_recipe::pipeline::WeightVersions;

/// Number of micro-batches in the timed rounds if rounds overlap, allowed numbers of timed rounds,
/// and index of the last warm-up round. The first two rounds and the last one, which no round
/// follows, do not count.
const TIMED: u32 = 64;
const ROUNDS: std::ops::RangeInclusive<u32> = 5..=20;
const FIRST: usize = 1;

/// Candidate for a plan: a partition in a setting, with the sums of its stages.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub machine: &'a Machine,
    pub setting: Setting,
    pub partition: Partition,
    pub counted: Vec<Counted>,
}

/// Predicted times of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Predicted {
    /// Time of a round in the steady state, in seconds.
    pub round: f64,
    /// Share of the lanes' time in which they are idle (bubble).
    pub bubble: f64,
}

impl Candidate<'_> {
    pub(super) fn depth(&self) -> usize {
        self.partition.stages.len()
    }

    /// Returns the number of rows per update.
    pub(super) fn rows(&self) -> f64 {
        f64::from(self.setting.shape.rows)
    }

    /// Returns the number of lanes of a replica. Stage k is on lane k mod this number.
    fn lanes(&self) -> usize {
        (self.depth() / self.setting.shape.chunks as usize).max(1)
    }

    /// Returns, for each lane of each replica, the sum of a value over its stages.
    fn by_lane(&self, of: impl Fn(usize, usize) -> f64) -> impl Iterator<Item = f64> {
        let all =
            (0..self.lanes()).flat_map(|lane| (0..self.setting.shape.width as usize).map(move |r| (lane, r)));
        all.map(move |(lane, replica)| {
            (lane..self.depth()).step_by(self.lanes()).map(|stage| of(stage, replica)).sum()
        })
    }

    /// Returns the machine's lane that runs a stage in a replica.
    fn lane(&self, stage: usize, replica: usize) -> Option<&Lane> {
        let lane = self.partition.stages.get(stage)?.lanes.get(replica)?;
        self.machine.lanes.get(*lane)
    }

    /// Returns the bytes per update that are sent: between stages, and for weights.
    pub(super) fn bytes(&self) -> (f64, f64) {
        let width = f64::from(self.setting.shape.width);
        let copies = if self.setting.host.is_some() { 1.0 + width } else { 2.0 * (width - 1.0) };
        (2.0 * self.rows() * self.boundaries(), copies * self.weights())
    }

    fn weights(&self) -> f64 {
        self.counted.iter().map(|stage| stage.sums.weights).sum()
    }

    /// Returns the bytes per row that stages read from other stages.
    fn boundaries(&self) -> f64 {
        self.counted
            .iter()
            .flat_map(|stage| &stage.reads)
            .map(|(_, bytes)| bytes)
            .fold(0.0, |all, of| all + of)
    }

    /// Returns the memory of the host in bytes, or 0 without a host.
    pub(super) fn host_memory(&self) -> f64 {
        if self.setting.host.is_none() {
            return 0.0;
        }
        let in_flight = |read: usize| self.counted.get(read).map_or(0.0, |of| f64::from(of.in_flight) + 1.0);
        let rows = self.counted.iter().flat_map(|stage| &stage.reads);
        let rows: f64 = rows.map(|&(read, bytes)| in_flight(read) * bytes).sum();
        (self.setting.versions() + self.setting.copies) * self.weights()
            + f64::from(self.setting.shape.width) * self.setting.rows * rows
    }

    /// Returns the forward and backward times of a stage in a replica for one micro-batch, in
    /// seconds.
    pub(super) fn seconds(&self, stage: usize, replica: usize) -> (f64, f64) {
        let (Some(counted), Some(lane)) = (self.counted.get(stage), self.lane(stage, replica)) else {
            return (0.0, 0.0);
        };
        let (forward, backward) =
            self.setting.seconds(&counted.sums, lane, counted.recompute.unwrap_or(true));
        ((self.data(counted) - backward).max(0.0) + forward, backward)
    }

    /// Returns the time in which the data that a stage reads arrive, in seconds. All stages that
    /// read the data share one link.
    fn data(&self, stage: &Counted) -> f64 {
        let Some(link) = self.setting.work.data.filter(|_| stage.sums.data > 0.0) else { return 0.0 };
        let all: f64 = self.counted.iter().map(|stage| stage.sums.data).sum();
        f64::from(self.setting.shape.width) * self.setting.rows * all / link
    }

    /// Returns the time that a stage of a replica computes in a round, in seconds.
    fn work(&self, stage: usize, replica: usize) -> f64 {
        let (forward, backward) = self.seconds(stage, replica);
        f64::from(self.setting.own()) * (forward + backward)
    }

    /// Returns the compute time of the busiest lane in a round, in seconds.
    pub(super) fn slowest(&self) -> f64 {
        self.by_lane(|stage, replica| self.work(stage, replica)).fold(0.0, f64::max)
    }

    /// Returns the time of the update between rounds, in seconds. In it, gradients are sent to the
    /// owner of the weights, and weights return.
    pub(super) fn update(&self) -> f64 {
        let width = f64::from(self.setting.shape.width);
        let of_lanes = self.by_lane(|stage, replica| self.update_of(stage, replica)).fold(0.0, f64::max);
        let host = self.setting.host.map_or(0.0, |host| (1.0 + width) * self.weights() / host.link);
        of_lanes.max(host) + self.setting.work.update
    }

    /// Returns the compute time of all cores in a round divided by the number of cores, in seconds.
    /// If the host's thread has its own core, it is 0.
    fn shared(&self) -> f64 {
        let work = self.setting.work;
        if work.cores == 0 {
            return 0.0;
        }
        // A lane that shares its core works at the core's pace while it runs.
        let pace = |stage, replica| self.lane(stage, replica).map_or(1.0, |lane| lane.pace.min(1.0));
        let of_lanes = self.by_lane(|stage, replica| self.work(stage, replica) * pace(stage, replica));
        (of_lanes.sum::<f64>() + work.update) / f64::from(work.cores)
    }

    pub(super) fn update_of(&self, stage: usize, replica: usize) -> f64 {
        let width = f64::from(self.setting.shape.width);
        let times = if self.setting.host.is_some() { 2.0 } else { 2.0 * (width - 1.0) / width };
        let weights = self.counted.get(stage).map_or(0.0, |of| of.sums.weights);
        self.lane(stage, replica).map_or(0.0, |lane| times * weights / lane.link)
    }

    fn overlaps(&self) -> bool {
        self.setting.shape.schedule.settings().1 != WeightVersions::Latest
    }

    /// Returns a lower bound on the time of a round, in seconds. It is the slowest lane's work and,
    /// if rounds do not overlap, the work that must precede and follow it.
    pub(super) fn least(&self) -> f64 {
        let (boundaries, weights) = self.bytes();
        let host = self.setting.host.map_or(0.0, |host| host.link);
        let over = |bytes: f64| if host > 0.0 { bytes / host } else { 0.0 };
        if self.overlaps() {
            return self.slowest().max(over(boundaries + weights)).max(self.shared());
        }
        let work = (0..self.setting.shape.width as usize).map(|replica| self.drained(replica));
        work.fold(0.0, f64::max).max(over(boundaries)) + self.update()
    }

    /// Returns the maximum, over all lanes, of a lane's work plus the path to its first step and
    /// the path back from its last step, in seconds.
    fn drained(&self, replica: usize) -> f64 {
        let mut ways: Vec<(f64, f64)> = Vec::with_capacity(self.depth());
        let mut lanes = vec![0.0f64; self.lanes()];
        for (stage, counted) in self.counted.iter().enumerate() {
            let (forward, backward) = self.seconds(stage, replica);
            let before = counted.reads.iter().filter_map(|&(read, _)| ways.get(read));
            let (to, back) =
                before.fold((0.0f64, 0.0f64), |(to, back), way| (to.max(way.0), back.max(way.1)));
            // The first stage of a lane is the nearest to the data.
            let way = if stage < self.lanes() { to + back } else { 0.0 };
            lanes[stage % self.lanes()] += way + self.work(stage, replica);
            ways.push((to + forward, back + backward));
        }
        lanes.into_iter().fold(0.0, f64::max)
    }

    /// Returns true if each lane has enough memory.
    pub(super) fn fits_lanes(&self) -> bool {
        self.counted.iter().all(|stage| stage.recompute.is_some())
    }

    /// Returns true if the lanes and the host have enough memory.
    pub(super) fn fits(&self) -> bool {
        let host = self.setting.host.and_then(|host| host.memory);
        self.fits_lanes() && host.is_none_or(|most| self.host_memory() <= most)
    }

    /// Returns the number of rounds that a prediction times.
    fn rounds(&self) -> u32 {
        match self.overlaps() {
            true => (TIMED / self.setting.shape.micro.max(1)).clamp(*ROUNDS.start(), *ROUNDS.end()),
            false => 1,
        }
    }

    /// Returns the number of steps that a prediction computes.
    pub(super) fn steps(&self) -> u64 {
        2 * self.depth() as u64 * u64::from(self.setting.shape.micro) * u64::from(self.rounds())
    }

    fn list(&self) -> List {
        let depth = self.depth() as u16;
        let back = |stage: u16| 2 * depth - 1 - stage;
        let forward = self.counted.iter().map(|of| of.reads.iter().map(|&(read, _)| read as u16).collect());
        let mut reads: Vec<Vec<u16>> = forward.collect();
        // At most `MAX_LANES`.
        let lanes = self.lanes() as u16;
        let role = |stage: u16, back| Role { lane: stage % lanes, chunk: stage / lanes, back };
        let mut roles: Vec<Role> = (0..depth).map(|stage| role(stage, false)).collect();
        for stage in (0..depth).rev() {
            let read_by = |(_, of): &(u16, &Counted)| of.reads.iter().any(|&(read, _)| read as u16 == stage);
            let readers = (0..depth).zip(&self.counted).filter(read_by).map(|(reader, _)| back(reader));
            reads.push([stage].into_iter().chain(readers).collect());
            roles.push(role(stage, true));
        }
        let intervals = self.setting.shape.micro;
        let shape = Shape { depth: lanes.into(), ..self.setting.shape };
        let setting = Setting { shape, ..self.setting };
        let cap = |(lane, stage): (u16, &Counted)| match setting.shape.chunks {
            1 => stage.in_flight,
            _ => policy::cap(&setting.lanes(), u32::from(lanes - lane), setting.own()),
        };
        let caps = (0..lanes).zip(&self.counted).map(cap).collect();
        List {
            policy: Policy::new(setting.lanes(), intervals, roles, caps),
            reads,
            intervals,
            rounds: self.rounds(),
            bound: u32::from(self.overlaps()),
        }
    }

    /// Computes the list schedule of the candidate.
    pub(super) fn grid(&self) -> Grid {
        self.list().run(&mut Links::from_candidate(self))
    }

    /// Predicts the times of a round by the list schedule.
    pub(super) fn predict(&self) -> Predicted {
        let grid = self.grid();
        let round = match grid.rounds[..] {
            [only] => only,
            [.., last, _] => {
                let first = grid.rounds.get(FIRST).copied().unwrap_or(0.0);
                (last - first) / (grid.rounds.len().saturating_sub(FIRST + 2)).max(1) as f64
            }
            [] => grid.span(),
        };
        // In the long run, a round takes at least the time of the slowest lane or link. A mean of
        // few rounds could be below it.
        let round = round.max(self.least());
        let busy: f64 = grid.cells.iter().map(|cell| cell.time.1 - cell.time.0).sum();
        let busy = busy / grid.rounds.len().max(1) as f64;
        let all = f64::from(grid.lanes) * round;
        Predicted { round, bubble: if all > 0.0 { (1.0 - busy / all).max(0.0) } else { 0.0 } }
    }
}

/// Time at which each network link is free again.
struct Links<'a> {
    of: &'a Candidate<'a>,
    replicas: eciton_recipe::Lanes,
    /// Times of each lane of each replica, for its two directions: (out, in).
    lanes: Vec<[f64; 2]>,
    host: f64,
    /// Forward and backward time of each stage in each replica, in seconds.
    seconds: Vec<(f64, f64)>,
}

impl<'a> Links<'a> {
    fn from_candidate(of: &'a Candidate<'a>) -> Self {
        let width = of.setting.shape.width as usize;
        let count = of.depth() * width;
        let seconds = (0..of.depth()).flat_map(|stage| (0..width).map(move |replica| (stage, replica)));
        Self {
            of,
            replicas: of.setting.lanes(),
            lanes: vec![[0.0; 2]; count],
            host: 0.0,
            seconds: seconds.map(|(stage, replica)| of.seconds(stage, replica)).collect(),
        }
    }

    fn place(&self, job: u16, interval: u32) -> (usize, usize) {
        let (depth, job) = (self.of.depth(), usize::from(job));
        let stage = if job < depth { job } else { 2 * depth - 1 - job };
        (stage, self.replicas.replica(interval, self.of.setting.shape.micro) as usize)
    }

    fn at(&self, (stage, replica): (usize, usize)) -> usize {
        stage % self.of.lanes() * self.of.setting.shape.width as usize + replica
    }
}

impl World for Links<'_> {
    fn took(&self, job: u16, interval: u32) -> f64 {
        let (stage, replica) = self.place(job, interval);
        let at = stage * self.of.setting.shape.width as usize + replica;
        let (forward, backward) = self.seconds.get(at).copied().unwrap_or_default();
        if usize::from(job) < self.of.depth() { forward } else { backward }
    }

    fn carried(&mut self, now: f64, from: u16, to: u16, interval: u32) -> f64 {
        let (sender, receiver) = (self.place(from, interval), self.place(to, interval));
        if self.at(sender) == self.at(receiver) {
            return now;
        }
        let (first, last) = (sender.0.min(receiver.0), sender.0.max(receiver.0));
        let reads = self.of.counted.get(last).map_or(&[][..], |stage| &stage.reads);
        let row = reads.iter().find(|(read, _)| *read == first).map_or(0.0, |(_, bytes)| *bytes);
        if row == 0.0 {
            return now;
        }
        let bytes = row * self.of.setting.rows;
        let link =
            |(stage, replica): (usize, usize)| self.of.lane(stage, replica).map_or(1.0, |lane| lane.link);
        let (out, into) = (link(sender), link(receiver));
        let (at, to) = (self.at(sender), self.at(receiver));
        let host = self.of.setting.host.map(|host| host.link);
        let free = |links: &[[f64; 2]], at: usize, way: usize| links.get(at).map_or(0.0, |ways| ways[way]);
        let begins = now.max(free(&self.lanes, at, 0)).max(free(&self.lanes, to, 1));
        let begins = if host.is_some() { begins.max(self.host) } else { begins };
        if let Some(ways) = self.lanes.get_mut(at) {
            ways[0] = begins + bytes / out;
        }
        if let Some(ways) = self.lanes.get_mut(to) {
            ways[1] = begins + bytes / into;
        }
        self.host = host.map_or(self.host, |host| begins + bytes / host);
        let ways = if host.is_some() { 2.0 } else { 1.0 };
        begins + bytes / out.min(into).min(host.unwrap_or(f64::INFINITY)) + ways * self.of.machine.transfer
    }

    fn updated(&mut self, now: f64) -> f64 {
        let width = self.of.setting.shape.width;
        let mut there = now;
        for stage in 0..self.of.depth() {
            for replica in 0..width as usize {
                let took = self.of.update_of(stage, replica);
                let at = self.at((stage, replica));
                let Some(ways) = self.lanes.get_mut(at).filter(|_| took > 0.0) else { continue };
                for free in ways {
                    *free = free.max(now) + took;
                    there = there.max(*free);
                }
            }
        }
        if let Some(host) = self.of.setting.host {
            self.host = self.host.max(now) + (1.0 + f64::from(width)) * self.of.weights() / host.link;
            there = there.max(self.host);
        }
        there + self.of.setting.work.update
    }
}
