//! Time of a pool's calls, which is real time or the virtual time of the emulator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_emulator::{Advanced, Clock};
use tokio::task::JoinSet;

/// Real time between two checks for a request to stop while calls are in flight.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum real time from the release of an answer by the emulator to the end of its call.
const DELIVERY: Duration = Duration::from_secs(10);

/// Clock of a pool's calls.
#[derive(Debug)]
pub(super) enum Time {
    /// Real time since this instant.
    Real(Instant),
    /// Virtual time of an emulator. The emulator holds back each answer until the pool asks for the
    /// next one.
    Virtual(Arc<Clock>),
}

impl Time {
    /// Returns the time since the start of the clock.
    pub(super) fn now(&self) -> Duration {
        match self {
            Self::Real(start) => start.elapsed(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Announces to the emulator that a call is about to be sent.
    pub(super) fn announce(&self) {
        if let Self::Virtual(clock) = self {
            clock.announce();
        }
    }

    /// Waits for the end of a call, or until the time `timer`. Returns `None` if no call ended.
    /// Also returns `None` from time to time, so that the caller can check for a request to stop.
    pub(super) async fn next<T: 'static>(
        &self,
        under: &mut JoinSet<T>,
        timer: Option<Duration>,
    ) -> Option<Result<T, tokio::task::JoinError>> {
        let Self::Virtual(clock) = self else {
            return tokio::time::timeout(LOOK, under.join_next()).await.ok().flatten();
        };
        if let Some(joined) = under.try_join_next() {
            return Some(joined);
        }
        // No other answer is released until the call has ended, so decisions follow the order of
        // answers.
        let patience = match tokio::time::timeout(LOOK, clock.advance(timer)).await {
            Ok(Advanced::Answer) => DELIVERY,
            // A call may end without an answer, because it was refused or the answer was lost.
            Ok(Advanced::Idle) => LOOK,
            Ok(Advanced::Timer | Advanced::Other) | Err(_) => Duration::ZERO,
        };
        tokio::time::timeout(patience, under.join_next()).await.ok().flatten()
    }
}
