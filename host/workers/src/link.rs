//! Links: connections of the host to workers, with the tasks and objects of each worker.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use eciton_connect::{Hello, Message, Token};
use eciton_exec::PendingJob;
use eciton_kernel::wire::{Answer, Expected};
use eciton_types::{Round, TaskKey, TensorKey};
use tokio::sync::mpsc;

use super::frames::values;
use super::objects::{Objects, Written};

/// Maximum number of times that the host sends the objects of one task again.
const RESENDS: u32 = 2;
/// Maximum number of times in one round that a worker may lack rows. The rows are then computed
/// again.
pub(super) const ROW_MISSES: u32 = 256;

/// A task or an instruction that was sent to a worker and that the worker has not answered.
pub(super) struct Flight {
    pub(super) pass: u32,
    pub(super) key: TaskKey,
    pub(super) begun: Instant,
    pub(super) pending: PendingJob,
    /// True for a task of a lane (a worker's share of the pipeline). If the worker fails, the pool
    /// does not report the end of such a task.
    pub(super) of_lane: bool,
    /// Frame of the task, which is sent again if the worker lacks objects.
    frame: Bytes,
    keys: Vec<TensorKey>,
    /// Keys of the objects that no later task reads.
    pub(super) frees: Vec<TensorKey>,
    /// Shapes of the matrices and sums that the answer must contain, or `None` for an instruction.
    expected: Option<Expected>,
    resent: u32,
}

impl Flight {
    /// Creates the record of a task whose frame is `written` and that is sent now.
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

    /// Creates the record of an instruction, whose frame refers to no objects.
    pub(super) fn instruction((pass, key): (u32, TaskKey), pending: PendingJob, frame: Bytes) -> Self {
        let (begun, keys, frees) = (Instant::now(), Vec::new(), Vec::new());
        Self { pass, key, begun, pending, of_lane: true, frame, keys, frees, expected: None, resent: 0 }
    }

    /// Returns the message with this number that sends the task or the instruction to the worker.
    fn message(&self, number: u64) -> Message {
        let frame = self.frame.clone();
        match self.expected {
            Some(_) => Message::Task { number, frame },
            None => Message::Instruction { number, frame },
        }
    }

    /// Parses the frame of an answer, and checks that it belongs to this task and has the expected
    /// shapes. Returns `None` for an instruction, whose answer the sender checks itself.
    pub(super) fn check(&self, frame: &Bytes) -> Result<Option<Answer>, String> {
        let Some(expected) = &self.expected else { return Ok(None) };
        let answer = Answer::parse(frame.clone().into()).map_err(|error| error.to_string())?;
        let meta = answer.meta();
        if meta.key != self.key {
            return Err(format!("it answers {}, but the task is {}", meta.key, self.key));
        }
        if meta.error().is_none() {
            answer.check(expected).map_err(|error| error.to_string())?;
        }
        Ok(Some(answer))
    }
}

/// A connection to a worker, with the tasks in flight and the objects that the worker caches.
pub(super) struct Link {
    /// Number of the connection, unique within the run.
    pub(super) id: u64,
    /// Number of the worker's token.
    pub(super) token: u32,
    /// Maximum size of the tensors that the worker caches, in bytes.
    pub(super) keeps_bytes: u64,
    /// Memory that the worker process may use in total, in bytes. `None` if it is unknown.
    pub(super) memory_bytes: Option<u64>,
    /// IP address of the worker, as this end of the connection sees it.
    pub(super) address: IpAddr,
    out: mpsc::UnboundedSender<Message>,
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Sizes of the objects that the worker caches, in bytes, by key.
    known: BTreeMap<TensorKey, u64>,
    /// Bytes of matrix values in objects that were sent since [`Link::take_values`] was last
    /// called.
    values: u64,
    /// True if the worker has asked the host to send no more tasks.
    pub(super) draining: bool,
    /// Address at which the worker listens for other workers, with one token for each of them.
    /// `None` until the worker has reported it.
    pub(super) door: Option<(String, Vec<Token>)>,
    /// True if the host has sent the parameters that the worker owns. Before that, the worker gets
    /// no tasks of lanes (shares of the pipeline).
    pub(super) begun: bool,
    /// The latest round in which the worker reported missing rows, and the number of these reports.
    misses: (Round, u32),
}

impl Link {
    /// Creates the link of the connection `id`, with no tasks and no objects. `token` is the number
    /// of the worker's token, and `hello` is its first message.
    pub(super) fn new(
        (id, token): (u64, u32),
        hello: &Hello,
        address: IpAddr,
        out: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self {
            id,
            token,
            keeps_bytes: hello.keeps_bytes,
            memory_bytes: hello.memory_bytes,
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

    /// Counts a report that the worker lacks rows in `round`. Returns true if the number of reports
    /// is still within the limit.
    pub(super) fn may_miss(&mut self, round: Round) -> bool {
        if self.misses.0 != round {
            self.misses = (round, 0);
        }
        self.misses.1 += 1;
        self.misses.1 <= ROW_MISSES
    }

    /// Returns true if the worker has asked for no more tasks and has answered all its tasks.
    pub(super) fn is_through(&self) -> bool {
        self.draining && self.flights.is_empty()
    }

    /// Queues a message for the worker. Drops the message if the connection has ended, because that
    /// end is reported elsewhere.
    pub(super) fn say(&self, message: Message) {
        drop(self.out.send(message));
    }

    /// Returns the bytes of matrix values in objects that were sent since the last call, and resets
    /// the count.
    pub(super) fn take_values(&mut self) -> u64 {
        std::mem::take(&mut self.values)
    }

    /// Sends those of the objects `keys` that the worker does not cache. Returns their total size
    /// in bytes.
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

    /// Asks the worker to delete the objects `keys`. Objects that the worker does not cache are
    /// ignored.
    pub(super) fn forget(&mut self, keys: &[TensorKey]) {
        let own: Vec<TensorKey> =
            keys.iter().copied().filter(|key| self.known.remove(key).is_some()).collect();
        if !own.is_empty() {
            self.say(Message::Forget(own));
        }
    }

    /// Sends a task or an instruction to the worker, and records it as in flight. The worker must
    /// already have the objects that it reads.
    pub(super) fn begin(&mut self, number: u64, flight: Flight) {
        self.say(flight.message(number));
        self.flights.insert(number, flight);
    }

    /// Sends all objects of the task `number` and then the task again, because the worker lacks the
    /// objects `lacks`. Returns the bytes of the objects sent.
    ///
    /// # Errors
    /// Returns a message if the worker's report cannot be true. Either the host does not send these
    /// objects for the task, or it has sent them several times.
    pub(super) fn again(
        &mut self,
        number: u64,
        lacks: &[TensorKey],
        objects: &Objects,
    ) -> Result<u64, String> {
        let Some(flight) = self.flights.get_mut(&number) else { return Ok(0) };
        if let Some(foreign) = lacks.iter().find(|key| !flight.keys.contains(key)) {
            return Err(format!("it reports {foreign} as missing, but its task does not read that tensor"));
        }
        flight.resent += 1;
        if flight.resent > RESENDS || lacks.is_empty() {
            let first = lacks.first().map_or_else(|| "nothing".to_owned(), TensorKey::to_string);
            return Err(format!("it reports {first} as missing after {} transmissions", 1 + RESENDS));
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
