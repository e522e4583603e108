//! A request as a span: checked, with its lists and slots.

use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph, Repeats};
use eciton_plan::Normalisation;
use eciton_tensor::frame::Decoded;
use eciton_tensor::{Buffer, Matrix};

use super::super::call::Tensors;
use super::super::places::Sums;
use super::super::request::{REQUEST, bounded};
use super::super::{MAX_MATRICES, MatrixRef, Places, Request, Source, at, width, wire};
use super::{GatherRef, ListsRef, SlotRef, SpanRef, StepRef, refuse, small};
use crate::call::{AnyCall, Call, Target};
use crate::error::Result;
use crate::runtime::Layer;
use crate::span::{GatherStep, Given, KernelStep, Local, Operand, SpanCall, SpanLists, SpanStep};

impl Request {
    /// As [`Request::into_call`], of a request that may be a span. `layers` are those of its
    /// [calls](Request::calls), in order, which each fits.
    ///
    /// # Errors
    /// As [`Request::into_call`].
    pub fn into_task(
        mut self,
        layers: &[Arc<Layer>],
        resolve: &mut dyn FnMut(&Source) -> Result<Decoded>,
    ) -> Result<(AnyCall, Places)> {
        if self.span.is_none() {
            return self.into_call(resolve);
        }
        self.check()?;
        let Some(span) = self.span.take() else { return refuse("steps", "there are none") };
        let (objects, limit) = (self.objects.len(), self.limits.matrix_bytes);
        let mut reading = Reading { tensors: Tensors::new(resolve), objects, limit, given: Vec::new() };
        let SpanRef { slots, lists, steps, outs, keeps, frees, holds } = *span;
        let lists = lists.iter().map(|lists| reading.lists(lists)).collect::<Result<Vec<_>>>()?;
        let mut layers = layers.iter();
        let (mut made, mut sums) = (Vec::with_capacity(steps.len()), Vec::new());
        for step in steps {
            made.push(match step {
                StepRef::Gather(gather) => SpanStep::Gather(gather_step(&gather, &lists, &slots)?),
                StepRef::Kernel(call, writes) => {
                    let Some(layer) = layers.next() else { return refuse("a call", "its layer is not open") };
                    SpanStep::Kernel(Box::new(reading.kernel(*call, layer, &writes, &slots, &mut sums)?))
                }
            });
        }
        let local = |slot: &SlotRef| {
            let rows = slot.rows as usize;
            let from = slot.from.as_ref();
            let from =
                from.map(|from| reading.tensors.matrix("a slot", from, Some(rows), limit)).transpose()?;
            if from.as_ref().is_some_and(|from| from.columns() != slot.columns as usize) {
                return refuse("a slot", "its first values have other columns");
            }
            Ok(Local { rows, columns: slot.columns as usize, half: slot.half, from })
        };
        let slots = slots.iter().map(local).collect::<Result<Vec<_>>>()?;
        let mut rows = Vec::with_capacity(outs.len());
        let mut targets = Vec::with_capacity(outs.len());
        let mut place = |slot: u32, rows: u32, extents: &[u32]| -> Result<Buffer> {
            let columns = width(extents).unwrap_or(0) as usize;
            let buffer = Buffer::zeroed(rows as usize, columns).map_err(at("places to write"))?;
            let lease = buffer.write(0..buffer.rows()).map_err(at("places to write"))?;
            targets.push((slot, Target::Rows { rows: lease, extents: extents.to_vec() }));
            Ok(buffer)
        };
        for out in outs {
            rows.push(Some((place(out.slot, out.rows, &out.extents)?, out.extents)));
        }
        let mut kept = Vec::with_capacity(keeps.len());
        for keep in keeps {
            kept.push((keep.key, keep.to, place(keep.slot, keep.rows, &keep.extents)?));
        }
        let given = reading.given.into_iter().map(Given::Here).collect();
        let span = SpanCall { given, slots, steps: made, outs: targets, ..SpanCall::default() };
        let held = holds.into_iter().map(|hold| (hold.sum as usize, hold.of)).collect();
        Ok((span.into(), Places { rows, sums, kept, freed: frees, held }))
    }
}

fn gather_step(gather: &GatherRef, lists: &[Arc<SpanLists>], slots: &[SlotRef]) -> Result<GatherStep> {
    let GatherRef { reversed, from, into, rows, .. } = *gather;
    let normalisation = Normalisation::named(&gather.normalisation);
    let followed = lists.get(gather.lists as usize);
    let Some((normalisation, lists)) = normalisation.zip(followed) else {
        return refuse("a gather", "its lists or normalisation are not there");
    };
    let vertices = lists.graph.vertices();
    let there = slots.get(from as usize).map_or(0, |slot| slot.rows);
    if rows > vertices || vertices > there {
        let reason = format!("{rows} rows by lists of {vertices} vertices, from a slot of {there} rows");
        return refuse("a gather", reason);
    }
    let needs = match (normalisation, reversed) {
        (Normalisation::Symmetric, _) | (Normalisation::Mean, true) => lists.factors.is_some(),
        _ => true,
    };
    if !needs {
        return refuse("a gather", "its normalisation needs factors of vertices");
    }
    Ok(GatherStep { normalisation, reversed, lists: lists.clone(), from, into, rows: rows as usize })
}

/// A span being read.
struct Reading<'a> {
    tensors: Tensors<'a>,
    /// The number of the first slot among objects.
    objects: usize,
    limit: u64,
    given: Vec<Matrix>,
}

impl Reading<'_> {
    fn give(&mut self, matrix: Matrix) -> Result<u32> {
        self.given.push(matrix);
        small(self.given.len() - 1)
    }

    fn operands(
        &mut self,
        what: &str,
        refs: &[MatrixRef],
        (rows, slots): (usize, &[SlotRef]),
    ) -> Result<Vec<Operand>> {
        let mut read = |wanted: &MatrixRef| {
            let local = wanted.source.object.and_then(|object| (object as usize).checked_sub(self.objects));
            let Some(slot) = local else {
                let matrix = self.tensors.matrix(what, wanted, Some(rows), self.limit)?;
                return self.give(matrix).map(Operand::Given);
            };
            match slots.get(slot) {
                Some(spec) if rows <= spec.rows as usize && width(&wanted.extents) == Some(spec.columns) => {
                    Ok(Operand::Local { slot: small(slot)?, rows, extents: wanted.extents.clone() })
                }
                found => {
                    refuse(what, format!("{rows} rows of {:?} in slot {slot}: {found:?}", wanted.extents))
                }
            }
        };
        bounded(what, refs.len(), MAX_MATRICES)?;
        refs.iter().map(&mut read).collect()
    }

    fn kernel(
        &mut self,
        request: Request,
        layer: &Arc<Layer>,
        writes: &[Option<u32>],
        slots: &[SlotRef],
        sums: &mut Vec<Sums>,
    ) -> Result<KernelStep> {
        request.fits(layer)?;
        let grid = request.grid()?;
        let rows = grid.rows();
        let of = (rows, slots);
        let inputs = self.operands("input", &request.inputs, of)?;
        let outputs = self.operands("output", &request.outputs, of)?;
        let kept = self.operands("kept", &request.kept, of)?;
        let gradients = self.operands("gradient", &request.gradients, of)?;
        let parameters = self.tensors.matrices("parameter", &request.parameters, None, self.limit)?;
        let parameters = parameters.into_iter().map(|matrix| self.give(matrix)).collect::<Result<_>>()?;
        let row_numbers = self.tensors.numbers(request.row_numbers, rows)?;
        let limit = self.limit;
        let labelled = request.labelled.as_ref();
        let labelled = labelled.map(|known| self.tensors.labelled(known, rows, limit)).transpose()?;
        let own = request.sums()?;
        let sums_out = own.iter().map(Sums::target).collect();
        sums.extend(own);
        let writes = writes.iter().zip(request.rows_out).map(|(slot, extents)| slot.zip(extents)).collect();
        let call = Call {
            kind: request.kind,
            seed: request.seed,
            epoch: request.epoch,
            layer: request.layer,
            training: request.training,
            grid: Arc::new(grid),
            row_numbers,
            inputs: Vec::new(),
            outputs: Vec::new(),
            kept: Vec::new(),
            parameters: Vec::new(),
            gradients: Vec::new(),
            output_count: request.output_count as usize,
            rows_out: Vec::new(),
            sums_out,
            labelled,
        };
        Ok(KernelStep { layer: layer.clone(), call, parameters, inputs, outputs, kept, gradients, writes })
    }

    fn lists(&mut self, wanted: &ListsRef) -> Result<Arc<SpanLists>> {
        let offsets: Vec<u64> =
            self.tensors.ids("lists", wanted.offsets)?.iter().map(|&offset| offset.into()).collect();
        let neighbours = self.tensors.ids("lists", wanted.neighbours)?.to_vec();
        let edges = neighbours.len();
        let graph = Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed)
            .and_then(|adjacency| Graph::from_parts(adjacency, None))
            .map_err(|error| wire(format!("{REQUEST}, span, lists"), error.to_string()))?;
        let mut column = |source: Option<Source>, count: usize| {
            let Some(source) = source else { return Ok(None) };
            let bits = self.tensors.ids("lists", source)?;
            if bits.len() != count {
                return refuse("lists", format!("{} factors where {count} are needed", bits.len()));
            }
            Ok(Some(Arc::new(bits.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<f32>>())))
        };
        let factors = column(wanted.factors, graph.vertices() as usize)?;
        let weights = column(wanted.weights, edges)?;
        Ok(Arc::new(SpanLists { graph: Arc::new(graph), outgoing: false, factors, weights }))
    }
}
