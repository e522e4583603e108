//! Instance of a function: a process that receives one event at a time, and the results of its
//! events.
//!
//! An instance is a state machine behind a lock. The Runtime API uses it on behalf of the worker,
//! an invocation on behalf of the client, and a third task waits for the process. Each event gets
//! exactly one result, from the task that is first.

use crate::clock::Times;
use crate::log::LogTail;
use crate::processor;
use crate::settings::Function;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};

/// Result of an event that a worker process received.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The worker answered with these bytes.
    Answered(Bytes),
    /// The worker reported an error, which is a JSON document.
    Failed(Bytes),
    /// The answer of the worker exceeds the maximum size.
    TooLarge,
    /// The process ended. The text describes its end in the words of Lambda.
    Exited(String),
    /// The process exceeded the time limit of its function.
    TimedOut,
    /// The process used more resident memory than its function has.
    OutOfMemory,
    /// The process wrote more temporary files than its function may have.
    OutOfDisk,
}

/// Event for a worker process, with its request id and its deadline.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: String,
    pub(crate) payload: Bytes,
    /// Deadline of the event, in milliseconds since 1970.
    pub(crate) deadline_ms: u128,
}

#[derive(Debug)]
struct Assigned {
    work: Work,
    delivered: bool,
    done: oneshot::Sender<Outcome>,
}

/// Phase of a worker process between its start and its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    /// The process was started and has not requested work yet.
    Starting,
    /// The process has requested work. The value is the duration of its initialisation.
    Ready(Duration),
    /// The process has reported with this JSON document that it cannot start.
    InitFailed(Bytes),
    /// The process has ended. The text describes its end.
    Exited(String),
}

/// Processor time of a process since its start, and its modelled waits.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    processor: Duration,
    waits: Duration,
}

/// Measurements of an instance's current event.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Usage at the start of the event. It is zero until the process has requested work.
    from: Used,
    /// Usage at the end of the event, or `None` while the event is running.
    to: Option<Used>,
    /// Sum and number of the correction factors from the reference product.
    factors: (f64, u32),
    /// Additional time of the event because of a fault.
    delay: Duration,
}

#[derive(Debug)]
struct State {
    measured: Measured,
    /// Latest usage that was read, because the processor time of a process cannot be read after its
    /// end.
    used: Used,
    assigned: Option<Assigned>,
    /// Id of the event that got its result last. A second answer to this event is recognised by the
    /// id.
    settled: Option<String>,
    last_delivered: Option<String>,
    /// Number of requests for work so far. Only the latest one is served, because the connection of
    /// an earlier one may be dead.
    asked: u64,
    invocations: u64,
    idle_since: Option<Instant>,
    reaped: bool,
    /// Report of a failed initialisation. It takes precedence over the end of the process, which
    /// follows immediately.
    init_failed: Option<Bytes>,
}

/// Reply of the Runtime API to a worker that answers an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    Accepted,
    /// The event already has a result, or its time limit has passed.
    Late,
    Unknown,
}

/// Worker process of a function, with the state of its current event.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) number: u64,
    pub(crate) pid: u32,
    pub(crate) function: Arc<Function>,
    started: Instant,
    pub(crate) log: Mutex<LogTail>,
    state: Mutex<State>,
    /// Total of the modelled waits for the object store, in microseconds.
    waits_us: AtomicU64,
    /// Highest resident memory that was observed, in bytes.
    memory: AtomicU64,
    phase: watch::Sender<Phase>,
    work_came: Notify,
    delivered: Notify,
}

impl Instance {
    pub(crate) fn new(
        number: u64,
        pid: u32,
        function: Arc<Function>,
        started: Instant,
        log_tail: usize,
    ) -> Self {
        Instance {
            number,
            pid,
            function,
            started,
            log: Mutex::new(LogTail::new(log_tail)),
            waits_us: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            state: Mutex::new(State {
                measured: Measured::default(),
                used: Used::default(),
                assigned: None,
                settled: None,
                last_delivered: None,
                asked: 0,
                invocations: 0,
                idle_since: None,
                reaped: false,
                init_failed: None,
            }),
            phase: watch::Sender::new(Phase::Starting),
            work_came: Notify::new(),
            delivered: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(crate) fn invocations(&self) -> u64 {
        self.state().invocations
    }

    pub(crate) fn busy(&self) -> bool {
        self.state().assigned.is_some()
    }

    pub(crate) fn set_idle(&self) {
        self.state().idle_since = Some(Instant::now());
    }

    pub(crate) fn idle_for(&self) -> Duration {
        self.state().idle_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Reads the usage of the process since its start, and stores it in `state`.
    fn use_now(&self, state: &mut State) -> Used {
        if let Some(processor) = processor::time_of(self.pid) {
            state.used.processor = processor;
        }
        state.used.waits = Duration::from_micros(self.waits_us.load(Ordering::Relaxed));
        state.used
    }

    /// Adds a modelled wait for the object store to the virtual time of the process.
    pub(crate) fn wait(&self, wait: Duration) {
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waits_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Adds a delay to the virtual time of the current event.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state().measured.delay += delay;
    }

    /// Adds a correction factor from the reference product to the current event.
    pub(crate) fn compare(&self, factor: f64) {
        let (sum, count) = &mut self.state().measured.factors;
        (*sum, *count) = (*sum + factor, *count + 1);
    }

    /// Returns the virtual time of the current event so far. Before the process has requested work,
    /// this is the time since its start.
    pub(crate) fn elapsed(&self, times: &Times) -> Duration {
        let (sum, count) = self.state().measured.factors;
        self.elapsed_by(times, if count == 0 { 1.0 } else { sum / f64::from(count) })
    }

    /// Returns a lower bound of the current event's final virtual time. It allows for a lower
    /// correction factor at the end.
    pub(crate) fn least_elapsed(&self, times: &Times) -> Duration {
        let (sum, count) = self.state().measured.factors;
        self.elapsed_by(times, 0.95 * if count == 0 { 1.0 } else { sum / f64::from(count) })
    }

    fn elapsed_by(&self, times: &Times, factor: f64) -> Duration {
        let mut state = self.state();
        let now = self.use_now(&mut state);
        let Measured { from, to, delay, .. } = state.measured;
        let to = to.unwrap_or(now);
        let processor = to.processor.saturating_sub(from.processor).mul_f64(factor);
        times.computing(processor) + to.waits.saturating_sub(from.waits) + delay
    }

    /// Stores the usage at the end of the current event, unless it is already stored.
    fn measure_end(&self, state: &mut State) {
        let now = self.use_now(state);
        state.measured.to.get_or_insert(now);
    }

    /// Waits until the process has requested work, has failed to start, or has ended. Returns its
    /// phase.
    pub(crate) async fn started(&self) -> Phase {
        let mut phase = self.phase.subscribe();
        let found = match phase.wait_for(|phase| *phase != Phase::Starting).await {
            Ok(found) => found.clone(),
            // The sender is a field of `self`, so this cannot happen.
            Err(_) => Phase::Starting,
        };
        match (found, self.state().init_failed.clone()) {
            (Phase::Exited(_), Some(report)) => Phase::InitFailed(report),
            (found, _) => found,
        }
    }

    /// Waits until the process has ended. Returns a description of its end.
    pub(crate) async fn exited(&self) -> String {
        let mut phase = self.phase.subscribe();
        match phase.wait_for(|phase| matches!(phase, Phase::Exited(_))).await.as_deref() {
            Ok(Phase::Exited(how)) => how.clone(),
            _ => String::new(),
        }
    }

    /// Assigns an event to the instance, which must have none. The returned receiver gets the
    /// result of the event.
    pub(crate) fn assign(&self, work: Work) -> oneshot::Receiver<Outcome> {
        let (done, outcome) = oneshot::channel();
        let mut state = self.state();
        if let Phase::Exited(how) = &*self.phase.borrow() {
            let _ = done.send(Outcome::Exited(how.clone()));
            return outcome;
        }
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
        state.measured = Measured { from: self.use_now(&mut state), ..Measured::default() };
        state.invocations += 1;
        state.idle_since = None;
        state.assigned = Some(Assigned { work, delivered: false, done });
        drop(state);
        self.work_came.notify_waiters();
        outcome
    }

    /// Takes the event back when its time limit has passed. A later answer to it is refused as
    /// late.
    pub(crate) fn revoke(&self) {
        let mut state = self.state();
        state.settled = state.assigned.take().map(|assigned| assigned.work.id).or(state.settled.take());
    }

    /// Returns true if the event `id` is the last one that the worker received.
    pub(crate) fn was_delivered_to(&self, id: &str) -> bool {
        self.state().last_delivered.as_deref() == Some(id)
    }

    /// Waits until the worker has received the event `id`.
    pub(crate) async fn delivery(&self, id: &str) {
        loop {
            let delivered = self.delivered.notified();
            if self.was_delivered_to(id) {
                return;
            }
            delivered.await;
        }
    }

    /// Waits for an event, and delivers it to the worker that requests work. Returns `None` if the
    /// worker has not answered its current event, or has sent a newer request meanwhile.
    pub(crate) async fn next(&self) -> Option<(String, Bytes, u128)> {
        let starting = self.phase() == Phase::Starting;
        if starting {
            let mut state = self.state();
            self.measure_end(&mut state);
        }
        self.phase.send_if_modified(|phase| {
            let first = *phase == Phase::Starting;
            if first {
                *phase = Phase::Ready(self.started.elapsed());
            }
            first
        });
        let number = {
            let mut state = self.state();
            state.asked += 1;
            state.asked
        };
        self.work_came.notify_waiters();
        loop {
            let came = self.work_came.notified();
            if self.state().asked != number {
                return None;
            }
            if let Some(delivery) = self.deliver() {
                return delivery;
            }
            came.await;
        }
    }

    /// Delivers the current event. Returns `None` if there is no event, and `Some(None)` if it was
    /// already delivered.
    fn deliver(&self) -> Option<Option<(String, Bytes, u128)>> {
        let mut state = self.state();
        let assigned = state.assigned.as_mut()?;
        if assigned.delivered {
            return Some(None);
        }
        assigned.delivered = true;
        let work = (assigned.work.id.clone(), assigned.work.payload.clone(), assigned.work.deadline_ms);
        state.last_delivered = Some(work.0.clone());
        self.delivered.notify_waiters();
        Some(Some(work))
    }

    /// Returns the reply to a worker that is about to answer the event `id`.
    pub(crate) fn expects(&self, id: &str) -> Settle {
        let state = self.state();
        if state.assigned.as_ref().is_some_and(|assigned| assigned.delivered && assigned.work.id == id) {
            Settle::Accepted
        } else if state.settled.as_deref() == Some(id) {
            Settle::Late
        } else {
            Settle::Unknown
        }
    }

    /// Ends the current event with the result that the worker sent. Returns the reply to the
    /// worker.
    pub(crate) fn settle(&self, id: &str, outcome: Outcome) -> Settle {
        let expected = self.expects(id);
        if expected == Settle::Accepted {
            let mut state = self.state();
            self.measure_end(&mut state);
            if let Some(assigned) = state.assigned.take_if(|assigned| assigned.work.id == id) {
                state.settled = Some(assigned.work.id);
                let _ = assigned.done.send(outcome);
            }
        }
        expected
    }

    /// Records the worker's report that it cannot start. Returns false if the worker has already
    /// requested work.
    pub(crate) fn init_failed(&self, report: Bytes) -> bool {
        let mut state = self.state();
        self.phase.send_if_modified(|phase| {
            let starting = *phase == Phase::Starting;
            if starting {
                state.init_failed = Some(report.clone());
                *phase = Phase::InitFailed(report);
            }
            starting
        })
    }

    /// Kills the process and all its children. [`Instance::exited`] waits until the process has
    /// ended.
    pub(crate) fn kill(&self) {
        let state = self.state();
        // After the process is reaped, its number may belong to another process.
        if !state.reaped
            && let Some(group) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// Kills the remaining children of the process, and disables later kills. It must be called
    /// right after the process was reaped. Process ids are assigned in sequence, so no other
    /// process has this id yet.
    pub(crate) fn kill_for_good(&self) {
        self.kill();
        self.state().reaped = true;
    }

    /// Records that the process has ended, and ends its current event. `how` describes the end.
    pub(crate) fn exit(&self, how: String) {
        let mut state = self.state();
        self.measure_end(&mut state);
        state.reaped = true;
        self.phase.send_replace(Phase::Exited(how.clone()));
        if let Some(assigned) = state.assigned.take() {
            state.settled = Some(assigned.work.id);
            let _ = assigned.done.send(Outcome::Exited(how));
        }
    }

    /// Returns the folder for temporary files of the process, if its function has one.
    pub(crate) fn tmp(&self) -> Option<PathBuf> {
        tmp(&self.function, self.number)
    }

    /// Returns true if the temporary files of the process exceed the limit of its function.
    pub(crate) fn is_past_tmp(&self) -> bool {
        let limit = self.function.tmp.as_ref().map_or(u64::MAX, |tmp| u64::from(tmp.mb) << 20);
        self.tmp().is_some_and(|folder| size(&folder) > limit)
    }

    /// Returns true if the process has used more resident memory than its function has.
    pub(crate) fn is_past_memory(&self) -> bool {
        self.most_memory_bytes() > u64::from(self.function.memory_mb) << 20
    }

    /// Returns the highest resident memory that was observed, in bytes. It is available after the
    /// end of the process as well.
    pub(crate) fn most_memory_bytes(&self) -> u64 {
        let now = self.peak_memory_bytes().unwrap_or_default();
        self.memory.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// Returns the peak resident memory of the running process, in bytes. Returns `None` if the
    /// system does not report it, or if the process has ended.
    pub(crate) fn peak_memory_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }
}

/// Returns the folder for temporary files of the function's process with this number, if any.
pub(crate) fn tmp(function: &Function, number: u64) -> Option<PathBuf> {
    function.tmp.as_ref().map(|tmp| tmp.folder.join(number.to_string()))
}

/// Returns the total size of all files in a folder and its subfolders, in bytes.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn instance() -> Instance {
        Instance::new(1, 0x7fff_fff0, Arc::new(Function::new("f", "/none")), Instant::now(), 100)
    }

    fn work(id: &str) -> Work {
        Work { id: id.into(), payload: Bytes::from_static(b"{}"), deadline_ms: 0 }
    }

    #[tokio::test]
    async fn work_is_delivered_once_and_settled_once() {
        let instance = instance();
        let outcome = instance.assign(work("a"));
        assert_eq!(instance.settle("a", Outcome::TooLarge), Settle::Unknown, "not delivered yet");
        assert_eq!(instance.next().await.unwrap().0, "a");
        assert!(instance.next().await.is_none(), "asks again without an answer");
        assert_eq!(instance.settle("b", Outcome::TooLarge), Settle::Unknown);
        assert_eq!(instance.settle("a", Outcome::Answered(Bytes::from_static(b"1"))), Settle::Accepted);
        assert_eq!(instance.settle("a", Outcome::Answered(Bytes::from_static(b"2"))), Settle::Late);
        let Outcome::Answered(answer) = outcome.await.unwrap() else { panic!("an answer") };
        assert_eq!(answer, "1");
        assert!(!instance.busy());
    }

    #[tokio::test]
    async fn an_exit_settles_what_is_open_and_what_comes_later() {
        let instance = instance();
        let outcome = instance.assign(work("a"));
        instance.next().await.unwrap();
        instance.exit("signal: killed".into());
        assert!(matches!(outcome.await.unwrap(), Outcome::Exited(how) if how == "signal: killed"));
        assert!(matches!(instance.assign(work("b")).await.unwrap(), Outcome::Exited(_)));
        assert_eq!(instance.exited().await, "signal: killed");
    }

    #[tokio::test]
    async fn the_newest_request_for_work_is_served() {
        let instance = Arc::new(instance());
        let first = tokio::spawn({
            let instance = instance.clone();
            async move { instance.next().await.is_none() }
        });
        while instance.state().asked < 1 {
            tokio::task::yield_now().await;
        }
        let second = tokio::spawn({
            let instance = instance.clone();
            async move { instance.next().await.map(|work| work.0) }
        });
        assert!(first.await.unwrap());
        let _outcome = instance.assign(work("a"));
        assert_eq!(second.await.unwrap().as_deref(), Some("a"));
    }

    #[tokio::test]
    async fn revoked_work_is_late() {
        let instance = instance();
        let outcome = instance.assign(work("a"));
        instance.next().await.unwrap();
        instance.revoke();
        assert_eq!(instance.settle("a", Outcome::TooLarge), Settle::Late);
        assert!(outcome.await.is_err());
    }

    #[tokio::test]
    async fn init_is_what_comes_first() {
        let ready = instance();
        let _outcome = ready.assign(work("a"));
        ready.next().await.unwrap();
        assert!(matches!(ready.started().await, Phase::Ready(_)));
        assert!(!ready.init_failed(Bytes::new()));
        let failed = instance();
        assert!(failed.init_failed(Bytes::from_static(b"why")));
        assert_eq!(failed.started().await, Phase::InitFailed(Bytes::from_static(b"why")));
        // The end follows at once, and must not hide the report.
        failed.exit("exit status 1".into());
        assert_eq!(failed.started().await, Phase::InitFailed(Bytes::from_static(b"why")));
    }
}
