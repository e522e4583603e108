//! Time and memory of a stage.
//!
//! A stage has forward time f, backward time g, weights W, stashed rows K, inputs A_in and outputs
//! A_out, in bytes per row. It runs micro-batches of b rows, k of them in flight, on a lane of pace
//! p and bandwidth l:
//!
//! ```text
//! seconds      (f(b) + g(b)) / p            recomputing  (2 f(b) + g(b)) / p, 4/3 if g = 2 f
//! memory       (v + c) W + k b (A_in + K)   recomputing  (v + c) W + k b A_in + b K
//! links        b A_in / l forward and in, b A_out / l forward and out; the same backward
//! ```
//!
//! The data of the next micro-batch may arrive over a link of the host with bandwidth l_d, during
//! the backward step of a stage. Before its forward step, each stage that reads the data waits for
//! the remaining data of all such stages: max(b sum A_data / l_d - g(b) / p, 0).
//!
//! v is the number of weight versions, which is 2 with double-buffered weights and 1 otherwise. c
//! is the number of copies. It is [`Wanted::copies`] if lanes own their weights, and
//! [`Wanted::lane_copies`] otherwise. Source: Narayanan et al. 2021 (PipeDream-2BW), section 3.3, where W and K are
//! those of a d-th of the model, v = 2, c = 0 and k = d.

use super::graph::{Graph, Pace};
use super::machine::{Host, HostWork, Lane, Machine, Shape, Wanted};
use crate::policy;
use eciton_recipe::lanes::Lanes;
use eciton_recipe::lanes::Order;
use eciton_recipe::pipeline::WeightVersions;

/// Sums of times and bytes over a set of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub forward: Pace,
    pub backward: Pace,
    pub weights: f64,
    pub kept: f64,
    /// Size of other operators' outputs that the set reads, in bytes per row. Each output counts
    /// once.
    pub input: f64,
    /// Size of the set's outputs that other operators read, in bytes per row. Each output counts
    /// once.
    pub output: f64,
    /// Size of the data that the set reads, in bytes per row.
    pub data: f64,
    /// True if the set contains the last operator, whose rows the loss reads.
    pub is_last: bool,
}

impl Sums {
    /// Returns the sums over `operators`. `inside` must return true for exactly these operators.
    pub(super) fn from_operators(
        graph: &Graph,
        operators: impl Iterator<Item = usize>,
        inside: impl Fn(usize) -> bool,
    ) -> Self {
        let mut sums = Self::default();
        let mut read: Vec<usize> = Vec::new();
        for at in operators {
            let Some(operator) = graph.operators().get(at) else { continue };
            sums.forward = sums.forward + operator.forward;
            sums.backward = sums.backward + operator.backward;
            sums.weights += operator.weights;
            sums.kept += operator.kept;
            sums.data = sums.data.max(operator.data);
            sums.is_last |= at + 1 == graph.len();
            read.extend(operator.reads.iter().copied().filter(|&read| !inside(read)));
            if graph.readers(at).iter().any(|&reader| !inside(reader)) {
                sums.output += operator.output;
            }
        }
        read.sort_unstable();
        if !planted!(ReadTwice) {
            read.dedup();
        }
        let read = read.iter().filter_map(|&read| graph.operators().get(read));
        sums.input = read.fold(0.0, |all, of| all + of.output);
        if planted!(InputForgotten) {
            sums.input = 0.0;
        }
        sums
    }
}

/// Setting of a candidate: everything except the division into stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    pub shape: Shape,
    /// Number of rows of the largest micro-batch.
    pub rows: f64,
    pub recompute: bool,
    pub copies: f64,
    pub lane_copies: f64,
    pub host: Option<Host>,
    pub work: HostWork,
}

impl Setting {
    pub(super) fn new(machine: &Machine, wanted: &Wanted, shape: Shape) -> Self {
        Self {
            shape,
            rows: f64::from(shape.rows.div_ceil(shape.micro.max(1))),
            recompute: wanted.recompute,
            copies: wanted.copies,
            lane_copies: wanted.lane_copies,
            host: machine.host,
            work: wanted.work,
        }
    }

    /// Returns the number of micro-batches of one replica.
    pub(super) fn own(&self) -> u32 {
        self.shape.micro / self.shape.width.max(1)
    }

    pub(super) fn order(&self) -> Order {
        self.shape.schedule.settings().0
    }

    pub(super) fn lanes(&self) -> Lanes {
        let (width, order, chunks) =
            (self.shape.width, self.order(), Some(self.shape.chunks).filter(|&of| of > 1));
        Lanes { count: width * self.shape.depth, width, order, chunks, cap: None }
    }

    /// Returns the number of weight versions that exist at the same time.
    pub(super) fn versions(&self) -> f64 {
        match self.shape.schedule.settings().1 {
            WeightVersions::Latest => 1.0,
            WeightVersions::TwoBuffered | WeightVersions::Stash | WeightVersions::Newest => 2.0,
        }
    }

    /// Returns the number of micro-batches in flight in a run of stages. `path` is the length of
    /// the longest path from this run to the last one. If a lane has several runs, each has its
    /// share of the lane's visits.
    pub(super) fn in_flight(&self, path: u32) -> u32 {
        match self.shape.chunks {
            1 => policy::cap(&self.lanes(), path, self.own()),
            chunks => {
                policy::cap(&self.lanes(), (path - 1) % self.shape.depth + 1, self.own()).div_ceil(chunks)
            }
        }
    }

    /// Returns the memory of a stage, in bytes.
    pub(super) fn memory(&self, sums: &Sums, in_flight: u32, recompute: bool) -> f64 {
        let held = if self.host.is_some() { self.lane_copies } else { self.copies };
        let k = f64::from(in_flight);
        let kept = if recompute { 1.0 } else { k };
        (self.versions() + held) * sums.weights + self.rows * (k * sums.input + kept * sums.kept)
    }

    /// Returns the forward and backward times of a micro-batch, in seconds.
    pub(super) fn seconds(&self, sums: &Sums, lane: &Lane, recompute: bool) -> (f64, f64) {
        let forward = sums.forward.on(self.rows) / lane.pace;
        let again = if recompute { forward } else { 0.0 };
        let handed = self.work.step;
        (handed + forward, handed + again + sums.backward.on(self.rows) / lane.pace)
    }

    /// Returns true if a stage may recompute its forward rows. The stage before the loss may not,
    /// because no other lane waits for its rows.
    pub(super) fn may_recompute(&self, sums: &Sums) -> bool {
        self.recompute && !sums.is_last
    }

    /// Returns true if a stage has to recompute forward rows to fit into the lane's memory. Returns
    /// `None` if the stage never fits.
    pub(super) fn fits(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> Option<bool> {
        let Some(most) = lane.memory.map(|most| most / f64::from(self.shape.chunks)) else {
            return Some(false);
        };
        let fits = |&recompute: &bool| self.memory(sums, in_flight, recompute) <= most;
        [false, true].into_iter().take(if self.may_recompute(sums) { 2 } else { 1 }).find(fits)
    }

    /// Returns the cost of a stage for a micro-batch, in seconds: the larger of its compute time
    /// and its transfer time. It is infinite if the stage does not fit into memory.
    pub(super) fn cost(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> f64 {
        let Some(recompute) = self.fits(sums, lane, in_flight) else { return f64::INFINITY };
        let (forward, backward) = self.seconds(sums, lane, recompute);
        (forward + backward).max(self.rows * sums.input.max(sums.output) / lane.link)
    }

    /// Returns the costs of a stage in the phases of the schedule, in seconds: forward and backward if each
    /// lane finishes all forward steps first, otherwise their sum and 0. `path` is that of
    /// [`Self::in_flight`]. The costs are infinite if the stage does not fit into memory.
    pub(super) fn phases(&self, sums: &Sums, lane: &Lane, path: u32) -> [f64; 2] {
        let cost = self.cost(sums, lane, self.in_flight(path));
        if self.order() != Order::ForwardFirst || cost.is_infinite() {
            return [cost, 0.0];
        }
        let recompute = self.fits(sums, lane, self.in_flight(path)).unwrap_or(self.may_recompute(sums));
        let (forward, backward) = self.seconds(sums, lane, recompute);
        let transfer = self.rows * sums.input.max(sums.output) / lane.link;
        [forward.max(transfer), backward.max(transfer)]
    }

    /// Returns the smallest share of a lane's memory that a stage can use, with or without
    /// recomputation.
    pub(super) fn strain(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> f64 {
        lane.memory.map_or(0.0, |most| self.memory(sums, in_flight, self.may_recompute(sums)) / most)
    }
}
