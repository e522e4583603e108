//! Workers that connect to a run: `[workers]` of a recipe.

use serde::{Deserialize, Serialize};

/// Maximum number of workers of a run.
pub const MAX_WORKERS: u32 = 1024;

/// Owner of the parameters, which updates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The host owns all parameters. Workers send it gradients, and it sends them weights.
    #[default]
    Host,
    /// The workers own the parameters. Each updates the weights of its lanes. The host stores
    /// snapshots of them.
    Worker,
}

impl Owner {
    /// All owners, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("worker", Self::Worker)];
}

/// The workers of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Number of workers.
    pub count: u32,
    /// Address that the run listens at, `HOST:PORT`. If `None`, it listens on this machine alone,
    /// for workers that the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Folder that the workers' tokens are written to. If `None`, it is a folder that is removed
    /// with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Time without a message after which a worker counts as failed, in milliseconds.
    pub silence_ms: u64,
    /// Time without an answer to a task after which a worker is dropped, although it sends
    /// heartbeats, in seconds.
    #[serde(default = "answer_s", skip_serializing_if = "is_usual_answer")]
    pub answer_s: u32,
    /// Time for which the run waits for workers while there are too few, in seconds.
    pub wait_s: u32,
    /// Cap on the weights and rows that a worker caches, in bytes. It applies to workers that the
    /// run starts.
    pub cache_bytes: u64,
    /// True if an idle worker of a lane also computes its successor's forward steps (redundant
    /// computation).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redundant: bool,
    /// Owner of the parameters.
    #[serde(default, skip_serializing_if = "is_host")]
    pub owner: Owner,
    /// Number of updates between two snapshots that the host stores of the parameters that workers
    /// own.
    #[serde(default = "snapshot_every", skip_serializing_if = "is_usual")]
    pub snapshot_every: u32,
    /// Number of workers before a parameter's owner that have replicas of the parameter and update
    /// them alike. It is a list by lane, or one number for all lanes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<u32>,
    /// Index of the task at which each worker that the run starts exits, to test failures. If 0,
    /// the worker does not exit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_at: Vec<u32>,
}

fn is_host(owner: &Owner) -> bool {
    *owner == Owner::Host
}

/// Default number of updates between two snapshots.
const fn snapshot_every() -> u32 {
    16
}

fn is_usual(updates: &u32) -> bool {
    *updates == snapshot_every()
}

/// Default time for the answer to a task, in seconds.
const fn answer_s() -> u32 {
    600
}

fn is_usual_answer(seconds: &u32) -> bool {
    *seconds == answer_s()
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            count: 0,
            listen: None,
            tokens: None,
            silence_ms: 10_000,
            answer_s: answer_s(),
            wait_s: 60,
            cache_bytes: 4 << 30,
            redundant: false,
            owner: Owner::Host,
            snapshot_every: snapshot_every(),
            replicas: Vec::new(),
            fail_at: Vec::new(),
        }
    }
}

impl Workers {
    /// Returns true if workers own the parameters.
    #[must_use]
    pub fn own(&self) -> bool {
        self.owner == Owner::Worker
    }

    /// Returns the number of replicas of the parameters that a lane's worker owns.
    #[must_use]
    pub fn replicas_of(&self, lane: u32) -> u32 {
        let own =
            self.replicas.get(lane as usize).or(self.replicas.first().filter(|_| self.replicas.len() == 1));
        own.copied().unwrap_or(0)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
