//! Simulation of a run on several hosts. Each host has an engine with intervals of its own. A network
//! delays, reorders, loses and repeats what the hosts send each other. A lost message is sent again
//! later.
//!
//! The weights of all hosts must be those of one host, bit for bit, in rounds that read only rows of
//! their own. [`Mistake`] lists what a driver may do wrong. The simulation must find each.

#![allow(clippy::disallowed_macros, clippy::print_stderr)]

use super::{Planted, Random, gatv2, gcn, hash, seeds, two_reads};
use crate::{Action, Engine, Event, Reason, Settings};
use eciton_program::{Place, Program, Scope};
use eciton_recipe::{Mode, Pipeline, WeightVersions};
use eciton_types::{Round, StageId, Step, TaskKey, Version};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A mistake of the driver or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A message is lost and not sent again.
    Lost,
    /// Received rows are written when they arrive, whatever reads the rows that they replace.
    WrittenAtOnce,
    /// Steps read the rows of their own round, although the engine says which rows are there.
    AgesIgnored,
    /// An update leaves out the sums of one host.
    SumMissing,
    /// Sums that arrive twice are added twice.
    SumTwice,
    /// The last round is one that a host may have passed.
    EndsTooEarly,
    /// A host does not hear of the last round.
    EndUnheard,
}

/// A message of one host to another.
#[derive(Clone, Debug)]
enum Message {
    /// Rows of a step, as a value.
    Rows(Step, u64),
    /// Sums of the sender's intervals of a round, by stage and interval. The last round follows if
    /// the sender ends the run.
    Sums { round: Round, of: usize, sums: Vec<(u16, u32, u64)>, last: Option<Round> },
}

#[derive(Clone, Debug)]
enum Item {
    Event(Event),
    Message(Message),
}

/// Index of a row: stage, interval, and round modulo the number of row versions.
type Row = (u16, u32, u32);

struct Host {
    engine: Engine,
    own: (u32, u32),
    /// Rows with the round that they are of.
    rows: BTreeMap<Row, (Round, u64)>,
    readers: BTreeMap<Row, u32>,
    /// Steps in flight, with their result and the rows that they read.
    reading: BTreeMap<Step, (u64, Vec<Row>)>,
    /// Received rows that are not written yet.
    arrived: BTreeMap<Step, u64>,
    sums: BTreeMap<Round, BTreeMap<(u16, u32), u64>>,
    weights: BTreeMap<u64, u64>,
    end: Option<(Reason, Round)>,
    most_arrived: usize,
}

struct World<'a> {
    program: &'a Program,
    settings: Settings,
    /// For each stage, whether steps of other intervals read its rows, and whether they wait for it.
    travels: Vec<(bool, bool)>,
    cuts: Vec<u32>,
    hosts: Vec<Host>,
    coming: BTreeMap<(u64, u64), (usize, Item)>,
    now: u64,
    random: Random,
    /// True if the messages between two hosts arrive in the order in which they are sent.
    in_order: bool,
    last: BTreeMap<(usize, usize), u64>,
    mistake: Option<Mistake>,
    messages: u64,
    /// Round with whose sums host 0 ends the run.
    ends_in: Option<Round>,
    /// Number of rows of other hosts that were read, by age.
    ages: BTreeMap<u32, u64>,
}

impl<'a> World<'a> {
    fn new(program: &'a Program, settings: Settings, cuts: &[u32], seed: u64) -> Self {
        let host = |cut: &[u32]| {
            let own = (cuts.len() > 2).then_some((cut[0], cut[1]));
            Host {
                engine: Engine::new(program, Settings { own, ..settings }).unwrap(),
                own: (cut[0], cut[1]),
                rows: BTreeMap::new(),
                readers: BTreeMap::new(),
                reading: BTreeMap::new(),
                arrived: BTreeMap::new(),
                sums: BTreeMap::new(),
                weights: BTreeMap::from([(settings.weights.0, 1)]),
                end: None,
                most_arrived: 0,
            }
        };
        let stages = program.stages.len();
        let all: Vec<_> = (0..stages as u16).flat_map(|stage| program.dependencies(StageId(stage))).collect();
        let travels = |stage: usize| {
            let is_read = all.contains(&(StageId(stage as u16), Scope::All));
            (is_read, is_read || settings.pipeline.mode == Mode::Sync && stage + 1 < stages)
        };
        let travels = (0..stages).map(travels).collect();
        let mut random = Random(seed);
        let in_order = random.percent(50);
        let mut world = Self {
            program,
            settings,
            travels,
            cuts: cuts.to_vec(),
            hosts: cuts.windows(2).map(host).collect(),
            coming: BTreeMap::new(),
            now: 0,
            random,
            in_order,
            last: BTreeMap::new(),
            mistake: None,
            messages: 0,
            ends_in: None,
            ages: BTreeMap::new(),
        };
        for host in 0..world.hosts.len() {
            world.after(host, 3000, Item::Event(Event::Started));
        }
        world
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn after(&mut self, host: usize, most: u64, item: Item) {
        let at = self.now + self.random.below(most);
        let tie = self.random.next();
        self.coming.insert((at, tie), (host, item));
    }

    /// Sends a message, which arrives late, once or twice.
    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.messages += 1;
        if self.is(Mistake::Lost) && self.messages == 17 {
            return;
        }
        for copy in 0..=u64::from(self.random.percent(5)) {
            // A lost message is sent again after 300 ms.
            let most = if self.random.percent(10) { 300_000 } else { 5000 };
            let mut at = self.now + self.random.below(most) + copy;
            if self.in_order {
                let last = self.last.entry((from, to)).or_default();
                at = at.max(*last + 1);
                *last = at;
            }
            let tie = self.random.next();
            self.coming.insert((at, tie), (to, Item::Message(message.clone())));
        }
    }

    fn send_to_others(&mut self, from: usize, message: &Message) {
        for to in (0..self.hosts.len()).filter(|to| *to != from) {
            self.send(from, to, message.clone());
        }
    }

    fn is_own(&self, host: usize, interval: u32) -> bool {
        let (first, end) = self.hosts[host].own;
        (first..end).contains(&interval)
    }

    fn row(&self, stage: u16, interval: u32, round: Round) -> Row {
        let ring = if self.travels[usize::from(stage)].0 { self.settings.pipeline.row_versions() } else { 1 };
        (stage, interval, round.0 % ring)
    }

    /// Runs to the end. Returns true if all hosts have ended.
    fn run(&mut self) -> bool {
        while let Some(((at, _), (host, item))) = self.coming.pop_first() {
            self.now = at;
            match item {
                Item::Event(event) => self.deliver(host, event),
                Item::Message(Message::Rows(step, value)) => {
                    self.hosts[host].arrived.entry(step).or_insert(value);
                    self.hosts[host].most_arrived =
                        self.hosts[host].most_arrived.max(self.hosts[host].arrived.len());
                    if self.is(Mistake::WrittenAtOnce) {
                        let row = self.row(step.stage.0, step.interval.0, step.round);
                        self.hosts[host].rows.insert(row, (step.round, value));
                    }
                    self.deliver(host, Event::Received(step));
                }
                Item::Message(Message::Sums { round, of, sums, last }) => {
                    for (stage, interval, value) in sums {
                        let sum = self.hosts[host].sums.entry(round).or_default().entry((stage, interval));
                        let twice = self.mistake == Some(Mistake::SumTwice);
                        sum.and_modify(|sum| *sum = if twice { hash(&[*sum, value]) } else { *sum })
                            .or_insert(value);
                    }
                    let unheard = self.is(Mistake::EndUnheard) && host + 1 == self.hosts.len();
                    if let Some(round) = last.filter(|_| !unheard) {
                        self.deliver(host, Event::EndAfter { round });
                    }
                    let (first, end) = (self.cuts[of], self.cuts[of + 1]);
                    self.deliver(host, Event::Shared { first, end, round });
                }
            }
        }
        self.hosts.iter().all(|host| host.end.is_some())
    }

    fn deliver(&mut self, host: usize, event: Event) {
        let actions: Vec<Action> = self.hosts[host].engine.step(event).collect();
        assert_eq!(self.hosts[host].engine.counters().unexpected, 0, "{event:?} at host {host}");
        for action in actions {
            match action {
                Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
                    if matches!(action, Action::Submit(_)) {
                        self.begin(host, task.step(), task.weights);
                    }
                    let slow = if self.random.percent(10) { 60_000 } else { 3000 };
                    let may_fail = self.is_own(host, task.interval.0)
                        && self.program.place(task.stage).is_task()
                        && task.attempt.0 + 1 < self.settings.attempts;
                    let event = match may_fail && self.random.percent(10) {
                        true => Event::Failed { key: task.key(), retryable: true },
                        false => Event::Completed { key: task.key(), took_us: 1 },
                    };
                    self.after(host, slow, Item::Event(event));
                }
                Action::Commit(key) => self.commit(host, key),
                Action::Share { round } => self.share(host, round),
                Action::Update { round } => self.update(host, round),
                Action::Evaluate { round } => {
                    self.after(host, 20_000, Item::Event(Event::Evaluated { round }));
                }
                Action::RoundFinished { .. } => {}
                Action::Finished { reason, round } => self.hosts[host].end = Some((reason, round)),
            }
        }
    }

    /// Sends the sums of a host's intervals to all others.
    fn share(&mut self, host: usize, round: Round) {
        let sums = self.hosts[host].sums.get(&round).cloned().unwrap_or_default();
        let own = sums.into_iter().filter(|((_, interval), _)| self.is_own(host, *interval));
        let sums: Vec<_> = own.map(|((stage, interval), value)| (stage, interval, value)).collect();
        let mut last = None;
        if host == 0 && self.ends_in == Some(round) {
            let bound = self.settings.pipeline.bound();
            let after = if self.is(Mistake::EndsTooEarly) { 0 } else { bound };
            last = Some(Round(round.0 + after));
        }
        self.send_to_others(host, &Message::Sums { round, of: host, sums, last });
        if let Some(round) = last {
            self.after(host, 1, Item::Event(Event::EndAfter { round }));
        }
    }

    fn update(&mut self, host: usize, round: Round) {
        let mut all = self.hosts[host].sums.remove(&round).unwrap_or_default();
        let sums = self.program.stages.iter().filter(|stage| !stage.sums.is_empty()).count();
        assert_eq!(all.len(), sums * self.settings.intervals as usize, "update of {round} at host {host}");
        if self.is(Mistake::SumMissing) && host == 1 {
            all.retain(|(_, interval), _| *interval >= self.cuts[1]);
        }
        let of = &mut self.hosts[host];
        let (&newest, &before) = of.weights.last_key_value().unwrap();
        of.weights.insert(newest + 1, all.values().fold(before, |sum, value| hash(&[sum, *value])));
        self.after(host, 3000, Item::Event(Event::Updated { round }));
    }

    /// Begins a step: reads its rows, or takes the rows that were received.
    fn begin(&mut self, host: usize, step: Step, weights: Version) {
        let writes = self.row(step.stage.0, step.interval.0, step.round);
        let readers = self.hosts[host].readers.get(&writes).copied().unwrap_or(0);
        assert_eq!(readers, 0, "{step} writes rows at host {host} that are read");
        if !self.is_own(host, step.interval.0) {
            let value = self.hosts[host].arrived[&step];
            self.hosts[host].rows.remove(&writes);
            self.hosts[host].reading.insert(step, (value, Vec::new()));
            return;
        }
        let ages = self.hosts[host].engine.ages(step).map(<[u8]>::to_vec);
        let mut inputs = vec![step.stage.0.into(), step.interval.0.into(), step.round.0.into()];
        inputs.push(self.hosts[host].weights[&weights.0]);
        let mut reads = Vec::new();
        for (source, scope) in self.program.dependencies(step.stage) {
            let of = match scope {
                Scope::Own => step.interval.0..step.interval.0 + 1,
                Scope::All => 0..self.settings.intervals,
            };
            for of in of {
                let aged = ages.as_ref().filter(|_| scope == Scope::All && !self.is(Mistake::AgesIgnored));
                let age = aged.map_or(0, |ages| u32::from(ages[of as usize]));
                assert!(age <= self.settings.pipeline.staleness + 1, "{step} reads rows that are {age} old");
                let round = Round(step.round.0 - age);
                let row = self.row(source.0, of, round);
                let found = self.hosts[host].rows.get(&row).copied();
                assert_eq!(
                    found.map(|(of, _)| of),
                    Some(round),
                    "{step} at host {host} reads {source} of {of}"
                );
                if scope == Scope::All && !self.is_own(host, of) {
                    *self.ages.entry(age).or_default() += 1;
                }
                inputs.push(found.unwrap().1);
                reads.push(row);
            }
        }
        for row in &reads {
            *self.hosts[host].readers.entry(*row).or_default() += 1;
        }
        self.hosts[host].rows.remove(&writes);
        self.hosts[host].reading.insert(step, (hash(&inputs), reads));
    }

    fn commit(&mut self, host: usize, key: TaskKey) {
        let step = key.step();
        let row = self.row(step.stage.0, step.interval.0, step.round);
        let (value, reads) = self.hosts[host].reading.remove(&step).unwrap();
        for row in reads {
            *self.hosts[host].readers.get_mut(&row).unwrap() -= 1;
        }
        self.hosts[host].rows.insert(row, (step.round, value));
        if !self.is_own(host, step.interval.0) {
            self.hosts[host].arrived.remove(&step);
            return;
        }
        if !self.program.stages[step.stage.index()].sums.is_empty() {
            let of = (step.stage.0, step.interval.0);
            self.hosts[host].sums.entry(step.round).or_default().insert(of, value);
        }
        if self.travels[step.stage.index()].1 {
            self.send_to_others(host, &Message::Rows(step, value));
        }
    }

    /// Returns the final weights of each host.
    fn weights(&self) -> Vec<u64> {
        self.hosts.iter().map(|host| *host.weights.last_key_value().unwrap().1).collect()
    }
}

/// Returns the first interval of each host, and the number of intervals.
fn cuts(random: &mut Random, intervals: u32, hosts: u32) -> Vec<u32> {
    let mut cuts: Vec<u32> = vec![0, intervals];
    while cuts.len() < hosts as usize + 1 {
        let cut = 1 + random.below(u64::from(intervals) - 1) as u32;
        if !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts.sort_unstable();
    cuts
}

fn pipeline(mode: Mode, staleness: u32, weights: Option<WeightVersions>) -> Pipeline {
    Pipeline { mode, staleness, weights, ..Pipeline::default() }
}

/// Programs, intervals and hosts of a seed.
fn draw(random: &mut Random) -> (usize, u32, Vec<u32>) {
    let program = random.below(6) as usize;
    let intervals = 2 + random.below(9) as u32;
    let hosts = 2 + random.below(u64::from(intervals.min(8)) - 1) as u32;
    let cuts = cuts(random, intervals, hosts);
    (program, intervals, cuts)
}

fn all_programs() -> [Program; 6] {
    let edges = [gatv2(1, Place::Host), gatv2(2, Place::Anywhere)];
    let [one, two] = edges;
    [gcn(1), gcn(2), gcn(3), one, two, two_reads(Place::Host)]
}

/// Returns the settings of an exact run.
fn exact(random: &mut Random, intervals: u32) -> Settings {
    let two = Some(WeightVersions::TwoBuffered);
    let pipelines =
        [pipeline(Mode::Sync, 0, None), pipeline(Mode::Pipe, 0, None), pipeline(Mode::Pipe, 0, two)];
    let pipeline = pipelines[random.below(3) as usize];
    let in_flight = random.percent(50).then(|| 1 + random.below(4) as u32);
    let eval_every = random.below(3) as u32;
    Settings { pipeline, eval_every, in_flight, ..Settings::new(intervals, 4) }
}

#[test]
fn several_hosts_have_the_weights_of_one() {
    let programs = all_programs();
    for seed in 0..seeds(2000) {
        let random = &mut Random(seed ^ 0xabc);
        let (program, intervals, cuts) = draw(random);
        let settings = exact(random, intervals);
        let mut one = World::new(&programs[program], settings, &[0, intervals], seed);
        assert!(one.run(), "seed {seed}: one host stalls");
        let mut several = World::new(&programs[program], settings, &cuts, !seed);
        assert!(several.run(), "seed {seed}: {cuts:?} stalls");
        let wanted = vec![one.weights()[0]; several.hosts.len()];
        assert_eq!(several.weights(), wanted, "seed {seed}: {cuts:?} {:?}", settings.pipeline);
    }
}

#[test]
fn rows_of_other_hosts_keep_their_bound_and_all_hosts_agree() {
    let programs = all_programs();
    let (mut most_arrived, mut ages) = (0, BTreeMap::new());
    for seed in 0..seeds(2000) {
        let random = &mut Random(seed ^ 0x777);
        let (program, intervals, cuts) = draw(random);
        let staleness = random.below(4) as u32;
        let in_flight = random.percent(50).then(|| 1 + random.below(4) as u32);
        let pipeline = pipeline(Mode::Async, staleness, None);
        let settings = Settings { pipeline, in_flight, ..Settings::new(intervals, 6) };
        let mut world = World::new(&programs[program], settings, &cuts, seed);
        world.ends_in = random.percent(30).then(|| Round(1 + random.below(4) as u32));
        assert!(world.run(), "seed {seed}: {cuts:?} stalls with staleness {staleness}");
        let weights = world.weights();
        assert!(weights.iter().all(|of| *of == weights[0]), "seed {seed}: {cuts:?}");
        let ends: Vec<_> = world.hosts.iter().map(|host| host.end).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "seed {seed}: {ends:?}");
        let last = world.ends_in.map_or(6, |round| (round.0 + pipeline.bound()).min(6));
        assert_eq!(ends[0].unwrap().1, Round(last), "seed {seed}");
        most_arrived = world.hosts.iter().map(|host| host.most_arrived).fold(most_arrived, usize::max);
        world.ages.into_iter().for_each(|(age, count)| *ages.entry(age).or_insert(0) += count);
    }
    eprintln!("at most {most_arrived} received rows wait; rows of other hosts by age: {ages:?}");
    assert!(ages.keys().max() >= Some(&2), "{ages:?}");
}

/// Returns true if the simulation finds something wrong with a run.
fn is_wrong(program: &Program, seed: u64, mistake: Option<Mistake>, planted: Option<Planted>) -> bool {
    let random = &mut Random(seed);
    let intervals = 2 + random.below(6) as u32;
    let hosts = 2 + random.below(u64::from(intervals) - 1) as u32;
    let cuts = cuts(random, intervals, hosts);
    let apart = random.percent(50);
    let staleness = random.below(3) as u32;
    let pipeline = if apart { pipeline(Mode::Async, staleness, None) } else { Pipeline::default() };
    let settings = Settings { pipeline, ..Settings::new(intervals, 5) };
    let ends_in = random.percent(30).then(|| Round(1 + random.below(3) as u32));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(program, settings, &cuts, seed);
        (world.mistake, world.ends_in) = (mistake, ends_in);
        world.hosts.iter_mut().for_each(|host| host.engine.planted = planted);
        if !world.run() {
            return true;
        }
        let weights = world.weights();
        let ends: Vec<_> = world.hosts.iter().map(|host| host.end).collect();
        if weights.iter().any(|of| *of != weights[0]) || ends.iter().any(|end| *end != ends[0]) {
            return true;
        }
        if apart || ends_in.is_some() {
            return false;
        }
        let mut one = World::new(program, settings, &[0, intervals], !seed);
        !one.run() || one.weights()[0] != weights[0]
    }));
    outcome.unwrap_or(true)
}

#[test]
fn defects_between_hosts_are_found() {
    let mistakes = [
        Mistake::Lost,
        Mistake::WrittenAtOnce,
        Mistake::AgesIgnored,
        Mistake::SumMissing,
        Mistake::SumTwice,
        Mistake::EndsTooEarly,
        Mistake::EndUnheard,
    ];
    let planted = [
        Planted::EarlyForgotten,
        Planted::EarlyBoundTooSmall,
        Planted::ReceivedTwice,
        Planted::SharedEarly,
        Planted::TagIgnored,
        Planted::NeverWoken,
        Planted::RowsOverwritten,
        Planted::BoundOffByOne,
    ];
    let programs = [gcn(1), gcn(2), gcn(3), two_reads(Place::Host)];
    let program = |seed: u64| &programs[seed as usize % programs.len()];
    let clean = (0..300).find(|&seed| is_wrong(program(seed), seed, None, None));
    assert_eq!(clean, None, "found wrong without a defect");
    for mistake in mistakes {
        let found = (0..10_000).find(|&seed| is_wrong(program(seed), seed, Some(mistake), None));
        eprintln!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "{mistake:?}");
    }
    for defect in planted {
        let found = (0..10_000).find(|&seed| is_wrong(program(seed), seed, None, Some(defect)));
        eprintln!("{defect:?}: seed {found:?}");
        assert!(found.is_some(), "{defect:?}");
    }
}

#[test]
fn reports_that_fit_no_other_host_are_counted() {
    let settings = Settings { own: Some((0, 2)), ..Settings::new(4, 3) };
    let program = gcn(2);
    let mut engine = Engine::new(&program, settings).unwrap();
    engine.step(Event::Started).for_each(drop);
    let travels = (0..program.stages.len() as u16)
        .map(StageId)
        .find(|stage| program.dependencies(StageId(stage.0 + 1)).contains(&(*stage, Scope::All)))
        .unwrap();
    let step = |interval, round| Step {
        round: Round(round),
        stage: travels,
        interval: eciton_types::IntervalId(interval),
    };
    let shared = |first, end, round| Event::Shared { first, end, round: Round(round) };
    // Own intervals, unknown ones, rounds that nobody may be in, and a stage that nobody waits for.
    let last = Step { stage: StageId(program.stages.len() as u16 - 1), ..step(2, 1) };
    let wrong = [
        Event::Received(step(0, 1)),
        Event::Received(step(4, 1)),
        Event::Received(step(2, 0)),
        Event::Received(step(2, 3)),
        Event::Received(last),
        shared(1, 3, 1),
        shared(3, 5, 1),
        shared(3, 3, 1),
        shared(2, 4, 3),
    ];
    for (at, event) in wrong.into_iter().enumerate() {
        engine.step(event).for_each(drop);
        assert_eq!(engine.counters().unexpected, at as u64 + 1, "{event:?}");
    }
    // What arrives twice is ignored.
    let before = engine.counters().ignored;
    for event in [Event::Received(step(2, 1)), Event::Received(step(2, 2)), shared(2, 4, 2)] {
        engine.step(event).for_each(drop);
        engine.step(event).for_each(drop);
    }
    assert_eq!(engine.counters().ignored - before, 1 + 1 + 2);
    let none = Settings { own: Some((2, 2)), ..settings };
    assert!(Engine::new(&program, none).is_err());
    let beyond = Settings { own: Some((2, 5)), ..settings };
    assert!(Engine::new(&program, beyond).is_err());
}
