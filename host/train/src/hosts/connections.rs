//! Connections of a host to the other hosts of its run.

use std::sync::Arc;

use eciton_exec::hosts::Fabric;

/// The hosts of a run, as one of them sees them.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Index of this host. Host 0 writes the run folder and its messages are those of the run.
    pub me: u32,
    /// Number of hosts, at least 2.
    pub count: u32,
    /// Connections to the other hosts. `None` for a plan, which exchanges nothing.
    pub fabric: Option<Arc<dyn Fabric>>,
}
