//! Autotuner, which chooses the number of functions that a run uses.
//!
//! The tuner is a pure function of [`Observation`]s. The driver passes one observation at each
//! completion, and limits the number of tasks in functions to [`Tuner::functions`]. If the limit is
//! 0, the host runs all tasks. Each [`Decision`] contains its reason.
//!
//! # Measurements
//!
//! Observations are grouped into *windows*. A window ends after as many completions as an epoch has
//! tasks, so that all windows contain the same work. A window has these measurements:
//!
//! * a *value*, `n^2 / (dt x dollars)`, which is proportional to V = 1 / (T x C) of a run at this
//!   pace (Thorpe et al. 2021);
//! * the *queue*: the average number of gathers and tasks that waited for a core or a function. Its
//!   *slope* is the growth from the first half of the window to the second;
//! * the share of the limit that was used.
//!
//! # Phases
//!
//! 1. *Look*: the host works alone for a few round trips to a function. If a whole window ends
//!    within them, functions cannot help.
//! 2. *Start*: min(intervals, 100) functions. If their value is a small part of the look's value,
//!    the tuner returns to the host immediately. After a pause it tries again, unless the value was
//!    too low for chance. Otherwise it measures a whole window.
//! 3. *Up*: while the queue is deep or grows and all functions are busy, the number is tripled, as
//!    long as the maximum number could pay if throughput grew in proportion.
//! 4. *Host*: the host alone is measured, unless the look has shown that it is far worse.
//! 5. *Between*: the tuner tries numbers between the best and its neighbours, until these are
//!    within a factor of 1.5 or equally good.
//! 6. *Settled*: the number stays until the value has differed from the settled one by more than a
//!    factor of 2 for several windows.
//!
//! A trial must gain [`MIN_GAIN`], or the tuner returns to the best number. A trial that is close
//! gets a second window, because its first one contains the cold starts. A number is not tried
//! again before the work has changed, and there are at most [`MAX_TRIALS`] trials between two
//! changes. A trial that is clearly worse than the best number at the same point of its window ends
//! there.

mod decision;
#[cfg(test)]
mod tests;
mod window;

pub use decision::{Decision, Why};

use std::collections::BTreeMap;

use window::{Level, MARKS, Mark, Window, share};

/// Minimum gain of a successful trial in performance per dollar, as a fraction of the best value.
pub const MIN_GAIN: f64 = 0.02;
/// Maximum number of trials (tested numbers of functions) before the tuner settles on a number.
pub const MAX_TRIALS: u32 = 8;
/// Maximum number of functions that the tuner tests first.
pub const START: u32 = 100;
/// Points of a window at which a trial ends if its performance per dollar is too low. Each point
/// has the minimum, as a fraction of the best value at the same point.
const HOPELESS: [(usize, f64); 3] = [(2, 0.5), (8, 0.8), (32, 0.95)];
/// Points of a window like [`HOPELESS`], for a trial with more functions than the best number of
/// functions. They are less strict, because the additional functions start cold.
const HOPELESS_COLD: [(usize, f64); 2] = [(4, 0.25), (32, 0.5)];
/// Fraction of the best performance per dollar above which a failed trial gets a second window,
/// which has no cold starts.
const AGAIN: f64 = 0.8;
/// Minimum performance per dollar of the first functions, as a fraction of the host's. Below it,
/// the tuner returns to the host without measuring a whole window.
const AT_ONCE: f64 = 0.25;
/// Number of answers per function that the tuner waits for before it may return to the host.
const ROUNDS: u64 = 2;
/// Minimum performance per dollar of the first functions, as a fraction of the host's. Below it,
/// the tuner never tries functions again.
const FOR_GOOD: f64 = 0.05;
/// Minimum estimated performance per dollar of the host alone, as a fraction of the best, for it to
/// be measured in a whole window. The estimate is inexact, because it is from other tasks of the
/// epoch.
const HOST_CHANCE: f64 = 0.05;
/// Duration of the pause before functions are started a second time, as a multiple of the duration
/// of the first start.
const PAUSE: u64 = 4;
/// Factor by which the tuner increases the number of functions while tasks are waiting.
const STEP: u32 = 3;
/// Minimum possible gain for an increase of the number of functions. It is the ideal performance
/// per dollar of the maximum number, divided by the best value so far.
const HOPE: f64 = 1.1;
/// Minimum ratio between two numbers of functions for the tuner to try a number between them.
const NEAR: f64 = 1.5;
/// Maximum relative difference at which the performance per dollar of two numbers of functions is
/// considered equal. No number between them is tried then.
const FLAT: f64 = 0.05;
/// Ratio between two numbers of functions above which a better one may lie between them, even if
/// their performance per dollar is equal.
const FAR: u32 = 4;
/// Number of windows after which the tuner compares the long-term performance per dollar of the
/// best number of functions with that of other numbers.
const LONG: u32 = 8;
/// Minimum long-term performance per dollar of the best number of functions, as a fraction of
/// another number's. Below it, the other number becomes the best.
const LUCKY: f64 = 0.5;
/// Maximum number of times that the long-term comparison may replace the best number of functions.
const MAX_LONG: u32 = 2;
/// Maximum number of functions for which the tuner tries no number between it and the host alone.
const FEW: u32 = 16;
/// Minimum and maximum duration of the first measurement of the host alone, in round trips to a
/// function.
const LOOK: [u64; 2] = [4, 64];
/// Minimum performance per dollar of another local maximum, as a fraction of the best, for the
/// tuner to try numbers of functions next to it.
const PEAK: f64 = 0.75;
/// Factor by which the performance per dollar must differ from the settled one to count as a change
/// of the work.
const CHANGED: f64 = 2.0;
/// Number of consecutive windows in which the performance per dollar must differ to count as a
/// change of the work.
const CHANGED_WINDOWS: u32 = 4;

/// Settings of an autotuner, which chooses the number of functions of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TunerSettings {
    /// Minimum number of functions after the first measurement of the host. If it is 0, the host
    /// alone is a candidate.
    pub least: u32,
    /// Maximum number of functions that the tuner may choose.
    pub most: u32,
    /// Number of intervals (contiguous ranges of rows that are scheduled as one unit). More
    /// functions than intervals would be idle.
    pub intervals: u32,
    /// Number of tasks per epoch, which is the length of a window.
    pub tasks: u64,
    /// Minimum time from the submission of a task to the answer of a function, in microseconds.
    pub round_trip_us: u64,
}

/// State of a run at the completion of a task, as the driver observes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Time of the observation, in microseconds.
    pub time_us: u64,
    /// Number of gathers and tasks that are waiting for a core or a function.
    pub waiting: u64,
    /// Number of tasks that functions are computing.
    pub in_flight: u32,
    /// Number of tasks that were committed so far.
    pub completed: u64,
    /// Total cost so far in US dollars, including the host, the functions and everything else.
    pub usd: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The host alone runs all tasks, and its value is measured.
    Look,
    /// The first functions are in use since this observation.
    Start(Observation),
    /// The host alone runs all tasks between two starts of functions. The fields are the
    /// observation at the start of the pause and the time of its end in microseconds.
    Pause(Observation, u64),
    /// The tuner is testing a number of functions.
    Trial {
        /// Number of windows in which the trial has failed so far.
        lost: u32,
    },
    /// The best number of functions is in use. `value` is known after its first window. `odd` is
    /// the number of consecutive windows with a different value.
    Settled { value: Option<f64>, odd: u32 },
}

/// Autotuner, which chooses the number of functions. The [module documentation](self) describes its
/// phases.
#[derive(Clone, Debug)]
pub struct Tuner {
    settings: TunerSettings,
    functions: u32,
    phase: Phase,
    window: Window,
    levels: BTreeMap<u32, Level>,
    /// True once the tuner has chosen to measure the host alone in a whole window.
    host_tried: bool,
    trials: u32,
    /// Value of the host alone in the first measurement.
    looked: f64,
    /// Cost rate of the host alone, in US dollars per microsecond.
    host_usd: f64,
    /// Number of the first functions, and their value as a fraction of the host's value.
    share: Option<(u32, f64)>,
    /// True after the pause, which comes only once before a second start of functions.
    paused: bool,
    /// State of the long-term comparison. It starts with the observation since which the best
    /// number is in use, followed by the numbers of windows and of replacements.
    long: (Observation, u32, u32),
}

const NOTHING: Observation = Observation { time_us: 0, waiting: 0, in_flight: 0, completed: 0, usd: 0.0 };

impl Tuner {
    /// Creates a tuner that starts with the host alone. Reduces the limits in `settings` to one
    /// function per interval.
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

    /// Returns the maximum number of tasks that may be in functions now. If it is 0, the host runs
    /// all tasks.
    #[must_use]
    pub fn functions(&self) -> u32 {
        self.functions
    }

    /// Returns true if the tuner uses the best number of functions and tries no others.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled { .. })
    }

    /// Processes an observation. Returns the decision that follows from it, if any. Times, counts
    /// and costs must not decrease from one observation to the next.
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

    /// Handles an observation during the first measurement of the host alone.
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

    /// Handles an observation while the first functions are in use.
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
            // Cold starts count little in a long window.
            let long_us = self.settings.round_trip_us.saturating_mul(LOOK[1]).saturating_mul(4);
            if seen.time_us.saturating_sub(since.time_us) >= long_us {
                return self.judge(seen, level, 1);
            }
        }
        None
    }

    /// Handles an observation during the pause before functions are started a second time.
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

    /// Handles the end of a trial's window, whose measurements are `level`. `lost` is the number of
    /// windows in which the trial has already failed.
    fn judge(&mut self, seen: &Observation, level: Level, lost: u32) -> Option<Decision> {
        let best = self.best().filter(|(functions, _)| *functions != self.functions);
        let share = best.map_or(f64::INFINITY, |(_, best)| level.value / best.value);
        if share < 1.0 + MIN_GAIN && share > AGAIN && lost == 0 && self.functions > 0 {
            self.phase = Phase::Trial { lost: 1 };
            return None;
        }
        self.levels.insert(self.functions, level);
        if let Some((functions, share)) = self.share.take() {
            // The look and the start had the same work, and the value of the start is known now.
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

    /// Ends a trial that is clearly worse than the best number of functions was at the same point
    /// of its window.
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

    /// Chooses the next number of functions after a trial, or settles on the best one.
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

    /// Returns the next number of functions to try and the reason, or `None` if no number is left
    /// to try.
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
        // If the first window ended too soon, there is no estimate either.
        let chance = self.levels.get(&0).is_none_or(|host| {
            let worth = host.value > level.value * HOST_CHANCE;
            !host.measured && worth
        });
        if chance && !self.host_tried && least == 0 {
            return Some((0, Why::Host));
        }
        self.between(best, level)
    }

    /// Returns an untested number of functions next to the best one, or next to another local
    /// maximum.
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
                // Upwards only if tasks wait.
                let wanted = other < peak || peak == 0 || found.deep;
                // Between two distant numbers with equal values a better one may lie.
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

    /// Returns an upper bound on the value with the maximum number of functions, if throughput grew
    /// in proportion to the number. `level` is the measurement with `functions` functions.
    fn ideal(&self, functions: u32, level: &Level) -> f64 {
        let times = f64::from(self.settings.most) / f64::from(functions.max(1));
        let Mark { took_us, usd } = level.marks[MARKS - 1];
        if took_us <= 0.0 || usd <= 0.0 {
            return level.value * times;
        }
        let host = (self.host_usd * took_us / usd).min(1.0);
        level.value * times * times / (host + times * (1.0 - host))
    }

    /// Handles the end of a window while the best number of functions is in use. Starts new trials
    /// if the work has changed.
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
            // The settled value follows the observed one slowly.
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

    /// Compares the long-term value of the best number of functions with single windows of other
    /// numbers, because its own window may have been an outlier. If another number is better, it
    /// becomes the best.
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

/// Returns the geometric mean of two numbers of functions, or `None` if the numbers are close.
fn between(low: u32, high: u32) -> Option<u32> {
    let middle = match low {
        // Little can be gained between a few functions and none.
        0 if high <= FEW => return None,
        0 => (high / 8).max(1),
        _ if f64::from(high) <= f64::from(low) * NEAR => return None,
        _ => (f64::from(low) * f64::from(high)).sqrt().round() as u32,
    };
    (middle > low && middle < high).then_some(middle)
}
