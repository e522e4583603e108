//! Identity of a process that runs jobs.

use std::fmt::{self, Display};

use eciton_types::Location;

/// Identity of a process that runs jobs, which is the host, a worker, or a cloud function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Location of the process: the host, or the index of a worker or function.
    pub at: Location,
    /// Number of the worker's connection, unique within the run. It distinguishes workers that
    /// connect at the same location one after another. It is 0 for the host and for functions.
    pub connection: u64,
}

impl Process {
    /// The host process, which also runs the driver.
    pub const HOST: Self = Self { at: Location::HOST, connection: 0 };
}

impl Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}
