//! Links, which are connections to workers, with the tasks and objects of each worker.

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
/// Maximum number of times in one round that a worker may lack rows. The rows are then computed
/// again.
const ROW_MISSES: u32 = 256;

/// A task or an instruction that was sent to a worker and has no answer yet.
pub(super) struct Flight {
    pub(super) pass: u32,
    pub(super) key: TaskKey,
    pub(super) begun: Instant,
    pub(super) pending: PendingJob,
    /// True for a task of a lane, a worker's share of the pipeline. If the worker fails, the end of
    /// such a task is not reported.
    pub(super) of_lane: bool,
    /// Frame of the task, for a second transmission.
    frame: Bytes,
    keys: Vec<TensorKey>,
    /// Objects that no later task reads.
    pub(super) frees: Vec<TensorKey>,
    /// Matrices and sums that the answer must have. `None` for an instruction.
    expected: Option<Expected>,
    resent: u32,
}

impl Flight {
    /// Creates the record of a task that is sent now.
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

    /// Creates the record of an instruction, whose frame names no objects.
    pub(super) fn instruction((pass, key): (u32, TaskKey), pending: PendingJob, frame: Bytes) -> Self {
        let (begun, keys, frees) = (Instant::now(), Vec::new(), Vec::new());
        Self { pass, key, begun, pending, of_lane: true, frame, keys, frees, expected: None, resent: 0 }
    }

    /// Returns the message that sends the task or the instruction.
    fn message(&self, number: u64) -> Message {
        let frame = self.frame.clone();
        match self.expected {
            Some(_) => Message::Task { number, frame },
            None => Message::Instruction { number, frame },
        }
    }

    /// Parses an answer, and checks that it belongs to this task. Returns `None` for an
    /// instruction, because the sender of an instruction checks the answer itself.
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

/// A connection to a worker, with the worker's tasks and cached objects.
pub(super) struct Link {
    /// Number of the connection within the run.
    pub(super) id: u64,
    /// Maximum number of bytes that the worker caches.
    pub(super) keeps_bytes: u64,
    /// Address of the worker, as this end of the connection sees it.
    pub(super) address: IpAddr,
    out: mpsc::UnboundedSender<Message>,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Objects that the worker caches, with their sizes in bytes.
    known: BTreeMap<TensorKey, u64>,
    /// Bytes of matrix values in objects that were sent and have not been counted yet.
    values: u64,
    /// True if the worker has asked for no further tasks.
    pub(super) draining: bool,
    /// Address at which the worker listens for other workers, with a token for each of them.
    pub(super) door: Option<(String, Vec<Token>)>,
    /// True if the host has sent the parameters that the worker owns. Before that, the worker gets
    /// no tasks of lanes.
    pub(super) begun: bool,
    /// A round, and the number of times that the worker lacked rows in it.
    misses: (Round, u32),
}

impl Link {
    /// Creates the link of a new connection, without tasks and objects.
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

    /// Counts that the worker lacks rows in a round. Returns whether this is still within the
    /// limit.
    pub(super) fn may_miss(&mut self, round: Round) -> bool {
        if self.misses.0 != round {
            self.misses = (round, 0);
        }
        self.misses.1 += 1;
        self.misses.1 <= ROW_MISSES
    }

    /// Returns whether the worker has asked for no further tasks and has answered all of its tasks.
    pub(super) fn is_through(&self) -> bool {
        self.draining && self.flights.is_empty()
    }

    /// Queues a message for the worker. If the connection has ended, the message is dropped,
    /// because another task reports that end.
    pub(super) fn say(&self, message: Message) {
        drop(self.out.send(message));
    }

    /// Returns the bytes of matrix values in the objects that were sent since the last call.
    pub(super) fn take_values(&mut self) -> u64 {
        std::mem::take(&mut self.values)
    }

    /// Sends the objects that the worker does not have. Returns their sizes in total, in bytes.
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

    /// Tells the worker to drop these objects. Objects that the worker does not have are ignored.
    pub(super) fn forget(&mut self, keys: &[TensorKey]) {
        let own: Vec<TensorKey> =
            keys.iter().copied().filter(|key| self.known.remove(key).is_some()).collect();
        if !own.is_empty() {
            self.say(Message::Forget(own));
        }
    }

    /// Sends a task to the worker, which must have its objects. The task is in flight from now on.
    pub(super) fn begin(&mut self, number: u64, flight: Flight) {
        self.say(flight.message(number));
        self.flights.insert(number, flight);
    }

    /// Sends the objects of a task again, and then the task. Returns the bytes of the objects.
    ///
    /// # Errors
    /// Returns a text if the worker's claim is wrong. Either the host does not send these objects
    /// for the task, or they were sent several times already.
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
