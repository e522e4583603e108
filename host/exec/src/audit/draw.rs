//! Choice of the tasks that an audit compares, and the results of an audit.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};

use eciton_types::Round;

use crate::process::Process;

/// Outcome of an audit that found a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Two computations of the host are equal, and the answer differs from them.
    Wrong(Process),
    /// Two computations of the host differ.
    Host,
    /// The answerer computes in another numeric class, so its bits are others.
    Class(String),
}

/// Counts of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    /// Answers of other processes.
    pub answers: u64,
    /// Answers that were compared with the host's.
    pub compared: u64,
}

/// The choice of what an audit compares: a share of all tasks, by a key that no other process
/// knows. Of tasks of lanes, all or none of a round are chosen, since their sums are compared
/// together.
#[derive(Debug, Clone)]
pub struct Draw {
    pub(super) share: f64,
    pub(super) key: RandomState,
}

impl Draw {
    /// Returns whether the tasks of lanes in a round are chosen.
    #[must_use]
    pub fn takes_round(&self, round: Round) -> bool {
        self.takes(round.0)
    }

    pub(super) fn takes(&self, of: impl Hash) -> bool {
        self.share >= 1.0 || self.key.hash_one(of) as f64 / u64::MAX as f64 <= self.share
    }
}
