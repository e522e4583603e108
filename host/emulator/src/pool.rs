//! Pool of running instances. It chooses the instance for each invocation, and limits the number of
//! instances.

use crate::error::Error;
use crate::instance::Instance;
use crate::process::Nursery;
use crate::settings::Function;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Default)]
struct State {
    /// Running processes by number, in the order of their starts.
    live: BTreeMap<u64, Arc<Instance>>,
    /// Idle processes by function. The most recently used one is last.
    idle: HashMap<String, VecDeque<Arc<Instance>>>,
    started: u64,
    /// Number of processes that are being started and are not yet in `live`.
    starting: usize,
    stopping: bool,
}

/// Pool of all instances of an emulator.
pub(crate) struct Pool {
    nursery: Nursery,
    limit: usize,
    cold_start_delay: Duration,
    state: Mutex<State>,
    changed: Notify,
}

/// Instance that was chosen for one invocation.
pub(crate) struct Taken {
    pub(crate) instance: Arc<Instance>,
    /// True if the instance was started for this invocation.
    pub(crate) cold: bool,
}

impl Pool {
    pub(crate) fn new(nursery: Nursery) -> Arc<Pool> {
        let (limit, cold_start_delay) = (nursery.settings.concurrency, nursery.settings.cold_start_delay);
        Arc::new(Pool { nursery, limit, cold_start_delay, state: Mutex::default(), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the most recently used idle instance of the function. If there is none, starts a new
    /// one.
    pub(crate) async fn take(self: &Arc<Self>, function: &Arc<Function>) -> Result<Taken, Error> {
        let (number, evicted) = {
            let mut state = self.state();
            if state.stopping {
                return Err(Error::Stopped);
            }
            if let Some(instance) = state.idle.get_mut(&function.name).and_then(VecDeque::pop_back) {
                return Ok(Taken { instance, cold: false });
            }
            state.started += 1;
            state.starting += 1;
            let full = state.live.len() + state.starting > self.limit;
            (state.started, if full { state.longest_idle() } else { None })
        };
        // An idle instance of another function is ended to make space.
        if let Some(instance) = evicted {
            instance.kill();
        }
        if !self.cold_start_delay.is_zero() {
            tokio::time::sleep(self.cold_start_delay).await;
        }
        let started = self.nursery.start(number, function).await;
        let mut state = self.state();
        state.starting -= 1;
        let process =
            started.map_err(|source| Error::System { operation: "start a worker process", source })?;
        let instance = process.instance.clone();
        let stopping = state.stopping;
        state.live.insert(number, instance.clone());
        drop(state);
        let pool = self.clone();
        tokio::spawn(async move {
            process.keep().await;
            pool.forget(number);
        });
        if stopping {
            instance.kill();
            return Err(Error::Stopped);
        }
        Ok(Taken { instance, cold: true })
    }

    /// Returns an instance to the pool, so that later invocations can use it.
    pub(crate) fn release(&self, instance: Arc<Instance>) {
        instance.set_idle();
        let mut state = self.state();
        if state.live.contains_key(&instance.number) {
            state.idle.entry(instance.function.name.clone()).or_default().push_back(instance);
        }
    }

    fn forget(&self, number: u64) {
        let mut state = self.state();
        if let Some(instance) = state.live.remove(&number)
            && let Some(idle) = state.idle.get_mut(&instance.function.name)
        {
            idle.retain(|other| other.number != number);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn instances(&self) -> Vec<Arc<Instance>> {
        self.state().live.values().cloned().collect()
    }

    /// Kills the process `pid`, which gets no more invocations. Returns false if there is no such
    /// process.
    pub(crate) fn kill(&self, pid: u32) -> bool {
        let found = {
            let mut state = self.state();
            let found = state.live.values().find(|instance| instance.pid == pid).cloned();
            if let Some(idle) =
                found.as_ref().and_then(|instance| state.idle.get_mut(&instance.function.name))
            {
                idle.retain(|other| other.pid != pid);
            }
            found
        };
        if let Some(instance) = &found {
            instance.kill();
        }
        found.is_some()
    }

    /// Kills the instances that have been idle for longer than `limit`.
    pub(crate) fn sweep(&self, limit: Duration) {
        let mut ended = Vec::new();
        for idle in self.state().idle.values_mut() {
            while idle.front().is_some_and(|instance| instance.idle_for() > limit) {
                ended.extend(idle.pop_front());
            }
        }
        for instance in ended {
            instance.kill();
        }
    }

    /// Kills all processes, and prevents the start of new ones.
    pub(crate) fn kill_all(&self) {
        let instances = {
            let mut state = self.state();
            state.stopping = true;
            state.idle.clear();
            state.live.values().cloned().collect::<Vec<_>>()
        };
        for instance in instances {
            instance.kill();
        }
    }

    /// Waits until all processes have ended.
    pub(crate) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state().live.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

impl State {
    /// Removes and returns the instance of any function that has been idle for the longest time.
    fn longest_idle(&mut self) -> Option<Arc<Instance>> {
        let longest = self
            .idle
            .values_mut()
            .filter(|idle| !idle.is_empty())
            .max_by_key(|idle| idle.front().map(|instance| instance.idle_for()))?;
        longest.pop_front()
    }
}
