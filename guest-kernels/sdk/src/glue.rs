//! A kernel in a component: handles are resources, calls are imports, [`Glue`] is the export.

pub mod edge;

use crate::bindings::eciton::kernel::{
    dense as wd, given as wg, linalg as wl, log as wlog, random as wr, tensors as wt, types as ty,
};
use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::op::{After, Before, Op};
use crate::signature::{AttributeSpec, Attributes, Initialiser, ParameterSpec, RowsSpec, TargetKind, Value};
use crate::types::{
    Activation, Attention, Dropout, Error, Function, Reduction, Result, RowScale, Smooth, Task, Windows,
};
use crate::{Backward, Forward, Ids, Kernel, LastLayer, Matrix, Out, Targets};

/// A matrix.
#[derive(Debug)]
pub struct RawMatrix(wt::Matrix);
/// A place to write.
#[derive(Debug)]
pub struct RawOut(wt::Out);
/// A list.
#[derive(Debug)]
pub struct RawIds(wt::Ids);

fn failed(e: ty::Error) -> Error {
    match e {
        ty::Error::Shape(s) => {
            Error::Shape { operation: s.operation, operand: s.operand, expected: s.expected, found: s.found }
        }
        ty::Error::Argument(t) => Error::Argument(t),
        ty::Error::Limit(l) => {
            Error::Limit { limit: l.limit, unit: l.unit, allowed: l.allowed, asked: l.asked }
        }
        ty::Error::Deadline(t) => Error::Deadline(t),
        ty::Error::Unsupported(t) => Error::Unsupported(t),
        ty::Error::Kernel(t) => Error::Kernel(t),
    }
}

fn report(e: Error) -> ty::Error {
    match e {
        Error::Shape { operation, operand, expected, found } => {
            ty::Error::Shape(ty::ShapeMismatch { operation, operand, expected, found })
        }
        Error::Argument(t) => ty::Error::Argument(t),
        Error::Limit { limit, unit, allowed, asked } => {
            ty::Error::Limit(ty::LimitReached { limit, unit, allowed, asked })
        }
        Error::Deadline(t) => ty::Error::Deadline(t),
        Error::Unsupported(t) => ty::Error::Unsupported(t),
        Error::Kernel(t) => ty::Error::Kernel(t),
    }
}

pub(crate) fn shape(m: &RawMatrix) -> Vec<u32> {
    m.0.shape()
}

pub(crate) fn rows(m: &RawMatrix, start: u32, count: u32) -> Result<RawMatrix> {
    m.0.rows(start, count).map(RawMatrix).map_err(failed)
}

pub(crate) fn columns(m: &RawMatrix, start: u32, count: u32) -> Result<RawMatrix> {
    m.0.columns(start, count).map(RawMatrix).map_err(failed)
}

pub(crate) fn reshape(m: &RawMatrix, shape: &[u32]) -> Result<RawMatrix> {
    m.0.reshape(shape).map(RawMatrix).map_err(failed)
}

pub(crate) fn split_rows(m: &RawMatrix, t: u32) -> Result<RawMatrix> {
    wd::split_rows(&m.0, t).map(RawMatrix).map_err(failed)
}

pub(crate) fn group_rows(m: &RawMatrix, t: u32) -> Result<RawMatrix> {
    wd::group_rows(&m.0, t).map(RawMatrix).map_err(failed)
}

pub(crate) fn split_out(o: &RawOut, t: u32) -> Result<RawOut> {
    wd::split_out(&o.0, t).map(RawOut).map_err(failed)
}

pub(crate) fn group_out(o: &RawOut, t: u32) -> Result<RawOut> {
    wd::group_out(&o.0, t).map(RawOut).map_err(failed)
}

pub(crate) fn arrived(m: &RawMatrix, after: u32) -> Result<u32> {
    m.0.arrived(after).map_err(failed)
}

pub(crate) fn read_f32(m: &RawMatrix, start: u32, count: u32) -> Result<Vec<f32>> {
    m.0.read_rows(start, count).map_err(failed)
}

pub(crate) fn out_create(shape: &[u32]) -> Result<RawOut> {
    wt::Out::create(shape).map(RawOut).map_err(failed)
}

pub(crate) fn out_shape(o: &RawOut) -> Vec<u32> {
    o.0.shape()
}

pub(crate) fn out_rows(o: &RawOut, start: u32, count: u32) -> Result<RawOut> {
    o.0.rows(start, count).map(RawOut).map_err(failed)
}

pub(crate) fn out_finish(o: RawOut) -> Result<RawMatrix> {
    wt::Out::finish(o.0).map(RawMatrix).map_err(failed)
}

pub(crate) fn write_f32(o: &RawOut, start: u32, values: &[f32]) -> Result<()> {
    o.0.write_rows(start, values).map_err(failed)
}

pub(crate) fn ids_create(values: &[u32]) -> Result<RawIds> {
    wt::Ids::create(values).map(RawIds).map_err(failed)
}

pub(crate) fn ids_len(i: &RawIds) -> u32 {
    i.0.len()
}

pub(crate) fn ids_read(i: &RawIds, start: u32, count: u32) -> Result<Vec<u32>> {
    i.0.read(start, count).map_err(failed)
}

pub(crate) fn random_key(stream: u32) -> u64 {
    wr::key(stream)
}

pub(crate) fn row_ids(start: u32, count: u32) -> Result<Vec<u64>> {
    wr::row_ids(start, count).map_err(failed)
}

pub(crate) fn row_weights() -> Result<Option<RawMatrix>> {
    wg::row_weights().map(|weights| weights.map(RawMatrix)).map_err(failed)
}

pub(crate) fn log(text: &str) {
    wlog::write(wlog::Level::Info, text);
}

fn activation(a: Activation) -> ty::Activation {
    match a {
        Activation::Identity => ty::Activation::Identity,
        Activation::Relu => ty::Activation::Relu,
        Activation::LeakyRelu(slope) => ty::Activation::LeakyRelu(slope),
        Activation::Elu(alpha) => ty::Activation::Elu(alpha),
        Activation::Sigmoid => ty::Activation::Sigmoid,
        Activation::Tanh => ty::Activation::Tanh,
    }
}

fn prologue<'a>(b: &Before<'a>) -> wl::Prologue<'a> {
    wl::Prologue {
        bias: b.bias.map(|m| &m.raw().0),
        activation: activation(b.activation),
        dropout: b.dropout.map(|Dropout { probability, stream }| ty::Dropout { probability, stream }),
    }
}

fn epilogue<'a>(a: &After<'a>) -> wl::Epilogue<'a> {
    wl::Epilogue { bias: a.bias.map(|m| &m.raw().0), activation: activation(a.activation) }
}

fn function(by: Function) -> wl::Function {
    match by {
        Function::Exp => wl::Function::Exp,
        Function::Log => wl::Function::Log,
        Function::Sqrt => wl::Function::Sqrt,
        Function::Reciprocal => wl::Function::Reciprocal,
        Function::Absolute => wl::Function::Absolute,
        Function::Power(p) => wl::Function::Power(p),
    }
}

fn reduction(by: Reduction) -> wl::Reduction {
    match by {
        Reduction::Sum => wl::Reduction::Sum,
        Reduction::Mean => wl::Reduction::Mean,
        Reduction::Max => wl::Reduction::Max,
    }
}

fn smooth(by: Smooth) -> wd::Smooth {
    match by {
        Smooth::Gelu => wd::Smooth::Gelu,
        Smooth::GeluTanh => wd::Smooth::GeluTanh,
        Smooth::Silu => wd::Smooth::Silu,
        Smooth::Softplus => wd::Smooth::Softplus,
    }
}

fn attention(by: Attention) -> wd::Attention {
    let Attention { heads, group, causal, scale } = by;
    wd::Attention { heads, group, causal, scale }
}

fn row_scale(by: RowScale) -> wd::RowScale {
    match by {
        RowScale::Layer(epsilon) => wd::RowScale::Layer(epsilon),
        RowScale::Rms(epsilon) => wd::RowScale::Rms(epsilon),
        RowScale::Length(least) => wd::RowScale::Length(least),
        RowScale::None => wd::RowScale::None,
    }
}

fn windows(by: Windows) -> wd::Windows {
    let Windows { kernel, stride, padding, dilation } = by;
    wd::Windows { kernel, stride, padding, dilation }
}

#[inline(always)]
pub(crate) fn call(op: Op<'_>) -> Result<()> {
    match op {
        Op::Matmul { batched: false, a, transpose_a, b, transpose_b, accumulate, into } => {
            wl::matmul(&a.raw().0, transpose_a, &b.raw().0, transpose_b, accumulate, &into.raw().0)
        }
        Op::Matmul { batched: true, a, transpose_a, b, transpose_b, accumulate, into } => {
            wl::batched_matmul(&a.raw().0, transpose_a, &b.raw().0, transpose_b, accumulate, &into.raw().0)
        }
        Op::Linear { x, before, w, after, into } => {
            wl::linear(&x.raw().0, &prologue(&before), &w.raw().0, &epilogue(&after), &into.raw().0)
        }
        Op::LinearBackward {
            x,
            before,
            w,
            after,
            y,
            grad,
            grad_x,
            grad_before_bias,
            grad_w,
            grad_after_bias,
        } => wl::linear_backward(
            &x.raw().0,
            &prologue(&before),
            &w.raw().0,
            &epilogue(&after),
            y.map(|m| &m.raw().0),
            &grad.raw().0,
            grad_x.map(|o| &o.raw().0),
            grad_before_bias.map(|o| &o.raw().0),
            grad_w.map(|o| &o.raw().0),
            grad_after_bias.map(|o| &o.raw().0),
        ),
        Op::Apply { x, by, into } => wl::apply(&x.raw().0, &prologue(&by), &into.raw().0),
        Op::ApplyBackward { x, by, grad, into } => {
            wl::apply_backward(&x.raw().0, &prologue(&by), &grad.raw().0, &into.raw().0)
        }
        Op::Axpby { alpha, x, beta, y, into } => {
            wl::axpby(alpha, &x.raw().0, beta, &y.raw().0, &into.raw().0)
        }
        Op::Multiply { x, y, into } => wl::multiply(&x.raw().0, &y.raw().0, &into.raw().0),
        Op::Elementwise { x, by, into } => wl::elementwise(&x.raw().0, function(by), &into.raw().0),
        Op::ElementwiseBackward { x, by, grad, into } => {
            wl::elementwise_backward(&x.raw().0, function(by), &grad.raw().0, &into.raw().0)
        }
        Op::SoftmaxCrossEntropy { x, labels, rows, weight, losses, grad } => wl::softmax_cross_entropy(
            &x.raw().0,
            &labels.raw().0,
            &rows.raw().0,
            weight,
            &losses.raw().0,
            &grad.raw().0,
        ),
        Op::Softmax { x, into } => wl::softmax(&x.raw().0, &into.raw().0),
        Op::GatherRows { x, rows, into } => wl::gather_rows(&x.raw().0, &rows.raw().0, &into.raw().0),
        Op::ScatterAddRows { x, rows, into } => {
            wl::scatter_add_rows(&x.raw().0, &rows.raw().0, &into.raw().0)
        }
        Op::SumRows { x, into } => wl::sum_rows(&x.raw().0, &into.raw().0),
        Op::ReduceColumns { x, by, into } => wl::reduce_columns(&x.raw().0, reduction(by), &into.raw().0),
        Op::ReduceSegments { x, offsets, by, into } => {
            wl::reduce_segments(&x.raw().0, &offsets.raw().0, reduction(by), &into.raw().0)
        }
        Op::Inner { x, y, into } => wl::inner(&x.raw().0, &y.raw().0, &into.raw().0),
        Op::Scale { x, by, into } => wl::scale(&x.raw().0, &by.raw().0, &into.raw().0),
        Op::SoftmaxSegments { x, offsets, state } => {
            wl::softmax_segments(&x.raw().0, &offsets.raw().0, &state.raw().0)
        }
        Op::SoftmaxValues { x, state, into } => wl::softmax_values(&x.raw().0, &state.raw().0, &into.raw().0),
        Op::Permute { x, order, into } => wd::permute(&x.raw().0, order, &into.raw().0),
        Op::Concat { parts, into } => {
            let parts: Vec<&wt::Matrix> = parts.iter().map(|part| &part.raw().0).collect();
            wd::concat(&parts, &into.raw().0)
        }
        Op::PlaceColumns { x, at, into } => wd::place_columns(&x.raw().0, at, &into.raw().0),
        Op::SoftmaxMasked { x, causal, scale, into } => {
            wd::softmax_masked(&x.raw().0, causal, scale, &into.raw().0)
        }
        Op::SoftmaxBackward { y, grad, scale, into } => {
            wd::softmax_backward(&y.raw().0, &grad.raw().0, scale, &into.raw().0)
        }
        Op::Normalise { x, by, scale, shift, into } => {
            let [scale, shift] = [scale, shift].map(|column| column.map(|column| &column.raw().0));
            wd::normalise(&x.raw().0, row_scale(by), scale, shift, &into.raw().0)
        }
        Op::NormaliseBackward { x, by, scale, grad, into } => {
            let scale = scale.map(|scale| &scale.raw().0);
            wd::normalise_backward(&x.raw().0, row_scale(by), scale, &grad.raw().0, &into.raw().0)
        }
        Op::Attend { x, by, into } => wd::attend(&x.raw().0, attention(by), &into.raw().0),
        Op::AttendBackward { x, by, grad, into } => {
            wd::attend_backward(&x.raw().0, attention(by), &grad.raw().0, &into.raw().0)
        }
        Op::ScatterSum { x, rows, into } => wd::scatter_sum(&x.raw().0, &rows.raw().0, &into.raw().0),
        Op::Patches { x, by, into } => wd::patches(&x.raw().0, windows(by), &into.raw().0),
        Op::PatchesSum { x, by, into } => wd::patches_sum(&x.raw().0, windows(by), &into.raw().0),
        Op::Pool { x, by, with, into } => wd::pool(&x.raw().0, windows(by), reduction(with), &into.raw().0),
        Op::PoolBackward { x, by, with, grad, into } => {
            wd::pool_backward(&x.raw().0, windows(by), reduction(with), &grad.raw().0, &into.raw().0)
        }
        Op::Smoothed { x, by, into } => wd::smoothed(&x.raw().0, smooth(by), &into.raw().0),
        Op::SmoothedBackward { x, by, grad, into } => {
            wd::smoothed_backward(&x.raw().0, smooth(by), &grad.raw().0, &into.raw().0)
        }
    }
    .map_err(failed)
}

/// The component's export for one kernel.
#[derive(Debug)]
pub struct Glue<K>(core::marker::PhantomData<K>);

/// A configured layer of a kernel.
#[derive(Debug)]
pub struct Layer<K>(K);

fn quote_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let text = info
                .payload()
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| info.payload().downcast_ref::<String>().cloned())
                .unwrap_or_default();
            let (file, line) = info.location().map_or(("", 0), |l| (l.file(), l.line()));
            wlog::panicked(&text, file, line);
        }));
    });
}

impl<K: Kernel> wv::Guest for Glue<K> {
    type Layer = Layer<K>;

    fn attributes() -> Vec<ty::AttributeSpec> {
        quote_panics();
        attribute_specs(K::attributes())
    }
}

fn attribute_specs(specs: Vec<AttributeSpec>) -> Vec<ty::AttributeSpec> {
    let value = |v| match v {
        Value::Integer(v) => ty::Value::Integer(v),
        Value::Number(v) => ty::Value::Number(v),
        Value::Text(v) => ty::Value::Text(v),
        Value::Flag(v) => ty::Value::Flag(v),
    };
    specs
        .into_iter()
        .map(|a| ty::AttributeSpec {
            name: a.name.to_owned(),
            meaning: a.meaning.to_owned(),
            default: a.default.map(value),
        })
        .collect()
}

fn attributes(given: Vec<ty::Attribute>) -> Attributes {
    let value = |v| match v {
        ty::Value::Integer(v) => Value::Integer(v),
        ty::Value::Number(v) => Value::Number(v),
        ty::Value::Text(v) => Value::Text(v),
        ty::Value::Flag(v) => Value::Flag(v),
    };
    Attributes::new(given.into_iter().map(|a| (a.name, value(a.value))).collect())
}

fn rows_spec(spec: RowsSpec) -> ty::RowsSpec {
    ty::RowsSpec { name: spec.name, extents: spec.extents }
}

fn rows_specs(specs: Vec<RowsSpec>) -> Vec<ty::RowsSpec> {
    specs.into_iter().map(rows_spec).collect()
}

fn parameter_specs(specs: Vec<ParameterSpec>) -> Vec<ty::ParameterSpec> {
    let initialiser = |i| match i {
        Initialiser::Zeros => ty::Initialiser::Zeros,
        Initialiser::Constant(v) => ty::Initialiser::Constant(v),
        Initialiser::GlorotUniform => ty::Initialiser::GlorotUniform,
        Initialiser::Uniform(b) => ty::Initialiser::Uniform(b),
    };
    specs
        .into_iter()
        .map(|p| ty::ParameterSpec { name: p.name, shape: p.shape, initialiser: initialiser(p.initialiser) })
        .collect()
}

fn matrices(given: Vec<wt::Matrix>) -> Vec<Matrix> {
    given.into_iter().map(|m| Matrix::new(RawMatrix(m))).collect()
}

fn outs(given: Vec<wt::Out>) -> Vec<Out> {
    given.into_iter().map(|o| Out::new(RawOut(o))).collect()
}

fn maybe_outs(given: Vec<Option<wt::Out>>) -> Vec<Option<Out>> {
    given.into_iter().map(|o| o.map(|o| Out::new(RawOut(o)))).collect()
}

fn refs<T>(values: &[T]) -> Vec<&T> {
    values.iter().collect()
}

fn maybe_refs<T>(values: &[Option<T>]) -> Vec<Option<&T>> {
    values.iter().map(Option::as_ref).collect()
}

fn task(t: wv::Task) -> Task {
    Task { training: t.training, epoch: t.epoch, layer: t.layer, rows: t.rows }
}

impl<K: Kernel> wv::GuestLayer for Layer<K> {
    fn open(inputs: Vec<Vec<u32>>, given: Vec<ty::Attribute>) -> core::result::Result<wv::Layer, ty::Error> {
        quote_panics();
        K::open(&inputs, &attributes(given)).map(|k| wv::Layer::new(Layer(k))).map_err(report)
    }

    fn signature(&self) -> wv::Signature {
        let s = self.0.signature();
        let mut needs = wv::Needs::empty();
        if s.needs_inputs {
            needs = needs | wv::Needs::INPUTS;
        }
        if s.needs_outputs {
            needs = needs | wv::Needs::OUTPUTS;
        }
        wv::Signature {
            inputs: rows_specs(s.inputs),
            parameters: parameter_specs(s.parameters),
            outputs: rows_specs(s.outputs),
            kept: rows_specs(s.kept),
            backward_needs: needs,
            loss: s.loss.map(|kind| match kind {
                TargetKind::Classes => wv::TargetKind::Classes,
                TargetKind::Values => wv::TargetKind::Values,
            }),
        }
    }

    fn forward(
        &self,
        t: wv::Task,
        inputs: Vec<wt::Matrix>,
        parameters: Vec<wt::Matrix>,
        outputs: Vec<wt::Out>,
        kept: Vec<wt::Out>,
    ) -> core::result::Result<(), ty::Error> {
        let (inputs, parameters) = (matrices(inputs), matrices(parameters));
        let (outputs, kept) = (outs(outputs), outs(kept));
        let io = Forward {
            inputs: &refs(&inputs),
            parameters: &refs(&parameters),
            outputs: &refs(&outputs),
            kept: &refs(&kept),
        };
        self.0.forward::<f32>(&task(t), io).map_err(report)
    }

    fn backward(
        &self,
        t: wv::Task,
        inputs: Vec<wt::Matrix>,
        outputs: Vec<wt::Matrix>,
        kept: Vec<wt::Matrix>,
        parameters: Vec<wt::Matrix>,
        gradients: Vec<wt::Matrix>,
        input_gradients: Vec<Option<wt::Out>>,
        parameter_gradients: Vec<wt::Out>,
    ) -> core::result::Result<(), ty::Error> {
        let (inputs, outputs, kept) = (matrices(inputs), matrices(outputs), matrices(kept));
        let (parameters, gradients) = (matrices(parameters), matrices(gradients));
        let (input_gradients, parameter_gradients) = (maybe_outs(input_gradients), outs(parameter_gradients));
        let io = Backward {
            inputs: &refs(&inputs),
            outputs: &refs(&outputs),
            kept: &refs(&kept),
            parameters: &refs(&parameters),
            gradients: &refs(&gradients),
            input_gradients: &maybe_refs(&input_gradients),
            parameter_gradients: &refs(&parameter_gradients),
        };
        self.0.backward::<f32>(&task(t), io).map_err(report)
    }

    fn loss(
        &self,
        t: wv::Task,
        inputs: Vec<wt::Matrix>,
        parameters: Vec<wt::Matrix>,
        targets: wv::Targets,
        rows: wt::Ids,
        weight: f32,
        loss: wt::Out,
        input_gradients: Vec<Option<wt::Out>>,
        parameter_gradients: Vec<wt::Out>,
    ) -> core::result::Result<(), ty::Error> {
        let (inputs, parameters) = (matrices(inputs), matrices(parameters));
        let rows = Ids::new(RawIds(rows));
        let (classes, values);
        let targets = match targets {
            wv::Targets::Classes(given) => {
                classes = Ids::new(RawIds(given));
                Targets::Classes(&classes)
            }
            wv::Targets::Values(given) => {
                values = Matrix::new(RawMatrix(given));
                Targets::Values(&values)
            }
        };
        let loss = Out::new(RawOut(loss));
        let (input_gradients, parameter_gradients) = (maybe_outs(input_gradients), outs(parameter_gradients));
        let io = LastLayer {
            inputs: &refs(&inputs),
            parameters: &refs(&parameters),
            targets,
            rows: &rows,
            weight,
            loss: &loss,
            input_gradients: &maybe_refs(&input_gradients),
            parameter_gradients: &refs(&parameter_gradients),
        };
        self.0.loss::<f32>(&task(t), io).map_err(report)
    }
}
