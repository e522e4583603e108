//! Handling of reports about attempts: success, failure, an exceeded deadline, and a cancelled run.

use super::{Engine, Phase, planted};
use crate::attempts::{Progress, Report};
use crate::event::{Action, Reason};
use eciton_recipe::WeightVersions;
use eciton_types::{Attempt, Step, Task, TaskKey};

/// Index of the step that an event names. The variant says in which round the step is.
#[derive(Clone, Copy)]
enum Found {
    /// The step is in the current round of its interval.
    Now(usize),
    /// The step is in the last round of its interval, and the run has ended.
    Over(usize),
    /// The step is in an earlier round of its interval.
    Earlier(usize),
}

impl Engine {
    pub(super) fn completed(&mut self, key: TaskKey, took_us: u64) {
        let at = self.lane_reported(key);
        let Some(found) = self.find(key.step()) else { return };
        let Found::Now(place) = found else { return self.report_late(found, key) };
        let task = self.is_task(key.stage, key.interval);
        self.held_at(key.step(), at);
        let attempts = &mut self.steps[place].attempts;
        match (attempts.progress(), attempts.report(key.attempt)) {
            (_, Report::Unknown) => self.counters.unexpected += 1,
            // The first answer counts, whichever attempt it is from, even if that was reported as
            // failed.
            (Progress::Running, report) => {
                self.counters.committed += u64::from(task);
                self.counters.recovered += u64::from(report == Report::Again);
                if let Some(deadlines) = &self.settings.deadlines {
                    self.stages[key.stage.index()].pace.observe(took_us, deadlines);
                }
                self.actions.push_back(Action::Commit(key));
                self.close_reading(key.step());
                self.done(place, key.step());
            }
            (_, Report::First) => {
                self.counters.duplicates += 1;
                self.held_again(key.step(), at);
                if planted!(self, DuplicateCommitted) {
                    self.actions.push_back(Action::Commit(key));
                }
                if planted!(self, RelaunchCounted) && key.attempt.0 > 0 {
                    self.count(key.step());
                }
            }
            (_, Report::Again) => self.counters.ignored += 1,
        }
    }

    pub(super) fn failed(&mut self, key: TaskKey, retryable: bool) {
        self.lane_reported(key);
        let Some(found) = self.find(key.step()) else { return };
        let Found::Now(place) = found else { return self.report_late(found, key) };
        let task = self.is_task(key.stage, key.interval);
        // The host's work writes in place, so it cannot be repeated.
        let most = if task { self.settings.attempts } else { 1 };
        let attempts = &mut self.steps[place].attempts;
        match (attempts.progress(), attempts.report(key.attempt)) {
            (_, Report::Unknown) => return self.counters.unexpected += 1,
            (_, Report::Again) => return self.counters.ignored += 1,
            (Progress::Running, Report::First) => self.counters.failures += u64::from(task),
            (_, Report::First) => return self.counters.duplicates += 1,
        }
        if !retryable {
            attempts.set_fatal(key.attempt);
        }
        if let Some(attempt) = attempts.fatal() {
            // Tasks are pure, so another attempt can differ only if a time limit ended this one. An
            // attempt that is in time may still answer, but no further one is launched.
            if !attempts.is_newest_in_time() {
                self.finish(Reason::Failed { key: TaskKey { attempt, ..key }, retryable: false });
            }
        } else if attempts.is_newest_alive() {
            // A straggler failed, and the attempt that was launched for it continues.
        } else if attempts.launched() < most {
            if self.lane_of(key.stage.index()).is_some() {
                return self.put_on_lane(key.step());
            }
            let attempt = self.steps[place].attempts.launch();
            self.counters.retries += 1;
            self.actions.push_back(Action::Retry(self.task(key.step(), attempt)));
        } else if !attempts.is_any_alive() {
            self.finish(Reason::Failed { key, retryable });
        }
    }

    pub(super) fn overdue(&mut self, key: TaskKey) {
        // A lane runs one attempt at a time, so a further one would wait for the first.
        if self.lane_of(key.stage.index()).is_some() {
            return self.counters.ignored += 1;
        }
        if self.deadline_us(key.stage).is_none() {
            self.counters.unexpected += 1;
            return;
        }
        let Some(found) = self.find(key.step()) else { return };
        let Found::Now(place) = found else { return self.counters.ignored += 1 };
        let attempts = &mut self.steps[place].attempts;
        if key.attempt.0 >= attempts.launched() {
            self.counters.unexpected += 1;
            return;
        }
        let running = attempts.progress() == Progress::Running;
        if !(running && key.attempt == attempts.newest() && attempts.is_newest_in_time()) {
            self.counters.ignored += 1;
            return;
        }
        self.counters.overdue += 1;
        attempts.set_overdue();
        if let Some(attempt) = attempts.fatal() {
            self.finish(Reason::Failed { key: TaskKey { attempt, ..key }, retryable: false });
        } else if attempts.launched() < self.settings.attempts {
            let attempt = attempts.launch();
            self.counters.relaunches += 1;
            self.actions.push_back(Action::Relaunch(self.task(key.step(), attempt)));
        }
    }

    pub(super) fn cancelled(&mut self) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
            return;
        }
        // From here on no attempt is in flight, so that `report_late` need not read steps.
        self.counters.cancelled += self.counters.in_flight();
        self.finish(Reason::Stopped);
    }

    /// Handles a report that arrives after its round or the run has ended.
    fn report_late(&mut self, found: Found, key: TaskKey) {
        let waited = self.is_task(key.stage, key.interval)
            && self.counters.in_flight() > 0
            && match found {
                Found::Now(place) | Found::Over(place) => {
                    match self.steps[place].attempts.report(key.attempt) {
                        Report::Unknown => return self.counters.unexpected += 1,
                        Report::First => true,
                        Report::Again => false,
                    }
                }
                Found::Earlier(place) => self.steps[place].attempts.report_left(key.round, key.attempt),
            };
        if waited {
            self.counters.late += 1;
        } else {
            self.counters.ignored += 1;
        }
    }

    /// Returns the index of `step` if the step may have been submitted. Otherwise counts the event
    /// as ignored or unexpected and returns `None`.
    fn find(&mut self, step: Step) -> Option<Found> {
        let stage = self.stages.get(step.stage.index());
        let interval = self.intervals.get(step.interval.index()).filter(|_| stage.is_some());
        let known = interval.is_some();
        if let Some(round) = interval.and_then(|interval| interval.round)
            && (self.settings.first..=round).contains(&step.round)
        {
            let place = self.place(step.stage.index(), step.interval.0);
            return Some(match self.phase {
                _ if step.round < round => Found::Earlier(place),
                Phase::Finished => Found::Over(place),
                _ => Found::Now(place),
            });
        }
        if known && self.is_forgotten(step.round) {
            self.counters.ignored += 1;
        } else {
            self.counters.unexpected += 1;
        }
        None
    }

    pub(super) fn task(&self, step: Step, attempt: Attempt) -> Task {
        let Step { round, stage, interval } = step;
        let weights = match self.settings.pipeline.weights() {
            // The newest version at the time of each step, not at the start of the interval's
            // round.
            WeightVersions::Newest => self.weights,
            _ if planted!(self, VersionAtUse) => self.weights,
            _ => self.intervals[interval.index()].weights,
        };
        Task { round, stage, interval, attempt, weights }
    }
}
