//! Intervals of other hosts, whose rows arrive as received rows.
//!
//! A run on several hosts has the intervals of a run on one. Each host runs the steps of its own
//! intervals ([`Settings::own`](crate::Settings::own)). A step of another host counts here as a step
//! of this host, which writes the received rows into their slot.
//!
//! Another host may be ahead. Rows and ends of rounds that arrive before their interval may enter
//! the round here wait ([`Early`]).

use super::{Engine, IntervalInfo, Phase, planted};
use eciton_types::{IntervalId, Round, StageId, Step};
use std::collections::BTreeSet;
use std::ops::Range;

/// Reports about intervals of other hosts that arrived before their round.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    /// Steps whose rows have arrived, as round, interval and stage.
    steps: BTreeSet<(Round, u32, u16)>,
    /// Ends of rounds, as round and interval.
    ends: BTreeSet<(Round, u32)>,
}

impl Early {
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.ends.clear();
    }
}

impl Engine {
    /// Returns true if the steps of `interval` run at this host.
    pub(super) fn owns(&self, interval: u32) -> bool {
        self.own().contains(&interval)
    }

    /// Returns the intervals whose steps run at this host.
    pub(super) fn own(&self) -> Range<u32> {
        self.settings.own.map_or(0..self.settings.intervals, |(first, end)| first..end)
    }

    /// Returns true if other hosts wait for the steps of a stage. Their rows, or in a synchronous run
    /// only the reports of their ends, must be sent to all other hosts.
    #[must_use]
    pub fn travels(&self, stage: StageId) -> bool {
        self.stages.get(stage.index()).is_some_and(|stage| stage.travels)
    }

    /// Returns the last round that any host may have entered. A host may have completed rounds whose
    /// sums from a third host have not arrived here yet.
    fn furthest_anywhere(&self) -> u32 {
        let bound = self.settings.pipeline.bound();
        let bound = if planted!(self, EarlyBoundTooSmall) { bound } else { 2 * bound + 1 };
        self.settings.first.0.saturating_add(self.over).saturating_add(bound)
    }

    /// Handles rows of a step of another host. They are written once their interval is in its round
    /// and no step reads the rows that they replace.
    pub(super) fn received(&mut self, step: Step) {
        let known = self.travels(step.stage)
            && step.interval.0 < self.settings.intervals
            && !self.owns(step.interval.0);
        if !known || step.round < self.settings.first || step.round.0 > self.furthest_anywhere() {
            return self.counters.unexpected += 1;
        }
        let current = self.intervals[step.interval.index()].round;
        let is_over = self.phase == Phase::Finished || step.round > self.until;
        if is_over || current.is_some_and(|current| step.round < current) {
            self.counters.ignored += 1;
        } else if current == Some(step.round) {
            self.write_received(step);
        } else if !self.early.steps.insert((step.round, step.interval.0, step.stage.0)) {
            self.counters.ignored += 1;
        }
    }

    /// Starts the step that writes received rows. Rows that arrive twice are ignored.
    fn write_received(&mut self, step: Step) {
        let place = self.place(step.stage.index(), step.interval.0);
        let found = &mut self.steps[place];
        if found.waits == 0 && !planted!(self, ReceivedTwice) {
            return self.counters.ignored += 1;
        }
        found.waits = 0;
        self.start(step.stage.index(), step.interval.0);
    }

    /// Handles the report that other hosts have finished a round on the intervals from `first` to
    /// `end`, and that the sums of their gradients have arrived.
    pub(super) fn shared(&mut self, (first, end): (u32, u32), round: Round) {
        let known = first < end && end <= self.settings.intervals && !(first..end).any(|at| self.owns(at));
        if !known || round < self.settings.first || round.0 > self.furthest_anywhere() {
            return self.counters.unexpected += 1;
        }
        if self.phase == Phase::Finished || round > self.until {
            return self.counters.ignored += 1;
        }
        for interval in first..end {
            let IntervalInfo { round: current, ended, .. } = self.intervals[interval as usize];
            if ended.is_some_and(|ended| round <= ended) {
                self.counters.ignored += 1;
            } else if current == Some(round) {
                self.end_of_other(interval, round);
            } else if !self.early.ends.insert((round, interval)) {
                self.counters.ignored += 1;
            }
        }
    }

    /// Records that another host has finished `round` on one of its intervals.
    fn end_of_other(&mut self, interval: u32, round: Round) {
        let info = &mut self.intervals[interval as usize];
        info.ended = Some(round);
        info.left -= 1;
        self.finish_interval(Step { round, stage: StageId(0), interval: IntervalId(interval) });
    }

    /// Processes what arrived early for an interval of another host that has just entered `round`.
    pub(super) fn take_early(&mut self, interval: u32, round: Round) {
        if planted!(self, EarlyForgotten) {
            return;
        }
        let of = (round, interval, 0)..=(round, interval, u16::MAX);
        let stages: Vec<u16> = self.early.steps.range(of).map(|&(_, _, stage)| stage).collect();
        for stage in stages {
            self.early.steps.remove(&(round, interval, stage));
            self.write_received(Step { round, stage: StageId(stage), interval: IntervalId(interval) });
        }
        if self.early.ends.remove(&(round, interval)) {
            self.end_of_other(interval, round);
        }
    }

    /// Makes `round` the last round. All hosts must receive this event with the same round, before
    /// any of them enters a later one.
    pub(super) fn end_after(&mut self, round: Round) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else if round < self.furthest {
            self.counters.unexpected += 1;
        } else {
            self.until = self.until.min(round);
        }
    }

    /// Makes the rounds from `round` on synchronous. All hosts must receive this event with the same
    /// round, before any of them enters it.
    pub(super) fn synchronise_from(&mut self, round: Round) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else if round <= self.furthest && self.phase == Phase::Running {
            self.counters.unexpected += 1;
        } else {
            self.exact_from = self.exact_from.min(round);
        }
    }
}
