//! Rendezvous of the hosts of a run, which tell each other their addresses through a folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::HEAD_BYTES;
use crate::secret::{Token, write_private};

/// Address of a host, and the tokens with which the other hosts may connect to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    /// Address of the host, in the form `HOST:PORT`.
    pub address: String,
    /// Tokens by index of the host that uses them.
    pub tokens: Vec<Token>,
}

/// Returns the path of the file with the address of `host`.
fn path(folder: &Path, host: u32) -> PathBuf {
    folder.join(format!("host-{host}.json"))
}

impl Meeting {
    /// Writes the address and the tokens of `host` to a file that other users cannot read. Creates
    /// the folder if it does not exist. A file of an earlier run is replaced.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be written.
    pub fn write(&self, folder: &Path, host: u32) -> Result<()> {
        let failed =
            |e| Error::TokenFile { path: folder.to_owned(), reason: format!("cannot be created: {e}") };
        std::fs::create_dir_all(folder).map_err(failed)?;
        write_private(&path(folder, host), self)
    }

    /// Reads the address and the tokens of `host`. Returns `None` if the host has not written them
    /// yet.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be read or is not valid, or if other users
    /// can read it.
    pub fn read(folder: &Path, host: u32) -> Result<Option<Self>> {
        let path = path(folder, host);
        if !eciton_input::file::present(&path) {
            return Ok(None);
        }
        let refuse = |reason: String| Error::TokenFile { path: path.clone(), reason };
        let text = eciton_input::file::read_private(&path, HEAD_BYTES).map_err(|e| refuse(e.to_string()))?;
        serde_json::from_slice(&text).map(Some).map_err(|e| refuse(format!("it is not an address ({e})")))
    }

    /// Removes the file of `host`, once the host no longer listens.
    pub fn remove(folder: &Path, host: u32) {
        // Somebody else may have removed it.
        drop(std::fs::remove_file(path(folder, host)));
    }
}
