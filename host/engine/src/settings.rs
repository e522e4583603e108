//! Settings of an engine.

use eciton_recipe::{Lanes, Pipeline};
use eciton_types::{Round, Version};

/// Maximum number of intervals, which are runs of rows that are scheduled as one unit.
pub const MAX_INTERVALS: u32 = 65_536;
/// Maximum number of intervals of an asynchronous run. It is lower, because a step that reads the
/// rows of all intervals stores one byte for each interval.
pub const MAX_APART_INTERVALS: u32 = 4096;
/// Maximum number of steps per round: stages times intervals. A step takes 20 bytes.
pub const MAX_STEPS: u64 = 1 << 24;
/// Maximum number of attempts at a task. Each takes one bit of a mask.
pub const MAX_ATTEMPTS: u32 = 32;
/// Maximum deadline, in microseconds. It is one day.
pub const MAX_DEADLINE_US: u64 = 24 * 3600 * 1_000_000;
/// Maximum value of [`Deadlines::ratio`].
pub const MAX_DEADLINE_RATIO: f64 = 1000.0;

/// Deadlines, after which an attempt counts as a straggler: `max(floor_us, ratio * average)`,
/// limited to `maximum_us`. The average is a moving average over the committed answers of the
/// stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadlines {
    /// Minimum deadline in microseconds, from 1 to `maximum_us`. After a shorter time, a relaunch
    /// would cost more than it saves.
    pub floor_us: u64,
    /// Multiple of the average, above 1 and at most [`MAX_DEADLINE_RATIO`].
    pub ratio: f64,
    /// Maximum deadline in microseconds, at most [`MAX_DEADLINE_US`]. It also applies to a stage
    /// that has no answer yet.
    pub maximum_us: u64,
}

impl Default for Deadlines {
    /// Returns deadlines of three times the average, from half a second to one minute.
    fn default() -> Self {
        Self { floor_us: 500_000, ratio: 3.0, maximum_us: 60_000_000 }
    }
}

/// Location of the rows that forward steps of lanes stash for backward steps, and of sums of
/// gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    /// The host stores them. Nothing is lost if a worker fails.
    #[default]
    Host,
    /// The worker that ran the step stores them. If it fails, the rows are recomputed.
    Places,
    /// The worker that ran the step stores them, and so does the worker before it. While that
    /// worker is idle, it also runs forward steps of the next worker's lanes (redundant
    /// computation).
    Shadowed,
}

/// Settings of an engine. [`Settings::new`] sets the defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of intervals (runs of rows that are scheduled as one unit), from 1 to
    /// [`MAX_INTERVALS`].
    pub intervals: u32,
    /// First round (optimiser step). It is 1, or the round after a checkpoint.
    pub first: Round,
    /// Last round. If it is below `first`, no round is run.
    pub last: Round,
    /// Version of the weights that the first round reads.
    pub weights: Version,
    /// Number of rounds between evaluations. There is always an evaluation after the last round. If
    /// this is 0, it is the only one. Programs that do not train are not evaluated.
    pub eval_every: u32,
    /// Maximum number of attempts at a task that fails or is overdue, from 1 to [`MAX_ATTEMPTS`].
    /// Permanent failures are not attempted again.
    pub attempts: u32,
    /// Deadlines after which tasks are relaunched. If `None`, no task is relaunched.
    pub deadlines: Option<Deadlines>,
    /// Maximum number of steps in flight. Other steps wait in the engine, ordered by round, stage
    /// and interval. The versions of the rows that a step reads are chosen when the step is
    /// submitted. In asynchronous rounds, a lower maximum therefore means newer rows. If `None`,
    /// there is no maximum.
    pub in_flight: Option<u32>,
    /// True if `in_flight` counts only steps of the host, because tasks run in other processes.
    pub only_host_steps: bool,
    /// Mode of the pipeline: it determines which steps a step waits for, and which rows and weights
    /// a step reads.
    pub pipeline: Pipeline,
    /// Lanes (workers' shares of the pipeline), which run the stages that are placed on them.
    pub lanes: Lanes,
    /// Location of the rows that forward steps of lanes stash.
    pub residence: Residence,
    /// Maximum number of steps that a worker has at the same time. The worker runs them in order.
    /// The data of the next steps arrive while it runs the first.
    pub credit: u32,
}

impl Settings {
    /// Creates settings for rounds 1 to `rounds` on `intervals` intervals, with an evaluation after
    /// each round, four attempts at a task, and no deadlines.
    #[must_use]
    pub fn new(intervals: u32, rounds: u32) -> Self {
        Self {
            intervals,
            first: Round(1),
            last: Round(rounds),
            weights: Version(0),
            eval_every: 1,
            attempts: 4,
            deadlines: None,
            in_flight: None,
            only_host_steps: false,
            pipeline: Pipeline::default(),
            lanes: Lanes::default(),
            residence: Residence::default(),
            credit: 1,
        }
    }

    /// Returns true if the worker of a lane adds up the gradients of a round and stores the sums
    /// until the update. If the worker fails, the lane's backward steps of the round are run again.
    /// Rounds must therefore not overlap, because their rows are overwritten by the next round.
    #[must_use]
    pub fn sums_stay(&self) -> bool {
        self.residence != Residence::Host && self.pipeline.gradient_versions() == 1
    }
}
