//! Workers that dial a run: `[workers]` of a recipe.

use serde::{Deserialize, Serialize};

/// Most workers of a run.
pub const MAX_WORKERS: u32 = 1024;

/// Who they are, where they dial, and when they count as gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// How many there are.
    pub count: u32,
    /// Where the run listens for them: `HOST:PORT`; `None`: on this machine alone, for workers that it starts
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The folder that their tokens are written to; `None`: a folder that goes with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// After so many milliseconds without a message a worker is gone.
    pub silence_ms: u64,
    /// For how many seconds workers are waited for where too few are there.
    pub wait_s: u32,
    /// Bytes that a worker which the run starts keeps of weights and rows, at most.
    pub keep_bytes: u64,
    /// Whether a lane's worker also keeps what its successor's forward steps keep.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadows: bool,
    /// At which of its tasks each worker that the run starts vanishes, to try out losses; 0: never.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vanish_at: Vec<u32>,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            count: 0,
            listen: None,
            tokens: None,
            silence_ms: 10_000,
            wait_s: 60,
            keep_bytes: 4 << 30,
            shadows: false,
            vanish_at: Vec::new(),
        }
    }
}

impl Workers {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
