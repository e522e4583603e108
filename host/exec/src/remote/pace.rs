//! The pace: how many invocations may be under way.

/// How many invocations may be under way: one less after each that was throttled, one more after as
/// many as there may be that were not (additive increase, as congestion control has it; requests that
/// were throttled wait, so that a decrease by one at a time is quick enough).
#[derive(Debug)]
pub(super) struct Pace {
    most: u32,
    now: u32,
    calm: u32,
}

impl Pace {
    /// As many as there may be.
    pub(super) fn new(most: u32) -> Self {
        Self { most, now: most, calm: 0 }
    }

    /// What follows from one attempt: permits to add (+1), to take away (-1), or neither.
    pub(super) fn after(&mut self, throttled: bool) -> i32 {
        if throttled {
            self.calm = 0;
            if self.now > 1 {
                self.now -= 1;
                return -1;
            }
        } else if self.now < self.most {
            self.calm += 1;
            if self.calm >= self.now {
                (self.calm, self.now) = (0, self.now + 1);
                return 1;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_falls_when_throttled_and_recovers() {
        let mut pace = Pace::new(8);
        for _ in 0..20 {
            pace.after(true);
        }
        assert_eq!(pace.now, 1, "never below one");
        let mut permits = 1;
        for _ in 0..100 {
            permits += pace.after(false);
        }
        assert_eq!((pace.now, permits), (8, 8), "never above the most");
    }
}
