//! Search for the binaries of workers and trainers, which functions run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::error::{Error, Result};

static CARRIED: OnceLock<PathBuf> = OnceLock::new();

/// Registers a folder that contains `bootstrap` and `trainer`, for a process whose program is not
/// Eciton's. The Python package passes its own folder. Only the first call has an effect.
pub fn carried_in(folder: PathBuf) {
    let _ = CARRIED.set(folder);
}

/// Finds the worker binary. The path given takes precedence, and then the file that `ECITON_WORKER`
/// names. Otherwise it is `bootstrap` in the folder of [`carried_in`] or next to this program. The
/// last candidate is `target/worker/bootstrap` in this folder or above.
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if the file that was named does not exist.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    first(WORKER, given, beside("bootstrap").chain(built_here()?))
}

/// Finds the worker binary for a deployment package. The search is that of [`find`] in another
/// order. A binary built with `--profile worker`, which has a quarter of the size, precedes one
/// next to this program. A binary built for the functions' architecture alone precedes both.
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if the file that was named does not exist.
pub fn find_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    first(WORKER, given, places.chain(beside("bootstrap")))
}

/// Finds the trainer binary. The path given takes precedence, and then the file that
/// `ECITON_TRAINER` names. Otherwise it is `trainer` in the folders where [`find`] looks for the
/// worker binary.
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if the file that was named does not exist.
pub fn find_trainer(given: Option<&Path>) -> Result<PathBuf> {
    let built = built_here()?.into_iter().map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, beside("trainer").chain(built))
}

/// Finds the trainer binary for a deployment package, in the folders and the order of
/// [`find_for_package`].
///
/// # Errors
/// Returns an [`Error`] if no binary is found, or if the file that was named does not exist.
pub fn find_trainer_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    let named = places.map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, named.chain(beside("trainer")))
}

/// A program: its name, the environment variable with its path, and the names of all settings with
/// its path.
type What = (&'static str, &'static str, &'static str);
const WORKER: What = ("worker", "ECITON_WORKER", "--worker or ECITON_WORKER");
const TRAINER: What = ("trainer", "ECITON_TRAINER", "ECITON_TRAINER");

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Returns the paths of a file in the folder of [`carried_in`] and in the folder of this program.
fn beside(file: &str) -> impl Iterator<Item = PathBuf> {
    let folders = CARRIED.get().cloned().into_iter().chain(program_folder());
    folders.map(move |folder| folder.join(file))
}

/// Returns the path of the worker binary in the folder of `--profile worker`, which is next to the
/// folder of this program.
fn worker_profile() -> Option<PathBuf> {
    Some(program_folder()?.parent()?.join("worker/bootstrap"))
}

fn built_here() -> Result<Vec<PathBuf>> {
    above("target/worker/bootstrap")
}

/// Returns the paths where `make -C infra arm64` writes the worker binary for an architecture.
fn crossed(architecture: Architecture) -> Result<Vec<PathBuf>> {
    match architecture {
        Architecture::X86_64 => Ok(Vec::new()),
        Architecture::Arm64 => above("target/aarch64-unknown-linux-gnu/worker/bootstrap"),
    }
}

/// Returns the paths of a file in the current folder and in all folders above.
fn above(file: &str) -> Result<Vec<PathBuf>> {
    let here = std::env::current_dir().map_err(Error::file(".", "found"))?;
    Ok(here.ancestors().map(|folder| folder.join(file)).collect())
}

/// Returns the first binary that exists: the one that was named, or one of the candidates.
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

/// Returns the error of a binary that was not found, with the first paths that were tried.
fn none((program, _, names): What, tried: &[PathBuf]) -> Result<PathBuf> {
    let shown: Vec<String> = tried.iter().take(3).map(|path| path.display().to_string()).collect();
    Err(Error::NoWorker { program, names, tried: format!("there is no {}", shown.join(", no ")) })
}
