//! The engine that all kernels of a process share, and the kernels that it loaded.
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

/// Settings of a runtime.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Bounds on every kernel.
    pub limits: Limits,
    /// Cache of compiled code. If `None`, or in a build without a compiler, nothing is cached.
    pub cache: Option<Cache>,
}

/// The engine that all kernels of a process share.
#[derive(Clone)]
pub struct Runtime {
    engine: Engine,
    linker: Arc<Linker<State>>,
    limits: Limits,
    /// Ticks so far: what the engine counts, for calls of the host.
    clock: Arc<AtomicU64>,
    cache: Option<Cache>,
    /// Why compiled code was not kept, the first time.
    cache_fault: Arc<OnceLock<Error>>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:?}, cache {:?})", self.limits, self.cache.is_some())
    }
}

impl Runtime {
    /// Sets up the engine. Nothing is compiled yet.
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

    /// The bounds on every kernel.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Advances the clock that interrupts guests; to be called every [`Limits::TICK`].
    pub fn tick(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.engine.increment_epoch();
    }

    /// Returns the counter that [`Runtime::tick`] advances.
    pub(crate) fn clock(&self) -> &Arc<AtomicU64> {
        &self.clock
    }

    /// Loads signed code: `digest` is the SHA-256 of the component that it must come from. Nothing
    /// of it reaches the engine before its signature has verified under `trusted`.
    ///
    /// # Errors
    /// [`Error::Artefact`] says why it is refused; [`Error::Contract`] and [`Error::Trap`] as
    /// `Runtime::load` gives them.
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
        // SAFETY: the signature says that the deployer's compiler made this code.
        let component = unsafe { Component::deserialize(&self.engine, verified.code()) }
            .map_err(|e| refuse(Refusal::Code { reason: format!("{e:#}") }))?;
        self.kernel(name, *digest, &component)
    }

    /// A kernel of compiled code.
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

    /// Compiled code was not kept.
    #[cfg(feature = "compiler")]
    pub(crate) fn cache_failed(&self, error: Error) {
        // The first is told; what follows is most often the same.
        let _ = self.cache_fault.set(error);
    }

    /// Why compiled code was not kept, if that happened: kernels run, and are compiled again next
    /// time.
    pub fn cache_fault(&self) -> Option<&Error> {
        self.cache_fault.get()
    }
}

/// A component of either world.
pub(crate) enum Pre {
    Rows(VertexKernelPre<State>),
    Edges(EdgeKernelPre<State>),
}

/// A checked, compiled kernel, ready to be instantiated.
pub struct Kernel {
    name: String,
    digest: [u8; 32],
    runtime: Runtime,
    pre: Pre,
    /// True if it imports `given`.
    asks: bool,
    attributes: Vec<AttributeSpec>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// SHA-256 of its component.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The attributes that it takes.
    pub fn attributes(&self) -> &[AttributeSpec] {
        &self.attributes
    }

    /// The bounds on it.
    pub fn limits(&self) -> &Limits {
        self.runtime.limits()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn pre(&self) -> &Pre {
        &self.pre
    }

    /// Returns the domain of the kernel: rows or edges.
    pub fn on(&self) -> On {
        match self.pre {
            Pre::Rows(_) => On::Rows,
            Pre::Edges(_) => On::Edges,
        }
    }

    /// Returns whether its loss may be called on rows that do not count alike
    /// ([`Labelled::row_weights`]): the component imports the interface `given` of the contract,
    /// which is there since 0.1.2.
    ///
    /// [`Labelled::row_weights`]: crate::Labelled::row_weights
    pub fn weighs_rows(&self) -> bool {
        self.asks
    }

    /// Refuses a kernel whose loss would take rows that do not count alike for rows that do.
    ///
    /// # Errors
    /// [`Error::Promise`] unless it [`Kernel::weighs_rows`].
    pub fn must_weigh_rows(&self) -> Result<()> {
        if self.asks {
            return Ok(());
        }
        Err(Error::Promise {
            kernel: self.name.clone(),
            place: "loss".to_owned(),
            reason: "the run's rows do not count alike, and the component does not import `eciton:kernel/given`, by \
                     which a loss asks for their weights (contract 0.1.2); build it anew with an SDK that has it, or \
                     leave out the weights"
                .to_owned(),
        })
    }

    /// Configures a layer: `inputs` gives the extents of one row of each input, of an edge kernel
    /// those of an edge's source and of its target, then, where the model asks for it, of what is
    /// known of the edge itself. Attributes that are not given take the kernel's defaults.
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

/// A kernel with its attributes.
#[derive(Debug)]
pub struct Layer {
    kernel: Arc<Kernel>,
    inputs: Vec<Vec<u32>>,
    attributes: Vec<Attribute>,
    signature: Signature,
}

impl Layer {
    /// Its kernel.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns the signature: inputs, outputs, parameters and requirements of the layer.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn inputs(&self) -> &[Vec<u32>] {
        &self.inputs
    }

    /// Features of an edge that an edge kernel is told of; 0: none.
    pub(crate) fn edge_features(&self) -> u32 {
        self.inputs.get(2).map_or(0, |row| row.iter().product())
    }

    /// Returns the input extents and attributes that the layer was opened with, as text for errors.
    pub(crate) fn given(&self) -> String {
        let attributes: Vec<String> =
            self.attributes.iter().map(|a| format!("{} = {}", a.name, a.value)).collect();
        format!(" (given: inputs {:?}, {})", self.inputs, attributes.join(", "))
    }

    /// An attribute that is a whole number, as it was given or by default.
    pub(crate) fn whole_number(&self, name: &str) -> Option<u32> {
        let found = self.attributes.iter().find(|attribute| attribute.name == name)?;
        if let Value::Integer(number) = found.value { u32::try_from(number).ok() } else { None }
    }

    /// Returns whether it reads signs and scales alone of the input or parameter of this name.
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

/// A name or text of a kernel, of at most 200 characters: longer ones are cut, and match nothing.
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
