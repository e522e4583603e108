//! Simulation of the membership of a run on a network with faults.
//!
//! Workers connect to a host, which is killed and started again. The network delays bytes, swallows
//! everything from a random byte on, and resets connections. Strangers connect and say nothing.
//! Workers fail, are started again with the same token, and connect a second time while the host
//! still knows their first connection. After the faults, every place must have a worker, and every
//! worker must be connected.
//!
//! [`Defect`] lists the mistakes that the simulation must find. Each seed is one run, and
//! `ECITON_SEEDS` is the number of seeds.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Connection, Event, Membership};
use crate::strangers::{Handshake, Strangers};
use crate::watched::silent_at;

/// Time in milliseconds.
type Time = u64;

/// Resolution of the clock.
const TICK: Time = 5;
/// Maximum silence, and the time between two signs of life.
const SILENCE: Time = 400;
const SIGN: Time = SILENCE / 4;
/// Time after which a worker tries to connect again.
const AGAIN: Time = 50;
/// Maximum time of a handshake, and of a connection without a first byte.
const HANDSHAKE: Time = 1000;
const FIRST_BYTE: Time = 100;
/// Time in which faults happen, and the time after it in which all must recover.
const FAULTS: Time = 4000;
const RECOVERY: Time = 3 * SILENCE + HANDSHAKE + 20 * AGAIN;

/// A mistake that the simulation must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// Silence is not noticed in the middle of a message (A2 of the third round).
    SilenceInMessage,
    /// A host that is started again does not know the tokens of the earlier one (B1).
    NewIdentity,
    /// Connections that say nothing keep workers out (B2).
    StrangersStay,
    /// The place of an ended connection is not free again.
    PlaceLeaks,
    /// The end of an old connection frees the place of the same worker's new connection.
    LateEndFrees,
    /// A token may have two places.
    TwoPlaces,
    /// A free place is not given to a worker that waits.
    NoPromotion,
    /// A connection that has ended while it waited gets a place.
    EndedPromoted,
    /// A barred token is admitted.
    BarredAdmitted,
    /// Several connections with one token wait.
    WaitsTwice,
    /// The worker that waits for the shortest time gets a place first.
    LastFirst,
    /// A worker gets the place with the number of its token, although another worker has it.
    OwnPlaceTaken,
}

const DEFECTS: [Defect; 12] = [
    Defect::SilenceInMessage,
    Defect::NewIdentity,
    Defect::StrangersStay,
    Defect::PlaceLeaks,
    Defect::LateEndFrees,
    Defect::TwoPlaces,
    Defect::NoPromotion,
    Defect::EndedPromoted,
    Defect::BarredAdmitted,
    Defect::WaitsTwice,
    Defect::LastFirst,
    Defect::OwnPlaceTaken,
];

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// A handshake of the simulation, which the table of strangers may end.
#[derive(Debug, Clone, Default)]
struct Shake(std::rc::Rc<std::cell::Cell<bool>>);

impl Handshake for Shake {
    fn is_finished(&self) -> bool {
        self.0.get()
    }

    fn abort(&self) {
        self.0.set(true);
    }
}

/// State of a connection at the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It has not proved a token.
    Stranger,
    Waiting,
    Seated(u32),
    /// It has ended for the host.
    Ended,
}

#[derive(Debug, Clone)]
struct Link {
    /// Worker at the other end. `None` for a stranger that says nothing.
    worker: Option<usize>,
    token: u32,
    known: Known,
    begun: Time,
    /// Times at which the latest bytes arrived at the host and at the worker.
    heard: [Time; 2],
    /// Times at which the host and the worker send next.
    sends: [Time; 2],
    /// True while only a part of a message has arrived at the host.
    inside: bool,
    /// Time from which the network swallows all bytes. `None` if it does not.
    swallows: Option<Time>,
    /// True if the worker's end is still open.
    open: bool,
    shake: Shake,
}

#[derive(Debug, Clone)]
struct Worker {
    token: u32,
    alive: bool,
    connection: Option<Connection>,
    tries: Time,
    refused: bool,
}

struct World {
    random: Random,
    now: Time,
    /// Membership of the running host. `None` while the host is not running.
    host: Option<Membership>,
    strangers: Strangers<Shake>,
    links: BTreeMap<Connection, Link>,
    workers: Vec<Worker>,
    places: u32,
    connections: Connection,
    /// Order in which connections have begun to wait, to check that they get places in this order.
    queue: Vec<Connection>,
    barred: BTreeSet<u32>,
    /// Number of times that the host was started.
    starts: u64,
    starts_at: Time,
    defect: Option<Defect>,
}

impl World {
    fn new(seed: u64, defect: Option<Defect>) -> Self {
        let mut random = Random(seed);
        let places = 1 + random.below(4) as u32;
        let count = places as usize + random.below(4) as usize;
        let mut host = Membership::new(places);
        host.defect = defect;
        let worker = |token| Worker { token, alive: true, connection: None, tries: 0, refused: false };
        Self {
            random,
            now: 0,
            host: Some(host),
            strangers: Strangers::default(),
            links: BTreeMap::new(),
            workers: (0..count as u32).map(worker).collect(),
            places,
            connections: 0,
            queue: Vec::new(),
            barred: BTreeSet::new(),
            starts: 1,
            starts_at: 0,
            defect,
        }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn connect(&mut self, worker: Option<usize>, token: u32) -> Connection {
        self.connections += 1;
        let (connection, shake) = (self.connections, Shake::default());
        let link = Link {
            worker,
            token,
            known: Known::Stranger,
            begun: self.now,
            heard: [self.now; 2],
            sends: [self.now + SIGN; 2],
            inside: false,
            swallows: None,
            open: true,
            shake: shake.clone(),
        };
        let address = std::net::IpAddr::from([10, 0, 0, if worker.is_some() { 1 } else { 2 }]);
        let spoke = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(worker.is_some()));
        if self.is(Defect::StrangersStay) {
            let shaking = |link: &&Link| link.known == Known::Stranger && !link.shake.is_finished();
            if self.links.values().filter(shaking).count() >= 2 {
                shake.abort();
            }
        } else {
            self.strangers.add(address, spoke, shake);
        }
        self.links.insert(connection, link);
        connection
    }

    /// Lets the membership process an event, and carries out its actions.
    fn step(&mut self, event: Event) -> Result<(), String> {
        let Some(host) = &mut self.host else { return Ok(()) };
        for action in host.step(event) {
            match action {
                Action::Seat { connection, place } => {
                    let link = self.links.get_mut(&connection).ok_or("a place for no connection")?;
                    if link.known == Known::Ended {
                        return Err(format!("connection {connection} has ended, and gets place {place}"));
                    }
                    let first = self.queue.iter().position(|of| *of == connection);
                    let token = link.token;
                    link.known = Known::Seated(place);
                    // Only workers whose token has a place may be passed by others.
                    for earlier in self.queue.iter().take(first.unwrap_or(0)) {
                        let of = &self.links[earlier];
                        let has_place =
                            |other: &Link| other.token == of.token && matches!(other.known, Known::Seated(_));
                        if of.known == Known::Waiting && !self.links.values().any(has_place) {
                            return Err(format!("connection {connection} passes connection {earlier}"));
                        }
                    }
                    self.queue.retain(|of| *of != connection);
                    let others = self.links.values();
                    let seated: Vec<u32> = others
                        .filter_map(|link| match link.known {
                            Known::Seated(place) => Some((place, link.token)),
                            _ => None,
                        })
                        .filter(|(other, of)| *other == place || *of == token)
                        .map(|(other, _)| other)
                        .collect();
                    if seated.len() != 1 {
                        return Err(format!("place {place} or token {token} is taken twice: {seated:?}"));
                    }
                    if self.barred.contains(&token) {
                        return Err(format!("token {token} is barred, and gets place {place}"));
                    }
                }
                Action::Wait { connection } => {
                    self.links.get_mut(&connection).unwrap().known = Known::Waiting;
                    self.queue.push(connection);
                }
                Action::Refuse { connection } => {
                    self.queue.retain(|of| *of != connection);
                    let link = self.links.get_mut(&connection).unwrap();
                    link.known = Known::Ended;
                    if !self.barred.contains(&link.token) {
                        return Err(format!("token {} is refused", link.token));
                    }
                    if let Some(worker) = link.worker {
                        self.workers[worker].refused = true;
                    }
                }
                Action::Replace { connection } => {
                    self.queue.retain(|of| *of != connection);
                    self.links.get_mut(&connection).unwrap().known = Known::Ended;
                }
            }
        }
        let waiting = |link: &&Link| link.known == Known::Waiting;
        if self.links.values().filter(waiting).count() > self.workers.len() {
            return Err("more connections wait than there are tokens".to_owned());
        }
        Ok(())
    }

    /// Ends a connection at the host.
    fn end(&mut self, connection: Connection) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        if std::mem::replace(&mut link.known, Known::Ended) == Known::Ended {
            return Ok(());
        }
        link.shake.abort();
        self.queue.retain(|of| *of != connection);
        self.step(Event::Ended { connection })
    }

    /// Makes a random fault.
    fn fault(&mut self) -> Result<(), String> {
        let worker = self.random.below(self.workers.len() as u64) as usize;
        match self.random.below(10) {
            // The host is killed, and all of its connections are reset.
            0 if self.host.take().is_some() => {
                self.starts_at = self.now + self.random.below(800);
                for link in self.links.values_mut() {
                    link.known = Known::Ended;
                    link.shake.abort();
                }
                self.queue.clear();
            }
            // A worker is killed. Its connection may be half open.
            1 | 2 => {
                let half_open = self.random.chance(2);
                let of = &mut self.workers[worker];
                of.alive = false;
                of.tries = self.now + 200;
                let link = of.connection.take().and_then(|connection| self.links.get_mut(&connection));
                if let Some(link) = link {
                    link.open = half_open;
                    link.swallows = Some(self.now).filter(|_| half_open);
                }
            }
            // The network swallows everything, possibly in the middle of a message.
            3 | 4 => {
                let inside = self.random.chance(2);
                let link = self.workers[worker].connection.and_then(|of| self.links.get_mut(&of));
                if let Some(link) = link {
                    link.swallows.get_or_insert(self.now);
                    link.inside |= inside;
                }
            }
            // The worker's machine restarts it, while its first connection is still there.
            5 => {
                let of = &mut self.workers[worker];
                if let Some(link) = of.connection.take().and_then(|of| self.links.get_mut(&of)) {
                    link.swallows.get_or_insert(self.now);
                }
                of.tries = self.now;
            }
            6 if self.random.chance(4) && self.barred.len() + 1 < self.workers.len() => {
                let token = self.workers[worker].token;
                self.barred.insert(token);
                self.step(Event::Barred { token })?;
                // The host also ends the connection of a worker whose answers were wrong.
                if let Some(connection) = self.workers[worker].connection {
                    self.end(connection)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Advances all connections and workers by [`TICK`].
    fn tick(&mut self, faults: bool) -> Result<(), String> {
        self.now += TICK;
        if faults && self.random.chance(12) {
            self.fault()?;
        }
        if self.host.is_some() && self.random.chance(8) {
            self.connect(None, u32::MAX);
        }
        if self.host.is_none() && self.now >= self.starts_at {
            let mut host = Membership::new(self.places);
            host.defect = self.defect;
            self.host = Some(host);
            self.strangers = Strangers::default();
            self.starts += 1;
            for token in self.barred.clone() {
                self.step(Event::Barred { token })?;
            }
        }
        for connection in self.links.keys().copied().collect::<Vec<_>>() {
            self.exchange(connection)?;
        }
        self.links.retain(|_, link| link.known != Known::Ended || link.open && link.worker.is_some());
        for at in 0..self.workers.len() {
            let worker = self.workers[at].clone();
            if !worker.alive {
                self.workers[at].alive = self.now >= worker.tries;
                continue;
            }
            if worker.connection.is_none() && self.now >= worker.tries && !worker.refused {
                self.workers[at].tries = self.now + AGAIN;
                if self.host.is_some() {
                    self.workers[at].connection = Some(self.connect(Some(at), worker.token));
                }
            }
        }
        Ok(())
    }

    /// Exchanges the messages of a connection that are due, and checks its times.
    fn exchange(&mut self, connection: Connection) -> Result<(), String> {
        let now = self.now;
        let slow = self.random.below(6);
        let Some(link) = self.links.get_mut(&connection) else { return Ok(()) };
        let swallowed = link.swallows.is_some_and(|from| now >= from);
        // Both ends send signs of life, which arrive late.
        for end in 0..2 {
            if link.open && now >= link.sends[end] {
                link.sends[end] = now + SIGN;
                let sent = if end == 0 { link.known != Known::Ended } else { link.worker.is_some() };
                if sent && !swallowed {
                    link.heard[1 - end] = now + slow;
                }
            }
        }
        // `heard[0]` is the host's end, which hears what the worker sends.
        let ended_by_host =
            link.known == Known::Ended || link.known == Known::Stranger && link.shake.is_finished();
        let silent_worker = now >= silent_at(link.heard[1], link.begun, SILENCE);
        if let Some(worker) = link.worker
            && link.open
            && (ended_by_host && !swallowed || silent_worker)
        {
            link.open = false;
            if self.workers[worker].connection == Some(connection) {
                self.workers[worker].connection = None;
                self.workers[worker].tries = now + AGAIN;
            }
        }
        let link = &self.links[&connection];
        let (known, token, begun) = (link.known, link.token, link.begun);
        let closed = !link.open && !swallowed;
        let inside = link.inside && swallowed && self.defect == Some(Defect::SilenceInMessage);
        let silent = now >= silent_at(link.heard[0], begun, SILENCE) && !inside;
        match known {
            Known::Ended => {}
            Known::Stranger => {
                if link.shake.is_finished() || closed || now >= begun + HANDSHAKE {
                    return self.end(connection);
                }
                if link.worker.is_none() {
                    let patient = self.is(Defect::StrangersStay);
                    return if now >= begun + FIRST_BYTE && !patient { self.end(connection) } else { Ok(()) };
                }
                // The handshake takes some time, and the proof is valid for one identity of the host.
                if now >= begun + 5 + slow && !swallowed {
                    if self.starts > 1 && self.is(Defect::NewIdentity) {
                        return Err(format!("token {token} is not known after a restart of the host"));
                    }
                    link.shake.abort();
                    self.step(Event::Proved { connection, token })?;
                }
            }
            Known::Waiting | Known::Seated(_) if closed || silent => return self.end(connection),
            Known::Waiting | Known::Seated(_) => {}
        }
        Ok(())
    }

    /// Checks that every place has a worker and every worker is connected.
    fn check(&self) -> Result<(), String> {
        let live = self.workers.iter().filter(|worker| !self.barred.contains(&worker.token));
        let known =
            |worker: &Worker| worker.connection.and_then(|of| self.links.get(&of)).map(|link| link.known);
        let lost: Vec<u32> = live
            .clone()
            .filter(|worker| !matches!(known(worker), Some(Known::Waiting | Known::Seated(_))))
            .map(|worker| worker.token)
            .collect();
        if !lost.is_empty() {
            return Err(format!("workers {lost:?} are not connected"));
        }
        let seated = live.clone().filter(|worker| matches!(known(worker), Some(Known::Seated(_)))).count();
        let wanted = live.count().min(self.places as usize);
        if seated != wanted {
            return Err(format!("{seated} of {wanted} places have workers"));
        }
        Ok(())
    }

    fn run(seed: u64, defect: Option<Defect>) -> Result<(), String> {
        let mut world = Self::new(seed, defect);
        while world.now < FAULTS {
            world.tick(true)?;
        }
        while world.now < FAULTS + RECOVERY {
            world.tick(false)?;
        }
        world.check()
    }
}

fn seeds() -> u64 {
    std::env::var("ECITON_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

#[test]
fn every_place_has_a_worker_after_any_faults() {
    for seed in 0..seeds() {
        if let Err(error) = World::run(seed, None) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn planted_defects_are_found() {
    for defect in DEFECTS {
        let found =
            (0..seeds()).find_map(|seed| World::run(seed, Some(defect)).err().map(|error| (seed, error)));
        let (seed, error) = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
        println!("{defect:?}: seed {seed}: {error}");
    }
}
