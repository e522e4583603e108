//! Settings of a pool of workers.

use std::path::PathBuf;
use std::time::Duration;

use eciton_exec::framed::Framing;

/// Tasks that a worker may have at once: the one that it is at and the next, whose data come
/// meanwhile.
pub const CREDIT: u32 = 2;

/// Settings of a pool of workers.
#[derive(Debug)]
pub struct Settings {
    /// The run's name.
    pub run: String,
    /// Format and limits of the frames of tasks.
    pub framing: Framing,
    /// Places.
    pub count: u32,
    /// The address to listen at: `HOST:PORT`.
    pub listen: String,
    /// Folder of tokens. If `None`, tokens are in a folder that is removed at the end of the
    /// process.
    pub tokens: Option<PathBuf>,
    /// The silence after which a worker counts as gone.
    pub silence: Duration,
    /// The time in which a task is answered: a worker that owes one for longer is let go.
    pub answer: Duration,
    /// The time to wait for workers where none is there.
    pub patience: Duration,
    /// The numeric class that all must compute in.
    pub numeric_class: String,
    /// Tasks come by lanes: nobody else does them.
    pub lanes: bool,
    /// Workers send each other rows.
    pub peers: bool,
    /// Versions of the weights that tasks read at once, at most.
    pub weight_versions: u32,
    /// Bytes of weights and of rows that a lane's worker keeps at once, by lane.
    pub needs: Vec<(u64, u64)>,
    /// Share of the tasks that are audited, from 0 to 1.
    pub audit: f64,
}
