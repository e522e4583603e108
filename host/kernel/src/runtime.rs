//! WebAssembly engine that all kernels of a process share, and the kernels that it has loaded.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use eciton_types::On;
use eciton_types::signature::{
    Attribute, AttributeSpec, EdgeSignature, Initialiser, ParameterSpec, RowsSpec, SIGNS, Signature,
    TargetKind, Value,
};
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::artefact::{self, Verifier};
use crate::bindings::edge::EdgeKernelPre;
use crate::bindings::edge::exports::eciton::kernel::edge as we;
use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::bindings::{VertexKernel, VertexKernelPre};
use crate::cache::Cache;
use crate::engine;
use crate::error::{Error, Refusal, Result};
use crate::instance::Instance;
use crate::limits::Limits;
use crate::state::State;

/// Settings of a [`Runtime`], which are the resource limits of kernels and the cache of compiled
/// code.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Resource limits that apply to every kernel.
    pub limits: Limits,
    /// Cache of compiled code on disk. If `None`, or in a build without a compiler, compiled code
    /// is not cached.
    pub cache: Option<Cache>,
}

/// WebAssembly engine with its limits and its cache of compiled code. All kernels of a process
/// share one runtime.
#[derive(Clone)]
pub struct Runtime {
    engine: Engine,
    linker: Arc<Linker<State>>,
    limits: Limits,
    /// Number of clock ticks so far. Host functions compare it with the deadlines of tasks.
    clock: Arc<AtomicU64>,
    cache: Option<Cache>,
    /// First error that occurred when compiled code was written to the cache.
    cache_fault: Arc<OnceLock<Error>>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:?}, cache {:?})", self.limits, self.cache.is_some())
    }
}

impl Runtime {
    /// Creates the WebAssembly engine. No component is compiled yet.
    pub fn new(settings: Settings) -> Result<Self> {
        let limits = settings.limits;
        let engine = engine::local()?;
        let mut linker = Linker::new(&engine);
        VertexKernel::add_to_linker::<_, HasSelf<_>>(&mut linker, |s| s).map_err(engine::error("linking"))?;
        crate::log::add_to_linker(&mut linker)?;
        Ok(Self {
            engine,
            linker: Arc::new(linker),
            limits,
            clock: Arc::default(),
            cache: settings.cache,
            cache_fault: Arc::default(),
        })
    }

    /// Returns the resource limits that apply to every kernel.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Advances the clock that interrupts guests after their deadline. The owner of the runtime
    /// must call this function every [`Limits::TICK`].
    pub fn tick(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.engine.increment_epoch();
    }

    /// Returns the tick counter that [`Runtime::tick`] advances.
    pub(crate) fn clock(&self) -> &Arc<AtomicU64> {
        &self.clock
    }

    /// Loads signed compiled code as the kernel `name`. `digest` is the SHA-256 digest of the
    /// component that the code must be compiled from. The engine reads the code only after its
    /// signature has been verified under `trusted`.
    ///
    /// # Errors
    /// Returns [`Error::Artefact`] with the reason if the code is refused. Returns
    /// [`Error::Contract`] and [`Error::Trap`] in the same cases as `Runtime::load`.
    pub fn load_artefact(
        &self,
        name: &str,
        digest: &[u8; 32],
        sealed: &[u8],
        trusted: &Verifier,
    ) -> Result<Arc<Kernel>> {
        let refuse = |source| Error::Artefact { kernel: name.to_owned(), source };
        let verified = artefact::open(sealed, trusted).map_err(refuse)?;
        verified.fits(digest).map_err(refuse)?;
        // SAFETY: the signature proves that the deployer's compiler made this code.
        let component = unsafe { Component::deserialize(&self.engine, verified.code()) }
            .map_err(|e| refuse(Refusal::Code { reason: format!("{e:#}") }))?;
        self.kernel(name, *digest, &component)
    }

    /// Creates a kernel from compiled code, after a check that the component fulfils the contract.
    pub(crate) fn kernel(&self, name: &str, digest: [u8; 32], compiled: &Component) -> Result<Arc<Kernel>> {
        let kept = crate::check::contract(name, &self.engine, compiled)?;
        let pre = self.linker.instantiate_pre(compiled).and_then(|pre| match kept.on {
            On::Rows => VertexKernelPre::new(pre).map(Pre::Rows),
            On::Edges => EdgeKernelPre::new(pre).map(Pre::Edges),
        });
        let pre = pre.map_err(|e| engine::unfit(name, &e))?;
        let mut kernel = Kernel {
            name: name.to_owned(),
            digest,
            runtime: self.clone(),
            pre,
            asks: kept.asks,
            attributes: Vec::new(),
        };
        let mut instance = Instance::new(&kernel)?;
        kernel.attributes = instance.attributes(&kernel)?;
        Ok(Arc::new(kernel))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    #[cfg(feature = "compiler")]
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Records that compiled code could not be written to the cache.
    #[cfg(feature = "compiler")]
    pub(crate) fn cache_failed(&self, error: Error) {
        // Only the first error is reported, because later ones usually have the same cause.
        let _ = self.cache_fault.set(error);
    }

    /// Returns the first error that occurred when compiled code was written to the cache, or
    /// `None`. Kernels run in spite of it, but the next process compiles them again.
    pub fn cache_fault(&self) -> Option<&Error> {
        self.cache_fault.get()
    }
}

/// Component that is linked and ready for instantiation, as a vertex kernel or an edge kernel.
pub(crate) enum Pre {
    Rows(VertexKernelPre<State>),
    Edges(EdgeKernelPre<State>),
}

/// Compiled kernel that fulfils the contract and is ready for instantiation.
pub struct Kernel {
    name: String,
    digest: [u8; 32],
    runtime: Runtime,
    pre: Pre,
    /// True if the component imports the interface `given`, which provides the loss weights of
    /// rows.
    asks: bool,
    attributes: Vec<AttributeSpec>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

impl Kernel {
    /// Returns the name of the kernel, which error messages contain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the SHA-256 digest of the component that the kernel was compiled from.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns the attributes that the kernel accepts, with their default values.
    pub fn attributes(&self) -> &[AttributeSpec] {
        &self.attributes
    }

    /// Returns the resource limits that apply to the kernel.
    pub fn limits(&self) -> &Limits {
        self.runtime.limits()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn pre(&self) -> &Pre {
        &self.pre
    }

    /// Returns the domain of the kernel, which is vertex rows or edges.
    pub fn on(&self) -> On {
        match self.pre {
            Pre::Rows(_) => On::Rows,
            Pre::Edges(_) => On::Edges,
        }
    }

    /// Returns true if the kernel's loss supports rows of different weight
    /// ([`Labelled::row_weights`]). It does if the component imports the interface `given`, which
    /// the contract has since version 0.1.2.
    ///
    /// [`Labelled::row_weights`]: crate::Labelled::row_weights
    pub fn weighs_rows(&self) -> bool {
        self.asks
    }

    /// Returns an error if the kernel's loss ignores the weights of rows.
    ///
    /// # Errors
    /// Returns [`Error::Promise`] if [`Kernel::weighs_rows`] is false.
    pub fn must_weigh_rows(&self) -> Result<()> {
        if self.asks {
            return Ok(());
        }
        Err(Error::Promise {
            kernel: self.name.clone(),
            place: "loss".to_owned(),
            reason: "the rows of the run have different weights, but the component does not import \
                     `eciton:kernel/given`, from which a loss reads the weights (contract 0.1.2); rebuild it with an \
                     SDK that has this interface, or remove the weights"
                .to_owned(),
        })
    }

    /// Configures the kernel as a layer. `inputs` lists the extents of one row of each input. For
    /// an edge kernel these are the source, the target and, if the model has them, the edge
    /// features. Attributes that are not listed have the kernel's default values.
    pub fn open(self: &Arc<Self>, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Arc<Layer>> {
        let refuse = |text: String| Error::Guest {
            kernel: self.name.clone(),
            place: "open".to_owned(),
            error: crate::GuestError { kind: "argument", text },
        };
        let known: Vec<&str> = self.attributes.iter().map(|a| a.name.as_str()).collect();
        if let Some(unknown) = attributes.iter().find(|a| !known.contains(&a.name.as_str())) {
            let all = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(refuse(format!("it has no attribute `{}`; it has {all}", unknown.name)));
        }
        let mut all = Vec::with_capacity(self.attributes.len());
        for spec in &self.attributes {
            let given = attributes.iter().find(|a| a.name == spec.name).map(|a| a.value.clone());
            let Some(value) = given.or_else(|| spec.default.clone()) else {
                return Err(refuse(format!("attribute `{}` must be given: {}", spec.name, spec.meaning)));
            };
            all.push(Attribute { name: spec.name.clone(), value });
        }
        let mut layer = Layer {
            kernel: self.clone(),
            inputs: inputs.to_vec(),
            attributes: all,
            signature: Signature::default(),
        };
        layer.signature = Instance::new(self)?.signature(&layer)?;
        Ok(Arc::new(layer))
    }
}

/// Kernel that is configured with attributes and with the extents of its inputs.
#[derive(Debug)]
pub struct Layer {
    kernel: Arc<Kernel>,
    inputs: Vec<Vec<u32>>,
    attributes: Vec<Attribute>,
    signature: Signature,
}

impl Layer {
    /// Returns the kernel of the layer.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns the signature of the layer, which describes its inputs, outputs, parameters and
    /// requirements.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn inputs(&self) -> &[Vec<u32>] {
        &self.inputs
    }

    /// Returns the number of features per edge that the edge kernel reads, or 0 if it reads none.
    pub(crate) fn edge_features(&self) -> u32 {
        self.inputs.get(2).map_or(0, |row| row.iter().product())
    }

    /// Returns the input extents and attributes of the layer as text for error messages.
    pub(crate) fn given(&self) -> String {
        let attributes: Vec<String> =
            self.attributes.iter().map(|a| format!("{} = {}", a.name, a.value)).collect();
        format!(" (given: inputs {:?}, {})", self.inputs, attributes.join(", "))
    }

    /// Returns the value of the whole-number attribute `name`, which was given or is the default.
    /// Returns `None` if there is no such attribute.
    pub(crate) fn whole_number(&self, name: &str) -> Option<u32> {
        let found = self.attributes.iter().find(|attribute| attribute.name == name)?;
        if let Value::Integer(number) = found.value { u32::try_from(number).ok() } else { None }
    }

    /// Returns true if the layer reads only the signs and scales of the input or parameter `name`.
    /// Such values may be sent with one bit each.
    #[must_use]
    pub fn reads_signs(&self, name: &str) -> bool {
        let named = |attribute: &Attribute| match &attribute.value {
            Value::Text(names) if attribute.name == SIGNS => names.split_whitespace().any(|one| one == name),
            _ => false,
        };
        self.attributes.iter().any(named)
    }

    pub(crate) fn attributes(&self) -> Vec<wv::Attribute> {
        let value = |v: &Value| match v {
            Value::Integer(v) => wv::Value::Integer(*v),
            Value::Number(v) => wv::Value::Number(*v),
            Value::Text(v) => wv::Value::Text(v.clone()),
            Value::Flag(v) => wv::Value::Flag(*v),
        };
        self.attributes
            .iter()
            .map(|a| wv::Attribute { name: a.name.clone(), value: value(&a.value) })
            .collect()
    }
}

pub(crate) fn plain_attributes(specs: Vec<wv::AttributeSpec>) -> Vec<AttributeSpec> {
    let value = |v| match v {
        wv::Value::Integer(v) => Value::Integer(v),
        wv::Value::Number(v) => Value::Number(v),
        wv::Value::Text(v) => Value::Text(v),
        wv::Value::Flag(v) => Value::Flag(v),
    };
    let plain = |s: wv::AttributeSpec| AttributeSpec {
        name: short(s.name),
        meaning: short(s.meaning),
        default: s.default.map(value),
    };
    specs.into_iter().map(plain).collect()
}

/// Cuts a name or text of a kernel to 200 characters. A cut name is equal to no other name.
fn short(text: String) -> String {
    if text.len() <= eciton_input::text::MAX_TEXT { text } else { eciton_input::text::shown(&text) }
}

fn plain_rows(rows: wv::RowsSpec) -> RowsSpec {
    RowsSpec { name: short(rows.name), extents: rows.extents }
}

fn all_rows(specs: Vec<wv::RowsSpec>) -> Vec<RowsSpec> {
    specs.into_iter().map(plain_rows).collect()
}

fn plain_parameters(specs: Vec<wv::ParameterSpec>) -> Vec<ParameterSpec> {
    let initialiser = |said| match said {
        wv::Initialiser::Zeros => Initialiser::Zeros,
        wv::Initialiser::Constant(v) => Initialiser::Constant(v),
        wv::Initialiser::GlorotUniform => Initialiser::GlorotUniform,
        wv::Initialiser::Uniform(b) => Initialiser::Uniform(b),
    };
    let parameter = |p: wv::ParameterSpec| ParameterSpec {
        name: short(p.name),
        shape: p.shape,
        initialiser: initialiser(p.initialiser),
    };
    specs.into_iter().map(parameter).collect()
}

pub(crate) fn plain_signature(s: wv::Signature) -> Signature {
    Signature {
        inputs: all_rows(s.inputs),
        parameters: plain_parameters(s.parameters),
        outputs: all_rows(s.outputs),
        kept: all_rows(s.kept),
        backward_needs: eciton_types::signature::BackwardNeeds {
            inputs: s.backward_needs.contains(wv::Needs::INPUTS),
            outputs: s.backward_needs.contains(wv::Needs::OUTPUTS),
        },
        loss: s.loss.map(|kind| match kind {
            wv::TargetKind::Classes => TargetKind::Classes,
            wv::TargetKind::Values => TargetKind::Values,
        }),
        edges: None,
    }
}

pub(crate) fn plain_edge_signature(s: we::Signature) -> Signature {
    Signature {
        inputs: vec![plain_rows(s.source), plain_rows(s.target)],
        parameters: plain_parameters(s.parameters),
        outputs: vec![plain_rows(s.output)],
        kept: all_rows(s.kept),
        edges: Some(EdgeSignature { passed: plain_rows(s.passed) }),
        ..Signature::default()
    }
}
