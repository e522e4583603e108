//! Search for the worker and trainer binaries, which functions run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::error::{Error, Result};

static CARRIED: OnceLock<PathBuf> = OnceLock::new();

/// Registers a folder that contains the binaries `bootstrap` (worker) and `trainer`. The Python
/// package calls this with its own folder, because its process does not run the `eciton` program.
/// Only the first call has an effect.
pub fn carried_in(folder: PathBuf) {
    let _ = CARRIED.set(folder);
}

/// Returns the path of the worker binary: `given`, or else the file that the environment variable
/// `ECITON_WORKER` names. Otherwise it searches for `bootstrap` in the folder of [`carried_in`] and
/// next to this program. Last, it searches for `target/worker/bootstrap` in the current folder and
/// its parents.
///
/// Returns an [`Error`] if no binary is found, or if `given` or `ECITON_WORKER` names a file that
/// does not exist.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    first(WORKER, given, beside("bootstrap").chain(built_here()?))
}

/// Returns the path of the worker binary for a deployment package. It searches the folders of
/// [`find`] in another order. It prefers a binary that was cross-compiled for `architecture`. The
/// second choice is a binary of the build profile `worker`, which is four times smaller than
/// others.
///
/// Returns an [`Error`] if no binary is found, or if `given` or `ECITON_WORKER` names a file that
/// does not exist.
pub fn find_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    first(WORKER, given, places.chain(beside("bootstrap")))
}

/// Returns the path of the trainer binary: `given`, or else the file that the environment variable
/// `ECITON_TRAINER` names. Otherwise it searches for `trainer` in the folders where [`find`]
/// searches for the worker.
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if `given` or `ECITON_TRAINER` names a file that
/// does not exist.
pub fn find_trainer(given: Option<&Path>) -> Result<PathBuf> {
    let built = built_here()?.into_iter().map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, beside("trainer").chain(built))
}

/// Returns the path of the trainer binary for a deployment package. It searches the folders of
/// [`find_for_package`] in the same order.
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if `given` or `ECITON_TRAINER` names a file that
/// does not exist.
pub fn find_trainer_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    let named = places.map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, named.chain(beside("trainer")))
}

/// A binary to search for: its name, the environment variable that can hold its path, and all such
/// settings for an error message.
type What = (&'static str, &'static str, &'static str);
const WORKER: What = ("worker", "ECITON_WORKER", "--worker or ECITON_WORKER");
const TRAINER: What = ("trainer", "ECITON_TRAINER", "ECITON_TRAINER");

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Returns the possible paths of `file` in the folder of [`carried_in`] and next to this program.
fn beside(file: &str) -> impl Iterator<Item = PathBuf> {
    let folders = CARRIED.get().cloned().into_iter().chain(program_folder());
    folders.map(move |folder| folder.join(file))
}

/// Returns the path where Cargo writes the worker binary with `--profile worker`, next to the
/// folder of this program.
fn worker_profile() -> Option<PathBuf> {
    Some(program_folder()?.parent()?.join("worker/bootstrap"))
}

fn built_here() -> Result<Vec<PathBuf>> {
    above("target/worker/bootstrap")
}

/// Returns the possible paths of a worker binary that `make -C infra arm64` cross-compiled for
/// `architecture`.
fn crossed(architecture: Architecture) -> Result<Vec<PathBuf>> {
    match architecture {
        Architecture::X86_64 => Ok(Vec::new()),
        Architecture::Arm64 => above("target/aarch64-unknown-linux-gnu/worker/bootstrap"),
    }
}

/// Returns the paths of `file` in the current folder and in all its parents.
fn above(file: &str) -> Result<Vec<PathBuf>> {
    let here = std::env::current_dir().map_err(Error::file(".", "found"))?;
    Ok(here.ancestors().map(|folder| folder.join(file)).collect())
}

/// Returns the path of a binary: `given`, the value of its environment variable, or the first of
/// `places` that exists.
fn first(what: What, given: Option<&Path>, places: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
    let variable = std::env::var_os(what.1).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(variable) {
        return if path.is_file() { Ok(path) } else { none(what, &[path]) };
    }
    let tried: Vec<PathBuf> = places.collect();
    match tried.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => none(what, &tried),
    }
}

/// Returns the error that a binary was not found. It lists at most three of the paths in `tried`.
fn none((program, _, names): What, tried: &[PathBuf]) -> Result<PathBuf> {
    let shown: Vec<String> = tried.iter().take(3).map(|path| path.display().to_string()).collect();
    Err(Error::NoWorker { program, names, tried: format!("tried {}", shown.join(", ")) })
}
