//! Places and tasks, as the pool's owner and its connections share them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{Error as ConnectError, Message, Token};
use eciton_kernel::Error;
use eciton_kernel::wire::Answer;
use eciton_plan::TaskKey;
use eciton_tensor::frame::{Frame, Header, Kind};

use super::link::{Flight, Link};
use super::objects::Objects;
use super::pool::Settings;
use super::{CREDIT, KEPT, PASSED, Traffic};
use crate::local::Inbox;
use crate::ticket::Ticket;
use crate::{Answered, Completion, Order};

/// The reason of a worker that is through with its tasks.
pub(super) const GOES: &str = "it was asked to go";
/// Numeric classes that are remembered; there are four.
const CLASSES: usize = 16;

/// Tables of places and tasks.
pub(super) struct State {
    pub(super) links: Vec<Option<Link>>,
    pub(super) objects: Objects,
    pub(super) traffic: Vec<Traffic>,
    pub(super) classes: BTreeSet<String>,
    /// Connections so far.
    pub(super) connections: u64,
    /// Tasks so far.
    pub(super) numbers: u64,
    /// Errands under way, by number.
    pub(super) pending: BTreeMap<u64, Pending>,
    /// Tasks that send messages.
    pub(super) writers: Vec<tokio::task::JoinHandle<()>>,
    /// Nothing is handed out any more.
    pub(super) closed: bool,
    /// Nobody is there: the local pool waits for them.
    pub(super) deserted: bool,
}

/// An errand under way.
pub(super) struct Pending {
    pub(super) place: u32,
    /// The connection that it went over.
    pub(super) id: u64,
    pub(super) begun: Instant,
    pub(super) answer: Option<Bytes>,
}

impl State {
    pub(super) fn link(&mut self, place: u32, id: u64) -> Option<&mut Link> {
        self.links.get_mut(place as usize)?.as_mut().filter(|link| link.id == id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(Option::is_none)
    }
}

pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) inbox: Inbox,
    pub(super) state: Mutex<State>,
    /// Told whenever somebody comes or goes.
    pub(super) changed: Condvar,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) kernels: Vec<String>,
}

/// Bytes of the matrices of a frame.
pub(super) fn values(frame: &[u8]) -> u64 {
    let Ok(header) = Header::parse(frame) else { return 0 };
    header.parts.iter().filter(|part| part.kind != Kind::Ids).map(|part| part.bytes_len).sum()
}

/// Bytes of the matrices of a frame, whose parts must be as they were written.
fn whole(frame: &[u8]) -> eciton_tensor::Result<u64> {
    let read = Frame::parse(frame)?;
    for (at, part) in (0..).zip(&read.header().parts) {
        part.verify(read.bytes(at)?)?;
    }
    Ok(values(frame))
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Tables are whole whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses places that keep less than their lanes need.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        for (place, (&(weights, rows), link)) in self.settings.needs.iter().zip(&state.links).enumerate() {
            let keeps = link.as_ref().map_or(u64::MAX, |link| link.keeps_bytes);
            if weights.saturating_add(rows) > keeps {
                return Err(format!(
                    "the worker at place {place} keeps {keeps} bytes, and its lane needs {} ({weights} of weights, {rows} \
                     of rows); have more lanes (--lanes), more parts (--micro), or workers that keep more (--keep, \
                     workers.keep_bytes)",
                    weights.saturating_add(rows)
                ));
            }
        }
        Ok(())
    }

    /// Gives a place a task. One whose worker has gone meanwhile is forgotten if it is a lane's: its loss is
    /// told.
    pub(super) fn hand(self: &Arc<Self>, place: u32, order: &Order) {
        let key = order.task.key();
        let of_lane = order.lane.is_some();
        self.inbox.begin();
        let ticket = Ticket::new(&self.inbox);
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let State { links, objects, numbers, traffic, .. } = &mut *state;
        let link = links.get(place as usize).and_then(Option::as_ref);
        let stranger = |link: &Link| of_lane && self.settings.peers && !link.begun;
        if link.is_none_or(|link| link.draining || stranger(link)) {
            drop(state);
            if !of_lane {
                let reason = format!("the worker at place {place} has gone");
                ticket.end(
                    order.pass,
                    key,
                    Instant::now(),
                    Err(Error::Host { place: key.to_string(), reason }),
                );
            }
            return;
        };
        // Before what comes in their place.
        let mut gone = objects.forget_before(order.work.generation);
        gone.extend(objects.forget_rounds(key.round.0));
        links.iter_mut().flatten().for_each(|link| link.forget(&gone));
        let Some(link) = links.get_mut(place as usize).and_then(Option::as_mut) else { return };
        let written = match objects.write(&self.settings.run, &self.settings.framing, order) {
            Ok(written) => written,
            Err(error) => {
                drop(state);
                return ticket.fail(order, error);
            }
        };
        let sent = link.give(&written.keys, objects);
        if let Some(traffic) = traffic.get_mut(place as usize) {
            traffic.object_bytes += sent;
            traffic.values_out += link.take_values() + values(&written.frame);
        }
        *numbers += 1;
        let flight = Flight::new((order.pass, key), ticket, of_lane, written);
        let number = *numbers;
        link.begin(number, flight);
        drop(state);
        if let Some(deadline) = order.deadline.filter(|_| !of_lane) {
            self.watch((order.pass, key), deadline, (place, number));
        }
    }

    /// Tells of a task that is not answered in time.
    pub(super) fn watch(self: &Arc<Self>, (pass, key): (u32, TaskKey), deadline: Duration, at: (u32, u64)) {
        let (shared, (place, number)) = (self.clone(), at);
        self.runtime.spawn(async move {
            tokio::time::sleep(deadline).await;
            let state = shared.lock();
            let link = state.links.get(place as usize).and_then(Option::as_ref);
            let under_way = link.is_some_and(|link| link.flights.contains_key(&number));
            drop(state);
            if under_way {
                shared.inbox.note(Completion::Overdue { pass, key });
            }
        });
    }

    /// The place that is free for a task without a lane.
    pub(super) fn free(&self) -> Option<u32> {
        let state = self.lock();
        let free = (0u32..).zip(&state.links).filter_map(|(place, link)| {
            let link = link.as_ref().filter(|link| !link.draining && link.flights.len() < CREDIT as usize)?;
            Some((link.flights.len(), place))
        });
        free.min().map(|(_, place)| place).filter(|_| !state.closed)
    }

    /// Hands out what waits for anybody.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while let Some(place) = self.free() {
            let Some(order) = self.inbox.take_offer() else { return };
            self.hand(place, &order);
            // Counted once more as it was handed out.
            self.inbox.forget();
        }
    }

    /// Whether a worker has owed an answer for longer than it may.
    pub(super) fn owes(&self, place: u32, id: u64) -> bool {
        let mut state = self.lock();
        let own = |pending: &&Pending| (pending.place, pending.id) == (place, id) && pending.answer.is_none();
        let errand = state.pending.values().filter(own).map(|pending| pending.begun).min();
        let task = state.link(place, id).and_then(|link| link.flights.values().map(|task| task.begun).min());
        errand.into_iter().chain(task).any(|begun| begun.elapsed() > self.settings.answer)
    }

    pub(super) fn answered(
        self: &Arc<Self>,
        place: u32,
        id: u64,
        (number, frame, passed): (u64, Bytes, u64),
    ) -> Result<(), ConnectError> {
        let wrong = |reason| ConnectError::Message { what: "an answer".to_owned(), reason };
        // Whoever answers what cannot be read is lost, and its task done elsewhere.
        let found = whole(&frame).map_err(|error| wrong(error.to_string()))?;
        let mut state = self.lock();
        let known = number <= state.numbers;
        let pending =
            state.pending.get_mut(&number).filter(|pending| (pending.place, pending.id) == (place, id));
        if let Some(pending) = pending {
            pending.answer = Some(frame);
            if let Some(traffic) = state.traffic.get_mut(place as usize) {
                traffic.values_passed = traffic.values_passed.saturating_add(passed);
            }
            drop(state);
            self.changed.notify_all();
            return Ok(());
        }
        let Some(link) = state.link(place, id) else { return Ok(()) };
        let Some(flight) = link.flights.get(&number) else {
            // A task that was cancelled, or one that there never was.
            return known
                .then_some(())
                .ok_or_else(|| wrong(format!("of task {number}, which there never was")));
        };
        let key = flight.key;
        let answer = Answer::parse(frame.into()).map_err(|error| wrong(error.to_string()))?;
        let meta = answer.meta();
        if meta.key != key {
            return Err(wrong(format!("to {} in place of {key}", meta.key)));
        }
        let Some(Flight { pass, begun, ticket, frees, .. }) = link.flights.remove(&number) else {
            return Ok(());
        };
        let through = link.is_through();
        if state.classes.len() < CLASSES {
            state.classes.insert(meta.numeric_class.clone());
        }
        let result = match meta.error() {
            Some(error) => Err(error),
            None => Ok(Answered::Apart(Box::new(answer))),
        };
        state.objects.free(&frees);
        state.links.iter_mut().flatten().for_each(|link| link.forget(&frees));
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.tasks += 1;
            traffic.values_in += found;
            traffic.values_passed = traffic.values_passed.saturating_add(passed);
        }
        drop(state);
        ticket.end(pass, key, begun, result);
        if through {
            self.lost((place, id), GOES);
        }
        self.dispatch();
        Ok(())
    }

    /// A worker has not got what a task names.
    pub(super) fn missing(self: &Arc<Self>, place: u32, id: u64, (number, keys): (u64, &[String])) {
        let late = keys.iter().any(|key| key.starts_with(PASSED));
        let rows = late || keys.iter().any(|key| key.starts_with(KEPT));
        let mut state = self.lock();
        let State { links, objects, traffic, .. } = &mut *state;
        let link = links.get_mut(place as usize).and_then(Option::as_mut).filter(|link| link.id == id);
        let Some(link) = link else { return };
        if rows {
            // What is computed again, the engine says: for it the place is another one now.
            let gone: Vec<u64> = link.flights.iter().filter(|(_, f)| f.of_lane).map(|(at, _)| *at).collect();
            let dropped: Vec<_> = gone.iter().filter_map(|at| link.flights.remove(at)).collect();
            if link.is_through() {
                drop(state);
                self.lost((place, id), GOES);
                return drop(dropped);
            }
            let reason = match late {
                true => format!("rows of another worker did not come to the worker at place {place}"),
                false => {
                    format!("the worker at place {place} had no room for rows, which are computed again")
                }
            };
            self.inbox.note(Completion::Lost { place, reason });
            self.inbox.note(Completion::Joined { place });
            drop(state);
            return drop(dropped);
        }
        if let Some(sent) = link.again(number, objects) {
            if let Some(traffic) = traffic.get_mut(place as usize) {
                traffic.object_bytes += sent;
            }
            return;
        }
        let flight = link.flights.remove(&number);
        let through = link.is_through();
        drop(state);
        if let Some(Flight { pass, key, begun, ticket, .. }) = flight {
            let reason = format!("the worker at place {place} keeps losing {}", keys.join(", "));
            ticket.end(pass, key, begun, Err(Error::Host { place: key.to_string(), reason }));
        }
        if through {
            self.lost((place, id), GOES);
        }
    }

    /// A worker has gone, or is to go. Its loss is told before its tasks are forgotten: something is under way
    /// all the time.
    pub(super) fn lost(self: &Arc<Self>, (place, id): (u32, u64), reason: &str) {
        let mut state = self.lock();
        let Some(slot) = state.links.get_mut(place as usize) else { return };
        let Some(link) = slot.take_if(|link| link.id == id) else { return };
        let closed = state.closed;
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.lost += u32::from(!closed);
        }
        if !closed {
            let reason = format!("the worker at place {place} is gone: {reason}");
            self.inbox.note(Completion::Lost { place, reason });
        }
        let deserted = state.is_empty() && !closed && !state.deserted && self.settings.lanes;
        if deserted {
            state.deserted = true;
            // Under way until somebody comes.
            self.inbox.begin();
        }
        let connections = state.connections;
        drop(state);
        if deserted {
            self.wait_for_others(connections);
        }
        link.say(Message::Bye(reason.to_owned()));
        for flight in link.flights.into_values().filter(|flight| !flight.of_lane) {
            let Flight { pass, key, begun, ticket, .. } = flight;
            let reason = format!("the worker at place {place} has gone: {reason}");
            ticket.end(pass, key, begun, Err(Error::Host { place: key.to_string(), reason }));
        }
        self.changed.notify_all();
    }

    /// A worker listens for others: each of them is told, and it of those that do.
    pub(super) fn door(&self, place: u32, id: u64, door: (String, Vec<Token>)) -> Result<(), String> {
        let mut state = self.lock();
        if !self.settings.peers || door.1.len() != state.links.len() {
            return Err(format!("it has {} tokens for {} places", door.1.len(), state.links.len()));
        }
        let peer = |place: u32, (address, tokens): &(String, Vec<Token>), to: u32| {
            let token = tokens.get(to as usize)?.clone();
            Some(Message::Peer { place, address: address.clone(), token })
        };
        let others = || (0u32..).zip(&state.links).filter(|(other, _)| *other != place);
        for (other, link) in others() {
            let Some(link) = link else { continue };
            peer(place, &door, other).into_iter().for_each(|peer| link.say(peer));
        }
        let doors = others().filter_map(|(other, link)| Some((other, link.as_ref()?.door.as_ref()?)));
        let known: Vec<Message> = doors.filter_map(|(other, door)| peer(other, door, place)).collect();
        if let Some(link) = state.link(place, id) {
            known.into_iter().for_each(|peer| link.say(peer));
            link.door = Some(door);
        }
        let deserted = std::mem::take(&mut state.deserted);
        drop(state);
        self.inbox.note(Completion::Joined { place });
        if deserted {
            self.inbox.forget();
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Forgets what lanes' places are at.
    pub(super) fn abandon(self: &Arc<Self>) {
        let mut state = self.lock();
        let (mut gone, mut through) = (Vec::new(), Vec::new());
        let rows = state.objects.forget_rows();
        for (place, link) in (0u32..).zip(&mut state.links) {
            let Some(link) = link else { continue };
            link.forget(&rows);
            let of_lanes: Vec<u64> =
                link.flights.iter().filter(|(_, flight)| flight.of_lane).map(|(at, _)| *at).collect();
            gone.extend(of_lanes.iter().filter_map(|at| link.flights.remove(at)));
            link.say(Message::Abandon);
            through.extend(Some((place, link.id)).filter(|_| link.is_through()));
        }
        drop(state);
        through.into_iter().for_each(|of| self.lost(of, GOES));
        // Tickets that are dropped take themselves back.
        drop(gone);
    }

    pub(super) fn wait_for_others(self: &Arc<Self>, connections: u64) {
        let (shared, patience) = (self.clone(), self.settings.patience);
        let reason = format!("all workers have gone, and none has come for {} s", patience.as_secs());
        self.runtime.spawn(async move {
            tokio::time::sleep(patience).await;
            let state = shared.lock();
            // Nobody has come, not even one who has gone again.
            if state.deserted && state.connections == connections {
                shared.inbox.note(Completion::Deserted { reason });
            }
        });
    }

    pub(super) fn count(&self, place: u32, (bytes_in, bytes_out): (u64, u64)) {
        if let Some(traffic) = self.lock().traffic.get_mut(place as usize) {
            traffic.bytes_in += bytes_in;
            traffic.bytes_out += bytes_out;
        }
    }
}
