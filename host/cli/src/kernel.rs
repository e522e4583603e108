//! `eciton kernel`: lists the built-in kernels; creates, builds, checks, inspects and pins a
//! kernel.

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

/// `eciton kernel ...`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// The built-in kernels: what each does, its size and digest
    List(ListArguments),
    /// Make a kernel to start from, a crate or in C
    New(new::Arguments),
    /// Compile a kernel crate, or one in C, into a component
    Build(BuildArguments),
    /// Compare a component with the kernel contract and, with --inputs, its gradients with differences
    Check(trial::CheckArguments),
    /// Time a component's functions on random rows
    Bench(trial::BenchArguments),
    /// Describe a component: interfaces, attributes, and with --inputs a layer's inputs, outputs and parameters
    Inspect(inspect::Arguments),
    /// Pin components by digest in eciton-kernels.lock: runs then take these and no others
    Add(add::Arguments),
}

/// `eciton kernel list`
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Sizes and digests in the place of what each does
    #[arg(long, conflicts_with = "json")]
    digests: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// `eciton kernel build`
#[derive(Debug, clap::Args)]
pub(crate) struct BuildArguments {
    /// The folder of a kernel crate, or of a kernel's .c files; with --builtin, a folder of Eciton's repository [default: .]
    path: Option<PathBuf>,
    /// Build the kernels that ship with Eciton, and record them in guest-kernels/kernels.lock
    #[arg(long)]
    builtin: bool,
    /// The folder that the component is put in [default: the kernel's folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change nothing: compare what the sources make with what is recorded
    #[arg(long, requires = "builtin", conflicts_with = "out")]
    check: bool,
}

/// Runs the command.
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
        output.line("`eciton kernel inspect NAME` has attributes, inputs and outputs of one");
    }
}

/// Prints a line of the tools on standard error.
fn watch(line: &str) {
    tell(line);
    // `core` is the first crate. More than a minute passes before the kernel's own name appears.
    if line.trim_start().starts_with("Compiling core v") {
        tell("  (the standard library for wasm, compiled once for all kernels: a minute or two)");
    }
}

fn build(arguments: &BuildArguments, output: &mut Output) -> Result<(), Failure> {
    let folder = arguments.path.as_deref().unwrap_or(Path::new("."));
    let whole = std::path::absolute(folder)
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::Failed(format!("{}: {error}; give a kernel's folder", folder.display())))?;
    let name = whole.file_name().map_or_else(|| "kernel".into(), |name| name.to_string_lossy());
    let out = arguments.out.as_deref().unwrap_or(folder);
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::Failed(format!("{}: cannot be made: {error}", out.display())))?;
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
                "{count} of {} built-in kernels are not what their sources make",
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

/// Returns the root of Eciton's repository, searched upwards from a folder in it.
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
            "{}: not in Eciton's repository (no guest-kernels/sdk and wit/kernel here or above); give its folder",
            from.display()
        ))
    })
}

/// Reads the bytes of a component.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let refuse =
        |error: std::io::Error| Failure::Failed(format!("{}: cannot be read: {error}", path.display()));
    let mut component = Vec::new();
    let file = eciton_input::file::open(path).map_err(refuse)?;
    // One byte above the limit is enough to report an error.
    file.take(MAX_COMPONENT_BYTES + 1).read_to_end(&mut component).map_err(refuse)?;
    Ok(component)
}

/// Refuses a component that differs from the contract.
fn refuse(path: &Path, component: &[u8]) -> Result<(), Failure> {
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
        "{}: not a kernel of contract {}, {count}:\n{}",
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
