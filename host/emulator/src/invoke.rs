//! The course of one invocation: throttling, an instance, the work, faults on the way, the bill, the report.

use crate::bill::Bill;
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

/// Asynchronous events and second runs that wait or run, at most; beyond, 429 (events) or nothing (second runs).
pub(crate) const QUEUED_EVENTS: usize = 1000;
/// Idle instances that turn out dead, before an invocation gives up on finding a live one.
const DEAD_INSTANCES: usize = 16;
/// Log lines are on their way for about this long when the answer is there already.
const LOG_LAG: Duration = Duration::from_millis(3);

/// The emulated Lambda service.
pub(crate) struct Lambda {
    pub(crate) settings: Arc<Settings>,
    pub(crate) functions: BTreeMap<String, Arc<Function>>,
    pub(crate) pool: Arc<Pool>,
    bill: Arc<Mutex<Bill>>,
    draw: Mutex<Draw>,
    concurrency: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    requests: AtomicU64,
    born: SystemTime,
}

/// How an invocation that was run ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) payload: Bytes,
    /// A function error: `X-Amz-Function-Error: Unhandled`.
    pub(crate) error: bool,
    /// The answer is to be lost on the way.
    pub(crate) lost: bool,
    /// The end of the log with Lambda's own lines, when it was asked for.
    pub(crate) log: Option<String>,
}

/// Why an invocation was not run.
#[derive(Debug)]
pub(crate) enum Refused {
    Throttled,
    /// The service could not: it is stopping, or no process could be started.
    Service(Error),
}

/// The kinds of function errors that the bill tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Function,
    Crash,
    Timeout,
}

struct Ran {
    instance: Arc<Instance>,
    /// Some when cold.
    init: Option<Duration>,
    duration: Duration,
    outcome: Result<Bytes, (Fault, Bytes)>,
}

impl Lambda {
    pub(crate) fn new(settings: Arc<Settings>, pool: Arc<Pool>, bill: Arc<Mutex<Bill>>) -> Arc<Lambda> {
        let functions = settings
            .functions
            .iter()
            .map(|function| (function.name.clone(), Arc::new(function.clone())))
            .collect();
        Arc::new(Lambda {
            functions,
            pool,
            bill,
            draw: Mutex::new(Draw::new(settings.faults)),
            concurrency: Arc::new(Semaphore::new(settings.concurrency)),
            queue: Arc::new(Semaphore::new(QUEUED_EVENTS)),
            requests: AtomicU64::new(0),
            born: SystemTime::now(),
            settings,
        })
    }

    fn bill(&self) -> MutexGuard<'_, Bill> {
        self.bill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new request's identity, in the form of a UUID.
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

    /// The fate of this event's next run.
    pub(crate) fn fate(&self, function: &Function, payload: &[u8]) -> Fate {
        let active = self.draw.lock().unwrap_or_else(PoisonError::into_inner).active();
        let identity = Draw::identity(active, &function.name, payload);
        self.draw.lock().unwrap_or_else(PoisonError::into_inner).next(identity)
    }

    /// Runs an event and waits for its end. It goes on when the caller does not wait.
    pub(crate) async fn call(
        self: &Arc<Self>,
        function: &Arc<Function>,
        payload: Bytes,
        id: String,
        with_log: bool,
    ) -> Result<Finished, Refused> {
        let fate = self.fate(function, &payload);
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
        let run =
            tokio::spawn(async move { lambda.run(&function, payload, id, fate, with_log, permit).await });
        run.await.unwrap_or(Err(Refused::Service(Error::Stopped)))
    }

    /// Takes an event to run when there is room for it. False: the queue is full.
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
                let _ = lambda.run(&function, payload, id, fate, false, permit).await;
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
        permit: OwnedSemaphorePermit,
    ) -> Result<Finished, Refused> {
        let bytes_in = payload.len() as u64;
        let ran = self.work(function, payload, &id, &fate).await?;
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (payload, fault) = match ran.outcome {
            Ok(answer) => (answer, Fault::None),
            Err((fault, report)) => (report, fault),
        };
        let lost = fate.lose_answer && fault == Fault::None;
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
        // The next call finds the instance warm: it is given back before the answer goes out.
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

    /// Finds an instance and has it work.
    async fn work(
        &self,
        function: &Arc<Function>,
        payload: Bytes,
        id: &str,
        fate: &Fate,
    ) -> Result<Ran, Refused> {
        let mut dead = 0;
        loop {
            let Taken { instance, cold } = self.pool.take(function).await.map_err(Refused::Service)?;
            let init = if cold {
                match self.init(&instance, id).await {
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
            if fate.crash == Some(Crash::Before) {
                instance.kill();
                let how = instance.exited().await;
                return Ok(Ran {
                    instance,
                    init,
                    duration: start.elapsed(),
                    outcome: Err((Fault::Crash, exit_error(id, &how))),
                });
            }
            let deadline = SystemTime::now() + function.timeout;
            let deadline_ms = deadline.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let outcome = instance.assign(Work { id: id.to_owned(), payload: payload.clone(), deadline_ms });
            let outcome = with_faults(&instance, id, outcome, fate);
            let outcome = match tokio::time::timeout_at((start + function.timeout).into(), outcome).await {
                Ok(Some(outcome)) => outcome,
                Ok(None) => Outcome::Exited(instance.exited().await),
                Err(_) => {
                    instance.revoke();
                    instance.kill();
                    let report = timeout_error(id, function.timeout);
                    return Ok(Ran {
                        instance,
                        init,
                        duration: function.timeout,
                        outcome: Err((Fault::Timeout, report)),
                    });
                }
            };
            // A warm process that died before it saw the event: as if it had never been chosen.
            if !cold
                && !instance.was_delivered_to(id)
                && matches!(outcome, Outcome::Exited(_))
                && dead < DEAD_INSTANCES
            {
                dead += 1;
                continue;
            }
            let outcome = match outcome {
                Outcome::Answered(answer) => Ok(answer),
                Outcome::Failed(report) => Err((Fault::Function, report)),
                Outcome::TooLarge => Err((Fault::Function, too_large_error(self.settings.answer_bytes))),
                Outcome::Exited(how) => Err((Fault::Crash, exit_error(id, &how))),
            };
            return Ok(Ran { instance, init, duration: start.elapsed(), outcome });
        }
    }

    /// Waits for a new process's first request for work.
    async fn init(&self, instance: &Instance, id: &str) -> Result<Duration, (Duration, Fault, Bytes)> {
        self.bill().cold_starts += 1;
        let start = Instant::now();
        match tokio::time::timeout(self.settings.init_timeout, instance.started()).await {
            Ok(Phase::Ready(init)) => Ok(init),
            Ok(Phase::InitFailed(report)) => Err((start.elapsed(), Fault::Crash, report)),
            Ok(Phase::Exited(how)) => Err((start.elapsed(), Fault::Crash, exit_error(id, &how))),
            Ok(Phase::Starting) | Err(_) => Err((
                self.settings.init_timeout,
                Fault::Timeout,
                timeout_error(id, self.settings.init_timeout),
            )),
        }
    }
}

/// The outcome of assigned work, with the faults that happen while it runs.
async fn with_faults(
    instance: &Instance,
    id: &str,
    mut outcome: tokio::sync::oneshot::Receiver<Outcome>,
    fate: &Fate,
) -> Option<Outcome> {
    if let Some(Crash::During(delay)) = fate.crash {
        let moment = async {
            instance.delivery(id).await;
            tokio::time::sleep(delay).await;
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
        tokio::time::sleep(delay).await;
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

/// The log's end with Lambda's START, END and REPORT lines.
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
    let used_mb = instance.peak_memory_bytes().map_or(memory_mb.into(), |bytes| bytes.div_ceil(1 << 20));
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
