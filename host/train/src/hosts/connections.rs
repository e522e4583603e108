//! Connections of a host to the other hosts of its run.

use std::sync::Arc;

use eciton_exec::hosts::Fabric;

/// Minimum default number of intervals per host.
const INTERVALS_A_HOST: u32 = 4;

/// The hosts of a run, as one of them sees them.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Index of this host. Host 0 writes the run folder and its messages are those of the run.
    pub me: u32,
    /// Number of hosts, at least 2.
    pub count: u32,
    /// Number of hosts that share this machine, including this one. They divide its processors among
    /// them. At least 1.
    pub here: u32,
    /// True if host 0 writes checkpoints. Must be the same at all hosts.
    pub saves: bool,
    /// Connections to the other hosts. `None` for a plan, which exchanges nothing.
    pub fabric: Option<Arc<dyn Fabric>>,
}

impl Hosts {
    /// Returns the minimum default number of intervals of the run. Each host needs several, so that
    /// steps overlap with the transfer of rows.
    pub(crate) fn least_intervals(&self) -> u32 {
        self.count.saturating_mul(INTERVALS_A_HOST)
    }
}
