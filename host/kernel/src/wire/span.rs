//! A span's part of a request: several calls, with slots between them that stay where they run.
//!
//! Each call is a request of its own, without objects. Sources of rows that are local name an object
//! past those of the whole request: slot `i` is the object of number `objects + i`.

use std::collections::HashMap;
use std::sync::Arc;

use eciton_graph::adjacency::{Adjacency, Graph, Repeats};
use eciton_plan::Normalisation;
use eciton_tensor::frame::{Decoded, Encoding, Writer, padded_bytes};
use eciton_tensor::{Buffer, Matrix};
use serde::{Deserialize, Serialize};

use super::call::Tensors;
use super::encode::{CALL, Parts, Task, extents_out, ids, labelled, numbers, refer};
use super::places::Sums;
use super::request::{REQUEST, bounded, check_extents, check_source};
use super::{
    GridPart, MAX_MATRICES, MatrixRef, Numbers, Places, Request, Source, VERSION, WireLimits, at, width, wire,
};
use crate::call::{AnyCall, Call, Kind, RowNumbers, Target};
use crate::error::Result;
use crate::runtime::Layer;
use crate::span::{GatherStep, KernelStep, Local, Operand, SpanCall, SpanLists, SpanStep};

/// Steps, or slots, or lists of a span.
const MAX_STEPS: usize = 512;

/// Several calls as one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanRef {
    /// Rows that steps leave for later ones.
    pub slots: Vec<SlotRef>,
    /// What gathers follow.
    pub lists: Vec<ListsRef>,
    /// What is done, in order.
    pub steps: Vec<StepRef>,
    /// Rows of the answer.
    pub outs: Vec<OutRef>,
}

/// Rows that stay where a span runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRef {
    /// Rows.
    pub rows: u32,
    /// Values a row.
    pub columns: u32,
    /// Whether they are rounded to bfloat16.
    pub half: bool,
    /// The first values; none: zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MatrixRef>,
}

/// What gathers follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListsRef {
    /// Ids: where each list begins, and the end of the last.
    pub offsets: Source,
    /// Ids: the lists, one after the other.
    pub neighbours: Source,
    /// One column: a factor of each vertex.
    pub factors: Option<Source>,
    /// One column: a weight of each edge.
    pub weights: Option<Source>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRef {
    /// A call of a vertex kernel.
    Kernel(Box<Request>, Vec<Option<u32>>),
    /// A gather.
    Gather(GatherRef),
}

/// A gather from one slot to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatherRef {
    /// `symmetric`, `mean` or `sum`.
    pub normalisation: String,
    /// Whether it is a gather's gradient.
    pub reversed: bool,
    /// Which lists.
    pub lists: u32,
    /// The slot that it reads.
    pub from: u32,
    /// The slot that it writes.
    pub into: u32,
    /// Rows to write.
    pub rows: u32,
}

/// Rows of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutRef {
    /// The slot that they are of.
    pub slot: u32,
    /// How many, from the first one on.
    pub rows: u32,
    /// Extents of one row.
    pub extents: Vec<u32>,
}

fn refuse<T>(what: &str, reason: impl Into<String>) -> Result<T> {
    Err(wire(format!("{REQUEST}, span, {what}"), reason))
}

fn small(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| wire(CALL, format!("{value} rows; below 2^32 are allowed")))
}

/// Writes a span's matrices, each once; the request of all its calls.
pub(super) fn request(
    writer: &mut Writer<'_>,
    task: &Task<'_>,
    span: &SpanCall,
    encoding: Encoding,
    objects: Vec<String>,
) -> Result<Request> {
    let first = span.kernels().next().ok_or_else(|| wire(CALL, "a span without a kernel"))?;
    let locals = objects.len();
    let mut used = vec![false; span.given.len()];
    for kernel in span.kernels() {
        kernel.parameters.iter().for_each(|&at| mark(&mut used, at));
        for operand in kernel.operands() {
            if let Operand::Given(at) = operand {
                mark(&mut used, *at);
            }
        }
    }
    let parameters: Vec<u32> = span.kernels().flat_map(|kernel| kernel.parameters.iter().copied()).collect();
    let mut given = Vec::with_capacity(span.given.len());
    for ((matrix, used), at) in span.given.iter().zip(used).zip(0..) {
        // Parameters are exact whatever rows are written as.
        let encoding = if parameters.contains(&at) { Encoding::F32 } else { encoding };
        given.push(if used { Some(refer(writer, matrix, encoding, None)?) } else { None });
    }
    let mut slots = Vec::with_capacity(span.slots.len());
    for slot in &span.slots {
        let from = slot.from.as_ref().map(|from| refer(writer, from, encoding, None)).transpose()?;
        slots.push(SlotRef { rows: small(slot.rows)?, columns: small(slot.columns)?, half: slot.half, from });
    }
    let mut writing =
        Writing { writer, given, locals, lists: Vec::new(), known: Vec::new(), rows: HashMap::new() };
    let mut steps = Vec::with_capacity(span.steps.len());
    for step in &span.steps {
        steps.push(match step {
            SpanStep::Gather(gather) => StepRef::Gather(writing.gather(gather)?),
            SpanStep::Kernel(kernel) => {
                let slots = kernel.writes.iter().map(|write| write.as_ref().map(|(slot, _)| *slot)).collect();
                StepRef::Kernel(Box::new(writing.kernel(task, kernel)?), slots)
            }
        });
    }
    let lists = writing.lists;
    let mut outs = Vec::with_capacity(span.outs.len());
    for (slot, target) in &span.outs {
        let rows = match target {
            Target::Rows { rows, .. } => rows.view().rows(),
            Target::Half { rows, .. } => rows.len(),
            Target::Sums { .. } => return Err(wire(CALL, "sums where rows are written")),
        };
        outs.push(OutRef { slot: *slot, rows: small(rows)?, extents: extents_out(target)? });
    }
    let half = !outs.is_empty() && span.outs.iter().all(|(_, target)| matches!(target, Target::Half { .. }));
    Ok(Request {
        version: VERSION,
        run: task.run.to_owned(),
        key: task.key,
        kernel: super::KernelRef::new(first.layer.kernel()),
        inputs_extents: Vec::new(),
        attributes: Vec::new(),
        kind: Kind::Forward,
        seed: first.call.seed,
        epoch: first.call.epoch,
        layer: first.call.layer,
        training: first.call.training,
        grid: vec![GridPart { level: 0, ends: vec![0], closes: vec![0] }],
        row_numbers: Numbers::From(0),
        inputs: Vec::new(),
        outputs: Vec::new(),
        kept: Vec::new(),
        parameters: Vec::new(),
        gradients: Vec::new(),
        output_count: 0,
        rows_out: Vec::new(),
        sums_out: Vec::new(),
        labelled: None,
        edges: None,
        span: Some(Box::new(SpanRef { slots, lists, steps, outs })),
        objects,
        limits: WireLimits::from(task.limits),
        encoding: if half { Encoding::Bf16 } else { encoding },
    })
}

fn mark(used: &mut [bool], at: u32) {
    if let Some(used) = used.get_mut(at as usize) {
        *used = true;
    }
}

/// A span being written.
struct Writing<'w, 'd> {
    writer: &'w mut Writer<'d>,
    given: Vec<Option<MatrixRef>>,
    /// The number of the first slot among objects.
    locals: usize,
    lists: Vec<ListsRef>,
    /// The lists that were written.
    known: Vec<Arc<SpanLists>>,
    /// Lists of row numbers that were written, by where they lie.
    rows: HashMap<*const u64, Numbers>,
}

impl Writing<'_, '_> {
    fn operand(&self, operand: &Operand) -> Result<MatrixRef> {
        match operand {
            Operand::Given(at) => self.given(*at),
            Operand::Local { slot, extents, .. } => {
                let object = small(self.locals + *slot as usize)?;
                let source = Source { object: Some(object), part: 0 };
                Ok(MatrixRef { source, extents: extents.clone(), encoding: None })
            }
        }
    }

    fn given(&self, at: u32) -> Result<MatrixRef> {
        let known = self.given.get(at as usize).cloned().flatten();
        known.ok_or_else(|| wire(CALL, format!("matrix {at} is not there")))
    }

    fn all(&self, operands: &[Operand]) -> Result<Vec<MatrixRef>> {
        operands.iter().map(|operand| self.operand(operand)).collect()
    }

    fn numbers(&mut self, of: &RowNumbers) -> Result<Numbers> {
        let RowNumbers::List(list) = of else { return numbers(self.writer, of) };
        if let Some(known) = self.rows.get(&list.as_ptr()) {
            return Ok(*known);
        }
        let written = numbers(self.writer, of)?;
        self.rows.insert(list.as_ptr(), written);
        Ok(written)
    }

    fn kernel(&mut self, task: &Task<'_>, step: &KernelStep) -> Result<Request> {
        let call = &step.call;
        let row_numbers = self.numbers(&call.row_numbers)?;
        let known = call.labelled.as_ref().map(|known| labelled(self.writer, known)).transpose()?;
        let parts = Parts {
            kind: call.kind,
            row_numbers,
            inputs: self.all(&step.inputs)?,
            outputs: self.all(&step.outputs)?,
            kept: self.all(&step.kept)?,
            parameters: step.parameters.iter().map(|&at| self.given(at)).collect::<Result<_>>()?,
            gradients: self.all(&step.gradients)?,
            output_count: call.output_count,
            labelled: known,
            edges: None,
            answered: Encoding::F32,
        };
        let mut request = super::encode::request(task, &step.layer, &call.common(), parts, Vec::new())?;
        request.rows_out =
            step.writes.iter().map(|write| write.as_ref().map(|(_, extents)| extents.clone())).collect();
        Ok(request)
    }

    fn gather(&mut self, step: &GatherStep) -> Result<GatherRef> {
        let known = self.known.iter().position(|known| known.is_same(&step.lists));
        let lists = match known {
            Some(known) => known,
            None => {
                let lists = self.write(&step.lists)?;
                self.known.push(step.lists.clone());
                self.lists.push(lists);
                self.lists.len() - 1
            }
        };
        Ok(GatherRef {
            normalisation: step.normalisation.name().to_owned(),
            reversed: step.reversed,
            lists: small(lists)?,
            from: step.from,
            into: step.into,
            rows: small(step.rows)?,
        })
    }

    fn write(&mut self, lists: &SpanLists) -> Result<ListsRef> {
        let adjacency = lists.adjacency();
        let offsets =
            adjacency.offsets().iter().map(|&offset| small(usize::try_from(offset).unwrap_or(usize::MAX)));
        let offsets = ids(self.writer, offsets.collect::<Result<_>>()?)?;
        let neighbours = ids(self.writer, adjacency.neighbours().to_vec())?;
        let mut column = |values: &Option<Arc<Vec<f32>>>| -> Result<Option<Source>> {
            // Bits, as lists are written: they are no rows of a kernel.
            let Some(values) = values else { return Ok(None) };
            Ok(Some(ids(self.writer, values.iter().map(|value| value.to_bits()).collect())?))
        };
        Ok(ListsRef {
            offsets,
            neighbours,
            factors: column(&lists.factors)?,
            weights: column(&lists.weights)?,
        })
    }
}

impl SpanLists {
    fn is_same(&self, other: &Self) -> bool {
        let alike = |a: &Option<Arc<Vec<f32>>>, b: &Option<Arc<Vec<f32>>>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        Arc::ptr_eq(&self.graph, &other.graph)
            && self.outgoing == other.outgoing
            && alike(&self.factors, &other.factors)
            && alike(&self.weights, &other.weights)
    }
}

impl SpanRef {
    /// Its calls of kernels, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Request> {
        self.steps.iter().filter_map(|step| match step {
            StepRef::Kernel(request, _) => Some(&**request),
            StepRef::Gather(_) => None,
        })
    }

    /// Checks everything that needs no bytes of a matrix.
    pub(super) fn check(&self, whole: &Request) -> Result<()> {
        for (what, count) in [
            ("steps", self.steps.len()),
            ("slots", self.slots.len()),
            ("lists", self.lists.len()),
            ("rows_out", self.outs.len()),
        ] {
            bounded(what, count, MAX_STEPS)?;
        }
        let objects = whole.objects.len();
        if self.calls().next().is_none() || whole.edges.is_some() {
            return refuse("steps", "at least one call of a vertex kernel is needed, and none on edges");
        }
        let mut bytes = Some(0u64);
        let mut add = |rows: u64, columns: u64| {
            bytes = bytes.zip(padded_bytes(rows, columns)).and_then(|(sum, one)| sum.checked_add(one));
        };
        for slot in &self.slots {
            add(slot.rows.into(), slot.columns.into());
            if let Some(from) = &slot.from {
                check_source(objects, "slots", from.source)?;
            }
        }
        for out in &self.outs {
            let columns = check_extents("rows_out", &out.extents)?;
            add(out.rows.into(), columns.into());
            self.fits("rows_out", out.slot, out.rows, Some(columns))?;
        }
        for lists in &self.lists {
            let columns = [lists.factors, lists.weights].into_iter().flatten();
            for source in columns.chain([lists.offsets, lists.neighbours]) {
                check_source(objects, "lists", source)?;
            }
        }
        for step in &self.steps {
            match step {
                StepRef::Gather(gather) => {
                    if Normalisation::named(&gather.normalisation).is_none() {
                        return refuse("a gather", format!("normalisation `{}`", gather.normalisation));
                    }
                    if gather.lists as usize >= self.lists.len() || gather.from == gather.into {
                        return refuse("a gather", "its lists are not there, or it writes what it reads");
                    }
                    let into = self.slots.get(gather.into as usize).map(|slot| slot.columns);
                    self.fits("a gather", gather.into, gather.rows, None)?;
                    self.fits("a gather", gather.from, 0, into)?;
                }
                StepRef::Kernel(call, writes) => {
                    call.check_among(objects + self.slots.len())?;
                    if call.span.is_some() || call.edges.is_some() || !call.objects.is_empty() {
                        return refuse("a call", "spans, edges or objects of its own");
                    }
                    for shape in &call.sums_out {
                        let (rows, rest) = shape.split_first().unwrap_or((&0, &[]));
                        add(call.grid.len() as u64 * u64::from(*rows), u64::from(width(rest).unwrap_or(0)));
                    }
                    if writes.len() != call.rows_out.len() {
                        return refuse("a call", "another number of slots than of rows to write");
                    }
                    let rows = u32::try_from(call.rows()).unwrap_or(u32::MAX);
                    for (slot, extents) in writes.iter().zip(&call.rows_out) {
                        match (slot, extents) {
                            (None, None) => {}
                            (Some(slot), Some(extents)) => {
                                self.fits("a call", *slot, rows, width(extents))?
                            }
                            _ => return refuse("a call", "rows without a slot, or a slot without rows"),
                        }
                    }
                }
            }
        }
        let allowed = whole.limits.matrix_bytes;
        match bytes {
            Some(asked) if asked <= allowed => Ok(()),
            asked => {
                let asked = asked.map_or("more than 2^64".to_owned(), |b| b.to_string());
                refuse("slots", format!("limit matrix-bytes: {asked} bytes to write, {allowed} allowed"))
            }
        }
    }

    /// Whether a slot has so many rows, of so many values.
    fn fits(&self, what: &str, slot: u32, rows: u32, columns: Option<u32>) -> Result<()> {
        match self.slots.get(slot as usize) {
            Some(spec) if rows <= spec.rows && columns.is_none_or(|columns| columns == spec.columns) => {
                Ok(())
            }
            found => refuse(what, format!("{rows} rows of {columns:?} values in slot {slot}: {found:?}")),
        }
    }
}

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
        let SpanRef { slots, lists, steps, outs } = *span;
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
        for out in outs {
            let columns = width(&out.extents).unwrap_or(0) as usize;
            let buffer = Buffer::zeroed(out.rows as usize, columns).map_err(at("places to write"))?;
            let lease = buffer.write(0..buffer.rows()).map_err(at("places to write"))?;
            targets.push((out.slot, Target::Rows { rows: lease, extents: out.extents.clone() }));
            rows.push(Some((buffer, out.extents)));
        }
        let span = SpanCall { given: reading.given, slots, steps: made, outs: targets };
        Ok((span.into(), Places { rows, sums }))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    /// A forward of one matrix from slot 0 to slot 1, and a gather from there to slot 2, which leaves.
    fn request() -> Value {
        let limits = json!({
            "guest_memory_bytes": 1 << 20, "task_time_ms": 1000, "matrix_bytes": 1 << 16, "handles": 9,
            "call_bytes": 1 << 20, "call_work": 1 << 20, "arrival_ms": 1000, "log_bytes": 99
        });
        let one = |span: Value, rows: u32, inputs: Value, outs: Value| {
            let mut made = json!({
                "version": VERSION, "run": "r",
                "key": { "round": 1, "stage": 0, "interval": 0, "attempt": 0 },
                "kernel": { "name": "k", "digest": "0".repeat(64) }, "inputs_extents": [[4]],
                "attributes": [], "kind": "forward", "seed": 0, "epoch": 0, "layer": 0, "training": false,
                "grid": [{ "level": 0, "ends": [rows], "closes": [0] }], "row_numbers": { "from": 0 },
                "inputs": inputs, "outputs": [], "kept": [], "parameters": [], "gradients": [],
                "output_count": 1, "rows_out": outs, "sums_out": [], "labelled": null, "objects": [],
                "limits": limits, "encoding": "f32"
            });
            if !span.is_null() {
                made["span"] = span;
                made["output_count"] = json!(0);
            }
            made
        };
        let input = json!([{ "source": { "object": 0, "part": 0 }, "extents": [4], "encoding": null }]);
        let call = one(Value::Null, 5, input, json!([[4]]));
        let slot = json!({ "rows": 5, "columns": 4, "half": false });
        let lists = json!({
            "offsets": { "object": null, "part": 0 }, "neighbours": { "object": null, "part": 1 },
            "factors": null, "weights": null
        });
        let gather =
            json!({ "normalisation": "sum", "reversed": false, "lists": 0, "from": 1, "into": 2, "rows": 5 });
        let span = json!({
            "slots": [slot, slot, slot], "lists": [lists], "outs": [{ "slot": 2, "rows": 5, "extents": [4] }],
            "steps": [{ "kernel": [call, [1]] }, { "gather": gather }]
        });
        one(span, 0, json!([]), json!([]))
    }

    fn checked(request: &Value) -> std::result::Result<Request, String> {
        Request::parse(&serde_json::to_vec(request).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_span_that_contradicts_itself_is_refused() {
        let whole = checked(&request()).unwrap();
        assert_eq!(whole.calls().count(), 1);
        for (place, value, words) in [
            ("/span/steps/0/kernel/1/0", json!(3), "slot 3"),
            ("/span/steps/0/kernel/1/0", json!(null), "without a slot"),
            ("/span/steps/0/kernel/0/inputs/0/source/object", json!(3), "object 3"),
            ("/span/steps/0/kernel/0/grid/0/ends/0", json!(6), "6 rows"),
            ("/span/steps/0/kernel/0/objects", json!(["runs/r/weights/1"]), "objects of its own"),
            ("/span/steps/0/kernel/0/span", request()["span"].clone(), "of its own"),
            ("/span/steps/1/gather/lists", json!(1), "lists are not there"),
            ("/span/steps/1/gather/into", json!(1), "writes what it reads"),
            ("/span/steps/1/gather/rows", json!(6), "6 rows"),
            ("/span/steps/1/gather/normalisation", json!("median"), "median"),
            ("/span/slots/2/columns", json!(5), "slot 2"),
            ("/span/slots/0/rows", json!(1 << 20), "matrix-bytes"),
            ("/span/outs/0/rows", json!(6), "6 rows"),
            ("/span/lists/0/offsets/object", json!(0), "object 0"),
            ("/span/steps", json!([]), "at least one call"),
        ] {
            let mut wrong = request();
            match wrong.pointer_mut(place) {
                Some(found) => *found = value,
                // The call has no span of its own.
                None => wrong["span"]["steps"][0]["kernel"][0]["span"] = value,
            }
            let error = checked(&wrong).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
    }
}
