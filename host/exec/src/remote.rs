//! The remote pool: tasks as frames, through an invoker; graph work on this machine's threads.
//!
//! A task is written into a frame when it is submitted, so that its leases end there. The frame
//! travels inside the request where it fits, else by the object store. What several tasks read (the
//! features of an interval in every epoch, one generation of weights on every interval) is written
//! to the store once and named in the frames; workers keep it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::wire::{self, Answer, Constants, Source};
use eciton_kernel::{Error, Limits};
use eciton_plan::{IntervalId, OperationId, Step, TaskKey, Version};
use eciton_tensor::frame::Encoding;
use eciton_transport::keys::RunKeys;
use eciton_transport::{Carrier, Condition, Counts, INLINE_FRAME_BYTES, Invocation, Key, Reply, Store};
use tokio::sync::{OnceCell, Semaphore, watch};

pub use eciton_plan::Transport;

use crate::deploy::Architecture;
use crate::invoker::{Charge, Invoker};
use crate::local::Inbox;
use crate::{Answered, Bill, Completion, Compute, Executor, LocalPool, Order};

/// Smaller constants are cheaper to send along than to fetch.
const OBJECT_BYTES: u64 = 32 << 10;
/// Generations of weights that stay in the store.
const GENERATIONS: u64 = 3;

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
    objects: HashMap<Constant, Arc<Upload>>,
    /// (pass, epoch) of the newest task, and the keys that attempts of it use.
    now: (u32, u32),
    spent: Vec<Key>,
    /// Cancelled: tasks run here.
    at_home: bool,
}

impl<I> std::fmt::Debug for RemotePool<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemotePool({})", self.shared.settings.run)
    }
}

struct Shared<I> {
    invoker: I,
    store: Option<Arc<dyn Store>>,
    keys: RunKeys,
    settings: RemoteSettings,
    permits: Semaphore,
    pace: Mutex<Pace>,
    bill: Mutex<Bill>,
    alive: Mutex<u64>,
}

/// How many invocations may be under way: one less after each that was throttled, one more after as
/// many as there may be that were not (additive increase, as congestion control has it; requests that
/// were throttled wait, so that a decrease by one at a time is quick enough).
#[derive(Debug)]
struct Pace {
    most: u32,
    now: u32,
    calm: u32,
}

impl Pace {
    /// What follows from one attempt: permits to add (+1), to take away (-1), or neither.
    fn after(&mut self, throttled: bool) -> i32 {
        if throttled {
            self.calm = 0;
            if self.now > 1 {
                self.now -= 1;
                return -1;
            }
        } else if self.now < self.most {
            self.calm += 1;
            if self.calm >= self.now {
                (self.calm, self.now) = (0, self.now + 1);
                return 1;
            }
        }
        0
    }
}

/// What is written to the store once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Constant {
    /// The features of an interval's rows: the same for every stage that reads them.
    Features(IntervalId),
    Weights {
        operation: OperationId,
        generation: u64,
    },
}

/// A constant on its way into the store.
#[derive(Debug)]
struct Upload {
    key: Key,
    bytes: Mutex<Option<Bytes>>,
    done: OnceCell<()>,
}

/// An attempt.
struct Attempt {
    pass: u32,
    key: TaskKey,
    deadline: Option<Duration>,
    frame: Bytes,
    uploads: Vec<Arc<Upload>>,
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
        let pace = Mutex::new(Pace { most, now: most, calm: 0 });
        let store = store.filter(|_| settings.transport != Transport::Payload);
        let (bill, alive) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { invoker, store, keys, settings, permits, pace, bill, alive });
        let cancel = watch::Sender::new(0);
        let runtime = Some(runtime);
        Ok(Self {
            local,
            inbox,
            shared,
            runtime,
            cancel,
            objects: HashMap::new(),
            now: (0, 0),
            spent: Vec::new(),
            at_home: false,
        })
    }

    /// The invoker.
    pub fn invoker(&self) -> &I {
        &self.shared.invoker
    }

    /// Writes the order's frame, and constants that are new.
    fn attempt(&mut self, order: &Order) -> Result<Attempt, Error> {
        let settings = &self.shared.settings;
        let key = order.task.key();
        let names_of = &self.shared.keys;
        let (mut names, mut uploads) = (Vec::new(), Vec::new());
        let mut inputs: Vec<(usize, Source)> = Vec::new();
        let mut parameters = None;
        if self.shared.store.is_some() {
            for at in
                (0..order.call.inputs.len()).filter(|&at| at < 32 && order.constant_inputs >> at & 1 == 1)
            {
                let constant = Constant::Features(key.interval);
                let name = || names_of.features(&format!("i{:05}", key.interval.0));
                let write = || wire::encode_input(&order.call, at, settings.rows);
                if let Some(upload) = constant_upload(&mut self.objects, constant, name, write)? {
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
                if let Some(upload) = constant_upload(&mut self.objects, constant, name, write)? {
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
        let newest = order.generation;
        let old = |constant: &Constant| match constant {
            Constant::Weights { generation, .. } => generation + GENERATIONS <= newest,
            Constant::Features(_) => false,
        };
        let gone: Vec<Key> = self
            .objects
            .extract_if(|constant, _| old(constant))
            .map(|(_, upload)| upload.key.clone())
            .collect();
        let spent: Vec<Key> = std::mem::take(&mut self.spent).into_iter().chain(gone).collect();
        if let (Some(store), Some(runtime), false) = (&self.shared.store, &self.runtime, spent.is_empty()) {
            let store = store.clone();
            // What cannot be deleted now is at the end, or by the bucket's lifecycle.
            runtime.spawn(async move { drop(store.delete(&spent).await) });
        }
    }
}

/// The constant's upload, written if it is new; `None` if it is too small to be worth an object.
fn constant_upload(
    objects: &mut HashMap<Constant, Arc<Upload>>,
    constant: Constant,
    name: impl FnOnce() -> Result<Key, eciton_transport::Error>,
    write: impl FnOnce() -> Result<Vec<u8>, Error>,
) -> Result<Option<Arc<Upload>>, Error> {
    if let Some(upload) = objects.get(&constant) {
        return Ok(Some(upload.clone()));
    }
    let bytes = write()?;
    if (bytes.len() as u64) < OBJECT_BYTES {
        return Ok(None);
    }
    let key = name().map_err(|e| transport(&e))?;
    let upload = Arc::new(Upload { key, bytes: Mutex::new(Some(bytes.into())), done: OnceCell::new() });
    objects.insert(constant, upload.clone());
    Ok(Some(upload))
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

impl<I: Invoker> Shared<I> {
    async fn upload(&self, store: &dyn Store, upload: &Upload) -> Result<(), eciton_transport::Error> {
        let write = || async {
            let bytes = lock(&upload.bytes).clone();
            if let Some(bytes) = bytes {
                store.put(&upload.key, bytes, Condition::Always).await?;
                *lock(&upload.bytes) = None;
            }
            Ok(())
        };
        upload.done.get_or_try_init(write).await.map(|_| ())
    }

    fn charge(&self, charge: Option<Charge>) {
        let Some(charge) = charge else { return };
        let mut bill = lock(&self.bill);
        bill.unreported = bill.unreported.saturating_sub(1);
        bill.billed_ms += charge.billed_ms;
        bill.cold_starts += u64::from(charge.init_ms.is_some());
        bill.gb_seconds += f64::from(charge.memory_mb) / 1024.0 * charge.billed_ms as f64 / 1000.0;
    }

    fn count(&self, requests: u64, throttled: u64) {
        let mut bill = lock(&self.bill);
        // One was counted when it was sent.
        bill.invocations = (bill.invocations + requests).saturating_sub(throttled + 1);
        bill.unreported = (bill.unreported + requests).saturating_sub(throttled + 1);
        bill.throttled += throttled;
    }

    async fn run(&self, attempt: &Attempt, slowed: &AtomicBool) -> Result<Answer, Error> {
        let settings = &self.settings;
        if let Some(store) = &self.store {
            for upload in &attempt.uploads {
                self.upload(&**store, upload).await.map_err(|e| transport(&e))?;
            }
        }
        let key = attempt.key;
        let mut answer_key = None;
        if self.store.is_some() {
            let name = self.keys.answer(attempt.pass, &key.step());
            answer_key = Some(name.map_err(|e| transport(&e))?);
        }
        let fits = attempt.frame.len() as u64 <= INLINE_FRAME_BYTES;
        let carrier = match (&self.store, settings.transport) {
            (None, _) if !fits => {
                return Err(refused(
                    "a task's frame",
                    format!(
                        "it has {} bytes, and a request takes {INLINE_FRAME_BYTES}; use more intervals, or executor.transport = \"auto\"",
                        attempt.frame.len()
                    ),
                ));
            }
            (Some(store), transport_) if !fits || transport_ == Transport::S3 => {
                let name = self.keys.task(attempt.pass, &key).map_err(|e| transport(&e))?;
                let put = store.put(&name, attempt.frame.clone(), Condition::Always);
                put.await.map_err(|e| transport(&e))?;
                let bytes_len = attempt.frame.len() as u64;
                Carrier::Object { key: name, bytes_len }
            }
            _ => Carrier::Inline(attempt.frame.clone()),
        };
        let max_inline_bytes = if settings.transport == Transport::S3 { 0 } else { INLINE_FRAME_BYTES };
        let invocation = Invocation {
            frame: carrier,
            answer_key: answer_key.clone(),
            max_inline_bytes,
            stream: settings.stream,
        };
        let payload = Bytes::from(invocation.to_json().map_err(|e| transport(&e))?);
        {
            let mut bill = lock(&self.bill);
            bill.invocations += 1;
            bill.unreported += 1;
            bill.bytes_to_functions += payload.len() as u64;
        }
        let invoked = match self.invoker.invoke(payload).await {
            Ok(invoked) => invoked,
            Err(error) => {
                let (requests, throttled) = error.requests();
                slowed.store(throttled > 0, Ordering::Relaxed);
                self.count(requests, throttled);
                self.charge(error.charge());
                lock(&self.bill).failed += 1;
                let (place, reason) = (format!("{key}"), error.to_string());
                return Err(if error.is_retryable() {
                    Error::Host { place, reason }
                } else {
                    Error::Wire { place, reason }
                });
            }
        };
        slowed.store(invoked.throttled > 0, Ordering::Relaxed);
        self.count(invoked.requests, invoked.throttled);
        self.charge(invoked.charge);
        lock(&self.bill).bytes_from_functions += invoked.payload.len() as u64;
        let reply = Reply::from_json(&invoked.payload).map_err(|e| transport(&e))?;
        let bytes = match (reply.frame, &self.store, &answer_key) {
            (Carrier::Inline(bytes), ..) => bytes,
            (Carrier::Object { key: found, .. }, Some(store), Some(asked)) if found == *asked => {
                store.get(&found, None).await.map_err(|e| transport(&e))?
            }
            (Carrier::Object { key: found, .. }, ..) => {
                return Err(refused(
                    &key.to_string(),
                    format!("the answer lies at `{found}`, where none was asked for"),
                ));
            }
        };
        let answer = Answer::parse(bytes.into())?;
        let meta = answer.meta();
        {
            let mut bill = lock(&self.bill);
            bill.store_reads += meta.store.gets;
            bill.store_writes += meta.store.puts;
            // What goes out there comes in here.
            bill.store_bytes_in += meta.store.bytes_out;
            bill.store_bytes_out += meta.store.bytes_in;
        }
        if meta.key.step() != key.step() {
            return Err(refused(&key.to_string(), format!("the answer is to {}", meta.key)));
        }
        match meta.error() {
            Some(error) => Err(error),
            None => Ok(answer),
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
                return ticket.end(Completion::Task { pass, key, took: Duration::ZERO, result: Err(error) });
            }
        };
        if self.shared.store.is_some() {
            self.spent.extend(self.shared.keys.task(pass, &key).ok());
            self.spent.extend(self.shared.keys.answer(pass, &key.step()).ok());
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
                let run = shared.run(&attempt, &throttled);
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
                (result, begun.elapsed())
            };
            tokio::select! {
                biased;
                _ = cancelled.changed() => drop(ticket),
                (result, took) = answered => {
                    let result = result.map(|answer| Answered::Apart(Box::new(answer)));
                    ticket.end(Completion::Task { pass, key, took, result });
                    // Afterwards, so that a stop counts it here or there.
                    drop(alive);
                }
            }
        };
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) {
        self.local.drain(done, timeout);
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

    fn architecture(&self) -> Option<Architecture> {
        self.shared.settings.architecture
    }

    fn bill(&self) -> Option<Bill> {
        let mut bill = *lock(&self.shared.bill);
        if let Some(store) = &self.shared.store {
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
    fn work(&mut self, step: Step, work: Box<dyn FnOnce() + Send>) {
        self.local.work(step, work);
    }
}

impl<I> Drop for RemotePool<I> {
    fn drop(&mut self) {
        self.cancel.send_modify(|n| *n += 1);
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(store) = self.shared.store.clone() {
            let prefix = self.shared.keys.prefix().to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_falls_when_throttled_and_recovers() {
        let mut pace = Pace { most: 8, now: 8, calm: 0 };
        for _ in 0..20 {
            pace.after(true);
        }
        assert_eq!(pace.now, 1, "never below one");
        let mut permits = 1;
        for _ in 0..100 {
            permits += pace.after(false);
        }
        assert_eq!((pace.now, permits), (8, 8), "never above the most");
    }
}
