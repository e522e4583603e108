//! Import of data sets from a local folder, for machines without a network. Files are checked in
//! the same way as downloads.

use std::path::Path;

use crate::cache::{Cache, Failure, Outcome};
use crate::catalogue::{File, Set};
use crate::error::{Error, Result};

/// Copies the files of `set` that are absent from `cache` out of `folder`. Each file is either in
/// `folder` itself or in the subfolder that it has in a cache. Calls `told` for each file as soon
/// as it is available.
///
/// # Errors
/// Returns [`Error::Missing`] if `folder` lacks a file, and [`Error::Io`] if reading or writing
/// fails. Returns [`Error::Length`] or [`Error::Checksum`] if a file differs from the catalogue.
/// Files that were copied before the error remain in the cache.
pub fn fetch(
    set: &'static Set,
    cache: &Cache,
    folder: &Path,
    told: &mut dyn FnMut(&File, Outcome),
) -> Result<()> {
    for file in set.files {
        if cache.holds(set, file)? {
            told(file, Outcome::Present);
            continue;
        }
        let places = [folder.join(file.name), folder.join(set.folder).join(file.name)];
        let Some(path) = places.iter().find(|path| eciton_input::file::present(path)) else {
            return Err(Error::Missing {
                folder: folder.to_owned(),
                file: file.name,
                within: set.folder,
                url: format!("{}{}", set.base, file.path),
            });
        };
        let refused = |source| Error::Io { path: path.clone(), action: "cannot be read", source };
        let mut opened = eciton_input::file::open(path).map_err(refused)?;
        match cache.take(set, file, &path.display().to_string(), &mut opened) {
            Ok(()) => told(file, Outcome::Brought),
            Err(Failure::Read(source)) => return Err(refused(source)),
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    Ok(())
}
