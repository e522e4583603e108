//! The steps of edge kernels on their way: lists of the graph's edges for a kernel.

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::{KernelWork, Work};
use eciton_graph::adjacency::Adjacency;
use eciton_graph::dataset::Dataset;
use eciton_graph::order::Permutation;
use eciton_kernel::{EdgeCall, EdgeKind, EdgeLists, OtherRows, Target};
use eciton_plan::{EdgeStep, Edges, Over, SlotId, Step, Task};

use super::rows::Lease;
use super::stages::{Stages, lists};
use crate::edge_data::{EdgeData, KnownEdges};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// The lists of an interval's rows.
struct Lists {
    dataset: Arc<Dataset>,
    edges: Arc<EdgeData>,
    /// Whether the kernel is told what is known of edges.
    told: bool,
    order: Option<Arc<Permutation>>,
    rows: Range<usize>,
    over: Over,
    /// Own ends are sources.
    outgoing: bool,
    with_self: bool,
}

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lists({:?}, outgoing {}, with self {})", self.rows, self.outgoing, self.with_self)
    }
}

impl Lists {
    fn adjacency(&self) -> &Adjacency {
        // There are such lists: a program that follows them was made for them.
        let graph = lists(&self.dataset, self.over).unwrap_or(&self.dataset.graph);
        if self.outgoing { graph.outgoing() } else { graph.incoming() }
    }

    /// The row that an own row is among all of them.
    fn number(&self, own: usize) -> u32 {
        // A graph has fewer than 2^32 vertices.
        (self.rows.start + own) as u32
    }
}

impl EdgeLists for Lists {
    fn others(&self, own: usize) -> &[u32] {
        self.adjacency().of(self.number(own))
    }

    fn itself(&self, own: usize) -> Option<u32> {
        self.with_self.then(|| self.number(own))
    }

    fn own_vertex(&self, own: usize) -> u32 {
        self.vertex(self.number(own))
    }

    fn vertex(&self, row: u32) -> u32 {
        let numbers = self.order.as_ref().map(|order| order.old_of_new());
        numbers.and_then(|numbers| numbers.get(row as usize).copied()).unwrap_or(row)
    }

    fn features(&self) -> usize {
        self.edges.features.as_ref().filter(|_| self.told).map_or(0, KnownEdges::columns)
    }

    fn features_of(&self, own: usize, place: usize, into: &mut [f32]) {
        if let Some(known) = &self.edges.features {
            into.copy_from_slice(known.row(self.adjacency(), self.number(own), place, self.outgoing));
        }
    }
}

impl Stages<'_> {
    /// Where a step of an edge kernel writes: rows, then sums.
    pub(super) fn edge_targets(
        &self,
        step: Step,
        edges: &Edges,
        weights: &Weights,
    ) -> Result<(Vec<Option<Target>>, Vec<Target>)> {
        let write = |slot: &SlotId| self.write(*slot, step).map(Some);
        Ok(match &edges.step {
            EdgeStep::Forward { output, kept, .. } => {
                ([output].into_iter().chain(kept).map(write).collect::<Result<_>>()?, Vec::new())
            }
            EdgeStep::Targets { target_gradient, passed, .. } => {
                let to = target_gradient.as_ref().map_or(Ok(None), write)?;
                (vec![to, write(passed)?], self.gradients(step, edges.operation, weights)?)
            }
            EdgeStep::Sources { source_gradient, .. } => (vec![write(source_gradient)?], Vec::new()),
        })
    }

    /// A step of an edge kernel, from rows that are so many epochs old as `ages` says, by interval.
    pub(super) fn edges(
        &self,
        task: Task,
        edges: &Edges,
        ages: Option<&[u8]>,
        weights: &Weights,
    ) -> Result<Work> {
        let step = task.step();
        let interval = self.interval(step.interval)?;
        let operation = self.operation(edges.operation)?;
        let (kind, own, other) = match &edges.step {
            EdgeStep::Forward { source, target, .. } => (EdgeKind::Forward, vec![target], *source),
            EdgeStep::Targets { source, target, kept, gradient, .. } => {
                let own = [target].into_iter().chain(kept).chain([gradient]);
                (EdgeKind::Targets, own.collect(), *source)
            }
            EdgeStep::Sources { passed, source, .. } => (EdgeKind::Sources, vec![source], *passed),
        };
        let own = own.into_iter().map(|&slot| self.read(slot, step)).collect::<Result<Vec<_>>>()?;
        let (rows_out, sums_out) = self.edge_targets(step, edges, weights)?;
        let pieces = self.rows.read_all(other, step.round, ages)?;
        let other = pieces.into_iter().map(|(rows, lease)| match lease {
            Lease::F32(lease) => Ok((rows, lease)),
            Lease::Bf16(_) => Err(Error::Internal(format!("slot {other} is not stored as f32"))),
        });
        let parameters = operation.parameters.iter().map(|p| weights.matrix(p.index(), task.weights));
        let call = EdgeCall {
            kind,
            seed: self.seed,
            // The engine counts from 1, random numbers from 0.
            epoch: step.round.0.saturating_sub(1),
            layer: operation.draw,
            training: self.training,
            grid: interval.grid.clone(),
            lists: Arc::new(Lists {
                dataset: self.prepared.dataset.clone(),
                edges: self.prepared.edges.clone(),
                told: edges.along.features,
                order: self.prepared.vertices.permutation(),
                rows: interval.rows.clone(),
                over: edges.along.over,
                outgoing: kind == EdgeKind::Sources,
                with_self: edges.along.with_self,
            }),
            other: other.collect::<Result<OtherRows>>()?,
            own,
            parameters: parameters.collect::<Result<_>>()?,
            rows_out,
            sums_out,
        };
        Ok(Work::Kernel(KernelWork {
            operation: edges.operation,
            generation: weights.generation(task.weights)?,
            layer: self.layer(edges.operation)?.clone(),
            call: call.into(),
            constant_inputs: Vec::new(),
            place: self.program.place(step.stage),
        }))
    }
}
