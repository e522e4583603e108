//! The command `eciton kernel`, which lists the built-in kernels, and creates, builds, checks,
//! measures, inspects and pins kernels.

mod add;
mod inspect;
mod layer;
mod new;
mod trial;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use eciton_author::{Build, Clang, Difference, MAX_COMPONENT_BYTES, Toolchain, component_digest};
use eciton_types::On;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::text::{bytes, grouped};

/// Subcommands of `eciton kernel`. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the built-in kernels
    List(ListArguments),
    /// Create a new kernel from a template, in Rust or C
    New(new::Arguments),
    /// Compile a kernel in Rust or C into a component
    Build(BuildArguments),
    /// Check a component against the kernel contract and, with --inputs, its gradients numerically
    Check(trial::CheckArguments),
    /// Measure the time of a component's functions on random rows
    Bench(trial::BenchArguments),
    /// Show the interfaces and attributes of a component and, with --inputs, a layer's parameters
    Inspect(inspect::Arguments),
    /// Pin components by digest in eciton-kernels.lock, so that runs accept no others
    Add(add::Arguments),
}

/// Arguments of `eciton kernel list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print sizes and digests instead of descriptions
    #[arg(long, conflicts_with = "json")]
    digests: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Arguments of `eciton kernel build`.
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArguments {
    /// Folder of a kernel crate or of a kernel's .c files; with --builtin, a folder of Eciton's
    /// repository [default: .]
    path: Option<PathBuf>,
    /// Build the kernels that ship with Eciton, and record them in guest-kernels/kernels.lock
    #[arg(long)]
    builtin: bool,
    /// Folder to write the component to [default: the kernel's folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Compare the build of the sources with guest-kernels/kernels.lock, and write nothing
    #[arg(long, requires = "builtin", conflicts_with = "out")]
    check: bool,
}

/// Runs the selected subcommand of `eciton kernel`.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => {
            list(arguments, output);
            Ok(())
        }
        Command::New(arguments) => new::run(arguments, output),
        Command::Build(arguments) if arguments.builtin => build_builtin(arguments, output),
        Command::Build(arguments) => build(arguments, output),
        Command::Check(arguments) => trial::check(arguments, output),
        Command::Bench(arguments) => trial::bench(arguments, output),
        Command::Inspect(arguments) => inspect::run(arguments, output),
        Command::Add(arguments) => add::run(arguments, output),
    }
}

/// Description of a built-in kernel, which `eciton kernel list --json` prints.
#[derive(Serialize)]
struct Listed {
    event: &'static str,
    name: &'static str,
    does: &'static str,
    on: &'static str,
    bytes: usize,
    digest: String,
    contract: &'static str,
}

/// Prints the built-in kernels, with their descriptions or their digests.
fn list(arguments: &ListArguments, output: &mut Output) {
    for kernel in eciton_train::kernels::builtin() {
        let (name, digest) = (kernel.name, component_digest(kernel.component));
        let bytes = kernel.component.len();
        let known = eciton_author::BUILTIN.iter().find(|known| known.name == name);
        let does = known.map_or("", |known| known.does);
        if arguments.json {
            let contract = eciton_author::version(kernel.component);
            let on = match kernel.on {
                On::Rows => "rows",
                On::Edges => "edges",
            };
            output.json(&Listed { event: "kernel", name, does, on, bytes, digest, contract });
        } else if arguments.digests {
            output.line(format_args!("{name:<14} {:>7} bytes  {digest}", grouped(bytes as u64)));
        } else {
            output.line(format_args!("{name:<14} {does}"));
        }
    }
    if !arguments.json && !arguments.digests {
        output.line("For attributes, inputs and outputs of a kernel, run `eciton kernel inspect NAME`.");
    }
}

/// Prints a line of the build tools' output on standard error.
fn watch(line: &str) {
    tell(line);
    // `core` is the first crate. More than a minute passes before the kernel's own name appears.
    if line.trim_start().starts_with("Compiling core v") {
        tell("  (compiling the standard library for wasm, once for all kernels; takes one or two minutes)");
    }
}

/// Builds a kernel of the user, and prints the path, size and digest of the component.
fn build(arguments: &BuildArguments, output: &mut Output) -> Result<(), Failure> {
    let folder = arguments.path.as_deref().unwrap_or(Path::new("."));
    let whole = std::path::absolute(folder).and_then(|path| path.canonicalize()).map_err(|error| {
        Failure::Failed(format!("{}: {error}; expected the folder of a kernel", folder.display()))
    })?;
    let name = whole.file_name().map_or_else(|| "kernel".into(), |name| name.to_string_lossy());
    let out = arguments.out.as_deref().unwrap_or(folder);
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::Failed(format!("{}: cannot be created: {error}", out.display())))?;
    let out = out.join(format!("{name}.wasm"));
    let built = if eciton_author::is_c(folder) {
        let clang = Clang::find()?;
        watch(&clang.describe());
        eciton_author::build_c(&clang, folder, &out, &mut watch)?
    } else {
        let toolchain = Toolchain::find(folder)?;
        watch(&toolchain.describe());
        Build::new(&toolchain, folder).on_line(watch).run(&out)?
    };
    output.line(format_args!("{}  {}  {}", built.path.display(), bytes(built.bytes_len), built.digest));
    Ok(())
}

/// Builds the built-in kernels. With `--check`, only compares the results with the committed
/// components.
fn build_builtin(arguments: &BuildArguments, output: &mut Output) -> Result<(), Failure> {
    let root = repository(arguments.path.as_deref().unwrap_or(Path::new(".")))?;
    if arguments.check {
        let comparisons = eciton_author::check_builtin(&root, &[], &mut watch)?;
        for comparison in &comparisons {
            output.line(comparison);
        }
        return match comparisons.iter().filter(|comparison| !comparison.holds()).count() {
            0 => Ok(()),
            count => Err(Failure::Failed(format!(
                "{count} of {} built-in kernels differ from the build of their sources",
                comparisons.len()
            ))),
        };
    }
    let (entries, folder) = match &arguments.out {
        Some(out) => (eciton_author::build_builtin(&root, &[], out, &mut watch)?, out.clone()),
        None => (
            eciton_author::update_builtin(&root, &[], &mut watch)?,
            root.join("guest-kernels").join("prebuilt"),
        ),
    };
    for entry in entries {
        let path = folder.join(format!("{}.wasm", entry.name));
        output.line(format_args!("{}  {}  {}", path.display(), bytes(entry.bytes), entry.component));
    }
    Ok(())
}

/// Returns the root folder of Eciton's repository that contains the folder `from`.
fn repository(from: &Path) -> Result<PathBuf, Failure> {
    let is_root = |dir: &&Path| {
        dir.join("guest-kernels/sdk/Cargo.toml").is_file() && dir.join("wit/kernel/kernel.wit").is_file()
    };
    if is_root(&from) {
        return Ok(from.to_owned());
    }
    let whole = std::path::absolute(from)?;
    whole.ancestors().find(is_root).map(Path::to_owned).ok_or_else(|| {
        Failure::Failed(format!(
            "{}: not within Eciton's repository (neither the folder nor a parent has guest-kernels/sdk and \
             wit/kernel); expected a folder of the repository",
            from.display()
        ))
    })
}

/// Reads the bytes of a component. The result has at most one byte more than the size limit, which
/// suffices for the contract check to refuse it.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let refuse =
        |error: std::io::Error| Failure::Failed(format!("{}: cannot be read: {error}", path.display()));
    let mut component = Vec::new();
    let file = eciton_input::file::open(path).map_err(refuse)?;
    // One byte above the limit is enough to report an error.
    file.take(MAX_COMPONENT_BYTES + 1).read_to_end(&mut component).map_err(refuse)?;
    Ok(component)
}

/// Checks that a component fulfils the kernel contract.
///
/// # Errors
/// Returns [`Failure::Failed`] with a list of the differences from the contract.
fn check_contract(path: &Path, component: &[u8]) -> Result<(), Failure> {
    let differences = eciton_author::check(component)?;
    if differences.is_empty() {
        return Ok(());
    }
    let list: Vec<String> =
        differences.iter().map(|difference: &Difference| format!("  - {difference}")).collect();
    let count = match list.len() {
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    Err(Failure::Failed(format!(
        "{}: does not implement kernel contract {}, {count}:\n{}",
        path.display(),
        eciton_author::version(component),
        list.join("\n")
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_repository_is_found_upwards() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("r");
        assert!(repository(&root).is_err());
        for file in ["guest-kernels/sdk/Cargo.toml", "wit/kernel/kernel.wit"] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(repository(&root).unwrap(), root);
        assert_eq!(repository(&root.join("guest-kernels/sdk")).unwrap(), root);
    }
}
