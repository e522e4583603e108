//! The world of a simulated run, which decides the outcome of each attempt on a virtual clock.

use super::{Random, hash};
use crate::{Event, Settings};
use eciton_types::{IntervalId, Round, StageId, Step, TaskKey};
use std::collections::BTreeMap;

/// Probabilities of the faults in a simulated world, in percent. Each applies to one attempt unless
/// stated otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Probability that a report is delivered twice. It also applies to reports of the driver's own
    /// work.
    pub doubled: u64,
    /// Probability that the attempt fails after its usual time.
    pub failing: u64,
    /// Probability that the attempt fails immediately.
    pub throttled: u64,
    /// Probability that an attempt which was reported as failed is answered later.
    pub recovering: u64,
    /// Probability that the attempt is never reported. Without deadlines, the attempt fails
    /// instead.
    pub lost: u64,
    /// Probability that the attempt takes twenty times its usual time.
    pub straggling: u64,
    /// Probability that the attempt takes a thousand times its usual time, which is longer than
    /// several rounds.
    pub late: u64,
    /// Probability that a step of the host takes twenty times its usual time.
    pub slow_host: u64,
    /// Probability that all steps of an interval take five times their usual time.
    pub uneven: u64,
    /// Probability that a timer expires although its attempt was already reported.
    pub stale: u64,
    /// Probability, for each event, of an additional event that no action asked for.
    pub noise: u64,
}

impl Faults {
    pub(super) const ROUGH: Self = Self {
        doubled: 20,
        failing: 15,
        throttled: 10,
        recovering: 30,
        lost: 10,
        straggling: 10,
        late: 5,
        slow_host: 0,
        uneven: 0,
        stale: 20,
        noise: 5,
    };

    /// Faults because of which intervals are in different rounds.
    pub(super) const APART: Self = Self { slow_host: 10, uneven: 30, ..Self::ROUGH };

    /// Faults because of which most attempts fail.
    pub(super) const HOSTILE: Self = Self { failing: 25, lost: 45, late: 20, ..Self::ROUGH };
}

/// A step at which every attempt fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doomed {
    pub step: Step,
    pub retryable: bool,
}

/// An event of the simulated world, or a timer of the driver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Event(Event),
    /// Timer of an attempt. The number is the time at which the attempt was launched, in
    /// microseconds.
    Timer(TaskKey, u64),
}

/// World that decides the outcome of attempts. One attempt at each step, chosen at random, is
/// always answered. All other attempts may have faults.
#[derive(Debug)]
pub(super) struct World {
    settings: Settings,
    faults: Faults,
    seed: u64,
    pub doomed: Option<Doomed>,
    /// Step whose attempts are never reported.
    pub silent: Option<Step>,
    pub random: Random,
    pub now_us: u64,
    coming: BTreeMap<(u64, u64), Item>,
}

impl World {
    pub(super) fn new(settings: Settings, faults: Faults, seed: u64) -> Self {
        let random = Random(seed ^ 0x0000_7000_0000);
        let coming = BTreeMap::new();
        Self { settings, faults, seed, doomed: None, silent: None, random, now_us: 0, coming }
    }

    /// Returns the next event in the order of virtual time, or `None` if there is none.
    pub(super) fn next(&mut self) -> Option<Item> {
        if self.random.percent(self.faults.noise) {
            return Some(Item::Event(self.noise()));
        }
        let ((time_us, _), item) = self.coming.pop_first()?;
        self.now_us = time_us;
        if let Item::Event(event) = item
            && !matches!(event, Event::Started | Event::Cancelled)
            && self.random.percent(self.faults.doubled)
        {
            let delay_us = self.random.below(60_000);
            self.after(delay_us, event);
        }
        Some(item)
    }

    pub(super) fn after(&mut self, delay_us: u64, event: Event) {
        self.put(delay_us, Item::Event(event));
    }

    /// Schedules the end of the driver's own work, such as an update, after a random time.
    pub(super) fn soon(&mut self, event: Event) {
        let delay_us = self.random.below(3000);
        self.after(delay_us, event);
    }

    /// Returns the factor by which the steps of an interval take longer than usual.
    fn slowness(&self, interval: IntervalId) -> u64 {
        let chance = hash(&[self.seed, interval.0.into()]) % 100;
        if chance < self.faults.uneven { 5 } else { 1 }
    }

    /// Schedules the end of a step of the host.
    pub(super) fn begin(&mut self, key: TaskKey) {
        let usual_us = self.random.below(3000) * self.slowness(key.interval);
        // Asked only where it can be, so that runs without keep their random numbers.
        let slow = self.faults.slow_host > 0 && self.random.percent(self.faults.slow_host);
        let took_us = usual_us * if slow { 20 } else { 1 };
        self.after(took_us, Event::Completed { key, took_us });
    }

    pub(super) fn timer(&mut self, at_us: u64, key: TaskKey, launched_us: u64) {
        self.put(at_us.saturating_sub(self.now_us), Item::Timer(key, launched_us));
    }

    /// Returns true if the timer of a reported attempt expires nevertheless.
    pub(super) fn is_stale_told(&mut self) -> bool {
        self.random.percent(self.faults.stale)
    }

    fn put(&mut self, delay_us: u64, item: Item) {
        // Of things at the same time any may come first.
        let place = (self.now_us + delay_us, self.random.next());
        let before = self.coming.insert(place, item);
        assert!(before.is_none(), "two random numbers are equal");
    }

    /// Schedules the reports about a new attempt, which depend on its faults.
    pub(super) fn launch(&mut self, key: TaskKey) {
        let Faults { failing, throttled, recovering, straggling, late, .. } = self.faults;
        let slowness = self.slowness(key.interval);
        let random = &mut self.random;
        let usual_us = 1000 + 500 * (u64::from(key.stage.0) * 5 % 7) + random.below(1000);
        let usual_us = usual_us * slowness;
        let took_us = match () {
            () if random.percent(late) => usual_us * 1000,
            () if random.percent(straggling) => usual_us * 20,
            () => usual_us,
        };
        let may_be_lost = self.settings.deadlines.is_some();
        let lost = random.percent(self.faults.lost);
        if self.silent == Some(key.step()) {
            return;
        }
        if let Some(doomed) = self.doomed.filter(|doomed| doomed.step == key.step()) {
            let last = key.attempt.0 + 1 == self.settings.attempts;
            // Were all lost nothing would be told of the defect.
            if !(lost && may_be_lost && !last) {
                self.after(took_us, Event::Failed { key, retryable: doomed.retryable });
            }
            return;
        }
        let sure = hash(&[self.seed, key.round.0.into(), key.stage.0.into(), key.interval.0.into()]);
        let sure = sure % u64::from(self.settings.attempts);
        if u64::from(key.attempt.0) == sure {
            self.after(took_us, Event::Completed { key, took_us });
        } else if lost && may_be_lost {
            // Silence.
        } else if lost || random.percent(failing + throttled) {
            let delay_us = if random.percent(throttled) { 1 + random.below(200) } else { took_us };
            let recovers = random.percent(recovering);
            self.after(delay_us, Event::Failed { key, retryable: true });
            if recovers {
                let took_us = delay_us + self.random.below(5000);
                self.after(took_us, Event::Completed { key, took_us });
            }
        } else {
            self.after(took_us, Event::Completed { key, took_us });
        }
    }

    /// Returns a random event that no action asked for.
    fn noise(&mut self) -> Event {
        let random = &mut self.random;
        let Settings { first, last, intervals, attempts, .. } = self.settings;
        let far = Round(last.0 + 1 + random.below(3) as u32);
        let (stage, beyond) = (StageId(random.below(99) as u16), random.below(99) as u32);
        let attempt = eciton_types::Attempt(random.below(3) as u32);
        let far_key = TaskKey { round: far, stage, interval: IntervalId(beyond), attempt };
        // Of a round that may be on, but of no interval, or no attempt.
        let key = if random.percent(50) {
            TaskKey { round: first, stage, interval: IntervalId(intervals + beyond), attempt }
        } else {
            let attempt = eciton_types::Attempt(attempts + attempt.0);
            TaskKey { round: first, stage, interval: IntervalId(0), attempt }
        };
        match random.below(6) {
            0 => Event::Completed { key: far_key, took_us: 1 },
            1 => Event::Completed { key, took_us: random.next() },
            2 => Event::Failed { key, retryable: false },
            3 => Event::Overdue(key),
            4 => Event::Updated { round: far },
            _ => Event::Evaluated { round: far },
        }
    }
}
