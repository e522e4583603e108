//! The host's side: who is there, who does what, and what is told of those who have gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{
    Certificate, Error as ConnectError, Joined, Listener, Message, Receiver, Sender, Token, Welcome,
};
use eciton_kernel::wire::Answer;
use eciton_kernel::{Error, Kernel};
use eciton_plan::Step;
use tokio::sync::mpsc;

use super::link::{CREDIT, Flight, Link};
use super::objects::Objects;
use super::{KEPT, KERNELS, Traffic};
use crate::framed::Framing;
use crate::functions;
use crate::local::Inbox;
use crate::ticket::Ticket;
use crate::{Answered, Completion, Executor, Job, Load, LocalPool, Order};

/// How a pool of workers is set up.
#[derive(Debug)]
pub struct Settings {
    /// The run's name.
    pub run: String,
    /// How tasks become frames.
    pub(crate) framing: Framing,
    /// Places.
    pub count: u32,
    /// Where to listen: `HOST:PORT`.
    pub listen: String,
    /// The folder that tokens are written to; `None`: one of this process's, gone with it.
    pub tokens: Option<PathBuf>,
    /// After so long without a message a worker is gone.
    pub silence: Duration,
    /// How long to wait for workers where none is there.
    pub patience: Duration,
    /// The numeric class that all must compute in.
    pub numeric_class: String,
    /// Whether tasks come by lanes: then nobody else does them.
    pub lanes: bool,
    /// Versions of the weights that tasks read at once, at most.
    pub weight_versions: u32,
    /// By lane, bytes of weights and of rows that its worker keeps at once.
    pub needs: Vec<(u64, u64)>,
}

/// Where a pool listens.
#[derive(Debug, Clone)]
pub struct Place {
    /// `HOST:PORT`
    pub address: String,
    /// The folder of the tokens: `worker-0.token` and so on.
    pub tokens: PathBuf,
}

/// Who is there.
struct State {
    links: Vec<Option<Link>>,
    objects: Objects,
    traffic: Vec<Traffic>,
    classes: BTreeSet<String>,
    /// Connections so far.
    connections: u64,
    /// Tasks so far.
    numbers: u64,
    /// How often steps of the newest round found no rows where they were done.
    unmet: BTreeMap<Step, u32>,
    /// Who sends messages.
    writers: Vec<tokio::task::JoinHandle<()>>,
    /// Nothing is handed out any more.
    closed: bool,
    /// Nobody is there: the local pool waits for them.
    deserted: bool,
}

impl State {
    fn link(&mut self, place: u32, id: u64) -> Option<&mut Link> {
        self.links.get_mut(place as usize)?.as_mut().filter(|link| link.id == id)
    }

    fn is_empty(&self) -> bool {
        self.links.iter().all(Option::is_none)
    }
}

struct Shared {
    settings: Settings,
    inbox: Inbox,
    state: Mutex<State>,
    /// Told whenever somebody comes or goes.
    changed: std::sync::Condvar,
    runtime: tokio::runtime::Handle,
    kernels: Vec<String>,
}

/// Hands tasks to workers that have dialled this process.
pub struct WorkerPool {
    local: LocalPool,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
    place: Place,
    /// Tokens that go with this process.
    _own: Option<tempfile::TempDir>,
    /// Processes that were started here.
    children: Vec<std::process::Child>,
    /// All were there once.
    gathered: bool,
    at_home: bool,
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerPool({} places at {})", self.shared.settings.count, self.place.address)
    }
}

fn failed(doing: &'static str) -> impl Fn(ConnectError) -> functions::Error {
    move |error| functions::Error::Choice(format!("{doing}: {error}"))
}

impl WorkerPool {
    /// Listens, and writes a token a place. `kernels` are those that tasks use, with their components.
    ///
    /// # Errors
    /// [`functions::Error`] where the address cannot be listened at, or a token cannot be written.
    pub fn new(
        local: LocalPool,
        kernels: &[(Arc<Kernel>, Arc<[u8]>)],
        settings: Settings,
    ) -> functions::Result<Self> {
        let runtime = functions::runtime(1)?;
        let certificate = Certificate::new().map_err(failed("workers"))?;
        let tokens = (0..settings.count).map(|place| certificate.token(place));
        let tokens = tokens.collect::<Result<Vec<Token>, _>>().map_err(failed("workers"))?;
        let system = functions::system("making a folder for tokens");
        let (folder, own) = match &settings.tokens {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(system)?;
                (folder.clone(), None)
            }
            None => {
                let own = tempfile::Builder::new().prefix("eciton-tokens-").tempdir().map_err(system)?;
                (own.path().to_owned(), Some(own))
            }
        };
        for token in &tokens {
            token.write(&folder.join(token_name(token.place))).map_err(failed("workers"))?;
        }
        let welcome = Welcome {
            run: settings.run.clone(),
            silence_ms: u64::try_from(settings.silence.as_millis()).unwrap_or(u64::MAX),
            numeric_class: Some(settings.numeric_class.clone()),
        };
        let listener = Listener::bind(&settings.listen, &certificate, tokens, welcome);
        let listener = runtime.block_on(listener).map_err(failed("workers"))?;
        let mut objects = Objects::new(settings.weight_versions);
        let mut names = Vec::with_capacity(kernels.len());
        for (kernel, component) in kernels {
            let digest: String = kernel.digest().iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("{KERNELS}{digest}");
            objects.put(name.clone(), Bytes::from(component.to_vec()));
            names.push(name);
        }
        if settings.framing.rows != eciton_tensor::frame::Encoding::F32 {
            local.round(settings.framing.clone());
        }
        let place = Place { address: listener.address.to_string(), tokens: folder };
        let count = settings.count as usize;
        let state = State {
            links: (0..count).map(|_| None).collect(),
            objects,
            traffic: (0..settings.count).map(|place| Traffic { place, ..Traffic::default() }).collect(),
            classes: BTreeSet::new(),
            connections: 0,
            numbers: 0,
            unmet: BTreeMap::new(),
            writers: Vec::new(),
            closed: false,
            deserted: false,
        };
        let shared = Arc::new(Shared {
            settings,
            inbox: local.inbox(),
            state: Mutex::new(state),
            changed: std::sync::Condvar::new(),
            runtime: runtime.handle().clone(),
            kernels: names,
        });
        runtime.spawn(let_in(shared.clone(), listener));
        let (runtime, children) = (Some(runtime), Vec::new());
        Ok(Self { local, shared, runtime, place, _own: own, children, gathered: false, at_home: false })
    }

    /// Where workers may dial.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Processes that end with this pool.
    pub(super) fn adopt(&mut self, children: Vec<std::process::Child>) {
        self.children.extend(children);
    }

    /// Waits until all workers are there.
    fn gather(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.shared.settings.patience;
        let mut state = self.shared.lock();
        loop {
            let there = state.links.iter().flatten().count();
            if there == state.links.len() {
                return self.shared.check(&state);
            }
            let left = end.saturating_duration_since(Instant::now());
            let ended = self.children.iter_mut().find_map(|child| child.try_wait().ok().flatten());
            if left.is_zero() || ended.is_some() {
                let ended =
                    ended.map_or(String::new(), |status| format!("; one that was started here: {status}"));
                return Err(format!(
                    "{there} of {} workers are there after {} s{ended}; start them with `eciton worker --connect {} \
                     --token-file {}`, or ask for fewer",
                    state.links.len(),
                    self.shared.settings.patience.as_secs(),
                    self.place.address,
                    self.place.tokens.join(token_name(0)).display()
                ));
            }
            let waited = self.shared.changed.wait_timeout(state, left.min(Duration::from_millis(200)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The file of a place's token.
pub(super) fn token_name(place: u32) -> String {
    format!("worker-{place}.token")
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Tables are whole whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each place keeps what its lane needs.
    fn check(&self, state: &State) -> Result<(), String> {
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
    fn hand(self: &Arc<Self>, place: u32, order: &Order) {
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
        if link.is_none_or(|link| link.draining) {
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
        let gone = objects.forget_before(order.work.generation);
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
        }
        *numbers += 1;
        let flight = Flight::new((order.pass, key), ticket, of_lane, (written.frame, written.keys));
        let number = *numbers;
        link.begin(number, flight);
        drop(state);
        if let Some(deadline) = order.deadline.filter(|_| !of_lane) {
            self.watch((order.pass, key), deadline, (place, number));
        }
    }

    /// Tells of a task that is not answered in time.
    fn watch(self: &Arc<Self>, (pass, key): (u32, eciton_plan::TaskKey), deadline: Duration, at: (u32, u64)) {
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
    fn free(&self) -> Option<u32> {
        let state = self.lock();
        let free = (0u32..).zip(&state.links).filter_map(|(place, link)| {
            let link = link.as_ref().filter(|link| !link.draining && link.flights.len() < CREDIT)?;
            Some((link.flights.len(), place))
        });
        free.min().map(|(_, place)| place).filter(|_| !state.closed)
    }

    /// Hands out what waits for anybody.
    fn dispatch(self: &Arc<Self>) {
        while let Some(place) = self.free() {
            let Some(order) = self.inbox.take_offer() else { return };
            self.hand(place, &order);
            // Counted once more as it was handed out.
            self.inbox.forget();
        }
    }

    fn answered(
        self: &Arc<Self>,
        place: u32,
        id: u64,
        (number, frame): (u64, Bytes),
    ) -> Result<(), ConnectError> {
        let mut state = self.lock();
        let known = number <= state.numbers;
        let Some(link) = state.link(place, id) else { return Ok(()) };
        let flight = link.flights.remove(&number);
        let Some(Flight { pass, key, begun, ticket, .. }) = flight else {
            // A task that was cancelled, or one that there never was.
            let reason = format!("of task {number}, which there never was");
            return if known {
                Ok(())
            } else {
                Err(ConnectError::Message { what: "an answer".to_owned(), reason })
            };
        };
        let drained = link.draining && link.flights.is_empty();
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.tasks += 1;
        }
        let result = Answer::parse(frame.into()).and_then(|answer| {
            let meta = answer.meta();
            if meta.key != key {
                let reason = format!("the answer is to {}", meta.key);
                return Err(Error::Wire { place: key.to_string(), reason });
            }
            if state.classes.len() < CLASSES {
                state.classes.insert(meta.numeric_class.clone());
            }
            match meta.error() {
                Some(error) => Err(error),
                None => Ok(answer),
            }
        });
        drop(state);
        ticket.end(pass, key, begun, result.map(|answer| Answered::Apart(Box::new(answer))));
        if drained {
            self.lost((place, id), "it was asked to go");
        }
        self.dispatch();
        Ok(())
    }

    /// A worker has not got what a task names.
    fn missing(self: &Arc<Self>, place: u32, id: u64, (number, keys): (u64, &[String])) {
        let rows = keys.iter().any(|key| key.starts_with(KEPT));
        let mut state = self.lock();
        let State { links, objects, traffic, unmet, .. } = &mut *state;
        let link = links.get_mut(place as usize).and_then(Option::as_mut).filter(|link| link.id == id);
        let Some(link) = link else { return };
        if rows {
            // What is computed again, the engine says: for it the place is another one now.
            let gone: Vec<u64> = link.flights.iter().filter(|(_, f)| f.of_lane).map(|(at, _)| *at).collect();
            let dropped: Vec<_> = gone.iter().filter_map(|at| link.flights.remove(at)).collect();
            // Of one step again and again: it is not that others came in between.
            let step = link.flights.get(&number).map(|flight| flight.key.step());
            let times = step.map(|step| {
                unmet.retain(|known, _| known.round == step.round);
                let times = unmet.entry(step).or_default();
                *times += 1;
                *times
            });
            if times.is_some_and(|times| times > THRASHED) {
                let reason = format!(
                    "the worker at place {place} keeps {} bytes, which do not suffice for the lanes that it has taken \
                     over; have workers that keep more, or a spare at once",
                    link.keeps_bytes
                );
                self.inbox.note(Completion::Deserted { reason });
            }
            let reason = "its memory did not suffice for the rows that it was to keep".to_owned();
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
        drop(state);
        if let Some(Flight { pass, key, begun, ticket, .. }) = flight {
            let reason = format!("the worker at place {place} keeps losing {}", keys.join(", "));
            ticket.end(pass, key, begun, Err(Error::Host { place: key.to_string(), reason }));
        }
    }

    /// A worker has gone, or is to go. Its loss is told before its tasks are forgotten: something is under way
    /// all the time.
    fn lost(self: &Arc<Self>, (place, id): (u32, u64), reason: &str) {
        let mut state = self.lock();
        let Some(slot) = state.links.get_mut(place as usize) else { return };
        let Some(link) = slot.take_if(|link| link.id == id) else { return };
        let closed = state.closed;
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.lost += u32::from(!closed);
        }
        if !closed {
            self.inbox.note(Completion::Lost { place, reason: reason.to_owned() });
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

    fn wait_for_others(self: &Arc<Self>, connections: u64) {
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

    fn count(&self, place: u32, (bytes_in, bytes_out): (u64, u64)) {
        if let Some(traffic) = self.lock().traffic.get_mut(place as usize) {
            traffic.bytes_in += bytes_in;
            traffic.bytes_out += bytes_out;
        }
    }
}

/// How often a step may find no rows where it is done.
const THRASHED: u32 = 6;
/// Numeric classes that are remembered; there are four.
const CLASSES: usize = 16;

/// Lets workers in, for as long as the pool is there.
async fn let_in(shared: Arc<Shared>, mut listener: Listener) {
    while let Some(Joined { seat, hello, receiver, sender, .. }) = listener.next().await {
        let place = seat.place;
        let (out, messages) = mpsc::unbounded_channel();
        let mut state = shared.lock();
        if state.closed {
            continue;
        }
        state.connections += 1;
        let id = state.connections;
        let mut link = Link::new((id, hello.keeps_bytes), out);
        let sent = link.give(&shared.kernels, &state.objects);
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.object_bytes += sent;
        }
        // The seat was free: whoever had it has been lost.
        if let Some(slot) = state.links.get_mut(place as usize) {
            *slot = Some(link);
        }
        let deserted = std::mem::take(&mut state.deserted);
        drop(state);
        let (writes, reads) = (shared.clone(), shared.clone());
        let writer = tokio::spawn(async move {
            let ended = write(&writes, place, sender, messages).await;
            if let Err(error) = ended {
                writes.lost((place, id), &error.to_string());
            }
        });
        let mut state = shared.lock();
        state.writers.retain(|writer| !writer.is_finished());
        state.writers.push(writer);
        drop(state);
        tokio::spawn(async move {
            let ended = read(&reads, (place, id), receiver).await;
            // Only then another worker may sit there.
            reads.lost((place, id), &ended);
            drop(seat);
        });
        shared.inbox.note(Completion::Joined { place });
        if deserted {
            shared.inbox.forget();
        }
        shared.changed.notify_all();
        shared.dispatch();
    }
}

/// Sends a worker's messages, and signs of life between them.
async fn write(
    shared: &Arc<Shared>,
    place: u32,
    mut sender: Sender,
    mut messages: mpsc::UnboundedReceiver<Message>,
) -> Result<(), ConnectError> {
    let between = shared.settings.silence / eciton_connect::limits::SIGNS;
    loop {
        let message = match tokio::time::timeout(between, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => Message::Alive,
        };
        let last = matches!(message, Message::Bye(_));
        let bytes = sender.send(&message).await?;
        shared.count(place, (0, bytes));
        if last {
            break;
        }
    }
    sender.close().await;
    Ok(())
}

/// Hears a worker, to its end; why that came.
async fn read(shared: &Arc<Shared>, (place, id): (u32, u64), mut receiver: Receiver) -> String {
    loop {
        let (message, bytes) = match receiver.next().await {
            Ok(next) => next,
            Err(error) => return error.to_string(),
        };
        shared.count(place, (bytes, 0));
        let name = message.name();
        match message {
            Message::Answer { number, frame } => {
                if let Err(error) = shared.answered(place, id, (number, frame)) {
                    return error.to_string();
                }
            }
            Message::Missing { number, keys } => shared.missing(place, id, (number, &keys)),
            Message::Alive => {}
            Message::Drain => {
                let mut state = shared.lock();
                let idle = state.link(place, id).is_none_or(|link| {
                    link.draining = true;
                    link.flights.is_empty()
                });
                drop(state);
                if idle {
                    shared.lost((place, id), "it was asked to go");
                }
            }
            Message::Bye(reason) => return reason,
            _ => return format!("it sent a {name}, which is the host's to send"),
        }
    }
}

impl Executor for WorkerPool {
    fn submit(&mut self, job: Job) {
        if self.at_home {
            return self.local.submit(Job { lane: None, ..job });
        }
        let order = match job.anywhere() {
            Ok(order) => order,
            Err(job) => return self.local.submit(Job { lane: None, ..job }),
        };
        if let Some(place) = order.lane {
            return self.shared.hand(place, &order);
        }
        if self.shared.settings.lanes {
            // An evaluation, which needs all weights.
            return self.local.submit(order.into());
        }
        match self.shared.free() {
            Some(place) => self.shared.hand(place, &order),
            None if order.task.attempt.0 == 0 => self.shared.inbox.offer(Box::new(order)),
            None => match self.shared.settings.framing.write(&order) {
                Ok(framed) => self.local.submit_framed(framed),
                Err(error) => {
                    self.shared.inbox.begin();
                    Ticket::new(&self.shared.inbox).fail(&order, error);
                }
            },
        }
        self.shared.dispatch();
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        self.local.drain(done, timeout)
    }

    fn is_apart(&self) -> bool {
        !self.at_home
    }

    fn keeps(&self) -> bool {
        self.shared.settings.lanes && !self.at_home
    }

    fn prepare(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        if !std::mem::replace(&mut self.gathered, true) {
            if self.children.is_empty() {
                let (address, tokens) = (&self.place.address, self.place.tokens.display());
                tell(&format!("listens at {address}; tokens of {} workers are in {tokens}", self.most()));
            }
            self.gather()?;
        }
        Ok(self.shared.lock().links.iter().map(Option::is_some).collect())
    }

    fn traffic(&self) -> Vec<Traffic> {
        self.shared.lock().traffic.clone()
    }

    fn most(&self) -> u32 {
        self.shared.settings.count
    }

    fn set_limit(&mut self, _: u32) {}

    fn load(&self) -> Load {
        let state = self.shared.lock();
        let in_flight = state.links.iter().flatten().map(|link| link.flights.len() as u32).sum();
        Load { waiting: self.local.load().waiting, in_flight }
    }

    fn cancel(&mut self) -> u64 {
        self.at_home = true;
        let mut state = self.shared.lock();
        let flights: Vec<Flight> = state
            .links
            .iter_mut()
            .flatten()
            .flat_map(|link| std::mem::take(&mut link.flights))
            .map(|(_, f)| f)
            .collect();
        let deserted = std::mem::take(&mut state.deserted);
        state.closed = true;
        drop(state);
        let count = flights.len() + self.shared.inbox.withdraw();
        // Tickets that are dropped take themselves back.
        drop(flights);
        if deserted {
            self.shared.inbox.forget();
        }
        count as u64
    }

    fn numeric_classes(&self) -> Vec<String> {
        self.shared.lock().classes.iter().cloned().collect()
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        for link in state.links.iter_mut().filter_map(Option::take) {
            link.say(Message::Bye("the run has ended".to_owned()));
        }
        let writers = std::mem::take(&mut state.writers);
        drop(state);
        if let Some(runtime) = self.runtime.take() {
            // So long that workers hear of the end.
            let all = async {
                for writer in writers {
                    drop(writer.await);
                }
            };
            runtime.block_on(async { drop(tokio::time::timeout(Duration::from_secs(2), all).await) });
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
        for child in &mut self.children {
            // One that has ended cannot be killed; neither is of interest.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
