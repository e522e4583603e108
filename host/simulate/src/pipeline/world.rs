//! World of a simulated pipeline, with its clock, steps in flight, and transfers.

use std::collections::{BTreeMap, BTreeSet};

use eciton_engine::{Action, Engine, Event, Reason, Settings};
use eciton_recipe::WeightVersions;
use eciton_types::{Location, Round, StageId, Step, Task, TaskKey, Version};

use super::program::program;
use super::{Known, Owner, Pipeline, PipelineReport, Places, Stage};
use crate::error::Error;
use crate::random::{Purpose, unit};

/// Index of each direction of the host's link, to the host (`UP`) and from the host (`DOWN`).
const UP: usize = 0;
const DOWN: usize = 1;
/// Index of each direction of a worker's link, to other workers (`OUT`) and from them (`IN`).
const OUT: usize = 0;
const IN: usize = 1;
/// Maximum number of rounds per simulated run.
const MAX_ROUNDS: u32 = 10_000_000;

/// Future event of the simulated world.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A worker ends a step. The event is ignored if the worker has failed since the step began.
    Ended {
        key: TaskKey,
        at: Location,
        life: u32,
    },
    Told(Event),
    Lost {
        at: Location,
    },
    Back {
        at: Location,
    },
}

pub(super) struct World<'a> {
    of: &'a Pipeline,
    places: &'a Places,
    seed: u64,
    engine: Engine,
    now: f64,
    coming: BTreeMap<(u64, u64), Item>,
    made: u64,
    /// Number of failures of each worker so far. It distinguishes a worker from its replacement.
    lives: Vec<u32>,
    alive: Vec<Option<f64>>,
    /// Time at which the rows of each finished step are available to readers, and the worker that
    /// computed them.
    rows: BTreeMap<Step, (f64, Location)>,
    /// Times at which rows arrive that one worker sends to another, by the step that reads them and
    /// the stage that sends them. Each has the worker to which they are sent.
    sent: BTreeMap<(Step, u16), (f64, Location)>,
    /// Times at which the link of each worker becomes free, out and in, in seconds.
    links: Vec<[f64; 2]>,
    doing: BTreeSet<Location>,
    /// Workers that have the weights of each lane of a replica, since the last update.
    copies: Vec<BTreeSet<Location>>,
    /// Lanes of a replica, each with the workers that have its weights since the last update, if the
    /// host owns the weights.
    given: BTreeSet<(usize, Location)>,
    /// Workers that have returned and wait for weights before they get their lanes.
    waiting: BTreeSet<Location>,
    /// Times at which the host's link becomes free, indexed by direction (`UP`, `DOWN`), in
    /// seconds.
    host: [f64; 2],
    busy: f64,
    there: f64,
    report: PipelineReport,
    end: Option<Reason>,
}

impl<'a> World<'a> {
    pub(super) fn new(of: &'a Pipeline, places: &'a Places, seed: u64) -> Result<Self, Error> {
        let program = program(of)?;
        let lanes = of.lanes();
        let count = lanes.count;
        let settings = Settings {
            eval_every: 0,
            pipeline: eciton_recipe::Pipeline {
                weights: Some(of.weights),
                ..eciton_recipe::Pipeline::default()
            },
            lanes,
            residence: of.residence,
            takeover: of.takeover,
            ..Settings::new(of.micro, MAX_ROUNDS)
        };
        Ok(Self {
            of,
            places,
            seed,
            engine: Engine::new(&program, settings)?,
            now: 0.0,
            coming: BTreeMap::new(),
            made: 0,
            lives: vec![0; count as usize],
            alive: vec![Some(0.0); count as usize],
            rows: BTreeMap::new(),
            sent: BTreeMap::new(),
            links: vec![[0.0; 2]; count as usize],
            doing: BTreeSet::new(),
            copies: Vec::new(),
            given: BTreeSet::new(),
            waiting: BTreeSet::new(),
            host: [0.0; 2],
            busy: 0.0,
            there: 0.0,
            report: PipelineReport::default(),
            end: None,
        })
    }

    fn put(&mut self, time: f64, item: Item) {
        self.made += 1;
        // Nanoseconds: 584 years.
        self.coming.insert(((time * 1e9) as u64, self.made), item);
    }

    pub(super) fn run(mut self, seconds: f64) -> Result<PipelineReport, Error> {
        let count = self.lives.len() as u32;
        for (time, places) in self.places.preemption.losses(count, seconds, self.seed) {
            places.into_iter().map(Location::worker).for_each(|at| self.put(time, Item::Lost { at }));
        }
        for &Known { seconds, worker, returns } in &self.places.trace {
            let at = Location::worker(worker);
            self.put(seconds, if returns { Item::Back { at } } else { Item::Lost { at } });
        }
        self.copy_weights();
        self.gave_weights();
        self.put(0.0, Item::Told(Event::Started));
        while let Some(((time, _), item)) = self.coming.pop_first() {
            let time = time as f64 / 1e9;
            if time > seconds {
                break;
            }
            self.now = time;
            self.happen(item);
            if let Some(Reason::Failed { key, .. }) = self.end {
                let attempts = key.attempt.0 + 1;
                return Err(Error::Failed { seconds: time, key, attempts, throttled: 0 });
            }
        }
        self.now = seconds;
        for since in self.alive.iter().flatten() {
            self.there += seconds - since;
        }
        let counters = self.engine.counters();
        Ok(PipelineReport {
            seconds,
            rows_per_s: f64::from(self.report.rounds) * f64::from(self.of.rows) / seconds,
            usd: self.there / 3600.0 * self.places.usd_hour,
            places: self.there / seconds,
            idle: if self.there > 0.0 { (1.0 - self.busy / self.there).max(0.0) } else { 0.0 },
            retries: counters.retries,
            again: counters.again,
            ..self.report
        })
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Ended { key, at, life } => {
                if self.lives.get(at.index()) == Some(&life) {
                    self.doing.remove(&at);
                    // Rows that are computed again stay at the worker.
                    if !self.rows.contains_key(&key.step()) {
                        let (number, back) = self.stage_of(key.step());
                        let there = self.over(UP, self.now, self.made(number, back));
                        self.rows.insert(key.step(), (there, at));
                        self.send(key.step(), at);
                    }
                    self.deliver(Event::Completed { key, took_us: 0 });
                }
            }
            Item::Told(event) => self.deliver(event),
            Item::Lost { at } => {
                let Some(since) = self.alive.get_mut(at.index()).and_then(Option::take) else { return };
                self.there += self.now - since;
                self.doing.remove(&at);
                if let Some(life) = self.lives.get_mut(at.index()) {
                    *life += 1;
                }
                self.report.losses += 1;
                if !self.places.trace.iter().any(|known| known.returns) {
                    self.put(self.now + self.places.preemption.back, Item::Back { at });
                }
                match self.snapshots() {
                    None => self.deliver(Event::WorkerFailed { at }),
                    Some(every) => self.roll_back(at, every),
                }
            }
            Item::Back { at } => {
                let is_alone = self.alive.iter().all(Option::is_none);
                match self.alive.get_mut(at.index()) {
                    // The worker has not failed, as in a trace that begins with its connection.
                    Some(Some(_)) | None => return,
                    Some(alive) => *alive = Some(self.now),
                }
                if self.snapshots().is_none() {
                    return self.deliver(Event::Joined { at });
                }
                self.waiting.insert(at);
                if is_alone {
                    self.join();
                }
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        let actions: Vec<Action> = self.engine.step(event).collect();
        for action in actions {
            match action {
                Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
                    self.begin(task);
                }
                Action::Commit(_) | Action::Share { .. } => {}
                Action::Update { round } => {
                    let stages = self.of.stages.iter().map(|stage| stage.weights);
                    let bytes = stages.sum::<f64>() * f64::from(self.of.width);
                    let updated = self.over(UP, self.now, bytes) + self.of.update + self.protecting();
                    let there = self.over(DOWN, updated, bytes);
                    self.gave_weights();
                    self.put(there, Item::Told(Event::Updated { round }));
                }
                Action::Evaluate { round } => self.put(self.now, Item::Told(Event::Evaluated { round })),
                Action::RoundFinished { round } => {
                    self.report.rounds += 1;
                    self.copy_weights();
                    // Nobody reads rows of rounds that are over.
                    let first = Step {
                        round: Round(round.0 + 1),
                        stage: Default::default(),
                        interval: Default::default(),
                    };
                    self.rows = self.rows.split_off(&first);
                    self.sent = self.sent.split_off(&(first, 0));
                    if self.may_join() {
                        return self.join();
                    }
                }
                Action::Finished { reason, .. } => self.end = Some(reason),
            }
        }
    }

    /// Returns the time at which the worker `at` has the weights that a step of stage `number` reads.
    /// If the host owns the weights, it sends those of a lane to each worker once per update.
    fn weights_at(&mut self, at: Location, number: u16) -> f64 {
        let depth = (self.of.lanes().depth() as usize).max(1);
        let lane = usize::from(number) % depth;
        if !self.given.insert((lane, at)) {
            return self.now;
        }
        let own = self.of.stages.iter().skip(lane).step_by(depth);
        let bytes = own.map(|stage| stage.weights).sum();
        self.over(DOWN, self.now, bytes)
    }

    /// Records that each worker has the weights of its lanes, after an update.
    fn gave_weights(&mut self) {
        let depth = (self.of.lanes().depth() as usize).max(1);
        let homes = self.engine.homes().into_iter().enumerate();
        self.given = homes.map(|(lane, home)| (lane % depth, home)).collect();
    }

    /// Returns the number of updates between snapshots, if failures of workers cost weights.
    fn snapshots(&self) -> Option<u32> {
        self.places.snapshot_every.filter(|_| self.places.owner == Owner::Worker)
    }

    /// Repeats the round in flight after the worker `at` has failed. If no other worker has its
    /// weights, also repeats all rounds since the last snapshot.
    fn roll_back(&mut self, at: Location, every: u32) {
        if self.waiting.remove(&at) {
            return;
        }
        for workers in &mut self.copies {
            workers.remove(&at);
        }
        let is_lost = self.copies.iter().any(BTreeSet::is_empty);
        if is_lost {
            let lost = self.report.rounds % every;
            self.report.rounds -= lost;
            self.report.rolled_back += u64::from(lost);
        }
        self.restart(vec![Event::WorkerFailed { at }]);
        if is_lost {
            self.copy_weights();
        }
    }

    /// Records the workers that have the weights of each lane after an update: the workers that run
    /// the lane in some replica of the pipeline, and the available workers before each of them that
    /// replicate its weights.
    fn copy_weights(&mut self) {
        let depth = (self.of.lanes().depth() as usize).max(1);
        let count = self.alive.len();
        let is_there = |worker: &usize| {
            self.alive.get(*worker).is_some_and(Option::is_some)
                && !self.waiting.contains(&Location::worker(*worker as u32))
        };
        let mut copies = vec![BTreeSet::new(); depth];
        for (lane, home) in self.engine.homes().iter().enumerate() {
            let before = (1..count).map(|by| (home.index() + count - by) % count).filter(is_there);
            let before = before.take(self.places.replicas as usize).map(|at| Location::worker(at as u32));
            let all = [*home].into_iter().chain(before);
            copies[lane % depth].extend(all.filter(|at| at.is_worker()));
        }
        self.copies = copies;
    }

    /// Returns the time of an update that protects the weights, in seconds: workers send their
    /// gradients to those that replicate their weights, and a snapshot may be written.
    fn protecting(&self) -> f64 {
        let Some(every) = self.snapshots() else { return 0.0 };
        let weights = self.of.stages.iter().map(|stage| stage.weights).fold(0.0, f64::max);
        let sent = f64::from(self.places.replicas) * weights * f64::from(self.of.chunks) / self.places.link;
        let is_logged = (self.report.rounds + 1).is_multiple_of(every);
        sent + if is_logged { self.places.snapshot_seconds } else { 0.0 }
    }

    /// Returns true if workers that have returned can get the weights of the round that has just
    /// finished, from other workers or from a snapshot.
    fn may_join(&self) -> bool {
        let has_copies = self.of.width > 1 || self.places.replicas > 0;
        let is_logged = |every| has_copies || self.report.rounds.is_multiple_of(every);
        !self.waiting.is_empty() && self.snapshots().is_some_and(is_logged)
    }

    /// Gives all workers that have returned their lanes.
    fn join(&mut self) {
        let joined = std::mem::take(&mut self.waiting).into_iter();
        self.restart(joined.map(|at| Event::Joined { at }).collect());
        self.copy_weights();
    }

    /// Starts the round after the last finished one, after the events about workers. All steps in
    /// flight end without a result.
    fn restart(&mut self, events: Vec<Event>) {
        self.coming.retain(|_, item| !matches!(item, Item::Told(_)));
        self.lives.iter_mut().for_each(|life| *life += 1);
        self.doing.clear();
        self.rows.clear();
        self.sent.clear();
        let rounds = self.report.rounds;
        self.engine.restart(Round(rounds + 1), Round(MAX_ROUNDS), Version(rounds.into()));
        if self.of.weights == WeightVersions::TwoBuffered && rounds > 0 {
            self.engine.go_on();
        }
        events.into_iter().for_each(|event| self.deliver(event));
        self.deliver(Event::Started);
    }

    /// Returns the time at which a transfer over the host's link ends. The transfer has `bytes`
    /// bytes and starts at time `ready` or later, because transfers in one direction run one after
    /// another.
    fn over(&mut self, way: usize, ready: f64, bytes: f64) -> f64 {
        match (self.places.owner, self.host.get_mut(way)) {
            (Owner::Host(link), Some(free)) if bytes > 0.0 => {
                self.report.sent_bytes += bytes;
                *free = free.max(ready) + bytes / link;
                *free
            }
            _ => ready,
        }
    }

    /// Sends the rows of an ended step to the workers that read them, if workers send rows to each
    /// other. A transfer begins when both links are free, and takes its bytes divided by the
    /// bandwidth.
    fn send(&mut self, step: Step, from: Location) {
        if self.places.owner != Owner::Worker {
            return;
        }
        for (reader, bytes) in self.readers(step) {
            let to = self.engine.home_of(reader);
            if to == from || !to.is_worker() {
                continue;
            }
            let free = |links: &[[f64; 2]], at: Location, way: usize| {
                links.get(at.index()).map_or(0.0, |of| of[way])
            };
            let begins = self.now.max(free(&self.links, from, OUT)).max(free(&self.links, to, IN));
            let ends = begins + bytes / self.places.link;
            self.report.sent_bytes += bytes;
            for (at, way) in [(from, OUT), (to, IN)] {
                if let Some(link) = self.links.get_mut(at.index()) {
                    link[way] = ends;
                }
            }
            self.sent.insert((reader, step.stage.0), (ends, to));
        }
    }

    /// Returns the steps that read the rows of a step, with the bytes that each reads.
    fn readers(&self, step: Step) -> Vec<(Step, f64)> {
        let depth = self.of.stages.len() as u16;
        let (number, back) = self.stage_of(step);
        let reader = |stage: u16, bytes| (Step { stage: StageId(stage), ..step }, bytes);
        if back {
            let own = self.of.stages.get(usize::from(number)).map_or(&[][..], |stage| &stage.reads);
            return own.iter().map(|&(read, bytes)| reader(2 * depth - 1 - read, bytes)).collect();
        }
        let reads = |(other, stage): (u16, &Stage)| {
            stage.reads.iter().find(|(from, _)| *from == number).map(|&(_, bytes)| reader(other, bytes))
        };
        (0..depth).zip(&self.of.stages).filter_map(reads).collect()
    }

    /// Returns the program stages that stage `number` reads, with the bytes of their rows. `back`
    /// selects the backward step of the stage.
    fn reads(&self, number: u16, back: bool) -> Vec<(u16, f64)> {
        let depth = self.of.stages.len() as u16;
        let own = self.of.stages.get(usize::from(number)).map_or(&[][..], |stage| &stage.reads);
        if !back {
            return own.to_vec();
        }
        let of = |(reader, other): (u16, &Stage)| {
            let own = other.reads.iter().filter(|(from, _)| *from == number);
            own.map(|&(_, bytes)| (2 * depth - 1 - reader, bytes)).collect::<Vec<_>>()
        };
        (0..depth).zip(&self.of.stages).flat_map(of).collect()
    }

    /// Returns the number of bytes that a step of stage `number` sends to other stages. Forward
    /// rows are sent once. A backward step (`back`) sends a gradient to each stage whose rows it
    /// has read.
    fn made(&self, number: u16, back: bool) -> f64 {
        match back {
            true => self.reads(number, false).iter().map(|(_, bytes)| bytes).sum(),
            false => self.reads(number, true).iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max),
        }
    }

    /// Returns the pipeline stage of a step, and whether the step is backward.
    fn stage_of(&self, step: Step) -> (u16, bool) {
        let depth = self.of.stages.len() as u16;
        let back = step.stage.0 >= depth;
        (if back { 2 * depth - 1 - step.stage.0 } else { step.stage.0 }, back)
    }

    /// Starts a step as soon as its input rows have arrived.
    fn begin(&mut self, task: Task) {
        let (step, key) = (task.step(), task.key());
        let at = self.engine.location_of(step);
        if !at.is_worker() {
            return;
        }
        let (number, back) = self.stage_of(step);
        let Some(stage) = self.of.stages.get(usize::from(number)) else { return };
        let seconds = if back { stage.backward } else { stage.forward };
        let reads = self.reads(number, back);
        let arrive = |&(stage_id, bytes): &(u16, f64)| {
            let &(made, from) = self.rows.get(&Step { stage: StageId(stage_id), ..step })?;
            if self.places.owner != Owner::Worker || from == at {
                return Some(made);
            }
            // Rows that were sent to another worker, which has failed, are sent again.
            match self.sent.get(&(step, stage_id)) {
                Some(&(arrival, to)) if to == at => Some(arrival),
                _ => Some(made.max(self.now) + bytes / self.places.link),
            }
        };
        let ready = reads.iter().filter_map(arrive).fold(self.now, f64::max);
        let ready = ready.max(self.weights_at(at, number));
        let start = self.over(DOWN, ready, reads.iter().map(|(_, bytes)| bytes).sum());
        let paces = &self.places.paces;
        let pace = paces.get(at.index() % paces.len().max(1)).copied().unwrap_or(1.0);
        let numbers =
            [step.round.0.into(), step.stage.0.into(), step.interval.0.into(), key.attempt.0.into()];
        let longer = 1.0 + self.places.jitter * unit(self.seed, Purpose::Jitter, &numbers);
        let took = seconds * longer / pace;
        self.busy += took;
        self.doing.insert(at);
        let life = self.lives.get(at.index()).copied().unwrap_or_default();
        self.put(start + took, Item::Ended { key, at, life });
    }
}
