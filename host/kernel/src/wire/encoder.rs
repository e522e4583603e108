//! Encoder of requests, which writes a call as a frame and shared matrices as separate frames.

use std::collections::HashMap;
use std::sync::Arc;

use eciton_tensor::Matrix;
use eciton_tensor::frame::{Encoding, Packed, Writer};
use eciton_types::TaskKey;
use eciton_types::signature::{Attribute, Value};

use super::edges;
use super::request::grid_parts;
use super::steps::{
    CallRef, GatherRef, HoldRef, KeepRef, ListsRef, OutRef, SlotRef, StepRef, WriteRef, small,
};
use super::{
    KernelRef, LabelledRef, MatrixRef, Numbers, Object, Request, STREAM_BYTES, Source, TargetsRef, VERSION,
    WireLimits, at, wire,
};
use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::call::{
    Call, CallStep, EdgeCall, EdgeKind, GatherLists, GatherStep, Given, Kind, Labelled, Operand, Target,
    Targets, VertexCall, Write,
};
use crate::error::Result;
use crate::limits::Limits;
use crate::runtime::Layer;
use crate::state::RowNumbers;

pub(super) const CALL: &str = "call";

/// Placeholder for the location of the matrix that is written at the end of the frame.
const LATER: Source = Source { object: None, part: u32::MAX };

/// Returns the encoding in which a matrix is sent. Sparse rows have few values and stay f32. Rows
/// that are stored as bfloat16 are sent as bfloat16, which is exact.
fn written(matrix: &Matrix, encoding: Encoding) -> Encoding {
    match matrix {
        Matrix::Dense(_) if matrix.is_half() => Encoding::Bf16,
        Matrix::Dense(_) => encoding.of_numbers(),
        Matrix::Sparse(_) => Encoding::F32,
    }
}

/// Returns the encoding in which a worker sends the rows of its answer. It is f32 for an edge
/// kernel, and bfloat16 if all rows are stored as bfloat16.
fn answered(call: &Call, encoding: Encoding) -> Encoding {
    let half = |(_, target): &(u32, Target)| matches!(target, Target::Half { .. });
    match call.steps.iter().any(|step| matches!(step, CallStep::Edges(..))) {
        true => Encoding::F32,
        false if !call.outs.is_empty() && call.outs.iter().all(half) => Encoding::Bf16,
        false => encoding.of_numbers(),
    }
}

/// Returns a reference to a matrix at the location `source`. If `source` is `None`, the matrix is
/// first written to the frame.
pub(super) fn refer(
    writer: &mut Writer<'_>,
    matrix: &Matrix,
    encoding: Encoding,
    source: Option<Source>,
) -> Result<MatrixRef> {
    let source = match source {
        Some(source) => source,
        None => {
            let part = writer.matrix(matrix, written(matrix, encoding)).map_err(at(CALL))?;
            Source { object: None, part }
        }
    };
    let extents = matrix.shape().get(1..).unwrap_or_default().to_vec();
    let encoding = matches!(matrix, Matrix::Dense(_)).then(|| written(matrix, encoding));
    Ok(MatrixRef { source, extents, encoding })
}

/// Writes rows that were packed as signs and scales, and returns a reference to them.
fn refer_packed(writer: &mut Writer<'_>, matrix: &Matrix, packed: Packed) -> Result<MatrixRef> {
    let encoding = Some(packed.encoding());
    let source = Source { object: None, part: writer.packed(packed).map_err(at(CALL))? };
    Ok(MatrixRef { source, extents: matrix.shape().get(1..).unwrap_or_default().to_vec(), encoding })
}

fn rows_bytes(matrix: &Matrix, encoding: Encoding) -> u64 {
    match matrix {
        Matrix::Dense(_) => {
            let row_bytes = written(matrix, encoding).row_bytes(matrix.columns()) as u64;
            (matrix.rows() as u64).saturating_mul(row_bytes)
        }
        Matrix::Sparse(_) => 0,
    }
}

/// Encodes a call as a request, which contains each matrix and list once. Matrices in `elsewhere`
/// are not written. Each entry of `elsewhere` gives the index of a matrix in [`Call::given`] and
/// its location in one of `objects`.
///
/// Dense rows of vertex kernels are written with `encoding`, or as bfloat16 if they are stored so.
/// With the encoding for signs, only inputs of which the layer reads just the signs are packed. All
/// others are then written as f32. Parameters, sparse rows and all rows of edge kernels are written
/// as f32. A matrix that can be streamed ([`Request::streamables`]) is the last part of the frame,
/// so that a worker can fetch everything else before it.
///
/// # Errors
/// Returns [`Error::Wire`](crate::Error::Wire) if a limit of frames or requests is exceeded.
/// Returns [`Error::Host`](crate::Error::Host) if rows have not arrived.
pub fn encode(
    run: &str,
    key: TaskKey,
    call: &Call,
    encoding: Encoding,
    limits: &Limits,
    mut objects: Vec<Object>,
    elsewhere: &[(usize, Source)],
) -> Result<Vec<u8>> {
    for (given, source) in elsewhere {
        if source.object.is_none() || *given >= call.given.len() {
            let reason = format!("matrix {given} at {source} is not in an object of this call");
            return Err(wire(CALL, reason));
        }
    }
    let mut writer = Writer::new(Vec::new());
    let mut matrices = Matrices::from_call(call, encoding, elsewhere)?;
    let given = matrices.write(&mut writer, &mut objects)?;
    let locals = objects.len();
    let mut slots = Vec::with_capacity(call.slots.len());
    for slot in &call.slots {
        let from = slot.from.as_ref().map(|from| refer(&mut writer, from, encoding, None)).transpose()?;
        slots.push(SlotRef { rows: small(slot.rows)?, columns: small(slot.columns)?, half: slot.half, from });
    }
    let (lists, known, rows) = (Vec::new(), Vec::new(), HashMap::new());
    let mut writing = Writing { writer, given, locals, lists, known, rows };
    let mut steps = Vec::with_capacity(call.steps.len());
    for step in &call.steps {
        steps.push(match step {
            CallStep::Gather(gather) => StepRef::Gather(writing.gather(gather)?),
            CallStep::Vertex(layer, step) => StepRef::Kernel(Box::new(writing.vertex(layer, step)?)),
            CallStep::Edges(layer, step) => StepRef::Kernel(Box::new(writing.edges(layer, step)?)),
        });
    }
    let Writing { mut writer, lists, .. } = writing;
    if let Some(last) = matrices.write_last(&mut writer)? {
        let calls = steps.iter_mut().filter_map(|step| match step {
            StepRef::Kernel(call) => Some(call),
            StepRef::Gather(_) => None,
        });
        for call in calls {
            let rows = call.inputs.iter_mut().chain(&mut call.outputs).chain(&mut call.kept);
            let later = rows.chain(&mut call.gradients).filter(|matrix| matrix.source == LATER);
            later.for_each(|matrix| last.clone_into(matrix));
        }
    }
    let out = |(slot, target): &(u32, Target)| match target {
        Target::Sums { .. } => Err(wire(CALL, "a sum cannot be written as rows")),
        _ => Ok(OutRef { slot: *slot, rows: small(target.shape().0)?, extents: target.extents().to_vec() }),
    };
    let mut keeps = Vec::with_capacity(call.keeps.len());
    for (slot, kept) in &call.keeps {
        let rows = OutRef { slot: *slot, rows: small(kept.rows)?, extents: kept.extents.clone() };
        keeps.push(KeepRef { rows, key: kept.key, to: kept.to.clone() });
    }
    let request = Request {
        version: VERSION,
        run: run.to_owned(),
        key,
        limits: WireLimits::from(limits),
        encoding: answered(call, encoding),
        objects,
        slots,
        lists,
        steps,
        outs: call.outs.iter().map(out).collect::<Result<_>>()?,
        keeps,
        frees: call.frees.clone(),
        holds: call.holds.iter().map(|&(sum, of)| HoldRef { sum, of }).collect(),
        digests: call.digests,
    };
    // A request that a worker would refuse is refused here, where the caller is at fault.
    request.check()?;
    writer.set_meta(serde_json::to_vec(&request).map_err(|e| wire(CALL, e.to_string()))?);
    writer.finish().map_err(at(CALL))
}

/// Matrices of a call, with the encoding in which each of them is written.
struct Matrices<'a> {
    call: &'a Call,
    elsewhere: &'a [(usize, Source)],
    encodings: Vec<Encoding>,
    packed: Vec<Option<Packed>>,
    /// Index of the matrix that is written at the end of the frame, so that it can be streamed.
    streamed: Option<usize>,
}

impl<'a> Matrices<'a> {
    fn from_call(call: &'a Call, encoding: Encoding, elsewhere: &'a [(usize, Source)]) -> Result<Self> {
        let mut encodings = vec![encoding.of_numbers(); call.given.len()];
        // Number of readers of each matrix, and the layer of the only reader if it reads only
        // signs.
        let mut readers = vec![(0, None); call.given.len()];
        for step in &call.steps {
            let exact = match step {
                CallStep::Vertex(layer, step) => {
                    for at in step.operands().filter_map(Operand::given) {
                        if let Some((count, _)) = readers.get_mut(at) {
                            *count += 1;
                        }
                    }
                    for (at, input) in step.inputs.iter().zip(&layer.signature().inputs) {
                        let reader = at.given().and_then(|at| readers.get_mut(at));
                        if let (Some((_, within)), true) = (reader, layer.reads_signs(&input.name)) {
                            *within = Some(step.kind == Kind::Backward);
                        }
                    }
                    step.parameters.iter().chain(&[])
                }
                // These matrices are exact, whatever encoding rows have.
                CallStep::Edges(_, step) => step.parameters.iter().chain(&step.own),
                CallStep::Gather(_) => [].iter().chain(&[]),
            };
            for at in exact.filter_map(Operand::given) {
                if let Some(encoding) = encodings.get_mut(at) {
                    *encoding = Encoding::F32;
                }
            }
        }
        let mut made = Self { call, elsewhere, encodings, packed: Vec::new(), streamed: None };
        for (at, (given, reader)) in call.given.iter().zip(readers).enumerate() {
            made.packed.push(match (given, encoding, reader) {
                (Given::Here(matrix), Encoding::Bits(_), (1, Some(within))) if made.source(at).is_none() => {
                    Packed::from_matrix(matrix, within).map_err(super::at(CALL))?
                }
                _ => None,
            });
        }
        if let Some((_, step)) = call.only_vertex() {
            let mut rows = step.inputs.iter().chain(&step.gradients).filter_map(Operand::given);
            made.streamed = rows.find(|at| made.source(*at).is_none() && made.bytes(*at) > STREAM_BYTES);
        }
        Ok(made)
    }

    fn source(&self, given: usize) -> Option<Source> {
        self.elsewhere.iter().find(|(at, _)| *at == given).map(|(_, source)| *source)
    }

    fn bytes(&self, at: usize) -> u64 {
        match (self.call.given.get(at), self.packed.get(at), self.encodings.get(at)) {
            (_, Some(Some(packed)), _) => packed.bytes_len(),
            (Some(Given::Here(matrix)), _, Some(encoding)) => rows_bytes(matrix, *encoding),
            _ => 0,
        }
    }

    fn write(&mut self, writer: &mut Writer<'_>, objects: &mut Vec<Object>) -> Result<Vec<MatrixRef>> {
        let mut written = Vec::with_capacity(self.call.given.len());
        for (at, given) in self.call.given.iter().enumerate() {
            written.push(match given {
                Given::Cached(kept) => {
                    let source = Source { object: Some(small(objects.len())?), part: 0 };
                    objects.push(kept.key.into());
                    MatrixRef { source, extents: kept.extents.clone(), encoding: Some(Encoding::F32) }
                }
                Given::Here(matrix) if self.streamed == Some(at) => {
                    refer(writer, matrix, self.encodings[at], Some(LATER))?
                }
                Given::Here(matrix) => self.one(writer, at, matrix)?,
            });
        }
        Ok(written)
    }

    fn one(&mut self, writer: &mut Writer<'_>, at: usize, matrix: &Matrix) -> Result<MatrixRef> {
        match self.packed.get_mut(at).and_then(Option::take) {
            Some(packed) => refer_packed(writer, matrix, packed),
            None => refer(writer, matrix, self.encodings[at], self.source(at)),
        }
    }

    fn write_last(&mut self, writer: &mut Writer<'_>) -> Result<Option<MatrixRef>> {
        match self.streamed.and_then(|at| Some((at, self.call.given.get(at)?))) {
            Some((at, Given::Here(matrix))) => self.one(writer, at, matrix).map(Some),
            _ => Ok(None),
        }
    }
}

/// State of the encoder while it writes the steps of a call.
struct Writing<'d> {
    writer: Writer<'d>,
    given: Vec<MatrixRef>,
    /// Object number of slot 0. The slots are numbered after the objects of the request.
    locals: usize,
    lists: Vec<ListsRef>,
    /// Adjacency lists that have already been written.
    known: Vec<Arc<GatherLists>>,
    /// Lists of row ids that have already been written, by their address in memory.
    rows: HashMap<*const u64, Numbers>,
}

impl Writing<'_> {
    fn operand(&self, operand: &Operand) -> Result<MatrixRef> {
        match operand {
            Operand::Given(at) => {
                let known = self.given.get(*at as usize).cloned();
                known.ok_or_else(|| wire(CALL, format!("matrix {at} does not exist")))
            }
            Operand::Local { slot, extents, .. } => {
                let object = small(self.locals + *slot as usize)?;
                let source = Source { object: Some(object), part: 0 };
                Ok(MatrixRef { source, extents: extents.clone(), encoding: None })
            }
        }
    }

    fn all(&self, operands: &[Operand]) -> Result<Vec<MatrixRef>> {
        operands.iter().map(|operand| self.operand(operand)).collect()
    }

    fn numbers(&mut self, of: &RowNumbers) -> Result<Numbers> {
        let list = match of {
            RowNumbers::From(first) => return Ok(Numbers::From(*first)),
            RowNumbers::List(list) => list,
        };
        if let Some(known) = self.rows.get(&list.as_ptr()) {
            return Ok(*known);
        }
        let halves = list.iter().flat_map(|&n| [n as u32, (n >> 32) as u32]).collect();
        let written = Numbers::List(ids(&mut self.writer, halves)?);
        self.rows.insert(list.as_ptr(), written);
        Ok(written)
    }

    fn vertex(&mut self, layer: &Layer, step: &VertexCall<Operand, Write>) -> Result<CallRef> {
        let row_numbers = self.numbers(&step.row_numbers)?;
        let known = step.labelled.as_ref();
        Ok(CallRef {
            kernel: KernelRef::new(layer.kernel()),
            inputs_extents: layer.inputs().to_vec(),
            attributes: plain(layer.attributes()),
            kind: step.kind,
            seed: step.seed,
            epoch: step.epoch,
            layer: step.layer,
            training: step.training,
            grid: grid_parts(&step.grid)?,
            row_numbers,
            inputs: self.all(&step.inputs)?,
            outputs: self.all(&step.outputs)?,
            kept: self.all(&step.kept)?,
            parameters: self.all(&step.parameters)?,
            gradients: self.all(&step.gradients)?,
            output_count: u32::try_from(step.output_count).unwrap_or(u32::MAX),
            rows_out: writes(&step.rows_out),
            sums_out: step.sums_out.iter().map(shape_out).collect::<Result<_>>()?,
            labelled: known.map(|known| labelled(&mut self.writer, known)).transpose()?,
            edges: None,
        })
    }

    fn edges(&mut self, layer: &Layer, step: &EdgeCall<Operand, Write>) -> Result<CallRef> {
        let (edges, row_numbers) = edges::write(&mut self.writer, step)?;
        Ok(CallRef {
            kernel: KernelRef::new(layer.kernel()),
            inputs_extents: layer.inputs().to_vec(),
            attributes: plain(layer.attributes()),
            kind: edges.kind(),
            seed: step.seed,
            epoch: step.epoch,
            layer: step.layer,
            training: step.training,
            grid: grid_parts(&step.grid)?,
            row_numbers,
            inputs: self.all(&step.own)?,
            outputs: Vec::new(),
            kept: Vec::new(),
            parameters: self.all(&step.parameters)?,
            gradients: Vec::new(),
            output_count: u32::from(step.kind == EdgeKind::Forward),
            rows_out: writes(&step.rows_out),
            sums_out: step.sums_out.iter().map(shape_out).collect::<Result<_>>()?,
            labelled: None,
            edges: Some(edges),
        })
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

    fn write(&mut self, lists: &GatherLists) -> Result<ListsRef> {
        let adjacency = lists.adjacency();
        let offsets =
            adjacency.offsets().iter().map(|&offset| small(usize::try_from(offset).unwrap_or(usize::MAX)));
        let offsets = ids(&mut self.writer, offsets.collect::<Result<_>>()?)?;
        let neighbours = ids(&mut self.writer, adjacency.neighbours().to_vec())?;
        let mut column = |values: &Option<Arc<Vec<f32>>>| -> Result<Option<Source>> {
            // Values are written as bits, like lists, because they are not rows of a kernel.
            let Some(values) = values else { return Ok(None) };
            Ok(Some(ids(&mut self.writer, values.iter().map(|value| value.to_bits()).collect())?))
        };
        let (factors, weights) = (column(&lists.factors)?, column(&lists.weights)?);
        Ok(ListsRef { offsets, neighbours, factors, weights })
    }
}

fn writes(writes: &[Option<Write>]) -> Vec<Option<WriteRef>> {
    let one = |write: &Write| WriteRef { slot: write.slot, extents: write.extents.clone() };
    writes.iter().map(|write| write.as_ref().map(one)).collect()
}

impl GatherLists {
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

/// Writes the target values and loss weights of rows, which are arguments of the function `loss`.
fn labelled(writer: &mut Writer<'_>, known: &Labelled) -> Result<LabelledRef> {
    let targets = match &known.targets {
        Targets::Values(values) => TargetsRef::Values(refer(writer, values, Encoding::F32, None)?),
        Targets::Classes(classes) => TargetsRef::Classes(ids(writer, classes.to_vec())?),
    };
    let row_weights = known.row_weights.as_ref();
    let row_weights = row_weights.map(|weights| refer(writer, weights, Encoding::F32, None)).transpose()?;
    let rows = ids(writer, known.rows.to_vec())?;
    Ok(LabelledRef { targets, rows, weight: known.weight, row_weights })
}

/// Writes a list of ids as a part of the frame, and returns its location.
pub(super) fn ids(writer: &mut Writer<'_>, list: Vec<u32>) -> Result<Source> {
    Ok(Source { object: None, part: writer.ids(list).map_err(at(CALL))? })
}

/// Encodes matrices that several calls share as a separate frame, with one part per matrix. Sparse
/// rows are always written as f32.
///
/// # Errors
/// Returns the errors of [`encode`].
pub fn encode_matrices<'a>(
    matrices: impl IntoIterator<Item = &'a Matrix>,
    encoding: Encoding,
) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    for matrix in matrices {
        writer.matrix(matrix, written(matrix, encoding)).map_err(at("a shared matrix"))?;
    }
    writer.finish().map_err(at("a shared matrix"))
}

fn shape_out(target: &Target) -> Result<Vec<u32>> {
    match target {
        Target::Sums { shape, .. } => Ok(shape.clone()),
        Target::Rows { .. } | Target::Half { .. } => Err(wire(CALL, "rows cannot be written as a sum")),
    }
}

fn plain(attributes: Vec<wv::Attribute>) -> Vec<Attribute> {
    let value = |v| match v {
        wv::Value::Integer(v) => Value::Integer(v),
        wv::Value::Number(v) => Value::Number(v),
        wv::Value::Text(v) => Value::Text(v),
        wv::Value::Flag(v) => Value::Flag(v),
    };
    attributes.into_iter().map(|a| Attribute { name: a.name, value: value(a.value) }).collect()
}
