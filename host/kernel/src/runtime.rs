//! The compiler with its settings, and the kernels that it made.
#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use eciton_plan::signature::{
    Attribute, AttributeSpec, Initialiser, ParameterSpec, RowsSpec, Signature, Value,
};
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::bindings::{VertexKernel, VertexKernelPre};
use crate::cache::{self, Cache};
use crate::error::{Error, Result};
use crate::instance::{CHECK, Instance};
use crate::limits::Limits;
use crate::state::State;

/// How a runtime is set up.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Bounds on every kernel.
    pub limits: Limits,
    /// Where compiled code is kept; none: nothing is kept.
    pub cache: Option<Cache>,
    /// Instances that may be alive at once, on all threads together (0: 64).
    pub instances: u32,
}

/// The engine that all kernels of a process share.
#[derive(Clone)]
pub struct Runtime {
    engine: Engine,
    linker: Arc<Linker<State>>,
    limits: Limits,
    cache: Option<Cache>,
    fingerprint: u64,
    #[cfg(feature = "native-kernels")]
    native: bool,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:016x})", self.fingerprint)
    }
}

fn engine_error(doing: &'static str) -> impl Fn(wasmtime::Error) -> Error {
    move |e| Error::Engine { doing, reason: format!("{e:#}") }
}

impl Runtime {
    /// Sets up the engine. Nothing is compiled yet.
    pub fn new(settings: Settings) -> Result<Self> {
        let limits = settings.limits;
        let instances = if settings.instances == 0 { 64 } else { settings.instances };
        let mut config = Config::new();
        config.cranelift_opt_level(OptLevel::Speed);
        config.epoch_interruption(true);
        config.relaxed_simd_deterministic(true);
        config.memory_init_cow(true);
        config.max_wasm_stack(1 << 20);
        let mut pool = PoolingAllocationConfig::default();
        // A component has one core instance of its own and a few small ones that adapt calls.
        pool.total_component_instances(instances)
            .total_core_instances(instances * 4)
            .total_memories(instances)
            .total_tables(instances * 4)
            .max_memory_size(usize::try_from(limits.guest_memory_bytes).unwrap_or(usize::MAX))
            .table_elements(20_000);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).map_err(engine_error("starting"))?;
        let mut linker = Linker::new(&engine);
        VertexKernel::add_to_linker::<_, HasSelf<_>>(&mut linker, |s| s).map_err(engine_error("linking"))?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let fingerprint = hasher.finish();
        Ok(Self {
            engine,
            linker: Arc::new(linker),
            limits,
            cache: settings.cache,
            fingerprint,
            #[cfg(feature = "native-kernels")]
            native: crate::native::is_on(),
        })
    }

    /// Whether its kernels run as native code.
    #[cfg(feature = "native-kernels")]
    pub(crate) fn is_native(&self) -> bool {
        self.native
    }

    /// The bounds on every kernel.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Advances the clock that interrupts guests; to be called every [`Limits::TICK`].
    pub fn tick(&self) {
        self.engine.increment_epoch();
    }

    /// Compiles a component, or takes its code from the cache.
    pub fn load(&self, name: &str, component: &[u8]) -> Result<Arc<Kernel>> {
        let digest = cache::digest(component);
        let kept = self.cache.as_ref().and_then(|c| c.get(self.fingerprint, &digest));
        // SAFETY: the MAC says that this user's runtime wrote this code for this engine.
        let loaded = kept.and_then(|code| unsafe { Component::deserialize(&self.engine, code) }.ok());
        let compiled = match loaded {
            Some(component) => component,
            None => self.compile(name, component, &digest)?,
        };
        let pre = self.linker.instantiate_pre(&compiled).and_then(VertexKernelPre::new);
        let pre = pre
            .map_err(|e| Error::Contract { kernel: name.to_owned(), differences: format!("{e:#}{CHECK}") })?;
        let mut kernel =
            Kernel { name: name.to_owned(), digest, runtime: self.clone(), pre, attributes: Vec::new() };
        let mut instance = Instance::new(&kernel)?;
        kernel.attributes = instance.attributes(&kernel)?;
        Ok(Arc::new(kernel))
    }

    fn compile(&self, name: &str, bytes: &[u8], digest: &[u8; 32]) -> Result<Component> {
        if bytes.get(..8) == Some(b"\0asm\x01\0\0\0") {
            return Err(Error::Contract {
                kernel: name.to_owned(),
                differences: "it is a core module, not a component; `eciton kernel build` wraps one"
                    .to_owned(),
            });
        }
        if bytes.get(..4) != Some(b"\0asm") {
            return Err(Error::Contract {
                kernel: name.to_owned(),
                differences: "it is no WebAssembly at all; `eciton kernel build` makes a component"
                    .to_owned(),
            });
        }
        let compiled = Component::from_binary(&self.engine, bytes);
        let compiled =
            compiled.map_err(|e| Error::Compile { kernel: name.to_owned(), reason: format!("{e:#}") })?;
        let differences = crate::check::differences(&self.engine, &compiled);
        if !differences.is_empty() {
            return Err(Error::Contract { kernel: name.to_owned(), differences: differences.join("\n") });
        }
        if let Some(cache) = &self.cache {
            let code = compiled.serialize().map_err(engine_error("serialising a kernel"))?;
            // A full disk must not stop a run that has its code already.
            let _ = cache.put(self.fingerprint, digest, &code);
        }
        Ok(compiled)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// A checked, compiled kernel, ready to be instantiated.
pub struct Kernel {
    name: String,
    digest: [u8; 32],
    runtime: Runtime,
    pre: VertexKernelPre<State>,
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

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn pre(&self) -> &VertexKernelPre<State> {
        &self.pre
    }

    /// Configures a layer: `inputs` gives the extents of one row of each input. Attributes that are
    /// not given take the kernel's defaults.
    pub fn open(self: &Arc<Self>, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Arc<Layer>> {
        let refuse = |text: String| Error::Guest {
            kernel: self.name.clone(),
            place: "open".to_owned(),
            error: crate::GuestError { kind: "argument", text },
        };
        let known: Vec<&str> = self.attributes.iter().map(|a| a.name.as_str()).collect();
        if let Some(unknown) = attributes.iter().find(|a| !known.contains(&a.name.as_str())) {
            return Err(refuse(format!(
                "it has no attribute `{}`; it has {}",
                unknown.name,
                known.join(", ")
            )));
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

    /// What it reads, writes, learns and needs.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn inputs(&self) -> &[Vec<u32>] {
        &self.inputs
    }

    /// What it was opened with, for errors.
    pub(crate) fn given(&self) -> String {
        let attributes: Vec<String> =
            self.attributes.iter().map(|a| format!("{} = {}", a.name, a.value)).collect();
        format!(" (given: inputs {:?}, {})", self.inputs, attributes.join(", "))
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
        name: s.name,
        meaning: s.meaning,
        default: s.default.map(value),
    };
    specs.into_iter().map(plain).collect()
}

pub(crate) fn plain_signature(s: wv::Signature) -> Signature {
    let rows = |specs: Vec<wv::RowsSpec>| -> Vec<RowsSpec> {
        specs.into_iter().map(|r| RowsSpec { name: r.name, extents: r.extents }).collect()
    };
    let parameter = |p: wv::ParameterSpec| ParameterSpec {
        name: p.name,
        shape: p.shape,
        initialiser: match p.initialiser {
            wv::Initialiser::Zeros => Initialiser::Zeros,
            wv::Initialiser::Constant(v) => Initialiser::Constant(v),
            wv::Initialiser::GlorotUniform => Initialiser::GlorotUniform,
            wv::Initialiser::Uniform(b) => Initialiser::Uniform(b),
        },
    };
    Signature {
        inputs: rows(s.inputs),
        parameters: s.parameters.into_iter().map(parameter).collect(),
        outputs: rows(s.outputs),
        kept: rows(s.kept),
        backward_needs: eciton_plan::signature::BackwardNeeds {
            inputs: s.backward_needs.contains(wv::Needs::INPUTS),
            outputs: s.backward_needs.contains(wv::Needs::OUTPUTS),
        },
        has_loss: s.has_loss,
    }
}
