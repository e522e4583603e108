//! Workers that connect to a run: `[workers]` of a recipe.

use serde::{Deserialize, Serialize};

/// Maximum number of workers of a run.
pub const MAX_WORKERS: u32 = 1024;

/// Owner of the parameters: the process that stores and updates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The host owns all parameters. Workers send gradients to the host, and the host sends weights
    /// to the workers.
    #[default]
    Host,
    /// The workers own the parameters. Each worker updates the weights of its lanes (its share of
    /// the pipeline). The host stores snapshots of the weights.
    Worker,
}

impl Owner {
    /// All owners, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("worker", Self::Worker)];
}

/// Section `[workers]`: workers that connect to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Number of workers that the run waits for.
    pub count: u32,
    /// Address at which the run listens for workers, as `HOST:PORT`. If `None`, it listens on this
    /// machine only, for workers that the run starts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Folder to which the run writes the workers' tokens. If `None`, it is a temporary folder,
    /// which is removed at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Time without a message after which a worker counts as failed, in milliseconds.
    pub silence_ms: u64,
    /// Time limit for the answer to a task, in seconds. A worker that exceeds it is dropped even if
    /// it sends heartbeats.
    #[serde(default = "answer_s", skip_serializing_if = "is_usual_answer")]
    pub answer_s: u32,
    /// Time for which the run waits for workers if too few are connected, in seconds.
    pub wait_s: u32,
    /// Cap on the memory in which a worker caches weights and rows, in bytes. It applies to workers
    /// that the run starts itself.
    pub cache_bytes: u64,
    /// True if a worker that is idle also computes the forward steps of the next lane (redundant
    /// computation), so that the next lane's failure costs less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redundant: bool,
    /// Owner of the parameters: the host or the workers.
    #[serde(default, skip_serializing_if = "is_host")]
    pub owner: Owner,
    /// Number of updates between two snapshots that the host stores of parameters, if workers own
    /// them.
    #[serde(default = "snapshot_every", skip_serializing_if = "is_usual")]
    pub snapshot_every: u32,
    /// Number of replicas of each parameter. The replicas are on the workers before the owner, and
    /// apply the same updates. It is a list with one number per lane, or one number for all lanes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<u32>,
    /// Number of the task at which each worker that the run starts exits, to test failures. If 0,
    /// the worker does not exit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_at: Vec<u32>,
}

fn is_host(owner: &Owner) -> bool {
    *owner == Owner::Host
}

/// Returns the default number of updates between two snapshots.
const fn snapshot_every() -> u32 {
    16
}

fn is_usual(updates: &u32) -> bool {
    *updates == snapshot_every()
}

/// Returns the default time limit for the answer to a task, in seconds.
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
