//! How many helpers a run has: as many as was said, or as an autotuner says while it goes on.
//!
//! Helpers are functions, or, where there are none, compute threads besides the driver's. The tuner
//! ([`eciton_engine::Tuner`]) is told of each completion: what waits, what is under way, the time, and the
//! dollars so far. Those are the pool's bill, in the list's prices for where the host is, and the host's
//! hours. The first epoch is the host's and not shown to the tuner: it is many times slower than those
//! that follow.

use std::time::Instant;

use eciton_engine::{Observation, Tuner, TunerSettings};
use eciton_exec::{Architecture, Cut, Executor, Host, Prices};

use crate::report::{Chosen, Helpers, HelpersUsed};

/// What is paid.
#[derive(Debug, Clone)]
pub(crate) struct Money {
    /// Where functions are charged for.
    pub prices: Option<(Prices, Architecture, Host)>,
    /// A second of the host, whoever works.
    pub host_second_usd: f64,
    /// A second of each helper that may work, where helpers are the host's own.
    pub helper_second_usd: f64,
}

/// The number of helpers, on its way.
#[derive(Debug)]
pub(crate) struct Tuning {
    tuner: Option<Tuner>,
    money: Money,
    begun: Instant,
    /// Tasks of an epoch.
    tasks: u64,
    /// What was seen when the first epoch was over: the tuner counts from there.
    base: Option<Observation>,
    /// Steps of training committed so far.
    committed: u64,
    /// Dollars of helpers until the last change, and when that was.
    helped: (f64, f64),
    used: HelpersUsed,
}

impl Tuning {
    /// `fixed`: so many, and no tuner.
    pub(crate) fn fixed(what: Helpers, count: u32, money: Money) -> Self {
        Self::new(what, None, count, "as set".to_owned(), money)
    }

    /// As a tuner says.
    pub(crate) fn auto(what: Helpers, settings: TunerSettings, money: Money) -> Self {
        let tuner = Tuner::new(settings);
        let count = tuner.functions();
        let why = "the host has not been looked at yet".to_owned();
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

    /// By what the number was cut, where it was.
    pub(crate) fn cut(mut self, cut: Option<&Cut>) -> Self {
        self.used.cut = cut.cloned();
        self
    }

    /// Sets the number that it begins with; now the time begins.
    pub(crate) fn begin(&mut self, machine: &mut (impl Executor + ?Sized)) {
        self.begun = Instant::now();
        machine.set_limit(self.used.last);
    }

    /// A task has ended, on a thread of this machine's or elsewhere.
    pub(super) fn ended(&mut self, thread: Option<u32>) {
        let helped = match self.used.what {
            Helpers::Functions => thread.is_none(),
            Helpers::Threads => thread.is_some_and(|thread| thread > 0),
        };
        *(if helped { &mut self.used.tasks } else { &mut self.used.own_tasks }) += 1;
    }

    /// After a completion: what the tuner changes, once it is done. `committed`: steps of this training,
    /// `None` in an evaluation.
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

    /// What it came to.
    pub(crate) fn used(&self) -> &HelpersUsed {
        &self.used
    }
}
