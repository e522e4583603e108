//! Data sets from a folder of the user's own, for machines without a network: checked like all else.

use std::path::Path;

use crate::cache::{Cache, Failure, Outcome};
use crate::catalogue::{File, Set};
use crate::error::{Error, Result};

/// Copies the files of `set` from `folder` into the cache, unless they are there. A file lies in the
/// folder itself, or in a folder within it that is called as in a cache. `told` hears of each file.
///
/// # Errors
/// [`Error::Missing`], [`Error::Length`], [`Error::Checksum`], [`Error::Io`]; what was copied before
/// stays.
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
