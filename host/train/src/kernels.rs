//! The kernels of a run. They are built in, read from a folder, or components of the user.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "compiler")]
use eciton_author::Pins;
use eciton_exec::Clock;
use eciton_input::threads;
use eciton_kernel::artefact::{Baseline, Verifier, store_key};
use eciton_kernel::cache::{Cache, digest};
use eciton_kernel::{Kernel, Layer, Limits, Runtime, Settings};
use eciton_recipe::{Config, EdgePlace, LayerSettings};
use eciton_types::On;

use crate::error::{Error, Result};

/// A kernel that is built into the binary as a WebAssembly component.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Name of the kernel in models.
    pub name: &'static str,
    /// Rows that the kernel computes: those of vertices or those of edges.
    pub on: On,
    /// The WebAssembly component.
    pub component: &'static [u8],
}

/// Returns the kernels that are built into the binary. They come from `guest-kernels/prebuilt`,
/// where `kernels.lock` records their digests.
pub fn builtin() -> &'static [Builtin] {
    macro_rules! carried {
        ($($name:literal: $on:ident),*) => {
            &[$(Builtin {
                name: $name,
                on: On::$on,
                component: include_bytes!(concat!("../../../guest-kernels/prebuilt/", $name, ".wasm")),
            }),*]
        };
    }
    carried!(
        "activate": Rows, "attention": Rows, "binary": Rows, "concat": Rows, "conv2d": Rows, "embedding": Rows,
        "gatv2": Edges, "head": Rows, "ipa": Rows, "linear": Rows, "maximum": Edges, "normalise": Rows,
        "pool2d": Rows, "product": Rows, "self-attention": Rows, "slice": Rows,
        "spiking": Rows, "sum": Rows
    )
}

/// Name and SHA-256 of components of earlier builds. The current built-in kernel computes the same bits,
/// except for `normalise` and `self-attention`, whose results are among the changes that a resumed run
/// reports. The suite `compatibility` trains with the first one, which is in `tests/kernels/earlier`. All
/// others have the same sources as the built-in kernel.
const EARLIER: [(&str, &str); 19] = [
    ("activate", "3f854639272f9ede45727c22265bdc1d3cc31b1999fa59cce0383f210951c523"),
    ("activate", "66cc1f7b8b3007051a1050f99ebbe2fa8dc03a4802e0cc6de77b1322a715d9aa"),
    ("attention", "473dfc1a82dd4fe0a702af7ba50da59516cb547090b46d5db4a6a0e793cee04f"),
    ("binary", "9efa69e7455071a016ef56731583c1c2a30654472ce36477a08cd2be4b895756"),
    ("concat", "20e9771d70c6b86ef0941ee161da21efb6c0d4254af93390aeb8841845db4c49"),
    ("conv2d", "3cad0698ff59935d30ad4e8eb1ec8f86a4d3e2bf51c2879ae39ef4b854271886"),
    ("embedding", "d67a54bcbd34f3ed83f4c542efb2d05061323dc50942166c226764f8bacdf71b"),
    ("gatv2", "e623f9588f1cdfe429597a85be605e9f77a3f57759b6694161f084707a91c27a"),
    ("head", "5ac6fd24b8e34eaadc5a1057758144209dc08cb5dcd45af9a5b1999058dd263e"),
    ("ipa", "2fdf30d982e69cf6ed5004c63fc68bc186fa7557fee4478cdc9a34d3d2f28b93"),
    ("linear", "15e3aa30c3f97dbe9f5cc081055fe104233adf43e8c2b111f19807247fd1bb98"),
    ("maximum", "8e180563f93ea4fa770797845c244ed6db4bd869f687ed4ffd192a0c1528a3e9"),
    ("normalise", "cfc74b8cff594255151dd70968b4158028574840caf58b2216168a0e5f7d65bf"),
    ("pool2d", "491394b3de2bc52544806bf47a96e792d8b01034a2b35797b34c292b7602db1e"),
    ("product", "fcfa2e31c8c94deb68e4decf5e82e6e05ed31bd47879e55f03edd1c9e8055c41"),
    ("self-attention", "43ad4c329208116d8356832419e2a17256ae7fadae36b821679ce55b3a176d75"),
    ("slice", "b2fdd6a999ae1566f0003abf040ea5d4e055c9cb7eebeab61b117ab3fd873ff5"),
    ("spiking", "0c648dbe6b1affc79c5848f6fc973550fde5b61b652347e897b76167a50198bf"),
    ("sum", "63712a08503576f53f56ef44900dbd1a114fee60d3fe8e9e1cdc056412fcdba1"),
];

/// Returns true if a run that began with a component of the kernel `name` may continue with another one.
/// `then` and `now` are their SHA-256. They must be equal, or `then` must be an earlier build of the
/// current built-in kernel `now`.
pub(crate) fn continues(name: &str, then: &str, now: Option<&String>) -> bool {
    let is_builtin = |now: &String| {
        let built = builtin().iter().find(|kernel| kernel.name == name);
        built.is_some_and(|kernel| {
            digest(kernel.component).iter().map(|byte| format!("{byte:02x}")).collect::<String>() == *now
        })
    };
    now.is_some_and(|now| now == then || EARLIER.contains(&(name, then)) && is_builtin(now))
}

/// Kernels that every model needs. They are compiled while the data set is read, and other kernels
/// on first use.
const ALWAYS: [&str; 2] = ["head", "linear"];

/// Location of the cache of compiled kernels. The cache is shared between runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// The folder `ECITON_CACHE_DIR` if it is set, or else the user's cache folder. The key of the
    /// latter is in the user's state folder.
    #[default]
    User,
    /// The given folder. Its key is the file `FOLDER.key` next to it.
    Folder(PathBuf),
    /// No cache. Each process compiles its kernels.
    Off,
}

impl CachePolicy {
    /// Opens the cache. Returns `None` if there is no cache.
    pub(crate) fn open(&self) -> Option<eciton_kernel::Result<Cache>> {
        let paths = match self {
            Self::User => cache_paths(),
            Self::Folder(folder) => Some(with_key(folder.clone())),
            Self::Off => None,
        };
        paths.map(|(folder, key)| Cache::open(&folder, &key))
    }
}

/// Returns `folder` and the path of the key file next to it.
fn with_key(folder: PathBuf) -> (PathBuf, PathBuf) {
    let mut key = folder.clone().into_os_string();
    key.push(".key");
    (folder, key.into())
}

/// Returns the path of the user's cache folder, and the path of its key file. Returns `None` if the
/// user has no home folder.
pub fn cache_paths() -> Option<(PathBuf, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable("ECITON_CACHE_DIR") {
        return Some(with_key(dir));
    }
    // A relative folder would depend on the working folder.
    let home = variable("HOME").filter(|home| home.is_absolute());
    let under = |name: &str, rest: &str| {
        variable(name).filter(|p| p.is_absolute()).or_else(|| home.as_ref().map(|h| h.join(rest)))
    };
    let cache = under("XDG_CACHE_HOME", ".cache")?.join("eciton/kernels");
    Some((cache, under("XDG_STATE_HOME", ".local/state")?.join("eciton/cache.key")))
}

/// Returns the limits on kernels, for instance on their memory. Limits that the configuration does
/// not set have default values.
pub fn limits(config: &Config) -> Limits {
    let (given, default) = (&config.limits, Limits::default());
    let time = |ms: Option<u64>, default| ms.map_or(default, std::time::Duration::from_millis);
    Limits {
        guest_memory_bytes: given.guest_memory_bytes.unwrap_or(default.guest_memory_bytes),
        task_time: time(given.task_ms, default.task_time),
        matrix_bytes: given.matrix_bytes.unwrap_or(default.matrix_bytes),
        handles: given.handles.unwrap_or(default.handles),
        call_bytes: given.call_bytes.unwrap_or(default.call_bytes),
        call_work: given.call_work.unwrap_or(default.call_work),
        arrival: time(given.wait_ms, default.arrival),
        log_bytes: default.log_bytes,
    }
}

/// Maximum size in bytes of a WebAssembly component.
const MAX_COMPONENT_BYTES: u64 = 64 << 20;

/// Source of signed native code that was compiled on another machine. It is used by processes that
/// cannot compile kernels.
pub trait SignedCode: Send + Sync + std::fmt::Debug {
    /// Returns the verifier for the key that the code must be signed with.
    fn trusted(&self) -> &Verifier;

    /// Returns the signed native code of a kernel. `key` is its key in the store, from
    /// [`store_key`].
    ///
    /// # Errors
    /// Returns a message with the reason if there is no such code.
    fn sealed(&self, key: &str) -> std::result::Result<Vec<u8>, String>;
}

type Component = Cow<'static, [u8]>;

/// A loaded kernel, with the bytes of its component.
pub(crate) type Used = (Arc<Kernel>, Arc<[u8]>);

/// Reads a component from a file of at most [`MAX_COMPONENT_BYTES`] bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut component = Vec::new();
    let file = eciton_input::file::open(path).map_err(failed)?;
    file.take(MAX_COMPONENT_BYTES + 1).read_to_end(&mut component).map_err(failed)?;
    if component.len() as u64 > MAX_COMPONENT_BYTES {
        let found = format!(
            "the file has more than {MAX_COMPONENT_BYTES} bytes, which is the maximum size of a component; \
             build the kernel with `eciton kernel build`, which omits debug information"
        );
        return Err(failed(std::io::Error::new(ErrorKind::InvalidData, found)));
    }
    Ok(component)
}

/// Loads a kernel. If `code` is given, signed native code is loaded from it. Otherwise the
/// component is compiled.
fn load(
    runtime: &Runtime,
    name: &str,
    component: &Component,
    code: Option<&dyn SignedCode>,
) -> eciton_kernel::Result<Arc<Kernel>> {
    let begun = std::time::Instant::now();
    let Some(code) = code else {
        let loaded = compile(runtime, name, component)?;
        let (bytes, seconds) = (component.len(), begun.elapsed().as_secs_f64());
        tracing::info!(kernel = name, bytes, seconds, "kernel ready");
        return Ok(loaded);
    };
    let refused = |reason: String| eciton_kernel::Error::Engine {
        doing: "loading signed code",
        reason: format!("kernel `{name}`: {reason}"),
    };
    let baseline = Baseline::of_this_machine()
        .ok_or_else(|| refused("this processor lacks instructions that signed code requires".to_owned()))?;
    let digest = digest(component);
    let sealed = code.sealed(&store_key(&digest, baseline)).map_err(refused)?;
    runtime.load_artefact(name, &digest, &sealed, code.trusted())
}

/// Loads a kernel whose component was sent by another process.
pub(crate) fn load_sent(
    runtime: &Runtime,
    name: &str,
    component: &[u8],
) -> eciton_kernel::Result<Arc<Kernel>> {
    let own = builtin().iter().find(|kernel| kernel.component == component);
    compile(runtime, name, &own.map_or_else(|| component.to_vec().into(), |kernel| kernel.component.into()))
}

/// Compiles a kernel. A component that is not built in is first checked against the kernel
/// contract, because this is much faster.
#[cfg(feature = "compiler")]
fn compile(runtime: &Runtime, name: &str, component: &Component) -> eciton_kernel::Result<Arc<Kernel>> {
    match component {
        Cow::Borrowed(builtin) => runtime.load(name, builtin),
        Cow::Owned(own) => runtime.load_vetted(name, own, |component| vet(name, component)),
    }
}

#[cfg(not(feature = "compiler"))]
fn compile(_: &Runtime, name: &str, _: &Component) -> eciton_kernel::Result<Arc<Kernel>> {
    let reason = format!("kernel `{name}`: this build cannot compile kernels, and has no signed code for it");
    Err(eciton_kernel::Error::Engine { doing: "loading", reason })
}

/// Runs all checks of `eciton kernel check` that need no compilation, and fails if any of them
/// fails.
#[cfg(feature = "compiler")]
fn vet(name: &str, component: &[u8]) -> eciton_kernel::Result<()> {
    let differences = eciton_author::check(component).map_err(|error| eciton_kernel::Error::Engine {
        doing: "reading the contract",
        reason: error.to_string(),
    })?;
    if differences.is_empty() {
        return Ok(());
    }
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Err(eciton_kernel::Error::Contract { kernel: name.to_owned(), differences: differences.join("\n") })
}

/// Components that the user supplies. They replace built-in kernels, by kernel name, or are layers
/// of the model, by path.
#[derive(Debug)]
pub(crate) struct Own(BTreeMap<String, Component>);

impl Own {
    /// Reads all components that the configuration names. If a component has a lock file, it must
    /// match.
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let replacing = config.kernels.iter().map(|(name, path)| (&name[..], &path[..]));
        let layers = config.model.own_kernels().map(|path| (path, path));
        let mut all = BTreeMap::new();
        for (name, path) in replacing.chain(layers) {
            if !all.contains_key(name) {
                let component = read(Path::new(path))?;
                #[cfg(feature = "compiler")]
                Pins::check(Path::new(path), &component)?;
                all.insert(name.to_owned(), component.into());
            }
        }
        Ok(Self(all))
    }
}

/// Checks that the model uses every kernel that the configuration replaces. Otherwise the
/// replacement would have no effect.
pub(crate) fn check_all_used(config: &Config, layers: &[Option<Arc<Layer>>]) -> Result<()> {
    let used: BTreeSet<&str> = layers.iter().flatten().map(|layer| layer.kernel().name()).collect();
    match config.kernels.iter().find(|(name, _)| !used.contains(&name[..])) {
        None => Ok(()),
        Some((name, path)) => Err(Error::UnusedKernel {
            name: name.clone(),
            path: path.clone(),
            used: used.into_iter().collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Kernels of a run, by name. [`Kernels::get`] loads a kernel on first use.
#[derive(Debug)]
pub(crate) struct Kernels {
    loaded: Mutex<BTreeMap<String, Arc<Kernel>>>,
    /// Components that can be loaded, by kernel name or by path.
    components: BTreeMap<String, Component>,
    runtime: Runtime,
    code: Option<Arc<dyn SignedCode>>,
    cache_fault: Option<eciton_kernel::Error>,
    /// Clock by which kernel calls time out. It must run as long as kernels are called.
    _clock: Clock,
}

impl Kernels {
    /// Loads the kernels that every model needs and those that the configuration replaces. They are
    /// loaded in parallel, from the cache or by compilation.
    pub(crate) fn load(
        config: &Config,
        own: Own,
        folder: Option<&Path>,
        (policy, code): (&CachePolicy, Option<&Arc<dyn SignedCode>>),
    ) -> Result<Self> {
        // A cache that cannot be opened must not stop a run, which reports it.
        let (cache, cache_fault) = match policy.open() {
            Some(Ok(cache)) => (Some(cache), None),
            Some(Err(fault)) => (None, Some(fault)),
            None => (None, None),
        };
        let mut sources: BTreeMap<String, Component> = BTreeMap::new();
        for kernel in builtin() {
            let component = match folder {
                Some(folder) => read(&folder.join(format!("{}.wasm", kernel.name)))?.into(),
                None => kernel.component.into(),
            };
            sources.insert(kernel.name.to_owned(), component);
        }
        sources.extend(own.0);
        let runtime = Runtime::new(Settings { limits: limits(config), cache })?;
        let clock = Clock::start(&runtime).map_err(Error::Threads)?;
        let loaded: Vec<_> = std::thread::scope(|scope| {
            let (runtime, code) = (&runtime, code.map(|code| &**code));
            let now = |name: &str| ALWAYS.contains(&name) || config.kernels.contains_key(name);
            let handles: Vec<_> = sources
                .iter()
                .filter(|(name, _)| now(name))
                .map(|(name, component)| {
                    (name, threads::spawn(scope, move || load(runtime, name, component, code)))
                })
                .collect();
            handles.into_iter().map(|(name, handle)| (name, handle.join())).collect()
        });
        let mut all = BTreeMap::new();
        for (name, result) in loaded {
            let kernel =
                result.map_err(|_| Error::Internal(format!("loading kernel `{name}` panicked")))??;
            let place = builtin().iter().find(|known| known.name == name).map(|known| known.on);
            if let (Some(path), Some(place)) = (config.kernels.get(name), place)
                && place != kernel.on()
            {
                let (name, path, found) = (name.clone(), path.clone(), kernel.on());
                return Err(Error::KernelPlace { name, path, place, found });
            }
            all.insert(name.clone(), kernel);
        }
        Ok(Self {
            loaded: Mutex::new(all),
            components: sources,
            runtime,
            code: code.cloned(),
            cache_fault,
            _clock: clock,
        })
    }

    /// Returns the reason why the cache of compiled kernels cannot be used. Returns `None` if there
    /// is no such reason.
    pub(crate) fn cache_fault(&self) -> Option<&eciton_kernel::Error> {
        self.cache_fault.as_ref().or_else(|| self.runtime.cache_fault())
    }

    /// Returns the kernel `name`, which is the name of a kernel or the path of a component. The
    /// kernel is loaded on first use.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Kernel>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = loaded.get(name) {
            return Ok(kernel.clone());
        }
        let known = || self.components.keys().filter(|name| !LayerSettings::is_path(name));
        let component = self.components.get(name).ok_or_else(|| Error::UnknownKernel {
            name: name.to_owned(),
            known: known().cloned().collect::<Vec<_>>().join(", "),
        })?;
        let kernel = load(&self.runtime, name, component, self.code.as_deref())?;
        loaded.insert(name.to_owned(), kernel.clone());
        Ok(kernel)
    }

    /// Returns the kernels of `layers` that functions or workers may run, with their components.
    /// Edge kernels are left out if `edges` keeps them on the host.
    pub(crate) fn used(&self, layers: &[Option<Arc<Layer>>], edges: EdgePlace) -> Result<Vec<Used>> {
        let mut used: Vec<Used> = Vec::new();
        for layer in layers.iter().flatten() {
            let kernel = layer.kernel();
            let at_home = kernel.on() == On::Edges && edges == EdgePlace::Host;
            if at_home || used.iter().any(|(k, _)| Arc::ptr_eq(k, kernel)) {
                continue;
            }
            let component = self.components.get(kernel.name());
            let component = component
                .ok_or_else(|| Error::Internal(format!("kernel `{}` has no component", kernel.name())))?;
            used.push((kernel.clone(), component.as_ref().into()));
        }
        Ok(used)
    }

    /// Returns the SHA-256 of each loaded kernel in hexadecimal, keyed by kernel name.
    pub(crate) fn digests(&self) -> BTreeMap<String, String> {
        let hex = |d: &[u8; 32]| d.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().map(|(n, k)| (n.clone(), hex(k.digest()))).collect()
    }
}
