//! Control of the number of helpers in a run. The number is fixed, or an autotuner changes it.
//!
//! Helpers are functions or, without functions, compute threads in addition to the driver's. The
//! tuner ([`eciton_engine::Tuner`]) observes each completion: the waiting tasks, the tasks in
//! flight, the time, and the cost so far. The cost consists of the bill for functions at list
//! prices, and of the time of the host. The first epoch runs on the host, and the tuner does not
//! observe it, because it is many times slower than later epochs.

use std::time::Instant;

use eciton_engine::{Observation, Tuner, TunerSettings};
use eciton_exec::{Architecture, Cut, Executor, Host, Prices};
use eciton_runs::report::{Chosen, Helpers, HelpersUsed};

/// Prices from which the autotuner computes the cost of a run.
#[derive(Debug, Clone)]
pub(crate) struct Money {
    /// Prices of functions, with the functions' architecture and the host's location. `None` if
    /// functions are free.
    pub prices: Option<(Prices, Architecture, Host)>,
    /// Price of the host in dollars per second, which does not depend on the number of helpers.
    pub host_second_usd: f64,
    /// Price of each helper in dollars per second, if helpers are threads of the host.
    pub helper_second_usd: f64,
}

/// Controller of the number of helpers (functions or additional compute threads). It also counts
/// their tasks for the report.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: Option<Tuner>,
    money: Money,
    begun: Instant,
    /// Number of tasks per epoch.
    tasks: u64,
    /// Observation at the end of the first epoch. Later observations are relative to it.
    base: Option<Observation>,
    /// Number of training steps that were committed so far.
    committed: u64,
    /// Cost of the helpers in dollars until the last decision, and the time of that decision in
    /// seconds since the start.
    helped: (f64, f64),
    used: HelpersUsed,
}

impl Tuning {
    /// Creates a controller that keeps the number of helpers at `count`.
    pub(crate) fn fixed(what: Helpers, count: u32, money: Money) -> Self {
        Self::new(what, None, count, "as set".to_owned(), money)
    }

    /// Creates a controller in which an autotuner changes the number of helpers.
    pub(crate) fn auto(what: Helpers, settings: TunerSettings, money: Money) -> Self {
        let tuner = Tuner::new(settings);
        let count = tuner.functions();
        let why = "the host has not been measured yet".to_owned();
        Self { tasks: settings.tasks, ..Self::new(what, Some(tuner), count, why, money) }
    }

    fn new(what: Helpers, tuner: Option<Tuner>, count: u32, why: String, money: Money) -> Self {
        let auto = tuner.is_some();
        let used = HelpersUsed {
            what,
            auto,
            least: count,
            last: count,
            most: count,
            changes: 0,
            why,
            cut: None,
            tasks: 0,
            own_tasks: 0,
        };
        Self {
            tuner,
            money,
            begun: Instant::now(),
            tasks: 0,
            base: None,
            committed: 0,
            helped: (0.0, 0.0),
            used,
        }
    }

    /// Records the account limit that reduced the number of helpers, for the report.
    pub(crate) fn cut(mut self, cut: Option<&Cut>) -> Self {
        self.used.cut = cut.cloned();
        self
    }

    /// Starts the clock, and sets the initial number of helpers on the executor.
    pub(crate) fn begin(&mut self, machine: &mut (impl Executor + ?Sized)) {
        self.begun = Instant::now();
        machine.set_limit(self.used.last);
    }

    /// Counts a finished task. `thread` is the thread of this machine that ran it, or `None` if a
    /// function or worker did.
    pub(super) fn ended(&mut self, thread: Option<u32>) {
        let helped = match self.used.what {
            Helpers::Functions => thread.is_none(),
            Helpers::Threads => thread.is_some_and(|thread| thread > 0),
        };
        *(if helped { &mut self.used.tasks } else { &mut self.used.own_tasks }) += 1;
    }

    /// Lets the autotuner observe a completion. If it makes a decision, the number of helpers is
    /// changed, and the decision is returned. `committed` is the number of committed training
    /// steps, or `None` during an evaluation.
    pub(super) fn observe(
        &mut self,
        machine: &mut (impl Executor + ?Sized),
        committed: Option<u64>,
    ) -> Option<Chosen> {
        let tuner = self.tuner.as_mut()?;
        self.committed = committed.unwrap_or(self.committed);
        let seconds = self.begun.elapsed().as_secs_f64();
        let Money { prices, host_second_usd, helper_second_usd } = &self.money;
        let eciton_exec::Usage { load, bill, .. } = machine.usage();
        let charged = bill.zip(prices.as_ref());
        let usd =
            |(bill, (prices, architecture, host)): (eciton_exec::Bill, &(Prices, Architecture, Host))| {
                bill.cost(prices, *architecture, host).usd
            };
        let charged = charged.map_or(0.0, usd);
        let helped =
            self.helped.0 + (seconds - self.helped.1) * f64::from(self.used.last) * helper_second_usd;
        let seen = Observation {
            time_us: (seconds * 1e6) as u64,
            waiting: load.waiting,
            in_flight: load.in_flight,
            completed: self.committed,
            usd: host_second_usd * seconds + charged + helped,
        };
        if self.base.is_none() && seen.completed < self.tasks {
            return None;
        }
        let base = *self.base.get_or_insert(seen);
        let decision = tuner.observe(&Observation {
            time_us: seen.time_us - base.time_us,
            completed: seen.completed - base.completed,
            usd: seen.usd - base.usd,
            ..seen
        })?;
        self.helped = (helped, seconds);
        if decision.from != decision.to {
            machine.set_limit(decision.to);
            self.used.changes += 1;
        }
        let why = decision.why.to_string();
        self.used.least = self.used.least.min(decision.to);
        self.used.most = self.used.most.max(decision.to);
        (self.used.last, self.used.why) = (decision.to, why.clone());
        Some(Chosen { what: self.used.what, seconds, from: decision.from, to: decision.to, why })
    }

    /// Returns the numbers of helpers and of their tasks so far, for the report.
    pub(crate) fn used(&self) -> &HelpersUsed {
        &self.used
    }
}
