//! How an engine is to run its program.

use eciton_plan::{Lanes, Pipeline, Round, Version};

/// Most intervals.
pub const MAX_INTERVALS: u32 = 65_536;
/// Most intervals of an asynchronous run: a step that reads rows of all keeps a byte for each.
pub const MAX_APART_INTERVALS: u32 = 4096;
/// Most steps of one round: stages times intervals. A step takes 20 bytes.
pub const MAX_STEPS: u64 = 1 << 24;
/// Most attempts at a task that may be allowed: one bit each.
pub const MAX_ATTEMPTS: u32 = 32;
/// Longest deadline that may be set: a day, in microseconds.
pub const MAX_DEADLINE_US: u64 = 24 * 3600 * 1_000_000;
/// Largest [`Deadlines::ratio`].
pub const MAX_DEADLINE_RATIO: f64 = 1000.0;

/// When an attempt counts as a straggler: after `max(floor_us, ratio * average)`, capped at
/// `maximum_us`, where the average is a moving one over the committed answers of its stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadlines {
    /// The shortest deadline, in microseconds: 1 to `maximum_us`. Below it a relaunch costs more than
    /// the wait.
    pub floor_us: u64,
    /// Times the average: above 1, at most [`MAX_DEADLINE_RATIO`].
    pub ratio: f64,
    /// The longest deadline, in microseconds, and the one of a stage that no answer is known of: at
    /// most [`MAX_DEADLINE_US`].
    pub maximum_us: u64,
}

impl Default for Deadlines {
    /// Half a second, three times the average, a minute.
    fn default() -> Self {
        Self { floor_us: 500_000, ratio: 3.0, maximum_us: 60_000_000 }
    }
}

/// Holder of the rows that forward steps of lanes keep for backward steps, and of sums of gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    /// The host: nothing is lost with a place.
    #[default]
    Host,
    /// The place that did the step: what a lost place held is computed once more.
    Places,
    /// The same, and the place before it, which does forward steps of its neighbour's lanes in idle time.
    Shadowed,
}

/// An engine's settings. All are public; [`Settings::new`] fills in defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of intervals: 1 to [`MAX_INTERVALS`].
    pub intervals: u32,
    /// The first round to do: 1, or the one after a checkpoint.
    pub first: Round,
    /// The last round to do. Before `first`: there is nothing to do.
    pub last: Round,
    /// The version of the weights that the first round reads.
    pub weights: Version,
    /// Evaluate after rounds that this divides, and after the last; 0: only after the last. Programs
    /// that do not train are never evaluated.
    pub eval_every: u32,
    /// How often a task is tried that fails by the host's fault or is overdue: 1 to
    /// [`MAX_ATTEMPTS`].
    pub attempts: u32,
    /// When attempts are relaunched; `None`: never.
    pub deadlines: Option<Deadlines>,
    /// How many steps may be handed out at once; the others wait in the engine, in the order of round, stage
    /// and interval. What a step reads of all intervals is settled when the step is handed out: in
    /// asynchronous rounds, the fewer steps there are, the newer the rows. `None`: no limit.
    pub in_flight: Option<u32>,
    /// Whether that counts steps of the host alone: tasks run elsewhere.
    pub only_host_steps: bool,
    /// What steps wait for, and which rows and weights they read.
    pub pipeline: Pipeline,
    /// The lanes that do the stages whose place is one.
    pub lanes: Lanes,
    /// Who holds what their forward steps keep.
    pub residence: Residence,
    /// Steps that a place has at once, which it does in the order in which it got them: the one that it is at, and
    /// those whose data come meanwhile.
    pub credit: u32,
}

impl Settings {
    /// Rounds 1 to `rounds` on so many intervals, evaluated after each, four attempts at a task, no
    /// deadlines.
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

    /// Returns whether the worker of a lane adds up the gradients of a round and has the sums until
    /// the update. If the worker fails, the round's backward steps of the lane are done again. So
    /// rounds must not overlap: their rows are overwritten by the next round.
    #[must_use]
    pub fn sums_stay(&self) -> bool {
        self.residence != Residence::Host && self.pipeline.gradient_versions() == 1
    }
}
