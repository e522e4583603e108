//! Settings of the remote pool.

use eciton_cloud::{Architecture, Cut, Host};
use eciton_kernel::Limits;
use eciton_recipe::Transport;
use eciton_tensor::frame::Encoding;

/// Settings of a [`RemotePool`](crate::RemotePool).
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// Name of the run, which is part of its object keys. No other run may use the same name.
    pub run: String,
    /// Transport of frames to functions, which is in requests or through the object store.
    pub transport: Transport,
    /// Storage format of rows in frames. If it rounds values, threads of the host round their rows
    /// in the same way.
    pub rows: Encoding,
    /// True if a function may compute on rows while further rows are still arriving.
    pub stream: bool,
    /// Maximum number of invocations in flight. Further tasks run on threads of the host.
    pub most: u32,
    /// Limits on the memory and time of a task.
    pub limits: Limits,
    /// Number of intervals (ranges of vertices with their own tasks) that read the same generation
    /// of weights.
    pub intervals: u32,
    /// Maximum number of weight versions that tasks may read at the same time.
    pub weight_versions: u32,
    /// Processor architecture of the functions, or `None` if they run in this process.
    pub architecture: Option<Architecture>,
    /// Location of this host, which determines the price of data transfer. `None` if nothing is
    /// charged.
    pub host: Option<Host>,
    /// The limit that reduced `most` below the requested number, if any.
    pub cut: Option<Cut>,
    /// Fraction of the tasks that the host computes a second time to check the answers, from 0.0 to
    /// 1.0.
    pub audit: f64,
}
