//! Result of the audit of a run: answers that were compared, and processes that were excluded.

use serde::{Deserialize, Serialize};

/// Result of the audit of a run (`executor.audit`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Share of the tasks that were to be audited, from 0 to 1.
    pub share: f64,
    /// Number of answers of other processes.
    pub answers: u64,
    /// Number of answers that the host compared with its own results.
    pub compared: u64,
    /// Processes that were excluded because of a wrong answer.
    pub excluded: Vec<Excluded>,
    /// Number of rollbacks of the run because of wrong answers.
    pub returns: u32,
    /// True if the run continued with earlier answers of an excluded process
    /// (`executor.keep_doubtful`). The result may then be wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// A process that was excluded because of a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Name of the worker or function, for instance `worker 1`.
    pub process: String,
    /// Seed and round (optimizer step) of each wrong answer that was found.
    pub rounds: Vec<(u64, u32)>,
    /// Seed and epoch that were trained when the process answered for the first time. Everything
    /// since then is in doubt.
    pub since: (u64, u32),
}
