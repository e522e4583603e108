//! Edge kernels on the host, which read rows along the neighbour lists of an interval.

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::Work;
use eciton_graph::adjacency::Adjacency;
use eciton_kernel::{CallStep, EdgeCall, EdgeKind, EdgeLists, Operand, OtherRows};
use eciton_program::{Along, Operation, Over, Phase};
use eciton_tensor::Buffer;

use crate::driver::operator::{Numbers, On, Operator};
use crate::driver::rows::Lease;
use crate::driver::span::Building;
use crate::edge_data::KnownEdges;
use crate::error::{Error, Result, at};
use crate::relation;

/// Neighbour lists that an edge kernel reads for the rows of one interval (a contiguous range of
/// rows).
struct Lists {
    lists: relation::Lists,
    /// True if the kernel reads edge features.
    told: bool,
    with_self: bool,
    vertices: Option<Numbers>,
    rows: Range<usize>,
}

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lists({:?}, {:?}, with self {})", self.rows, self.lists.relation, self.with_self)
    }
}

impl Lists {
    fn adjacency(&self) -> &Adjacency {
        self.lists.adjacency()
    }

    fn known(&self) -> Option<&KnownEdges> {
        self.lists.edges.features.as_ref()
    }

    /// Returns the vertex number in the data set of `row`.
    fn user_vertex(&self, row: u32) -> u32 {
        let numbers = self.vertices.as_ref().map(Numbers::of_rows);
        numbers.and_then(|numbers| numbers.get(row as usize).copied()).unwrap_or(row)
    }

    /// Converts a row index within the interval to a row index over all intervals.
    fn number(&self, own: usize) -> u32 {
        // A graph has fewer than 2^32 vertices.
        (self.rows.start + own) as u32
    }
}

impl EdgeLists for Lists {
    fn others(&self, own: usize) -> &[u32] {
        self.adjacency().neighbours_of(self.number(own))
    }

    fn itself(&self, own: usize) -> Option<u32> {
        self.with_self.then(|| self.number(own))
    }

    fn own_vertex(&self, own: usize) -> u32 {
        self.user_vertex(self.lists.vertex(self.number(own), !self.lists.relation.reversed))
    }

    fn vertex(&self, row: u32) -> u32 {
        self.user_vertex(self.lists.vertex(row, self.lists.relation.reversed))
    }

    fn features(&self) -> usize {
        self.known().filter(|_| self.told).map_or(0, KnownEdges::columns)
    }

    fn features_of(&self, own: usize, place: usize, into: &mut [f32]) {
        if let Some(known) = self.known() {
            into.copy_from_slice(known.row(
                self.adjacency(),
                self.number(own),
                place,
                self.lists.relation.reversed,
            ));
        }
    }
}

#[derive(Debug)]
struct Edges {
    draw: u32,
    along: Along,
    /// Number of values in a row of the edge's target vertex.
    target: u32,
}

/// Opens the operator of an edge kernel. `along` describes the edges that the kernel follows.
pub(super) fn open(operation: &Operation, along: Along) -> Box<dyn Operator> {
    let target = operation.inputs.get(1).map_or(0, |extents| extents.iter().product());
    Box::new(Edges { draw: operation.draw, along, target })
}

impl Edges {
    /// Returns the operands for the rows of the step's own interval, which are at one end of each
    /// edge. If these rows are graphs, they are passed as zeros, because the readout kernel
    /// `maximum` does not read them.
    fn own(&self, on: &On<'_>, kind: EdgeKind, call: &mut Building) -> Result<Vec<Operand>> {
        let mut own = Vec::new();
        if self.along.over == Over::Graphs && kind != EdgeKind::Sources {
            let rows = on.rows()?.len();
            let zeros = Buffer::zeroed(rows, self.target as usize).and_then(|zeros| zeros.read(0..rows));
            own.push(call.give(zeros.map_err(at("rows of graphs"))?.into())?);
        }
        for slot in on.stage.own() {
            own.push(call.operand(on, slot)?);
        }
        Ok(own)
    }
}

impl Operator for Edges {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        Building::alone(self, on)
    }

    fn inside(&self, on: &On<'_>, call: &mut Building) -> Result<()> {
        let interval = on.interval()?;
        let kind = match on.stage.phase {
            Phase::BackwardTargets => EdgeKind::Targets,
            Phase::BackwardSources => EdgeKind::Sources,
            _ => EdgeKind::Forward,
        };
        let other = on.all()?.into_iter().map(|(rows, lease)| match lease {
            Lease::F32(lease) => Ok((rows, lease)),
            Lease::Bf16(_) => Err(Error::Internal(format!("{} reads rows that are not f32", on.step()))),
        });
        let step = EdgeCall {
            kind,
            seed: on.stages.seed,
            epoch: on.round(),
            layer: self.draw,
            training: on.stages.training,
            grid: interval.grid.clone(),
            lists: Arc::new(Lists {
                lists: on.lists()?,
                told: self.along.features,
                with_self: self.along.with_self,
                vertices: on.vertices(),
                rows: interval.rows.clone(),
            }),
            other: other.collect::<Result<OtherRows>>()?,
            own: self.own(on, kind, call)?,
            parameters: call.parameters(on)?,
            rows_out: call.writes(on)?,
            sums_out: on.sums()?,
        };
        call.step(on, CallStep::Edges(on.stages.layer(on.stage.operation)?.clone(), Box::new(step)));
        Ok(())
    }
}
