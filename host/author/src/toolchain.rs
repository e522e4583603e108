//! Search for an installed compiler that can build kernels for `wasm32-unknown-unknown`.
//!
//! If `ECITON_WASM_RUSTC` names a compiler, it is the only candidate. Otherwise the candidates are
//! the compiler in `RUSTC`, the active `rustc` of the crate's folder, and `/usr/bin/rustc`
//! (Debian's `rustc-web`). The first candidate with the target's standard library is selected. If
//! none has it, the first candidate with the library's source and a linker is selected. The library
//! is then built with the kernel (`-Z build-std`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};

/// Target triple for which kernels are compiled.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Oldest compiler version that can build kernels, as (major, minor). Kernels use edition 2024.
const OLDEST: (u32, u32) = (1, 85);

/// Highest version number NN of the `wasm-ld-NN` programs that are tried.
const LLD_NEWEST: u32 = 99;

/// Origin of the standard library with which kernels are linked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StandardLibrary {
    /// The compiler has the compiled library of the target installed.
    Installed,
    /// The library is built from the source that comes with the compiler.
    FromSource {
        /// Folder of the source, `lib/rustlib/src/rust` in the compiler's sysroot.
        source: PathBuf,
        /// Path of the linker, which is `wasm-ld-NN`, `wasm-ld` or `rust-lld`.
        linker: PathBuf,
        /// Version of the linker, for instance `LLD 19.1.7`.
        linker_version: String,
    },
}

/// A compiler, cargo and standard library that can build kernels. [`Toolchain::find`] selects them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub(crate) rustc: PathBuf,
    pub(crate) rustc_version: String,
    pub(crate) cargo: PathBuf,
    pub(crate) cargo_version: String,
    pub(crate) sysroot: PathBuf,
    pub(crate) library: StandardLibrary,
}

impl Toolchain {
    /// Finds a toolchain for the crate in `dir`, where a `rust-toolchain.toml` selects the active
    /// compiler. The variable `ECITON_WASM_RUSTC` takes precedence over all other compilers.
    ///
    /// # Errors
    /// Returns [`Error::NoToolchain`], with the compilers that were tried and instructions to
    /// install one. Returns [`Error::ChosenCompiler`] if `ECITON_WASM_RUSTC` names an unusable
    /// compiler, and [`Error::NoCargo`] if no cargo is found.
    pub fn find(dir: &Path) -> Result<Self> {
        if let Some(chosen) = std::env::var_os("ECITON_WASM_RUSTC") {
            let mut tried = Vec::new();
            return Self::among(dir, &[PathBuf::from(&chosen)], &mut tried)?.ok_or_else(|| {
                Error::ChosenCompiler {
                    rustc: chosen.to_string_lossy().into_owned(),
                    found: tried.join("; "),
                }
            });
        }
        let active = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut candidates = vec![PathBuf::from(active)];
        for more in ["rustc", "/usr/bin/rustc"] {
            if !candidates.iter().any(|known| known == Path::new(more)) {
                candidates.push(PathBuf::from(more));
            }
        }
        let mut tried = Vec::new();
        Self::among(dir, &candidates, &mut tried)?.ok_or(Error::NoToolchain { tried })
    }

    /// Returns a toolchain with the first usable compiler among `candidates`, or `None`. Appends
    /// the reasons against the others to `tried`.
    fn among(dir: &Path, candidates: &[PathBuf], tried: &mut Vec<String>) -> Result<Option<Self>> {
        let mut compilers = Vec::new();
        for rustc in candidates {
            match Compiler::ask(dir, rustc) {
                Ok(compiler) => compilers.push(compiler),
                Err(found) => tried.push(format!("{}: {found}", rustc.display())),
            }
        }
        for compiler in &compilers {
            if compiler.has_target(dir) {
                return compiler.with(dir, StandardLibrary::Installed).map(Some);
            }
        }
        for compiler in &compilers {
            match compiler.library_from_source() {
                Ok(library) => return compiler.with(dir, library).map(Some),
                Err(found) => tried.push(format!(
                    "{} ({}): target {TARGET} is not installed; {found}",
                    compiler.rustc.display(),
                    compiler.version
                )),
            }
        }
        Ok(None)
    }

    /// Returns the versions of the tools, on which the bytes of a component depend. The text
    /// contains no paths, so it is suitable for a lock file.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut text = format!("{}; {}", self.rustc_version, self.cargo_version);
        if let StandardLibrary::FromSource { linker_version, .. } = &self.library {
            text.push_str("; std from source; ");
            text.push_str(linker_version);
        }
        text
    }

    /// Returns a one-line description for users, with the versions and paths of the compiler, the
    /// standard library and cargo.
    #[must_use]
    pub fn describe(&self) -> String {
        let library = match &self.library {
            StandardLibrary::Installed => format!("target {TARGET} installed"),
            StandardLibrary::FromSource { source, linker, linker_version } => format!(
                "standard library from {}, linker {linker_version} ({})",
                source.display(),
                linker.display()
            ),
        };
        format!(
            "{} ({}), {library}, {} ({})",
            self.rustc_version,
            self.rustc.display(),
            self.cargo_version,
            self.cargo.display()
        )
    }

    /// Returns the origin of the standard library with which kernels are linked.
    #[must_use]
    pub fn library(&self) -> &StandardLibrary {
        &self.library
    }

    /// Returns the compiler as a path, or as a name that is looked up in `PATH`.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }
}

/// An installed compiler that is a candidate for a [`Toolchain`].
struct Compiler {
    rustc: PathBuf,
    /// First line of the output of `rustc -vV`, for instance `rustc 1.85.0`.
    version: String,
    host: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn ask(dir: &Path, rustc: &Path) -> Result<Self, String> {
        let text = answer(dir, rustc, &["-vV"])?;
        let version = text.lines().next().unwrap_or_default().trim().to_owned();
        if release(&version).is_none_or(|release| release < OLDEST) {
            return Err(format!("found {version:?}, kernels need rustc {}.{} or newer", OLDEST.0, OLDEST.1));
        }
        let host =
            text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().trim().to_owned();
        let sysroot = answer(dir, rustc, &["--print", "sysroot"])?;
        Ok(Self { rustc: rustc.to_owned(), version, host, sysroot: PathBuf::from(sysroot.trim()) })
    }

    /// Returns true if the compiler has the standard library of the target installed.
    fn has_target(&self, dir: &Path) -> bool {
        let arguments = ["--print", "target-libdir", "--target", TARGET];
        let Ok(folder) = answer(dir, &self.rustc, &arguments) else {
            return false;
        };
        std::fs::read_dir(folder.trim()).is_ok_and(|entries| {
            entries
                .filter_map(Result::ok)
                .any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
        })
    }

    /// Returns the library's source and a linker, or a text that says which of them is missing.
    fn library_from_source(&self) -> Result<StandardLibrary, String> {
        let source = self.sysroot.join("lib/rustlib/src/rust");
        if !source.join("library/std/Cargo.toml").is_file() {
            return Err("it does not carry the source of its standard library".to_owned());
        }
        let (linker, linker_version) = self
            .linker()
            .ok_or("it carries its library's source, but no wasm-ld-NN, wasm-ld or rust-lld runs")?;
        Ok(StandardLibrary::FromSource { source, linker, linker_version })
    }

    /// Returns the path and version of the newest linker that can be run. If versions are equal,
    /// the `rust-lld` of the compiler is preferred.
    fn linker(&self) -> Option<(PathBuf, String)> {
        let bundled = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/rust-lld");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        folders.push(PathBuf::from("/usr/bin"));

        let mut found: Vec<PathBuf> = Vec::new();
        found.extend(Some(bundled).filter(|path| path.is_file()));
        for folder in folders {
            // Fixed names are tried instead of listing folders, because a folder in PATH may be
            // large or unreadable.
            let names = (1..=LLD_NEWEST)
                .rev()
                .map(|version| format!("wasm-ld-{version}"))
                .chain(["wasm-ld".to_owned(), "rust-lld".to_owned()]);
            for path in names.map(|name| folder.join(name)) {
                if path.is_file() && !found.contains(&path) {
                    found.push(path);
                }
            }
        }
        let mut best: Option<((u32, u32), PathBuf, String)> = None;
        for path in found {
            // A link may point to a linker that is not installed, so only a linker that can be run
            // counts.
            let Ok(text) = answer(Path::new("."), &path, &["-flavor", "wasm", "--version"]) else {
                continue;
            };
            let version = lld_version(&text);
            let Some(number) = version.as_deref().and_then(release) else {
                continue;
            };
            if best.as_ref().is_none_or(|(known, ..)| *known < number) {
                best = Some((number, path, version.unwrap_or_default()));
            }
        }
        best.map(|(_, path, version)| (path, version))
    }

    fn with(&self, dir: &Path, library: StandardLibrary) -> Result<Toolchain> {
        let (cargo, cargo_version) = self.cargo(dir)?;
        Ok(Toolchain {
            rustc: self.rustc.clone(),
            rustc_version: self.version.clone(),
            cargo,
            cargo_version,
            sysroot: self.sysroot.clone(),
            library,
        })
    }

    /// Returns the first usable cargo, with its version. The cargo in the compiler's folder takes
    /// precedence, then the one in the variable `CARGO`, then the one in `PATH`.
    fn cargo(&self, dir: &Path) -> Result<(PathBuf, String)> {
        let mut candidates = Vec::new();
        if let Some(folder) = self.rustc.parent().filter(|folder| folder.is_absolute()) {
            candidates.push(folder.join("cargo"));
        }
        candidates.extend(std::env::var_os("CARGO").map(PathBuf::from));
        candidates.push(PathBuf::from("cargo"));
        let mut tried = Vec::new();
        for cargo in candidates {
            match answer(dir, &cargo, &["-V"]) {
                Ok(text) => return Ok((cargo, text.trim().to_owned())),
                Err(found) => tried.push(format!("{}: {found}", cargo.display())),
            }
        }
        Err(Error::NoCargo { found: tried.join("; ") })
    }
}

/// Runs a tool in `dir`, and returns its standard output, or a text that says why it failed.
pub(crate) fn answer(dir: &Path, tool: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "not installed".to_owned(),
            _ => error.to_string(),
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let line = complaint.lines().next().unwrap_or("no words").trim();
    Err(format!("`{}` failed ({}): {line}", arguments.join(" "), output.status))
}

/// Extracts the linker's version from its version text. For instance, `Debian LLD 19.1.7` yields
/// `LLD 19.1.7`.
fn lld_version(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == "LLD")?;
    Some(format!("LLD {}", words.next()?))
}

/// Returns the major and minor number of the first version in `text`, for instance (1, 85) for
/// `rustc 1.85.0`.
fn release(text: &str) -> Option<(u32, u32)> {
    let word = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(release("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert_eq!(release("rustc 1.99.0-nightly (x)"), Some((1, 99)));
        assert_eq!(release("LLD 19.1.7"), Some((19, 1)));
        assert_eq!(release("no number"), None);
        assert_eq!(lld_version("Debian LLD 19.1.7\n").unwrap(), "LLD 19.1.7");
        assert_eq!(lld_version("LLD 22.1.2 (compatible with GNU linkers)").unwrap(), "LLD 22.1.2");
        assert_eq!(lld_version("GNU ld 2.40"), None);
    }

    #[test]
    fn absent_compilers_are_named_with_the_reason() {
        let mut tried = Vec::new();
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("rustc");
        let found = Toolchain::among(dir.path(), &[absent], &mut tried).unwrap();
        assert_eq!(found, None);
        assert_eq!(tried.len(), 1);
        assert!(tried[0].ends_with("rustc: not installed"), "{tried:?}");
        let text = Error::NoToolchain { tried }.to_string();
        for remedy in ["rustup target add wasm32-unknown-unknown", "rust-web-src", "not installed"] {
            assert!(text.contains(remedy), "{text}");
        }
    }

    /// Creates a script that answers like a compiler, for cases that this machine does not have.
    #[cfg(unix)]
    fn pretend(dir: &Path, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.join("rustc");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[cfg(unix)]
    #[test]
    fn old_compilers_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let rustc = pretend(dir.path(), "echo rustc 1.63.0");
        let mut tried = Vec::new();
        let found = Toolchain::among(dir.path(), &[rustc], &mut tried).unwrap();
        assert_eq!(found, None);
        assert!(tried[0].contains("1.63.0") && tried[0].contains("1.85"), "{tried:?}");
    }

    #[cfg(unix)]
    #[test]
    fn an_installed_target_is_preferred() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        let script = format!(
            "case \"$*\" in\n-vV) echo 'rustc 1.95.0 (x)'; echo 'host: h';;\n*target-libdir*) echo {root}/lib;;\n*) echo {root};;\nesac"
        );
        let rustc = pretend(dir.path(), &script);
        std::fs::create_dir_all(dir.path().join("lib/rustlib/src/rust/library/std")).unwrap();
        std::fs::write(dir.path().join("lib/libstd-0.rlib"), "").unwrap();
        let mut tried = Vec::new();
        let found = Toolchain::among(dir.path(), std::slice::from_ref(&rustc), &mut tried).unwrap().unwrap();
        assert_eq!(found.library, StandardLibrary::Installed);
        assert!(found.identity().starts_with("rustc 1.95.0 (x); cargo "), "{found:?}");
        assert!(found.describe().contains("installed"));

        // An empty folder, as rustup leaves it for some targets, is not a library.
        std::fs::remove_file(dir.path().join("lib/libstd-0.rlib")).unwrap();
        let found = Toolchain::among(dir.path(), &[rustc], &mut tried).unwrap();
        assert_eq!(found, None);
        assert!(tried[0].contains("source of its standard library"), "{tried:?}");
    }
}
