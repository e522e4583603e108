//! Search for the worker's and the trainer's binaries, which functions run.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::architecture::Architecture;
use crate::error::{Error, Result};

static CARRIED: OnceLock<PathBuf> = OnceLock::new();

/// Names a folder that has `bootstrap` and `trainer`, for a process whose program is not Eciton's.
/// The Python package calls it with its own folder. A second call changes nothing.
pub fn carried_in(folder: PathBuf) {
    let _ = CARRIED.set(folder);
}

/// Finds the worker's binary: as given, else `ECITON_WORKER`, else `bootstrap` in the folder of
/// [`carried_in`] or beside this program, else `target/worker/bootstrap` in this folder or above.
///
/// # Errors
/// There is none; a file that was named and is not there.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    first(WORKER, given, beside("bootstrap").chain(built_here()?))
}

/// Finds the worker's binary for a package: as [`find`], but what `--profile worker` built, a
/// quarter of the size, goes before what another build put beside this program. What was built for
/// the functions' architecture alone goes before both.
///
/// # Errors
/// As [`find`].
pub fn find_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    first(WORKER, given, places.chain(beside("bootstrap")))
}

/// Finds the trainer's binary: as given, else `ECITON_TRAINER`, else `trainer` where [`find`] looks
/// for the worker's.
///
/// # Errors
/// As [`find`].
pub fn find_trainer(given: Option<&Path>) -> Result<PathBuf> {
    let built = built_here()?.into_iter().map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, beside("trainer").chain(built))
}

/// Finds the trainer's binary for a package, as [`find_for_package`] finds the worker's.
///
/// # Errors
/// As [`find`].
pub fn find_trainer_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let places = crossed(architecture)?.into_iter().chain(worker_profile()).chain(built_here()?);
    let named = places.map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, named.chain(beside("trainer")))
}

/// A program: its name, the variable that names its file, and its purpose.
type What = (&'static str, &'static str, &'static str);
const WORKER: What = ("worker", "ECITON_WORKER", "--worker or ECITON_WORKER");
const TRAINER: What = ("trainer", "ECITON_TRAINER", "ECITON_TRAINER");

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// A file in the folder of [`carried_in`], and in this program's.
fn beside(file: &str) -> impl Iterator<Item = PathBuf> {
    let folders = CARRIED.get().cloned().into_iter().chain(program_folder());
    folders.map(move |folder| folder.join(file))
}

/// The worker in the folder where `--profile worker` puts it, next to this program's own folder.
fn worker_profile() -> Option<PathBuf> {
    Some(program_folder()?.parent()?.join("worker/bootstrap"))
}

fn built_here() -> Result<Vec<PathBuf>> {
    above("target/worker/bootstrap")
}

/// Returns the programs that `make -C infra arm64` built.
fn crossed(architecture: Architecture) -> Result<Vec<PathBuf>> {
    match architecture {
        Architecture::X86_64 => Ok(Vec::new()),
        Architecture::Arm64 => above("target/aarch64-unknown-linux-gnu/worker/bootstrap"),
    }
}

/// A file in this folder or in one above.
fn above(file: &str) -> Result<Vec<PathBuf>> {
    let here = std::env::current_dir().map_err(Error::file(".", "found"))?;
    Ok(here.ancestors().map(|folder| folder.join(file)).collect())
}

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

fn none((program, _, names): What, tried: &[PathBuf]) -> Result<PathBuf> {
    let shown: Vec<String> = tried.iter().take(3).map(|path| path.display().to_string()).collect();
    Err(Error::NoWorker { program, names, tried: format!("there is no {}", shown.join(", no ")) })
}
