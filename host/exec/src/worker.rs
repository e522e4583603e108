//! The worker's binary, found: what emulated functions run, and what a package is made of.

use std::path::{Path, PathBuf};

use crate::functions::{Error, Result};

/// Finds the worker's binary: as given, else `ECITON_WORKER`, else `bootstrap` beside this program,
/// else `target/worker/bootstrap` in this folder or above.
///
/// # Errors
/// There is none; a file that was named and is not there.
pub fn find(given: Option<&Path>) -> Result<PathBuf> {
    first(given, program_folder().map(|folder| folder.join("bootstrap")).into_iter().chain(built_here()?))
}

/// Finds the worker's binary for a package: as [`find`], but what `--profile worker` built, a quarter
/// of the size, goes before what another build put beside this program.
///
/// # Errors
/// As [`find`].
pub fn find_for_package(given: Option<&Path>) -> Result<PathBuf> {
    let folder = program_folder();
    let own = folder.as_ref().and_then(|folder| Some(folder.parent()?.join("worker/bootstrap")));
    let beside = folder.map(|folder| folder.join("bootstrap"));
    first(given, own.into_iter().chain(built_here()?).chain(beside))
}

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

fn built_here() -> Result<Vec<PathBuf>> {
    let here = std::env::current_dir().map_err(Error::file(".", "found"))?;
    Ok(here.ancestors().map(|folder| folder.join("target/worker/bootstrap")).collect())
}

fn first(given: Option<&Path>, places: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
    let variable = std::env::var_os("ECITON_WORKER").filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(variable) {
        return if path.is_file() { Ok(path) } else { none(&[path]) };
    }
    let tried: Vec<PathBuf> = places.collect();
    match tried.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => none(&tried),
    }
}

fn none(tried: &[PathBuf]) -> Result<PathBuf> {
    let shown: Vec<String> = tried.iter().take(3).map(|path| path.display().to_string()).collect();
    Err(Error::NoWorker { tried: format!("there is no {}", shown.join(", no ")) })
}
