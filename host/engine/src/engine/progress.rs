//! How intervals get on: into an epoch, from step to step, and out of it.

use super::{Engine, Phase, Track, planted};
use crate::attempts::{Progress, Report};
use crate::engine::answers::Found;
use crate::event::{Action, Reason};
use std::cmp::Reverse;

use eciton_plan::{Attempt, Epoch, IntervalId, Mode, Scope, StageId, Step, Task, Version, WeightVersions};

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

    /// Whether an epoch reads rows of its own only.
    fn is_exact(&self, epoch: Epoch) -> bool {
        self.settings.pipeline.mode != Mode::Async || epoch == self.settings.first || epoch >= self.exact_from
    }

    /// How many epochs an interval that enters this one may be ahead of the slowest.
    pub(super) fn bound(&self, epoch: Epoch) -> u32 {
        let apart = self.settings.pipeline.mode != Mode::Async || !self.is_exact(epoch);
        let bound = if apart { self.settings.pipeline.bound() } else { 0 };
        bound + u32::from(planted!(self, BoundOffByOne) && apart && bound > 0)
    }

    /// The version of the weights that an interval reads that enters an epoch now.
    pub(super) fn version(&self, epoch: Epoch) -> Version {
        let before = u64::from(epoch.0.saturating_sub(self.settings.first.0));
        let first = self.settings.weights.0;
        match self.settings.pipeline.weights() {
            WeightVersions::Latest => Version(first.saturating_add(before)),
            WeightVersions::Stash => self.weights,
            WeightVersions::TwoBuffered => Version(first.saturating_add(before.saturating_sub(1))),
        }
    }

    fn enter_all(&mut self) {
        for interval in 0..self.settings.intervals {
            self.enter(interval);
        }
    }

    /// Takes an interval that has nothing left to do into its next epoch, if it may.
    fn enter(&mut self, interval: u32) {
        let info = self.intervals[interval as usize];
        let epoch = match info.epoch {
            None => self.settings.first,
            Some(epoch) if info.left == 0 && epoch < self.until => Epoch(epoch.0 + 1),
            Some(_) => return,
        };
        let ahead = epoch.0 - self.settings.first.0;
        if u64::from(ahead) > u64::from(self.over) + u64::from(self.bound(epoch)) {
            return;
        }
        for stage in 0..self.stages.len() {
            let place = self.place(stage, interval);
            self.steps[place].waits = self.stages[stage].waits;
            let lost = info.epoch.map_or(0, |before| self.steps[place].attempts.renew(before));
            self.counters.lost += u64::from(lost);
        }
        let weights = self.version(epoch);
        let info = &mut self.intervals[interval as usize];
        info.epoch = Some(epoch);
        // A program has at most 2^16 stages.
        info.left = self.stages.len() as u32;
        info.weights = weights;
        self.furthest = self.furthest.max(epoch);
        for stage in 0..self.stages.len() {
            if self.stages[stage].waits == 0 {
                self.start(stage, interval);
            }
        }
    }

    /// Whether a step of this stage counts towards the limit of those in flight.
    fn is_limited(&self, stage: usize) -> bool {
        self.settings.in_flight.is_some() && (self.stages[stage].gather || !self.settings.only_gathers)
    }

    /// A step has all that it waits for: starts it, or lets it wait for its turn.
    fn start(&mut self, stage: usize, interval: u32) {
        if self.is_limited(stage) {
            let epoch = self.intervals[interval as usize].epoch.unwrap_or_default();
            // A program has at most 2^16 stages.
            self.ready.push(Reverse((epoch, stage as u16, interval)));
        } else {
            self.launch(stage, interval);
        }
    }

    /// Starts steps whose turn it is.
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
    }

    /// Hands a step out, unless what it writes over is still read.
    fn launch(&mut self, stage: usize, interval: u32) {
        let info = self.intervals[interval as usize];
        let epoch = info.epoch.unwrap_or_default();
        // A program has at most 2^16 stages.
        let number = stage as u16;
        if self.readings.is_read(number, interval, epoch) && !planted!(self, RowsOverwritten) {
            self.readings.blocked.push((number, interval));
            return;
        }
        let place = self.place(stage, interval);
        let attempt = self.steps[place].attempts.launch();
        self.handed_out += u32::from(self.is_limited(stage));
        let step = Step { epoch, stage: StageId(number), interval: IntervalId(interval) };
        if self.stages[stage].gather {
            if let Some(source) = self.stages[stage].reads.filter(|_| !self.is_exact(epoch)) {
                let (steps, intervals) = (&self.steps, &self.intervals);
                let from = usize::from(source) * self.settings.intervals as usize;
                let ignored = planted!(self, TagIgnored);
                self.readings.open((step.stage, step.interval, epoch), source, |of| {
                    let epoch = intervals[of as usize].epoch.unwrap_or_default();
                    let written = steps[from + of as usize].attempts.progress() == Progress::Done;
                    Epoch(epoch.0.saturating_sub(u32::from(!written && !ignored)))
                });
            }
            self.counters.gathers += 1;
            self.actions.push_back(Action::Gather(step));
        } else {
            self.counters.tasks += 1;
            let Step { epoch, stage, interval } = step;
            self.actions.push_back(Action::Submit(Task {
                epoch,
                stage,
                interval,
                attempt,
                weights: info.weights,
            }));
        }
    }

    pub(super) fn gathered(&mut self, step: Step) {
        match self.find(step, true) {
            Some(Found::Now(place)) => match self.steps[place].attempts.report(Attempt(0)) {
                Report::First => {
                    if self.readings.close(step.stage, step.interval, step.epoch)
                        && !planted!(self, NeverWoken)
                    {
                        for (stage, interval) in std::mem::take(&mut self.readings.blocked) {
                            self.start(usize::from(stage), interval);
                        }
                    }
                    self.done(place, step);
                }
                Report::Again => self.counters.ignored += 1,
                Report::Unknown => self.counters.unexpected += 1,
            },
            Some(_) => self.counters.ignored += 1,
            None => {}
        }
    }

    /// Where stages of an epoch under way are counted.
    fn counted(&self, epoch: Epoch) -> usize {
        (epoch.0 - self.settings.first.0) as usize % self.spread as usize
    }

    /// Marks a step done and starts what waited for it.
    pub(super) fn done(&mut self, place: usize, step: Step) {
        self.steps[place].attempts.done();
        self.intervals[step.interval.index()].left -= 1;
        self.handed_out -= u32::from(self.is_limited(step.stage.index()));
        let exact = self.is_exact(step.epoch);
        let all_done = self.count(step) == self.settings.intervals;
        for follower in self.stages[step.stage.index()].followers.clone() {
            let (stage, scope) = self.followers[follower as usize];
            match scope {
                Scope::Own => self.tell(usize::from(stage), step.interval.0),
                // Older rows of the others will do.
                Scope::All if !exact => self.tell(usize::from(stage), step.interval.0),
                // The barrier: every interval has published.
                Scope::All if all_done => {
                    for interval in 0..self.settings.intervals {
                        self.tell(usize::from(stage), interval);
                    }
                }
                Scope::All => {}
            }
        }
        if self.intervals[step.interval.index()].left == 0 {
            let at = self.counted(step.epoch);
            self.completed[at] += 1;
            self.enter(step.interval.0);
            self.advance();
        }
    }

    /// Counts one more interval that has done a stage in an epoch.
    pub(super) fn count(&mut self, step: Step) -> u32 {
        let at = self.counted(step.epoch) * self.stages.len() + step.stage.index();
        self.done[at] += 1;
        self.done[at]
    }

    /// One of the stages that a step waits for is there.
    fn tell(&mut self, stage: usize, interval: u32) {
        let place = self.place(stage, interval);
        let step = &mut self.steps[place];
        step.waits -= 1;
        if step.waits == 0 {
            self.start(stage, interval);
        }
    }

    /// Updates the weights with the oldest epoch under way once all intervals have finished it.
    fn advance(&mut self) {
        while self.phase == Phase::Running
            && self.track == Track::Steps
            && self.completed[self.over as usize % self.spread as usize] == self.settings.intervals
        {
            if self.trains {
                self.track = Track::Updating;
                self.actions.push_back(Action::Update { epoch: self.epoch() });
            } else {
                self.end_epoch();
            }
        }
    }

    pub(super) fn updated(&mut self, epoch: Epoch) {
        if self.phase != Phase::Running || self.track != Track::Updating || epoch != self.epoch() {
            self.dropped(epoch);
            return;
        }
        self.counters.updates += 1;
        self.weights = Version(self.weights.0.saturating_add(1));
        let every = self.settings.eval_every;
        let due = every != 0 && epoch.0.is_multiple_of(every);
        if due || epoch == self.until {
            self.track = Track::Evaluating;
            self.actions.push_back(Action::Evaluate { epoch });
        } else {
            self.end_epoch();
            self.advance();
        }
    }

    pub(super) fn evaluated(&mut self, epoch: Epoch) {
        if self.phase == Phase::Running && self.track == Track::Evaluating && epoch == self.epoch() {
            self.end_epoch();
            self.advance();
        } else {
            self.dropped(epoch);
        }
    }

    /// An update or evaluation that is not awaited.
    fn dropped(&mut self, epoch: Epoch) {
        let over = epoch < self.epoch() || self.phase == Phase::Finished;
        let again = self.track == Track::Evaluating;
        let asked = epoch >= self.settings.first && epoch <= self.epoch() && self.phase != Phase::Ready;
        if asked && (over || again) || self.is_forgotten(epoch) {
            self.counters.ignored += 1;
        } else {
            self.counters.unexpected += 1;
        }
    }

    fn end_epoch(&mut self) {
        let epoch = self.epoch();
        self.track = Track::Steps;
        self.finished = epoch;
        let at = self.counted(epoch);
        self.completed[at] = 0;
        let stages = self.stages.len();
        self.done[at * stages..(at + 1) * stages].fill(0);
        self.over += 1;
        self.actions.push_back(Action::EpochFinished { epoch });
        if epoch >= self.until {
            let all = epoch >= self.settings.last;
            self.finish(if all { Reason::Completed } else { Reason::Stopped });
        } else {
            self.enter_all();
        }
    }

    pub(super) fn stop_requested(&mut self) {
        // Before the start: `Started` ends the run at once. Later: at the end of the furthest epoch.
        self.stopping = true;
        if self.phase == Phase::Running {
            self.until = self.until.min(self.furthest);
        }
    }

    pub(super) fn synchronise(&mut self) {
        if self.phase == Phase::Finished {
            self.counters.ignored += 1;
        } else {
            // Before the start too: the first epoch is exact in any case.
            self.exact_from = self.exact_from.min(Epoch(self.furthest.0.saturating_add(1)));
        }
    }

    pub(super) fn finish(&mut self, reason: Reason) {
        self.phase = Phase::Finished;
        self.forget_ready();
        self.actions.push_back(Action::Finished { reason, epoch: self.finished });
    }
}
