//! Schedule policy: the order of steps, the admission of visits, and the caps of lanes.
//!
//! A *lane* is a worker's share of the pipeline. A *chunk* is a run of stages on one lane. A
//! *visit* is all steps of one interval (micro-batch) in one chunk in one round (update). The
//! engine and the list schedule ([`crate::schedule`]) store the state of lanes ([`Lane`]), and this
//! module has all rules. The rules read no clock and no state of a run, so a plan and a run follow
//! the same rules.
//!
//! * Rank: a lane runs the ready step with the lowest [`Rank`] among those of its admitted visits
//!   and the next visit. Forward steps precede backward steps. With a cap, they alternate: a lane
//!   whose visits are all in flight runs backward steps. If backward steps preceded, the lanes after
//!   this one would have no work while it runs several of them.
//! * Admission: a lane admits visits in a fixed order. At most *cap* visits are between their first
//!   step and their last. The oldest visit can therefore always proceed, and no cap can block it.
//! * Caps: the number of visits that an order needs to keep a lane busy.
//! * Takeover: the workers that run the lane of a failed worker ([`Takeover`]). If several workers
//!   share a lane, they share its state, so that order, admission and cap remain those of the lane.
//!
//! An order of steps has one file here, which implements `Rules`, and an entry in each of `rules`,
//! [`Order::ALL`] and [`eciton_recipe::pipeline_schedule::PipelineSchedule`].
//!
//! | schedule | order | cap | weights | source |
//! | --- | --- | --- | --- | --- |
//! | `gpipe` | forward first | all intervals | `latest` | Huang et al. 2019, section 2.3 |
//! | `1f1b` | backward first | longest path | `latest` | Narayanan et al. 2021 (PipeDream-Flush), section 3.2 |
//! | `2bw` | backward first | longest path | `2bw` | the same, section 3.1 |
//! | `naive` | backward first | longest path | `newest` | Narayanan et al. 2019, section 3.3, without its stashing |
//! | `interleaved` | interleaved | warm-up and one more | `latest` | Narayanan et al. 2021 (Megatron-LM), section 2.2 |

mod backward_first;
mod forward_first;
mod interleaved;
mod takeover;

pub use takeover::Takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use eciton_program::program::{Place, Program, Stage};
use eciton_recipe::lanes::{Lanes, Order};
use eciton_types::ids::{IntervalId, Round, StageId};
use eciton_types::task::Step;

/// Rules of an order of steps, such as GPipe or 1F1B.
pub(crate) trait Rules {
    /// Returns the size of a group of intervals. All intervals of a group pass through all chunks
    /// before intervals of the next group are admitted. By default, all intervals are one group.
    fn group(&self, _lanes: &Lanes) -> u32 {
        u32::MAX
    }

    /// Returns the number of visits that a lane needs in flight to be busy. A visit is all steps of
    /// one interval in one chunk. `path` is the length of the longest path of lanes from this lane
    /// to the last one, both included.
    fn cap(&self, lanes: &Lanes, path: u32) -> u32;
}

/// Returns the rules that belong to an order of steps.
pub(crate) fn rules(order: Order) -> &'static dyn Rules {
    match order {
        Order::ForwardFirst => &forward_first::ForwardFirst,
        Order::BackwardFirst => &backward_first::BackwardFirst,
        Order::Interleaved => &interleaved::Interleaved,
    }
}

/// Returns the cap of a lane: the maximum number of visits in flight. A visit is all steps of one
/// interval in one chunk. `path` is the length of the longest path of lanes from this lane to the
/// last one, both included. A replica has `intervals` intervals.
#[must_use]
pub fn cap(lanes: &Lanes, path: u32, intervals: u32) -> u32 {
    let most = lanes.cap.unwrap_or(intervals).max(1).saturating_mul(lanes.chunks());
    let short = u32::from(planted!(CapOneShort));
    rules(lanes.order).cap(lanes, path).min(most).saturating_sub(short).max(1)
}

/// Returns the maximum number of intervals that are between their first step and their last on a
/// lane with this cap. A replica has `intervals` intervals.
#[must_use]
pub fn intervals_at_once(lanes: &Lanes, cap: u32, intervals: u32) -> u32 {
    match lanes.chunks() {
        1 => cap,
        // No chunk has visits of more than two groups, since those of one close before the
        // third is admitted.
        _ => cap.min(intervals).min(2 * lanes.depth()),
    }
}

/// Returns a function that maps a stage to the number of intervals, out of `intervals`, whose rows
/// must be stored for the stage. For a stage on a lane, these are the intervals in flight. For a
/// stage of the host, or if there are no lanes, these are all intervals.
pub fn at_once(program: &Program, lanes: &Lanes, intervals: u32) -> impl Fn(&Stage) -> u32 + use<> {
    let (lanes, of_replica) = (*lanes, intervals.div_ceil(lanes.width.max(1)));
    let caps = if lanes.count > 0 { caps(program, &lanes, of_replica) } else { Vec::new() };
    move |stage| match stage.place {
        Place::Lane(lane) => {
            let cap = caps.get(usize::from(lane)).copied().unwrap_or(of_replica);
            intervals_at_once(&lanes, cap, of_replica).saturating_mul(lanes.width.max(1)).min(intervals)
        }
        _ => intervals,
    }
}

/// Returns the cap of each lane of a replica with this number of intervals. All stages of the
/// program must be on lanes.
#[must_use]
pub fn caps(program: &Program, lanes: &Lanes, intervals: u32) -> Vec<u32> {
    paths(program, lanes).into_iter().map(|path| cap(lanes, path, intervals)).collect()
}

/// Returns, for each lane, the length of the longest path of lanes from it to the last one, both
/// included. Paths follow stages of one chunk.
fn paths(program: &Program, lanes: &Lanes) -> Vec<u32> {
    let depth = lanes.depth() as usize;
    let lane = |stage: StageId| match program.stage(stage)?.place {
        Place::Lane(lane) => Some((usize::from(lane), program.stage(stage)?.chunk)),
        _ => None,
    };
    let end = program.loss().map_or(program.stages.len(), StageId::index);
    let mut followers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); depth];
    for id in (0u16..).map(StageId).take(end + 1) {
        for (before, _) in program.dependencies(id) {
            if let (Some((from, chunk)), Some((to, other))) = (lane(before), lane(id))
                && (from, chunk) != (to, other)
                && chunk == other
                && let Some(of) = followers.get_mut(from)
            {
                of.insert(to);
            }
        }
    }
    // Lanes that follow each other in a cycle need all intervals.
    let mut longest = vec![1u32; depth];
    for _ in 0..depth {
        for at in 0..depth {
            let next = followers[at].iter().filter_map(|&to| longest.get(to)).max().map_or(1, |&n| n + 1);
            longest[at] = longest[at].max(next).min(depth as u32);
        }
    }
    longest
}

/// Role of a stage in a replica: its lane, its chunk and its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Lane of the replica that runs the stage.
    pub lane: u16,
    /// Chunk (run of stages) of the lane that has the stage.
    pub chunk: u16,
    /// True for the loss and for backward stages.
    pub back: bool,
}

/// Visit: all steps of one interval in one chunk (run of stages of a lane) in one round. Visits
/// compare in the order in which lanes admit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visit {
    /// Round (update) of the visit.
    pub round: Round,
    group: u32,
    /// Chunk of the lane.
    pub chunk: u32,
    /// Interval (micro-batch) of the visit.
    pub interval: u32,
}

/// Rank of a step in the order of a lane. The lane runs the ready step with the lowest rank first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// True for backward steps. A lane runs them if no forward step is ready.
    pub back: bool,
    round: Round,
    group: u32,
    /// Chunk of the step. For backward steps, it is counted from the last chunk.
    chunk: u32,
    interval: u32,
    stage: u16,
}

impl Rank {
    /// Returns the step that has this rank on its lane.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: StageId(self.stage), interval: IntervalId(self.interval) }
    }
}

/// Policy for the stages of one program on lanes.
#[derive(Clone, Debug)]
pub struct Policy {
    lanes: Lanes,
    intervals: u32,
    roles: Vec<Role>,
    /// Cap of each lane of a replica: the maximum number of visits in flight.
    caps: Vec<u32>,
    /// Number of steps of a visit, by lane of a replica and by chunk.
    steps: Vec<u32>,
}

impl Policy {
    /// Creates a policy from the role of each stage and the cap of each lane of a replica.
    #[must_use]
    pub fn new(lanes: Lanes, intervals: u32, roles: Vec<Role>, caps: Vec<u32>) -> Self {
        let chunks = lanes.chunks() as usize;
        let mut steps = vec![0; lanes.depth() as usize * chunks];
        for role in &roles {
            if let Some(count) = steps.get_mut(usize::from(role.lane) * chunks + usize::from(role.chunk)) {
                *count += 1;
            }
        }
        Self { lanes, intervals, roles, caps, steps }
    }

    /// Creates the policy of a program whose stages are on lanes.
    #[must_use]
    pub fn from_program(program: &Program, lanes: Lanes, intervals: u32) -> Self {
        let loss = program.loss().map_or(usize::MAX, StageId::index);
        let roles = program.computing().iter().enumerate().map(|(at, stage)| match stage.place {
            Place::Lane(lane) => Role { lane, chunk: stage.chunk, back: at >= loss },
            _ => Role { back: at >= loss, ..Role::default() },
        });
        let caps = caps(program, &lanes, intervals.div_ceil(lanes.width.max(1)));
        Self::new(lanes, intervals, roles.collect(), caps)
    }

    /// Returns the role of a stage.
    #[must_use]
    pub fn role(&self, stage: StageId) -> Role {
        self.roles.get(stage.index()).copied().unwrap_or_default()
    }

    /// Returns the index of the lane that runs a step, over all replicas.
    #[must_use]
    pub fn lane(&self, step: Step) -> usize {
        let replica = self.lanes.replica(step.interval.0, self.intervals);
        (replica * self.lanes.depth() + u32::from(self.role(step.stage).lane)) as usize
    }

    /// Returns the state of all lanes before their first round.
    #[must_use]
    pub fn start(&self, first: Round) -> Vec<Lane> {
        let depth = self.lanes.depth().max(1);
        let lane = |number: u32| {
            let interval = self.lanes.run(number / depth, self.intervals).start;
            let least = Visit { round: first, group: 0, chunk: 0, interval };
            let cap = self.caps.get((number % depth) as usize).copied().unwrap_or(1);
            let next = self.with_steps(number, least);
            Lane {
                number,
                cap,
                next,
                ready: BTreeSet::new(),
                waiting: BTreeMap::new(),
                open: BTreeMap::new(),
            }
        };
        (0..self.lanes.width.max(1) * depth).map(lane).collect()
    }

    /// Returns the rank of a step in the order of its lane.
    #[must_use]
    pub fn rank(&self, step: Step) -> Rank {
        let (visit, back) = (self.visit(step), self.role(step.stage).back);
        let reversed = back && !planted!(ChunksNotReversed);
        let chunk =
            if reversed { (self.lanes.chunks() - 1).saturating_sub(visit.chunk) } else { visit.chunk };
        let Visit { round, group, interval, .. } = visit;
        Rank { back, round, group, chunk, interval, stage: step.stage.0 }
    }

    /// Returns the visit that a step belongs to.
    #[must_use]
    pub fn visit(&self, Step { round, stage, interval }: Step) -> Visit {
        let own = self.index(interval.0);
        let (group, chunk) = (own / self.group(), self.role(stage).chunk.into());
        Visit { round, group, chunk, interval: interval.0 }
    }

    /// Returns the position of an interval in the run of its replica.
    #[must_use]
    pub fn index(&self, interval: u32) -> u32 {
        interval.saturating_sub(self.run(interval).start)
    }

    /// Returns the rank of a step among those of a worker that runs lanes of several replicas.
    /// Micro-batches compare by their position in the run of their replica.
    #[must_use]
    pub fn shared_rank(&self, rank: Rank) -> Rank {
        Rank { interval: self.index(rank.interval), ..rank }
    }

    /// Returns the intervals of the replica that has this interval.
    fn run(&self, interval: u32) -> Range<u32> {
        self.lanes.run(self.lanes.replica(interval, self.intervals), self.intervals)
    }

    fn group(&self) -> u32 {
        rules(self.lanes.order).group(&self.lanes).max(1)
    }

    /// Returns the visit that follows another one in the admission order, over all chunks of a
    /// replica's lane.
    fn after(&self, Visit { round, group, chunk, interval }: Visit) -> Visit {
        let (run, size, next) = (self.run(interval), self.group(), interval.saturating_add(1));
        let first = |group: u32| group.saturating_mul(size).saturating_add(run.start);
        if next < run.end && (next - run.start) / size == group {
            Visit { round, group, chunk, interval: next }
        } else if chunk + 1 < self.lanes.chunks() {
            Visit { round, group, chunk: chunk + 1, interval: first(group) }
        } else if first(group + 1) < run.end {
            Visit { round, group: group + 1, chunk: 0, interval: first(group + 1) }
        } else {
            Visit { round: Round(round.0.saturating_add(1)), group: 0, chunk: 0, interval: run.start }
        }
    }

    /// Returns the visit itself if the lane has steps in its chunk. Otherwise returns the next
    /// visit for which it does.
    fn with_steps(&self, number: u32, mut visit: Visit) -> Visit {
        for _ in 0..self.lanes.chunks() {
            if self.steps_of(number, visit.chunk) > 0 {
                break;
            }
            let chunk = visit.chunk;
            while visit.chunk == chunk && self.lanes.chunks() > 1 {
                visit = self.after(visit);
            }
        }
        visit
    }

    /// Returns the number of steps of a visit on a lane, for one chunk.
    fn steps_of(&self, number: u32, chunk: u32) -> u32 {
        let (depth, chunks) = (self.lanes.depth().max(1), self.lanes.chunks());
        self.steps.get((number % depth * chunks + chunk) as usize).copied().unwrap_or(0)
    }

    /// Removes a step that [`Lane::peek`] returned from the ready steps, and admits the step's
    /// visit.
    pub fn begin(&self, lane: &mut Lane, rank: Rank) {
        let visit = self.visit(rank.step());
        if !lane.open.contains_key(&visit) {
            lane.open.insert(visit, self.steps_of(lane.number, visit.chunk));
            lane.ready.extend(lane.waiting.remove(&visit).unwrap_or_default());
            lane.next = self.with_steps(lane.number, self.after(visit));
        }
        lane.ready.remove(&rank);
    }

    /// Records the end of a step. Returns true if it was the last step of its visit.
    pub fn done(&self, lane: &mut Lane, step: Step) -> bool {
        let visit = self.visit(step);
        // A failed attempt may have answered, so that the step is ready again.
        lane.ready.remove(&self.rank(step));
        let Some(left) = lane.open.get_mut(&visit) else { return false };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            lane.open.remove(&visit);
        }
        is_last
    }
}

/// State of a lane: its ready steps, and its admitted visits. A visit is all steps of one interval
/// in one chunk.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Index of the lane, over all replicas.
    number: u32,
    cap: u32,
    /// Ready steps of visits that the lane has admitted.
    ready: BTreeSet<Rank>,
    /// Ready steps of visits that the lane has not admitted yet.
    waiting: BTreeMap<Visit, BTreeSet<Rank>>,
    /// Visits between their first and last step, with the number of steps that have not ended.
    open: BTreeMap<Visit, u32>,
    /// Visit that the lane admits next.
    next: Visit,
}

impl Lane {
    /// Adds a ready step, with its visit and rank.
    pub fn insert(&mut self, visit: Visit, rank: Rank) {
        if self.open.contains_key(&visit) {
            self.ready.insert(rank);
        } else {
            self.waiting.entry(visit).or_default().insert(rank);
        }
    }

    /// Returns the rank of the step that the lane runs next. `closing` is the number of admitted
    /// visits whose last step has already been sent to the lane's worker. The worker runs steps in
    /// order, so these visits end before the returned step.
    #[must_use]
    pub fn peek(&self, closing: u32) -> Option<Rank> {
        let entering = if self.has_room(closing) { self.entering() } else { None };
        [self.ready.first().copied(), entering].into_iter().flatten().min()
    }

    /// Returns the step that the lane runs next on one of its workers, as a pair of its rank on the
    /// worker and its rank on the lane. `turn` returns the rank of a step on the worker, or `None`
    /// if another worker runs the interval. `closing` is that of [`Lane::peek`].
    ///
    /// All workers admit visits in the one order of the lane, so only the worker of the next visit
    /// may admit one. It can always do so if the lane has room, because it waits for no other
    /// worker of the lane.
    #[must_use]
    pub fn peek_of(&self, closing: u32, turn: impl Fn(Rank) -> Option<Rank>) -> Option<(Rank, Rank)> {
        let entering = if self.has_room(closing) { self.entering() } else { None };
        let all = self.ready.iter().copied().chain(entering);
        all.filter_map(|rank| Some((turn(rank)?, rank))).min()
    }

    /// Returns true if the lane may admit one more visit.
    fn has_room(&self, closing: u32) -> bool {
        (self.open.len() as u64) < u64::from(self.cap) + u64::from(closing)
    }

    /// Returns the rank of the first step of the visit that the lane admits next.
    fn entering(&self) -> Option<Rank> {
        if planted!(AdmittedOutOfOrder) {
            return self.waiting.values().filter_map(BTreeSet::first).min().copied();
        }
        self.waiting.get(&self.next)?.first().copied()
    }

    /// Returns the visits between their first and last step, with the number of steps that have not
    /// ended.
    #[must_use]
    pub fn open(&self) -> &BTreeMap<Visit, u32> {
        &self.open
    }
}

#[cfg(test)]
mod tests;
