//! Membership of a run, which determines the worker that has each place.
//!
//! A place is a share of the run's work, such as a lane. A token belongs to a machine and admits a
//! worker to any place. More workers than places may connect. The others wait, and each gets the next
//! place that becomes free.
//!
//! This module is a pure state machine without clocks, threads and sockets. It processes events, and
//! returns actions for the caller. The simulation in [`simulation`] runs it on a network that loses,
//! delays and repeats messages.

#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of a connection, unique within a process of the host.
pub(crate) type Connection = u64;

/// An event that changes the membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The worker at the other end of a new connection has proved its token.
    Proved { connection: Connection, token: u32 },
    /// A connection has ended, or its worker counts as failed.
    Ended { connection: Connection },
    /// No more workers may be admitted with this token.
    Barred { token: u32 },
}

/// An action that the caller must carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The worker gets a place.
    Seat { connection: Connection, place: u32 },
    /// The worker waits until a place becomes free for it.
    Wait { connection: Connection },
    /// The worker is refused, because its token is barred.
    Refuse { connection: Connection },
    /// The worker no longer waits, because another connection with the same token waits.
    Replace { connection: Connection },
}

/// A connected worker.
#[derive(Debug, Clone, Copy)]
struct Member {
    token: u32,
    /// Place of the worker. `None` while it waits.
    place: Option<u32>,
}

/// The connected workers of a run, and their places.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Connection of the worker that has each place.
    places: Vec<Option<Connection>>,
    members: BTreeMap<Connection, Member>,
    /// Connections that wait for a place, in order of arrival.
    waiting: VecDeque<Connection>,
    barred: BTreeSet<u32>,
    #[cfg(test)]
    defect: Option<simulation::Defect>,
}

/// True if a simulation has planted the named defect.
macro_rules! planted {
    ($self:expr, $defect:ident) => {{
        #[cfg(test)]
        let planted = $self.defect == Some(simulation::Defect::$defect);
        #[cfg(not(test))]
        let planted = false;
        planted
    }};
}

impl Membership {
    /// Creates the membership of a run with `places` places, to which no worker is connected.
    pub(crate) fn new(places: u32) -> Self {
        Self {
            places: vec![None; places as usize],
            members: BTreeMap::new(),
            waiting: VecDeque::new(),
            barred: BTreeSet::new(),
            #[cfg(test)]
            defect: None,
        }
    }

    /// Processes an event. Returns the actions that follow from it, in order.
    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Proved { connection, token } => {
                if self.barred.contains(&token) && !planted!(self, BarredAdmitted) {
                    return vec![Action::Refuse { connection }];
                }
                // The worker has connected again, so its earlier connection is of no use to it.
                let same = |members: &BTreeMap<Connection, Member>, of: &Connection| {
                    members.get(of).is_some_and(|member| member.token == token)
                };
                if let Some(at) = self.waiting.iter().position(|of| same(&self.members, of))
                    && let Some(earlier) = self.waiting.remove(at)
                    && !planted!(self, WaitsTwice)
                {
                    self.members.remove(&earlier);
                    actions.push(Action::Replace { connection: earlier });
                }
                self.members.insert(connection, Member { token, place: None });
                self.waiting.push_back(connection);
                self.promote(&mut actions);
                if self.members.get(&connection).is_some_and(|member| member.place.is_none()) {
                    actions.push(Action::Wait { connection });
                }
            }
            Event::Ended { connection } => {
                let Some(member) = self.members.remove(&connection) else { return actions };
                if !planted!(self, EndedPromoted) {
                    self.waiting.retain(|of| *of != connection);
                }
                if let Some(place) = member.place.and_then(|place| self.places.get_mut(place as usize))
                    && !planted!(self, PlaceLeaks)
                {
                    *place = None;
                }
                if planted!(self, LateEndFrees)
                    && let Some(other) = self.members.values_mut().find(|other| other.token == member.token)
                    && let Some(place) = other.place.and_then(|place| self.places.get_mut(place as usize))
                {
                    *place = None;
                }
                if !planted!(self, NoPromotion) {
                    self.promote(&mut actions);
                }
            }
            Event::Barred { token } => {
                self.barred.insert(token);
                let waiting = std::mem::take(&mut self.waiting);
                for connection in waiting {
                    if self.members.get(&connection).is_some_and(|member| member.token == token) {
                        self.members.remove(&connection);
                        actions.push(Action::Refuse { connection });
                    } else {
                        self.waiting.push_back(connection);
                    }
                }
            }
        }
        actions
    }

    /// Returns true if a connected worker has proved `token`.
    pub(crate) fn uses(&self, token: u32) -> bool {
        self.members.values().any(|member| member.token == token)
    }

    /// Gives free places to waiting workers, in order of arrival. A worker prefers the place with
    /// the number of its token. A worker whose token already has a place must wait, because a token
    /// admits only one worker at a time.
    fn promote(&mut self, actions: &mut Vec<Action>) {
        let mut at = 0;
        while let Some(free) = self.places.iter().position(Option::is_none) {
            let last_first = planted!(self, LastFirst);
            let index = if last_first { self.waiting.len().wrapping_sub(1 + at) } else { at };
            let Some(&connection) = self.waiting.get(index) else { return };
            let token = self.members.get(&connection).map_or(0, |member| member.token);
            let seated = |member: &Member| member.token == token && member.place.is_some();
            if self.members.values().any(seated) && !planted!(self, TwoPlaces) {
                at += 1;
                continue;
            }
            let own = self.places.get(token as usize);
            let own = own.is_some_and(|place| place.is_none() || planted!(self, OwnPlaceTaken));
            let place = if own { token as usize } else { free };
            self.waiting.remove(index);
            if let Some(member) = self.members.get_mut(&connection) {
                // The cast is lossless, because the number of places is a u32.
                member.place = Some(place as u32);
            }
            if let Some(slot) = self.places.get_mut(place) {
                *slot = Some(connection);
            }
            actions.push(Action::Seat { connection, place: place as u32 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proved(connection: Connection, token: u32) -> Event {
        Event::Proved { connection, token }
    }

    #[test]
    fn a_worker_has_the_place_of_its_token_or_another_or_waits() {
        let mut of = Membership::new(2);
        let seat = |connection, place| Action::Seat { connection, place };
        assert_eq!(of.step(proved(1, 1)), [seat(1, 1)]);
        assert_eq!(of.step(proved(2, 7)), [seat(2, 0)]);
        assert_eq!(of.step(proved(3, 0)), [Action::Wait { connection: 3 }]);
        assert_eq!(of.step(proved(4, 8)), [Action::Wait { connection: 4 }]);
        assert_eq!(of.step(Event::Ended { connection: 1 }), [seat(3, 1)]);
        assert_eq!(of.step(Event::Ended { connection: 1 }), [], "a connection ends once");
        assert_eq!(of.step(Event::Ended { connection: 4 }), []);
        assert_eq!(of.step(Event::Ended { connection: 2 }), []);
        assert_eq!(of.step(proved(5, 4)), [seat(5, 0)]);
    }

    #[test]
    fn a_token_has_one_place_and_one_connection_that_waits() {
        let mut of = Membership::new(2);
        assert_eq!(of.step(proved(1, 0)), [Action::Seat { connection: 1, place: 0 }]);
        assert_eq!(of.step(proved(2, 0)), [Action::Wait { connection: 2 }]);
        assert_eq!(
            of.step(proved(3, 0)),
            [Action::Replace { connection: 2 }, Action::Wait { connection: 3 }]
        );
        assert_eq!(of.step(proved(4, 5)), [Action::Seat { connection: 4, place: 1 }], "others pass it");
        assert_eq!(of.step(Event::Ended { connection: 1 }), [Action::Seat { connection: 3, place: 0 }]);
    }

    #[test]
    fn a_barred_token_is_refused() {
        let mut of = Membership::new(1);
        of.step(proved(1, 0));
        of.step(proved(2, 1));
        assert_eq!(of.step(Event::Barred { token: 1 }), [Action::Refuse { connection: 2 }]);
        assert_eq!(of.step(proved(3, 1)), [Action::Refuse { connection: 3 }]);
        assert_eq!(of.step(Event::Ended { connection: 1 }), []);
    }
}
