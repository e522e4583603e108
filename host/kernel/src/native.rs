//! Kernels as native code over the same host's tables, to measure what the sandbox costs.
//!
//! Only with the feature `native-kernels`, which no shipped binary has. A [`crate::Runtime`] that is
//! made while [`set`] is on still loads components and asks them for signatures, but runs the tasks
//! of the built-in kernels by calling their Rust code; every other kernel is refused. Limits
//! on the host's side hold; a guest's memory and time are not bounded, for there is no guest.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use activate::Activate;
use attention::Attention;
use binary::Binary;
use concat::Concat;
use conv2d::Conv2d;
use eciton_sdk::native::{Host, Kind as Handle, with_host};
use eciton_sdk::op::{self, Op};
use eciton_sdk::{self as sdk, EdgeKernel as _, Ids, Kernel as _, Matrix, Out};
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::function::Function;
use eciton_tensor::ops::rows::Reduction;
use eciton_tensor::ops::smooth::Smooth;
use eciton_tensor::random::Purpose;
use embedding::Embedding;
use gatv2::Gatv2;
use head::Head;
use ipa::Ipa;
use linear::Linear;
use maximum::Maximum;
use normalise::Normalise;
use pool2d::Pool2d;
use product::Product;
use self_attention::SelfAttention;
use slice::Slice;
use spiking::Spiking;
use sum::Sum;

use crate::bindings::eciton::kernel::log::Level;
use crate::bindings::eciton::kernel::types;
use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::call::{AnyCall, Call, Kind};
use crate::edges::{EdgeArgs, EdgeCall, EdgeKind, EdgeRun};
use crate::error::{Error, Result};
use crate::instance::{Finished, guest};
use crate::lend::{Args, lend, promise, settle};
use crate::operations::{After, Before, Gradients, Window};
use crate::outs::Laid;
use crate::runtime::{Kernel, Layer};
use crate::state::{Failure, State};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether runtimes made from now on run kernels natively.
pub fn set(on: bool) {
    ON.store(on, Ordering::SeqCst);
}

/// What [`set`] was last told; false before.
pub fn is_on() -> bool {
    ON.load(Ordering::SeqCst)
}

/// A configured layer.
#[derive(Debug)]
enum Opened {
    Linear(Linear),
    Head(Head),
    Activate(Activate),
    Normalise(Normalise),
    Sum(Sum),
    Attention(Attention),
    Gatv2(Gatv2),
    Maximum(Maximum),
    Embedding(Embedding),
    SelfAttention(SelfAttention),
    Conv2d(Conv2d),
    Pool2d(Pool2d),
    Concat(Concat),
    Slice(Slice),
    Product(Product),
    Ipa(Ipa),
    Spiking(Spiking),
    Binary(Binary),
}

impl Opened {
    fn new(layer: &Layer) -> Result<Self> {
        let value = |v: wv::Value| match v {
            wv::Value::Integer(v) => sdk::Value::Integer(v),
            wv::Value::Number(v) => sdk::Value::Number(v),
            wv::Value::Text(v) => sdk::Value::Text(v),
            wv::Value::Flag(v) => sdk::Value::Flag(v),
        };
        let pairs = layer.attributes().into_iter().map(|a| (a.name, value(a.value))).collect();
        let (inputs, attributes) = (layer.inputs(), sdk::Attributes::new(pairs));
        let name = layer.kernel().name();
        let opened = match name {
            "linear" => Linear::open(inputs, &attributes).map(Self::Linear),
            "head" => Head::open(inputs, &attributes).map(Self::Head),
            "activate" => Activate::open(inputs, &attributes).map(Self::Activate),
            "normalise" => Normalise::open(inputs, &attributes).map(Self::Normalise),
            "sum" => Sum::open(inputs, &attributes).map(Self::Sum),
            "attention" => Attention::open(inputs, &attributes).map(Self::Attention),
            "embedding" => Embedding::open(inputs, &attributes).map(Self::Embedding),
            "self-attention" => SelfAttention::open(inputs, &attributes).map(Self::SelfAttention),
            "conv2d" => Conv2d::open(inputs, &attributes).map(Self::Conv2d),
            "pool2d" => Pool2d::open(inputs, &attributes).map(Self::Pool2d),
            "concat" => Concat::open(inputs, &attributes).map(Self::Concat),
            "slice" => Slice::open(inputs, &attributes).map(Self::Slice),
            "product" => Product::open(inputs, &attributes).map(Self::Product),
            "ipa" => Ipa::open(inputs, &attributes).map(Self::Ipa),
            "spiking" => Spiking::open(inputs, &attributes).map(Self::Spiking),
            "binary" => Binary::open(inputs, &attributes).map(Self::Binary),
            "gatv2" | "maximum" => match (name, inputs) {
                ("gatv2", [source, target, ..]) => {
                    Gatv2::open(source, target, layer.edge_features(), &attributes).map(Self::Gatv2)
                }
                (_, [source, target, ..]) => Maximum::open(source, target, 0, &attributes).map(Self::Maximum),
                _ => Err(sdk::Error::Argument("an edge kernel reads two rows".to_owned())),
            },
            _ => Err(sdk::Error::Unsupported("this kernel has no native form".to_owned())),
        };
        opened.map_err(|e| guest(name, "open", reported(e)))
    }
}

/// One kernel of one thread: the host's side of it, and its layers.
#[derive(Debug)]
struct Native {
    kernel: Arc<Kernel>,
    state: Box<State>,
    layers: Vec<(Arc<Layer>, Opened)>,
}

/// The native kernels of one thread.
#[derive(Debug, Default)]
pub(crate) struct Natives(Vec<Native>);

impl Natives {
    /// As [`crate::Instances::run`].
    pub(crate) fn run(&mut self, layer: &Arc<Layer>, call: AnyCall) -> Result<Finished> {
        self.on(layer, |native| match call {
            AnyCall::Rows(call) => native.run_rows(layer, *call),
            AnyCall::Edges(call) => native.run_edges(layer, *call),
            AnyCall::Span(_) => Err(crate::instance::several(layer)),
        })
    }

    fn on(&mut self, layer: &Layer, run: impl FnOnce(&mut Native) -> Result<Finished>) -> Result<Finished> {
        let at = match self.0.iter().position(|n| Arc::ptr_eq(&n.kernel, layer.kernel())) {
            Some(at) => at,
            None => {
                let kernel = layer.kernel().clone();
                let state = Box::new(State::new(kernel.runtime().limits().clone()));
                self.0.push(Native { kernel, state, layers: Vec::new() });
                self.0.len() - 1
            }
        };
        // Taken out, so that a kernel that fails or panics leaves nothing behind.
        let mut native = self.0.swap_remove(at);
        let finished = run(&mut native)?;
        self.0.push(native);
        Ok(finished)
    }
}

impl Native {
    fn layer(&mut self, layer: &Arc<Layer>) -> Result<usize> {
        if let Some(at) = self.layers.iter().position(|(l, _)| Arc::ptr_eq(l, layer)) {
            return Ok(at);
        }
        self.layers.push((layer.clone(), Opened::new(layer)?));
        Ok(self.layers.len() - 1)
    }

    fn run_edges(&mut self, layer: &Arc<Layer>, call: EdgeCall) -> Result<Finished> {
        let at = self.layer(layer)?;
        let (name, kind) = (layer.kernel().name(), call.kind);
        let place = kind.name();
        let host = |source| Error::Tensor { place: format!("kernel `{name}`, {place}"), source };
        let empty = Box::new(State::new(self.state.limits.clone()));
        let mut state = std::mem::replace(&mut self.state, empty);
        let mut run = EdgeRun::new(&mut state, call).map_err(host)?;
        while let Some(args) = run.next(&mut state).map_err(host)? {
            let lent = state.matrices.alive() + state.outs.alive() + state.ids.alive();
            let back = Rc::new(Cell::new(None));
            let on = Box::new(Lent { state: Some(state), back: back.clone() });
            let opened = &self.layers[at].1;
            let result = with_host(on, || match opened {
                Opened::Gatv2(kernel) => call_edges(kernel, kind, args),
                Opened::Maximum(kernel) => call_edges(kernel, kind, args),
                _ => Err(sdk::Error::Unsupported("this kernel works on rows".to_owned())),
            });
            let Some(taken) = back.take() else {
                return Err(promise(name, place, "the task's tables were lost".to_owned()));
            };
            state = taken;
            result.map_err(|e| guest(name, place, reported(e)))?;
            run.settle(&mut state, name, lent)?;
        }
        let finished = run.finish(&mut state);
        self.state = state;
        Ok(finished)
    }

    fn run_rows(&mut self, layer: &Arc<Layer>, call: Call) -> Result<Finished> {
        call.check_row_weights(layer.kernel())?;
        let at = self.layer(layer)?;
        let (name, kind) = (layer.kernel().name(), call.kind);
        let place = kind.name();
        let empty = Box::new(State::new(self.state.limits.clone()));
        let mut state = std::mem::replace(&mut self.state, empty);
        state.reset();
        let args = lend(&mut state, call)
            .map_err(|source| Error::Tensor { place: format!("kernel `{name}`, {place}"), source })?;
        let lent = state.matrices.alive() + state.outs.alive() + state.ids.alive();
        let back = Rc::new(Cell::new(None));
        let host = Box::new(Lent { state: Some(state), back: back.clone() });
        let opened = &self.layers[at].1;
        let result = with_host(host, || match opened {
            Opened::Linear(kernel) => call_kernel(kernel, kind, args),
            Opened::Head(kernel) => call_kernel(kernel, kind, args),
            Opened::Activate(kernel) => call_kernel(kernel, kind, args),
            Opened::Normalise(kernel) => call_kernel(kernel, kind, args),
            Opened::Sum(kernel) => call_kernel(kernel, kind, args),
            Opened::Attention(kernel) => call_kernel(kernel, kind, args),
            Opened::Embedding(kernel) => call_kernel(kernel, kind, args),
            Opened::SelfAttention(kernel) => call_kernel(kernel, kind, args),
            Opened::Conv2d(kernel) => call_kernel(kernel, kind, args),
            Opened::Pool2d(kernel) => call_kernel(kernel, kind, args),
            Opened::Concat(kernel) => call_kernel(kernel, kind, args),
            Opened::Slice(kernel) => call_kernel(kernel, kind, args),
            Opened::Product(kernel) => call_kernel(kernel, kind, args),
            Opened::Ipa(kernel) => call_kernel(kernel, kind, args),
            Opened::Spiking(kernel) => call_kernel(kernel, kind, args),
            Opened::Binary(kernel) => call_kernel(kernel, kind, args),
            Opened::Gatv2(_) | Opened::Maximum(_) => {
                Err(sdk::Error::Unsupported("this kernel works on edges".to_owned()))
            }
        });
        let Some(state) = back.take() else {
            return Err(promise(name, place, "the task's tables were lost".to_owned()));
        };
        self.state = state;
        result.map_err(|e| guest(name, place, reported(e)))?;
        settle(&mut self.state, name, place, lent)
    }
}

fn matrices(from: Vec<wasmtime::component::Resource<crate::state::MatrixHandle>>) -> Vec<Matrix> {
    from.into_iter().map(|m| Matrix::borrowed(m.rep())).collect()
}

fn call_kernel<K: sdk::Kernel>(kernel: &K, kind: Kind, args: Args) -> sdk::Result<()> {
    let t = args.task;
    let task = sdk::Task { training: t.training, epoch: t.epoch, layer: t.layer, rows: t.rows };
    let (inputs, parameters) = (matrices(args.inputs), matrices(args.parameters));
    let (outputs, kept, gradients) =
        (matrices(args.forward_outputs), matrices(args.kept), matrices(args.gradients));
    let out = |o: wasmtime::component::Resource<crate::state::OutHandle>| Out::borrowed(o.rep());
    let rows_out: Vec<Option<Out>> = args.rows_out.into_iter().map(|o| o.map(out)).collect();
    let sums: Vec<Out> = args.sums_out.into_iter().map(out).collect();
    let (inputs, parameters): (Vec<&Matrix>, Vec<&Matrix>) =
        (inputs.iter().collect(), parameters.iter().collect());
    let rows_out: Vec<Option<&Out>> = rows_out.iter().map(Option::as_ref).collect();
    let sums: Vec<&Out> = sums.iter().collect();
    match kind {
        Kind::Forward => {
            let outs: Vec<&Out> = rows_out.into_iter().flatten().collect();
            let (outputs, kept) = outs.split_at(args.outputs.min(outs.len()));
            kernel.forward::<f32>(
                &task,
                sdk::Forward { inputs: &inputs, parameters: &parameters, outputs, kept },
            )
        }
        Kind::Backward => {
            let (outputs, kept): (Vec<_>, Vec<_>) = (outputs.iter().collect(), kept.iter().collect());
            let gradients: Vec<&Matrix> = gradients.iter().collect();
            kernel.backward::<f32>(
                &task,
                sdk::Backward {
                    inputs: &inputs,
                    outputs: &outputs,
                    kept: &kept,
                    parameters: &parameters,
                    gradients: &gradients,
                    input_gradients: &rows_out,
                    parameter_gradients: &sums,
                },
            )
        }
        Kind::Loss => {
            let (Some((targets, rows, weight)), Some((loss, sums))) = (args.labelled, sums.split_last())
            else {
                return Err(sdk::Error::Argument("loss was called without targets".to_owned()));
            };
            let rows = Ids::borrowed(rows.rep());
            let (classes, values);
            let targets = match targets {
                wv::Targets::Classes(ids) => {
                    classes = Ids::borrowed(ids.rep());
                    sdk::Targets::Classes(&classes)
                }
                wv::Targets::Values(matrix) => {
                    values = Matrix::borrowed(matrix.rep());
                    sdk::Targets::Values(&values)
                }
            };
            kernel.loss::<f32>(
                &task,
                sdk::LastLayer {
                    inputs: &inputs,
                    parameters: &parameters,
                    targets,
                    rows: &rows,
                    weight,
                    loss,
                    input_gradients: &rows_out,
                    parameter_gradients: sums,
                },
            )
        }
    }
}

fn call_edges<K: sdk::EdgeKernel>(kernel: &K, kind: EdgeKind, args: EdgeArgs) -> sdk::Result<()> {
    let t = args.task;
    let (offsets, owners) = (Ids::borrowed(args.lists.offsets.rep()), Ids::borrowed(args.lists.owners.rep()));
    let (rows, edges) = (t.rows, t.edges);
    let features = args.lists.features.map(|m| Matrix::borrowed(m.rep()));
    let task = sdk::EdgeTask {
        training: t.training,
        epoch: t.epoch,
        layer: t.layer,
        rows,
        edges,
        offsets: &offsets,
        owners: &owners,
        features: features.as_ref(),
    };
    let (own, parameters) = (matrices(args.own), matrices(args.parameters));
    let other = Matrix::borrowed(args.other.rep());
    let out = |o: wasmtime::component::Resource<crate::state::OutHandle>| Out::borrowed(o.rep());
    let rows_out: Vec<Option<Out>> = args.rows_out.into_iter().map(|o| o.map(out)).collect();
    let sums: Vec<Out> = args.sums_out.into_iter().map(out).collect();
    let (own, parameters): (Vec<&Matrix>, Vec<&Matrix>) = (own.iter().collect(), parameters.iter().collect());
    let rows_out: Vec<Option<&Out>> = rows_out.iter().map(Option::as_ref).collect();
    let sums: Vec<&Out> = sums.iter().collect();
    match (kind, &own[..], &rows_out[..]) {
        (EdgeKind::Forward, &[target], [Some(output), kept @ ..]) => {
            let kept: Vec<&Out> = kept.iter().copied().flatten().collect();
            let (source, parameters) = (&other, &parameters[..]);
            kernel.forward::<f32>(&task, sdk::EdgeForward { source, target, parameters, output, kept: &kept })
        }
        (EdgeKind::Targets, &[target, ref kept @ .., gradient], &[target_gradient, Some(passed)]) => kernel
            .backward_targets::<f32>(
            &task,
            sdk::BackwardTargets {
                source: &other,
                target,
                kept,
                parameters: &parameters,
                gradient,
                target_gradient,
                parameter_gradients: &sums,
                passed,
            },
        ),
        (EdgeKind::Sources, &[source], &[Some(source_gradient)]) => {
            let (passed, parameters) = (&other, &parameters[..]);
            kernel.backward_sources::<f32>(
                &task,
                sdk::BackwardSources { source, passed, parameters, source_gradient },
            )
        }
        _ => Err(sdk::Error::Argument("the call lacks rows".to_owned())),
    }
}

/// A task's tables while its kernel runs; dropped, it gives them back.
struct Lent {
    state: Option<Box<State>>,
    back: Rc<Cell<Option<Box<State>>>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.back.set(self.state.take());
    }
}

impl Lent {
    fn state(&mut self) -> sdk::Result<&mut State> {
        self.state.as_deref_mut().ok_or_else(|| sdk::Error::Unsupported("the task is over".to_owned()))
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut State) -> std::result::Result<T, Failure>) -> sdk::Result<T> {
        f(self.state()?).map_err(failed)
    }
}

fn failed(f: Failure) -> sdk::Error {
    match f {
        Failure::Shape { operation, operand, expected, found } => {
            sdk::Error::Shape { operation, operand, expected, found }
        }
        Failure::Argument(text) => sdk::Error::Argument(text),
        Failure::Limit { limit, unit, allowed, asked } => {
            sdk::Error::Limit { limit: limit.to_owned(), unit: unit.to_owned(), allowed, asked }
        }
        Failure::Deadline(text) => sdk::Error::Deadline(text),
        Failure::OutOfTime => sdk::Error::Deadline("the task's time is over".to_owned()),
        Failure::Unsupported(text) => sdk::Error::Unsupported(text),
    }
}

fn reported(e: sdk::Error) -> types::Error {
    match e {
        sdk::Error::Shape { operation, operand, expected, found } => {
            types::Error::Shape(types::ShapeMismatch { operation, operand, expected, found })
        }
        sdk::Error::Argument(text) => types::Error::Argument(text),
        sdk::Error::Limit { limit, unit, allowed, asked } => {
            types::Error::Limit(types::LimitReached { limit, unit, allowed, asked })
        }
        sdk::Error::Deadline(text) => types::Error::Deadline(text),
        sdk::Error::Unsupported(text) => types::Error::Unsupported(text),
        sdk::Error::Kernel(text) => types::Error::Kernel(text),
    }
}

fn activation(a: sdk::Activation) -> Activation {
    match a {
        sdk::Activation::Identity => Activation::Identity,
        sdk::Activation::Relu => Activation::Relu,
        sdk::Activation::LeakyRelu(slope) => Activation::LeakyRelu(slope),
        sdk::Activation::Elu(alpha) => Activation::Elu(alpha),
        sdk::Activation::Sigmoid => Activation::Sigmoid,
        sdk::Activation::Tanh => Activation::Tanh,
    }
}

fn before(b: op::Before<'_>) -> Before {
    Before {
        bias: b.bias.map(|m| m.handle),
        activation: activation(b.activation),
        dropout: b.dropout.map(|d| (d.probability, d.stream)),
    }
}

fn after(a: op::After<'_>) -> After {
    After { bias: a.bias.map(|m| m.handle), activation: activation(a.activation) }
}

fn function(by: sdk::Function) -> Function {
    match by {
        sdk::Function::Exp => Function::Exp,
        sdk::Function::Log => Function::Log,
        sdk::Function::Sqrt => Function::Sqrt,
        sdk::Function::Reciprocal => Function::Reciprocal,
        sdk::Function::Absolute => Function::Absolute,
        sdk::Function::Power(p) => Function::Power(p),
    }
}

fn reduction(by: sdk::Reduction) -> Reduction {
    match by {
        sdk::Reduction::Sum => Reduction::Sum,
        sdk::Reduction::Mean => Reduction::Mean,
        sdk::Reduction::Max => Reduction::Max,
    }
}

fn operate(state: &mut State, op: Op<'_>) -> std::result::Result<(), Failure> {
    match op {
        Op::Matmul { batched: false, a, transpose_a, b, transpose_b, accumulate, into } => {
            state.matmul(a.handle, transpose_a, b.handle, transpose_b, accumulate, into.handle)
        }
        Op::Matmul { batched: true, a, transpose_a, b, transpose_b, accumulate, into } => {
            state.batched_matmul(a.handle, transpose_a, b.handle, transpose_b, accumulate, into.handle)
        }
        Op::Linear { x, before: b, w, after: a, into } => {
            state.linear(x.handle, before(b), w.handle, after(a), into.handle)
        }
        Op::LinearBackward {
            x,
            before: b,
            w,
            after: a,
            y,
            grad,
            grad_x,
            grad_before_bias,
            grad_w,
            grad_after_bias,
        } => {
            let wanted = Gradients {
                x: grad_x.map(|o| o.handle),
                before_bias: grad_before_bias.map(|o| o.handle),
                w: grad_w.map(|o| o.handle),
                after_bias: grad_after_bias.map(|o| o.handle),
            };
            let y = y.map(|m| m.handle);
            state.linear_backward(x.handle, before(b), w.handle, after(a), y, grad.handle, wanted)
        }
        Op::Apply { x, by, into } => state.apply(x.handle, before(by), into.handle),
        Op::ApplyBackward { x, by, grad, into } => {
            state.apply_backward(x.handle, before(by), grad.handle, into.handle)
        }
        Op::Axpby { alpha, x, beta, y, into } => state.axpby(alpha, x.handle, beta, y.handle, into.handle),
        Op::Multiply { x, y, into } => state.multiply(x.handle, y.handle, into.handle),
        Op::Elementwise { x, by, into } => state.elementwise(x.handle, function(by), into.handle),
        Op::ElementwiseBackward { x, by, grad, into } => {
            state.elementwise_backward(x.handle, function(by), grad.handle, into.handle)
        }
        Op::SoftmaxCrossEntropy { x, labels, rows, weight, losses, grad } => {
            state.cross_entropy(x.handle, labels.handle, rows.handle, weight, losses.handle, grad.handle)
        }
        Op::Softmax { x, into } => state.softmax(x.handle, into.handle),
        Op::GatherRows { x, rows, into } => state.gather_rows(x.handle, rows.handle, into.handle),
        Op::ScatterAddRows { x, rows, into } => state.scatter_add_rows(x.handle, rows.handle, into.handle),
        Op::Inner { x, y, into } => state.inner(x.handle, y.handle, into.handle),
        Op::Scale { x, by, into } => state.scale(x.handle, by.handle, into.handle),
        Op::SoftmaxSegments { x, offsets, state: to } => {
            state.softmax_segments(x.handle, offsets.handle, to.handle)
        }
        Op::SoftmaxValues { x, state: of, into } => state.softmax_values(x.handle, of.handle, into.handle),
        Op::SumRows { x, into } => state.sum_rows(x.handle, into.handle),
        Op::ReduceColumns { x, by, into } => state.reduce_columns(x.handle, reduction(by), into.handle),
        Op::ReduceSegments { x, offsets, by, into } => {
            state.reduce_segments(x.handle, offsets.handle, reduction(by), into.handle)
        }
        Op::Permute { x, order, into } => state.permute(x.handle, order, into.handle),
        Op::Concat { parts, into } => {
            let parts: Vec<u32> = parts.iter().map(|part| part.handle).collect();
            state.concat(&parts, into.handle)
        }
        Op::PlaceColumns { x, at, into } => state.place_columns(x.handle, at, into.handle),
        Op::SoftmaxMasked { x, causal, scale, into } => {
            state.softmax_masked(x.handle, causal, scale, into.handle)
        }
        Op::SoftmaxBackward { y, grad, scale, into } => {
            state.softmax_backward(y.handle, grad.handle, scale, into.handle)
        }
        Op::ScatterSum { x, rows, into } => state.scatter_sum(x.handle, rows.handle, into.handle),
        Op::Patches { x, by, into } => state.patches(x.handle, window(by), into.handle),
        Op::PatchesSum { x, by, into } => state.patches_sum(x.handle, window(by), into.handle),
        Op::Pool { x, by, with, into } => state.pool(x.handle, window(by), reduction(with), into.handle),
        Op::PoolBackward { x, by, with, grad, into } => {
            state.pool_backward(x.handle, window(by), reduction(with), grad.handle, into.handle)
        }
        Op::Smoothed { x, by, into } => state.smoothed(x.handle, smooth(by), into.handle),
        Op::SmoothedBackward { x, by, grad, into } => {
            state.smoothed_backward(x.handle, smooth(by), grad.handle, into.handle)
        }
    }
}

fn window(by: sdk::Windows) -> Window {
    let sdk::Windows { kernel, stride, padding, dilation } = by;
    Window { kernel, stride, padding, dilation }
}

fn smooth(by: sdk::Smooth) -> Smooth {
    match by {
        sdk::Smooth::Gelu => Smooth::Gelu,
        sdk::Smooth::GeluTanh => Smooth::GeluTanh,
        sdk::Smooth::Silu => Smooth::Silu,
        sdk::Smooth::Softplus => Smooth::Softplus,
    }
}

impl Host for Lent {
    fn shape(&mut self, matrix: u32) -> Vec<u32> {
        self.with(|s| Ok(s.matrix(matrix)?.shape())).unwrap_or_default()
    }

    fn rows(&mut self, matrix: u32, start: u32, count: u32) -> sdk::Result<u32> {
        self.with(|s| {
            let view = s.matrix(matrix)?.slice_rows(start as usize, count as usize)?;
            s.push_matrix(view)
        })
    }

    fn columns(&mut self, matrix: u32, start: u32, count: u32) -> sdk::Result<u32> {
        self.with(|s| {
            let view = s.matrix(matrix)?.slice_columns(start as usize, count as usize)?;
            s.push_matrix(view)
        })
    }

    fn reshape(&mut self, matrix: u32, shape: &[u32]) -> sdk::Result<u32> {
        self.with(|s| {
            let view = s.matrix(matrix)?.reshape(shape)?;
            s.push_matrix(view)
        })
    }

    fn split_rows(&mut self, matrix: u32, t: u32) -> sdk::Result<u32> {
        self.with(|s| s.lay_rows(matrix, Laid::Split(t)))
    }

    fn group_rows(&mut self, matrix: u32, t: u32) -> sdk::Result<u32> {
        self.with(|s| s.lay_rows(matrix, Laid::Grouped(t)))
    }

    fn split_out(&mut self, out: u32, t: u32) -> sdk::Result<u32> {
        self.with(|s| s.lay_out(out, Laid::Split(t)))
    }

    fn group_out(&mut self, out: u32, t: u32) -> sdk::Result<u32> {
        self.with(|s| s.lay_out(out, Laid::Grouped(t)))
    }

    fn arrived(&mut self, matrix: u32, after: u32) -> sdk::Result<u32> {
        self.with(|s| {
            let deadline = Some(s.limits.arrival);
            Ok(s.matrix(matrix)?.arrived(after as usize, deadline)? as u32)
        })
    }

    fn read_f32(&mut self, matrix: u32, start: u32, count: u32) -> sdk::Result<Vec<f32>> {
        self.with(|s| s.copy_rows(matrix, start, count))
    }

    fn out_create(&mut self, shape: &[u32]) -> sdk::Result<u32> {
        self.with(|s| s.create_out(shape))
    }

    fn out_shape(&mut self, out: u32) -> Vec<u32> {
        self.with(|s| s.out_shape(out)).unwrap_or_default()
    }

    fn out_rows(&mut self, out: u32, start: u32, count: u32) -> sdk::Result<u32> {
        self.with(|s| s.out_rows(out, start, count))
    }

    fn out_finish(&mut self, out: u32) -> sdk::Result<u32> {
        self.with(|s| s.finish_out(out))
    }

    fn write_f32(&mut self, out: u32, start: u32, values: &[f32]) -> sdk::Result<()> {
        self.with(|s| s.put_rows(out, start, values))
    }

    fn ids_create(&mut self, values: &[u32]) -> sdk::Result<u32> {
        self.with(|s| s.create_ids(values.to_vec()))
    }

    fn ids_len(&mut self, ids: u32) -> u32 {
        self.with(|s| Ok(s.ids(ids)?.len() as u32)).unwrap_or_default()
    }

    fn ids_read(&mut self, ids: u32, start: u32, count: u32) -> sdk::Result<Vec<u32>> {
        self.with(|s| s.read_ids(ids, start, count))
    }

    fn random_key(&mut self, stream: u32) -> u64 {
        self.with(|s| Ok(s.key(Purpose::Kernel, stream).0)).unwrap_or_default()
    }

    fn row_ids(&mut self, start: u32, count: u32) -> sdk::Result<Vec<u64>> {
        self.with(|s| s.list_rows(start, count))
    }

    fn row_weights(&mut self) -> sdk::Result<Option<u32>> {
        self.with(State::ask_row_weights)
    }

    fn call(&mut self, op: Op<'_>) -> sdk::Result<()> {
        self.with(|s| operate(s, op))
    }

    fn log(&mut self, text: &str) {
        if let Ok(state) = self.state() {
            state.log_line(Level::Info, text);
        }
    }

    fn release(&mut self, kind: Handle, handle: u32) {
        let Ok(state) = self.state() else { return };
        match kind {
            Handle::Matrix => drop(state.matrices.take(handle)),
            Handle::Out => drop(state.outs.take(handle)),
            Handle::Ids => drop(state.ids.take(handle)),
        }
    }
}
