//! Adaptive limit on the number of invocations in flight, which decreases when requests are
//! throttled.

/// Reduction of the limit on invocations in flight. A throttled invocation lowers the limit by one.
/// The limit rises by one after as many unthrottled invocations as the limit (additive increase, as
/// in congestion control). Throttled requests wait, so a decrease by one at a time is fast enough.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Amount by which the limit is currently lowered.
    less: u32,
    calm: u32,
}

impl Pace {
    /// Returns the number of invocations that may be in flight if the full limit is `limit`. It is
    /// at least one unless `limit` is zero.
    pub(super) fn allowed(&self, limit: u32) -> u32 {
        limit.saturating_sub(self.less).max(limit.min(1))
    }

    /// Adapts the reduction after an attempt has ended. `throttled` is true if one of its requests
    /// was throttled.
    pub(super) fn after(&mut self, throttled: bool, limit: u32) {
        let now = self.allowed(limit);
        if throttled {
            self.calm = 0;
            // The limit stays at least one. A limit that fell already took part of the reduction.
            self.less = limit.saturating_sub(now.saturating_sub(1).max(1));
        } else if self.less > 0 {
            self.calm += 1;
            if self.calm >= now {
                self.calm = 0;
                self.less = limit.saturating_sub(now + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_falls_when_throttled_and_recovers() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.after(true, 8));
        assert_eq!((pace.allowed(8), pace.allowed(0)), (1, 0), "never below one of a limit");
        (0..100).for_each(|_| pace.after(false, 8));
        assert_eq!((pace.allowed(8), pace.allowed(3)), (8, 3), "never above it");
        pace.after(true, 8);
        assert_eq!((pace.allowed(8), pace.allowed(1)), (7, 1));
    }
}
