//! World around the engine, with one clock and a heap of future events.
//!
//! The world drives a real [`Engine`]. It carries out each action of the engine at a simulated
//! time, and reports its completion. Future events are in one heap, ordered by time and then by
//! creation, so a run with the same seed is identical. The heap has at most a few events per core,
//! invocation and interval.

mod flights;
mod tally;

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use eciton_engine::{Action, Engine, Event, Observation, Reason, Tuner, TunerSettings};
use eciton_program::{Place, Profile};
use eciton_recipe::{Mode, Prices};
use eciton_types::{Round, StageId, Step, Task, TaskKey};

use crate::cloud::Environments;
use crate::error::Error;
use crate::flight::{Flight, Timer, parts};
use crate::host::{Host, Job, JobKind};
use crate::link::{Link, Rates};
use crate::random::{Purpose, unit};
use crate::report::{Chosen, Report};
use crate::settings::{Placement, Settings, Signal};
use crate::shape::Shape;
use crate::work::Work;
use tally::Tally;

/// Simulates the training of a shape, and returns its times and costs.
///
/// # Errors
/// Returns [`Error::Setting`], [`Error::Memory`], [`Error::Plan`] or [`Error::Engine`] if the input
/// is invalid. Returns [`Error::Failed`] if a task failed at every attempt, and [`Error::Stalled`]
/// if the run waits for an event that never happens.
pub fn simulate(
    shape: &Shape,
    profile: &Profile,
    prices: &Prices,
    settings: &Settings,
) -> Result<Report, Error> {
    settings.check()?;
    let program = shape.program(profile)?;
    let work = Work::new(&program, shape, profile, settings)?;
    let engine = Engine::new(
        &program,
        eciton_engine::Settings {
            // Evaluations are omitted. The one after the last epoch takes no time.
            eval_every: 0,
            attempts: settings.attempts,
            deadlines: settings.deadlines,
            pipeline: settings.pipeline,
            ..eciton_engine::Settings::new(settings.intervals, settings.epochs)
        },
    )?;
    World::new(settings, profile, prices, work, engine).run()
}

/// Future event of the simulated world.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// The engine receives an event.
    Engine(Event),
    /// A core has finished a job.
    Core { host: u32, job: Job },
    /// A transfer on a host's link may have ended.
    Link { host: u32, generation: u64 },
    /// A timer of a flight (invocation) expires.
    Flight { flight: u32, timer: Timer },
    /// All attempts are checked for exceeded deadlines.
    Deadlines,
}

/// Heap entry, which is a future event with its time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at_us: u64,
    /// Sequence number of the entry, in order of creation. It decides between events at the same
    /// time.
    number: u64,
    item: Item,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

struct World<'a> {
    settings: &'a Settings,
    profile: &'a Profile,
    prices: &'a Prices,
    work: Work,
    engine: Engine,
    now_us: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    made: u64,
    hosts: Vec<Host>,
    environments: Environments,
    /// Flights (invocations) by index. Unused indices are listed in `free`.
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Attempts in functions that have not been answered, for each stage, ordered by their start.
    waited: Vec<BTreeSet<(u64, TaskKey)>>,
    /// True if an [`Item::Deadlines`] is already scheduled.
    looking: bool,
    /// Last epoch whose rows were sent to other hosts, for each stage and interval.
    scattered: Vec<Round>,
    tally: Tally,
    tuner: Option<Tuner>,
    ended: Option<(u64, Reason)>,
    actions: Vec<Action>,
}

/// Converts seconds to microseconds, rounding up.
fn us(seconds: f64) -> u64 {
    // `as` saturates, which would need a simulated run of 585,000 years.
    (seconds * 1e6 - 1e-6).ceil() as u64
}

impl<'a> World<'a> {
    fn new(
        settings: &'a Settings,
        profile: &'a Profile,
        prices: &'a Prices,
        work: Work,
        engine: Engine,
    ) -> Self {
        let cloud = settings.cloud;
        let rates = Rates::new(cloud.alone_mbits, cloud.hundred_mbits, settings.hosts.mbits);
        let hosts = (0..settings.hosts.count).map(|_| Host::new(settings.hosts.cores, Link::new(rates)));
        let steps = work.stages.len() * settings.intervals as usize;
        let mut world = Self {
            settings,
            profile,
            prices,
            waited: vec![BTreeSet::new(); work.stages.len()],
            work,
            engine,
            now_us: 0,
            heap: BinaryHeap::new(),
            made: 0,
            hosts: hosts.collect(),
            environments: Environments::new(cloud),
            flights: Vec::new(),
            free: Vec::new(),
            looking: false,
            scattered: vec![Round(0); steps],
            tally: Tally::default(),
            tuner: None,
            ended: None,
            actions: Vec::new(),
        };
        world.tuner = settings.functions.auto.map(|_| world.make_tuner());
        let count = world.tuner.as_ref().map_or(settings.functions.count, Tuner::functions);
        world.set_functions(count);
        world
    }

    /// Divides `count` functions equally among the hosts, as limits on their invocations in flight.
    fn set_functions(&mut self, count: u32) {
        let hosts = self.settings.hosts.count;
        for (number, host) in (0..hosts).zip(&mut self.hosts) {
            host.limit = count / hosts + u32::from(number < count % hosts);
        }
        self.tally.set_functions(self.now_us, count);
    }

    fn make_tuner(&self) -> Tuner {
        let settings = self.settings;
        let intervals = u64::from(settings.intervals);
        Tuner::new(TunerSettings {
            least: 0,
            most: settings.functions.count,
            intervals: settings.intervals,
            tasks: self.work.tensor_stages * intervals,
            // Lower bound on the time of a task.
            round_trip_us: settings.cloud.latency_us + us(self.profile.function.seconds_per_step),
        })
    }

    /// Passes an observation to the autotuner, and applies its decision.
    fn tune(&mut self, signal: Signal) {
        let waiting = match signal {
            Signal::Queue => self.hosts.iter().map(Host::waiting).sum(),
            Signal::Frozen(waiting) => waiting,
        };
        let seen = Observation {
            time_us: self.now_us,
            waiting,
            in_flight: self.hosts.iter().map(|host| host.in_flight).sum(),
            completed: self.engine.counters().committed,
            usd: self.usd(self.now_us).total,
        };
        let Some(decision) = self.tuner.as_mut().and_then(|tuner| tuner.observe(&seen)) else { return };
        self.tally.decisions.push(Chosen {
            seconds: decision.time_us as f64 / 1e6,
            from: decision.from,
            to: decision.to,
            why: decision.why.to_string(),
        });
        if decision.from != decision.to {
            self.set_functions(decision.to);
            (0..self.settings.hosts.count).for_each(|host| self.dispatch(host));
        }
    }

    fn run(mut self) -> Result<Report, Error> {
        self.put(0, Item::Engine(Event::Started));
        while let Some(Reverse(Entry { at_us, item, .. })) = self.heap.pop() {
            self.now_us = at_us;
            self.tally.events += 1;
            match item {
                Item::Engine(event) => self.tell(event),
                Item::Core { host, job } => self.core_done(host, job),
                Item::Link { host, generation } => self.link_done(host, generation),
                Item::Flight { flight, timer } => self.timer(flight, timer),
                Item::Deadlines => self.look_for_overdue(),
            }
        }
        let seconds = |at_us: u64| at_us as f64 * 1e-6;
        match self.ended {
            Some((at_us, Reason::Failed { key, .. })) => Err(Error::Failed {
                seconds: seconds(at_us),
                key,
                attempts: self.settings.attempts,
                throttled: self.environments.throttled,
            }),
            Some((at_us, _)) => Ok(self.report(at_us)),
            None => {
                let waits = self.engine.running().next().map(|key| key.to_string());
                let waits_for = waits.unwrap_or_else(|| "nothing that was asked for".to_owned());
                Err(Error::Stalled { seconds: seconds(self.now_us), waits_for })
            }
        }
    }

    fn put(&mut self, after_us: u64, item: Item) {
        let at_us = self.now_us.saturating_add(after_us);
        self.heap.push(Reverse(Entry { at_us, number: self.made, item }));
        self.made += 1;
    }

    /// Passes an event to the engine, and carries out the resulting actions.
    fn tell(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        let committed = self.engine.counters().committed;
        actions.extend(self.engine.step(event));
        self.tally.engine_events += 1;
        // Hosts that received work: one, or many after a barrier.
        let mut touched = BTreeSet::new();
        for action in actions.drain(..) {
            match action {
                Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
                    touched.insert(self.submit(task))
                }
                Action::Commit(_) | Action::Share { .. } => false,
                Action::Update { round } => {
                    self.tally.between_hosts(self.settings, self.work.weight_bytes);
                    self.put(us(self.work.update_s), Item::Engine(Event::Updated { round }));
                    false
                }
                Action::Evaluate { round } => {
                    self.put(0, Item::Engine(Event::Evaluated { round }));
                    false
                }
                Action::RoundFinished { .. } => {
                    self.tally.epoch_ends_us.push(self.now_us);
                    false
                }
                Action::Finished { reason, .. } => {
                    self.ended = Some((self.now_us, reason));
                    self.tally.end(self.now_us, &mut self.hosts);
                    false
                }
            };
        }
        self.actions = actions;
        touched.into_iter().for_each(|host| self.dispatch(host));
        if let Some(signal) = self.settings.functions.auto
            && self.engine.counters().committed > committed
            && self.ended.is_none()
        {
            self.tune(signal);
        }
    }

    fn host_of(&self, step: Step) -> u32 {
        // Below the number of hosts.
        (u64::from(step.interval.0) * u64::from(self.settings.hosts.count)
            / u64::from(self.settings.intervals)) as u32
    }

    fn submit(&mut self, task: Task) -> u32 {
        if self.settings.pipeline.mode == Mode::Async
            && task.attempt.0 == 0
            && let Some(ages) = self.engine.ages(task.step())
        {
            self.tally.ages(ages, task.interval.index());
        }
        let number = self.host_of(task.step());
        let (host, key) = (&mut self.hosts[number as usize], task.key());
        match self.work.stages[task.stage.index()].place {
            Place::Host => host.jobs.insert(Job { key, kind: JobKind::Gather, flight: 0 }),
            Place::Anywhere | Place::Lane(_) => host.tasks.insert(key),
        };
        number
    }

    /// Assigns the waiting jobs and tasks of a host to its free cores and functions.
    fn dispatch(&mut self, host: u32) {
        let shared = self.settings.functions.placement == Placement::Shared;
        if self.ended.is_some() {
            return;
        }
        loop {
            let place = &mut self.hosts[host as usize];
            if place.free_cores > 0
                && let Some(job) = place.next_job(shared)
            {
                place.free_cores -= 1;
                let took_us = self.job_us(job);
                self.hosts[host as usize].busy_us += took_us;
                self.put(took_us, Item::Core { host, job });
            } else if let Some(key) = place.next_task() {
                self.begin_flight(host, key);
            } else {
                return;
            }
        }
    }

    /// Returns the time that a core needs for a job, in microseconds.
    fn job_us(&self, job: Job) -> u64 {
        let work = self.work.stages[job.key.stage.index()];
        let pace = self.profile.host;
        let seconds = match job.kind {
            JobKind::Gather | JobKind::Tensor => work.host_s,
            JobKind::Send => pace.seconds_per_step + work.in_bytes * pace.seconds_per_byte,
            JobKind::Receive => pace.seconds_per_step + work.out_bytes * pace.seconds_per_byte,
        };
        let [epoch, stage, interval, attempt] = parts(job.key);
        let key = [epoch, stage, interval, attempt, 1 + job.kind as u64];
        let jitter = self.settings.jitter;
        let longer =
            if jitter > 0.0 { jitter * unit(self.settings.seed, Purpose::Jitter, &key) } else { 0.0 };
        us(seconds * (1.0 + longer))
    }

    fn core_done(&mut self, host: u32, job: Job) {
        self.hosts[host as usize].free_cores += 1;
        match job.kind {
            JobKind::Gather => self.deliver(host, job.key, 0),
            JobKind::Tensor => {
                self.tally.local_tasks += 1;
                // Only times of functions enter the engine's averages, because they set the deadlines.
                self.deliver(host, job.key, 0);
            }
            JobKind::Send => self.sent(job.flight),
            JobKind::Receive => self.received(job.flight),
        }
        self.dispatch(host);
    }

    /// Delivers the answer of a step. Its rows are first sent to the other hosts that need them,
    /// and then the engine receives the event.
    fn deliver(&mut self, host: u32, key: TaskKey, took_us: u64) {
        let bytes = self.work.stages[key.stage.index()].scatter_bytes;
        let at = key.stage.index() * self.settings.intervals as usize + key.interval.index();
        let mut delay_us = 0;
        if bytes > 0.0 && self.scattered[at] < key.round {
            self.scattered[at] = key.round;
            self.tally.bytes.between_hosts += bytes;
            let rate = self.settings.hosts.mbits * 1e6 / 8.0;
            let place = &mut self.hosts[host as usize];
            place.network_free_us = place.network_free_us.max(self.now_us) + us(bytes / rate);
            delay_us = place.network_free_us - self.now_us;
        }
        let event = Event::Completed { key, took_us };
        if delay_us == 0 {
            self.tell(event);
        } else {
            self.put(delay_us, Item::Engine(event));
        }
    }

    fn look_for_overdue(&mut self) {
        self.looking = false;
        for stage in 0..self.waited.len() {
            // A program has at most 2^16 stages.
            let Some(deadline_us) = self.engine.deadline_us(StageId(stage as u16)) else { continue };
            while let Some(&(begun_us, key)) = self.waited[stage].first()
                && begun_us.saturating_add(deadline_us) <= self.now_us
            {
                self.waited[stage].pop_first();
                self.tell(Event::Overdue(key));
            }
        }
        self.look_later();
    }

    /// Schedules the next check for exceeded deadlines if attempts are waiting. Five checks happen
    /// within the shortest deadline.
    fn look_later(&mut self) {
        let waited = self.waited.iter().any(|stage| !stage.is_empty());
        if let Some(deadlines) = self.settings.deadlines.filter(|_| waited && !self.looking) {
            self.looking = true;
            self.put((deadlines.floor_us / 5).max(1000), Item::Deadlines);
        }
    }
}
