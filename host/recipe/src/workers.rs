//! Settings of the workers that connect to a run, in section `[workers]` of a recipe.

use serde::{Deserialize, Serialize};

/// Maximum number of workers per run.
pub const MAX_WORKERS: u32 = 1024;

/// Owner of the parameters, which is the process that stores and updates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The host owns all parameters. It sends weights to the workers, and the workers send
    /// gradients to the host.
    #[default]
    Host,
    /// The workers own the parameters. Each worker updates the weights of its lane (share of the
    /// pipeline), and the host stores snapshots of the weights.
    Worker,
}

impl Owner {
    /// All possible owners of a stage's weights, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("worker", Self::Worker)];
}

/// Section `[workers]` of a recipe, with the workers that connect to the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Number of workers that the run waits for before it starts.
    pub count: u32,
    /// Address `HOST:PORT` at which the run listens for workers. If `None`, the run starts its own
    /// workers on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Folder to which the run writes the workers' tokens. If `None`, it is a temporary folder that
    /// is deleted at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Number of further workers that may connect. They wait, and replace workers that fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spares: u32,
    /// Time without a message after which a worker is considered failed, in milliseconds.
    pub silence_ms: u64,
    /// Time limit for the answer to a task, in seconds. A worker that exceeds it is disconnected
    /// even if it still sends heartbeats.
    #[serde(default = "answer_s", skip_serializing_if = "is_usual_answer")]
    pub answer_s: u32,
    /// Time that the run waits for workers while too few are connected, in seconds.
    pub wait_s: u32,
    /// Maximum memory for cached weights and rows on a worker, in bytes. It applies to workers that
    /// the run starts itself.
    pub cache_bytes: u64,
    /// True if idle workers also compute the forward steps of the next lane (redundant
    /// computation). A failure of the next worker then costs less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redundant: bool,
    /// Owner of the parameters.
    #[serde(default, skip_serializing_if = "is_host")]
    pub owner: Owner,
    /// Number of updates between two snapshots of the parameters. The host stores the snapshots if
    /// workers own the parameters.
    #[serde(default = "snapshot_every", skip_serializing_if = "is_usual")]
    pub snapshot_every: u32,
    /// Number of additional copies of each parameter, as one number per lane or one number for all
    /// lanes. The copies are on the workers before the owner, and apply the same updates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<u32>,
    /// Number of the task at which each worker exits, to test failures. If 0, the worker does not
    /// exit. It applies to workers that the run starts itself.
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
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn answer_s() -> u32 {
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
            spares: 0,
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
    /// Returns true if the workers own the parameters.
    #[must_use]
    pub fn own(&self) -> bool {
        self.owner == Owner::Worker
    }

    /// Returns the number of additional copies of the parameters that the worker of `lane` owns.
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
