//! Selection of the tasks that an audit compares, and the results of the audit.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};

use eciton_types::Round;

use crate::process::Process;

/// Finding of an audit about two computations of a task that differ or may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The process answered wrongly. Its answer differs from two equal results of the host.
    Wrong(Process),
    /// Two computations of the host itself gave different results.
    Host,
    /// The process that answered belongs to this other numeric class (a set of machines whose
    /// arithmetic gives the same bits). Its results may therefore differ from the host's.
    Class(String),
}

/// Numbers of answers that an audit received and compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audited {
    /// Number of successful answers of other processes.
    pub answers: u64,
    /// Number of answers that the audit compared with the host's own result.
    pub compared: u64,
}

/// Random selection of the tasks that an audit compares. It depends on a random key that no other
/// process knows.
///
/// Tasks of lanes (shares of the pipeline) are selected by round: all tasks of a round or none. The
/// audit has to compare the sums of a whole round.
#[derive(Debug, Clone)]
pub struct Draw {
    pub(super) share: f64,
    pub(super) key: RandomState,
}

impl Draw {
    /// Returns true if the audit compares the tasks of lanes in `round` (one optimizer step).
    #[must_use]
    pub fn takes_round(&self, round: Round) -> bool {
        self.takes(round.0)
    }

    /// Returns true if the audit compares the task whose identity is `of`.
    pub(super) fn takes(&self, of: impl Hash) -> bool {
        self.share >= 1.0 || self.key.hash_one(of) as f64 / u64::MAX as f64 <= self.share
    }
}
