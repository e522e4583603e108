//! Processes that run jobs: the host, workers, and functions.

use std::fmt::{self, Display};

use eciton_types::Location;

/// A process that runs jobs: the host, a worker, or a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Location of the process: the host, or the index of a worker or of a function.
    pub at: Location,
    /// Connection number of a worker within the run, which tells workers at one location apart: a
    /// location may have several, one after another. It is 0 for the host and for functions.
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
