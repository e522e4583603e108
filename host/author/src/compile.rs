//! Compilation of a kernel crate to a WebAssembly component that fulfils the contract.
//!
//! The component depends only on the sources, the locked dependencies and the versions of the
//! toolchain. Paths are replaced by neutral names, and symbol names and debug information are
//! stripped. The caller's `RUSTFLAGS` and profile settings are ignored.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::contract::{self, MAX_COMPONENT_BYTES};
use crate::error::{Error, Result, io};
use crate::toolchain::{StandardLibrary, TARGET, Toolchain};
use crate::{digest, file, strip};

/// Size to which the messages of cargo in an error are cut, in bytes. They are cut when they exceed
/// twice this size.
const MAX_MESSAGES: usize = 64 << 10;

/// Settings of the cargo profile that builds kernels. They favour the speed of loops in the guest,
/// but also a small component. A panic aborts, but its message and line are preserved.
const PROFILE: [&str; 10] = [
    "inherits=\"release\"",
    "opt-level=3",
    "lto=\"fat\"",
    "codegen-units=1",
    "panic=\"abort\"",
    "debug=false",
    "debug-assertions=false",
    "overflow-checks=false",
    "incremental=false",
    "strip=\"none\"",
];

/// Compiler flag that enables 128-bit vector instructions.
const VECTORS: &str = "-Ctarget-feature=+simd128";
/// Linker flag that turns undefined symbols into imports, regardless of the compiler's default. The
/// check of the contract then refuses the imports by name.
const IMPORTS: &str = "-Clink-arg=--allow-undefined";
/// Compiler flag that reduces inlining below the profile's level. It mostly affects the glue code
/// of the contract. It saves a fifth of the size of a kernel whose work is done by host functions.
/// A kernel that computes in the guest needs inlining. Without inlining, a matrix product takes a
/// quarter longer.
const COMPACT: &str = "-Cllvm-args=-inline-threshold=25";

/// Prefixes of the environment variables that are passed to cargo although they start with
/// `CARGO_`. All other variables with that prefix are removed.
const CARGO_VARIABLES: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
    "CARGO_TERM_",
    "CARGO_BUILD_JOBS",
];

/// Callback that receives each line that cargo and the compiler print.
type Watch<'a> = Box<dyn FnMut(&str) + 'a>;

/// Result of a build, which describes the component on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Path of the component that was written.
    pub path: PathBuf,
    /// Name of the kernel's Cargo package, or of its folder for a kernel in C.
    pub package: String,
    /// Size of the component, in bytes.
    pub bytes_len: u64,
    /// SHA-256 digest of the component, as `sha256:` and hexadecimal digits.
    pub digest: String,
    /// Versions of the tools that compiled the component, from [`Toolchain::identity`] or clang.
    pub compiler: String,
}

impl Built {
    /// Writes the bytes of a component to `out`, and returns its description. `package` is the name
    /// of the kernel's package.
    pub(crate) fn write(out: &Path, package: String, component: &[u8], compiler: String) -> Result<Self> {
        file::write(out, component)?;
        Ok(Self {
            path: out.to_owned(),
            package,
            bytes_len: component.len() as u64,
            digest: digest::component_digest(component),
            compiler,
        })
    }
}

/// Builds the crate in `crate_dir` with the toolchain that [`Toolchain::find`] finds, and writes
/// the component to `out`.
///
/// Cargo writes its intermediate files to `target_dir`. To receive cargo's messages, use [`Build`]
/// directly.
///
/// # Errors
/// Returns the errors of [`Toolchain::find`] and [`Build::run`].
pub fn build(crate_dir: &Path, target_dir: &Path, out: &Path) -> Result<Built> {
    let toolchain = Toolchain::find(crate_dir)?;
    Build::new(&toolchain, crate_dir).target_dir(target_dir).run(out)
}

/// Options for the build of one kernel crate.
#[must_use]
pub struct Build<'a> {
    toolchain: &'a Toolchain,
    crate_dir: PathBuf,
    target_dir: Option<PathBuf>,
    locked: bool,
    compact: bool,
    features: Vec<String>,
    on_line: Option<Watch<'a>>,
}

impl<'a> Build<'a> {
    /// Creates a build of the crate in `crate_dir`. By default, cargo's intermediate files are
    /// written to a folder that all kernels share.
    pub fn new(toolchain: &'a Toolchain, crate_dir: &Path) -> Self {
        Self {
            toolchain,
            crate_dir: crate_dir.to_owned(),
            target_dir: None,
            locked: false,
            compact: false,
            features: Vec::new(),
            on_line: None,
        }
    }

    /// Sets the folder to which cargo writes its intermediate files.
    pub fn target_dir(mut self, dir: &Path) -> Self {
        self.target_dir = Some(dir.to_owned());
        self
    }

    /// Sets whether `Cargo.lock` must be complete. If `locked` is true, a build that would change
    /// the file fails.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Sets whether the compiler inlines less code, for a smaller component. This suits a kernel
    /// whose work is done by host functions.
    pub fn compact(mut self, compact: bool) -> Self {
        self.compact = compact;
        self
    }

    /// Enables features of the kernel crate, in addition to its default features.
    pub fn features(mut self, features: &[&str]) -> Self {
        self.features = features.iter().map(|&feature| feature.to_owned()).collect();
        self
    }

    /// Sets a callback that receives each line that cargo and the compiler print.
    pub fn on_line(mut self, watch: impl FnMut(&str) + 'a) -> Self {
        self.on_line = Some(Box::new(watch));
        self
    }

    /// Builds the crate, checks the component, and then writes it to `out`.
    ///
    /// # Errors
    /// Returns an error if the folder has no crate, if cargo fails (with its messages), or if `out`
    /// cannot be written. Returns a list of differences if the component does not fulfil the
    /// contract, for instance because of ambient imports.
    pub fn run(mut self, out: &Path) -> Result<Built> {
        let (package, component) = self.component()?;
        Built::write(out, package, &component, self.toolchain.identity())
    }

    /// Builds the crate, and returns the name of its package with the bytes of the component.
    fn component(&mut self) -> Result<(String, Vec<u8>)> {
        let dir = std::path::absolute(&self.crate_dir).map_err(io("find", &self.crate_dir))?;
        let manifest = dir.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(Error::NoManifest { dir });
        }
        let layout = self.layout(&dir, &manifest)?;
        let target_dir = match self.target_dir.clone().or_else(shared_target) {
            Some(target_dir) => std::path::absolute(&target_dir).map_err(io("find", &target_dir))?,
            None => layout.target_dir.join("kernels"),
        };
        // The claim is held until the module has been read, because another build may have a
        // library with the same name.
        let _claim = self.claim(&dir, &layout, &target_dir)?;
        let module = self.module(&dir, &manifest, &layout, &target_dir)?;
        let bytes = file::read(&module, MAX_COMPONENT_BYTES)?;
        let component = wrap(&layout.package, &dir, &bytes)?;
        Ok((layout.package, component))
    }

    /// Creates a cargo command for `dir` that uses the toolchain, without the caller's settings for
    /// cargo and the compiler.
    fn cargo(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.toolchain.cargo);
        command.current_dir(dir).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let kept = CARGO_VARIABLES.iter().any(|prefix| name.starts_with(prefix));
            let foreign = name.starts_with("CARGO_") || name.starts_with("RUSTC");
            if (foreign && !kept) || name == "RUSTFLAGS" {
                command.env_remove(name.as_ref());
            }
        }
        command.env("RUSTC", &self.toolchain.rustc);
        if let StandardLibrary::FromSource { .. } = self.toolchain.library {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        command
    }

    /// Runs `cargo metadata`, and returns the folders of the crate and its dependencies. Cargo also
    /// downloads missing dependencies.
    fn layout(&mut self, dir: &Path, manifest: &Path) -> Result<Layout> {
        let mut command = self.cargo(dir);
        command
            .args(["metadata", "--format-version", "1", "--filter-platform", TARGET])
            .arg("--manifest-path")
            .arg(manifest);
        if self.locked {
            command.arg("--locked");
        }
        let answer = self.run_cargo(dir, command, |stdout| {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        })?;
        let metadata: Metadata = serde_json::from_slice(&answer).map_err(|error| Error::Tool {
            command: "cargo metadata".to_owned(),
            found: error.to_string(),
        })?;
        metadata.layout(manifest)
    }

    /// Locks a target folder for one build, until the returned file is dropped. If another build
    /// holds the lock, this function waits.
    ///
    /// Cargo names a module `LIBRARY.wasm` without a hash, and reuses an existing file with this
    /// name. Therefore, this function first deletes a module that another crate, or the same crate
    /// with other features, has left under this name.
    fn claim(&mut self, dir: &Path, layout: &Layout, target_dir: &Path) -> Result<std::fs::File> {
        let owners = target_dir.join("owners");
        std::fs::create_dir_all(&owners).map_err(io("create", &owners))?;
        let path = owners.join("lock");
        let lock = std::fs::File::create(&path).map_err(io("open", &path))?;
        if lock.try_lock().is_err() {
            if let Some(watch) = &mut self.on_line {
                watch("waiting for another build of a kernel");
            }
            lock.lock().map_err(io("lock", &path))?;
        }
        let owner = owners.join(format!("{}.txt", layout.library));
        let own = format!("{}\n{}\n{}\n", dir.display(), self.features.join(","), self.compact);
        if eciton_input::file::read_text(&owner, 1 << 16).is_ok_and(|found| found == own) {
            return Ok(lock);
        }
        let module = target_dir.join(TARGET).join("kernel/deps").join(format!("{}.wasm", layout.library));
        match std::fs::remove_file(&module) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io("remove", &module)(error));
            }
            _ => {}
        }
        file::write(&owner, own.as_bytes())?;
        Ok(lock)
    }

    /// Compiles the crate, and returns the path of the core module that cargo reports.
    fn module(&mut self, dir: &Path, manifest: &Path, layout: &Layout, target_dir: &Path) -> Result<PathBuf> {
        let mut command = self.cargo(dir);
        command
            .args(["rustc", "--lib", "--crate-type", "cdylib", "--profile", "kernel"])
            .args(["--target", TARGET, "--message-format", "json-render-diagnostics"])
            .arg("--manifest-path")
            .arg(manifest)
            .arg("--target-dir")
            .arg(target_dir);
        if !self.features.is_empty() {
            command.arg("--features").arg(self.features.join(","));
        }
        if self.locked {
            command.arg("--locked");
        }
        for setting in PROFILE {
            command.args(["--config", &format!("profile.kernel.{setting}")]);
        }
        if let StandardLibrary::FromSource { linker, .. } = &self.toolchain.library {
            command
                .args(["-Z", "build-std=std,panic_abort", "-Z", "build-std-features=optimize_for_size"])
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", self.flags(layout, target_dir));

        let manifest = manifest.to_owned();
        let found = self.run_cargo(dir, command, move |stdout| artefact(stdout, &manifest))?;
        found.ok_or_else(|| Error::Tool {
            command: "cargo rustc".to_owned(),
            found: "no .wasm file was reported although the build passed".to_owned(),
        })
    }

    /// Returns the compiler's flags, in the format of the variable `CARGO_ENCODED_RUSTFLAGS`.
    fn flags(&self, layout: &Layout, target_dir: &Path) -> OsString {
        let compact = self.compact.then_some(COMPACT);
        let flags = [Some(VECTORS), compact, Some(IMPORTS)];
        let mut flags: Vec<OsString> = flags.into_iter().flatten().map(OsString::from).collect();
        let library = self.toolchain.sysroot.join("lib/rustlib/src/rust");
        let own = [(library, "/rust".to_owned()), (target_dir.to_owned(), "/target".to_owned())];
        for (from, to) in layout.folders.iter().chain(&own) {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(from);
            flag.push("=");
            flag.push(to);
            flags.push(flag);
        }
        flags.join(std::ffi::OsStr::new("\u{1f}"))
    }

    /// Runs a cargo command until it ends, and passes its messages to the callback. Returns the
    /// result of `read` for the command's standard output.
    fn run_cargo<T: Send>(
        &mut self,
        dir: &Path,
        mut command: Command,
        read: impl FnOnce(&mut dyn BufRead) -> std::io::Result<T> + Send,
    ) -> Result<T> {
        let name = self.toolchain.cargo.display().to_string();
        let failed = |error: std::io::Error| Error::Tool { command: name.clone(), found: error.to_string() };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(std::io::Error::other("no pipes")));
        };
        let (answer, messages) = std::thread::scope(|scope| {
            let answer = scope.spawn(move || {
                let mut stdout = BufReader::new(stdout);
                let answer = read(&mut stdout);
                // Output that was not read must not block cargo.
                let _ = std::io::copy(&mut stdout, &mut std::io::sink());
                answer
            });
            let messages = forward(stderr, self.on_line.as_deref_mut());
            (answer.join(), messages)
        });
        let status = child.wait().map_err(failed)?;
        if !status.success() {
            return Err(Error::Cargo { dir: dir.to_owned(), status: status.to_string(), output: messages });
        }
        match answer {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(failed(std::io::Error::other("its output could not be read"))),
        }
    }
}

/// Returns the default target folder in the user's cache folder, which all kernels share. Some
/// toolchains have the standard library only as source, and a shared folder avoids compiling it
/// again for each kernel. Returns `None` if the user has no home folder.
fn shared_target() -> Option<PathBuf> {
    let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || {
        let cache = value("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        cache.or_else(|| value("HOME").map(|home| home.join(".cache")))
    };
    value("ECITON_KERNEL_TARGET").or_else(|| cache().map(|cache| cache.join("eciton/kernel-target")))
}

/// Passes each line of a tool's standard error to `watch`, and returns the last lines as one text.
pub(crate) fn forward(stderr: impl Read, mut watch: Option<&mut (dyn FnMut(&str) + '_)>) -> String {
    let mut kept = String::new();
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match stderr.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return kept,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(watch) = &mut watch {
            watch(text.trim_end());
        }
        kept.push_str(&text);
        if kept.len() > 2 * MAX_MESSAGES {
            let cut = kept.ceil_char_boundary(kept.len() - MAX_MESSAGES);
            kept.drain(..cut);
        }
    }
}

/// Returns the path of the `.wasm` file that cargo reports for the crate with this manifest.
/// `stdout` has one JSON message per line.
fn artefact(stdout: &mut dyn BufRead, manifest: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut found = None;
    for line in stdout.lines() {
        let Ok(message) = serde_json::from_str::<Message>(&line?) else {
            continue;
        };
        if message.reason == "compiler-artifact" && same_file(&message.manifest_path, manifest) {
            found = message
                .filenames
                .into_iter()
                .find(|path| path.extension().is_some_and(|extension| extension == "wasm"))
                .or(found);
        }
    }
    Ok(found)
}

/// Wraps a core module into a component without custom sections. Refuses the module with a list of
/// differences if it has ambient imports, or if the component does not fulfil the contract.
pub(crate) fn wrap(package: &str, dir: &Path, module: &[u8]) -> Result<Vec<u8>> {
    let refuse = |differences| Error::Contract { name: package.to_owned(), differences };
    let ambient = contract::check_module(module)?;
    if !ambient.is_empty() {
        return Err(refuse(ambient));
    }
    // The encoder needs only the custom sections with types, which wit-bindgen has written.
    let module = strip::custom_sections(module, &|name| name.starts_with("component-type"))?;
    let component = wit_component::ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| Error::Wrap { dir: dir.to_owned(), found: format!("{error:#}") })?;
    let component = strip::custom_sections(&component, &|_| false)?;
    let differences = contract::check(&component)?;
    if differences.is_empty() { Ok(component) } else { Err(refuse(differences)) }
}

/// Fields of the output of `cargo metadata` that this module reads.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

/// Fields of cargo's JSON messages that this module reads.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Names and folders of a crate and its dependencies, from `cargo metadata`.
struct Layout {
    package: String,
    /// Name of the library as it appears in file names, with `_` in place of `-`.
    library: String,
    target_dir: PathBuf,
    /// Pairs of a folder on this machine and the name that replaces it in the component. A later
    /// entry takes precedence.
    folders: Vec<(PathBuf, String)>,
}

impl Metadata {
    fn layout(self, manifest: &Path) -> Result<Layout> {
        let odd =
            |found: &str| Error::NotAKernelCrate { manifest: manifest.to_owned(), found: found.to_owned() };
        let package = self
            .packages
            .iter()
            .find(|package| same_file(&package.manifest_path, manifest))
            .ok_or_else(|| odd("a workspace, not a package"))?;
        let library = ["lib", "rlib", "cdylib", "dylib", "staticlib"];
        let found = package.targets.iter().find(|target| {
            target.crate_types.iter().any(|kind| library.contains(&kind.as_str()))
                && !target.crate_types.iter().any(|kind| kind == "bin")
        });
        let library = found.ok_or_else(|| odd("a package without a library"))?.name.replace('-', "_");
        // Cargo already gives file names of the workspace relative to its root.
        let mut folders = Vec::new();
        let mut fetched = BTreeSet::new();
        for package in &self.packages {
            let Some(folder) = package.manifest_path.parent() else {
                continue;
            };
            let registry = package
                .source
                .as_deref()
                .is_some_and(|source| source.contains("registry+") || source.starts_with("sparse+"));
            if registry {
                fetched.extend(folder.parent().map(Path::to_owned));
            } else if package.source.is_some() || !folder.starts_with(&self.workspace_root) {
                let name = format!("/{}-{}", package.name, package.version);
                folders.push((folder.to_owned(), name));
            }
        }
        folders.extend(fetched.into_iter().map(|folder| (folder, "/crates".to_owned())));
        Ok(Layout { package: package.name.clone(), library, target_dir: self.target_directory, folders })
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
