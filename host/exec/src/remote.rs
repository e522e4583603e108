//! The remote pool: tasks as frames, through an invoker; graph work on this machine's threads.
//!
//! A task is written into a frame when it is submitted, so that its leases end there. The frame
//! travels inside the request where it fits, else by the object store. What several tasks read (the
//! features of an interval in every epoch, one generation of weights on every interval) is written
//! to the store once and named in the frames; workers keep it.

mod attempt;
mod constants;
mod pace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use eciton_kernel::wire::{self, Constants, Source};
use eciton_kernel::{Error, Limits};
use eciton_plan::{Step, Version};
use eciton_tensor::frame::Encoding;
use eciton_transport::keys::RunKeys;
use eciton_transport::{Counts, Key, Store};
use tokio::sync::{Semaphore, watch};

pub use eciton_plan::Transport;

use self::attempt::{Attempt, Wire};
use self::constants::{Constant, ConstantObjects, OBJECT_BYTES};
use self::pace::Pace;
use crate::deploy::Architecture;
use crate::invoker::Invoker;
use crate::local::Inbox;
use crate::{Answered, Bill, Completion, Compute, Executor, LocalPool, Order, Timing, Work};

/// How a remote pool is set up.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// The run's name in the object store; nobody else may use it.
    pub run: String,
    /// How frames travel.
    pub transport: Transport,
    /// What rows are written as.
    pub rows: Encoding,
    /// Whether a worker may compute on rows that are still arriving.
    pub stream: bool,
    /// Invocations under way at once, at most.
    pub concurrency: u32,
    /// What a task may use.
    pub limits: Limits,
    /// How many intervals share a generation of weights.
    pub intervals: u32,
    /// The functions' processors.
    pub architecture: Option<Architecture>,
}

/// Hands tasks to functions.
pub struct RemotePool<I> {
    local: LocalPool,
    inbox: Inbox,
    shared: Arc<Shared<I>>,
    runtime: Option<tokio::runtime::Runtime>,
    /// Counted up to cancel all attempts under way.
    cancel: watch::Sender<u64>,
    constants: ConstantObjects,
    /// (pass, epoch) of the newest task, and the keys that attempts of it use.
    now: (u32, u32),
    spent: Vec<Key>,
    /// Cancelled: tasks run here.
    at_home: bool,
}

impl<I> std::fmt::Debug for RemotePool<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemotePool({})", self.shared.wire.settings.run)
    }
}

struct Shared<I> {
    wire: Wire<I>,
    permits: Semaphore,
    pace: Mutex<Pace>,
    /// Attempts under way.
    alive: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters and options: whole whatever happened.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(place: &str, reason: impl std::fmt::Display) -> Error {
    Error::Wire { place: place.to_owned(), reason: reason.to_string() }
}

fn transport(error: &eciton_transport::Error) -> Error {
    let (place, reason) = ("transport".to_owned(), error.to_string());
    if error.is_retryable() { Error::Host { place, reason } } else { Error::Wire { place, reason } }
}

impl<I: Invoker> RemotePool<I> {
    /// A pool over an invoker. `store` may only be absent with [`Transport::Payload`].
    ///
    /// # Errors
    /// If the system refuses threads, or a transport needs a store that is not there.
    pub fn new(
        local: LocalPool,
        invoker: I,
        store: Option<Arc<dyn Store>>,
        settings: RemoteSettings,
        runtime: tokio::runtime::Runtime,
    ) -> std::io::Result<Self> {
        if store.is_none() && settings.transport == Transport::S3 {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "transport s3 needs an object store; give a bucket, or use transport payload",
            ));
        }
        let keys = RunKeys::new(&settings.run)
            .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidInput, e.to_string()))?;
        let inbox = local.inbox();
        let most = settings.concurrency.max(1);
        let permits = Semaphore::new(most as usize);
        let pace = Mutex::new(Pace::new(most));
        let store = store.filter(|_| settings.transport != Transport::Payload);
        let (bill, classes) = (Mutex::default(), Mutex::default());
        let wire = Wire { invoker, store, keys, settings, bill, classes };
        let shared = Arc::new(Shared { wire, permits, pace, alive: Mutex::default() });
        let cancel = watch::Sender::new(0);
        let runtime = Some(runtime);
        Ok(Self {
            local,
            inbox,
            shared,
            runtime,
            cancel,
            constants: ConstantObjects::default(),
            now: (0, 0),
            spent: Vec::new(),
            at_home: false,
        })
    }

    /// Writes the order's frame, and constants that are new.
    fn attempt(&mut self, order: &Order) -> Result<Attempt, Error> {
        let settings = &self.shared.wire.settings;
        let key = order.task.key();
        let names_of = &self.shared.wire.keys;
        let (mut names, mut uploads) = (Vec::new(), Vec::new());
        let mut inputs: Vec<(usize, Source)> = Vec::new();
        let mut parameters = None;
        if self.shared.wire.store.is_some() {
            for at in
                (0..order.call.inputs.len()).filter(|&at| at < 32 && order.constant_inputs >> at & 1 == 1)
            {
                let constant = Constant::Features(key.interval);
                let name = || names_of.features(&format!("i{:05}", key.interval.0));
                let write = || wire::encode_input(&order.call, at, settings.rows);
                if let Some(upload) = self.constants.get(constant, name, write)? {
                    inputs.push((at, Source { object: Some(names.len() as u32), part: 0 }));
                    names.push(upload.key.to_string());
                    uploads.push(upload);
                }
            }
            let size: usize = order.call.parameters.iter().map(|p| p.rows() * p.columns() * 4).sum();
            // One reader would fetch what it might have been sent.
            let shared_by = if settings.transport == Transport::S3 { 2 } else { settings.intervals };
            if size as u64 >= OBJECT_BYTES && shared_by > 1 {
                let (operation, generation) = (order.operation, order.generation);
                let constant = Constant::Weights { operation, generation };
                let name = || names_of.weights(Version(generation), operation);
                let write = || wire::encode_parameters(&order.call);
                if let Some(upload) = self.constants.get(constant, name, write)? {
                    parameters = Some(names.len() as u32);
                    names.push(upload.key.to_string());
                    uploads.push(upload);
                }
            }
        }
        let constants = Constants { inputs: &inputs, parameters };
        let frame = wire::encode_call(
            &settings.run,
            key,
            &order.layer,
            &order.call,
            settings.rows,
            &settings.limits,
            names,
            &constants,
        )?;
        Ok(Attempt { pass: order.pass, key, deadline: order.deadline, frame: frame.into(), uploads })
    }

    /// Forgets constants and deletes objects that no task will read again.
    fn tidy(&mut self, order: &Order) {
        let now = (order.pass, order.task.epoch.0);
        if now == self.now {
            return;
        }
        self.now = now;
        let gone = self.constants.forget_before(order.generation);
        let spent: Vec<Key> = std::mem::take(&mut self.spent).into_iter().chain(gone).collect();
        if let (Some(store), Some(runtime), false) =
            (&self.shared.wire.store, &self.runtime, spent.is_empty())
        {
            let store = store.clone();
            // What cannot be deleted now is at the end, or by the bucket's lifecycle.
            runtime.spawn(async move { drop(store.delete(&spent).await) });
        }
    }
}

/// Something under way: reports once, or takes itself back when it is dropped before.
struct Ticket {
    inbox: Option<Inbox>,
}

impl Ticket {
    fn end(mut self, completion: Completion) {
        if let Some(inbox) = self.inbox.take() {
            inbox.end(completion);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            inbox.forget();
        }
    }
}

impl<I: Invoker> Executor for RemotePool<I> {
    fn submit(&mut self, order: Order) {
        if self.at_home {
            return self.local.submit(order);
        }
        self.tidy(&order);
        self.inbox.begin();
        let ticket = Ticket { inbox: Some(self.inbox.clone()) };
        let (pass, key) = (order.pass, order.task.key());
        let attempt = self.attempt(&order);
        // The leases end here.
        drop(order);
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(error) => {
                let timing = Timing::since(Instant::now(), None);
                return ticket.end(Completion::Task { pass, key, timing, result: Err(error) });
            }
        };
        if self.shared.wire.store.is_some() {
            self.spent.extend(self.shared.wire.keys.task(pass, &key).ok());
            self.spent.extend(self.shared.wire.keys.answer(pass, &key.step()).ok());
        }
        let (shared, inbox) = (self.shared.clone(), self.inbox.clone());
        let mut cancelled = self.cancel.subscribe();
        cancelled.mark_unchanged();
        *lock(&shared.alive) += 1;
        let work = async move {
            let alive = Alive(shared.clone());
            let answered = async {
                // Closed never: the pool lives as long as its runtime.
                let permit = shared.permits.acquire().await;
                let throttled = AtomicBool::new(false);
                let begun = Instant::now();
                let run = shared.wire.run(&attempt, &throttled);
                let result = match attempt.deadline {
                    None => run.await,
                    Some(deadline) => {
                        let mut run = std::pin::pin!(run);
                        tokio::select! {
                            result = &mut run => result,
                            () = tokio::time::sleep(deadline) => {
                                inbox.note(Completion::Overdue { pass, key });
                                run.await
                            }
                        }
                    }
                };
                match lock(&shared.pace).after(throttled.load(Ordering::Relaxed)) {
                    1 => shared.permits.add_permits(1),
                    -1 => permit.into_iter().for_each(tokio::sync::SemaphorePermit::forget),
                    _ => {}
                }
                (result, Timing::since(begun, None))
            };
            tokio::select! {
                biased;
                _ = cancelled.changed() => drop(ticket),
                (result, timing) = answered => {
                    let result = result.map(|answer| Answered::Apart(Box::new(answer)));
                    ticket.end(Completion::Task { pass, key, timing, result });
                    // Afterwards, so that a stop counts it here or there.
                    drop(alive);
                }
            }
        };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        self.local.drain(done, timeout)
    }

    fn is_apart(&self) -> bool {
        !self.at_home
    }

    fn cancel(&mut self) -> u64 {
        let alive = *lock(&self.shared.alive);
        self.at_home = true;
        self.cancel.send_modify(|n| *n += 1);
        alive
    }

    fn numeric_classes(&self) -> Vec<String> {
        lock(&self.shared.wire.classes).iter().cloned().collect()
    }

    fn architecture(&self) -> Option<Architecture> {
        self.shared.wire.settings.architecture
    }

    fn bill(&self) -> Option<Bill> {
        let mut bill = *lock(&self.shared.wire.bill);
        if let Some(store) = &self.shared.wire.store {
            let Counts { gets, puts, lists, heads, bytes_in, bytes_out, .. } = store.counts();
            bill.store_reads += gets + heads;
            bill.store_writes += puts + lists;
            // What comes here goes out there.
            bill.store_bytes_in += bytes_out;
            bill.store_bytes_out += bytes_in;
            bill.store_bytes_host = bytes_in + bytes_out;
            bill.store_bytes_to_host = bytes_in;
        }
        Some(bill)
    }
}

/// Counts an attempt as long as it lives.
struct Alive<I>(Arc<Shared<I>>);

impl<I> Drop for Alive<I> {
    fn drop(&mut self) {
        *lock(&self.0.alive) -= 1;
    }
}

impl<I: Invoker> Compute for RemotePool<I> {
    fn work(&mut self, pass: u32, step: Step, work: Work) {
        self.local.work(pass, step, work);
    }
}

impl<I> Drop for RemotePool<I> {
    fn drop(&mut self) {
        self.cancel.send_modify(|n| *n += 1);
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(store) = self.shared.wire.store.clone() {
            let prefix = self.shared.wire.keys.prefix().to_owned();
            let tidy = async move {
                while let Ok(found) = store.list(&prefix, 1000).await {
                    let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
                    if keys.is_empty() || store.delete(&keys).await.is_err() {
                        break;
                    }
                }
            };
            // A store that does not answer must not hold the run's end up: its lifecycle does the rest.
            runtime.block_on(async { drop(tokio::time::timeout(Duration::from_secs(10), tidy).await) });
        }
        runtime.shutdown_timeout(Duration::from_millis(200));
    }
}
