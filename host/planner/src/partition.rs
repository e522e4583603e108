//! Partition: the assignment of operators to lanes that a planner returns, before it is timed.

use super::graph::Graph;
use super::machine::Machine;
use super::stage_time::{Setting, Sums};

/// Planner (search method) that found a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planner {
    /// PipeDream: dynamic programming over contiguous runs of operators.
    Chain,
    /// PipeDream-2BW: runs of equal compute, with depth and width by its formulas.
    Blocks,
    /// BaPipe: runs of equal compute, with boundary operators moved away from the slowest lane.
    Balanced,
    /// GraphPipe: dynamic programming over the stages of a series-parallel graph.
    Branches,
    /// Local search: single moves of operators and lanes, judged by the predicted time of a round.
    Refined,
}

impl Planner {
    /// Returns the name of the planner in printed plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Blocks => "blocks",
            Self::Balanced => "balanced",
            Self::Branches => "branches",
            Self::Refined => "refined",
        }
    }
}

/// Stage of a partition, on one lane in each replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StageOf {
    /// Indices of the operators of the stage, in ascending order.
    pub operators: Vec<usize>,
    /// Index of the machine's lane that runs the stage, for each replica.
    pub lanes: Vec<usize>,
}

/// Partition of a graph into stages, in topological order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Partition {
    pub planner: Planner,
    pub stages: Vec<StageOf>,
}

/// Sums of times, bytes and dependencies of a stage in a partition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub sums: Sums,
    /// Stages whose output the stage reads, with the bytes per row. A stage that it only waits for
    /// has 0 bytes.
    pub reads: Vec<(usize, f64)>,
    pub in_flight: u32,
    /// True if the stage recomputes its forward rows. `None` if it fits into the memory of none of
    /// its lanes.
    pub recompute: Option<bool>,
    /// Memory of the stage, in bytes.
    pub memory: f64,
}

impl Partition {
    /// Computes the sums of all stages from the operators.
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
                let again = recompute.unwrap_or(setting.may_recompute(&sums));
                let memory = setting.memory(&sums, in_flight, again);
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
