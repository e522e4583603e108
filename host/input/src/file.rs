//! Access to files whose names come from users. Input files must be regular files, and opening them
//! never blocks.
//!
//! Without this check, a pipe, device or socket under the name of a file could block the program or
//! deliver endless data.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::Path;

/// Opens a regular file, or a symbolic link to one, for reading.
///
/// # Errors
/// Returns the error of the operating system, or [`ErrorKind::InvalidInput`] if `path` is not a
/// regular file. The message then names the kind of file, for instance a pipe.
pub fn open(path: &Path) -> Result<File> {
    check(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // The path may have become a pipe in the meantime. Opening it must not wait for a writer.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole regular file of at most `most` bytes.
///
/// # Errors
/// Returns the errors of [`open`]. Returns [`ErrorKind::FileTooLarge`] with the length and the
/// limit if the file has more than `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    read_opened(open(path)?, most)
}

/// Reads a whole regular file of at most `most` bytes that contains a secret, after checking that
/// only its owner may access it.
///
/// # Errors
/// Returns the errors of [`read`] and [`check_private`].
#[cfg(unix)]
pub fn read_private(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    check_private(&file, path)?;
    read_opened(file, most)
}

fn read_opened(file: File, most: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_large = |found: u64| {
        Error::new(ErrorKind::FileTooLarge, format!("it has {found} bytes, above the limit of {most}"))
    };
    if length > most {
        return Err(too_large(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow while it is read, and files in `/proc` report a length of 0.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

/// Checks the permissions of `file`, which contains a secret. Only the owner may have access.
/// `path` is shown in the error message.
///
/// # Errors
/// Returns [`ErrorKind::PermissionDenied`] if other users may access the file. The message has the
/// file mode and a `chmod` command that removes the permissions.
#[cfg(unix)]
pub fn check_private(file: &File, path: &Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let reason = format!(
        "other users may access it (mode {mode:03o}); create a new one, or if you are sure that nobody has read it, run: chmod 600 {}",
        path.display()
    );
    Err(Error::new(ErrorKind::PermissionDenied, reason))
}

/// Reads a whole regular file of at most `most` bytes as UTF-8 text.
///
/// # Errors
/// Returns the errors of [`read`]. Returns [`ErrorKind::InvalidData`] with the position of the
/// first invalid byte if the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("byte {at} is not UTF-8"))
    })
}

/// Creates the file at `path`, or truncates it if it exists. Never waits for the reader of a pipe.
///
/// If `path` is a pipe that has a reader, the pipe is opened for writing. This makes
/// `--trace >(gzip > trace.gz)` work in a shell.
///
/// # Errors
/// Returns the error of the operating system, or [`ErrorKind::InvalidInput`] if `path` is a pipe
/// without a reader.
pub fn create(path: &Path) -> Result<File> {
    #[cfg(unix)]
    let _reader = read_pipe(path)?;
    File::create(path)
}

/// Opens the pipe at `path` without blocking, so that a blocking `open` by the caller does not wait
/// for a reader. Returns `None` if `path` is not a pipe.
#[cfg(unix)]
fn read_pipe(path: &Path) -> Result<Option<File>> {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    if !path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(None);
    }
    let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.map(Some).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => Error::new(
            ErrorKind::InvalidInput,
            "a pipe without a reader: start the reader first, or use a file",
        ),
        _ => error,
    })
}

/// Returns whether anything exists at `path`, for instance a file, a folder, a pipe or a broken
/// link.
///
/// Readers use this to look for optional files. If the entry is not a regular file, opening it
/// later fails with an error instead of being skipped.
pub fn present(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn check(found: &Metadata) -> Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{}, not a regular file", kind(found.file_type())),
        )),
    }
}

fn kind(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if found.is_fifo() {
            return "a pipe";
        }
        if found.is_char_device() || found.is_block_device() {
            return "a device";
        }
        if found.is_socket() {
            return "a socket";
        }
    }
    if found.is_dir() { "a folder" } else { "something else" }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let said = read(&path, 4).unwrap_err();
        assert_eq!(
            (said.kind(), said.to_string().as_str()),
            (ErrorKind::FileTooLarge, "it has 5 bytes, above the limit of 4")
        );
        assert_eq!(read_text(&path, 9).unwrap(), "12345");
        std::fs::write(&path, b"1\xff").unwrap();
        assert_eq!(read_text(&path, 9).unwrap_err().to_string(), "byte 1 is not UTF-8");
        // A file without a length.
        assert!(read(Path::new("/proc/self/status"), 10).is_err() || !cfg!(target_os = "linux"));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_to_while_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(create(&pipe).unwrap_err().to_string().contains("a pipe without a reader"));
        // Read and write, so that this end opens without the other one.
        let reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        std::io::Write::write_all(&mut create(&pipe).unwrap(), b"12").unwrap();
        let mut bytes = [0; 2];
        (&reader).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"12");
        let file = folder.path().join("file");
        std::fs::write(&file, b"12345").unwrap();
        create(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"");
    }

    #[cfg(unix)]
    #[test]
    fn what_would_block_or_never_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("dangling")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, said) in [
            ("pipe", "a pipe, not a regular file"),
            ("link", "a pipe, not a regular file"),
            ("zero", "a device, not a regular file"),
            ("socket", "a socket, not a regular file"),
            (".", "a folder, not a regular file"),
        ] {
            assert_eq!(open(&at(name)).unwrap_err().to_string(), said, "{name}");
            assert!(present(&at(name)));
        }
        assert_eq!(open(&at("dangling")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(present(&at("dangling")) && !present(&at("nothing")));
    }
}
