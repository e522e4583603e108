//! Status of a worker process: its contact with the run, and what it has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::serve::Contact;

/// Contact of a worker with its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No run has answered yet, or the connection was lost.
    #[default]
    Connecting,
    /// All places of the run are taken.
    Waiting,
    /// The worker has a place.
    Connected,
}

/// State of a worker process at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Contact with the run.
    pub state: State,
    /// Time since the last change of the contact, in seconds.
    pub seconds_in_state: f64,
    /// Name of the latest run. `None` if no run has admitted the worker yet.
    pub run: Option<String>,
    /// Place of the worker in the run. `None` if it has none.
    pub place: Option<u32>,
    /// Reason why the latest connection ended. `None` if none has ended.
    pub last_end: Option<String>,
    /// Number of times that a run has admitted the worker.
    pub admissions: u64,
    /// Number of executed tasks and instructions, and the time spent on them, in seconds.
    pub tasks: u64,
    /// Time spent on tasks and instructions, in seconds.
    pub task_seconds: f64,
    /// Size of the cached tensors and of the parameters that the worker owns, in bytes.
    pub cached_bytes: u64,
    /// Number of bytes received from the run.
    pub received_bytes: u64,
    /// Number of bytes sent to the run.
    pub sent_bytes: u64,
}

/// Status of a worker process, which its connections update.
#[derive(Debug)]
pub struct Status {
    /// Time of the last change of the contact, and the parts of the status that such changes set.
    contact: Mutex<(Instant, Snapshot)>,
    tasks: AtomicU64,
    task_us: AtomicU64,
    cached_bytes: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            contact: Mutex::new((Instant::now(), Snapshot::default())),
            tasks: AtomicU64::new(0),
            task_us: AtomicU64::new(0),
            cached_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }
}

impl Status {
    /// Records an event of the worker's connection.
    pub fn contact(&self, contact: &Contact<'_>) {
        let mut now = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, of) = &mut *now;
        *since = Instant::now();
        match *contact {
            Contact::Waits => of.state = State::Waiting,
            Contact::Welcome(run, place) => {
                (of.state, of.run, of.place) = (State::Connected, Some(run.to_owned()), Some(place));
                of.admissions += 1;
            }
            Contact::Lost(reason) => {
                (of.state, of.place, of.last_end) = (State::Connecting, None, Some(reason.to_owned()));
                self.cached_bytes.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Records a task or an instruction that took `took`. The worker caches `cached_bytes` bytes
    /// after it.
    pub fn task(&self, took: Duration, cached_bytes: u64) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.tasks.fetch_add(1, Ordering::Relaxed);
        self.task_us.fetch_add(took_us, Ordering::Relaxed);
        self.cached_bytes.store(cached_bytes, Ordering::Relaxed);
    }

    /// Records bytes that the worker has received from the run.
    pub fn received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records bytes that the worker has sent to the run.
    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the current status.
    #[must_use]
    pub fn now(&self) -> Snapshot {
        let contact = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        let get = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Snapshot {
            seconds_in_state: contact.0.elapsed().as_secs_f64(),
            tasks: get(&self.tasks),
            task_seconds: Duration::from_micros(get(&self.task_us)).as_secs_f64(),
            cached_bytes: get(&self.cached_bytes),
            received_bytes: get(&self.received_bytes),
            sent_bytes: get(&self.sent_bytes),
            ..contact.1.clone()
        }
    }
}
