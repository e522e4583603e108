//! Windows, which are groups of observations from which the tuner computes the value of a number of
//! functions.

use super::Observation;

/// Number of points of a window at which the tuner compares trials.
pub(super) const MARKS: usize = 64;
/// Fraction of the functions that must be busy for all functions to count as busy.
const FULL: f64 = 0.9;
/// Fraction of a window's time in which all functions must be busy before the tuner increases their
/// number.
const OFTEN: f64 = 0.25;

/// Time in microseconds and cost in US dollars from the start of a window to a point of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mark {
    pub(super) took_us: f64,
    pub(super) usd: f64,
}

impl Mark {
    pub(super) fn between(from: &Observation, to: &Observation) -> Self {
        Self { took_us: to.time_us.saturating_sub(from.time_us) as f64, usd: to.usd - from.usd }
    }

    /// Returns the value (performance per dollar) `n^2 / (time * cost)` of the beginning of a
    /// window. `done` is this part as a fraction of the window.
    pub(super) fn value(self, done: f64) -> f64 {
        let cost = self.took_us * self.usd;
        if cost > 0.0 { done * done / cost } else { f64::INFINITY }
    }
}

/// Measurements of one number of functions in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) value: f64,
    /// Time and cost at the points of a whole window. All are zero if the value was derived instead
    /// of measured.
    pub(super) marks: [Mark; MARKS],
    pub(super) measured: bool,
    pub(super) deep: bool,
    pub(super) waiting: f64,
    pub(super) slope: f64,
}

/// A window that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Observation,
    pub(super) last_us: u64,
    pub(super) marks: [Mark; MARKS],
    pub(super) marked: usize,
    /// Number of waiting tasks, integrated over time, for each half of the window.
    pub(super) waited: [f64; 2],
    pub(super) took: [f64; 2],
    /// Time in which all functions were busy and tasks were waiting, in microseconds.
    pub(super) full: f64,
    /// True if the number of functions changed during the window, so that its measurements are not
    /// used.
    pub(super) spoilt: bool,
}

/// Returns the work between two observations, as a fraction of a window with `tasks` tasks.
pub(super) fn share(from: &Observation, to: &Observation, tasks: u64) -> f64 {
    to.completed.saturating_sub(from.completed) as f64 / tasks as f64
}

impl Level {
    /// Returns these measurements without the part of the window before `since`.
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

    /// Adds an observation to the window. Returns true if the window has ended, after `tasks`
    /// completions.
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
