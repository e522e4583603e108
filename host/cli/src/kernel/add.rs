//! The command `eciton kernel add`, which pins components by digest in a lock file. Runs then
//! accept no other components.

use std::path::{Path, PathBuf};

use eciton_author::{Pin, Pins};
use serde::Serialize;

use super::{check_contract, read};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::bytes;

/// Arguments of `eciton kernel add`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Components to pin
    #[arg(value_name = "FILE.wasm", required = true)]
    files: Vec<PathBuf>,
    /// Lock file, or its folder [default: eciton-kernels.lock in the current folder]
    #[arg(long, value_name = "PATH", default_value = ".", hide_default_value = true)]
    lock: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A run that uses a component searches for eciton-kernels.lock in the component's
folder, then in its three parent folders. The first lock file that exists must
list the component with its digest; otherwise the run fails. If no lock file
exists, any component is accepted.";

/// Description of a pinned component, which `eciton kernel add --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    lock: &'a str,
    #[serde(flatten)]
    pin: &'a Pin,
    /// Earlier digest of the component in the lock file. `None` if the component was not pinned
    /// before.
    former: Option<&'a str>,
}

/// Returns the folder of the lock file that `--lock` names. The argument is the file or its folder.
///
/// # Errors
/// Returns [`Failure::Usage`] if `lock` is not a folder and does not have the lock file's name.
fn folder(lock: &Path) -> Result<&Path, Failure> {
    if lock.is_dir() {
        return Ok(lock);
    }
    let (name, named) = (Pins::NAME, lock.display());
    if lock.file_name() != Some(name.as_ref()) {
        return Err(Failure::Usage(format!("--lock {named}: expected a file named {name}, or its folder")));
    }
    Ok(lock.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Checks all given components against the kernel contract, and pins them. The lock file is written
/// only if all of them are valid.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut pins = Pins::open(folder(&arguments.lock)?)?;
    let mut pinned = Vec::new();
    for file in &arguments.files {
        let component = read(file)?;
        check_contract(file, &component)?;
        pinned.push(pins.pin(file, &component)?);
    }
    pins.write()?;
    let lock = pins.path().display().to_string();
    for (pin, former) in &pinned {
        let former = former.as_ref().map(|pin| &pin.component[..]);
        if arguments.json {
            output.json(&Line { event: "pinned", lock: &lock, pin, former });
            continue;
        }
        let what = match former {
            None => "new".to_owned(),
            Some(former) if former == pin.component => "unchanged".to_owned(),
            Some(former) => format!("replaces {former}"),
        };
        output.line(format_args!("{}  {}  {}  {what}", pin.path, bytes(pin.bytes), pin.component));
    }
    Ok(())
}
