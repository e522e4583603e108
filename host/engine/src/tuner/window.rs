//! Windows: groups of observations, from which the value of a number of functions is computed.

use super::Observation;

/// Number of points in a window at which trials are compared.
pub(super) const MARKS: usize = 64;
/// Share of the limit above which all functions count as busy.
const FULL: f64 = 0.9;
/// Share of a window's time in which all functions must be busy for a step upwards.
const OFTEN: f64 = 0.25;

/// Point of a window: the time in microseconds and the cost in USD since the window's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    pub(super) took_us: f64,
    pub(super) usd: f64,
}

impl Mark {
    pub(super) fn between(from: &Observation, to: &Observation) -> Self {
        Self { took_us: to.time_us.saturating_sub(from.time_us) as f64, usd: to.usd - from.usd }
    }

    /// Returns the value `n^2 / (dt x dollars)` of the first part of a window. `done` is that part
    /// as a share.
    pub(super) fn value(self, done: f64) -> f64 {
        let cost = self.took_us * self.usd;
        if cost > 0.0 { done * done / cost } else { f64::INFINITY }
    }
}

/// Measurements of a number of functions over a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) value: f64,
    /// Points of a whole window. All are zero if the value was derived and not measured.
    pub(super) marks: [Mark; MARKS],
    pub(super) measured: bool,
    pub(super) deep: bool,
    pub(super) waiting: f64,
    pub(super) slope: f64,
}

/// Window that has not ended yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Observation,
    pub(super) last_us: u64,
    pub(super) marks: [Mark; MARKS],
    pub(super) marked: usize,
    /// Number of waiting tasks integrated over time, for each half of the window.
    pub(super) waited: [f64; 2],
    pub(super) took: [f64; 2],
    /// Time in which all functions were busy and tasks were waiting.
    pub(super) full: f64,
    /// True if the number of functions changed during the window. Such a window does not count.
    pub(super) spoilt: bool,
}

/// Returns the work between two observations, as a share of a window.
pub(super) fn share(from: &Observation, to: &Observation, tasks: u64) -> f64 {
    to.completed.saturating_sub(from.completed) as f64 / tasks as f64
}

impl Level {
    /// Returns the work at an observation without the work before `since`.
    pub(super) fn since(
        mut self,
        start: &Observation,
        since: &Observation,
        end: &Observation,
        tasks: u64,
    ) -> Self {
        let before = Mark::between(start, since);
        for mark in &mut self.marks {
            mark.took_us = (mark.took_us - before.took_us).max(0.0);
            mark.usd = (mark.usd - before.usd).max(0.0);
        }
        self.value = Mark::between(since, end).value(share(since, end, tasks));
        self
    }
}

impl Window {
    pub(super) fn begin(seen: &Observation) -> Self {
        Self {
            start: *seen,
            last_us: seen.time_us,
            marks: [Mark::default(); MARKS],
            marked: 0,
            waited: [0.0; 2],
            took: [0.0; 2],
            full: 0.0,
            spoilt: false,
        }
    }

    /// Adds an observation to the window. Returns true if the window has ended.
    pub(super) fn take(&mut self, seen: &Observation, tasks: u64, functions: u32) -> bool {
        let done = seen.completed.saturating_sub(self.start.completed);
        let half = usize::from(done.saturating_mul(2) > tasks);
        let dt = seen.time_us.saturating_sub(self.last_us) as f64;
        self.last_us = seen.time_us;
        self.waited[half] += dt * seen.waiting as f64;
        self.took[half] += dt;
        if seen.waiting > 0 && f64::from(seen.in_flight) >= FULL * f64::from(functions) {
            self.full += dt;
        }
        while self.marked < MARKS && done * MARKS as u64 >= (self.marked as u64 + 1) * tasks {
            self.marks[self.marked] = Mark::between(&self.start, seen);
            self.marked += 1;
        }
        self.marked == MARKS
    }

    pub(super) fn level(&self, functions: u32) -> Level {
        let mean =
            |half: usize| if self.took[half] > 0.0 { self.waited[half] / self.took[half] } else { 0.0 };
        let took: f64 = self.took.iter().sum();
        let all = |sum: f64| if took > 0.0 { sum / took } else { 0.0 };
        let waiting = all(self.waited.iter().sum());
        let slope = if waiting > 0.0 { (mean(1) - mean(0)) / waiting } else { 0.0 };
        let full = all(self.full) >= OFTEN;
        // A tenth of a task waits per function, or the queue grows.
        let deep = full && (waiting >= 0.1 * f64::from(functions) || (waiting >= 1.0 && slope > 0.5));
        let last = self.marks[self.marked.max(1) - 1];
        let value = last.value(self.marked as f64 / MARKS as f64);
        Level { value, marks: self.marks, measured: true, deep, waiting, slope }
    }
}
