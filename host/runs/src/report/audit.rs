//! Result of the audit of a run, in which the host recomputes a share of the remote tasks and
//! compares the answers.

use serde::{Deserialize, Serialize};

/// Result of the audit of a run (`executor.audit`). In an audit, the host recomputes tasks of
/// workers and functions and compares the answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Share of the tasks that the run was asked to audit, from 0 to 1.
    pub share: f64,
    /// Number of answers that came from workers and functions.
    pub answers: u64,
    /// Number of answers that the host compared with its own results.
    pub compared: u64,
    /// Workers and functions that were excluded from the run because they gave a wrong answer.
    pub excluded: Vec<Excluded>,
    /// Number of times that the run was rolled back because of wrong answers.
    pub returns: u32,
    /// True if the run kept earlier answers of an excluded process (`executor.keep_doubtful`). The
    /// result of the run may then be wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// A worker or function that was excluded from the run because it gave a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// Name of the worker or function, for instance `worker 1`.
    pub process: String,
    /// Seed and round of each wrong answer that was found. A round is one update of the weights.
    pub rounds: Vec<(u64, u32)>,
    /// Seed and epoch of the process's first answer. All results since then are in doubt.
    pub since: (u64, u32),
}
