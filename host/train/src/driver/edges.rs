//! The steps of edge kernels on their way: lists of the graph's edges for a kernel on the host's threads.

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::{Compute, Work};
use eciton_graph::adjacency::Adjacency;
use eciton_graph::dataset::Dataset;
use eciton_graph::order::Permutation;
use eciton_kernel::{EdgeCall, EdgeKind, EdgeLists, OtherRows, Target};
use eciton_plan::{EdgeStep, Edges, Over, SlotId, Step, Version};
use eciton_tensor::Matrix;

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
    /// Does a step of an edge kernel with the weights of a version, from rows that are so many epochs old as
    /// `ages` says, by interval.
    pub(super) fn edges(
        &self,
        (pass, step, version): (u32, Step, Version),
        edges: &Edges,
        ages: Option<&[u8]>,
        weights: &Weights,
        compute: &mut (impl Compute + ?Sized),
    ) -> Result<()> {
        let interval = self.interval(step.interval)?;
        let operation = self.operation(edges.operation)?;
        let read = |slot: SlotId| self.read(slot, step);
        let write = |slot: SlotId| self.write(slot, step).map(Some);
        let maybe = |slot: Option<SlotId>| slot.map_or(Ok(None), write);
        let (mut own, mut rows_out, mut sums_out): (Vec<Matrix>, Vec<Option<Target>>, Vec<Target>) =
            (Vec::new(), Vec::new(), Vec::new());
        let (kind, other) = match &edges.step {
            EdgeStep::Forward { source, target, output, kept } => {
                own.push(read(*target)?);
                rows_out.push(write(*output)?);
                for &slot in kept {
                    rows_out.push(write(slot)?);
                }
                (EdgeKind::Forward, *source)
            }
            EdgeStep::Targets { source, target, kept, gradient, target_gradient, passed } => {
                for &slot in [target].into_iter().chain(kept).chain([gradient]) {
                    own.push(read(slot)?);
                }
                rows_out.push(maybe(*target_gradient)?);
                rows_out.push(write(*passed)?);
                for (p, spec) in operation.parameters.iter().zip(&operation.signature.parameters) {
                    let parts = weights.gradient(p.index(), step.round, step.interval);
                    sums_out.push(Target::Sums { parts, shape: spec.shape.clone() });
                }
                (EdgeKind::Targets, *source)
            }
            EdgeStep::Sources { passed, source, source_gradient } => {
                own.push(read(*source)?);
                rows_out.push(write(*source_gradient)?);
                (EdgeKind::Sources, *passed)
            }
        };
        let pieces = self.rows.read_all(other, step.round, ages)?;
        let other = pieces.into_iter().map(|(rows, lease)| match lease {
            Lease::F32(lease) => Ok((rows, lease)),
            Lease::Bf16(_) => Err(Error::Internal(format!("slot {other} is not stored as f32"))),
        });
        let parameters = operation.parameters.iter().map(|p| weights.matrix(p.index(), version));
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
        let layer = self.layer(edges.operation)?.clone();
        compute.work(pass, step, Work::Edges { layer, call: Box::new(call) });
        Ok(())
    }
}
