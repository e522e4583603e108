//! Rendezvous of the hosts of a run, at which host 0 says how the others reach it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::HEAD_BYTES;
use crate::secret::{Secret, write_private};

/// Address of host 0, and the secret of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    /// Address of host 0, in the form `HOST:PORT`.
    pub address: String,
    /// Secret of the run. `None` if all hosts have got it in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
}

impl Meeting {
    /// Name of the file or object with the meeting.
    pub const FILE: &str = "hosts.json";

    fn path(folder: &Path) -> PathBuf {
        folder.join(Self::FILE)
    }

    /// Writes the meeting to a file in `folder` that other users cannot read. Creates the folder if
    /// it does not exist. A file of an earlier run is replaced.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let failed =
            |e| Error::TokenFile { path: folder.to_owned(), reason: format!("cannot be created: {e}") };
        std::fs::create_dir_all(folder).map_err(failed)?;
        write_private(&Self::path(folder), self)
    }

    /// Reads the meeting in `folder`. Returns `None` if host 0 has not written it yet.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be read or is not valid, or if other users
    /// can read it.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = Self::path(folder);
        if !eciton_input::file::present(&path) {
            return Ok(None);
        }
        let refuse = |reason: String| Error::TokenFile { path: path.clone(), reason };
        let text = eciton_input::file::read_private(&path, HEAD_BYTES).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&text).map(Some).map_err(refuse)
    }

    /// Parses the bytes of a meeting.
    ///
    /// # Errors
    /// Returns the defect if the bytes are not a meeting.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("it is not an address ({e})"))
    }

    /// Removes the meeting in `folder`, once host 0 no longer listens.
    pub fn remove(folder: &Path) {
        // Somebody else may have removed it.
        drop(std::fs::remove_file(Self::path(folder)));
    }
}
