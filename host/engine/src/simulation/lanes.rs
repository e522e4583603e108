//! Tests of pipelines whose lanes run on workers that fail and return. The checks use only the
//! program and the events. The result must equal that of one lane without failures.

use super::store::Store;
use super::{Context, Planted, Random, hash, seeds, signature};
use crate::{Action, Engine, Event, Reason, Residence, Settings, Takeover};
use eciton_planner::Placement;
use eciton_program::{DataShape, FusedStages, Place, Program, Scope};
use eciton_recipe::{LaneSettings, Lanes, Model, ModelSettings, Order, Pipeline, TaskType, WeightVersions};
use eciton_types::{IntervalId, Location, Round, StageId, Step, Task, TaskKey, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns a program with `layers` linear layers on lanes. The layers form a chain or, with
/// `branches`, two branches that join.
fn program(layers: u32, branches: bool, lanes: Lanes) -> Program {
    let text = if branches {
        let one = "[[layers]]\nkernel = \"linear\"\n";
        let branch = |name: &str| {
            let first = "[[layers]]\nkernel = \"linear\"\ninputs = [\"x\"]\n";
            format!(
                "{first}{}[[layers]]\nkernel = \"linear\"\nname = \"{name}\"\n",
                one.repeat(layers as usize)
            )
        };
        let [a, b] = ["a", "b"].map(branch);
        let join = "[[layers]]\nkernel = \"sum\"\ninputs = [\"a\", \"b\"]\n[[layers]]\nkernel = \"linear\"\n";
        format!("hidden = 7\n[[layers]]\nkernel = \"linear\"\nname = \"x\"\n{a}{b}{join}")
    } else {
        format!("kind = \"mlp\"\nhidden = 7\nlayers = {layers}")
    };
    let settings = ModelSettings::parse(&text, "m.toml").unwrap();
    let model = Model::resolve(&settings, 30, 7, TaskType::Classification).unwrap();
    let shape = DataShape { rows: 100, features: 30, classes: 7, edge_features: 0, read_out: 0, group: 1 };
    let mut program = Program::build(&model, shape, eciton_program::Rewrites::default(), &signature).unwrap();
    program.set_apart(1, 100, 0);
    let of = LaneSettings { lanes, ..LaneSettings::default() };
    let placement = Placement::from_program(&program, &of, false).unwrap();
    let spans = FusedStages::from_program(&program, &placement.spans(&program)).unwrap();
    let mut fused = spans.fuse(&program);
    placement.place(&mut fused, &spans);
    if !layers.is_multiple_of(2) {
        // Rounds of batches: no lane begins before the parts of its round are there.
        fused.sample();
    }
    fused
}

/// Failures of workers in a simulated run.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// Number of the event before which workers fail, and the first and last worker that fails.
    /// `None` for no such failure.
    at: Option<(u64, u32, u32)>,
    /// Probability in percent, before each event, that random workers fail or that one returns.
    chance: u64,
}

struct World<'a> {
    program: &'a Program,
    settings: Settings,
    engine: Engine,
    store: Store,
    random: Random,
    now: u64,
    coming: BTreeMap<(u64, u64), Event>,
    /// Result and worker of each attempt.
    attempts: BTreeMap<TaskKey, (u64, Location)>,
    /// Unanswered attempts of each worker, in the order of their submission.
    doing: BTreeMap<Location, Vec<TaskKey>>,
    /// Time at which each worker will have finished all its attempts.
    through: BTreeMap<Location, u64>,
    /// Transfer time from the host to a worker, and from a worker to the host.
    way: u64,
    gone: BTreeSet<Location>,
    /// True once any worker has failed or lacked rows.
    lost: bool,
    /// Pairs of a step and a worker that has the stash of this forward step, or the gradients of
    /// this backward step.
    holds: BTreeSet<(Step, Location)>,
    /// Worker of each interval of a lane, by lane number and interval, since the last event that
    /// may move intervals.
    placed: BTreeMap<(u32, u32), Location>,
    /// True if a worker has failed or returned since the last update.
    moved: bool,
    /// Number of steps that ran on peers of their failed worker.
    shared: u64,
    /// Number of attempts that repeated finished steps.
    again: u64,
    done: BTreeSet<Step>,
    begun: BTreeSet<Step>,
    rounds: Vec<Round>,
    weights: BTreeMap<(Round, u32), Version>,
    caps: Vec<u32>,
    /// True if the run checks after each event that no worker waits without a reason.
    watched: bool,
    end: Option<Reason>,
    ended: u64,
}

impl<'a> World<'a> {
    fn new(program: &'a Program, settings: Settings, seed: u64, planted: Option<Planted>) -> Self {
        let mut engine = Engine::new(program, settings).unwrap();
        engine.planted = planted;
        let of_replica = settings.intervals.div_ceil(settings.lanes.width);
        Self {
            program,
            settings,
            engine,
            store: Store::new(program, settings, None),
            random: Random(seed),
            now: 0,
            coming: BTreeMap::new(),
            attempts: BTreeMap::new(),
            doing: BTreeMap::new(),
            through: BTreeMap::new(),
            way: 0,
            gone: BTreeSet::new(),
            lost: false,
            holds: BTreeSet::new(),
            placed: BTreeMap::new(),
            moved: false,
            shared: 0,
            again: 0,
            done: BTreeSet::new(),
            begun: BTreeSet::new(),
            rounds: vec![Round(0); settings.intervals as usize],
            weights: BTreeMap::new(),
            caps: eciton_planner::policy::caps(program, &settings.lanes, of_replica),
            watched: false,
            end: None,
            ended: 0,
        }
    }

    fn put(&mut self, delay: u64, event: Event) {
        let when = (self.now + delay, self.random.next());
        self.coming.insert(when, event);
    }

    /// Simulates the run until its end. Returns false if the engine waits for an event that never
    /// arrives.
    fn run(&mut self, losses: Losses) -> bool {
        self.put(0, Event::Started);
        let count = u64::from(self.settings.lanes.count);
        for at in 0.. {
            if let Some((_, first, last)) = losses.at.filter(|(when, ..)| *when == at) {
                (first..=last).for_each(|worker| self.lose(Location::worker(worker)));
            }
            if losses.chance > 0 && self.random.percent(losses.chance) {
                let worker = Location::worker(self.random.below(count) as u32);
                match self.gone.contains(&worker) {
                    true => self.join(worker),
                    false if self.random.percent(30) => self.forget(worker),
                    false => self.lose_some(worker),
                }
            }
            let Some(((time, _), event)) = self.coming.pop_first() else { return self.end.is_some() };
            self.now = time;
            self.deliver(event);
            if self.end.is_some() {
                self.ended = self.now;
                return true;
            }
        }
        false
    }

    /// Simulates the failure of a worker, often together with other random workers. One worker
    /// remains.
    fn lose_some(&mut self, mut worker: Location) {
        let count = self.settings.lanes.count;
        while self.gone.len() as u32 + 1 < count {
            self.lose(worker);
            if !self.random.percent(30) {
                return;
            }
            worker = Location::worker(self.random.below(count.into()) as u32);
        }
    }

    fn lose(&mut self, worker: Location) {
        if !self.gone.insert(worker) {
            return;
        }
        (self.lost, self.moved) = (true, true);
        self.placed.clear();
        let doing = self.doing.remove(&worker).unwrap_or_default();
        self.through.remove(&worker);
        self.holds.retain(|(_, at)| *at != worker);
        let of = |event: &Event| matches!(event, Event::Completed { key, .. } if doing.contains(key));
        self.coming.retain(|_, event| !of(event));
        self.deliver(Event::WorkerFailed { at: worker });
        // What it did is never heard of, reported lost, or was answered in the last moment.
        for key in doing {
            match self.random.below(3) {
                0 => {}
                1 => self.put(5, Event::Failed { key, retryable: true }),
                _ => self.put(3, Event::Completed { key, took_us: 3 }),
            }
        }
    }

    /// Simulates a worker's report that it lacks rows. Its attempts are never answered, or their
    /// answers arrive later.
    fn forget(&mut self, worker: Location) {
        self.lost = true;
        let loss = self.program.loss().unwrap();
        let doing = self.doing.remove(&worker).unwrap_or_default();
        self.holds.retain(|(step, at)| *at != worker || step.stage >= loss);
        let of = |event: &Event| matches!(event, Event::Completed { key, .. } if doing.contains(key));
        self.coming.retain(|_, event| !of(event));
        self.deliver(Event::Forgot { at: worker });
        for key in doing.into_iter().filter(|_| self.random.percent(50)).collect::<Vec<_>>() {
            self.put(3, Event::Completed { key, took_us: 3 });
        }
    }

    fn join(&mut self, worker: Location) {
        self.gone.remove(&worker);
        self.placed.clear();
        self.moved = true;
        self.deliver(Event::Joined { at: worker });
    }

    fn deliver(&mut self, event: Event) {
        if let Event::Completed { key, .. } | Event::Failed { key, .. } = event {
            let worker = self.doing.iter().find(|(_, doing)| doing.contains(&key)).map(|(&worker, _)| worker);
            self.doing.values_mut().for_each(|doing| doing.retain(|of| *of != key));
            if let (Event::Completed { .. }, Some(worker)) = (event, worker) {
                self.holds.insert((key.step(), worker));
                self.free(key.step(), worker);
            }
        }
        if let Event::Updated { .. } = event {
            self.placed.clear();
            self.moved = false;
        }
        let actions: Vec<Action> = self.engine.step(event).collect();
        for action in actions {
            self.take(action);
        }
        if self.watched {
            self.check_busy();
        }
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Submit(task) if Some(task.stage) == self.program.sampling => {
                let key = task.key();
                self.store.begin(task.step());
                self.attempts.insert(key, (0, Location::HOST));
                // Parts of later rounds are made ahead of need.
                let delay = if task.round == Round(1) { 1 + self.random.below(40) } else { 0 };
                self.put(delay, Event::Completed { key, took_us: 0 });
            }
            Action::Submit(task) => {
                self.check(task);
                self.launch(task);
            }
            Action::Retry(task) => self.launch(task),
            Action::Again(task) => self.again(task),
            Action::Relaunch(task) => panic!("{task:?} without deadlines"),
            Action::Commit(key) => {
                let (value, _) = self.attempts[&key];
                let step = key.step();
                assert!(self.done.insert(step), "{step} committed twice");
                self.store.publish(step, value);
                self.store.add_gradient(step, value);
            }
            Action::Update { round } => {
                self.check_sums(round);
                self.check_shares();
                let intervals = 0..self.settings.intervals;
                let held = intervals.filter_map(|i| self.weights.get(&(Round(round.0 + 1), i)).copied());
                let held: Vec<Version> = held.collect();
                self.store.update(round, held.into_iter());
                self.put(1, Event::Updated { round });
            }
            Action::Evaluate { round } => self.put(1, Event::Evaluated { round }),
            Action::RoundFinished { .. } => self.store.over += 1,
            Action::Share { .. } => panic!("a run on one host shares sums"),
            Action::Finished { reason, .. } => self.end = Some(reason),
        }
    }

    fn lane(&self, stage: StageId) -> u32 {
        let Place::Lane(lane) = self.program.place(stage) else { panic!("stage {stage} is on no lane") };
        u32::from(lane)
    }

    fn is_back(&self, stage: StageId) -> bool {
        stage >= self.program.loss().unwrap()
    }

    /// Returns the lane (within a replica) and the chunk of a stage.
    fn part(&self, stage: StageId) -> (u32, u16) {
        (self.lane(stage), self.program.stage(stage).unwrap().chunk)
    }

    /// Returns the steps of a visit, which are those of one interval and round in one chunk of a
    /// lane.
    fn steps(&self, part: (u32, u16), round: Round, interval: u32) -> Vec<Step> {
        let stages =
            (0..self.program.computing().len() as u16).map(StageId).filter(|&s| self.part(s) == part);
        stages.map(|stage| Step { round, stage, interval: IntervalId(interval) }).collect()
    }

    fn replica(&self, interval: u32) -> u32 {
        self.settings.lanes.replica(interval, self.settings.intervals)
    }

    /// Returns the intervals of a replica.
    fn share(&self, replica: u32) -> std::ops::Range<u32> {
        self.settings.lanes.run(replica, self.settings.intervals)
    }

    /// Returns whether a visit has begun, and its steps that have not ended.
    fn visit(&self, part: (u32, u16), round: Round, interval: u32) -> (bool, Vec<Step>) {
        let all = self.steps(part, round, interval);
        let begun = all.iter().any(|step| self.begun.contains(step));
        (begun, all.into_iter().filter(|step| !self.done.contains(step)).collect())
    }

    /// Returns the number of a lane's visits that have begun and not ended, independent of the
    /// engine. If a worker has received the last step of a visit, the visit counts as ended.
    fn open(&self, lane: u32, replica: u32, worker: Location, rounds: &[Round]) -> u32 {
        let ahead = self.doing.get(&worker).cloned().unwrap_or_default();
        let mut open = 0;
        for &round in rounds {
            for other in self.share(replica) {
                for chunk in 0..self.settings.lanes.chunks() as u16 {
                    let (begun, left) = self.visit((lane, chunk), round, other);
                    let closes = matches!(left[..], [last] if ahead.iter().any(|key| key.step() == last));
                    open += u32::from(begun && !left.is_empty() && !closes);
                }
            }
        }
        open
    }

    /// Returns the position of a visit in the order in which its lane admits visits.
    fn turn(&self, chunk: u16, round: Round, interval: u32) -> (Round, u32, u16, u32) {
        let lanes = self.settings.lanes;
        match lanes.order {
            Order::Interleaved => {
                let first = self.share(self.replica(interval)).start;
                (round, (interval - first) / lanes.depth(), chunk, interval)
            }
            _ => (round, 0, 0, interval),
        }
    }

    /// Checks that no worker waits although it may run a ready step of its lane. The check covers
    /// only steps that read other steps, in runs without failures.
    fn check_busy(&self) {
        if self.lost || self.settings.residence != Residence::Host || self.end.is_some() {
            return;
        }
        let depth = self.settings.lanes.depth();
        for interval in 0..self.settings.intervals {
            let round = self.rounds[interval as usize];
            for stage in (0..self.program.computing().len() as u16).map(StageId) {
                let step = Step { round, stage, interval: IntervalId(interval) };
                let (lane, chunk) = self.part(stage);
                let worker = Location::worker(self.replica(interval) * depth + lane);
                let has = self.doing.get(&worker).map_or(0, Vec::len);
                let mut needed = self.program.dependencies(stage).into_iter();
                let first = needed.all(|(stage, _)| Some(stage) == self.program.sampling);
                let waits = !first && !self.begun.contains(&step) && self.is_ready(step);
                if has as u32 == self.settings.credit || !waits {
                    continue;
                }
                let is_open = self.visit((lane, chunk), round, interval).0;
                let rounds = [round.0.saturating_sub(1), round.0, round.0 + 1].map(Round);
                let room =
                    self.open(lane, self.replica(interval), worker, &rounds) < self.caps[lane as usize];
                let next = self.earlier((lane, chunk), round, interval).is_none();
                let may = is_open || room && next;
                assert!(!may, "{step} waits while {worker} has {has} steps");
            }
        }
    }

    /// Returns the position of a visit that has not begun although its lane must admit it before
    /// the given one, if any.
    fn earlier(&self, part: (u32, u16), round: Round, interval: u32) -> Option<(Round, u32, u16, u32)> {
        let own = self.turn(part.1, round, interval);
        let before = [round.0.saturating_sub(1), round.0].map(Round).into_iter().filter(|of| of.0 > 0);
        before
            .flat_map(|of| self.share(self.replica(interval)).map(move |i| (of, i)))
            .flat_map(|(of, i)| (0..self.settings.lanes.chunks() as u16).map(move |chunk| (of, i, chunk)))
            .filter(|&(of, i, chunk)| {
                self.turn(chunk, of, i) < own && !self.steps((part.0, chunk), of, i).is_empty()
            })
            .find(|&(of, i, chunk)| !self.visit((part.0, chunk), of, i).0)
            .map(|(of, i, chunk)| self.turn(chunk, of, i))
    }

    /// Returns true if all rows that `step` reads are available.
    fn is_ready(&self, step: Step) -> bool {
        let needed = self.program.dependencies(step.stage);
        needed.iter().all(|(stage, _)| self.done.contains(&Step { stage: *stage, ..step }))
    }

    /// Checks the start of a step. It must start only once, on its lane, in order, within the cap
    /// of the lane, and after its inputs exist.
    fn check(&mut self, task: Task) {
        let step = task.step();
        assert!(self.begun.insert(step), "{step} started twice");
        assert!(self.is_ready(step), "{step} before what it reads");
        let Lanes { order, .. } = self.settings.lanes;
        let ((lane, chunk), interval) = (self.part(step.stage), step.interval.0);
        let rounds = [step.round.0.saturating_sub(1), step.round.0, step.round.0 + 1].map(Round);
        let worker = self.engine.location_of(step);
        let open = self.open(lane, self.replica(interval), worker, &rounds);
        if self.steps((lane, chunk), step.round, interval).iter().filter(|of| self.begun.contains(of)).count()
            == 1
        {
            let before = self.earlier((lane, chunk), step.round, interval);
            assert!(before.is_none(), "{step} before visit {before:?}");
        }
        // One that was let in behind a last step stays where that step went with its worker.
        let most = self.caps[lane as usize] + if self.lost { self.settings.credit - 1 } else { 0 };
        assert!(open <= most, "{open} visits on lane {lane}, {:?}", self.caps);
        // No forward step of an admitted visit, or of the next one if the cap allows it, waits on
        // this lane while a backward step begins. A worker that runs lanes of several replicas has
        // an order of its own.
        let is_shared = self.settings.takeover() == Takeover::Peers && !self.gone.is_empty();
        if self.is_back(step.stage) && !is_shared {
            for stage in (0..self.program.computing().len() as u16).map(StageId) {
                let on_lane = self.lane(stage) == lane && !self.is_back(stage);
                for other in self.share(self.replica(interval)) {
                    let round = self.rounds[other as usize];
                    let waits = Step { round, stage, interval: IntervalId(other) };
                    let chunk = self.program.stage(stage).unwrap().chunk;
                    let inside =
                        self.steps((lane, chunk), round, other).iter().any(|of| self.done.contains(of));
                    let enters = || {
                        open < self.caps[lane as usize]
                            && order != Order::ForwardFirst
                            && self.earlier((lane, chunk), round, other).is_none()
                    };
                    let could = on_lane && round > Round(0) && (inside || enters());
                    let passed = could && !self.begun.contains(&waits) && self.is_ready(waits);
                    assert!(!passed, "{step} before {waits}, {order:?}");
                }
            }
        }
    }

    /// Adds an attempt that starts to the list of its worker. Returns that worker.
    fn occupy(&mut self, task: Task) -> Location {
        let (step, key) = (task.step(), task.key());
        let worker = self.engine.location_of(step);
        assert!(worker.is_worker(), "{step} is at {worker}");
        assert!(!self.gone.contains(&worker), "{step} on {worker}, which is gone");
        let doing = self.doing.entry(worker).or_default();
        doing.push(key);
        assert!(doing.len() <= self.settings.credit as usize, "{worker} does {doing:?}");
        worker
    }

    /// Returns the time until the worker has finished a new step of duration `took`, after the
    /// steps that it already has.
    fn behind(&mut self, worker: Location, took: u64) -> u64 {
        let through = self.through.entry(worker).or_default();
        *through = (*through).max(self.now + self.way) + took;
        *through + self.way - self.now
    }

    /// Simulates the repetition of a finished step, and checks that the worker lacks the results of
    /// the step.
    fn again(&mut self, task: Task) {
        let (step, key) = (task.step(), task.key());
        assert!(self.done.contains(&step), "{step} again before it is done");
        let worker = self.occupy(task);
        // What redundant computation has left of a visit that is over does not count.
        let is_over = self.visit(self.part(step.stage), step.round, step.interval.0).1.is_empty();
        let held = (!is_over || self.is_back(step.stage)) && self.holds.contains(&(step, worker));
        assert!(!held, "{step} again at {worker}, which holds it");
        self.check_stash(step, worker);
        self.attempts.insert(key, (0, worker));
        self.again += 1;
        let delay = self.behind(worker, 10);
        self.put(delay, Event::Completed { key, took_us: 10 });
    }

    /// Deletes the stash of a visit from the worker `at` after the last step of the visit has run
    /// there.
    fn free(&mut self, step: Step, at: Location) {
        let part = self.part(step.stage);
        if self.is_back(step.stage) && self.visit(part, step.round, step.interval.0).1.is_empty() {
            let stash: Vec<Step> = self.steps(part, step.round, step.interval.0);
            let loss = self.program.loss().unwrap();
            self.holds.retain(|(of, worker)| of.stage >= loss || !stash.contains(of) || at != *worker);
        }
    }

    /// Checks that a backward step runs on a worker that has the stash of its visit.
    fn check_stash(&self, step: Step, worker: Location) {
        if self.settings.residence == Residence::Host || !self.is_back(step.stage) {
            return;
        }
        let part = self.part(step.stage);
        for stage in (0..self.program.loss().unwrap().0).map(StageId).filter(|&s| self.part(s) == part) {
            let kept = Step { stage, ..step };
            assert!(self.holds.contains(&(kept, worker)), "{step} at {worker} without {kept}");
        }
    }

    /// Checks that each gradient of a round is in the sums of the worker that the engine reports.
    /// By the rule [`Takeover::Previous`], each lane has the sums of a single worker.
    fn check_sums(&self, round: Round) {
        if !self.settings.sums_stay() {
            return;
        }
        let reported: BTreeMap<Step, Location> = self.engine.sums().collect();
        let homes = self.engine.homes();
        let mut workers: BTreeMap<(u32, u32), BTreeSet<Location>> = BTreeMap::new();
        for (at, stage) in self.program.stages.iter().enumerate().filter(|(_, of)| !of.sums.is_empty()) {
            for interval in 0..self.settings.intervals {
                let step = Step { round, stage: StageId(at as u16), interval: IntervalId(interval) };
                let found = reported.get(&step).copied().filter(|&at| self.holds.contains(&(step, at)));
                let found = found.unwrap_or_else(|| panic!("update of {round} without gradients of {step}"));
                let lane = (self.replica(interval), self.lane(step.stage));
                let known = workers.entry(lane).or_default();
                known.insert(found);
                let single = self.settings.takeover() == Takeover::Peers || known.len() == 1;
                assert!(single, "{step}: sums of lane {lane:?} at two workers, {}", stage.name);
            }
        }
        for ((replica, lane), workers) in workers {
            let number = replica * self.settings.lanes.depth() + lane;
            let (home, own) = (homes[number as usize], Location::worker(number));
            assert!(
                workers.contains(&home) && (home == own || !workers.contains(&own)),
                "{home}: {workers:?}"
            );
        }
    }

    /// Checks that the peers of a failed worker have run the same number of its intervals in a
    /// round, or one more. In rounds that overlap, stashes decide.
    fn check_shares(&self) {
        if self.moved || self.settings.pipeline.gradient_versions() > 1 {
            return;
        }
        let mut shares: BTreeMap<u32, BTreeMap<Location, u32>> = BTreeMap::new();
        for (&(number, _), &worker) in &self.placed {
            *shares.entry(number).or_default().entry(worker).or_default() += 1;
        }
        for (number, share) in shares {
            let run = self.share(number / self.settings.lanes.depth()).len();
            let peers = self.peers(number).len().clamp(1, run);
            let (least, most) = (share.values().min().unwrap(), share.values().max().unwrap());
            assert!(share.len() == peers && most - least <= 1, "lane {number}: {share:?}");
        }
    }

    /// Returns the available workers that may run the lane `number` by the rule
    /// [`Takeover::Peers`]. The list is empty if the lane's own worker and all of its peers have
    /// failed.
    fn peers(&self, number: u32) -> Vec<Location> {
        let (depth, width) = (self.settings.lanes.depth(), self.settings.lanes.width);
        let own = Location::worker(number);
        let all = (0..width).map(|replica| Location::worker(replica * depth + number % depth));
        let peers = all.filter(|at| !self.gone.contains(at)).collect();
        if self.gone.contains(&own) { peers } else { vec![own] }
    }

    /// Checks that a step runs on a worker that the rule of takeover allows, and that all steps of
    /// an interval on a lane run on the same worker.
    fn check_home(&mut self, step: Step, worker: Location) {
        let depth = self.settings.lanes.depth();
        let lane = self.replica(step.interval.0) * depth + self.lane(step.stage);
        match self.settings.takeover() {
            // Workers that have returned have their own lanes again.
            Takeover::Previous if self.gone.is_empty() && !self.settings.sums_stay() => {
                assert_eq!(worker, Location::worker(lane), "{step} on another's lane");
            }
            Takeover::Previous => {}
            Takeover::Peers => {
                let peers = self.peers(lane);
                assert!(peers.is_empty() || peers.contains(&worker), "{step} at {worker}, not at {peers:?}");
                let known = *self.placed.entry((lane, step.interval.0)).or_insert(worker);
                assert_eq!(worker, known, "{step} at {worker}, its interval at {known}");
                self.shared += u64::from(peers.len() > 1);
            }
        }
    }

    fn launch(&mut self, task: Task) {
        let (step, key) = (task.step(), task.key());
        let worker = self.occupy(task);
        self.check_stash(step, worker);
        self.check_home(step, worker);
        self.rounds[step.interval.index()] = step.round;
        let known = self.weights.entry((step.round, step.interval.0)).or_insert(task.weights);
        assert_eq!(*known, task.weights, "{step} reads other weights than its round's steps before");
        self.store.check_version(step.round, task.weights);
        let mut read = vec![step.stage.0.into(), step.interval.0.into()];
        for (stage, scope) in self.program.dependencies(step.stage) {
            assert_eq!(scope, Scope::Own);
            if Some(stage) != self.program.sampling {
                read.push(self.store.own(stage, step));
            }
        }
        read.push(self.store.read_weights(task.weights));
        if key.attempt.0 == 0 {
            self.store.begin(step);
        }
        let took = 10 + self.random.below(20) * u64::from(self.random.percent(30));
        self.attempts.insert(key, (hash(&read), worker));
        let delay = self.behind(worker, took);
        self.put(delay, Event::Completed { key, took_us: took });
    }
}

fn settings(lanes: Lanes, intervals: u32, weights: WeightVersions) -> Settings {
    let pipeline = Pipeline { weights: Some(weights), ..Pipeline::default() };
    Settings { lanes, pipeline, eval_every: 0, attempts: 32, ..Settings::new(intervals, 4) }
}

fn lanes(count: u32, width: u32, order: Order) -> Lanes {
    Lanes { count, width, order, ..Lanes::default() }
}

/// Returns a number that represents the final weights of a run on one lane without failures.
fn alone(layers: u32, branches: bool, intervals: u32, weights: WeightVersions) -> u64 {
    let one = lanes(1, 1, Order::BackwardFirst);
    let whole = program(layers, branches, one);
    let settings = settings(one, intervals, weights);
    let mut world = World::new(&whole, settings, 1, None);
    assert!(world.run(Losses::default()));
    // Rows go through other tasks there; gradients are named by stage, so sums are compared by a
    // number that follows from versions alone.
    world.store.newest.0
}

fn choose(random: &mut Random) -> (Lanes, u32, u32, bool, WeightVersions) {
    let depth = 1 + random.below(4) as u32;
    let width = [1, 1, 2, 2, 3, 4][random.below(6) as usize];
    let (_, order) = Order::ALL[random.below(3) as usize];
    let chunks = Some(2 + random.below(2) as u32).filter(|_| order == Order::Interleaved);
    let weights = [WeightVersions::Latest, WeightVersions::TwoBuffered][random.below(2) as usize];
    let intervals = width * (1 + random.below(4) as u32);
    let branches = random.percent(40);
    let of = Lanes { chunks, ..lanes(depth * width, width, order) };
    (of, of.runs() as u32 + random.below(3) as u32, intervals, branches, weights)
}

const TAKEOVERS: [Option<Takeover>; 3] = [None, Some(Takeover::Previous), Some(Takeover::Peers)];

#[test]
fn every_schedule_ends_with_the_bits_of_a_run_without_faults_whatever_places_are_lost() {
    let (mut losses, mut retries, mut again, mut redundant, mut shared) = (0, 0, 0, 0, 0);
    for seed in 0..seeds(300) {
        let random = &mut Random(seed);
        let (of, layers, intervals, branches, weights) = choose(random);
        let program = program(layers, branches, of);
        let residences = [Residence::Host, Residence::Workers, Residence::Redundant];
        let residence = residences[random.below(3) as usize];
        let credit = 1 + random.below(3) as u32;
        let takeover = TAKEOVERS[random.below(3) as usize];
        let settings = Settings { residence, credit, takeover, ..settings(of, intervals, weights) };
        let context = Context(format!("seed {seed}: {layers} layers, {branches}, {settings:?}"));
        let mut smooth = World::new(&program, settings, !seed, None);
        smooth.watched = true;
        assert!(smooth.run(Losses::default()), "stalled: {context:?}");
        // A run in which a step fails more often than it may be attempted ends with an error.
        let most = if settings.sums_stay() { 5 } else { 20 };
        let chance = if of.count > 1 { random.below(most) } else { 0 };
        let mut rough = World::new(&program, settings, seed, None);
        assert!(rough.run(Losses { chance, at: None }), "stalled: {context:?}");
        for world in [&smooth, &rough] {
            assert_eq!(world.end, Some(Reason::Completed), "{context:?}");
            assert_eq!(world.store.newest.0, alone(layers, branches, intervals, weights), "{context:?}");
            let most = usize::try_from(settings.pipeline.weight_versions()).unwrap();
            assert!(world.store.versions <= most, "{context:?}");
        }
        assert_eq!(smooth.store.value(), rough.store.value(), "the result depends on losses: {context:?}");
        losses += u64::from(chance > 0);
        retries += rough.engine.counters().retries;
        let redone = residence == Residence::Workers && rough.again > 0;
        again += u64::from(redone);
        assert!(residence != Residence::Workers || smooth.again == 0, "{context:?}");
        let counters = rough.engine.counters();
        assert_eq!(counters.again + counters.redundant, rough.again, "{context:?}");
        assert!(residence == Residence::Redundant || counters.redundant == 0, "{context:?}");
        // Without failures nothing is done again but by redundant computation.
        assert_eq!(smooth.engine.counters().again, 0, "{context:?}");
        redundant += u64::from(counters.redundant > 0);
        shared += u64::from(rough.shared > 0);
    }
    assert!(losses > 50 && retries > 200 && again > 20, "{losses}, {retries} retries, {again}");
    assert!(redundant > 20 && shared > 20, "{redundant}, {shared}");
}

#[test]
fn a_chains_caps_are_the_warm_up_of_pipedream() {
    let of = lanes(4, 1, Order::BackwardFirst);
    let chain = program(6, false, of);
    assert_eq!(eciton_planner::policy::caps(&chain, &of, 8), [4, 3, 2, 1]);
    assert_eq!(eciton_planner::policy::caps(&chain, &lanes(4, 1, Order::ForwardFirst), 8), [8; 4]);
    assert_eq!(eciton_planner::policy::caps(&chain, &Lanes { cap: Some(2), ..of }, 8), [2, 2, 2, 1]);
}

#[test]
fn any_places_may_be_lost_before_any_event() {
    let three = lanes(6, 3, Order::BackwardFirst);
    for (of, residence) in [(lanes(4, 1, Order::BackwardFirst), Residence::Host), (three, Residence::Workers)]
    {
        let program = program(5, false, of);
        let settings = settings(of, of.count, WeightVersions::Latest);
        let settings = Settings { last: Round(2), residence, ..settings };
        let mut smooth = World::new(&program, settings, 5, None);
        assert!(smooth.run(Losses::default()));
        let mut most = 0;
        for at in 0..=150 {
            // One worker, two consecutive ones, and three. In the pipeline of three replicas, two
            // of the three are peers.
            for (first, last) in [(0, 0), (3, 3), (1, 2), (1, 3)] {
                let mut world = World::new(&program, settings, at, None);
                let ended = world.run(Losses { at: Some((at, first, last)), chance: 0 });
                assert!(ended, "{of:?}, {at}: {first} to {last}");
                assert_eq!(world.store.value(), smooth.store.value(), "{of:?}, {at}: {first} to {last}");
                most = most.max(world.gone.len());
            }
        }
        assert_eq!(most, 3);
    }
}

#[test]
fn a_shadow_makes_a_loss_cheaper() {
    let of = lanes(4, 1, Order::BackwardFirst);
    let program = program(6, false, of);
    let mut sums = [0; 4];
    for at in 20..120 {
        let time = |residence, at| {
            let settings = Settings { last: Round(4), residence, ..settings(of, 4, WeightVersions::Latest) };
            let mut world = World::new(&program, settings, 9, None);
            assert!(world.run(Losses { at, chance: 0 }));
            world.ended
        };
        for (sum, residence) in sums.chunks_mut(2).zip([Residence::Redundant, Residence::Workers]) {
            sum[0] += time(residence, None);
            sum[1] += time(residence, Some((at, 2, 2)));
        }
    }
    let [shadowed, lost_shadowed, plain, lost_plain] = sums;
    let (with, without) = (lost_shadowed - shadowed, lost_plain - plain);
    #[allow(clippy::disallowed_macros, clippy::print_stderr)]
    {
        eprintln!("a loss costs {with} with shadows, {without} without; no loss {shadowed} and {plain}");
    }
    assert!(with < without, "{sums:?}");
}

#[test]
fn two_buffers_keep_lanes_busy_where_a_flush_drains_them() {
    let of = lanes(4, 1, Order::BackwardFirst);
    let mut program = program(6, false, of);
    // A part that enters a round does not wait until all others have left the one before.
    program.sample();
    let time = |weights| {
        let settings = Settings { last: Round(20), ..settings(of, 4, weights) };
        let mut world = World::new(&program, settings, 3, None);
        assert!(world.run(Losses::default()));
        world.ended
    };
    let (flush, two) = (time(WeightVersions::Latest), time(WeightVersions::TwoBuffered));
    assert!(two * 10 < flush * 8, "{two} {flush}");
}

/// Checks that a worker runs two steps without a pause if it receives the second one while it runs
/// the first.
#[test]
fn a_step_ahead_hides_the_way_to_a_place() {
    let of = lanes(2, 1, Order::BackwardFirst);
    let program = program(4, false, of);
    let time = |credit| {
        let settings = Settings { credit, ..settings(of, 8, WeightVersions::TwoBuffered) };
        let mut world = World::new(&program, settings, 3, None);
        world.way = 5;
        assert!(world.run(Losses::default()));
        (world.ended, world.store.value())
    };
    let (one, two) = (time(1), time(2));
    assert_eq!(one.1, two.1);
    assert!(two.0 * 20 < one.0 * 19, "{one:?} {two:?}");
}

#[test]
fn planted_defects_of_lanes_are_found() {
    let is_wrong = |seed: u64, planted| {
        let (of, layers, intervals, branches, weights) = choose(&mut Random(seed));
        let program = program(layers, branches, of);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let residences = [Residence::Redundant, Residence::Workers, Residence::Host];
            let residence = residences[seed as usize % 3];
            let credit = 1 + seed as u32 / 3 % 2;
            let takeover = TAKEOVERS[seed as usize / 6 % 3];
            let settings = Settings { residence, credit, takeover, ..settings(of, intervals, weights) };
            let mut world = World::new(&program, settings, seed, planted);
            world.watched = true;
            let chance = if of.count > 1 && residence != Residence::Host { 5 } else { 0 };
            !world.run(Losses { chance, at: None }) || world.end != Some(Reason::Completed)
        }));
        outcome.unwrap_or(true)
    };
    assert_eq!((0..100).find(|&seed| is_wrong(seed, None)), None, "found wrong without a defect");
    for planted in [
        Planted::CapOffByOne,
        Planted::ClosingForgotten,
        Planted::VersionAtUse,
        Planted::WrongReplica,
        Planted::BackwardBeforeForward,
        Planted::PlaceForgotten,
        Planted::SumForgotten,
        Planted::SumSplit,
        Planted::PeersShare,
        Planted::PeerForgotten,
        Planted::SumAtHome,
        Planted::ShadowCounted,
        Planted::ShadowNeverUsed,
    ] {
        let found = (0..1000).find(|&seed| is_wrong(seed, Some(planted)));
        #[allow(clippy::disallowed_macros, clippy::print_stderr)]
        {
            eprintln!("{planted:?}: seed {found:?}");
        }
        assert!(found.is_some(), "{planted:?}");
    }
}
