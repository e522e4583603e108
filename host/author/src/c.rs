//! Compilation of kernels in C. Clang compiles the sources in a folder, and the module is wrapped
//! into a component that fulfils the contract.
//!
//! ```text
//! NAME/*.c         sources of the kernel
//! NAME/bindings/   contract in C: vertex_kernel.h, edge_kernel.h (generated)
//! ```
//!
//! A source includes `bindings/vertex_kernel.h` or `bindings/edge_kernel.h`, which determines the
//! kind of the kernel. The C library is wasi-libc. A kernel may use those of its functions that
//! need no operating system (memory, strings, mathematics). A function that needs a file, a clock
//! or a stream becomes an import that the host does not provide. The build refuses such an import
//! by its name.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wit_bindgen_core::Files;

use crate::compile::{Built, forward, wrap};
use crate::contract::{Contract, MAX_COMPONENT_BYTES, World};
use crate::error::{Error, Result, io};
use crate::toolchain::answer;
use crate::{digest, file};

/// Name of the subfolder of a kernel's folder that contains the generated C bindings.
pub(crate) const BINDINGS: &str = "bindings";

/// Compiler flags that select the target of wasi-libc. All clang versions since 11 know this name.
const TARGET: [&str; 2] = ["--target=wasm32-wasi", "-Wno-deprecated"];

/// Compiler and linker flags. They enable vector instructions as for kernels in Rust, and produce a
/// library with one initialisation function instead of a program. A stack overflow traps. The
/// compiler's runtime library is added separately if it exists, because few kernels need it.
const FLAGS: [&str; 9] = [
    "-std=c17",
    "-O2",
    "-Wall",
    "-msimd128",
    "-mexec-model=reactor",
    "-nodefaultlibs",
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=1048576",
    "-Wl,--strip-debug",
];

/// Highest and lowest version number NN of the `clang-NN` programs that are tried.
const CLANG: (u32, u32) = (99, 11);

/// An installed clang that has a WebAssembly linker and wasi-libc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clang {
    path: PathBuf,
    version: String,
    /// Path of the compiler's runtime library (`libclang_rt`), which implements `long double` and
    /// 128-bit integers. `None` if it is not installed.
    library: Option<PathBuf>,
}

impl Clang {
    /// Finds a clang that can build kernels. Only the program that `ECITON_WASM_CLANG` names is
    /// tried, if it is set. Otherwise `clang` is tried first, then each `clang-NN` from the newest.
    ///
    /// # Errors
    /// Returns [`Error::NoClang`], with the compilers that were tried and instructions to install
    /// one.
    pub fn find() -> Result<Self> {
        let candidates: Vec<PathBuf> = match std::env::var_os("ECITON_WASM_CLANG") {
            Some(chosen) => vec![chosen.into()],
            None => {
                let numbered = (CLANG.1..=CLANG.0).rev().map(|version| format!("clang-{version}"));
                std::iter::once("clang".to_owned()).chain(numbered).map(PathBuf::from).collect()
            }
        };
        Self::among(&candidates)
    }

    fn among(candidates: &[PathBuf]) -> Result<Self> {
        let mut tried = Vec::new();
        for path in candidates {
            match Self::ask(path) {
                Ok(found) => return Ok(found),
                // Most version numbers belong to no installed compiler.
                Err(found) if found == "not installed" && !tried.is_empty() => {}
                Err(found) => tried.push(format!("{}: {found}", path.display())),
            }
        }
        Err(Error::NoClang { tried })
    }

    /// Checks that the compiler at `path` can build kernels. If the target, the linker or wasi-libc
    /// is missing, returns a text that says so.
    fn ask(path: &Path) -> Result<Self, String> {
        let ask = |question: &[&str]| answer(Path::new("."), path, question);
        let version = ask(&["--version"])?.lines().next().unwrap_or_default().trim().to_owned();
        if !ask(&["-print-targets"])?.contains("wasm32") {
            return Err(format!("{version} does not know wasm32"));
        }
        for (question, what) in [
            ("-print-prog-name=wasm-ld", "linker wasm-ld (lld of the same version)"),
            ("-print-file-name=libc.a", "wasi-libc"),
        ] {
            // Clang answers with the bare name if it did not find the file.
            let found = ask(&[TARGET[0], TARGET[1], question])?;
            if !Path::new(found.trim()).is_file() {
                return Err(format!("{version} finds no {what}"));
            }
        }
        let library = ask(&[TARGET[0], TARGET[1], "-print-libgcc-file-name"])?;
        let library = Some(PathBuf::from(library.trim())).filter(|path| path.is_file());
        Ok(Self { path: path.to_owned(), version, library })
    }

    /// Returns a one-line description for users, the version with the path.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} ({})", self.version, self.path.display())
    }
}

/// Returns true if `dir` contains a kernel in C, which has a `.c` file and no `Cargo.toml`.
#[must_use]
pub fn is_c(dir: &Path) -> bool {
    !dir.join("Cargo.toml").exists() && sources(dir).is_ok_and(|sources| !sources.is_empty())
}

/// Writes the C bindings of the contract to `dir/bindings`. For each of `vertex_kernel` and
/// `edge_kernel`, these are a header, a source and an object file with the types. Files that are up
/// to date are not touched.
///
/// # Errors
/// Returns [`Error::Io`] if a file cannot be written, and [`Error::Internal`] if the contract
/// cannot be converted.
pub fn write_bindings(dir: &Path) -> Result<()> {
    let dir = dir.join(BINDINGS);
    for world in World::ALL {
        for (name, contents) in bindings(world)?.iter() {
            let path = dir.join(name);
            if std::fs::read(&path).ok().as_deref() != Some(contents) {
                file::write(&path, contents)?;
            }
        }
    }
    Ok(())
}

fn bindings(world: World) -> Result<Files> {
    let contract = Contract::current(world)?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default()
        .build()
        .generate(&mut contract.resolve.clone(), contract.world, &mut files)
        .map_err(|error| Error::Internal { found: format!("{error:#}") })?;
    Ok(files)
}

/// Returns the sorted names of the `.c` files in `dir`.
fn sources(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io("read", dir))? {
        let name = entry.map_err(io("read", dir))?.file_name();
        // Names that are not UTF-8, or that look like options, are ignored.
        found.extend(name.into_string().ok().filter(|name| name.ends_with(".c") && !name.starts_with('-')));
    }
    found.sort();
    Ok(found)
}

/// Compiles the C kernel in `dir`, checks the component, and then writes it to `out`. The callback
/// `watch` receives each line that the compiler prints.
///
/// # Errors
/// Returns the compiler's messages if the compilation fails. Returns a list of differences if the
/// component does not fulfil the contract, for instance because of ambient imports. Also returns an
/// error if a file cannot be read or written.
pub fn build_c(clang: &Clang, dir: &Path, out: &Path, watch: &mut dyn FnMut(&str)) -> Result<Built> {
    let whole = std::path::absolute(dir).map_err(io("find", dir))?;
    let package = whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let sources = sources(dir)?;
    let world = world(dir, &sources)?;
    write_bindings(dir)?;

    let work = tempfile::tempdir().map_err(io("write in", std::env::temp_dir()))?;
    let module = work.path().join("module.wasm");
    let bindings = format!("{BINDINGS}/{}", world.name().replace('-', "_"));
    let mut command = Command::new(&clang.path);
    // The compiler runs in the folder, so that file names in the component are the same on every
    // machine.
    command.current_dir(dir).args(TARGET).args(FLAGS).args(&sources);
    command.args([format!("{bindings}.c"), format!("{bindings}_component_type.o"), "-lc".to_owned()]);
    command
        .args(&clang.library)
        .arg("-o")
        .arg(&module)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());

    let failed = |error: std::io::Error| Error::Tool {
        command: clang.path.display().to_string(),
        found: error.to_string(),
    };
    let mut child = command.spawn().map_err(failed)?;
    let messages = child.stderr.take().map(|stderr| forward(stderr, Some(watch))).unwrap_or_default();
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(Error::Cargo { dir: dir.to_owned(), status: status.to_string(), output: messages });
    }
    let component = wrap(&package, dir, &file::read(&module, MAX_COMPONENT_BYTES)?)?;
    Built::write(out, package, &component, clang.version.clone())
}

/// Returns the world of the kernel, which follows from the header that its sources include.
fn world(dir: &Path, sources: &[String]) -> Result<World> {
    let mut texts = Vec::new();
    for name in sources {
        texts.push(file::read(&dir.join(name), digest::MAX_SOURCE_BYTES)?);
    }
    let headers = World::ALL.map(|world| (world, format!("{BINDINGS}/{}.h", world.name().replace('-', "_"))));
    let mut included = headers.iter().filter(|(_, header)| {
        let names = |text: &Vec<u8>| text.windows(header.len()).any(|window| window == header.as_bytes());
        texts.iter().any(names)
    });
    match (included.next(), included.next()) {
        (Some((world, _)), None) => Ok(*world),
        (first, _) => Err(Error::NotAKernelInC {
            dir: dir.to_owned(),
            found: if first.is_some() { "both" } else { "neither" },
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bindings_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        write_bindings(dir.path()).unwrap();
        let header = dir.path().join("bindings/vertex_kernel.h");
        let text = std::fs::read_to_string(&header).unwrap();
        assert!(text.contains("bool eciton_kernel_linalg_linear("), "{text}");
        let written = |path: &Path| path.metadata().unwrap().modified().unwrap();
        let first = written(&header);
        write_bindings(dir.path()).unwrap();
        assert_eq!(written(&header), first);
        std::fs::write(&header, "changed").unwrap();
        write_bindings(dir.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&header).unwrap(), text);
    }

    #[test]
    fn a_folder_is_in_c_by_its_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_c(dir.path()) && !is_c(&dir.path().join("absent")));
        std::fs::write(dir.path().join("kernel.c"), "").unwrap();
        assert!(is_c(dir.path()));
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        assert!(!is_c(dir.path()));
    }

    #[test]
    fn a_kernel_includes_one_header() {
        let dir = tempfile::tempdir().unwrap();
        let includes = |text: &str| {
            std::fs::write(dir.path().join("a.c"), text).unwrap();
            world(dir.path(), &sources(dir.path()).unwrap())
        };
        let vertex = "#include \"bindings/vertex_kernel.h\"\n";
        let edge = "#include \"bindings/edge_kernel.h\"\n";
        assert_eq!(includes(vertex).unwrap(), World::Vertex);
        assert_eq!(includes(edge).unwrap(), World::Edge);
        for (text, word) in [("int a;\n".to_owned(), "neither"), (format!("{vertex}{edge}"), "both")] {
            let error = includes(&text).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("--c"), "{error}");
        }
    }

    #[test]
    fn absent_compilers_are_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let absent = ["clang", "clang-19", "clang-18"].map(|name| dir.path().join(name));
        let text = Clang::among(&absent).unwrap_err().to_string();
        assert!(text.contains("clang: not installed") && text.contains("apt-get install clang"), "{text}");
        assert!(!text.contains("clang-18"), "{text}");
    }
}
