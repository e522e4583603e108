//! What a stage takes and holds.
//!
//! Of a stage with forward f, backward g, weights W, kept rows K, inputs A_in and outputs A_out,
//! bytes a row, in micro-batches of b rows, k of them in flight, on a lane of pace p and link l:
//!
//! ```text
//! seconds      (f(b) + g(b)) / p            recomputing  (2 f(b) + g(b)) / p, 4/3 if g = 2 f
//! memory       (v + c) W + k b (A_in + K)   recomputing  (v + c) W + k b A_in + b K
//! links        b A_in / l forward and in, b A_out / l forward and out; the same backward
//! ```
//!
//! The data may come over a link of the host's, l_d, for the next micro-batch while a stage goes back on one.
//! Each stage that reads it then waits for what is left of the data of all such stages before it goes
//! forward: max(b sum A_data / l_d - g(b) / p, 0).
//!
//! v versions of the weights: 2 with two buffers, else 1. c copies: of lanes that own their weights
//! the wanted ones, else 1, the gradient. Source: Narayanan et al. 2021 (PipeDream-2BW), section
//! 3.3, where W, K are of a d-th of the model, v = 2, c = 0, k = d.

use super::graph::{Graph, Pace};
use super::machine::{Host, HostWork, Lane, Machine, Shape, Wanted};
use crate::lanes::Lanes;
use crate::pipeline::WeightVersions;
use crate::policy::Order;

/// Sums over a set of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub forward: Pace,
    pub backward: Pace,
    pub weights: f64,
    pub kept: f64,
    /// Bytes a row of other operators' outputs, each once.
    pub input: f64,
    /// Bytes a row of own outputs that others read, each once.
    pub output: f64,
    /// Bytes a row of the data.
    pub data: f64,
}

impl Sums {
    /// Of operators of which `inside` says whether an operator is one.
    pub(super) fn of(
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

/// One choice of everything but the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    pub shape: Shape,
    /// Rows of the largest micro-batch.
    pub rows: f64,
    pub recompute: bool,
    pub copies: f64,
    pub host: Option<Host>,
    pub work: HostWork,
}

impl Setting {
    pub(super) fn new(machine: &Machine, wanted: &Wanted, shape: Shape) -> Self {
        Self {
            shape,
            rows: f64::from(wanted.rows.div_ceil(shape.micro.max(1))),
            recompute: wanted.recompute,
            copies: wanted.copies,
            host: machine.host,
            work: wanted.work,
        }
    }

    /// Micro-batches of a replica.
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

    /// How many versions of the weights are alive.
    pub(super) fn versions(&self) -> f64 {
        match self.shape.schedule.settings().1 {
            WeightVersions::Latest => 1.0,
            WeightVersions::TwoBuffered | WeightVersions::Stash | WeightVersions::Newest => 2.0,
        }
    }

    /// Micro-batches in flight in a run of stages from which the longest path to the last one has
    /// so many runs. Of several runs of a lane each has its share of the lane's visits.
    pub(super) fn in_flight(&self, path: u32) -> u32 {
        match self.shape.chunks {
            1 => self.lanes().cap(path, self.own()),
            chunks => self.lanes().cap((path - 1) % self.shape.depth + 1, self.own()).div_ceil(chunks),
        }
    }

    /// Bytes that a stage holds.
    pub(super) fn memory(&self, sums: &Sums, in_flight: u32, recompute: bool) -> f64 {
        let held = if self.host.is_some() { 1.0 } else { self.copies };
        let k = f64::from(in_flight);
        let kept = if recompute { 1.0 } else { k };
        (self.versions() + held) * sums.weights + self.rows * (k * sums.input + kept * sums.kept)
    }

    /// Seconds of a micro-batch, forward and backward.
    pub(super) fn seconds(&self, sums: &Sums, lane: &Lane, recompute: bool) -> (f64, f64) {
        let forward = sums.forward.on(self.rows) / lane.pace;
        let again = if recompute { forward } else { 0.0 };
        let handed = self.work.step;
        (handed + forward, handed + again + sums.backward.on(self.rows) / lane.pace)
    }

    /// Whether a stage recomputes where the lane's memory has room for it; `None`: it has not.
    pub(super) fn fits(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> Option<bool> {
        let Some(most) = lane.memory.map(|most| most / f64::from(self.shape.chunks)) else {
            return Some(false);
        };
        let fits = |&recompute: &bool| self.memory(sums, in_flight, recompute) <= most;
        [false, true].into_iter().take(if self.recompute { 2 } else { 1 }).find(fits)
    }

    /// The larger of a stage's seconds of work and of transfer a micro-batch, where it fits; else
    /// infinite.
    pub(super) fn cost(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> f64 {
        let Some(recompute) = self.fits(sums, lane, in_flight) else { return f64::INFINITY };
        let (forward, backward) = self.seconds(sums, lane, recompute);
        (forward + backward).max(self.rows * sums.input.max(sums.output) / lane.link)
    }

    /// The share of a lane's memory that a stage takes at least.
    pub(super) fn strain(&self, sums: &Sums, lane: &Lane, in_flight: u32) -> f64 {
        lane.memory.map_or(0.0, |most| self.memory(sums, in_flight, self.recompute) / most)
    }
}
