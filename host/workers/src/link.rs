//! One worker that is there: what it has, what it is at.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use eciton_connect::{Message, Token};
use eciton_exec::PendingJob;
use eciton_kernel::wire::{Answer, Expected};
use eciton_types::{Round, TaskKey, TensorKey};
use tokio::sync::mpsc;

use super::frames::values;
use super::objects::{Objects, Written};

/// Maximum number of times that a worker may lack objects of one task.
const RESENDS: u32 = 2;
/// Maximum number of times in one round that a worker may lack rows, which are then computed again.
const ROW_MISSES: u32 = 256;

/// A task that a worker has.
pub(super) struct Flight {
    pub(super) pass: u32,
    pub(super) key: TaskKey,
    pub(super) begun: Instant,
    pub(super) pending: PendingJob,
    /// A lane's task is not reported where the worker vanishes.
    pub(super) of_lane: bool,
    /// The task's frame, to send it once more.
    frame: Bytes,
    keys: Vec<TensorKey>,
    /// Objects that no later task reads.
    pub(super) frees: Vec<TensorKey>,
    /// Parts that the answer must have. `None` for an instruction.
    expected: Option<Expected>,
    resent: u32,
}

impl Flight {
    pub(super) fn new(
        (pass, key): (u32, TaskKey),
        pending: PendingJob,
        of_lane: bool,
        written: Written,
    ) -> Self {
        let Written { frame, keys, frees, expected } = written;
        let (begun, expected) = (Instant::now(), Some(expected));
        Self { pass, key, begun, pending, of_lane, frame, keys, frees, expected, resent: 0 }
    }

    /// An instruction, which names no objects.
    pub(super) fn instruction((pass, key): (u32, TaskKey), pending: PendingJob, frame: Bytes) -> Self {
        let (begun, keys, frees) = (Instant::now(), Vec::new(), Vec::new());
        Self { pass, key, begun, pending, of_lane: true, frame, keys, frees, expected: None, resent: 0 }
    }

    /// The message that asks for it.
    fn message(&self, number: u64) -> Message {
        let frame = self.frame.clone();
        match self.expected {
            Some(_) => Message::Task { number, frame },
            None => Message::Instruction { number, frame },
        }
    }

    /// Reads an answer, and checks that it is one to this task. `None` for an instruction, whose
    /// answer is checked by the one who gave it.
    pub(super) fn check(&self, frame: &Bytes) -> Result<Option<Answer>, String> {
        let Some(expected) = &self.expected else { return Ok(None) };
        let answer = Answer::parse(frame.clone().into()).map_err(|error| error.to_string())?;
        let meta = answer.meta();
        if meta.key != self.key {
            return Err(format!("it is to {}, not to {}", meta.key, self.key));
        }
        if meta.error().is_none() {
            answer.check(expected).map_err(|error| error.to_string())?;
        }
        Ok(Some(answer))
    }
}

/// A connection to a worker.
pub(super) struct Link {
    /// The number of the connection in the run.
    pub(super) id: u64,
    /// Bytes that it keeps.
    pub(super) keeps_bytes: u64,
    /// The worker's address, as this end of the connection sees it.
    pub(super) address: IpAddr,
    out: mpsc::UnboundedSender<Message>,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Objects that it has, with their bytes.
    known: BTreeMap<TensorKey, u64>,
    /// Bytes of values of objects that were sent and are not counted.
    values: u64,
    /// It wants no further tasks.
    pub(super) draining: bool,
    /// The address at which it listens for others, with a token for each.
    pub(super) door: Option<(String, Vec<Token>)>,
    /// The host has sent what the worker owns. Before, the worker gets no tasks of lanes.
    pub(super) begun: bool,
    /// A round, and how often the worker lacked rows in it.
    misses: (Round, u32),
}

impl Link {
    pub(super) fn new(
        (id, keeps_bytes): (u64, u64),
        address: IpAddr,
        out: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self {
            id,
            keeps_bytes,
            address,
            out,
            flights: BTreeMap::new(),
            known: BTreeMap::new(),
            values: 0,
            draining: false,
            door: None,
            begun: false,
            misses: (Round(0), 0),
        }
    }

    /// Counts rows that the worker lacks, in a round. Returns whether it may still lack them.
    pub(super) fn may_miss(&mut self, round: Round) -> bool {
        if self.misses.0 != round {
            self.misses = (round, 0);
        }
        self.misses.1 += 1;
        self.misses.1 <= ROW_MISSES
    }

    /// Returns whether it wants no further tasks and has none.
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

    /// Sends objects that it does not have. Returns their bytes.
    pub(super) fn give(&mut self, keys: &[TensorKey], objects: &Objects) -> u64 {
        let mut sent = 0;
        for key in keys {
            if self.known.contains_key(key) {
                continue;
            }
            let Some(bytes) = objects.get(key) else { continue };
            sent += bytes.len() as u64;
            self.values += values(&bytes);
            self.known.insert(*key, bytes.len() as u64);
            self.say(Message::Object { key: *key, bytes });
        }
        sent
    }

    /// It need not keep these any longer.
    pub(super) fn forget(&mut self, keys: &[TensorKey]) {
        let own: Vec<TensorKey> =
            keys.iter().copied().filter(|key| self.known.remove(key).is_some()).collect();
        if !own.is_empty() {
            self.say(Message::Forget(own));
        }
    }

    /// Gives it a task, whose objects it has.
    pub(super) fn begin(&mut self, number: u64, flight: Flight) {
        self.say(flight.message(number));
        self.flights.insert(number, flight);
    }

    /// Sends objects that a task lacks, and the task, once more. Returns the bytes of the objects.
    ///
    /// # Errors
    /// The reason why the worker cannot lack these objects: the host does not have them for the
    /// task, or they were sent several times.
    pub(super) fn again(
        &mut self,
        number: u64,
        lacks: &[TensorKey],
        objects: &Objects,
    ) -> Result<u64, String> {
        let Some(flight) = self.flights.get_mut(&number) else { return Ok(0) };
        if let Some(foreign) = lacks.iter().find(|key| !flight.keys.contains(key)) {
            return Err(format!("it lacks {foreign}, which the host does not send for its task"));
        }
        flight.resent += 1;
        if flight.resent > RESENDS || lacks.is_empty() {
            let first = lacks.first().map_or_else(|| "nothing".to_owned(), TensorKey::to_string);
            return Err(format!("it still lacks {first}, sent {} times", 1 + RESENDS));
        }
        let (keys, message) = (flight.keys.clone(), flight.message(number));
        for key in &keys {
            self.known.remove(key);
        }
        let sent = self.give(&keys, objects);
        self.say(message);
        Ok(sent)
    }
}
