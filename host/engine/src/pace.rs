//! Average duration of the attempts at a stage, and the deadline that is computed from it.

use crate::settings::Deadlines;

/// Moving average of the durations of a stage's attempts. Each answer moves the average by an
/// eighth of the difference, as in the round-trip estimate of TCP. Integers give the same averages
/// on all machines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Average duration in microseconds, multiplied by eight. It is 0 before the first answer.
    eightfold_us: u64,
}

impl Pace {
    /// Adds the duration of an attempt to the average. 0 means that the duration was not measured.
    /// A duration above the maximum deadline counts as that deadline, so that an outlier does not
    /// distort the average for long.
    pub(crate) fn observe(&mut self, took_us: u64, deadlines: &Deadlines) {
        let took_us = took_us.min(deadlines.maximum_us);
        if took_us == 0 {
            return;
        }
        // Both are at most eight times `MAX_DEADLINE_US`, so there is no overflow.
        self.eightfold_us = match self.eightfold_us {
            0 => took_us * 8,
            average => average - average / 8 + took_us,
        };
    }

    /// Returns the deadline in microseconds, which is `max(floor, ratio * average)`, limited to the
    /// maximum. Before the first answer, it is the maximum.
    pub(crate) fn deadline_us(&self, deadlines: &Deadlines) -> u64 {
        let Deadlines { floor_us, ratio, maximum_us } = *deadlines;
        if self.eightfold_us == 0 {
            return maximum_us;
        }
        // Exact up to 2^53, and `as` saturates.
        let deadline_us = (self.eightfold_us as f64 / 8.0 * ratio) as u64;
        deadline_us.max(floor_us).min(maximum_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{MAX_DEADLINE_RATIO, MAX_DEADLINE_US};

    const DEADLINES: Deadlines = Deadlines { floor_us: 1000, ratio: 2.5, maximum_us: 1_000_000 };

    #[test]
    fn a_deadline_is_a_multiple_of_the_average_between_its_limits() {
        let mut pace = Pace::default();
        assert_eq!(pace.deadline_us(&DEADLINES), 1_000_000);
        pace.observe(0, &DEADLINES);
        assert_eq!(pace.deadline_us(&DEADLINES), 1_000_000);
        pace.observe(8000, &DEADLINES);
        assert_eq!(pace.deadline_us(&DEADLINES), 20_000);
        // 8000 + (16000 - 8000) / 8 = 9000.
        pace.observe(16_000, &DEADLINES);
        assert_eq!(pace.deadline_us(&DEADLINES), 22_500);
        for _ in 0..1000 {
            pace.observe(4, &DEADLINES);
        }
        assert_eq!(pace.deadline_us(&DEADLINES), 1000);
        for _ in 0..1000 {
            pace.observe(800_000, &DEADLINES);
        }
        assert_eq!(pace.deadline_us(&DEADLINES), 1_000_000);
    }

    #[test]
    fn it_follows_a_change_within_a_few_answers_and_forgets_a_wild_one() {
        let mut pace = Pace::default();
        let mut after = |took_us: u64, times: u32| {
            (0..times).for_each(|_| pace.observe(took_us, &DEADLINES));
            pace.deadline_us(&DEADLINES)
        };
        assert_eq!(after(10_000, 20), 25_000);
        // Everything takes five times as long: an attempt is in time again after four answers.
        assert!(after(50_000, 4) > 50_000);
        assert!((100_000..=125_000).contains(&after(50_000, 20)));
        let wild = after(u64::MAX, 1);
        assert!(wild <= 450_000, "{wild}");
        assert!(after(50_000, 20) < 160_000);
    }

    #[test]
    fn the_largest_settings_and_times_do_not_overflow() {
        let most = Deadlines { floor_us: 1, ratio: MAX_DEADLINE_RATIO, maximum_us: MAX_DEADLINE_US };
        let mut pace = Pace::default();
        for took_us in [1, u64::MAX, MAX_DEADLINE_US, u64::MAX, u64::MAX] {
            pace.observe(took_us, &most);
            assert!((1..=MAX_DEADLINE_US).contains(&pace.deadline_us(&most)));
        }
        for _ in 0..500 {
            pace.observe(u64::MAX, &most);
        }
        assert_eq!(pace.deadline_us(&most), MAX_DEADLINE_US);
    }
}
