//! State that invocations with the same limits share: the engine, kernels, layers and instances.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eciton_kernel::artefact::{Baseline, MAX_BYTES, Verifier};
use eciton_kernel::wire::KernelRef;
use eciton_kernel::{Call, Finished, Instances, Kernel, Layer, Limits, Runtime};
use eciton_types::signature::{Attribute, Value};

use crate::cache::Cache;
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Maximum number of kernels in the cache. Each has one instance.
pub const KERNELS: u32 = 16;
/// Maximum number of layers in the cache, over all kernels.
pub const LAYERS: u64 = 256;

type Digest = [u8; 32];

/// Cache key of a layer: the digest of its kernel, its input extents and its attributes.
/// Floating-point numbers are compared by their bits.
type LayerKey = (Digest, Vec<Vec<u32>>, Vec<(String, Setting)>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Setting {
    Integer(i64),
    Number(u64),
    Text(String),
    Flag(bool),
}

/// Kernel engine with certain limits, and all kernels, layers and instances that were created with
/// it.
#[derive(Debug)]
pub(crate) struct Warm {
    limits: Limits,
    kept: Mutex<Kept>,
    /// Instances of kernels. The lock is held while a kernel runs, and the kernel may wait for
    /// rows. Threads that fetch rows must therefore not take the lock.
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
    /// Creates an engine with `limits` and no kernels.
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

    /// Returns the limits that apply to all kernels of this engine.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No kernel code runs under this lock, so the state is valid even after a panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instances(&self) -> MutexGuard<'_, Instances> {
        self.instances.lock().unwrap_or_else(|poisoned| {
            // A panic occurred in a kernel's instance, so no instance is used again.
            let mut instances = PoisonError::into_inner(poisoned);
            instances.clear();
            self.instances.clear_poison();
            instances
        })
    }

    /// Returns the kernel with this digest, or `None` if it is not loaded.
    pub(crate) fn kernel(&self, digest: &Digest) -> Option<Arc<Kernel>> {
        self.kept().kernels.get(digest)
    }

    /// Loads a kernel from compiled code, and runs a part of the code. The artefact `sealed` must
    /// be signed with the key `trusted` and compiled from the component with this digest.
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
            // The instances of removed kernels must be dropped as well, because the pool has no
            // space for more.
            kept.layers.clear();
            self.instances().clear();
        }
        Ok(kernel)
    }

    /// Loads the kernels in the package folder that are compiled for this machine. Skips kernels
    /// that are refused.
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
                // The kernel is refused again, with its name, when a task requests it.
                let _ = self.load(&wanted.name, &digest, &sealed, trusted);
            }
        }
    }

    /// Returns the layer of a kernel with these input extents and attributes. If the layer is not
    /// cached, the kernel is run to create it.
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

    /// Runs a kernel call on cached instances of its kernels.
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

/// Reads a compiled kernel from the package. Returns `None` if the file does not exist.
pub(crate) fn in_package(file: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    let refuse = |e: &std::io::Error| Error::Kernel {
        kernel: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        reason: format!("the file in the package cannot be read: {e}"),
    };
    let file_bytes = match std::fs::File::open(file) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refuse(&e)),
    };
    let mut sealed = Vec::new();
    // One byte more than allowed is read, so that a larger file is recognised.
    file_bytes.take(MAX_BYTES as u64 + 1).read_to_end(&mut sealed).map_err(|e| refuse(&e))?;
    Ok(Some(sealed))
}
