//! A span as a request: each matrix and list once.

use std::collections::HashMap;
use std::sync::Arc;

use eciton_tensor::frame::{Encoding, Writer};

use super::super::encode::{self, CALL, Parts, Task, extents_out, ids, labelled, numbers, refer};
use super::super::{
    GridPart, KernelRef, MatrixRef, Numbers, Object, Request, Source, VERSION, WireLimits, wire,
};
use super::{GatherRef, HoldRef, KeepRef, ListsRef, OutRef, SlotRef, SpanRef, StepRef, small};
use crate::call::{Kind, RowNumbers, Target};
use crate::error::Result;
use crate::span::{GatherStep, Given, KernelStep, Operand, SpanCall, SpanLists, SpanStep};

/// Writes a span's matrices, each once, but those that lie `elsewhere`: in one of the objects. The request
/// of all its calls.
pub(crate) fn request(
    writer: &mut Writer<'_>,
    task: &Task<'_>,
    span: &SpanCall,
    encoding: Encoding,
    mut objects: Vec<Object>,
    elsewhere: &[(usize, Source)],
) -> Result<Request> {
    let first = span.kernels().next().ok_or_else(|| wire(CALL, "a span without a kernel"))?;
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
        let source = elsewhere.iter().find(|(given, _)| *given == at as usize).map(|(_, source)| *source);
        given.push(match matrix {
            _ if !used => None,
            Given::Here(matrix) => Some(refer(writer, matrix, encoding, source)?),
            Given::Kept(kept) => {
                let source = Source { object: Some(small(objects.len())?), part: 0 };
                objects.push(kept.key.into());
                Some(MatrixRef { source, extents: kept.extents.clone(), encoding: Some(Encoding::F32) })
            }
        });
    }
    let locals = objects.len();
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
    let mut keeps = Vec::with_capacity(span.keeps.len());
    for (slot, kept) in &span.keeps {
        let (key, extents, to) = (kept.key, kept.extents.clone(), kept.to.clone());
        keeps.push(KeepRef { slot: *slot, rows: small(kept.rows)?, extents, key, to });
    }
    let frees = span.frees.clone();
    let holds = span.holds.iter().map(|&(sum, of)| HoldRef { sum, of }).collect();
    let half = !outs.is_empty() && span.outs.iter().all(|(_, target)| matches!(target, Target::Half { .. }));
    Ok(Request {
        version: VERSION,
        run: task.run.to_owned(),
        key: task.key,
        kernel: KernelRef::new(first.layer.kernel()),
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
        span: Some(Box::new(SpanRef { slots, lists, steps, outs, keeps, frees, holds })),
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
        let mut request = encode::request(task, &step.layer, &call.common(), parts, Vec::new())?;
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
