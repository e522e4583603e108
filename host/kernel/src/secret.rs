//! Secret key file with 32 random bytes, which only its owner may read.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Length of a secret key, in bytes.
pub(crate) const LEN: usize = 32;

/// Reads the secret from the file `path`, without creating one. Returns `None` if the file does not
/// exist or this user may not open it.
pub(crate) fn existing(path: &Path) -> io::Result<Option<[u8; LEN]>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match eciton_input::file::open(path) {
        Ok(file) => read(file, path).map(Some),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads the secret from the file `path`. If the file does not exist, it is created with a random
/// secret, and its folder as well.
pub(crate) fn open(path: &Path) -> io::Result<[u8; LEN]> {
    match eciton_input::file::open(path) {
        Ok(file) => return read(file, path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let parent = path
        .parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path of the key has no folder"))?;
    fs::create_dir_all(parent)?;
    let mut key = [0u8; LEN];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    // The file is created with mode 0600 and then moved to its path, unless another process was
    // faster.
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(key),
        Err(_) => read(eciton_input::file::open(path)?, path),
    }
}

/// Returns true if the file `path` exists and has a valid secret, and false if it does not exist.
/// Returns an error if [`read`] refuses the file.
pub(crate) fn look(path: &Path) -> io::Result<bool> {
    match eciton_input::file::open(path) {
        Ok(file) => read(file, path).map(|_| true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn read(file: fs::File, path: &Path) -> io::Result<[u8; LEN]> {
    let bad = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    eciton_input::file::check_private(&file, path)?;
    let mut bytes = Vec::with_capacity(LEN);
    file.take(LEN as u64 + 1).read_to_end(&mut bytes)?;
    <[u8; LEN]>::try_from(bytes)
        .map_err(|_| bad("the key must have 32 bytes; delete the file to create a new key".to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/key");
        let key = open(&path).unwrap();
        assert_eq!(open(&path).unwrap(), key);
        assert_ne!(open(&dir.path().join("other")).unwrap(), key);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("mode 640"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in [&key[1..], &[key, key].concat()[..33]] {
            fs::write(&path, wrong).unwrap();
            assert!(open(&path).unwrap_err().to_string().contains("32 bytes"));
        }
    }

    #[test]
    fn who_only_looks_makes_neither_secret_nor_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/key");
        assert_eq!(existing(&path).unwrap(), None);
        assert!(!dir.path().join("new").exists());
        let key = open(&path).unwrap();
        assert_eq!(existing(&path).unwrap(), Some(key));
        assert_eq!(existing(&path.join("below")).unwrap(), None, "a file where a folder should be");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(existing(&path).unwrap_err().to_string().contains("mode 640"));
    }

    #[test]
    fn many_who_make_it_at_once_agree() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let keys: Vec<_> = std::thread::scope(|s| {
            let all: Vec<_> = (0..8).map(|_| s.spawn(|| open(&path).unwrap())).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|k| *k == keys[0]));
    }
}
