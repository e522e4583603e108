//! Decoder of requests, which creates a call with its output buffers.

use std::sync::Arc;

use eciton_gather::adjacency::{Adjacency, Graph, Repeats};
use eciton_tensor::frame::Decoded;
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_types::Normalisation;

use super::output_buffers::Sums;
use super::request::{REQUEST, bounded};
use super::steps::{CallRef, GatherRef, ListsRef, OutRef, SlotRef, StepRef, refuse, small};
use super::tensors::Tensors;
use super::{MAX_MATRICES, MatrixRef, OutputBuffers, Request, Source, at, width, wire};
use crate::call::{
    Call, CallStep, GatherLists, GatherStep, Given, Local, Operand, Target, VertexCall, Write,
};
use crate::error::Result;
use crate::runtime::Layer;

impl Request {
    /// Decodes a request, and returns the call with its output buffers. `layers` are the opened
    /// layers of its [calls](Request::calls), in order. `resolve` loads the tensor at a location
    /// and is called once per tensor. Rows of a matrix may still be arriving when it returns.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if the request is inconsistent, does not match
    /// its tensors, or would write more than its limit `matrix_bytes`. Also returns errors of
    /// `resolve`.
    pub fn into_call(
        self,
        layers: &[Arc<Layer>],
        resolve: &mut dyn FnMut(&Source) -> Result<Decoded>,
    ) -> Result<(Call, OutputBuffers)> {
        self.check()?;
        let (objects, limit) = (self.objects.len(), self.limits.matrix_bytes);
        let mut reading =
            Reading { tensors: Tensors::new(resolve), objects, limit, slots: &self.slots, given: Vec::new() };
        let lists = self.lists.iter().map(|lists| reading.lists(lists)).collect::<Result<Vec<_>>>()?;
        let mut layers = layers.iter();
        let (mut steps, mut sums) = (Vec::with_capacity(self.steps.len()), Vec::new());
        for step in self.steps {
            steps.push(match step {
                StepRef::Gather(gather) => CallStep::Gather(gather_step(&gather, &lists, &self.slots)?),
                StepRef::Kernel(call) => {
                    let Some(layer) = layers.next() else { return refuse("steps", "a layer is not open") };
                    reading.kernel(*call, layer, &mut sums)?
                }
            });
        }
        let slots = self.slots.iter().map(|slot| reading.slot(slot)).collect::<Result<Vec<_>>>()?;
        let mut outs = Vec::with_capacity(self.outs.len() + self.keeps.len());
        // The size is checked here. Memory is allocated only after all other checks have passed.
        let mut place = |OutRef { slot, rows, extents }: OutRef| -> Result<Buffer> {
            let buffer = buffer(rows as usize, &extents)?;
            let rows = buffer.write(0..buffer.rows()).map_err(at("output buffers"))?;
            outs.push((slot, Target::Rows { rows, extents }));
            Ok(buffer)
        };
        let rows = self.outs.into_iter().map(&mut place).collect::<Result<_>>()?;
        let mut kept = Vec::with_capacity(self.keeps.len());
        for keep in self.keeps {
            kept.push((keep.key, keep.to, place(keep.rows)?));
        }
        let call = Call { given: reading.given, slots, steps, outs, ..Call::default() };
        let held = self.holds.into_iter().map(|hold| (hold.sum as usize, hold.of)).collect();
        Ok((call, OutputBuffers { rows, sums, kept, freed: self.frees, held, digests: self.digests }))
    }
}

fn buffer(rows: usize, extents: &[u32]) -> Result<Buffer> {
    Buffer::zeroed(rows, width(extents).unwrap_or(0) as usize).map_err(at("output buffers"))
}

fn gather_step(gather: &GatherRef, lists: &[Arc<GatherLists>], slots: &[SlotRef]) -> Result<GatherStep> {
    let GatherRef { reversed, from, into, rows, .. } = *gather;
    let normalisation = Normalisation::named(&gather.normalisation);
    let followed = lists.get(gather.lists as usize);
    let Some((normalisation, lists)) = normalisation.zip(followed) else {
        return refuse("a gather", "its lists or its normalisation do not exist");
    };
    let vertices = lists.graph.vertices();
    let there = slots.get(from as usize).map_or(0, |slot| slot.rows);
    if rows > vertices || vertices > there {
        let reason = format!(
            "it writes {rows} rows by lists of {vertices} vertices from a slot of {there} rows, but each of these numbers must be at most the next one"
        );
        return refuse("a gather", reason);
    }
    let needs = match (normalisation, reversed) {
        (Normalisation::Symmetric, _) | (Normalisation::Mean, true) => lists.factors.is_some(),
        _ => true,
    };
    if !needs {
        return refuse("a gather", "its normalisation requires factors of vertices");
    }
    Ok(GatherStep { normalisation, reversed, lists: lists.clone(), from, into, rows: rows as usize })
}

/// State of the decoder while it reads the steps of a request.
pub(super) struct Reading<'a> {
    pub(super) tensors: Tensors<'a>,
    /// Object number of slot 0. The slots are numbered after the objects of the request.
    objects: usize,
    pub(super) limit: u64,
    slots: &'a [SlotRef],
    given: Vec<Given>,
}

impl Reading<'_> {
    fn give(&mut self, matrix: Matrix) -> Result<Operand> {
        self.given.push(Given::Here(matrix));
        small(self.given.len() - 1).map(Operand::Given)
    }

    /// Returns the operands of a step. A matrix from outside the call must have exactly `rows`
    /// rows.
    pub(super) fn operands(&mut self, what: &str, refs: &[MatrixRef], rows: usize) -> Result<Vec<Operand>> {
        bounded(what, refs.len(), MAX_MATRICES)?;
        let mut read = |(at, wanted): (usize, &MatrixRef)| {
            let local = wanted.source.object.and_then(|object| (object as usize).checked_sub(self.objects));
            let Some(slot) = local else {
                let matrix = self.tensors.matrix(&format!("{what} {at}"), wanted, Some(rows), self.limit)?;
                return self.give(matrix);
            };
            match self.slots.get(slot) {
                Some(spec) if rows <= spec.rows as usize && width(&wanted.extents) == Some(spec.columns) => {
                    Ok(Operand::Local { slot: small(slot)?, rows, extents: wanted.extents.clone() })
                }
                found => refuse(
                    what,
                    format!(
                        "{rows} rows with the extents {:?} do not fit slot {slot}: {found:?}",
                        wanted.extents
                    ),
                ),
            }
        };
        refs.iter().enumerate().map(&mut read).collect()
    }

    pub(super) fn parameters(&mut self, refs: &[MatrixRef]) -> Result<Vec<Operand>> {
        let parameters = self.tensors.matrices("parameter", refs, None, self.limit)?;
        parameters.into_iter().map(|matrix| self.give(matrix)).collect()
    }

    fn kernel(&mut self, call: CallRef, layer: &Arc<Layer>, sums: &mut Vec<Sums>) -> Result<CallStep> {
        let grid = Arc::new(call.grid()?);
        let rows_out = call.rows_out.iter().map(|write| {
            write.as_ref().map(|write| Write { slot: write.slot, extents: write.extents.clone() })
        });
        let rows_out = rows_out.collect();
        if let Some(edges) = &call.edges {
            let mut step = self.edge_call(&call, edges, grid)?;
            (step.rows_out, step.sums_out) = (rows_out, places_of_sums(&call, sums)?);
            return Ok(CallStep::Edges(layer.clone(), Box::new(step)));
        }
        let mut step = self.vertex_call(&call, grid)?;
        (step.rows_out, step.sums_out) = (rows_out, places_of_sums(&call, sums)?);
        Ok(CallStep::Vertex(layer.clone(), Box::new(step)))
    }

    /// Decodes a call of a vertex kernel. The destinations of its rows and sums are left empty.
    fn vertex_call(&mut self, call: &CallRef, grid: Arc<Grid>) -> Result<VertexCall<Operand, Write>> {
        let (rows, limit) = (grid.rows(), self.limit);
        let inputs = self.operands("input", &call.inputs, rows)?;
        let outputs = self.operands("output", &call.outputs, rows)?;
        let kept = self.operands("kept", &call.kept, rows)?;
        let gradients = self.operands("gradient", &call.gradients, rows)?;
        let parameters = self.parameters(&call.parameters)?;
        let row_numbers = self.tensors.numbers(call.row_numbers, rows)?;
        let labelled = call.labelled.as_ref();
        let labelled = labelled.map(|known| self.tensors.labelled(known, rows, limit)).transpose()?;
        Ok(VertexCall {
            kind: call.kind,
            seed: call.seed,
            epoch: call.epoch,
            layer: call.layer,
            training: call.training,
            grid,
            row_numbers,
            inputs,
            outputs,
            kept,
            parameters,
            gradients,
            output_count: call.output_count as usize,
            rows_out: Vec::new(),
            sums_out: Vec::new(),
            labelled,
        })
    }

    fn slot(&mut self, slot: &SlotRef) -> Result<Local> {
        let (rows, columns) = (slot.rows as usize, slot.columns as usize);
        let from = slot.from.as_ref();
        let from =
            from.map(|from| self.tensors.matrix("a slot", from, Some(rows), self.limit)).transpose()?;
        if from.as_ref().is_some_and(|from| from.columns() != columns) {
            return refuse("a slot", "its first values have another number of columns");
        }
        Ok(Local { rows, columns, half: slot.half, from })
    }

    fn lists(&mut self, wanted: &ListsRef) -> Result<Arc<GatherLists>> {
        let offsets: Vec<u64> =
            self.tensors.ids("lists", wanted.offsets)?.iter().map(|&offset| offset.into()).collect();
        let neighbours = self.tensors.ids("lists", wanted.neighbours)?.to_vec();
        let edges = neighbours.len();
        let graph = Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed)
            .and_then(|adjacency| Graph::from_parts(adjacency, None))
            .map_err(|error| wire(format!("{REQUEST}, lists"), error.to_string()))?;
        let mut column = |source: Option<Source>, count: usize| {
            let Some(source) = source else { return Ok(None) };
            let bits = self.tensors.ids("lists", source)?;
            if bits.len() != count {
                return refuse("lists", format!("it has {} factors, but {count} are required", bits.len()));
            }
            Ok(Some(Arc::new(bits.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<f32>>())))
        };
        let factors = column(wanted.factors, graph.vertices() as usize)?;
        let weights = column(wanted.weights, edges)?;
        Ok(Arc::new(GatherLists { graph: Arc::new(graph), outgoing: false, factors, weights }))
    }
}

/// Allocates the buffers of a call's sums, appends them to `sums`, and returns the targets that
/// write to them.
fn places_of_sums(call: &CallRef, sums: &mut Vec<Sums>) -> Result<Vec<Target>> {
    let mut targets = Vec::with_capacity(call.sums_out.len());
    for shape in &call.sums_out {
        let (&first, rest) = shape.split_first().ok_or_else(|| wire("sums", "a shape has no extents"))?;
        let parts = call.grid.iter().map(|_| buffer(first as usize, rest)).collect::<Result<Sums>>()?;
        targets.push(Target::Sums { parts: parts.clone(), shape: shape.clone() });
        sums.push(parts);
    }
    Ok(targets)
}
