//! `eciton kernel add`: pins components by digest, so that runs accept these and no others.

use std::path::{Path, PathBuf};

use eciton_author::{Pin, Pins};
use serde::Serialize;

use super::{read, refuse};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::bytes;

/// `eciton kernel add`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The components
    #[arg(value_name = "FILE.wasm", required = true)]
    files: Vec<PathBuf>,
    /// The lock file, or the folder that it is in [default: eciton-kernels.lock, here]
    #[arg(long, value_name = "PATH", default_value = ".", hide_default_value = true)]
    lock: PathBuf,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A run whose model or --kernel names a component looks for eciton-kernels.lock in the component's folder,
then in the three folders above it. The first that is there must list the component with the digest that
it has, or nothing runs. Where there is none, any component may run.";

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    lock: &'a str,
    #[serde(flatten)]
    pin: &'a Pin,
    /// Digest that was pinned before.
    former: Option<&'a str>,
}

/// Returns the folder of the lock file that `--lock` names.
fn folder(lock: &Path) -> Result<&Path, Failure> {
    if lock.is_dir() {
        return Ok(lock);
    }
    let (name, named) = (Pins::NAME, lock.display());
    if lock.file_name() != Some(name.as_ref()) {
        return Err(Failure::Usage(format!(
            "--lock {named}: runs look for {name}; give that, or its folder"
        )));
    }
    Ok(lock.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Checks all components, pins all, and writes the lock file once.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut pins = Pins::open(folder(&arguments.lock)?)?;
    let mut pinned = Vec::new();
    for file in &arguments.files {
        let component = read(file)?;
        refuse(file, &component)?;
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
            Some(former) if former == pin.component => "as it was".to_owned(),
            Some(former) => format!("was {former}"),
        };
        output.line(format_args!("{}  {}  {}  {what}", pin.path, bytes(pin.bytes), pin.component));
    }
    Ok(())
}
