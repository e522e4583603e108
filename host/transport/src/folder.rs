//! Object store in a folder, for tests with several processes.
//!
//! The path of an object is its key, followed by `~`, within the folder. No key contains `~`, so
//! `a` and `a/b` can both be objects. A write fills a file in the subfolder `~tmp`, and then
//! renames it. The rename either replaces an existing file or, with [`Condition::IfAbsent`], fails
//! if there is one. The file system therefore decides which writer is first. Writes are not forced
//! to disk. A power failure may lose objects, but a crash of the process does not.

use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::key::{Key, check_prefix};
use crate::store::{
    Condition, Counter, Counts, Kind, MAX_OBJECT_BYTES, Pending, Sink, Store, Stored, check_range,
    check_size, cut_range,
};

/// Size of the pieces that [`Store::read`] passes to a sink, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Maximum number of times that a write creates the folder of its object. A concurrent deletion may
/// remove the folder again.
const MAX_FOLDER_TRIES: usize = 16;

/// Object store whose objects are files in a folder. Several processes may use the folder at the
/// same time.
#[derive(Debug)]
pub struct FolderStore {
    shared: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    root: PathBuf,
    counter: Counter,
    max_object_bytes: u64,
}

impl FolderStore {
    /// Opens the folder `root`, and creates it if it does not exist.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        Self::with_limit(root, MAX_OBJECT_BYTES)
    }

    /// Opens a store that refuses objects larger than `max_object_bytes` bytes.
    pub fn with_limit(root: impl Into<PathBuf>, max_object_bytes: u64) -> Result<Self> {
        let root = root.into();
        let temporary = root.join("~tmp");
        std::fs::create_dir_all(&temporary).map_err(|source| Error::Io {
            operation: "open",
            path: temporary,
            source,
        })?;
        Ok(Self { shared: Arc::new(Folder { root, counter: Counter::default(), max_object_bytes }) })
    }

    /// Runs `work` on a Tokio thread for blocking operations.
    fn run<'a, T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Folder) -> Result<T> + Send + 'static,
    ) -> Pending<'a, T> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let path = shared.root.clone();
            match tokio::task::spawn_blocking(move || work(&shared)).await {
                Ok(result) => result,
                Err(lost) => Err(Error::Io { operation, path, source: io::Error::other(lost) }),
            }
        })
    }
}

impl Folder {
    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(format!("{key}~"))
    }

    /// Opens the file of an object, and returns the file and its size. A folder at the path of the
    /// object counts as a missing object.
    fn open(&self, operation: &'static str, key: &Key) -> Result<(std::fs::File, u64)> {
        let path = self.path(key);
        let opened = eciton_input::file::open(&path).and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        opened.map_err(|source| match source.kind() {
            // A path that is not a file is not an object.
            ErrorKind::NotFound | ErrorKind::InvalidInput => {
                Error::NotFound { operation, key: key.to_string() }
            }
            _ => Error::Io { operation, path, source },
        })
    }

    fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Bytes> {
        let (mut file, len) = self.open("get", key)?;
        let cut = match range {
            None => 0..len,
            Some(range) => cut_range(key, &range, len)?,
        };
        let wanted = cut.end - cut.start;
        check_size(key, wanted, self.max_object_bytes)?;
        let failed = |source| Error::Io { operation: "get", path: self.path(key), source };
        if cut.start > 0 {
            file.seek(SeekFrom::Start(cut.start)).map_err(failed)?;
        }
        // Files are never changed after they are in place, so the size is still valid.
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        file.take(wanted).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 != wanted {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        self.counter.came(bytes.len());
        Ok(bytes.into())
    }

    fn put(&self, key: &Key, bytes: &[u8], condition: Condition) -> Result<Stored> {
        let path = self.path(key);
        let failed = |source| Error::Io { operation: "put", path: path.clone(), source };
        let mut file = NamedTempFile::new_in(self.root.join("~tmp")).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        let mut tries = 0;
        loop {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            let moved = match condition {
                Condition::Always => file.persist(&path),
                Condition::IfAbsent => file.persist_noclobber(&path),
            };
            let lost = match moved {
                Ok(_) => return Ok(Stored::Written),
                Err(lost) => lost,
            };
            tries += 1;
            match lost.error.kind() {
                ErrorKind::AlreadyExists if condition == Condition::IfAbsent => return Ok(Stored::Exists),
                // A removal deleted the empty folder between the two calls.
                ErrorKind::NotFound if tries < MAX_FOLDER_TRIES => file = lost.file,
                _ => return Err(failed(lost.error)),
            }
        }
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        for key in keys {
            let path = self.path(key);
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(source) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(source) => return Err(Error::Io { operation: "delete", path, source }),
            }
            // Folders that are now empty are removed as well, up to the first one that is not
            // empty.
            let above = path.ancestors().skip(1).take_while(|folder| *folder != self.root);
            for folder in above {
                if std::fs::remove_dir(folder).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str, limit: usize) -> Result<Vec<(Key, u64)>> {
        // Only the folder that all matching keys share must be searched.
        let shared = prefix.rfind('/').map_or("", |at| &prefix[..at]);
        let mut found = Vec::new();
        self.walk(&self.root.join(shared), shared, prefix, &mut found)?;
        found.sort();
        found.truncate(limit);
        Ok(found)
    }

    fn walk(&self, folder: &Path, name: &str, prefix: &str, found: &mut Vec<(Key, u64)>) -> Result<()> {
        let failed = |source| Error::Io { operation: "list", path: folder.to_owned(), source };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(source) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(source) => return Err(failed(source)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let part = entry.file_name();
            let Some(part) = part.to_str() else { continue };
            let path = if name.is_empty() { part.to_owned() } else { format!("{name}/{part}") };
            match path.strip_suffix('~') {
                Some(key) if key.starts_with(prefix) => {
                    let Ok(key) = Key::new(key) else { continue };
                    match entry.metadata() {
                        Ok(metadata) if metadata.is_file() => found.push((key, metadata.len())),
                        Ok(_) => {}
                        // The entry was removed during the search.
                        Err(source) if source.kind() == ErrorKind::NotFound => {}
                        Err(source) => return Err(failed(source)),
                    }
                }
                // A folder is searched if keys below it can start with the prefix. The length of
                // keys bounds the depth.
                None if path.len() <= Key::MAX_BYTES
                    && (path.starts_with(prefix) || prefix.starts_with(&path))
                    && entry.file_type().is_ok_and(|kind| kind.is_dir()) =>
                {
                    self.walk(&entry.path(), &path, prefix, found)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Store for FolderStore {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        range: Option<Range<u64>>,
        sink: &'a mut Sink<'_>,
    ) -> Pending<'a, u64> {
        Box::pin(async move {
            let mut bytes = self.get(key, range).await?;
            let len = bytes.len() as u64;
            while !bytes.is_empty() {
                sink(bytes.split_to(PIECE_BYTES.min(bytes.len())))?;
            }
            Ok(len)
        })
    }

    fn get<'a>(&'a self, key: &'a Key, range: Option<Range<u64>>) -> Pending<'a, Bytes> {
        match range.as_ref().map(|range| check_range(key, range)) {
            Some(Err(error)) => return Box::pin(std::future::ready(Err(error))),
            Some(Ok(None)) => return Box::pin(std::future::ready(Ok(Bytes::new()))),
            Some(Ok(Some(()))) | None => {}
        }
        self.shared.counter.request(Kind::Get);
        let key = key.clone();
        self.run("get", move |folder| folder.get(&key, range))
    }

    fn put<'a>(&'a self, key: &'a Key, bytes: Bytes, condition: Condition) -> Pending<'a, Stored> {
        if let Err(error) = check_size(key, bytes.len() as u64, self.shared.max_object_bytes) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.shared.counter.request(Kind::Put);
        self.shared.counter.went(bytes.len() as u64);
        let key = key.clone();
        self.run("put", move |folder| folder.put(&key, &bytes, condition))
    }

    fn delete<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, ()> {
        if keys.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.shared.counter.request(Kind::Delete);
        let keys = keys.to_vec();
        self.run("delete", move |folder| folder.delete(&keys))
    }

    fn list<'a>(&'a self, prefix: &'a str, limit: usize) -> Pending<'a, Vec<(Key, u64)>> {
        if let Err(error) = check_prefix(prefix) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.shared.counter.request(Kind::List);
        let prefix = prefix.to_owned();
        self.run("list", move |folder| folder.list(&prefix, limit))
    }

    fn size<'a>(&'a self, key: &'a Key) -> Pending<'a, u64> {
        self.shared.counter.request(Kind::Head);
        let key = key.clone();
        self.run("size", move |folder| Ok(folder.open("size", &key)?.1))
    }

    fn counts(&self) -> Counts {
        self.shared.counter.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_emptied_folder_is_removed_and_its_neighbours_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let [a, b] = ["r/a/x", "r/b"].map(|key| Key::new(key).unwrap());
        for key in [&a, &b] {
            store.put(key, Bytes::from_static(b"1"), Condition::Always).await.unwrap();
        }
        assert!(folder.path().join("r/a/x~").is_file());
        store.delete(&[a]).await.unwrap();
        assert!(!folder.path().join("r/a").exists() && folder.path().join("r/b~").exists());
        store.delete(&[b]).await.unwrap();
        let left: Vec<_> = folder.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["~tmp"], "and no temporary file is left");
        assert_eq!(folder.path().join("~tmp").read_dir().unwrap().count(), 0);
    }

    #[tokio::test]
    async fn strangers_in_the_folder_are_not_objects() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        std::fs::write(folder.path().join("plain"), b"1").unwrap();
        std::fs::write(folder.path().join("Upper~"), b"1").unwrap();
        std::fs::create_dir(folder.path().join("dir~")).unwrap();
        assert_eq!(store.list("", 10).await.unwrap(), []);
        let dir = Key::new("dir").unwrap();
        assert!(store.get(&dir, None).await.unwrap_err().is_not_found());
        assert!(store.get(&Key::new("plain").unwrap(), None).await.unwrap_err().is_not_found());
        assert!(store.get(&Key::new("plain/x").unwrap(), None).await.is_err());
    }
}
