//! Progress of intervals: entry into rounds, start and end of steps, and updates.

use super::{Engine, Phase, Track, planted};
use crate::attempts::Progress;
use crate::event::{Action, Reason};
use std::cmp::Reverse;

use eciton_program::{Place, Scope};
use eciton_recipe::{Mode, WeightVersions};
use eciton_types::{IntervalId, Round, StageId, Step, Version};

impl Engine {
    pub(super) fn started(&mut self) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else if self.phase != Phase::Ready {
            self.counters.unexpected += 1;
        } else if self.stopping {
            self.finish(Reason::Stopped);
        } else if self.settings.first > self.settings.last {
            self.finish(Reason::Completed);
        } else {
            self.phase = Phase::Running;
            self.enter_all();
        }
    }

    /// Returns true if the steps of `round` read only rows of their own round.
    fn is_exact(&self, round: Round) -> bool {
        self.settings.pipeline.mode != Mode::Async || round == self.settings.first || round >= self.exact_from
    }

    /// Returns the maximum number of rounds by which an interval that enters `round` may be ahead
    /// of the slowest one.
    pub(super) fn bound(&self, round: Round) -> u32 {
        let apart = self.settings.pipeline.mode != Mode::Async || !self.is_exact(round);
        let bound = if apart { self.settings.pipeline.bound() } else { 0 };
        bound + u32::from(planted!(self, BoundOffByOne) && apart && bound > 0)
    }

    /// Returns the version of the weights that an interval reads if it enters `round` now.
    pub(super) fn version(&self, round: Round) -> Version {
        let before = u64::from(round.0.saturating_sub(self.settings.first.0));
        let first = self.settings.weights.0;
        match self.settings.pipeline.weights() {
            WeightVersions::Latest => Version(first.saturating_add(before)),
            WeightVersions::Stash | WeightVersions::Newest => self.weights,
            WeightVersions::TwoBuffered if self.goes_on => {
                Version(first.saturating_add(before).saturating_sub(1))
            }
            WeightVersions::TwoBuffered => Version(first.saturating_add(before.saturating_sub(1))),
        }
    }

    fn enter_all(&mut self) {
        for interval in 0..self.settings.intervals {
            self.enter(interval);
        }
    }

    /// Moves an interval that has finished its round to the next round, if it may enter that round
    /// now.
    fn enter(&mut self, interval: u32) {
        let info = self.intervals[interval as usize];
        let round = match info.round {
            None => self.settings.first,
            Some(round) if info.left == 0 && round < self.until => Round(round.0 + 1),
            Some(_) => return,
        };
        let ahead = round.0 - self.settings.first.0;
        if u64::from(ahead) > u64::from(self.over) + u64::from(self.bound(round)) {
            return;
        }
        let own = self.owns(interval);
        for stage in 0..self.stages.len() {
            let place = self.place(stage, interval);
            // A step of another host waits for its rows to arrive.
            self.steps[place].waits = if own { self.stages[stage].waits } else { 1 };
            let lost = info.round.map_or(0, |before| self.steps[place].attempts.renew(before));
            self.counters.lost += u64::from(lost);
        }
        let weights = self.version(round);
        let info = &mut self.intervals[interval as usize];
        info.round = Some(round);
        // Another host reports the steps that others wait for, and the end of the round. A program
        // has at most 2^16 stages.
        let reported = 1 + self.stages.iter().filter(|stage| stage.travels).count();
        info.left = if own { self.stages.len() } else { reported } as u32;
        info.weights = weights;
        self.furthest = self.furthest.max(round);
        if !own {
            return self.take_early(interval, round);
        }
        for stage in 0..self.stages.len() {
            if self.stages[stage].waits == 0 {
                self.start(stage, interval);
            }
        }
    }

    /// Returns true if the steps of `stage` count towards
    /// [`Settings::in_flight`](crate::Settings::in_flight).
    fn is_limited(&self, stage: usize) -> bool {
        let counts = match self.stages[stage].place {
            Place::Host => true,
            Place::Anywhere => !self.settings.only_host_steps,
            Place::Lane(_) => false,
        };
        self.settings.in_flight.is_some() && counts
    }

    /// Submits a ready step, or queues it if the maximum number of steps is in flight.
    pub(super) fn start(&mut self, stage: usize, interval: u32) {
        if !self.owns(interval) {
            self.launch(stage, interval);
        } else if self.lane_of(stage).is_some() {
            let round = self.intervals[interval as usize].round.unwrap_or_default();
            // A program has at most 2^16 stages.
            let (stage, interval) = (StageId(stage as u16), IntervalId(interval));
            self.put_on_lane(Step { round, stage, interval });
        } else if self.is_limited(stage) {
            let round = self.intervals[interval as usize].round.unwrap_or_default();
            // A program has at most 2^16 stages.
            self.ready.push(Reverse((round, stage as u16, interval)));
        } else {
            self.launch(stage, interval);
        }
    }

    /// Submits queued steps until the maximum number of steps is in flight.
    pub(super) fn hand_out(&mut self) {
        let Some(most) = self.settings.in_flight else { return };
        while self.handed_out < most
            && let Some(Reverse((_, stage, interval))) = self.ready.pop()
        {
            self.launch(usize::from(stage), interval);
        }
    }

    pub(super) fn forget_ready(&mut self) {
        self.readings.clear();
        self.ready.clear();
        self.handed_out = 0;
        if let Some(lanes) = &mut self.lanes {
            lanes.restart(self.settings.first);
        }
    }

    /// Submits the first attempt at a step. If another step is still reading the rows that the step
    /// would overwrite, the step waits.
    pub(super) fn launch(&mut self, stage: usize, interval: u32) {
        let round = self.intervals[interval as usize].round.unwrap_or_default();
        // A program has at most 2^16 stages.
        let number = stage as u16;
        if self.readings.is_read(number, interval, round) && !planted!(self, RowsOverwritten) {
            self.readings.blocked.push((number, interval));
            return;
        }
        let place = self.place(stage, interval);
        let attempt = self.steps[place].attempts.launch();
        let own = self.owns(interval);
        self.handed_out += u32::from(own && self.is_limited(stage));
        let step = Step { round, stage: StageId(number), interval: IntervalId(interval) };
        if own && !self.is_exact(round) {
            self.open_reading(step);
        }
        let count = match self.stages[stage].place {
            _ if !own => &mut self.counters.received,
            Place::Host => &mut self.counters.host_steps,
            Place::Anywhere | Place::Lane(_) => &mut self.counters.tasks,
        };
        *count += 1;
        self.actions.push_back(Action::Submit(self.task(step, attempt)));
    }

    /// Chooses the rounds of the rows that `step` reads from other intervals. Does nothing if the
    /// step reads no such rows. All rows of an interval are read from the same round.
    fn open_reading(&mut self, step: Step) {
        let reads = &self.stages[step.stage.index()].reads;
        if reads.is_empty() {
            return;
        }
        let (steps, intervals) = (&self.steps, &self.intervals);
        let ignored = planted!(self, TagIgnored);
        let guarded = if planted!(self, FirstReadGuarded) { &reads[..1] } else { reads };
        self.readings.open((step.stage, step.interval, step.round), guarded, |of| {
            let round = intervals[of as usize].round.unwrap_or_default();
            let written = reads.iter().all(|&source| {
                let place = usize::from(source) * self.settings.intervals as usize + of as usize;
                steps[place].attempts.progress() == Progress::Done
            });
            Round(round.0.saturating_sub(u32::from(!written && !ignored)))
        });
    }

    /// Records that a finished step no longer reads rows of other intervals. Starts the steps that
    /// waited for this.
    pub(super) fn close_reading(&mut self, step: Step) {
        let reads = &self.stages[step.stage.index()].reads;
        let guarded = if planted!(self, FirstReadGuarded) { &reads[..reads.len().min(1)] } else { reads };
        let woken = self.readings.close(step.stage, step.interval, step.round, guarded);
        if woken && !planted!(self, NeverWoken) {
            for (stage, interval) in std::mem::take(&mut self.readings.blocked) {
                self.start(usize::from(stage), interval);
            }
        }
    }

    /// Returns the index of `round` in the tables of finished stages and intervals.
    fn counted(&self, round: Round) -> usize {
        (round.0 - self.settings.first.0) as usize % self.spread as usize
    }

    /// Marks a step as finished, and starts the steps that waited only for it.
    pub(super) fn done(&mut self, place: usize, step: Step) {
        self.steps[place].attempts.done();
        self.intervals[step.interval.index()].left -= 1;
        let own = self.owns(step.interval.0);
        if own {
            self.handed_out -= u32::from(self.is_limited(step.stage.index()));
            self.lane_done(step);
        }
        let exact = self.is_exact(step.round);
        let all_done = self.count(step) == self.settings.intervals;
        for follower in self.stages[step.stage.index()].followers.clone() {
            let (stage, scope) = self.followers[follower as usize];
            match scope {
                // Barrier: all intervals have published their rows.
                Scope::All if exact && all_done => {
                    for interval in self.own() {
                        self.tell(usize::from(stage), interval);
                    }
                }
                Scope::All if exact => {}
                // Otherwise, the step may read older rows of the other intervals.
                Scope::Own | Scope::All if own => self.tell(usize::from(stage), step.interval.0),
                Scope::Own | Scope::All => {}
            }
        }
        self.finish_interval(step);
    }

    /// Records that the interval of `step` has finished the round of `step`, if it has.
    pub(super) fn finish_interval(&mut self, step: Step) {
        if self.intervals[step.interval.index()].left > 0 {
            return;
        }
        let at = self.counted(step.round);
        self.completed[at] += 1;
        if self.settings.own.is_some() && self.owns(step.interval.0) {
            self.completed_own[at] += 1;
            let early = u32::from(planted!(self, SharedEarly));
            if self.completed_own[at] + early == self.own().len() as u32 {
                self.actions.push_back(Action::Share { round: step.round });
            }
        }
        self.enter(step.interval.0);
        self.advance();
    }

    /// Increments the number of intervals that have finished the stage of `step` in its round.
    /// Returns the new number.
    pub(super) fn count(&mut self, step: Step) -> u32 {
        let at = self.counted(step.round) * self.stages.len() + step.stage.index();
        self.done[at] += 1;
        self.done[at]
    }

    /// Records that one of the stages for which a step waits has ended. Starts the step if it waits
    /// for no other stage.
    fn tell(&mut self, stage: usize, interval: u32) {
        let place = self.place(stage, interval);
        let step = &mut self.steps[place];
        step.waits -= 1;
        if step.waits == 0 {
            self.start(stage, interval);
        }
    }

    /// Orders the update of the oldest round in flight, once all intervals have finished that
    /// round.
    pub(super) fn advance(&mut self) {
        while self.phase == Phase::Running
            && self.track == Track::Steps
            && !self.owes()
            && self.completed[self.over as usize % self.spread as usize] == self.settings.intervals
        {
            if self.trains {
                self.track = Track::Updating;
                self.actions.push_back(Action::Update { round: self.round() });
            } else {
                self.end_round();
            }
        }
    }

    pub(super) fn updated(&mut self, round: Round) {
        if self.phase != Phase::Running || self.track != Track::Updating || round != self.round() {
            self.dropped(round);
            return;
        }
        self.counters.updates += 1;
        self.sums_read(round);
        self.weights = Version(self.weights.0.saturating_add(1));
        let every = self.settings.eval_every;
        let due = every != 0 && round.0.is_multiple_of(every);
        if due || round == self.until {
            self.track = Track::Evaluating;
            self.actions.push_back(Action::Evaluate { round });
        } else {
            self.end_round();
            self.advance();
        }
    }

    pub(super) fn evaluated(&mut self, round: Round) {
        if self.phase == Phase::Running && self.track == Track::Evaluating && round == self.round() {
            self.end_round();
            self.advance();
        } else {
            self.dropped(round);
        }
    }

    /// Counts a report about an update or evaluation that the engine was not waiting for.
    fn dropped(&mut self, round: Round) {
        let over = round < self.round() || self.phase == Phase::Finished;
        let again = self.track == Track::Evaluating;
        let asked = round >= self.settings.first && round <= self.round() && self.phase != Phase::Ready;
        if asked && (over || again) || self.is_forgotten(round) {
            self.counters.ignored += 1;
        } else {
            self.counters.unexpected += 1;
        }
    }

    fn end_round(&mut self) {
        let round = self.round();
        self.track = Track::Steps;
        self.finished = round;
        let at = self.counted(round);
        self.completed[at] = 0;
        self.completed_own[at] = 0;
        let stages = self.stages.len();
        self.done[at * stages..(at + 1) * stages].fill(0);
        self.over += 1;
        self.actions.push_back(Action::RoundFinished { round });
        if round >= self.until {
            let all = round >= self.settings.last;
            self.finish(if all { Reason::Completed } else { Reason::Stopped });
        } else {
            self.enter_all();
        }
    }

    pub(super) fn stop_requested(&mut self) {
        // Before the start, `Started` then ends the run at once. Later, it ends after the latest
        // round.
        self.stopping = true;
        if self.phase == Phase::Running {
            self.until = self.until.min(self.furthest);
        }
    }

    pub(super) fn synchronise(&mut self) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else {
            // Also before the start, because the first round reads rows of its own round anyway.
            self.exact_from = self.exact_from.min(Round(self.furthest.0.saturating_add(1)));
        }
    }

    pub(super) fn finish(&mut self, reason: Reason) {
        self.phase = Phase::Finished;
        self.forget_ready();
        self.actions.push_back(Action::Finished { reason, round: self.finished });
    }
}
