//! What stays warm between invocations under one set of limits: the engine, kernels, layers and
//! their instances.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eciton_kernel::artefact::{Baseline, MAX_BYTES, Verifier};
use eciton_kernel::wire::KernelRef;
use eciton_kernel::{Call, Finished, Instances, Kernel, Layer, Limits, Runtime};
use eciton_types::signature::{Attribute, Value};

use crate::cache::Cache;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Kernels kept, each with an instance.
pub const KERNELS: u32 = 16;
/// Layers kept, of all kernels together.
pub const LAYERS: u64 = 256;

type Digest = [u8; 32];

/// A layer's kernel, extents and attributes; numbers by their bits.
type LayerKey = (Digest, Vec<Vec<u32>>, Vec<(String, Setting)>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Setting {
    Integer(i64),
    Number(u64),
    Text(String),
    Flag(bool),
}

/// An engine and what was made with it.
#[derive(Debug)]
pub(crate) struct Warm {
    limits: Limits,
    kept: Mutex<Kept>,
    /// Locked while a kernel runs, which may wait for rows: never by a thread that fetches them.
    instances: Mutex<Instances>,
    clock: Clock,
    runtime: Runtime,
}

#[derive(Debug)]
struct Kept {
    kernels: Cache<Digest, Arc<Kernel>>,
    layers: Cache<LayerKey, Arc<Layer>>,
}

impl Warm {
    /// An engine under `limits`; nothing is loaded yet.
    pub(crate) fn new(limits: Limits) -> Result<Self> {
        let settings = eciton_kernel::Settings { limits: limits.clone(), cache: None };
        let runtime = Runtime::new(settings).map_err(Error::Host)?;
        let clock = Clock::start(&runtime).map_err(|e| {
            Error::Host(eciton_kernel::Error::Engine { doing: "starting the clock", reason: e.to_string() })
        })?;
        let kept = Kept { kernels: Cache::new(u64::from(KERNELS)), layers: Cache::new(LAYERS) };
        let instances = Mutex::new(Instances::new(false));
        Ok(Self { limits, kept: Mutex::new(kept), instances, clock, runtime })
    }

    /// The limits of every kernel here.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No foreign code runs under this lock: whole whatever happened.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, Instances> {
        self.instances.lock().unwrap_or_else(|poisoned| {
            // A panic went through a kernel's instance: none of them is used again.
            let mut instances = PoisonError::into_inner(poisoned);
            instances.clear();
            self.instances.clear_poison();
            instances
        })
    }

    /// A kernel that is loaded.
    pub(crate) fn kernel(&self, digest: &Digest) -> Option<Arc<Kernel>> {
        self.kept().kernels.get(digest)
    }

    /// Loads a kernel whose artefact must be signed by `trusted` and come from the component of this
    /// digest. Runs its code once.
    pub(crate) fn load(
        &self,
        name: &str,
        digest: &Digest,
        sealed: &[u8],
        trusted: &Verifier,
    ) -> Result<Arc<Kernel>> {
        let ticking = self.clock.tick();
        let kernel = self.runtime.load_artefact(name, digest, sealed, trusted);
        drop(ticking);
        let kernel = kernel.map_err(|e| match e {
            e if e.is_retryable() => Error::Host(e),
            e => Error::Kernel { kernel: name.to_owned(), reason: e.to_string() },
        })?;
        let mut kept = self.kept();
        if !kept.kernels.insert(*digest, kernel.clone(), 1).is_empty() {
            // The instances of what went must go too: the pool has room for no more.
            kept.layers.clear();
            self.instances().clear();
        }
        Ok(kernel)
    }

    /// Loads the kernels of the package for this machine; leaves those out that are refused.
    pub(crate) fn preload(&self, folder: &Path, baseline: Baseline, trusted: &Verifier) {
        let Ok(files) = std::fs::read_dir(folder) else { return };
        let ending = format!(".{baseline}.cwasm");
        for file in files.flatten().take(KERNELS as usize) {
            let name = file.file_name();
            let digest = name.to_str().and_then(|n| n.strip_suffix(&ending)).map(|hex| KernelRef {
                name: hex.get(..8).unwrap_or(hex).to_owned(),
                digest: hex.to_owned(),
            });
            let Some((wanted, digest)) = digest.and_then(|k| Some((k.clone(), k.digest_bytes().ok()?)))
            else {
                continue;
            };
            if let Ok(Some(sealed)) = in_package(&file.path()) {
                // Refused again, by name, when it is asked for.
                let _ = self.load(&wanted.name, &digest, &sealed, trusted);
            }
        }
    }

    /// A layer of a kernel. Runs the kernel if it was not open already.
    pub(crate) fn layer(
        &self,
        kernel: &Arc<Kernel>,
        extents: &[Vec<u32>],
        attributes: &[Attribute],
    ) -> std::result::Result<Arc<Layer>, eciton_kernel::Error> {
        let settings = attributes.iter().map(|a| (a.name.clone(), setting(&a.value))).collect();
        let key = (*kernel.digest(), extents.to_vec(), settings);
        if let Some(layer) = self.kept().layers.get(&key) {
            return Ok(layer);
        }
        let ticking = self.clock.tick();
        let layer = kernel.open(extents, attributes)?;
        drop(ticking);
        self.kept().layers.insert(key, layer.clone(), 1);
        Ok(layer)
    }

    /// Runs a call on its kernels' warm instances.
    pub(crate) fn run(&self, call: Call) -> std::result::Result<Finished, eciton_kernel::Error> {
        let mut instances = self.instances();
        let _ticking = self.clock.tick();
        instances.run(call)
    }
}

fn setting(value: &Value) -> Setting {
    match value {
        Value::Integer(v) => Setting::Integer(*v),
        Value::Number(v) => Setting::Number(v.to_bits()),
        Value::Text(v) => Setting::Text(v.clone()),
        Value::Flag(v) => Setting::Flag(*v),
    }
}

/// Reads an artefact of the package; none if the package has no such file.
pub(crate) fn in_package(file: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    let refuse = |e: &std::io::Error| Error::Kernel {
        kernel: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        reason: format!("the package's file cannot be read: {e}"),
    };
    let file_bytes = match std::fs::File::open(file) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refuse(&e)),
    };
    let mut sealed = Vec::new();
    // One byte more than allowed, so that a larger one is seen.
    file_bytes.take(MAX_BYTES as u64 + 1).read_to_end(&mut sealed).map_err(|e| refuse(&e))?;
    Ok(Some(sealed))
}
