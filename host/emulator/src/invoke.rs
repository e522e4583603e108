//! Execution of invocations: throttling, choice of an instance, faults, limits, the bill and the
//! log report.

use crate::bill::Bill;
use crate::clock::{Clock, Ticket, Times};
use crate::error::Error;
use crate::faults::{Crash, Draw, Fate};
use crate::instance::{Instance, Outcome, Phase, Work};
use crate::pool::{Pool, Taken};
use crate::settings::{Function, Settings};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of asynchronous events and second runs that wait or run. More events are refused
/// with the HTTP status 429, and more second runs are omitted.
pub(crate) const QUEUED_EVENTS: usize = 1000;
/// Maximum number of idle instances that one invocation tries if their processes have ended.
const DEAD_INSTANCES: usize = 16;
/// Real time between two comparisons of an instance's virtual time with its limit.
const LOOK: Duration = Duration::from_millis(5);
/// Real time between two comparisons of an instance's memory with its limit.
const MEMORY_LOOK: Duration = Duration::from_millis(25);
/// Real time between two comparisons of an instance's temporary files with their limit.
const TMP_LOOK: Duration = Duration::from_millis(200);
/// Maximum real time, in addition to the time limit, for which a process may use no processor time.
const STUCK: Duration = Duration::from_secs(60);
/// Real time that is added to the deadline of a process if times are virtual.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Description of the end of a process that exceeded its function's memory, in the words of Lambda.
const OUT_OF_MEMORY: &str = "Runtime exited with error: signal: killed";
/// Time for which log lines may arrive after the answer.
const LOG_LAG: Duration = Duration::from_millis(3);

/// The emulated Lambda service, with its functions, instances, faults and counters.
pub(crate) struct Lambda {
    pub(crate) settings: Arc<Settings>,
    pub(crate) functions: BTreeMap<String, Arc<Function>>,
    pub(crate) pool: Arc<Pool>,
    bill: Arc<Mutex<Bill>>,
    draw: Mutex<Draw>,
    /// Virtual clock, if [`Settings::times`] is set. It releases answers in the order of their
    /// virtual times.
    clock: Option<Arc<Clock>>,
    concurrency: Arc<Semaphore>,
    /// Limit on the invocations that compute at the same time if times are virtual. It depends on
    /// the number of this machine's processors. Processes on a common processor would evict each
    /// other's caches, which does not happen in a cloud.
    computing: Semaphore,
    queue: Arc<Semaphore>,
    requests: AtomicU64,
    born: SystemTime,
}

/// Result of an invocation that ran.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) payload: Bytes,
    /// True if the payload is a function error, which the client gets with the header
    /// `X-Amz-Function-Error: Unhandled`.
    pub(crate) error: bool,
    /// True if the answer must not reach the client.
    pub(crate) lost: bool,
    /// End of the log with the `START`, `END` and `REPORT` lines, if the client requested it.
    pub(crate) log: Option<String>,
}

/// Reason why an invocation did not run.
#[derive(Debug)]
pub(crate) enum Refused {
    Throttled,
    /// The service cannot run the invocation, because it is stopping or no process can be started.
    Service(Error),
}

/// Kinds of function errors, which the bill counts separately.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Function,
    Crash,
    Timeout,
}

struct Ran {
    instance: Arc<Instance>,
    /// Duration of the initialisation, or `None` for an instance that was already running.
    init: Option<Duration>,
    duration: Duration,
    outcome: Result<Bytes, (Fault, Bytes)>,
}

impl Lambda {
    pub(crate) fn new(
        settings: Arc<Settings>,
        pool: Arc<Pool>,
        bill: Arc<Mutex<Bill>>,
        clock: Option<Arc<Clock>>,
    ) -> Arc<Lambda> {
        let functions = settings
            .functions
            .iter()
            .map(|function| (function.name.clone(), Arc::new(function.clone())))
            .collect();
        Arc::new(Lambda {
            functions,
            pool,
            bill,
            clock,
            draw: Mutex::new(Draw::new(settings.faults)),
            concurrency: Arc::new(Semaphore::new(settings.concurrency)),
            computing: Semaphore::new(computing(settings.times.as_ref())),
            queue: Arc::new(Semaphore::new(QUEUED_EVENTS)),
            requests: AtomicU64::new(0),
            born: SystemTime::now(),
            settings,
        })
    }

    fn bill(&self) -> MutexGuard<'_, Bill> {
        self.bill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new request id in the form of a UUID.
    pub(crate) fn request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut hash = Sha256::new();
        hash.update(self.born.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes());
        hash.update(std::process::id().to_le_bytes());
        hash.update(number.to_le_bytes());
        let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
    }

    /// Returns the faults of the next run of this event.
    pub(crate) fn fate(&self, function: &Function, payload: &[u8]) -> Fate {
        let active = self.draw.lock().unwrap_or_else(PoisonError::into_inner).active();
        let identity = Draw::identity(active, &function.name, payload);
        self.draw.lock().unwrap_or_else(PoisonError::into_inner).next(identity)
    }

    /// Runs an event, and waits for the result. The run continues if the caller stops waiting.
    pub(crate) async fn call(
        self: &Arc<Self>,
        function: &Arc<Function>,
        payload: Bytes,
        id: String,
        with_log: bool,
    ) -> Result<Finished, Refused> {
        let fate = self.fate(function, &payload);
        let ticket = self.clock.as_ref().map(|clock| clock.arrive(true));
        let permit = self.concurrency.clone().try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !fate.throttle) else {
            self.bill().throttled += 1;
            return Err(Refused::Throttled);
        };
        if fate.double
            && let Ok(place) = self.queue.clone().try_acquire_owned()
        {
            self.bill().doubled += 1;
            self.run_later(function.clone(), payload.clone(), self.request_id(), Fate::default(), place);
        }
        let (lambda, function) = (self.clone(), function.clone());
        let run = tokio::spawn(async move {
            lambda.run(&function, payload, id, fate, with_log, (permit, ticket)).await
        });
        run.await.unwrap_or(Err(Refused::Service(Error::Stopped)))
    }

    /// Queues an asynchronous event, which runs when an instance is available. Returns false if the
    /// queue is full or the call is throttled.
    pub(crate) fn enqueue(self: &Arc<Self>, function: &Arc<Function>, payload: Bytes, id: String) -> bool {
        let fate = self.fate(function, &payload);
        match self.queue.clone().try_acquire_owned() {
            Ok(place) if !fate.throttle => {
                self.run_later(function.clone(), payload, id, fate, place);
                true
            }
            _ => {
                self.bill().throttled += 1;
                false
            }
        }
    }

    fn run_later(
        self: &Arc<Self>,
        function: Arc<Function>,
        payload: Bytes,
        id: String,
        fate: Fate,
        place: OwnedSemaphorePermit,
    ) {
        let lambda = self.clone();
        tokio::spawn(async move {
            if let Ok(permit) = lambda.concurrency.clone().acquire_owned().await {
                // No client gets the answer of this run.
                let fate = Fate { lose_answer: true, ..fate };
                let ticket = lambda.clock.as_ref().map(|clock| clock.arrive(false));
                let _ = lambda.run(&function, payload, id, fate, false, (permit, ticket)).await;
            }
            drop(place);
        });
    }

    async fn run(
        &self,
        function: &Arc<Function>,
        payload: Bytes,
        id: String,
        fate: Fate,
        with_log: bool,
        (permit, ticket): (OwnedSemaphorePermit, Option<Ticket>),
    ) -> Result<Finished, Refused> {
        let bytes_in = payload.len() as u64;
        let ran = self.work(function, payload, (&id, ticket.as_ref()), &fate).await?;
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (payload, fault) = match ran.outcome {
            Ok(answer) => (corrupted(answer, fate.corrupt_answer), Fault::None),
            Err((fault, report)) => (report, fault),
        };
        let lost = fate.lose_answer && fault == Fault::None;
        if let Some(ticket) = ticket {
            // All that follows happens in the order of virtual time: the bill, the next event of
            // the instance, the answer.
            ticket.end(ran.init.is_some(), ran.init.unwrap_or_default() + ran.duration, !lost).await;
        }
        let billed_ms = {
            let mut bill = self.bill();
            bill.invocations += 1;
            bill.payload_bytes_in += bytes_in;
            bill.function_errors += u64::from(fault != Fault::None);
            bill.crashes += u64::from(fault == Fault::Crash);
            bill.timeouts += u64::from(fault == Fault::Timeout);
            if lost {
                bill.lost_answers += 1;
            } else {
                bill.payload_bytes_out += payload.len() as u64;
            }
            bill.charge(ran.init.map_or(0, us), us(ran.duration), function.memory_mb)
        };
        let mut log = None;
        if with_log {
            tokio::time::sleep(LOG_LAG).await;
            log = Some(report(&self.settings, &ran.instance, &id, ran.init, ran.duration, billed_ms));
        }
        // The instance is released before the answer is sent, so that the next call finds it warm.
        if matches!(fault, Fault::None | Fault::Function) {
            if fate.crash == Some(Crash::After) {
                ran.instance.kill();
            } else {
                self.pool.release(ran.instance);
            }
        } else {
            ran.instance.kill();
        }
        drop(permit);
        Ok(Finished { payload, error: fault != Fault::None, lost, log })
    }

    /// Takes an instance from the pool, and runs the event on it until the event has a result.
    async fn work(
        &self,
        function: &Arc<Function>,
        payload: Bytes,
        (id, ticket): (&str, Option<&Ticket>),
        fate: &Fate,
    ) -> Result<Ran, Refused> {
        let times = ticket.map(|ticket| ticket.clock.times);
        let stopped = |_| Refused::Service(Error::Stopped);
        let _turn = match times {
            Some(_) => Some(self.computing.acquire().await.map_err(stopped)?),
            None => None,
        };
        let mut dead = 0;
        loop {
            let Taken { instance, cold } = self.pool.take(function).await.map_err(Refused::Service)?;
            if let Some(ticket) = ticket {
                ticket.works(&instance, cold);
            }
            let init = if cold {
                match self.init(&instance, id, times.as_ref()).await {
                    Ok(init) => Some(init),
                    Err((init, fault, report)) => {
                        return Ok(Ran {
                            instance,
                            init: Some(init),
                            duration: Duration::ZERO,
                            outcome: Err((fault, report)),
                        });
                    }
                }
            } else {
                None
            };
            let start = Instant::now();
            let took = |instance: &Instance| match &times {
                Some(times) => instance.elapsed(times),
                None => start.elapsed(),
            };
            if fate.crash == Some(Crash::Before) {
                instance.kill();
                let how = instance.exited().await;
                return Ok(Ran {
                    instance,
                    init,
                    duration: times.map_or_else(|| start.elapsed(), |_| Duration::ZERO),
                    outcome: Err((Fault::Crash, exit_error(id, &how))),
                });
            }
            // A process cannot read virtual time, so it gets a deadline that it will not reach.
            let patience = if times.is_some() { PATIENCE } else { Duration::ZERO };
            let deadline = SystemTime::now() + function.timeout + patience;
            let deadline_ms = deadline.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let outcome = instance.assign(Work { id: id.to_owned(), payload: payload.clone(), deadline_ms });
            if let Some(ticket) = ticket {
                ticket.works(&instance, cold);
            }
            let outcome = with_faults(&instance, id, outcome, fate, times.as_ref());
            let outcome = tokio::select! {
                outcome = outcome => match outcome {
                    Some(outcome) => outcome,
                    None => Outcome::Exited(instance.exited().await),
                },
                () = past_limit(&instance, start, times.as_ref()) => Outcome::TimedOut,
                () = past_memory(&instance) => Outcome::OutOfMemory,
                () = past_tmp(&instance) => Outcome::OutOfDisk,
            };
            // If a warm process died before it received the event, another instance is chosen.
            if !cold
                && !instance.was_delivered_to(id)
                && matches!(outcome, Outcome::Exited(_))
                && dead < DEAD_INSTANCES
            {
                dead += 1;
                continue;
            }
            let mut duration = took(&instance);
            let outcome = match outcome {
                Outcome::Answered(_) | Outcome::Failed(_) if duration > function.timeout => Outcome::TimedOut,
                Outcome::Answered(_) | Outcome::Failed(_) if instance.is_past_memory() => {
                    Outcome::OutOfMemory
                }
                other => other,
            };
            let outcome = match outcome {
                Outcome::Answered(answer) => Ok(answer),
                Outcome::Failed(report) => Err((Fault::Function, report)),
                Outcome::TooLarge => Err((Fault::Function, too_large_error(self.settings.answer_bytes))),
                Outcome::Exited(how) => Err((Fault::Crash, exit_error(id, &how))),
                Outcome::TimedOut => {
                    duration = function.timeout;
                    instance.revoke();
                    instance.kill();
                    Err((Fault::Timeout, timeout_error(id, function.timeout)))
                }
                Outcome::OutOfMemory => {
                    instance.revoke();
                    instance.kill();
                    Err((Fault::Crash, exit_error(id, OUT_OF_MEMORY)))
                }
                Outcome::OutOfDisk => {
                    instance.revoke();
                    instance.kill();
                    let mb = function.tmp.as_ref().map_or(0, |tmp| tmp.mb);
                    let how = format!("Runtime exited with error: no space left in /tmp ({mb} MB)");
                    Err((Fault::Crash, exit_error(id, &how)))
                }
            };
            return Ok(Ran { instance, init, duration, outcome });
        }
    }

    /// Waits until a new process requests work. Returns the duration of its initialisation, or the
    /// error with which the invocation fails.
    async fn init(
        &self,
        instance: &Instance,
        id: &str,
        times: Option<&Times>,
    ) -> Result<Duration, (Duration, Fault, Bytes)> {
        self.bill().cold_starts += 1;
        let start = Instant::now();
        let phase = tokio::time::timeout(self.settings.init_timeout, instance.started()).await;
        let took = times.map_or_else(|| start.elapsed(), |times| instance.elapsed(times));
        match phase {
            Ok(Phase::Ready(init)) => Ok(if times.is_some() { took } else { init }),
            Ok(Phase::InitFailed(report)) => Err((took, Fault::Crash, report)),
            Ok(Phase::Exited(how)) => Err((took, Fault::Crash, exit_error(id, &how))),
            Ok(Phase::Starting) | Err(_) => Err((
                self.settings.init_timeout,
                Fault::Timeout,
                timeout_error(id, self.settings.init_timeout),
            )),
        }
    }
}

/// Returns the maximum number of invocations that compute at the same time if times are virtual.
fn computing(times: Option<&Times>) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let of_one = times.map_or(1.0, |times| times.cores.ceil().max(1.0));
    ((processors as f64 / of_one) as usize).max(1)
}

/// Waits until the current event of `instance` exceeds the time limit of its function. The time is
/// virtual if `times` is given. The wait also ends if the process uses no processor time for too
/// long.
async fn past_limit(instance: &Instance, start: Instant, times: Option<&Times>) {
    let limit = instance.function.timeout;
    let Some(times) = times else {
        return tokio::time::sleep_until((start + limit).into()).await;
    };
    let (mut last, mut moved) = (Duration::ZERO, Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let elapsed = instance.elapsed(times);
        if elapsed > last + Duration::from_millis(1) {
            (last, moved) = (elapsed, Instant::now());
        }
        if elapsed > limit || moved.elapsed() > limit + STUCK {
            return;
        }
    }
}

/// Waits until the temporary files of an instance exceed the limit of its function.
async fn past_tmp(instance: &Instance) {
    while !instance.is_past_tmp() {
        tokio::time::sleep(TMP_LOOK).await;
    }
}

/// Waits until the process of an instance has used more resident memory than its function has.
async fn past_memory(instance: &Instance) {
    while !instance.is_past_memory() {
        tokio::time::sleep(MEMORY_LOOK).await;
    }
}

/// Returns `answer` with one changed byte. `position` is the position of this byte, as a fraction
/// of the length. If `None`, no byte is changed.
fn corrupted(answer: Bytes, position: Option<f64>) -> Bytes {
    let Some(position) = position else { return answer };
    let mut bytes = answer.to_vec();
    let at = (position * bytes.len() as f64) as usize;
    // A change of the lowest bit keeps text printable.
    bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1);
    bytes.into()
}

/// Waits for the result of a delivered event, and injects the faults that happen while the event
/// runs.
async fn with_faults(
    instance: &Instance,
    id: &str,
    mut outcome: tokio::sync::oneshot::Receiver<Outcome>,
    fate: &Fate,
    times: Option<&Times>,
) -> Option<Outcome> {
    if let Some(Crash::During(delay)) = fate.crash {
        let moment = async {
            instance.delivery(id).await;
            match times {
                None => tokio::time::sleep(delay).await,
                Some(times) => {
                    while instance.elapsed(times) < delay {
                        tokio::time::sleep(LOOK).await;
                    }
                }
            }
        };
        tokio::select! {
            outcome = &mut outcome => if let Ok(Outcome::Exited(how)) = outcome { return Some(Outcome::Exited(how)) },
            () = moment => {}
        }
        instance.kill();
        return Some(Outcome::Exited(instance.exited().await));
    }
    let outcome = outcome.await.ok();
    if let (Some(delay), Some(Outcome::Answered(_))) = (fate.straggle, &outcome) {
        match times {
            None => tokio::time::sleep(delay).await,
            Some(_) => instance.delay(delay),
        }
    }
    outcome
}

fn exit_error(id: &str, how: &str) -> Bytes {
    function_error("Runtime.ExitError", &format!("RequestId: {id} Error: {how}"))
}

fn timeout_error(id: &str, timeout: Duration) -> Bytes {
    function_error(
        "Sandbox.Timedout",
        &format!("RequestId: {id} Error: Task timed out after {:.2} seconds", timeout.as_secs_f64()),
    )
}

fn too_large_error(limit: usize) -> Bytes {
    function_error(
        "Function.ResponseSizeTooLarge",
        &format!("Response payload size exceeded maximum allowed payload size ({limit} bytes)."),
    )
}

fn function_error(kind: &str, message: &str) -> Bytes {
    serde_json::json!({ "errorType": kind, "errorMessage": message }).to_string().into()
}

/// Returns the end of the instance's log with the `START`, `END` and `REPORT` lines of Lambda.
fn report(
    settings: &Settings,
    instance: &Instance,
    id: &str,
    init: Option<Duration>,
    duration: Duration,
    billed_ms: u64,
) -> String {
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let memory_mb = instance.function.memory_mb;
    let used_mb = instance.most_memory_bytes().div_ceil(1 << 20).min(memory_mb.into());
    let mut text = format!("START RequestId: {id} Version: $LATEST\n");
    text += &instance.log.lock().unwrap_or_else(PoisonError::into_inner).text();
    text += &format!(
        "END RequestId: {id}\nREPORT RequestId: {id}\tDuration: {:.2} ms\tBilled Duration: {billed_ms} ms\t",
        ms(duration)
    );
    text += &format!("Memory Size: {memory_mb} MB\tMax Memory Used: {used_mb} MB\t");
    if let Some(init) = init {
        text += &format!("Init Duration: {:.2} ms\t", ms(init));
    }
    text.push('\n');
    let start = text.len().saturating_sub(settings.log_tail);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.split_off(start)
}
