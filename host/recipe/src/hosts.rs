//! Settings of the connections between the hosts of a run, in section `[hosts]` of a recipe.

use serde::{Deserialize, Serialize};

/// Maximum number of hosts per run. Each pair of hosts has a connection.
pub const MAX_HOSTS: u32 = 32;

/// Section `[hosts]` of a recipe, with the connections between hosts. The number of hosts is not a
/// setting, because the result does not depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// Place at which the hosts learn the address of host 0: the path of a folder that all share,
    /// `s3://BUCKET/PREFIX`, or `tcp://HOST:PORT`. If `None`, all hosts are on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous: Option<String>,
    /// Address `HOST:PORT` at which this host listens for others. If `None`, it is a free port of
    /// the machine's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Path of the file with the secret of the run. If `None`, it is the environment variable
    /// `ECITON_SECRET`, or host 0 creates a secret and the others find it at the rendezvous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// False if connections continue without TLS after the proof of the secret. Allowed for private
    /// addresses only.
    pub encrypt: bool,
    /// Time without a byte after which a host is considered failed, in milliseconds.
    pub silence_ms: u64,
    /// Time for which a host waits for the others at the start, in seconds.
    pub wait_s: u32,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { rendezvous: None, listen: None, secret: None, encrypt: true, silence_ms: 10_000, wait_s: 300 }
    }
}

impl Hosts {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
