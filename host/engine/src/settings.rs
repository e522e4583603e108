//! Settings of an engine.

use eciton_planner::policy::Takeover;
use eciton_recipe::{Lanes, Pipeline};
use eciton_types::{Round, Version};

/// Maximum number of intervals (contiguous ranges of rows that are scheduled as one unit).
pub const MAX_INTERVALS: u32 = 65_536;
/// Maximum number of intervals in an asynchronous run. It is lower than [`MAX_INTERVALS`], because
/// a step that reads the rows of all intervals stores one byte per interval.
pub const MAX_APART_INTERVALS: u32 = 4096;
/// Maximum number of steps per round, which is the number of stages times the number of intervals.
/// A step takes 20 bytes.
pub const MAX_STEPS: u64 = 1 << 24;
/// Maximum number of attempts at a task. Each attempt is one bit of a mask.
pub const MAX_ATTEMPTS: u32 = 32;
/// Maximum deadline of an attempt, in microseconds (one day).
pub const MAX_DEADLINE_US: u64 = 24 * 3600 * 1_000_000;
/// Maximum value of [`Deadlines::ratio`].
pub const MAX_DEADLINE_RATIO: f64 = 1000.0;

/// Settings of the deadline after which an attempt is considered a straggler. The deadline is
/// `max(floor_us, ratio * average)`, limited to `maximum_us`. The average is the moving average
/// over the committed answers of the stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadlines {
    /// Minimum deadline in microseconds, from 1 to `maximum_us`. An earlier relaunch would cost
    /// more than it saves.
    pub floor_us: u64,
    /// Deadline as a multiple of the average, above 1 and at most [`MAX_DEADLINE_RATIO`].
    pub ratio: f64,
    /// Maximum deadline in microseconds, at most [`MAX_DEADLINE_US`]. It is also the deadline of a
    /// stage without answers.
    pub maximum_us: u64,
}

impl Default for Deadlines {
    /// Returns deadlines of three times the average, but at least 0.5 s and at most 1 min.
    fn default() -> Self {
        Self { floor_us: 500_000, ratio: 3.0, maximum_us: 60_000_000 }
    }
}

/// Location of the rows that forward steps of lanes stash for backward steps, and of gradient sums.
/// A lane is a worker's share of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    /// The host stores the rows. Nothing is lost if a worker fails.
    #[default]
    Host,
    /// The worker that ran the step stores them. If it fails, the rows are recomputed.
    Workers,
    /// The worker that ran the step stores them, and so does the worker before it. While that
    /// worker is idle, it also runs forward steps of the next worker's lanes (redundant
    /// computation).
    Redundant,
}

/// Settings of an engine. [`Settings::new`] creates default settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of intervals (contiguous ranges of rows that are scheduled as one unit), from 1 to
    /// [`MAX_INTERVALS`].
    pub intervals: u32,
    /// First round (optimiser step), which is 1 or the round after a checkpoint.
    pub first: Round,
    /// Last round (optimiser step). If it is before `first`, no round runs.
    pub last: Round,
    /// Version of the weights that the first round reads.
    pub weights: Version,
    /// Number of rounds from one evaluation to the next. If it is 0, only the last round is
    /// followed by an evaluation. The last round always is. Programs that do not train are not
    /// evaluated.
    pub eval_every: u32,
    /// Maximum number of attempts at a task that fails or is overdue, from 1 to [`MAX_ATTEMPTS`].
    /// There are no more attempts after a permanent failure.
    pub attempts: u32,
    /// Deadlines after which tasks are relaunched. If `None`, overdue tasks are not relaunched.
    pub deadlines: Option<Deadlines>,
    /// Maximum number of steps in flight, or `None` for no limit. Other steps wait in the engine,
    /// ordered by round, stage and interval. The rows that a step reads are chosen when it is
    /// submitted. In asynchronous rounds, a lower maximum therefore means newer rows.
    pub in_flight: Option<u32>,
    /// True if `in_flight` limits only steps of the host. Tasks then run in other processes and are
    /// not limited.
    pub only_host_steps: bool,
    /// Settings of the pipeline, which determine the steps that a step waits for, and the rows and
    /// weights that it reads.
    pub pipeline: Pipeline,
    /// Lanes (workers' shares of the pipeline), which run the stages that are placed on them.
    pub lanes: Lanes,
    /// Location of the rows that forward steps of lanes stash for backward steps.
    pub residence: Residence,
    /// Rule that selects the workers that run the lanes of a failed worker. If `None`, the rule is
    /// [`Takeover::Peers`] with several replicas and without redundant computation, and
    /// [`Takeover::Previous`] otherwise.
    pub takeover: Option<Takeover>,
    /// Maximum number of steps that a worker has at the same time. The worker runs them in order.
    /// While it runs the first step, it receives the data of the next ones.
    pub credit: u32,
    /// Intervals whose steps run at this host, as first and end, in a run on several hosts. The rows
    /// of all others are received. `None` in a run on one host.
    pub own: Option<(u32, u32)>,
}

impl Settings {
    /// Creates settings for the rounds from 1 to `rounds` on `intervals` intervals. There is an
    /// evaluation after each round, a task has four attempts, and there are no deadlines.
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
            takeover: None,
            credit: 1,
            own: None,
        }
    }

    /// Returns the rule that selects the workers that run the lanes of a failed worker.
    #[must_use]
    pub fn takeover(&self) -> Takeover {
        let has_peers = self.lanes.width > 1 && self.residence != Residence::Redundant;
        self.takeover.unwrap_or(if has_peers { Takeover::Peers } else { Takeover::Previous })
    }

    /// Returns true if the worker of a lane sums up the gradients of a round itself and stores the
    /// sums until the update. If the worker fails, the lane's backward steps of the round are run
    /// again. Rounds must therefore not overlap, because the next round would overwrite the rows.
    #[must_use]
    pub fn sums_stay(&self) -> bool {
        self.residence != Residence::Host && self.pipeline.gradient_versions() == 1
    }
}
