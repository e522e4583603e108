//! Operators on lanes: the result of a planner, before it is timed.

use super::graph::Graph;
use super::machine::Machine;
use super::stage_time::{Setting, Sums};

/// Planner that found a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planner {
    /// Dynamic programming over contiguous cuts.
    Chain,
    /// Equal blocks, with depth and width from PipeDream-2BW's formulas.
    Blocks,
    /// Equal compute, then boundary operators moved from the slowest lane (BaPipe).
    Balanced,
    /// Dynamic programming over stages of a series-parallel graph (GraphPipe).
    Branches,
}

impl Planner {
    /// Returns the name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Blocks => "blocks",
            Self::Balanced => "balanced",
            Self::Branches => "branches",
        }
    }
}

/// A stage of all replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StageOf {
    /// Operators of the stage, ascending.
    pub operators: Vec<usize>,
    /// Lane of the machine for each replica.
    pub lanes: Vec<usize>,
}

/// Stages in topological order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Partition {
    pub planner: Planner,
    pub stages: Vec<StageOf>,
}

/// Figures of a stage in a partition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub sums: Sums,
    /// Stages that the stage reads, with bytes per row. A stage that it only follows has 0 bytes.
    pub reads: Vec<(usize, f64)>,
    pub in_flight: u32,
    /// True if the stage recomputes. `None` if it fits on none of its lanes.
    pub recompute: Option<bool>,
    /// Bytes of memory of the stage.
    pub memory: f64,
}

impl Partition {
    /// Computes the figures of the stages anew from the operators.
    pub(super) fn count(
        &self,
        graph: &Graph,
        machine: &Machine,
        setting: &Setting,
        parallel: bool,
    ) -> Vec<Counted> {
        let mut stage_of = vec![0; graph.len()];
        for (at, stage) in self.stages.iter().enumerate() {
            for &of in &stage.operators {
                if let Some(own) = stage_of.get_mut(of) {
                    *own = at;
                }
            }
        }
        let edges: Vec<Vec<(usize, f64)>> = (0..self.stages.len())
            .map(|at| self.edges(graph, &stage_of, at, parallel && setting.shape.chunks == 1))
            .collect();
        let mut paths = vec![1u32; self.stages.len()];
        for (at, reads) in edges.iter().enumerate().rev() {
            for &(read, _) in reads {
                paths[read] = paths[read].max(paths[at] + 1);
            }
        }
        let counted = self.stages.iter().zip(edges).zip(paths).enumerate();
        counted
            .map(|(at, ((stage, reads), path))| {
                let inside = |of: usize| stage_of.get(of) == Some(&at);
                let sums = Sums::from_operators(graph, stage.operators.iter().copied(), inside);
                let in_flight = setting.in_flight(path);
                let lanes = stage.lanes.iter().filter_map(|&lane| machine.lanes.get(lane));
                // `true` if one of the lanes needs it.
                let fits = lanes.map(|lane| setting.fits(&sums, lane, in_flight));
                let recompute = fits.into_iter().try_fold(false, |any, fits| Some(any | fits?));
                let memory = setting.memory(&sums, in_flight, recompute.unwrap_or(setting.recompute));
                Counted { sums, reads, in_flight, recompute, memory }
            })
            .collect()
    }

    fn edges(&self, graph: &Graph, stage_of: &[usize], at: usize, parallel: bool) -> Vec<(usize, f64)> {
        let operators = self.stages.get(at).map_or(&[][..], |stage| &stage.operators);
        let mut read: Vec<usize> = operators.iter().flat_map(|&of| graph.reads(of)).copied().collect();
        read.sort_unstable();
        read.dedup();
        let mut edges: Vec<(usize, f64)> = Vec::new();
        if !parallel && at > 0 {
            edges.push((at - 1, 0.0));
        }
        for of in read {
            let (Some(&from), Some(operator)) = (stage_of.get(of), graph.operators().get(of)) else {
                continue;
            };
            if from == at {
                continue;
            }
            match edges.iter_mut().find(|(known, _)| *known == from) {
                Some((_, bytes)) => *bytes += operator.output,
                None => edges.push((from, operator.output)),
            }
        }
        edges
    }
}
