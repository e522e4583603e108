//! Time by which calls are ordered: real time, or the emulator's virtual time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_emulator::{Advanced, Clock};
use tokio::task::JoinSet;

/// Interval at which calls in flight are looked at, in real time.
const LOOK: Duration = Duration::from_millis(50);
/// Real time within which a released answer reaches its call.
const DELIVERY: Duration = Duration::from_secs(10);

/// Time by which calls are ordered.
#[derive(Debug)]
pub(super) enum Time {
    /// Real time since this moment.
    Real(Instant),
    /// Virtual time of an emulator, which releases an answer when it is asked for the next.
    Virtual(Arc<Clock>),
}

impl Time {
    /// Returns the time since the start.
    pub(super) fn now(&self) -> Duration {
        match self {
            Self::Real(start) => start.elapsed(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Says that a call is about to be sent.
    pub(super) fn announce(&self) {
        if let Self::Virtual(clock) = self {
            clock.announce();
        }
    }

    /// Waits for the next end of a call, and for `timer` at most. Returns `None` from time to time,
    /// so that the caller sees a request to stop.
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
        // Nothing else is released until the call has ended: decisions follow the order of answers.
        let patience = match tokio::time::timeout(LOOK, clock.advance(timer)).await {
            Ok(Advanced::Answer) => DELIVERY,
            // A call may end without an answer of a function: refused, or lost.
            Ok(Advanced::Idle) => LOOK,
            Ok(Advanced::Timer | Advanced::Other) | Err(_) => Duration::ZERO,
        };
        tokio::time::timeout(patience, under.join_next()).await.ok().flatten()
    }
}
