//! Schedule policy: the order of steps, the admission of visits, and the caps of lanes.
//!
//! A *chunk* is a run of stages on one lane, and a *visit* is the steps of one interval in one
//! chunk in one round. Engine ([`Lane`] by lane) and list schedule ([`crate::schedule`]) keep the
//! state of lanes; all rules are here. They read no clock and no run, so a plan and a run follow
//! the same rules.
//!
//! * Rank: a lane does the ready step of least [`Rank`] among those of its admitted visits and the
//!   next visit.
//! * Admission: a lane admits visits in one order. It has at most its *cap* of them between their
//!   first step and their last. So the oldest visit can always go on, and no cap can hold it up.
//! * Caps: the number of visits that an order needs for a lane to be busy.
//!
//! An order is one file here, which implements `Rules`, its line in `rules`, and its lines in the
//! tables of [`Order::ALL`] and [`eciton_recipe::pipeline_schedule::PipelineSchedule`].
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

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use eciton_program::program::{Place, Program, Stage};
use eciton_recipe::lanes::{Lanes, Order};
use eciton_types::ids::{IntervalId, Round, StageId};
use eciton_types::task::Step;

/// Rules of an order.
pub(crate) trait Rules {
    /// Returns whether a lane does a step only if no step of the other direction is ready.
    fn is_later(&self, back: bool) -> bool;

    /// Number of a replica's intervals that go through all chunks before the next ones are
    /// admitted.
    fn group(&self, _lanes: &Lanes) -> u32 {
        u32::MAX
    }

    /// Returns the visits that a lane needs at once. `path` is the longest path from the lane to
    /// the last one, itself included.
    fn cap(&self, lanes: &Lanes, path: u32) -> u32;
}

/// Returns the rules of an order.
pub(crate) fn rules(order: Order) -> &'static dyn Rules {
    match order {
        Order::ForwardFirst => &forward_first::ForwardFirst,
        Order::BackwardFirst => &backward_first::BackwardFirst,
        Order::Interleaved => &interleaved::Interleaved,
    }
}

/// Returns the maximum number of visits in flight on a lane whose longest path to the last lane,
/// itself included, is `path`. A replica has `intervals` intervals.
#[must_use]
pub fn cap(lanes: &Lanes, path: u32, intervals: u32) -> u32 {
    let most = lanes.cap.unwrap_or(intervals).max(1).saturating_mul(lanes.chunks());
    let short = u32::from(planted!(CapOneShort));
    rules(lanes.order).cap(lanes, path).min(most).saturating_sub(short).max(1)
}

/// Returns the maximum number of intervals between their first step and their last on a lane
/// with this cap. A replica has `intervals` intervals.
#[must_use]
pub fn intervals_at_once(lanes: &Lanes, cap: u32, intervals: u32) -> u32 {
    match lanes.chunks() {
        1 => cap,
        // No chunk has visits of more than two groups, since those of one close before the
        // third is admitted.
        _ => cap.min(intervals).min(2 * lanes.depth()),
    }
}

/// Returns a function from a stage to the number of intervals, out of `intervals`, whose rows must
/// be stored for the stage. On a lane, these are the intervals in flight. If there are no lanes,
/// or for a stage of the host, these are all intervals.
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

/// Returns the cap of each lane of a replica with this number of intervals. The program's stages
/// are on lanes.
#[must_use]
pub fn caps(program: &Program, lanes: &Lanes, intervals: u32) -> Vec<u32> {
    paths(program, lanes).into_iter().map(|path| cap(lanes, path, intervals)).collect()
}

/// Returns the longest path from each lane to the last one, itself included, along stages of one
/// chunk.
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
    // Lanes that follow each other in a circle need all that there is.
    let mut longest = vec![1u32; depth];
    for _ in 0..depth {
        for at in 0..depth {
            let next = followers[at].iter().filter_map(|&to| longest.get(to)).max().map_or(1, |&n| n + 1);
            longest[at] = longest[at].max(next).min(depth as u32);
        }
    }
    longest
}

/// Place of a stage in a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Its lane of a replica.
    pub lane: u16,
    /// Its chunk of the lane.
    pub chunk: u16,
    /// True for the loss and for backward stages.
    pub back: bool,
}

/// The steps of an interval in a chunk and a round. Visits are ordered as lanes admit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visit {
    /// Its round.
    pub round: Round,
    group: u32,
    /// Its chunk of the lane.
    pub chunk: u32,
    /// Its interval.
    pub interval: u32,
}

/// A step's position in the order of a lane: a lane does the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// True if it goes after all ready steps of the other direction.
    pub later: bool,
    round: Round,
    group: u32,
    /// The chunk, counted from the last one in backward steps.
    chunk: u32,
    interval: u32,
    stage: u16,
}

impl Rank {
    /// The step of this rank.
    #[must_use]
    pub const fn step(&self) -> Step {
        Step { round: self.round, stage: StageId(self.stage), interval: IntervalId(self.interval) }
    }
}

/// The policy of a program's stages on lanes.
#[derive(Clone, Debug)]
pub struct Policy {
    lanes: Lanes,
    intervals: u32,
    roles: Vec<Role>,
    /// Cap of each lane of a replica.
    caps: Vec<u32>,
    /// Steps of a visit, by lane of a replica and chunk.
    steps: Vec<u32>,
}

impl Policy {
    /// Makes a policy from the role of each stage and the cap of each lane of a replica.
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

    /// Makes the policy of a program whose stages are on lanes.
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

    /// Returns a stage's role.
    #[must_use]
    pub fn role(&self, stage: StageId) -> Role {
        self.roles.get(stage.index()).copied().unwrap_or_default()
    }

    /// Returns the lane of a step, over all replicas.
    #[must_use]
    pub fn lane(&self, step: Step) -> usize {
        let replica = self.lanes.replica(step.interval.0, self.intervals);
        (replica * self.lanes.depth() + u32::from(self.role(step.stage).lane)) as usize
    }

    /// Returns the lanes before their first round.
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

    /// Returns a step's rank.
    #[must_use]
    pub fn rank(&self, step: Step) -> Rank {
        let (visit, back) = (self.visit(step), self.role(step.stage).back);
        let reversed = back && !planted!(ChunksNotReversed);
        let chunk =
            if reversed { (self.lanes.chunks() - 1).saturating_sub(visit.chunk) } else { visit.chunk };
        let later = rules(self.lanes.order).is_later(back);
        let Visit { round, group, interval, .. } = visit;
        Rank { later, round, group, chunk, interval, stage: step.stage.0 }
    }

    /// Returns a step's visit.
    #[must_use]
    pub fn visit(&self, Step { round, stage, interval }: Step) -> Visit {
        let own = interval.0 - self.run(interval.0).start;
        let (group, chunk) = (own / self.group(), self.role(stage).chunk.into());
        Visit { round, group, chunk, interval: interval.0 }
    }

    /// Intervals of the replica of an interval.
    fn run(&self, interval: u32) -> Range<u32> {
        self.lanes.run(self.lanes.replica(interval, self.intervals), self.intervals)
    }

    fn group(&self) -> u32 {
        rules(self.lanes.order).group(&self.lanes).max(1)
    }

    /// Returns the visit that a replica's lane admits after another one, over all chunks.
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

    /// Returns a visit, or the first one after it in whose chunk the lane has steps.
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

    /// Steps of a lane's visit.
    fn steps_of(&self, number: u32, chunk: u32) -> u32 {
        let (depth, chunks) = (self.lanes.depth().max(1), self.lanes.chunks());
        self.steps.get((number % depth * chunks + chunk) as usize).copied().unwrap_or(0)
    }

    /// Lets a lane begin the step of a rank that [`Lane::peek`] returned, and admits the step's
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

    /// Counts a step as done, and returns whether it was the last of its visit.
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

/// A lane's ready steps and admitted visits.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Over all replicas.
    number: u32,
    cap: u32,
    /// Ready steps of admitted visits.
    ready: BTreeSet<Rank>,
    /// Ready steps of other visits.
    waiting: BTreeMap<Visit, BTreeSet<Rank>>,
    /// Visits between their first step and their last, with the number of steps that are not done.
    open: BTreeMap<Visit, u32>,
    /// The visit that is admitted next.
    next: Visit,
}

impl Lane {
    /// Adds a ready step.
    pub fn insert(&mut self, visit: Visit, rank: Rank) {
        if self.open.contains_key(&visit) {
            self.ready.insert(rank);
        } else {
            self.waiting.entry(visit).or_default().insert(rank);
        }
    }

    /// Returns the rank of the step that the lane does next. `closing` is the number of admitted
    /// visits whose last step is at the lane's place already: the place does steps in order, so
    /// that they end before this step.
    #[must_use]
    pub fn peek(&self, closing: u32) -> Option<Rank> {
        let entering = if self.has_room(closing) { self.entering() } else { None };
        [self.ready.first().copied(), entering].into_iter().flatten().min()
    }

    /// Returns whether the lane may admit one more visit.
    fn has_room(&self, closing: u32) -> bool {
        (self.open.len() as u64) < u64::from(self.cap) + u64::from(closing)
    }

    /// The first step of the visit that is admitted next.
    fn entering(&self) -> Option<Rank> {
        if planted!(AdmittedOutOfOrder) {
            return self.waiting.values().filter_map(BTreeSet::first).min().copied();
        }
        self.waiting.get(&self.next)?.first().copied()
    }

    /// Visits between their first step and their last, with the number of steps that are not done.
    #[must_use]
    pub fn open(&self) -> &BTreeMap<Visit, u32> {
        &self.open
    }
}

#[cfg(test)]
mod tests;
