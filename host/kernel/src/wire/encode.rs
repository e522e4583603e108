//! A call to a frame, and what many calls share to frames of their own.

use eciton_plan::TaskKey;
use eciton_plan::signature::{Attribute, Value};
use eciton_tensor::Matrix;
use eciton_tensor::frame::{Encoding, Packed, Writer};

use super::edges::{self, EdgesRef};
use super::request::grid_parts;
use super::span;
use super::{
    KernelRef, LabelledRef, MatrixRef, Numbers, Object, Request, STREAM_BYTES, Source, TargetsRef, VERSION,
    WireLimits, at, wire,
};
use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::call::{AnyCall, Call, Common, Kind, Labelled, RowNumbers, Target, Targets};
use crate::error::Result;
use crate::limits::Limits;
use crate::runtime::Layer;

pub(super) const CALL: &str = "call";

/// What the caller has put into constant frames already: it is not written again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Constants<'a> {
    /// Inputs by their place among the call's, and where they lie.
    pub inputs: &'a [(usize, Source)],
    /// The object that holds all parameters: part i is parameter i.
    pub parameters: Option<u32>,
    /// Of a span: matrices by their place among those from outside, and where they lie.
    pub given: &'a [(usize, Source)],
}

/// How a matrix is written: sparse rows keep their values, which are few; what is stored as bfloat16
/// travels so, which changes nothing.
fn written(matrix: &Matrix, encoding: Encoding) -> Encoding {
    match matrix {
        Matrix::Dense(_) if matrix.is_half() => Encoding::Bf16,
        Matrix::Dense(_) => encoding.of_numbers(),
        Matrix::Sparse(_) => Encoding::F32,
    }
}

/// How an answer's rows are written: as bfloat16 too where all of them are stored so.
fn answered(call: &Call, encoding: Encoding) -> Encoding {
    let mut rows = call.rows_out.iter().flatten().peekable();
    match rows.peek().is_some() && rows.all(|target| matches!(target, Target::Half { .. })) {
        true => Encoding::Bf16,
        false => encoding.of_numbers(),
    }
}

/// The reference of rows that were packed.
fn refer_packed(writer: &mut Writer<'_>, matrix: &Matrix, packed: Packed) -> Result<MatrixRef> {
    let encoding = Some(packed.encoding());
    let source = Source { object: None, part: writer.packed(packed).map_err(at(CALL))? };
    Ok(MatrixRef { source, extents: matrix.shape().get(1..).unwrap_or_default().to_vec(), encoding })
}

/// A matrix's reference; its rows are written if `source` is none.
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

fn rows_bytes(matrix: &Matrix, encoding: Encoding) -> u64 {
    match matrix {
        Matrix::Dense(_) => {
            let row_bytes = written(matrix, encoding).row_bytes(matrix.columns()) as u64;
            (matrix.rows() as u64).saturating_mul(row_bytes)
        }
        Matrix::Sparse(_) => 0,
    }
}

/// A call as a request's frame. Dense rows of a vertex kernel are written with `encoding`, or as
/// bfloat16 where they are stored so; as signs, inputs alone that the layer reads no more of, all
/// others then as f32. Parameters, sparse rows and all rows of an edge kernel are
/// written as f32. A part that may be streamed ([`Request::streamable`]) is the frame's last, so that
/// everything else can be fetched at once before it.
///
/// # Errors
/// [`Error::Wire`](crate::Error::Wire) past a limit of frames or requests, and for constants of an
/// edge kernel; [`Error::Host`](crate::Error::Host) for rows that have not arrived.
#[allow(clippy::too_many_arguments)]
pub fn encode(
    run: &str,
    key: TaskKey,
    layer: &Layer,
    call: &AnyCall,
    encoding: Encoding,
    limits: &Limits,
    objects: Vec<Object>,
    constants: &Constants<'_>,
) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    let (parts, common) = match call {
        AnyCall::Rows(call) => (parts(&mut writer, layer, call, encoding, constants)?, call.common()),
        _ if constants.parameters.is_some() || !constants.inputs.is_empty() => {
            return Err(wire(CALL, "constants of an edge kernel, or of one call of a span"));
        }
        AnyCall::Edges(call) => (edges::parts(&mut writer, call)?, call.common()),
        AnyCall::Span(call) => {
            let (task, given) = (Task { run, key, limits }, constants.given);
            let request = span::request(&mut writer, &task, call, encoding.of_numbers(), objects, given)?;
            return finish(writer, &request);
        }
    };
    let task = Task { run, key, limits };
    finish(writer, &request(&task, layer, &common, parts, objects)?)
}

/// What all calls of a task say alike.
pub(super) struct Task<'a> {
    pub(super) run: &'a str,
    pub(super) key: TaskKey,
    pub(super) limits: &'a Limits,
}

/// A frame of what was written and its request.
fn finish(mut writer: Writer<'_>, request: &Request) -> Result<Vec<u8>> {
    // What a worker would refuse is found here, by whose fault it is.
    request.check()?;
    let meta = serde_json::to_vec(request).map_err(|e| wire(CALL, e.to_string()))?;
    writer.set_meta(meta);
    writer.finish().map_err(at(CALL))
}

/// The request of one call whose matrices were written.
pub(super) fn request(
    task: &Task<'_>,
    layer: &Layer,
    common: &Common<'_>,
    parts: Parts,
    objects: Vec<Object>,
) -> Result<Request> {
    Ok(Request {
        version: VERSION,
        run: task.run.to_owned(),
        key: task.key,
        kernel: KernelRef::new(layer.kernel()),
        inputs_extents: layer.inputs().to_vec(),
        attributes: plain(layer.attributes()),
        kind: parts.kind,
        seed: common.seed,
        epoch: common.epoch,
        layer: common.layer,
        training: common.training,
        grid: grid_parts(common.grid)?,
        row_numbers: parts.row_numbers,
        inputs: parts.inputs,
        outputs: parts.outputs,
        kept: parts.kept,
        parameters: parts.parameters,
        gradients: parts.gradients,
        output_count: u32::try_from(parts.output_count).unwrap_or(u32::MAX),
        rows_out: common
            .rows_out
            .iter()
            .map(|t| t.as_ref().map(extents_out).transpose())
            .collect::<Result<_>>()?,
        sums_out: common.sums_out.iter().map(shape_out).collect::<Result<_>>()?,
        labelled: parts.labelled,
        edges: parts.edges,
        span: None,
        objects,
        limits: WireLimits::from(task.limits),
        encoding: parts.answered,
    })
}

/// The parts of a request that the two kinds of kernels write differently.
pub(super) struct Parts {
    pub(super) kind: Kind,
    pub(super) row_numbers: Numbers,
    pub(super) inputs: Vec<MatrixRef>,
    pub(super) outputs: Vec<MatrixRef>,
    pub(super) kept: Vec<MatrixRef>,
    pub(super) parameters: Vec<MatrixRef>,
    pub(super) gradients: Vec<MatrixRef>,
    pub(super) output_count: usize,
    pub(super) labelled: Option<LabelledRef>,
    pub(super) edges: Option<EdgesRef>,
    /// How the answer's rows are written.
    pub(super) answered: Encoding,
}

/// Writes the matrices of a vertex kernel's call.
fn parts(
    writer: &mut Writer<'_>,
    layer: &Layer,
    call: &Call,
    encoding: Encoding,
    constants: &Constants<'_>,
) -> Result<Parts> {
    for (at, source) in constants.inputs {
        if source.object.is_none() || *at >= call.inputs.len() {
            return Err(wire(CALL, format!("input {at} at {source} is no constant input of this call")));
        }
    }
    let constant = |i: usize| constants.inputs.iter().find(|(at, _)| *at == i).map(|(_, s)| *s);
    let signs = |(i, m): (usize, &Matrix)| -> Result<Option<Packed>> {
        let read = layer.signature().inputs.get(i).is_some_and(|input| layer.reads_signs(&input.name));
        match encoding {
            Encoding::Bits(_) if read && constant(i).is_none() => {
                Packed::of(m, call.kind == Kind::Backward).map_err(at(CALL))
            }
            _ => Ok(None),
        }
    };
    let mut packed = call.inputs.iter().enumerate().map(signs).collect::<Result<Vec<_>>>()?;
    let bytes = |(i, m): (usize, &Matrix)| match packed.get(i) {
        Some(Some(packed)) => packed.bytes_len(),
        _ => rows_bytes(m, encoding),
    };
    let streamed_input = call
        .inputs
        .iter()
        .enumerate()
        .position(|(i, m)| bytes((i, m)) > STREAM_BYTES && constant(i).is_none());
    let streamed_gradient = match streamed_input {
        Some(_) => None,
        None => call.gradients.iter().position(|m| rows_bytes(m, encoding) > STREAM_BYTES),
    };
    // A streamed matrix gets its place last; until then it has none.
    let later = Some(Source { object: None, part: u32::MAX });
    let mut all = |matrices: &[Matrix], source: &dyn Fn(usize) -> Option<Source>, encoding| {
        let refer = |(i, m): (usize, &Matrix)| refer(writer, m, encoding, source(i));
        matrices.iter().enumerate().map(refer).collect::<Result<Vec<_>>>()
    };
    let is_packed: Vec<bool> = packed.iter().map(Option::is_some).collect();
    let place = |i: usize| match is_packed.get(i) {
        Some(true) => later,
        _ if Some(i) == streamed_input => later,
        _ => constant(i),
    };
    let mut inputs = all(&call.inputs, &place, encoding)?;
    let outputs = all(&call.outputs, &|_| None, encoding)?;
    let kept = all(&call.kept, &|_| None, encoding)?;
    let parameter = |i: usize| constants.parameters.map(|o| Source { object: Some(o), part: i as u32 });
    let parameters = all(&call.parameters, &parameter, Encoding::F32)?;
    let mut gradients =
        all(&call.gradients, &|i| if Some(i) == streamed_gradient { later } else { None }, encoding)?;
    let labelled = call.labelled.as_ref().map(|known| labelled(writer, known)).transpose()?;
    let row_numbers = numbers(writer, &call.row_numbers)?;
    let packed_now = packed.iter_mut().enumerate().filter(|(i, _)| Some(*i) != streamed_input);
    for (i, packed) in packed_now {
        if let (Some(packed), Some(matrix), Some(place)) =
            (packed.take(), call.inputs.get(i), inputs.get_mut(i))
        {
            *place = refer_packed(writer, matrix, packed)?;
        }
    }
    let last =
        [(streamed_input, &call.inputs, &mut inputs), (streamed_gradient, &call.gradients, &mut gradients)];
    for (streamed, matrices, refs) in last {
        if let Some((matrix, place)) = streamed.and_then(|i| matrices.get(i).zip(refs.get_mut(i))) {
            let packed = streamed_input.and_then(|i| packed.get_mut(i)).and_then(Option::take);
            *place = match packed {
                Some(packed) => refer_packed(writer, matrix, packed)?,
                None => refer(writer, matrix, encoding, None)?,
            };
        }
    }
    Ok(Parts {
        kind: call.kind,
        row_numbers,
        inputs,
        outputs,
        kept,
        parameters,
        gradients,
        output_count: call.output_count,
        labelled,
        edges: None,
        answered: answered(call, encoding),
    })
}

/// Writes what is known of rows, for `loss`.
pub(super) fn labelled(writer: &mut Writer<'_>, known: &Labelled) -> Result<LabelledRef> {
    let targets = match &known.targets {
        Targets::Values(values) => TargetsRef::Values(refer(writer, values, Encoding::F32, None)?),
        Targets::Classes(classes) => TargetsRef::Classes(ids(writer, classes.to_vec())?),
    };
    let row_weights = known.row_weights.as_ref();
    let row_weights = row_weights.map(|weights| refer(writer, weights, Encoding::F32, None)).transpose()?;
    let rows = ids(writer, known.rows.to_vec())?;
    Ok(LabelledRef { targets, rows, weight: known.weight, row_weights })
}

/// Writes the numbers of rows.
pub(super) fn numbers(writer: &mut Writer<'_>, numbers: &RowNumbers) -> Result<Numbers> {
    Ok(match numbers {
        RowNumbers::From(first) => Numbers::From(*first),
        RowNumbers::List(list) => {
            let halves: Vec<u32> = list.iter().flat_map(|&n| [n as u32, (n >> 32) as u32]).collect();
            Numbers::List(ids(writer, halves)?)
        }
    })
}

/// Writes a list.
pub(super) fn ids(writer: &mut Writer<'_>, list: Vec<u32>) -> Result<Source> {
    Ok(Source { object: None, part: writer.ids(list).map_err(at(CALL))? })
}

/// A constant frame of a call's parameters, in order, as f32.
///
/// # Errors
/// As [`encode`].
pub fn encode_parameters(call: &Call) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    for matrix in &call.parameters {
        writer.matrix(matrix, Encoding::F32).map_err(at("parameters"))?;
    }
    writer.finish().map_err(at("parameters"))
}

/// A constant frame of one matrix as its only part, as f32.
///
/// # Errors
/// As [`encode`].
pub fn encode_matrix(matrix: &Matrix) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    writer.matrix(matrix, Encoding::F32).map_err(at("a matrix"))?;
    writer.finish().map_err(at("a matrix"))
}

/// A frame of rows as its only part; sparse rows always as f32.
///
/// # Errors
/// As [`encode`].
pub fn encode_rows(matrix: &Matrix, encoding: Encoding) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    writer.matrix(matrix, written(matrix, encoding)).map_err(at("rows"))?;
    writer.finish().map_err(at("rows"))
}

/// A constant frame of one input as its only part; sparse rows always as f32.
///
/// # Errors
/// As [`encode`].
pub fn encode_input(call: &Call, at_input: usize, encoding: Encoding) -> Result<Vec<u8>> {
    let place = || format!("input {at_input}");
    let matrix = call.inputs.get(at_input);
    let matrix = matrix.ok_or_else(|| wire(place(), format!("the call has {}", call.inputs.len())))?;
    let mut writer = Writer::new(Vec::new());
    writer.matrix(matrix, written(matrix, encoding)).map_err(at(place()))?;
    writer.finish().map_err(at(place()))
}

pub(super) fn extents_out(target: &Target) -> Result<Vec<u32>> {
    match target {
        Target::Rows { extents, .. } | Target::Half { extents, .. } => Ok(extents.clone()),
        Target::Sums { .. } => Err(wire(CALL, "sums where rows are written")),
    }
}

fn shape_out(target: &Target) -> Result<Vec<u32>> {
    match target {
        Target::Sums { shape, .. } => Ok(shape.clone()),
        Target::Rows { .. } | Target::Half { .. } => Err(wire(CALL, "rows where sums are written")),
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
