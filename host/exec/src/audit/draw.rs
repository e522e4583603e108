//! Choice of the tasks that an audit compares, and results of the audit.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};

use eciton_types::Round;

use crate::process::Process;

/// Outcome of an audit that found a difference between two computations of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The process answered wrongly: two computations of the host are equal, and its answer differs
    /// from them.
    Wrong(Process),
    /// Two computations of the host itself differ.
    Host,
    /// The process that answered computes in this other numeric class (a set of machines whose
    /// arithmetic gives the same bits). Its results may therefore differ from the host's.
    Class(String),
}

/// Counts of an audit. The name means "results of what has been audited".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    /// Number of answers of other processes.
    pub answers: u64,
    /// Number of answers that were compared with the host's own computation.
    pub compared: u64,
}

/// Random choice of the share of tasks that an audit compares. The choice depends on a key that no
/// other process knows.
///
/// For tasks of lanes (shares of the pipeline that one worker each computes), the choice is per
/// round. The audit compares all of a round or none, since their sums are compared together.
#[derive(Debug, Clone)]
pub struct Draw {
    pub(super) share: f64,
    pub(super) key: RandomState,
}

impl Draw {
    /// Returns whether the audit compares the tasks of lanes in this round (one optimizer step).
    #[must_use]
    pub fn takes_round(&self, round: Round) -> bool {
        self.takes(round.0)
    }

    /// Returns whether the audit compares the task with this identity.
    pub(super) fn takes(&self, of: impl Hash) -> bool {
        self.share >= 1.0 || self.key.hash_one(of) as f64 / u64::MAX as f64 <= self.share
    }
}
