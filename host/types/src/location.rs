//! Locations, which are the processes that compute or store tensors.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Process that computes or stores tensors: this host, a worker, or a cloud function. All of them
/// share one number space, so a single field can record where a tensor is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Location(u32);

/// First number of the locations of functions. The host has number 0, and workers have the numbers
/// in between.
const FUNCTIONS: u32 = 1 << 31;

impl Location {
    /// Location of this host.
    pub const HOST: Self = Self(0);

    /// Returns the location of the worker with this index. Indices from 2^31 - 2 on all map to the
    /// same location.
    #[must_use]
    pub const fn worker(index: u32) -> Self {
        let last = FUNCTIONS - 2;
        Self(1 + if index < last { index } else { last })
    }

    /// Returns the location of a cloud function's process. Processes are numbered from 0 in the
    /// order of their first answers.
    #[must_use]
    pub const fn function(index: u32) -> Self {
        Self(FUNCTIONS.saturating_add(index))
    }

    /// Returns the locations of all possible workers, ordered by worker index.
    pub fn workers() -> impl Iterator<Item = Self> {
        (0..FUNCTIONS - 1).map(Self::worker)
    }

    /// Returns true if this location is a worker.
    #[must_use]
    pub const fn is_worker(self) -> bool {
        1 <= self.0 && self.0 < FUNCTIONS
    }

    /// Returns the index of this worker, for indexing a table of workers. Other locations return
    /// `usize::MAX`, which lies past the end of any table.
    #[must_use]
    pub const fn index(self) -> usize {
        if self.is_worker() { self.0 as usize - 1 } else { usize::MAX }
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("this host"),
            number if number < FUNCTIONS => write!(f, "worker {}", number - 1),
            number => write!(f, "function {}", number - FUNCTIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_location_has_a_number_of_its_own() {
        let all = [
            Location::HOST,
            Location::worker(0),
            Location::worker(7),
            Location::worker(u32::MAX),
            Location::function(0),
            Location::function(u32::MAX),
        ];
        assert!(all.is_sorted_by(|a, b| a < b));
        let names = all.map(|at| at.to_string());
        assert_eq!(names[..3], ["this host", "worker 0", "worker 7"]);
        assert_eq!(names[4], "function 0");
        assert_eq!(all.map(Location::is_worker), [false, true, true, true, false, false]);
        assert_eq!(all.map(|at| [0, 1].get(at.index()).copied()), [None, Some(0), None, None, None, None]);
        assert_eq!(Location::workers().nth(7), Some(Location::worker(7)));
    }
}
