//! Functions to read files with a size limit, and to write files atomically.

use std::io::Write as _;
use std::path::Path;

use crate::error::{Result, io};

/// Returns the content of the file at `path`, or an error if it has more than `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    eciton_input::file::read(path, limit).map_err(io("read", path))
}

/// Writes `bytes` to a temporary file next to `path`, and renames it to `path`. A reader therefore
/// never sees an incomplete file. Missing parent folders are created.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(dir).map_err(io("create", dir))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".eciton-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The process's umask still applies. Without this, a temporary file would be readable only
        // by its owner.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(dir).map_err(io("write in", dir))?;
    file.write_all(bytes).map_err(io("write", path))?;
    file.as_file().sync_all().map_err(io("write", path))?;
    file.persist(path).map_err(|error| io("replace", path)(error.error))?;
    Ok(())
}
