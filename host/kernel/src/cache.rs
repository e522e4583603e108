//! Disk cache of code that was compiled for this machine. It persists between runs. Code for other
//! machines is the subject of [`artefact`].
//!
//! Loading native code is unsafe whatever its name or digest. For this reason cached code is loaded
//! only if its MAC verifies (HMAC-SHA256 over engine, component and code). The MAC key lies outside
//! the cache folder, and only the user can read it. If the MAC does not verify, the component is
//! compiled again. One user writes and reads the cache on one machine, so a shared secret is
//! enough.
//!
//! [`artefact`]: crate::artefact

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::secret::{self, LEN};

type HmacSha256 = Hmac<Sha256>;

/// Maximum size of a cached code file, in bytes. Larger files are not read.
const MAX_ARTEFACT: u64 = 256 << 20;

/// Folder of compiled code, with the secret key that authenticates the files in it.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    key: [u8; LEN],
}

impl Cache {
    /// Opens the cache in `folder`, which is authenticated with the key in `key_file`. Creates the
    /// folder and the key file if they do not exist.
    pub fn open(folder: &Path, key_file: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|source| Error::Cache { path: folder.to_owned(), source })?;
        let key =
            secret::open(key_file).map_err(|source| Error::Cache { path: key_file.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned(), key })
    }

    /// Returns true if the key file of a cache exists and is valid, and false if it does not exist.
    /// The function creates nothing.
    ///
    /// # Errors
    /// Returns the error that [`Cache::open`] would return, for instance if other users may read
    /// the file.
    pub fn look_at_key(key_file: &Path) -> Result<bool> {
        secret::look(key_file).map_err(|source| Error::Cache { path: key_file.to_owned(), source })
    }

    fn path(&self, engine: u64, component: &[u8; LEN]) -> PathBuf {
        let name: String = component.iter().take(16).map(|b| format!("{b:02x}")).collect();
        self.folder.join(format!("{name}-{engine:016x}.cwasm"))
    }

    fn mac(&self, engine: u64, component: &[u8; LEN], code: &[u8]) -> Option<HmacSha256> {
        let mut mac = HmacSha256::new_from_slice(&self.key).ok()?;
        mac.update(&engine.to_le_bytes());
        mac.update(component);
        mac.update(code);
        Some(mac)
    }

    /// Returns the cached code of a component, or `None` if there is none or its MAC does not
    /// verify. `engine` is the engine's hash, and `component` is the component's SHA-256 digest.
    pub fn get(&self, engine: u64, component: &[u8; LEN]) -> Option<Vec<u8>> {
        let file = eciton_input::file::open(&self.path(engine, component)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_ARTEFACT).read_to_end(&mut bytes).ok()?;
        let at = bytes.len().checked_sub(LEN)?;
        self.mac(engine, component, &bytes[..at])?.verify_slice(&bytes[at..]).ok()?;
        bytes.truncate(at);
        Some(bytes)
    }

    /// Writes the compiled code of a component to the cache. The file is replaced atomically, so
    /// that a reader never sees an incomplete file.
    pub fn put(&self, engine: u64, component: &[u8; LEN], code: &[u8]) -> Result<()> {
        let path = self.path(engine, component);
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(code)?;
            if let Some(mac) = self.mac(engine, component, code) {
                file.write_all(&mac.finalize().into_bytes())?;
            }
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|source| Error::Cache { path: path.clone(), source })
    }
}

/// Returns the SHA-256 digest of a component.
pub fn digest(component: &[u8]) -> [u8; LEN] {
    Sha256::digest(component).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_key_wrote_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, component) = (dir.path().join("cache"), [7; LEN]);
        let cache = Cache::open(&folder, &dir.path().join("key")).unwrap();
        assert!(cache.get(1, &component).is_none());
        cache.put(1, &component, b"code").unwrap();
        assert_eq!(cache.get(1, &component).unwrap(), b"code");
        assert!(cache.get(2, &component).is_none(), "another engine");
        let again = Cache::open(&folder, &dir.path().join("key")).unwrap();
        assert!(again.get(1, &component).is_some());
        let other = Cache::open(&folder, &dir.path().join("other-key")).unwrap();
        assert!(other.get(1, &component).is_none(), "another key");
        let path = cache.path(1, &component);
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(cache.get(1, &component).is_none(), "changed code");
        fs::write(&path, b"short").unwrap();
        assert!(cache.get(1, &component).is_none());
    }
}
