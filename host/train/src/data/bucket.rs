//! Stores in a bucket of S3 or of a compatible service.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use eciton_cloud::bucket::{Address, Bucket, Fault};
use eciton_graph::store::{DESCRIPTION, MAX_DESCRIPTION_BYTES, Source};

use crate::error::Result;

/// Scheme of the address of a store in a bucket.
pub(super) const SCHEME: &str = "s3://";

/// Store in a bucket. Ranges of its objects are copied into files without a name, which the operating
/// system removes when they are no longer open.
pub(super) struct InBucket {
    url: String,
    bucket: Bucket,
}

impl InBucket {
    /// Opens the store with the address `url`, in the form `s3://BUCKET/PREFIX`. Makes no request.
    ///
    /// # Errors
    /// Returns [`Error::Functions`](crate::Error::Functions) if the address is not valid, or if no
    /// region is known.
    pub(super) fn open(url: &str) -> Result<Self> {
        let bucket = Bucket::open(&Address { url: url.to_owned(), ..Address::default() })?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, bucket })
    }
}

fn refused(fault: Fault) -> io::Error {
    io::Error::other(fault.text)
}

fn absent() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no such object, or it may not be read")
}

impl Source for InBucket {
    fn shown(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.url))
    }

    fn description(&self) -> io::Result<Vec<u8>> {
        self.bucket.find(DESCRIPTION, MAX_DESCRIPTION_BYTES).map_err(refused)?.ok_or_else(absent)
    }

    fn open(&self, name: &str, needed: Range<u64>) -> io::Result<File> {
        let size = self.bucket.size(name).map_err(refused)?.ok_or_else(absent)?;
        let mut file = tempfile::tempfile()?;
        file.set_len(size)?;
        let needed = needed.start.min(size)..needed.end.min(size);
        if needed.is_empty() {
            return Ok(file);
        }
        io::Seek::seek(&mut file, io::SeekFrom::Start(needed.start))?;
        let mut write = |bytes: &[u8]| {
            file.write_all(bytes).map_err(|error| {
                let folder = std::env::temp_dir();
                let folder = folder.display();
                io::Error::other(format!(
                    "a copy cannot be written to {folder}: {error}; set TMPDIR to a folder with room"
                ))
            })
        };
        self.bucket.read(name, needed, &mut write).map_err(refused)?;
        Ok(file)
    }
}
