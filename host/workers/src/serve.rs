//! The main loop of a worker, which runs one task after another and caches tensors between tasks.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{Dialled, Error as ConnectError, Hello, Message, Token, dial};
use eciton_exec::{WorkError, framed, run_guarded};
use eciton_kernel::wire::{
    AnswerMeta, CallRef, Decoded, Object, Outcome, Request, RowsToStore, Source, encode_failure,
};
use eciton_kernel::{Error, Instances, Kernel, Layer, Limits};
use eciton_tensor::frame::Frame;
use eciton_types::{TaskKey, TensorKey};
use tokio::sync::{mpsc, watch};

use super::incoming::{Incoming, Work, leave, read, write};
use super::owned::{Owned, Passes};
use super::peers::{self, Peers};
use super::room::Room;
use super::status::Status;

/// Maximum number of received messages that wait to be processed. Further messages stay in the
/// connection.
const WAITING: usize = 4;
/// Maximum number of opened layers that the worker caches.
const LAYERS: usize = 1024;

/// Function that loads a kernel from its name and its WebAssembly component.
pub type Load = Box<dyn FnMut(&str, &[u8]) -> Result<Arc<Kernel>, Error> + Send>;

/// Settings with which a worker serves a run.
pub struct Serving<'a> {
    /// Address of the host, in the form `HOST:PORT`.
    pub address: &'a str,
    /// Tokens with which the worker may authenticate to the host. It uses one that no other worker
    /// uses.
    pub tokens: &'a [Token],
    /// Maximum time for which the worker tries to connect to a host that does not respond.
    pub patience: Duration,
    /// Maximum number of bytes of objects and rows that the worker caches.
    pub cache_bytes: u64,
    /// Upper bounds on the limits of a task. The host may request lower limits.
    pub limits: Limits,
    /// Function that loads kernels.
    pub load: Load,
    /// Parameters and other state that the worker owns.
    pub owned: Box<dyn Owned>,
    /// Switch with which the caller asks the worker to leave the run.
    pub leave: &'a Leave,
    /// Status of the process, which this worker updates.
    pub status: &'a Arc<Status>,
    /// Number of the task at which the worker ends without an answer, to test failures. `None` for
    /// never.
    pub fail_at: Option<u64>,
}

impl std::fmt::Debug for Serving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Serving({}, {:?})", self.address, self.tokens)
    }
}

/// Switch that asks a worker to leave the run. The worker still answers the tasks that it has.
#[derive(Debug)]
pub struct Leave(watch::Sender<bool>);

impl Default for Leave {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Leave {
    /// Asks the worker to leave. Returns true if this is the first request.
    pub fn ask(&self) -> bool {
        !self.0.send_replace(true)
    }

    /// Returns true if the worker was asked to leave.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }
}

/// Summary of a worker's service to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Name of the run.
    pub run: String,
    /// Number of tasks that the worker ran.
    pub tasks: u64,
    /// Maximum number of bytes that the worker cached at one time.
    pub peak_cache_bytes: u64,
    /// Reason of the end.
    pub reason: String,
    /// True if the worker may connect again, because the connection was lost or the run will be
    /// resumed.
    pub again: bool,
    /// True if the connection has ended without a message of the host.
    pub lost: bool,
    /// Number of the token that the run has admitted. `None` if the worker was not admitted.
    pub token: Option<u32>,
}

/// Event of a worker's connection, for messages to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact<'a> {
    /// All places of the run are taken, and the worker waits for one.
    Waits,
    /// The run with this name has admitted the worker to this place.
    Welcome(&'a str, u32),
    /// The connection has ended for this reason, and the worker connects again.
    Lost(&'a str),
}

/// Runs a worker until the connection to the run ends. Calls `told` when the worker waits for a
/// place and when it is admitted.
///
/// # Errors
/// Returns a [`ConnectError`] if the host cannot be reached or rejects the worker.
pub fn serve(serving: Serving<'_>, mut told: impl FnMut(Contact<'_>)) -> Result<Served, ConnectError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("eciton-io")
        .enable_all()
        .build()
        .map_err(|source| ConnectError::System { doing: "start an I/O thread".to_owned(), source })?;
    let hello = Hello {
        version: 0,
        token: 0,
        has_others: false,
        proof: String::new(),
        numeric_classes: eciton_tensor::simd::classes().into_iter().map(str::to_owned).collect(),
        pid: std::process::id(),
        keeps_bytes: serving.cache_bytes,
        memory_bytes: eciton_input::memory::available(),
    };
    let mut left = serving.leave.0.subscribe();
    let nothing = |reason: String| {
        let (run, tasks, peak_cache_bytes) = (String::new(), 0, 0);
        Served { run, tasks, peak_cache_bytes, reason, again: false, lost: false, token: None }
    };
    let dialled = runtime.block_on(async {
        let (address, tokens, patience) = (serving.address, serving.tokens, serving.patience);
        tokio::select! {
            dialled = dial(address, tokens, hello.clone(), patience, || told(Contact::Waits)) => dialled.map(Some),
            _ = left.wait_for(|left| *left) => Ok(None),
        }
    });
    let Dialled { welcome, receiver, sender, local, token } = match dialled {
        Ok(Some(dialled)) => dialled,
        Ok(None) => return Ok(nothing("the worker left before a run had a place for it".to_owned())),
        Err(ConnectError::Ended(reason)) => return Ok(nothing(reason)),
        Err(error) => return Err(error),
    };
    if let Some(class) = &welcome.numeric_class {
        let settled = eciton_tensor::simd::require(class);
        settled.map_err(|error| ConnectError::Message {
            what: "a welcome".to_owned(),
            reason: error.to_string(),
        })?;
    }
    told(Contact::Welcome(&welcome.run, welcome.place));
    let (inwards, tasks) = mpsc::channel(WAITING);
    let (out, outwards) = mpsc::unbounded_channel();
    let between = Duration::from_millis(welcome.silence_ms) / eciton_connect::limits::SIGNS;
    if welcome.peers > 0 {
        // The host gets this message before any other.
        drop(out.send(runtime.block_on(peers::open(local, &welcome, inwards.clone()))?));
    }
    let silence = Duration::from_millis(welcome.silence_ms);
    let late = (runtime.handle().clone(), inwards.downgrade(), silence);
    let writing = runtime.spawn(write(sender, outwards, between, serving.status.clone()));
    let status = serving.status.clone();
    let reading = runtime.spawn(async move {
        let ended = read(receiver, inwards.clone(), &status).await;
        // Connections to other workers still hold senders of the channel, so it does not close by
        // itself.
        drop(inwards.send(Incoming::Ended).await);
        ended
    });
    runtime.spawn(leave(serving.leave.0.subscribe(), out.clone()));
    let mut worker = Worker {
        load: serving.load,
        limits: serving.limits,
        kernels: HashMap::new(),
        layers: HashMap::new(),
        instances: Instances::new(false),
        peers: Peers::new(runtime.handle().clone(), hello, between),
        late,
        waiting: VecDeque::new(),
        room: Room::new(serving.cache_bytes),
        owned: serving.owned,
        status: serving.status.clone(),
        done: 0,
        passed: 0,
    };
    let vanished = worker.work(tasks, &out, serving.fail_at);
    let (tasks, peak_cache_bytes, run) = (worker.done, worker.room.peak(), welcome.run);
    if vanished {
        runtime.shutdown_timeout(Duration::ZERO);
        return Ok(Served {
            run,
            tasks,
            peak_cache_bytes,
            reason: "the worker exited at the task that --fail-at names".to_owned(),
            again: false,
            lost: false,
            token: Some(token),
        });
    }
    drop(out);
    let reason = runtime.block_on(reading);
    writing.abort();
    runtime.shutdown_timeout(Duration::from_millis(100));
    let ended =
        reason.map_err(|e| ConnectError::Message { what: "reading".to_owned(), reason: e.to_string() })?;
    let lost = ended.is_err();
    let (reason, again) = ended.unwrap_or_else(|error| (error.to_string(), true));
    Ok(Served { run, tasks, peak_cache_bytes, reason, again, lost, token: Some(token) })
}

/// State of a worker that serves a run.
struct Worker {
    load: Load,
    limits: Limits,
    /// Kernels by digest, each as a received component or as the kernel loaded from it.
    kernels: HashMap<String, Component>,
    /// Opened layers, by the kernel, extents and attributes of the call.
    layers: HashMap<String, Arc<Layer>>,
    instances: Instances,
    peers: Peers,
    /// The runtime for timers, the channel that timers report to, and the maximum time for which
    /// work waits for other workers.
    late: (tokio::runtime::Handle, mpsc::WeakSender<Incoming>, Duration),
    /// Tasks and instructions that wait for rows or values of other workers, by message number.
    waiting: VecDeque<(u64, Work)>,
    room: Room,
    owned: Box<dyn Owned>,
    status: Arc<Status>,
    done: u64,
    /// Bytes of matrix values sent to other workers since the last answer.
    passed: u64,
}

/// Returns the size of a matrix's values in bytes, for the count of data sent to other workers.
fn value_bytes(matrix: &eciton_tensor::Matrix) -> u64 {
    4 * matrix.rows() as u64 * matrix.columns() as u64
}

/// Kernel of a worker, either the received component or the kernel loaded from it.
enum Component {
    Bytes(Bytes),
    Loaded(Arc<Kernel>),
}

/// Returns a permanent error: another attempt would fail in the same way. `place` names the subject
/// of the error.
fn refused(place: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Wire { place: place.into(), reason: reason.into() }
}

impl Worker {
    /// Processes messages until the run ends. Returns true if the worker ended without an answer
    /// because `vanishes_at` was reached.
    fn work(
        &mut self,
        mut tasks: mpsc::Receiver<Incoming>,
        out: &mpsc::UnboundedSender<Message>,
        fail_at: Option<u64>,
    ) -> bool {
        while let Some(message) = tasks.blocking_recv() {
            match message {
                Incoming::Kernel(digest, bytes) => {
                    self.kernels.insert(digest, Component::Bytes(bytes));
                }
                Incoming::Object(key, parts) => self.room.put(key, parts),
                Incoming::Forget(keys) => keys.iter().for_each(|key| self.room.free(key)),
                Incoming::Peer(at, address, token) => self.peers.meet(at, address, token),
                Incoming::Ended => return false,
                Incoming::Abandon => self.waiting.clear(),
                Incoming::Passed(key, rows) => {
                    match &rows {
                        // Rows that do not fit are dropped, and their task then reports them as
                        // missing.
                        _ if key.is_awaited() => drop(self.room.keep(key, rows, &BTreeSet::new())),
                        Decoded::Matrix(matrix) => self.owned.passed(&key, matrix),
                        Decoded::Ids(_) => {}
                    }
                    if let Some(vanished) = self.again(out, fail_at) {
                        return vanished;
                    }
                }
                Incoming::Late(number) => {
                    let late = self.waiting.iter().position(|(waits, _)| *waits == number);
                    if let Some(work) = late.and_then(|at| self.waiting.remove(at)) {
                        let vanished = self.take(work, true, out, fail_at);
                        if let Some(vanished) = vanished.or_else(|| self.again(out, fail_at)) {
                            return vanished;
                        }
                    }
                }
                Incoming::Work(number, work) => {
                    if let Some(vanished) = self.take((number, work), false, out, fail_at) {
                        return vanished;
                    }
                    if self.waiting.back().is_some_and(|(waits, _)| *waits == number) {
                        let (runtime, inwards, silence) = self.late.clone();
                        runtime.spawn(async move {
                            tokio::time::sleep(silence).await;
                            if let Some(inwards) = inwards.upgrade() {
                                drop(inwards.send(Incoming::Late(number)).await);
                            }
                        });
                    }
                }
            }
            self.room.beside(self.owned.bytes());
        }
        false
    }

    /// Processes waiting work that need not wait any longer.
    fn again(&mut self, out: &mpsc::UnboundedSender<Message>, fail_at: Option<u64>) -> Option<bool> {
        // Work that must still wait is queued again in the same order.
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().find_map(|work| self.take(work, false, out, fail_at))
    }

    /// Processes a task or an instruction. If it must wait for rows or values of other workers and
    /// is not `late`, this queues it. Returns `Some` if the worker ends. The value is true if
    /// `vanishes_at` was reached.
    fn take(
        &mut self,
        (number, work): (u64, Work),
        late: bool,
        out: &mpsc::UnboundedSender<Message>,
        fail_at: Option<u64>,
    ) -> Option<bool> {
        let begun = Instant::now();
        let answer = match &work {
            // Tasks keep their order, so that a lane has no more micro-batches than allowed.
            Work::Task(_) if !late && self.waiting.iter().any(|(_, work)| matches!(work, Work::Task(_))) => {
                self.waiting.push_back((number, work));
                return None;
            }
            Work::Task(frame) => Some(self.task(number, frame)),
            Work::Instruction(frame) => self.instruction(number, frame, late),
        };
        let waits = |answer: &Message| match answer {
            Message::Missing { keys, .. } => !late && keys.iter().all(TensorKey::is_awaited),
            _ => false,
        };
        match answer.filter(|answer| !waits(answer)) {
            Some(answer) => {
                self.status.task(begun.elapsed(), self.room.bytes());
                self.answer(answer, out, fail_at)
            }
            None => {
                self.waiting.push_back((number, work));
                None
            }
        }
    }

    /// Executes an instruction, and sends the matrices that it passes to other workers. Returns the
    /// answer, or `None` while the instruction waits for other workers.
    fn instruction(&mut self, number: u64, frame: &[u8], late: bool) -> Option<Message> {
        let answer = match framed::parse(frame) {
            Ok(frame) => self.owned.instruction(&frame, late),
            // An instruction that cannot be read gets an empty answer.
            Err(_) => Some(Vec::new()),
        };
        for Passes { to, key, matrix } in self.owned.passes() {
            // A worker that is unknown gets nothing, and its instruction waits until it is late.
            let sent = self.peers.pass(to, key, &matrix);
            self.passed += sent.map_or(0, |()| value_bytes(&matrix));
        }
        answer.map(|answer| Message::Answer { number, frame: answer.into(), passed: 0 })
    }

    /// Sends an answer to the host. Returns `Some` if the worker ends. The value is true if
    /// `vanishes_at` was reached.
    fn answer(
        &mut self,
        mut answer: Message,
        out: &mpsc::UnboundedSender<Message>,
        fail_at: Option<u64>,
    ) -> Option<bool> {
        if let Message::Answer { passed, .. } = &mut answer {
            *passed = std::mem::take(&mut self.passed);
        }
        self.done += 1;
        if fail_at.is_some_and(|at| self.done >= at) {
            return Some(true);
        }
        out.send(answer).is_err().then_some(false)
    }

    /// Runs a task, and returns its answer or the list of the tensors that are missing.
    fn task(&mut self, number: u64, frame: &[u8]) -> Message {
        let parsed = framed::parse(frame).and_then(|own| Ok((Request::parse(&own.header().meta)?, own)));
        let (request, own) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return failed(number, nobody(), error),
        };
        let key = request.key;
        let held = request.objects.iter().filter_map(Object::held);
        let is_missing = |key: &TensorKey| self.owned.matrix(key).is_none() && !self.room.has(key);
        let missing: Vec<TensorKey> = held.filter(is_missing).collect();
        if !missing.is_empty() {
            return Message::Missing { number, keys: missing };
        }
        match self.run(request, &own) {
            Ok(frame) => Message::Answer { number, frame: frame.into(), passed: 0 },
            Err(error) => failed(number, key, error),
        }
    }

    /// Runs the kernel calls of a task, and stores the rows and sums that stay at this worker.
    /// Returns the frame of the answer.
    fn run(&mut self, mut request: Request, own: &Frame<'_>) -> Result<Vec<u8>, Error> {
        request.restrict(&self.limits);
        let layers = request.calls().map(|call| open(self, call)).collect::<Result<Vec<_>, _>>()?;
        let (encoding, objects) = (request.encoding, request.objects.clone());
        let (interval, round) = (request.key.interval, request.key.round);
        let (room, owned) = (&self.room, &self.owned);
        let mut resolve = |source: &Source| match source.object {
            None => own.part(source.part).map_err(framed::tensor_error),
            Some(at) => {
                let key = objects.get(at as usize).and_then(Object::held);
                let found = key.and_then(|key| {
                    let owned = owned.matrix(&key).filter(|_| source.part == 0).map(Decoded::Matrix);
                    owned.or_else(|| room.part(&key, source.part))
                });
                found.ok_or_else(|| refused("a request", format!("{source} does not exist")))
            }
        };
        let computed = run_guarded(&mut self.instances, |instances| {
            framed::compute(request, &layers, instances, &mut resolve)
        });
        let (meta, mut places) = computed.map_err(|error| match error {
            WorkError::Kernel(error) => *error,
            WorkError::Host(reason) => Error::Host { place: "a task".to_owned(), reason },
        })?;
        if meta.outcome == Outcome::Done {
            for (of, parts) in places.take_held() {
                let added = self.owned.add((of, round), interval, parts);
                added.map_err(|reason| refused(format!("gradient sum of weight {of}"), reason))?;
            }
            let (kept, freed) = places.take_rows_to_store()?;
            freed.iter().for_each(|key| self.room.free(key));
            let read = objects.iter().filter_map(Object::held);
            let own: BTreeSet<TensorKey> = read.chain(kept.iter().map(|kept| kept.key)).collect();
            for RowsToStore { key, to, rows } in kept {
                if !key.is_made_by_workers() {
                    return Err(refused("a request", format!("rows cannot be stored as {key}")));
                }
                for worker in &to {
                    let passed = self.peers.pass(*worker, key, &rows);
                    passed.map_err(|reason| Error::Host { place: key.to_string(), reason })?;
                    self.passed += value_bytes(&rows);
                }
                if to.is_empty() {
                    self.room.keep(key, Decoded::Matrix(rows), &own)?;
                }
            }
        }
        places.encode(&meta, encoding)
    }
}

/// Returns the layer that `call` refers to, and loads its kernel if necessary. Calls with equal
/// kernels, extents and attributes share one layer.
fn open(worker: &mut Worker, call: &CallRef) -> Result<Arc<Layer>, Error> {
    let attributes = serde_json::to_string(&(&call.kernel.digest, &call.inputs_extents));
    let attributes = attributes.map_err(|e| refused("a request", e.to_string()))?;
    let name = format!("{attributes} {:?}", call.attributes);
    if let Some(layer) = worker.layers.get(&name) {
        call.fits(layer)?;
        return Ok(layer.clone());
    }
    let digest = &call.kernel.digest;
    let kernel = match worker.kernels.get(digest) {
        Some(Component::Loaded(kernel)) => kernel.clone(),
        Some(Component::Bytes(component)) => (worker.load)(&call.kernel.name, component)?,
        None => {
            return Err(refused("a request", format!("the host has not sent kernel `{}`", call.kernel.name)));
        }
    };
    worker.kernels.insert(digest.clone(), Component::Loaded(kernel.clone()));
    // This compares the digests.
    let layer = call.open(&kernel)?;
    if worker.layers.len() >= LAYERS {
        worker.layers.clear();
    }
    worker.layers.insert(name, layer.clone());
    Ok(layer)
}

/// Returns a placeholder key, for the answer to a task whose frame cannot be read.
fn nobody() -> TaskKey {
    TaskKey {
        round: eciton_types::Round(0),
        stage: eciton_types::StageId(0),
        interval: eciton_types::IntervalId(0),
        attempt: eciton_types::Attempt(0),
    }
}

/// Returns the answer that reports the failure of a task.
fn failed(number: u64, key: TaskKey, error: Error) -> Message {
    let meta = AnswerMeta::new(key, &Err(error));
    let frame = encode_failure(&meta).unwrap_or_default().into();
    Message::Answer { number, frame, passed: 0 }
}
