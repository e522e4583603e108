//! Running instance of a kernel. An instance is reused for later tasks, which do not see the
//! handles of earlier ones. It is dropped after a trap.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use eciton_types::signature::{AttributeSpec, Signature};
use wasmtime::component::ResourceAny;
use wasmtime::{ResourceLimiter, Store};

use crate::bindings::VertexKernel;
use crate::bindings::eciton::kernel::types;
use crate::bindings::edge::EdgeKernel;
use crate::call::{Call, CallStep, EdgeCall, EdgeKind, Kind, VertexCall};
use crate::edges::EdgeRun;
use crate::error::{Error, GuestError, Result};
use crate::lend::{lend, promise, settle};
use crate::limits::Limits;
use crate::runtime::{Kernel, Layer, Pre, plain_attributes, plain_edge_signature, plain_signature};
use crate::slots::Slots;
use crate::state::{Finished, State};

impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = self.limits.guest_memory_bytes;
        let fits = desired as u64 <= allowed;
        if !fits {
            self.limit_hit =
                Some(format!("limit guest-memory: {desired} bytes asked for, {allowed} allowed"));
        }
        self.memory_bytes = self.memory_bytes.max(if fits { desired } else { current });
        Ok(fits)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= 20_000;
        if !fits {
            self.limit_hit = Some(format!("limit table-elements: {desired} asked for, 20000 allowed"));
        }
        Ok(fits)
    }
}

/// Exported functions of an instance, which has a vertex kernel or an edge kernel.
enum Exports {
    Rows(VertexKernel),
    Edges(EdgeKernel),
}

/// Running instance of a kernel, with its linear memory and its open layers. Only one thread uses
/// it at a time.
pub struct Instance {
    store: Store<State>,
    /// Tick counter of the runtime. Host functions compare it with the task's deadline.
    clock: Arc<AtomicU64>,
    exports: Exports,
    layers: Vec<(Arc<Layer>, ResourceAny)>,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Instance({} layers)", self.layers.len())
    }
}

/// Maximum number of layers that an instance keeps open. When the number is reached, the oldest
/// layer is closed.
const OPEN_LAYERS: usize = 256;

impl Instance {
    /// Creates an instance of the kernel `kernel` with a new linear memory.
    pub fn new(kernel: &Kernel) -> Result<Self> {
        let runtime = kernel.runtime();
        let mut store = Store::new(runtime.engine(), State::new(runtime.limits().clone()));
        store.limiter(|s| s);
        let clock = runtime.clock().clone();
        let time = ticks(runtime.limits().task_time);
        store.set_epoch_deadline(time);
        store.data_mut().ends(&clock, time);
        store.epoch_deadline_trap();
        store.set_hostcall_fuel(usize::try_from(runtime.limits().call_bytes).unwrap_or(usize::MAX));
        let made = match kernel.pre() {
            Pre::Rows(pre) => pre.instantiate(&mut store).map(Exports::Rows),
            Pre::Edges(pre) => pre.instantiate(&mut store).map(Exports::Edges),
        };
        let exports = match made {
            Ok(b) => b,
            // An export has a type other than the contract's, which is neither a trap nor a limit.
            Err(e) if e.downcast_ref::<wasmtime::Trap>().is_none() && store.data().limit_hit.is_none() => {
                return Err(crate::engine::unfit(kernel.name(), &e));
            }
            Err(e) => return Err(trap(kernel.name(), "instantiation", &e, store.data())),
        };
        Ok(Self { store, clock, exports, layers: Vec::new() })
    }

    fn deadline(&mut self) {
        let time = ticks(self.store.data().limits.task_time);
        self.store.set_epoch_deadline(time);
        self.store.data_mut().ends(&self.clock, time);
    }

    /// Returns an error if the kernel still has handles after a call of the function `place`, which
    /// received none.
    fn kept_none(&mut self, name: &str, place: &str) -> Result<()> {
        match self.store.data().handles() {
            0 => Ok(()),
            kept => Err(promise(
                name,
                place,
                format!("the kernel still holds {kept} handles after the call; drop all handles"),
            )),
        }
    }

    pub(crate) fn attributes(&mut self, kernel: &Kernel) -> Result<Vec<AttributeSpec>> {
        self.deadline();
        let specs = match &self.exports {
            Exports::Rows(of) => of.eciton_kernel_vertex().call_attributes(&mut self.store),
            Exports::Edges(of) => of.eciton_kernel_edge().call_attributes(&mut self.store),
        };
        let specs = specs
            .map(plain_attributes)
            .map_err(|e| trap(kernel.name(), "attributes", &e, self.store.data()))?;
        self.kept_none(kernel.name(), "attributes")?;
        Ok(specs)
    }

    pub(crate) fn signature(&mut self, layer: &Layer) -> Result<Signature> {
        let handle = self.open(layer)?;
        let store = &mut self.store;
        let signature = match &self.exports {
            Exports::Rows(of) => {
                of.eciton_kernel_vertex().layer().call_signature(store, handle).map(plain_signature)
            }
            Exports::Edges(of) => {
                of.eciton_kernel_edge().layer().call_signature(store, handle).map(plain_edge_signature)
            }
        };
        let name = layer.kernel().name();
        let signature = signature.map_err(|e| trap(name, "signature", &e, self.store.data()))?;
        self.kept_none(name, "signature")?;
        Ok(signature)
    }

    fn open(&mut self, layer: &Layer) -> Result<ResourceAny> {
        self.deadline();
        let name = layer.kernel().name();
        let (store, attributes) = (&mut self.store, layer.attributes());
        let opened = match (&self.exports, layer.inputs()) {
            (Exports::Rows(of), inputs) => {
                of.eciton_kernel_vertex().layer().call_open(store, inputs, &attributes)
            }
            (Exports::Edges(of), [source, target, known @ ..]) if known.len() < 2 => {
                let features = layer.edge_features();
                of.eciton_kernel_edge().layer().call_open(store, source, target, features, &attributes)
            }
            (Exports::Edges(_), inputs) => {
                let text = format!(
                    "an edge kernel reads two inputs, source and target, but the layer has {} (set `on = \"edges\"` in the layer)",
                    inputs.len()
                );
                return Err(guest(name, "open", types::Error::Argument(text)));
            }
        };
        match opened {
            Ok(Ok(handle)) => {
                self.kept_none(name, "open")?;
                Ok(handle)
            }
            Ok(Err(e)) => {
                let mut error = guest(name, "open", e);
                if let Error::Guest { error, .. } = &mut error {
                    error.text.push_str(&layer.given());
                }
                Err(error)
            }
            Err(e) => Err(trap(name, "open", &e, self.store.data())),
        }
    }

    fn layer(&mut self, layer: &Arc<Layer>) -> Result<ResourceAny> {
        if let Some((_, handle)) = self.layers.iter().find(|(l, _)| Arc::ptr_eq(l, layer)) {
            return Ok(*handle);
        }
        let handle = self.open(layer)?;
        if self.layers.len() == OPEN_LAYERS {
            let (_, oldest) = self.layers.remove(0);
            oldest
                .resource_drop(&mut self.store)
                .map_err(|e| trap(layer.kernel().name(), "drop", &e, self.store.data()))?;
        }
        self.layers.push((layer.clone(), handle));
        Ok(handle)
    }

    /// Runs an edge kernel block by block. The limits of a call apply to each block. After an error
    /// the instance must not be used again.
    pub(crate) fn run_edges(&mut self, layer: &Arc<Layer>, call: EdgeCall) -> Result<Finished> {
        let handle = self.layer(layer)?;
        let (name, place) = (layer.kernel().name(), call.kind.name());
        let at = || format!("kernel `{name}`, {place}");
        let host = |source| Error::Tensor { place: at(), source };
        let mut run = EdgeRun::new(self.store.data_mut(), call).map_err(host)?;
        while let Some(args) = run.next(self.store.data_mut()).map_err(host)? {
            self.deadline();
            let Exports::Edges(of) = &self.exports else { return Err(wrong_kind(name, place)) };
            let (of, store) = (of.eciton_kernel_edge().layer(), &mut self.store);
            let (task, lists, other, mut own) = (args.task, args.lists, args.other, args.own.into_iter());
            let (parameters, mut out) = (&args.parameters, args.rows_out.into_iter());
            let missing = || promise(name, place, "the call lacks rows".to_owned());
            let mut read = || own.next().ok_or_else(missing);
            let mut write = || out.next().ok_or_else(missing);
            let result = match run.kind() {
                EdgeKind::Forward => {
                    let (target, output) = (read()?, write()?.ok_or_else(missing)?);
                    let kept: Vec<_> = out.flatten().collect();
                    of.call_forward(store, handle, task, lists, other, target, parameters, output, &kept)
                }
                EdgeKind::Targets => {
                    let target = read()?;
                    let mut kept: Vec<_> = own.collect();
                    let gradient = kept.pop().ok_or_else(missing)?;
                    let (to, passed) = (write()?, write()?.ok_or_else(missing)?);
                    let sums = &args.sums_out;
                    of.call_backward_targets(
                        store, handle, task, lists, other, target, &kept, parameters, gradient, to, sums,
                        passed,
                    )
                }
                EdgeKind::Sources => {
                    let (source, to) = (read()?, write()?.ok_or_else(missing)?);
                    of.call_backward_sources(store, handle, task, lists, source, other, parameters, to)
                }
            };
            match result {
                Ok(Ok(())) => {}
                Ok(Err(e)) => return Err(guest(name, place, e)),
                Err(e) => return Err(trap(name, place, &e, self.store.data())),
            }
            run.settle(self.store.data_mut(), name, 0)?;
        }
        Ok(run.finish(self.store.data_mut()))
    }

    /// Runs a function of a vertex kernel. After an error the instance must not be used again.
    pub(crate) fn run_vertex(&mut self, layer: &Arc<Layer>, call: VertexCall) -> Result<Finished> {
        call.check_row_weights(layer.kernel())?;
        let handle = self.layer(layer)?;
        self.store.data_mut().reset();
        let name = layer.kernel().name();
        let place = call.kind.name();
        let kind = call.kind;
        let args = lend(self.store.data_mut(), call)
            .map_err(|source| Error::Tensor { place: format!("kernel `{name}`, {place}"), source })?;
        self.deadline();
        let Exports::Rows(of) = &self.exports else { return Err(wrong_kind(name, place)) };
        let vertex = of.eciton_kernel_vertex().layer();
        let store = &mut self.store;
        let result = match kind {
            Kind::Forward => {
                let split = args.outputs.min(args.rows_out.len());
                let mut outs: Vec<_> = args.rows_out.into_iter().flatten().collect();
                let kept = outs.split_off(split);
                vertex.call_forward(store, handle, args.task, &args.inputs, &args.parameters, &outs, &kept)
            }
            Kind::Backward => vertex.call_backward(
                store,
                handle,
                args.task,
                &args.inputs,
                &args.forward_outputs,
                &args.kept,
                &args.parameters,
                &args.gradients,
                &args.rows_out,
                &args.sums_out,
            ),
            Kind::Loss => {
                let mut sums = args.sums_out;
                match (args.labelled, sums.pop()) {
                    (Some((targets, rows, weight)), Some(loss)) => vertex.call_loss(
                        store,
                        handle,
                        args.task,
                        &args.inputs,
                        &args.parameters,
                        targets,
                        rows,
                        weight,
                        loss,
                        &args.rows_out,
                        &sums,
                    ),
                    _ => return Err(promise(name, place, "loss was called without targets".to_owned())),
                }
            }
        };
        match result {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(guest(name, place, e)),
            Err(e) => return Err(trap(name, place, &e, self.store.data())),
        }
        settle(self.store.data_mut(), name, place, 0)
    }
}

fn wrong_kind(kernel: &str, place: &str) -> Error {
    promise(kernel, place, "it has the other domain (vertex rows or edges)".to_owned())
}

fn ticks(time: Duration) -> u64 {
    // One tick is added, because the first tick may follow at once.
    u64::try_from(time.as_nanos().div_ceil(Limits::TICK.as_nanos())).unwrap_or(u64::MAX / 2).saturating_add(1)
}

pub(crate) fn guest(kernel: &str, place: &str, e: types::Error) -> Error {
    let (kind, text) = match e {
        types::Error::Shape(s) => (
            "shape",
            format!("{}: {} has extents {:?}, expected {:?}", s.operation, s.operand, s.found, s.expected),
        ),
        types::Error::Argument(t) => ("argument", t),
        types::Error::Limit(l) => {
            ("limit", format!("{}: {} {} asked for, {} allowed", l.limit, l.asked, l.unit, l.allowed))
        }
        types::Error::Deadline(t) => ("deadline", t),
        types::Error::Unsupported(t) => ("unsupported", t),
        types::Error::Kernel(t) => ("kernel", t),
    };
    let text = eciton_input::text::message(&text).into_owned();
    Error::Guest { kernel: kernel.to_owned(), place: place.to_owned(), error: GuestError { kind, text } }
}

fn trap(kernel: &str, place: &str, e: &wasmtime::Error, state: &State) -> Error {
    use wasmtime::Trap;
    let code = e.downcast_ref::<Trap>().copied();
    let reason = match (code, &state.panic, &state.limit_hit) {
        (Some(Trap::Interrupt), _, _) => {
            format!("limit task-time: it ran for more than {} ms", state.limits.task_time.as_millis())
        }
        (_, _, Some(limit)) => limit.clone(),
        (_, Some(panic), None) => panic.clone(),
        (Some(Trap::StackOverflow), _, _) => {
            "limit stack: more than 1048576 bytes (endless recursion?)".to_owned()
        }
        (Some(Trap::MemoryOutOfBounds), None, None) => {
            format!("{} (recursion that is too deep has the same effect)", Trap::MemoryOutOfBounds)
        }
        (Some(trap), None, None) => trap.to_string(),
        (None, None, None) => match e.root_cause().to_string() {
            // wasmtime's error text for the limit that `set_hostcall_fuel` sets.
            text if text.contains("fuel allocated for hostcalls") => format!(
                "limit call-bytes: more than {} bytes handed to the host in one call",
                state.limits.call_bytes
            ),
            text => text,
        },
    };
    Error::Trap { kernel: kernel.to_owned(), place: place.to_owned(), reason }
}

/// Kernel instances of one thread, at most one per kernel.
#[derive(Debug, Default)]
pub struct Instances {
    warm: Vec<(Arc<Kernel>, Instance)>,
    fresh: bool,
}

impl Instances {
    /// Creates an empty set of instances. If `fresh` is true, each step runs on a new instance.
    pub fn new(fresh: bool) -> Self {
        Self { fresh, ..Self::default() }
    }

    /// Drops all instances and their memory.
    pub fn clear(&mut self) {
        self.warm.clear();
    }

    /// Runs the steps of a call in order on the instances of this thread. New instances are created
    /// as needed, and the instance of a failed step is dropped.
    ///
    /// # Errors
    /// Returns [`Error::Wire`] if the call is inconsistent or asks this process to store rows.
    /// Otherwise returns the error of the step that failed.
    pub fn run(&mut self, call: Call) -> Result<Finished> {
        let (mut slots, steps) = Slots::new(call)?;
        let mut all = Finished::default();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                CallStep::Gather(gather) => slots.gather(&gather)?,
                CallStep::Vertex(layer, call) => {
                    let call = call.with(&mut slots, Slots::matrix, Slots::target)?;
                    all.add(self.on(&layer, |instance| instance.run_vertex(&layer, call))?);
                }
                CallStep::Edges(layer, call) => {
                    let call = call.with(&mut slots, Slots::matrix, Slots::target)?;
                    all.add(self.on(&layer, |instance| instance.run_edges(&layer, call))?);
                }
            }
            slots.end(at);
        }
        slots.finish()?;
        Ok(all)
    }

    fn on(&mut self, layer: &Layer, run: impl FnOnce(&mut Instance) -> Result<Finished>) -> Result<Finished> {
        if self.fresh {
            return run(&mut Instance::new(layer.kernel())?);
        }
        let at = match self.warm.iter().position(|(k, _)| Arc::ptr_eq(k, layer.kernel())) {
            Some(at) => at,
            None => {
                self.warm.push((layer.kernel().clone(), Instance::new(layer.kernel())?));
                self.warm.len() - 1
            }
        };
        let result = run(&mut self.warm[at].1);
        if result.is_err() {
            self.warm.swap_remove(at);
        }
        result
    }
}
