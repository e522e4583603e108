//! Result of the audit of a run: answers that were compared, and processes that were excluded.

use serde::{Deserialize, Serialize};

/// Result of the audit of a run (`executor.audit`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Share of the tasks that were to be audited.
    pub share: f64,
    /// Answers of other processes.
    pub answers: u64,
    /// Answers that the host compared with its own.
    pub compared: u64,
    /// Processes that were excluded because of a wrong answer.
    pub excluded: Vec<Excluded>,
    /// Number of times that the run went back because of them.
    pub returns: u32,
    /// True if the run went on with their earlier answers (`executor.keep_doubtful`): the result may
    /// be wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// A process that was excluded because of a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The worker or the function, for instance `worker 1`.
    pub process: String,
    /// Seed and round of each wrong answer that was found.
    pub rounds: Vec<(u64, u32)>,
    /// The seed and the epoch that were trained when it answered for the first time: everything
    /// since then is in doubt.
    pub since: (u64, u32),
}
