//! Workers that dial a run: `[workers]` of a recipe.

use serde::{Deserialize, Serialize};

/// Most workers of a run.
pub const MAX_WORKERS: u32 = 1024;

/// The holder of weights and of what they are updated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The host: gradients travel to it, weights from it.
    #[default]
    Host,
    /// The workers: each updates the weights of its lanes. The host has a log of them.
    Worker,
}

impl Owner {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("host", Self::Host), ("worker", Self::Worker)];
}

/// The workers of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Their number.
    pub count: u32,
    /// The address that the run listens at, `HOST:PORT`; `None`: this machine alone, for workers
    /// that the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The folder that their tokens are written to; `None`: a folder that goes with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// Milliseconds without a message after which a worker counts as gone.
    pub silence_ms: u64,
    /// Seconds without an answer to a task after which a worker is let go, though it gives signs of
    /// life.
    #[serde(default = "answer_s", skip_serializing_if = "is_usual_answer")]
    pub answer_s: u32,
    /// Seconds for which workers are waited for where too few are there.
    pub wait_s: u32,
    /// Bytes that a worker which the run starts keeps of weights and rows, at most.
    pub keep_bytes: u64,
    /// A lane's idle worker also does its successor's forward steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadows: bool,
    /// The holder of weights.
    #[serde(default, skip_serializing_if = "is_host")]
    pub owner: Owner,
    /// Updates between two entries of the log that the host has of what workers own.
    #[serde(default = "log_every", skip_serializing_if = "is_usual")]
    pub log_every: u32,
    /// So many workers before a parameter's owner have replicas of it, updated alike: by lane, or
    /// one number for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<u32>,
    /// The task at which each worker that the run starts vanishes, to try out losses; 0: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vanish_at: Vec<u32>,
}

fn is_host(owner: &Owner) -> bool {
    *owner == Owner::Host
}

/// Updates between two entries of the log.
const fn log_every() -> u32 {
    16
}

fn is_usual(updates: &u32) -> bool {
    *updates == log_every()
}

/// Seconds in which a task is answered.
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
            keep_bytes: 4 << 30,
            shadows: false,
            owner: Owner::Host,
            log_every: log_every(),
            replicas: Vec::new(),
            vanish_at: Vec::new(),
        }
    }
}

impl Workers {
    /// Returns whether workers hold the weights.
    #[must_use]
    pub fn own(&self) -> bool {
        self.owner == Owner::Worker
    }

    /// Replicas of what a lane's worker owns.
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
