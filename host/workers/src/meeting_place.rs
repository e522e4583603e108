//! Place at which the hosts of a run meet: a folder, objects in a bucket, or the address of host 0.

use std::path::PathBuf;
use std::sync::Arc;

use eciton_cloud::bucket::{Address, Bucket};
use eciton_cloud::error::{Error, Result};
use eciton_connect::Meeting;
use eciton_connect::limits::HEAD_BYTES;

/// Place at which the hosts of a run learn how to reach host 0.
#[derive(Debug, Clone)]
pub enum MeetingPlace {
    /// Folder that all hosts share.
    Folder(PathBuf),
    /// Key prefix in a bucket, with its URL.
    Bucket(Arc<Bucket>, String),
    /// Address of host 0 in the form `HOST:PORT`. All hosts must have the secret of the run.
    Address(String),
}

impl std::fmt::Display for MeetingPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket(_, url) => f.write_str(url),
            Self::Address(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl MeetingPlace {
    /// Opens the place with the given text: `tcp://HOST:PORT`, `s3://BUCKET/PREFIX`, or the path of a
    /// folder.
    ///
    /// # Errors
    /// Returns an [`Error`] if an address has no port, or if the bucket cannot be used.
    pub fn open(text: &str) -> Result<Self> {
        if let Some(address) = text.strip_prefix("tcp://") {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            return match port {
                Some(_) => Ok(Self::Address(address.to_owned())),
                None => Err(Error::Choice(format!(
                    "the address of host 0 ({text}) has no port; write tcp://HOST:PORT, for instance \
                     tcp://10.0.0.5:7070"
                ))),
            };
        }
        if text.starts_with("s3://") {
            let address = Address { url: text.to_owned(), ..Address::default() };
            return Ok(Self::Bucket(Arc::new(Bucket::open(&address)?), text.to_owned()));
        }
        Ok(Self::Folder(PathBuf::from(text)))
    }

    /// Tells the other hosts how to reach host 0. Replaces what an earlier run has left.
    ///
    /// # Errors
    /// Returns an [`Error`] if the folder or the bucket cannot be written.
    pub(super) async fn publish(&self, meeting: &Meeting) -> Result<()> {
        match self {
            Self::Folder(folder) => {
                meeting.write(folder).map_err(|error| Error::Choice(format!("hosts: {error}")))
            }
            Self::Bucket(bucket, url) => {
                let bytes =
                    serde_json::to_vec(meeting).map_err(|error| Error::Choice(format!("hosts: {error}")))?;
                let put = blocking(bucket, move |bucket| bucket.put(Meeting::FILE, bytes, false)).await;
                put.map(drop).map_err(|fault| Error::Choice(format!("hosts: {url}: {fault}")))
            }
            Self::Address(_) => Ok(()),
        }
    }

    /// Returns how to reach host 0. Returns `None` if host 0 has not published it yet.
    ///
    /// # Errors
    /// Returns the reason if the folder or the bucket cannot be read.
    pub(super) async fn find(&self) -> Result<Option<Meeting>, String> {
        match self {
            Self::Folder(folder) => Meeting::read(folder).map_err(|error| error.to_string()),
            Self::Bucket(bucket, _) => {
                let found = blocking(bucket, |bucket| bucket.find(Meeting::FILE, HEAD_BYTES)).await;
                let found = found.map_err(|fault| fault.to_string())?;
                found.map(|bytes| Meeting::parse(&bytes)).transpose()
            }
            Self::Address(address) => Ok(Some(Meeting { address: address.clone(), secret: None })),
        }
    }

    /// Removes what host 0 has published.
    pub(super) async fn clear(&self) {
        match self {
            Self::Folder(folder) => Meeting::remove(folder),
            // A later run replaces the object, whose address no longer answers.
            Self::Bucket(bucket, _) => drop(blocking(bucket, |bucket| bucket.delete(Meeting::FILE)).await),
            Self::Address(_) => {}
        }
    }
}

/// Calls `request` on a thread that may wait.
async fn blocking<T: Send + 'static>(
    bucket: &Arc<Bucket>,
    request: impl FnOnce(&Bucket) -> Result<T, eciton_cloud::bucket::Fault> + Send + 'static,
) -> Result<T, eciton_cloud::bucket::Fault> {
    let bucket = bucket.clone();
    match tokio::task::spawn_blocking(move || request(&bucket)).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
