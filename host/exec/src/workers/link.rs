//! One worker that is there: what it has, what it is at.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use eciton_connect::{Message, Token};
use eciton_plan::TaskKey;
use tokio::sync::mpsc;

use super::KERNELS;
use super::objects::{Objects, Written};
use super::shared::values;
use crate::ticket::Ticket;

/// Times that a worker may say of one task that something is missing.
const RESENDS: u32 = 2;

/// A task that a worker has.
pub(super) struct Flight {
    pub(super) pass: u32,
    pub(super) key: TaskKey,
    pub(super) begun: Instant,
    pub(super) ticket: Ticket,
    /// A lane's task is not reported where the worker vanishes.
    pub(super) of_lane: bool,
    /// The task's frame, to send it once more.
    frame: Bytes,
    keys: Vec<String>,
    /// Objects that no task names after it.
    pub(super) frees: Vec<String>,
    resent: u32,
}

impl Flight {
    pub(super) fn new((pass, key): (u32, TaskKey), ticket: Ticket, of_lane: bool, written: Written) -> Self {
        let Written { frame, keys, frees } = written;
        Self { pass, key, begun: Instant::now(), ticket, of_lane, frame, keys, frees, resent: 0 }
    }
}

/// A connection to a worker.
pub(super) struct Link {
    /// The number of the connection in the run.
    pub(super) id: u64,
    /// Bytes that it keeps.
    pub(super) keeps_bytes: u64,
    out: mpsc::UnboundedSender<Message>,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Objects that it has, with their bytes.
    known: BTreeMap<String, u64>,
    /// Bytes of values of objects that were sent and are not counted.
    values: u64,
    /// It wants no further tasks.
    pub(super) draining: bool,
    /// The address at which it listens for others, with a token for each.
    pub(super) door: Option<(String, Vec<Token>)>,
    /// It was told what it is to own. Before, lanes' tasks are none of its.
    pub(super) begun: bool,
}

impl Link {
    pub(super) fn new((id, keeps_bytes): (u64, u64), out: mpsc::UnboundedSender<Message>) -> Self {
        Self {
            id,
            keeps_bytes,
            out,
            flights: BTreeMap::new(),
            known: BTreeMap::new(),
            values: 0,
            draining: false,
            door: None,
            begun: false,
        }
    }

    /// Whether it wants no further tasks and has none.
    pub(super) fn is_through(&self) -> bool {
        self.draining && self.flights.is_empty()
    }

    /// Hands a message to whoever sends them; a connection that is gone says so itself.
    pub(super) fn say(&self, message: Message) {
        drop(self.out.send(message));
    }

    /// Bytes of values of objects that were sent since the last time.
    pub(super) fn take_values(&mut self) -> u64 {
        std::mem::take(&mut self.values)
    }

    /// Sends objects that it has not got; says of how many bytes.
    pub(super) fn give<'k>(&mut self, keys: impl IntoIterator<Item = &'k String>, objects: &Objects) -> u64 {
        let mut sent = 0;
        for key in keys {
            if self.known.contains_key(key) {
                continue;
            }
            let Some(bytes) = objects.get(key) else { continue };
            sent += bytes.len() as u64;
            if !key.starts_with(KERNELS) {
                self.values += values(&bytes);
            }
            self.known.insert(key.clone(), bytes.len() as u64);
            self.say(Message::Object { key: key.clone(), bytes });
        }
        sent
    }

    /// It need not keep these any longer.
    pub(super) fn forget(&mut self, keys: &[String]) {
        let own: Vec<String> = keys.iter().filter(|key| self.known.remove(*key).is_some()).cloned().collect();
        if !own.is_empty() {
            self.say(Message::Forget(own));
        }
    }

    /// Gives it a task, whose objects it has.
    pub(super) fn begin(&mut self, number: u64, flight: Flight) {
        self.say(Message::Task { number, frame: flight.frame.clone() });
        self.flights.insert(number, flight);
    }

    /// It has not got some of a task's objects: sends them and the task once more. Says of how many bytes, or
    /// `None` where that was done too often or is of no use.
    pub(super) fn again(&mut self, number: u64, objects: &Objects) -> Option<u64> {
        let flight = self.flights.get_mut(&number)?;
        flight.resent += 1;
        if flight.resent > RESENDS {
            return None;
        }
        let (keys, frame) = (flight.keys.clone(), flight.frame.clone());
        for key in &keys {
            self.known.remove(key);
        }
        let sent = self.give(&keys, objects);
        self.say(Message::Task { number, frame });
        Some(sent)
    }
}
