//! The worker pool, an executor that sends tasks to the workers that have connected to this
//! process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_cloud::error::{Error, Result, system};
use eciton_cloud::{Scratch, runtime};
use eciton_connect::{ENDED, Error as ConnectError, Listener, Message, STOPPED, Tokens, Welcome, token_path};
use eciton_exec::{
    Affinity, Audit, Cancel, Capabilities, Completion, Executor, Job, Load, LocalPool, PendingJob, Traffic,
    Usage, Work,
};
use eciton_kernel::Kernel;
use eciton_kernel::wire::KernelRef;
use eciton_types::Location;

use super::children::Started;
use super::connections::let_in;
use super::link::{Flight, Link};
use super::objects::Objects;
use super::settings::Settings;
use super::shared::{Shared, State};

/// Address at which a pool accepts workers, and the folder of the tokens that workers need.
#[derive(Debug, Clone)]
pub struct Rendezvous {
    /// Address of the pool, in the form `HOST:PORT`.
    pub address: String,
    /// Folder of the token files `worker-0.token`, `worker-1.token` and so on. Each worker needs
    /// one of them to connect.
    pub tokens: PathBuf,
    /// Number of tokens that this run created. The other tokens are from an earlier run.
    pub written: u32,
}

/// Executor that sends tasks to worker processes that have connected to this process.
pub struct WorkerPool {
    local: LocalPool,
    audit: Audit,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
    rendezvous: Rendezvous,
    /// Temporary folder of the tokens, if this process starts the workers itself. The folder is
    /// deleted with the pool.
    _own: Option<Scratch>,
    /// Worker processes that this process has started.
    children: Vec<Started>,
    /// True once all workers were connected at the same time.
    gathered: bool,
    at_home: bool,
    /// True if the run may be resumed, so that its workers wait for it.
    pauses: bool,
    /// Task that admits workers. `None` once the pool has ended.
    letting_in: Option<tokio::task::JoinHandle<()>>,
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkerPool({} workers at {})", self.shared.settings.count, self.rendezvous.address)
    }
}

/// Maximum time until the pool admits no more workers.
const FAREWELL: Duration = Duration::from_secs(1);
/// Time for workers that wait for a place to receive the message that the run has ended.
const WAITING: Duration = Duration::from_millis(20);

/// Returns a function that converts a connection error to an [`Error`] with the prefix `doing`.
fn failed(doing: &'static str) -> impl Fn(ConnectError) -> Error {
    move |error| Error::Choice(format!("{doing}: {error}"))
}

impl WorkerPool {
    /// Creates or reads the tokens of the workers, and starts to listen for workers. `kernels`
    /// contains the kernels that tasks call, with their WebAssembly components.
    ///
    /// # Errors
    /// Returns an [`Error`] if the process cannot listen at the address, or if the tokens cannot be
    /// read or written.
    pub fn new(local: LocalPool, kernels: &[(Arc<Kernel>, Arc<[u8]>)], settings: Settings) -> Result<Self> {
        let runtime = runtime(1)?;
        let (folder, own) = match &settings.tokens {
            Some(folder) => (folder.clone(), None),
            None => {
                let system = system("create a folder for tokens");
                let own = Scratch::new().map_err(&system)?;
                (own.path("tokens").map_err(&system)?, Some(own))
            }
        };
        let tokens = settings.count.saturating_add(settings.spares);
        let opened = Tokens::open(&folder, tokens).map_err(failed("workers"))?;
        let Tokens { certificate, tokens, written } = opened;
        let welcome = Welcome {
            run: settings.run.clone(),
            place: 0,
            silence_ms: u64::try_from(settings.silence.as_millis()).unwrap_or(u64::MAX),
            numeric_class: Some(settings.numeric_class.clone()),
            peers: if settings.peers { settings.count } else { 0 },
            plain: false,
        };
        let listener = Listener::bind(&settings.listen, &certificate, (tokens, settings.count), welcome);
        let listener = runtime.block_on(listener).map_err(failed("workers"))?;
        let sent = |(kernel, component): &(Arc<Kernel>, Arc<[u8]>)| {
            (KernelRef::new(kernel).digest, Bytes::from(component.to_vec()))
        };
        let kernels = kernels.iter().map(sent).collect();
        if settings.framing.rows == eciton_tensor::frame::Encoding::Bf16 {
            local.round(settings.framing.clone());
        }
        let rendezvous = Rendezvous { address: listener.address.to_string(), tokens: folder, written };
        let count = settings.count as usize;
        let state = State {
            links: (0..count).map(|_| None).collect(),
            objects: Objects::new(settings.weight_versions),
            traffic: (0..settings.count).map(|place| Traffic { place, ..Traffic::default() }).collect(),
            classes: BTreeSet::new(),
            wrong: BTreeMap::new(),
            silent: BTreeMap::new(),
            failures: BTreeMap::new(),
            connections: 0,
            numbers: 0,
            writers: Vec::new(),
            closed: false,
            deserted: false,
        };
        let shared = Arc::new(Shared {
            settings,
            inbox: local.inbox(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            runtime: runtime.handle().clone(),
            kernels,
            ending: tokio::sync::watch::Sender::new(None),
        });
        let letting_in = Some(runtime.spawn(let_in(shared.clone(), listener)));
        let (runtime, children) = (Some(runtime), Vec::new());
        let audit = Audit::new(shared.settings.audit, shared.settings.framing.clone());
        Ok(Self {
            local,
            audit,
            shared,
            runtime,
            rendezvous,
            _own: own,
            children,
            gathered: false,
            at_home: false,
            pauses: false,
            letting_in,
        })
    }

    /// Returns the address of the pool and the folder of tokens, which workers need to connect.
    pub fn rendezvous(&self) -> &Rendezvous {
        &self.rendezvous
    }

    /// Adds the child process `child`, which is the worker at `at`. The pool kills the process when
    /// it is dropped.
    pub(super) fn adopt(&mut self, at: Location, child: std::process::Child) {
        self.children.push(Started::new(at, child, self.shared.inbox.clone()));
    }

    /// Writes what the connected workers have reported to the folder of the tokens, as a file for
    /// `--cluster`. Returns a message with the path of the file.
    fn describe(&self) -> Result<String, String> {
        let state = self.shared.lock();
        let memory = state.links.iter().map(|link| link.as_ref()?.memory_bytes.map(|bytes| bytes >> 20));
        let memory: Option<Vec<u64>> = memory.collect();
        let count = state.links.len();
        drop(state);
        let Some(memory) = memory else { return Ok(format!("{count} workers are connected")) };
        let path = self.rendezvous.tokens.join("cluster.toml");
        let text = format!(
            "# What the workers of a run have reported, in the order of their numbers. Plans read it: --cluster FILE.\n\
             [cluster]\nmemory_mib = {memory:?}\n"
        );
        let shown = path.display();
        std::fs::write(&path, text).map_err(|error| format!("{shown}: cannot be written: {error}"))?;
        Ok(format!("{count} workers are connected; {shown} describes them for plans (--cluster)"))
    }

    /// Waits until all workers are connected. Returns an error if the time limit passes or a worker
    /// process started by this pool ends.
    fn gather(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let end = begun + self.shared.settings.patience;
        let mut state = self.shared.lock();
        loop {
            let ready = |link: &&Link| link.door.is_some() || !self.shared.settings.peers;
            let there = state.links.iter().flatten().filter(ready).count();
            if there == state.links.len() {
                return self.shared.check(&state);
            }
            let left = end.saturating_duration_since(Instant::now());
            let ended = self.children.iter_mut().find_map(Started::ended);
            if left.is_zero() || ended.is_some() {
                let ended = ended.map_or(String::new(), |(status, last)| {
                    let last = if last.is_empty() { last } else { format!(" ({last})") };
                    format!("; a worker that this run started has ended with {status}{last}")
                });
                return Err(format!(
                    "{there} of {} workers are connected after {} s{ended}; start each missing worker with \
                     `eciton worker --connect {} --token-file {}`, or use fewer workers (--workers)",
                    state.links.len(),
                    begun.elapsed().as_secs(),
                    self.rendezvous.address,
                    token_path(&self.rendezvous.tokens, 0).display()
                ));
            }
            let waited = self.shared.changed.wait_timeout(state, left.min(Duration::from_millis(200)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl WorkerPool {
    /// Cancels all tasks. Returns the number of tasks that were in flight or waiting.
    fn end(&mut self) -> u64 {
        self.at_home = true;
        self.audit.cancel();
        let mut state = self.shared.lock();
        let links = state.links.iter_mut().flatten();
        let flights: Vec<Flight> =
            links.flat_map(|link| std::mem::take(&mut link.flights)).map(|(_, f)| f).collect();
        let deserted = std::mem::take(&mut state.deserted);
        state.closed = true;
        drop(state);
        let count = flights.len() + self.shared.inbox.withdraw();
        // The inbox no longer counts jobs that are dropped.
        drop(flights);
        if deserted {
            self.shared.inbox.forget();
        }
        count as u64
    }
}

impl Executor for WorkerPool {
    fn submit(&mut self, job: Job) {
        let job = match (job.work, job.affinity) {
            (Work::Instruction(instruction), Affinity::On(at)) => {
                return self.shared.instruct(at, (job.pass, job.task.key()), instruction);
            }
            (work, _) => Job { work, ..job },
        };
        if self.at_home {
            return self.local.submit(job);
        }
        let order = match job.anywhere() {
            Ok(order) => order,
            Err(job) => return self.local.submit(job),
        };
        if let Err(error) = self.audit.submitted(&order) {
            return PendingJob::refuse(&self.shared.inbox, &order, error);
        }
        if let Affinity::On(at) = order.affinity {
            return self.shared.hand(at, &order);
        }
        if self.shared.settings.lanes {
            // A task of an evaluation reads all weights, so it runs on this machine.
            return self.local.submit(order.into());
        }
        match self.shared.free() {
            Some(at) => self.shared.hand(at, &order),
            None if order.task.attempt.0 == 0 => self.shared.inbox.offer(Box::new(order)),
            None => self.local.submit_written(&self.shared.settings.framing, &order),
        }
        self.shared.dispatch();
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        let under_way = self.audit.drain(&mut self.local, done, timeout);
        for caught in self.audit.take_caught() {
            self.shared.bar(caught, "wrong answer: it differs from two computations of the host");
        }
        under_way
    }

    fn prepare(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        if !std::mem::replace(&mut self.gathered, true) {
            if self.children.is_empty() {
                let Rendezvous { address, tokens, written } = &self.rendezvous;
                let settings = &self.shared.settings;
                let (tokens, count) = (tokens.display(), settings.count.saturating_add(settings.spares));
                let copy = match written {
                    0 => "; the workers can use the tokens of an earlier run".to_owned(),
                    written if *written == count => String::new(),
                    written => format!(", of which {written} are new"),
                };
                tell(&format!(
                    "the run listens at {address}; tokens for {count} machines are in {tokens}{copy}"
                ));
            }
            self.gather()?;
            if self.children.is_empty() {
                tell(&self.describe()?);
            }
        }
        let peers = self.shared.settings.peers;
        let is_there = |link: &Option<Link>| {
            link.as_ref().is_some_and(|link| !link.draining && (link.door.is_some() || !peers))
        };
        Ok(self.shared.lock().links.iter().map(is_there).collect())
    }

    fn cancel(&mut self, what: Cancel<'_>) -> u64 {
        match what {
            Cancel::All => self.end(),
            Cancel::Lanes => {
                self.shared.abandon();
                0
            }
            Cancel::Worker { at, reason } => {
                self.shared.exclude(at, None, reason);
                0
            }
        }
    }

    fn set_limit(&mut self, _: u32) {}

    fn pauses(&mut self) {
        self.pauses = true;
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let settings = &self.shared.settings;
        let (is_apart, caches_rows) = (!self.at_home, settings.lanes && !self.at_home);
        let audit = self.audit.draw().filter(|_| caches_rows);
        Capabilities { is_apart, caches_rows, audit, most: settings.count, ..Capabilities::default() }
    }

    fn usage(&self) -> Usage {
        let waiting = self.local.usage().load.waiting;
        let state = self.shared.lock();
        let in_flight = state.links.iter().flatten().map(|link| link.flights.len() as u32).sum();
        Usage {
            load: Load { waiting, in_flight },
            bill: None,
            numeric_classes: state.classes.iter().cloned().collect(),
            traffic: state.traffic.clone(),
            audited: self.audit.counts().cloned(),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // Workers that wait for a place must not get one now.
        self.shared.ending.send_replace(Some(self.pauses));
        if let (Some(runtime), Some(letting_in)) = (&self.runtime, self.letting_in.take()) {
            runtime.block_on(async { drop(tokio::time::timeout(FAREWELL, letting_in).await) });
        }
        let mut state = self.shared.lock();
        state.closed = true;
        for link in state.links.iter_mut().filter_map(Option::take) {
            let reason = if self.pauses { STOPPED } else { ENDED };
            link.say(Message::Bye { reason: reason.to_owned(), again: self.pauses });
        }
        let writers = std::mem::take(&mut state.writers);
        drop(state);
        if let Some(runtime) = self.runtime.take() {
            // Time for the workers to receive the farewell.
            let all = async {
                for writer in writers {
                    drop(writer.await);
                }
                tokio::time::sleep(WAITING).await;
            };
            runtime.block_on(async { drop(tokio::time::timeout(Duration::from_secs(2), all).await) });
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
        self.children.iter_mut().for_each(Started::kill);
    }
}
