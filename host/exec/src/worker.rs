//! The worker's binary, found: what emulated functions run, and what a package is made of.

use std::path::{Path, PathBuf};

use crate::Architecture;
use crate::functions::{Error, Result};

/// Finds the worker's binary: as given, else `ECITON_WORKER`, else `bootstrap` beside this program,
/// else `target/worker/bootstrap` in this folder or above.
///
/// # Errors
/// There is none; a file that was named and is not there.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    first(
        WORKER,
        given,
        program_folder().map(|folder| folder.join("bootstrap")).into_iter().chain(built_here()?),
    )
}

/// Finds the worker's binary for a package: as [`find`], but what `--profile worker` built, a quarter
/// of the size, goes before what another build put beside this program. What was built for the
/// functions' architecture alone goes before both.
///
/// # Errors
/// As [`find`].
pub fn find_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let folder = program_folder();
    let own = folder.as_ref().and_then(|folder| Some(folder.parent()?.join("worker/bootstrap")));
    let beside = folder.map(|folder| folder.join("bootstrap"));
    let places = crossed(architecture)?.into_iter().chain(own).chain(built_here()?).chain(beside);
    first(WORKER, given, places)
}

/// Finds the trainer's binary: as given, else `ECITON_TRAINER`, else `trainer` beside this program, else
/// `target/worker/trainer` in this folder or above.
///
/// # Errors
/// As [`find`].
pub fn find_trainer(given: Option<&Path>) -> Result<PathBuf> {
    let beside = program_folder().map(|folder| folder.join("trainer"));
    let built = built_here()?.into_iter().map(|path| path.with_file_name("trainer"));
    first(TRAINER, given, beside.into_iter().chain(built))
}

/// Finds the trainer's binary for a package, as [`find_for_package`] finds the worker's.
///
/// # Errors
/// As [`find`].
pub fn find_trainer_for_package(given: Option<&Path>, architecture: Architecture) -> Result<PathBuf> {
    let folder = program_folder();
    let own = folder.as_ref().and_then(|folder| Some(folder.parent()?.join("worker/trainer")));
    let named = |path: PathBuf| path.with_file_name("trainer");
    let crossed = crossed(architecture)?.into_iter().map(named);
    let places = crossed.chain(own).chain(built_here()?.into_iter().map(named));
    first(TRAINER, given, places.chain(folder.map(|folder| folder.join("trainer"))))
}

/// What is looked for: its name, the variable that names its file, and all that does.
type What = (&'static str, &'static str, &'static str);
const WORKER: What = ("worker", "ECITON_WORKER", "--worker or ECITON_WORKER");
const TRAINER: What = ("trainer", "ECITON_TRAINER", "ECITON_TRAINER");

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

fn built_here() -> Result<Vec<PathBuf>> {
    above("target/worker/bootstrap")
}

/// What `make -C infra arm64` built.
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
