//! The autotuner: how many functions may be at work at once, from what is observed.
//!
//! A pure function of [`Observation`]s. A driver gives it one at each completion and lets no more tasks be
//! under way with functions than [`Tuner::functions`] says; 0 means that the host does all. Each
//! [`Decision`] says why.
//!
//! # What it looks at
//!
//! Observations are taken together in *windows* of as many completions as an epoch has tasks, so that one
//! window holds the same work as another. A window has
//!
//! * a *value*, `n^2 / (dt x dollars)`: for a run that goes on at this pace it is proportional to
//!   V = 1 / (T x C) (Thorpe et al. 2021);
//! * the *queue*: how many gathers and tasks waited on average for a core or a function, and its *slope*, by
//!   how much the second half of the window had more waiting than the first;
//! * how much of the limit was used.
//!
//! # What it does
//!
//! 1. *Look*: it starts on the host alone, for a few round trips to a function. If a whole window ends within
//!    them functions cannot help, whatever their number.
//! 2. *Start*: min(intervals, 100) functions. If they do the work that follows at a small part of the value
//!    that the look had, it goes back to the host at once (and tries once more after a pause, unless nothing
//!    could explain it); else a whole window is measured.
//! 3. *Up*: while the queue is deep, or grows, and the functions allowed are all at work, three times as many,
//!    as long as the most that there may be could pay if throughput grew with them.
//! 4. *Host*: unless the look said that the host alone is far worse, that is measured.
//! 5. *Between*: numbers between the best and its neighbours, until they are within a factor of 1.5, or as
//!    good as each other.
//! 6. *Settled*: it stays until the value departs from what it was, for two windows, by more than a factor
//!    of 2.
//!
//! Scale-in and hysteresis: a step must gain [`MIN_GAIN`] or is taken back (after a second window, for the
//! first one has the cold starts), and is not tried again before the work has changed; there are at most
//! [`MAX_TRIALS`] of them between two changes. A trial that is clearly worse than the best was at the same
//! point of its window is ended there.

mod decision;
#[cfg(test)]
mod tests;
mod window;

pub use decision::{Decision, Why};

use std::collections::BTreeMap;

use window::{Level, MARKS, Mark, Window, share};

/// What a step has to gain, as a share of the value.
pub const MIN_GAIN: f64 = 0.02;
/// Most trials before it settles.
pub const MAX_TRIALS: u32 = 8;
/// Functions to start with at most.
pub const START: u32 = 100;
/// A trial is ended from this mark on if its value is below this share of the best one's there.
const HOPELESS: [(usize, f64); 3] = [(2, 0.5), (8, 0.8), (32, 0.95)];
/// The same for one with more functions than the best, which start cold.
const HOPELESS_COLD: [(usize, f64); 2] = [(4, 0.25), (32, 0.5)];
/// A trial that lost by less gets a second window, without the cold starts.
const AGAIN: f64 = 0.8;
/// The first functions are given up below this share of the look's value...
const AT_ONCE: f64 = 0.25;
/// ...once each has answered so often...
const ROUNDS: u64 = 2;
/// ...and for good, below this share: no bad moment explains that.
const FOR_GOOD: f64 = 0.05;
/// The host is measured if the look gave it more than this share of the best: it saw other tasks of an epoch
/// than the functions did, and may be wrong by much.
const HOST_CHANCE: f64 = 0.05;
/// Otherwise they get a second chance after this many times as long.
const PAUSE: u64 = 4;
/// Steps upwards.
const STEP: u32 = 3;
/// What the best imaginable number has to gain for a step upwards.
const HOPE: f64 = 1.1;
/// Levels are no further refined once they are within this factor...
const NEAR: f64 = 1.5;
/// ...or their values within this share.
const FLAT: f64 = 0.05;
/// Numbers further apart than this factor are never as good as each other.
const FAR: u32 = 4;
/// After so many windows the best is compared with what the others had in their one...
const LONG: u32 = 8;
/// ...and gives way if it has less than this share of it...
const LUCKY: f64 = 0.5;
/// ...but not more often than this.
const MAX_LONG: u32 = 2;
/// So few functions are not far from none.
const FEW: u32 = 16;
/// How many round trips the first look at the host takes at least, and at most.
const LOOK: [u64; 2] = [4, 64];
/// Refined are the best and others that are best among their neighbours and have this share of its value.
const PEAK: f64 = 0.75;
/// A value that is so many times as large, or as small, is another workload.
const CHANGED: f64 = 2.0;
/// Windows after which it believes in a change.
const CHANGED_WINDOWS: u32 = 4;

/// What a tuner is told of its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TunerSettings {
    /// Fewest functions, once it has looked around; 0: the host may do all.
    pub least: u32,
    /// Most functions.
    pub most: u32,
    /// Intervals: more functions than these have nothing to do.
    pub intervals: u32,
    /// Tensor tasks of an epoch.
    pub tasks: u64,
    /// The shortest time from a task's start to its answer from a function, microseconds.
    pub round_trip_us: u64,
}

/// What a driver sees at a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The time, microseconds.
    pub time_us: u64,
    /// Gathers and tasks that wait for a core or a function.
    pub waiting: u64,
    /// Tasks under way with functions.
    pub in_flight: u32,
    /// Tasks committed so far.
    pub completed: u64,
    /// Dollars so far: hosts, functions and all else that grows with time or use.
    pub usd: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The host alone, for the first time.
    Look,
    /// The first functions, and when they came.
    Start(Observation),
    /// The host alone between two chances for the first functions: since when, and until what time.
    Pause(Observation, u64),
    /// A number whose value is not known.
    Trial {
        /// Windows that it was given and lost.
        lost: u32,
    },
    /// The best of those tried; its value once a window was seen.
    Settled { value: Option<f64>, odd: u32 },
}

/// The autotuner. See the module.
#[derive(Clone, Debug)]
pub struct Tuner {
    settings: TunerSettings,
    functions: u32,
    phase: Phase,
    window: Window,
    levels: BTreeMap<u32, Level>,
    /// Whether the host alone was measured, or given up.
    host_tried: bool,
    trials: u32,
    /// The value of the first look, of the work that it did.
    looked: f64,
    /// Dollars a microsecond of the host alone.
    host_usd: f64,
    /// The first functions' value as a share of the look's.
    share: Option<(u32, f64)>,
    /// Whether they had their second chance.
    paused: bool,
    /// Since when the best has been at work, how many windows ago that is, and how often it was another.
    long: (Observation, u32, u32),
}

const NOTHING: Observation = Observation { time_us: 0, waiting: 0, in_flight: 0, completed: 0, usd: 0.0 };

impl Tuner {
    /// A tuner that has seen nothing. Limits are put in order: at most as many functions as intervals.
    #[must_use]
    pub fn new(settings: TunerSettings) -> Self {
        let most = settings.most.min(settings.intervals);
        let settings =
            TunerSettings { most, least: settings.least.min(most), tasks: settings.tasks.max(1), ..settings };
        Self {
            settings,
            functions: 0,
            phase: Phase::Look,
            window: Window::begin(&NOTHING),
            levels: BTreeMap::new(),
            host_tried: false,
            trials: 0,
            looked: 0.0,
            host_usd: 0.0,
            share: None,
            paused: false,
            long: (NOTHING, 0, 0),
        }
    }

    /// How many tasks may be under way with functions now.
    #[must_use]
    pub fn functions(&self) -> u32 {
        self.functions
    }

    /// Whether it has found what it looked for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled { .. })
    }

    /// Takes an observation. Times, counts and dollars must not fall.
    pub fn observe(&mut self, seen: &Observation) -> Option<Decision> {
        let ended = self.window.take(seen, self.settings.tasks, self.functions);
        match self.phase {
            Phase::Look => return self.look(seen, ended),
            Phase::Start(since) => return self.start(seen, since, ended),
            Phase::Pause(since, until_us) => return self.pause(seen, since, until_us, ended),
            _ if self.window.spoilt => {
                if ended {
                    self.window = Window::begin(seen);
                }
                return None;
            }
            Phase::Trial { .. } if !ended => return self.give_up(seen),
            _ if !ended => return None,
            _ => {}
        }
        let level = self.window.level(self.functions);
        self.window = Window::begin(seen);
        match self.phase {
            Phase::Settled { value, odd } => self.watch(seen, level, value, odd),
            Phase::Trial { lost } => self.judge(seen, level, lost),
            Phase::Look | Phase::Start(_) | Phase::Pause(..) => None,
        }
    }

    fn best(&self) -> Option<(u32, &Level)> {
        let best = |one: &(&u32, &Level), other: &(&u32, &Level)| one.1.value.total_cmp(&other.1.value);
        self.levels.iter().max_by(best).map(|(&functions, level)| (functions, level))
    }

    fn first(&self) -> u32 {
        self.settings.intervals.min(START).min(self.settings.most).max(self.settings.least)
    }

    /// The first look at the host alone.
    fn look(&mut self, seen: &Observation, ended: bool) -> Option<Decision> {
        let window_us = seen.time_us.saturating_sub(self.window.start.time_us);
        let round_trip_us = self.settings.round_trip_us;
        let [least, most] = LOOK.map(|times| round_trip_us.saturating_mul(times));
        let quick = ended && window_us <= least && self.settings.least == 0;
        if quick || self.settings.most == 0 {
            self.window = Window::begin(seen);
            self.window.spoilt = !ended;
            self.phase = Phase::Settled { value: None, odd: 0 };
            return Some(self.decide(seen, 0, Why::Quick { window_us, round_trip_us }));
        }
        let some = window_us >= least && self.window.marked > 0;
        if !(ended || some || window_us >= most) {
            return None;
        }
        let tasks = self.settings.tasks;
        self.looked = Mark::between(&self.window.start, seen).value(share(&self.window.start, seen, tasks));
        self.host_usd = (seen.usd - self.window.start.usd) / (window_us.max(1) as f64);
        if ended {
            self.window = Window::begin(seen);
        }
        self.phase = Phase::Start(*seen);
        Some(self.decide(seen, self.first(), Why::Start))
    }

    /// The first functions are at work for the rest of a window.
    fn start(&mut self, seen: &Observation, since: Observation, ended: bool) -> Option<Decision> {
        let rounds = ROUNDS.saturating_mul(u64::from(self.functions));
        let enough = seen.completed.saturating_sub(since.completed) >= rounds;
        if enough && self.share.is_none() {
            let value = Mark::between(&since, seen).value(share(&since, seen, self.settings.tasks));
            let share = if self.looked > 0.0 { value / self.looked } else { f64::INFINITY };
            self.share = Some((self.functions, share));
            if share < AT_ONCE && self.settings.least == 0 {
                self.window.spoilt = true;
                if ended {
                    self.window = Window::begin(seen);
                }
                self.phase = Phase::Trial { lost: 0 };
                if share >= FOR_GOOD && !self.paused {
                    let took_us = seen.time_us.saturating_sub(since.time_us);
                    let until_us = seen.time_us.saturating_add(took_us.saturating_mul(PAUSE));
                    self.phase = Phase::Pause(*seen, until_us);
                }
                return Some(self.decide(seen, 0, Why::Hopeless { share }));
            }
        }
        if ended {
            let level = self.window.level(self.functions).since(
                &self.window.start,
                &since,
                seen,
                self.settings.tasks,
            );
            self.window = Window::begin(seen);
            self.phase = Phase::Trial { lost: 0 };
            // The cold starts weigh little in a long window.
            let long_us = self.settings.round_trip_us.saturating_mul(LOOK[1]).saturating_mul(4);
            if seen.time_us.saturating_sub(since.time_us) >= long_us {
                return self.judge(seen, level, 1);
            }
        }
        None
    }

    /// The host alone again, before a second chance.
    fn pause(
        &mut self,
        seen: &Observation,
        since: Observation,
        until_us: u64,
        ended: bool,
    ) -> Option<Decision> {
        if ended {
            self.window = Window::begin(seen);
        }
        if seen.time_us < until_us {
            return None;
        }
        self.looked = Mark::between(&since, seen).value(share(&since, seen, self.settings.tasks));
        (self.share, self.paused) = (None, true);
        self.phase = Phase::Start(*seen);
        Some(self.decide(seen, self.first(), Why::Again))
    }

    /// A whole window of a trial was seen.
    fn judge(&mut self, seen: &Observation, level: Level, lost: u32) -> Option<Decision> {
        let best = self.best().filter(|(functions, _)| *functions != self.functions);
        let share = best.map_or(f64::INFINITY, |(_, best)| level.value / best.value);
        if share < 1.0 + MIN_GAIN && share > AGAIN && lost == 0 && self.functions > 0 {
            self.phase = Phase::Trial { lost: 1 };
            return None;
        }
        self.levels.insert(self.functions, level);
        if let Some((functions, share)) = self.share.take() {
            // The look compared two numbers on the same work; one of them is known now.
            let concluded =
                |value| Level { value, measured: false, marks: [Mark::default(); MARKS], ..level };
            if self.functions == functions {
                self.levels.insert(0, Level { deep: false, ..concluded(level.value / share) });
            } else {
                self.levels
                    .insert(functions, Level { deep: level.waiting > 1.0, ..concluded(level.value * share) });
            }
        }
        self.go_on(seen)
    }

    /// Ends a trial that is clearly worse than the best was at the same point.
    fn give_up(&mut self, seen: &Observation) -> Option<Decision> {
        let marked = self.window.marked;
        let (best, level) = self.best().filter(|(best, level)| *best != self.functions && level.measured)?;
        let limits: &[(usize, f64)] = if self.functions > best { &HOPELESS_COLD } else { &HOPELESS };
        let (_, limit) = limits.iter().rfind(|(mark, _)| marked >= *mark)?;
        let done = marked as f64 / MARKS as f64;
        let at = |marks: &[Mark; MARKS]| marks[marked - 1].value(done);
        let (now, then) = (at(&self.window.marks), at(&level.marks));
        if now >= then * limit {
            return None;
        }
        let found = Level { value: level.value * now / then, ..self.window.level(self.functions) };
        self.levels.insert(self.functions, Level { measured: false, ..found });
        self.window.spoilt = true;
        self.go_on(seen)
    }

    /// After a trial: what next.
    fn go_on(&mut self, seen: &Observation) -> Option<Decision> {
        let (best, level) = self.best().map(|(best, level)| (best, *level))?;
        let next = if self.trials < MAX_TRIALS { self.next(best, &level) } else { None };
        let (to, why) = if let Some(next) = next {
            self.trials += 1;
            self.host_tried |= matches!(next.1, Why::Host);
            self.phase = Phase::Trial { lost: 0 };
            next
        } else {
            self.phase = Phase::Settled { value: None, odd: 0 };
            let lost = self.levels.get(&self.functions).filter(|_| self.functions != best);
            (best, lost.map_or(Why::Settled, |lost| Why::Lost { share: lost.value / level.value }))
        };
        Some(self.decide(seen, to, why))
    }

    /// What to try next, given the best so far.
    fn next(&self, best: u32, level: &Level) -> Option<(u32, Why)> {
        let TunerSettings { least, most, .. } = self.settings;
        if best == 0 && !level.measured && least == 0 {
            return Some((0, Why::Host));
        }
        if let Some((&top, highest)) = self.levels.last_key_value()
            && (0 < top && top < most && highest.deep)
            && self.ideal(top, highest) > level.value * HOPE
            && self.levels.range(1..top).next_back().is_none_or(|(_, below)| below.value < highest.value)
        {
            let deep = Why::Deep { waiting: highest.waiting, slope: highest.slope };
            return Some((top.saturating_mul(STEP).min(most), deep));
        }
        // Not even a guess where the first window ended too soon for one.
        let chance = self.levels.get(&0).is_none_or(|host| {
            let worth = host.value > level.value * HOST_CHANCE;
            !host.measured && worth
        });
        if chance && !self.host_tried && least == 0 {
            return Some((0, Why::Host));
        }
        self.between(best, level)
    }

    /// A number beside the best, or beside another that is best among its neighbours.
    fn between(&self, best: u32, level: &Level) -> Option<(u32, Why)> {
        let mut peaks: Vec<(u32, Level)> = Vec::new();
        for (&peak, found) in &self.levels {
            let beside = [self.levels.range(peak + 1..).next(), self.levels.range(..peak).next_back()];
            let highest = beside.into_iter().flatten().all(|(_, other)| other.value <= found.value);
            if highest && found.value >= PEAK * level.value && peak != best {
                peaks.push((peak, *found));
            }
        }
        peaks.sort_by(|one, other| other.1.value.total_cmp(&one.1.value));
        for (peak, found) in std::iter::once((best, *level)).chain(peaks) {
            let above = self.levels.range(peak + 1..).next();
            for (&other, beside) in above.into_iter().chain(self.levels.range(..peak).next_back()) {
                // Upwards only where something waits for more.
                let wanted = other < peak || peak == 0 || found.deep;
                // Far from each other two may be equal and something between them better.
                let (low, high) = (peak.min(other), peak.max(other));
                let flat =
                    (beside.value / found.value - 1.0).abs() <= FLAT && low.saturating_mul(FAR) >= high;
                if wanted
                    && !flat
                    && let Some(between) = between(low, high)
                    && between >= self.settings.least
                {
                    return Some((between, Why::Between));
                }
            }
        }
        None
    }

    /// The value of the most functions that there may be, if throughput grew as their number does: no
    /// more than that can be hoped for.
    fn ideal(&self, functions: u32, level: &Level) -> f64 {
        let times = f64::from(self.settings.most) / f64::from(functions.max(1));
        let Mark { took_us, usd } = level.marks[MARKS - 1];
        if took_us <= 0.0 || usd <= 0.0 {
            return level.value * times;
        }
        let host = (self.host_usd * took_us / usd).min(1.0);
        level.value * times * times / (host + times * (1.0 - host))
    }

    /// The best is at work: whether the work has changed.
    fn watch(&mut self, seen: &Observation, level: Level, value: Option<f64>, odd: u32) -> Option<Decision> {
        let Some(value) = value else {
            self.phase = Phase::Settled { value: Some(level.value), odd: 0 };
            self.long = (*seen, 0, self.long.2);
            return None;
        };
        if let Some(decision) = self.compare_long(seen) {
            return Some(decision);
        }
        let times = level.value / value;
        let usual = (1.0 / CHANGED..=CHANGED).contains(&times);
        let odd = if usual { 0 } else { odd + 1 };
        let window_us = level.marks[MARKS - 1].took_us;
        let quick =
            self.functions == 0 && window_us <= self.settings.round_trip_us.saturating_mul(LOOK[0]) as f64;
        if odd < CHANGED_WINDOWS || quick {
            // The usual moves with what is seen, slowly.
            let value = value + (level.value - value) / 8.0;
            self.phase = Phase::Settled { value: Some(value), odd };
            return None;
        }
        let why = Why::Changed { times };
        self.levels.clear();
        self.levels.insert(self.functions, level);
        (self.trials, self.host_tried) = (0, false);
        if self.functions == 0 && self.settings.most > 0 {
            self.trials += 1;
            self.phase = Phase::Trial { lost: 0 };
            return Some(self.decide(seen, self.first(), why));
        }
        let decision = self.go_on(seen)?;
        Some(Decision { why, ..decision })
    }

    /// A trial is one window, which may have been lucky: over a longer time the best must still be above
    /// what was measured of the others, or the next best takes its place.
    fn compare_long(&mut self, seen: &Observation) -> Option<Decision> {
        let (since, windows, changes) = self.long;
        let windows = windows + 1;
        self.long.1 = windows;
        if windows % LONG != 0 || changes >= MAX_LONG {
            return None;
        }
        let value = Mark::between(&since, seen).value(f64::from(windows));
        let others =
            self.levels.iter().filter(|(functions, level)| **functions != self.functions && level.measured);
        let (&to, next) = others.max_by(|one, other| one.1.value.total_cmp(&other.1.value))?;
        let share = value / next.value;
        if share >= LUCKY {
            return None;
        }
        if let Some(level) = self.levels.get_mut(&self.functions) {
            level.value = value;
        }
        self.long.2 = changes + 1;
        self.window.spoilt = false;
        self.phase = Phase::Settled { value: None, odd: 0 };
        Some(self.decide(seen, to, Why::Lost { share }))
    }

    fn decide(&mut self, seen: &Observation, to: u32, why: Why) -> Decision {
        let from = std::mem::replace(&mut self.functions, to);
        Decision { time_us: seen.time_us, from, to, why }
    }
}

/// A number between two, on a scale of factors; `None` if they are near.
fn between(low: u32, high: u32) -> Option<u32> {
    let middle = match low {
        // Between these and none there is little to gain.
        0 if high <= FEW => return None,
        0 => (high / 8).max(1),
        _ if f64::from(high) <= f64::from(low) * NEAR => return None,
        _ => (f64::from(low) * f64::from(high)).sqrt().round() as u32,
    };
    (middle > low && middle < high).then_some(middle)
}
