//! Processes that run jobs: this host, workers and functions.

use std::fmt::{self, Display};

use eciton_types::Location;

/// A process that does jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its location.
    pub at: Location,
    /// Number of its connection in the run, if it is a worker: a location may have several workers,
    /// one after another. Otherwise 0.
    pub connection: u64,
}

impl Process {
    /// This process.
    pub const HOST: Self = Self { at: Location::HOST, connection: 0 };
}

impl Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}
