//! Settings of a remote pool.

use eciton_cloud::{Architecture, Cut, Host};
use eciton_kernel::Limits;
use eciton_recipe::Transport;
use eciton_tensor::frame::Encoding;

/// Settings of a remote pool.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// The run's name in the object store; nobody else may use it.
    pub run: String,
    /// Way in which frames are sent.
    pub transport: Transport,
    /// Storage format of rows. If it rounds them, the host's threads round theirs in the same way.
    pub rows: Encoding,
    /// True if a worker may compute on rows that are still arriving.
    pub stream: bool,
    /// Invocations under way at once, at most. Tasks beyond are the host's threads'.
    pub most: u32,
    /// Limits of a task.
    pub limits: Limits,
    /// Number of intervals that share a generation of weights.
    pub intervals: u32,
    /// Versions of the weights that tasks read at once, at most.
    pub weight_versions: u32,
    /// The functions' processors.
    pub architecture: Option<Architecture>,
    /// This machine's place; `None` where nothing is charged.
    pub host: Option<Host>,
    /// The limit that lowered `most`, if one did.
    pub cut: Option<Cut>,
    /// Share of the tasks that are audited, from 0 to 1.
    pub audit: f64,
}
