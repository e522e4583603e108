//! State of the attempts at one step. A step is one stage on one interval in one round.
//!
//! An attempt is *alive* from its launch until its success or failure is first reported, even if
//! another attempt completes the step earlier. Repeated reports are recognised, so each attempt is
//! counted once.

use eciton_types::{Attempt, Round};

/// State of the attempts at a step in the current round. It also tracks attempts of one earlier
/// round that are still alive (launched and not reported).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    /// Bit mask of the attempts that are alive, with one bit per attempt number.
    alive: u32,
    launched: u8,
    progress: Progress,
    /// Number of the first attempt that failed permanently, plus 1. It is 0 if no attempt failed
    /// permanently.
    fatal: u8,
    /// True if the newest attempt has exceeded its deadline.
    overdue: bool,
    left_alive: u32,
    left_round: Round,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    Running,
    Done,
}

/// Kind of a report about an attempt, which depends on earlier reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The attempt was never launched.
    Unknown,
    /// The report is the first one about the attempt.
    First,
    /// The report repeats an earlier one about the attempt.
    Again,
}

impl Attempts {
    pub(crate) const NONE: Self = Self {
        alive: 0,
        launched: 0,
        progress: Progress::Waiting,
        fatal: 0,
        overdue: false,
        left_alive: 0,
        left_round: Round(0),
    };

    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// Launches the next attempt, and returns its number. The caller must check that fewer than
    /// [`crate::MAX_ATTEMPTS`] attempts were launched.
    pub(crate) const fn launch(&mut self) -> Attempt {
        let attempt = self.launched;
        self.alive |= bit(attempt as u32);
        self.launched = attempt.saturating_add(1);
        self.overdue = false;
        self.progress = Progress::Running;
        Attempt(attempt as u32)
    }

    /// Launches another attempt at a finished step, because its rows are needed again. The step
    /// remains finished. Returns the number of the attempt.
    pub(crate) const fn launch_again(&mut self) -> Attempt {
        let progress = self.progress;
        let attempt = self.launch();
        self.progress = progress;
        attempt
    }

    pub(crate) const fn launched(&self) -> u32 {
        self.launched as u32
    }

    /// Returns the number of the newest attempt. If no attempt was launched, returns the number of
    /// the first.
    pub(crate) const fn newest(&self) -> Attempt {
        Attempt(self.launched.saturating_sub(1) as u32)
    }

    /// Records a report about an attempt of the current round. Returns the kind of the report.
    pub(crate) const fn report(&mut self, attempt: Attempt) -> Report {
        if attempt.0 >= self.launched as u32 {
            return Report::Unknown;
        }
        let bit = bit(attempt.0);
        let first = self.alive & bit != 0;
        self.alive &= !bit;
        if first { Report::First } else { Report::Again }
    }

    /// Records a report about an attempt of the earlier round `round`. Returns true if the attempt
    /// was still alive.
    pub(crate) fn report_left(&mut self, round: Round, attempt: Attempt) -> bool {
        let bit = bit(attempt.0);
        let first = round == self.left_round && self.left_alive & bit != 0;
        if first {
            self.left_alive &= !bit;
        }
        first
    }

    pub(crate) const fn done(&mut self) {
        self.progress = Progress::Done;
    }

    pub(crate) const fn is_any_alive(&self) -> bool {
        self.alive != 0
    }

    /// Returns the number of attempts that are alive, including those of an earlier round.
    #[cfg(test)]
    pub(crate) const fn alive(&self) -> u32 {
        self.alive.count_ones() + self.left_alive.count_ones()
    }

    pub(crate) const fn is_newest_alive(&self) -> bool {
        self.alive & bit(self.newest().0) != 0
    }

    /// Returns true if the newest attempt is alive and has not exceeded its deadline.
    pub(crate) const fn is_newest_in_time(&self) -> bool {
        self.is_newest_alive() && !self.overdue
    }

    pub(crate) const fn set_overdue(&mut self) {
        self.overdue = true;
    }

    /// Records that `attempt` failed permanently. No other attempt at the step can then succeed.
    pub(crate) const fn set_fatal(&mut self, attempt: Attempt) {
        if self.fatal == 0 {
            // Below `MAX_ATTEMPTS`, because it was launched.
            self.fatal = (attempt.0 as u8).saturating_add(1);
        }
    }

    /// Returns the number of the first attempt that failed permanently, if any did.
    pub(crate) fn fatal(&self) -> Option<Attempt> {
        self.fatal.checked_sub(1).map(|attempt| Attempt(u32::from(attempt)))
    }

    /// Resets the state for the round after `over`. Returns the number of alive attempts that are
    /// no longer tracked. Alive attempts of only one earlier round are tracked, until a later round
    /// leaves attempts alive as well.
    pub(crate) const fn renew(&mut self, over: Round) -> u32 {
        let mut forgotten = 0;
        let (mut left_alive, mut left_round) = (self.left_alive, self.left_round);
        if self.alive != 0 {
            forgotten = left_alive.count_ones();
            (left_alive, left_round) = (self.alive, over);
        }
        *self = Self { left_alive, left_round, ..Self::NONE };
        forgotten
    }
}

/// Returns the bit of an attempt in the mask of alive attempts. Returns 0 if the attempt number is
/// above the maximum.
const fn bit(attempt: u32) -> u32 {
    if attempt < u32::BITS { 1 << attempt } else { 0 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::MAX_ATTEMPTS;

    #[test]
    fn a_step_remembers_as_many_attempts_as_are_allowed_in_little_room() {
        assert_eq!(size_of::<Attempts>(), 16);
        let mut attempts = Attempts::NONE;
        assert!(!attempts.is_newest_alive() && attempts.report(Attempt(0)) == Report::Unknown);
        for attempt in 0..MAX_ATTEMPTS {
            assert_eq!(attempts.launch(), Attempt(attempt));
            assert!(attempts.is_newest_in_time());
        }
        assert_eq!(attempts.report(Attempt(MAX_ATTEMPTS)), Report::Unknown);
        assert_eq!(attempts.report(Attempt(u32::MAX)), Report::Unknown);
        for attempt in (0..MAX_ATTEMPTS).rev() {
            assert!(attempts.is_any_alive());
            assert_eq!(attempts.report(Attempt(attempt)), Report::First);
            assert_eq!(attempts.report(Attempt(attempt)), Report::Again);
        }
        assert!(!attempts.is_any_alive() && !attempts.is_newest_alive());
    }

    #[test]
    fn what_an_round_leaves_behind_is_remembered_until_a_later_one_leaves_more() {
        let mut attempts = Attempts::NONE;
        let (first, second) = (attempts.launch(), attempts.launch());
        attempts.report(first);
        assert_eq!(attempts.renew(Round(1)), 0);
        assert_eq!(attempts.progress(), Progress::Waiting);
        // A round that leaves nothing changes nothing.
        let again = attempts.launch();
        attempts.report(again);
        assert_eq!(attempts.renew(Round(2)), 0);
        assert!(!attempts.clone().report_left(Round(2), second));
        assert!(!attempts.report_left(Round(1), first) && !attempts.report_left(Round(1), Attempt(99)));
        let mut answered = attempts;
        assert!(answered.report_left(Round(1), second) && !answered.report_left(Round(1), second));
        for mut attempts in [attempts, answered] {
            let waited = u32::from(attempts.clone().report_left(Round(1), second));
            let third = attempts.launch();
            assert_eq!(attempts.renew(Round(3)), waited);
            assert!(!attempts.report_left(Round(1), second) && attempts.report_left(Round(3), third));
        }
    }

    #[test]
    fn the_first_attempt_that_fails_for_good_is_the_one_remembered() {
        let mut attempts = Attempts::NONE;
        assert_eq!(attempts.fatal(), None);
        let (first, second) = (attempts.launch(), attempts.launch());
        attempts.set_fatal(second);
        attempts.set_fatal(first);
        assert_eq!(attempts.fatal(), Some(second));
        attempts.set_overdue();
        assert!(attempts.is_newest_alive() && !attempts.is_newest_in_time());
    }
}
