//! Stop requests for a run, for instance because of a signal.
//!
//! A run checks for a stop request at the end of every epoch, and while it waits for functions. It
//! ends in one of two ways ([`Ask`]). In both cases, a run that writes checkpoints can be resumed.

use std::sync::atomic::{AtomicBool, Ordering};

/// The way in which a run ends after a stop request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// The run ends after the current epoch and writes its results.
    Finish,
    /// The run ends after the current epoch and writes only a checkpoint, which is faster. A run
    /// without checkpoints ends as with [`Ask::Finish`].
    Leave,
}

/// A handle to stop a run from another thread. It also reports whether the run has begun to train,
/// because requests have no effect before that.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    leave: AtomicBool,
    training: AtomicBool,
}

impl Stop {
    /// Requests the run to stop. If this is called more than once, `how` of the first call counts.
    pub fn ask(&self, how: Ask) {
        if !self.is_asked() {
            self.leave.store(how == Ask::Leave, Ordering::Relaxed);
        }
        self.asked.store(true, Ordering::Release);
    }

    /// Returns true if [`Stop::ask`] was called.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns true if the run must end with only a checkpoint ([`Ask::Leave`]).
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.is_asked() && self.leave.load(Ordering::Relaxed)
    }

    /// Returns true if the run has begun to train. It does not check for stop requests before, for
    /// instance while it reads data or compiles kernels.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Acquire)
    }

    /// Records that the run has begun to train.
    pub(crate) fn begin(&self) {
        self.training.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_way_counts() {
        let stop = Stop::default();
        assert!(!stop.is_asked() && !stop.leaves() && !stop.is_training());
        stop.ask(Ask::Leave);
        stop.ask(Ask::Finish);
        assert!(stop.is_asked() && stop.leaves());
        let stop = Stop::default();
        stop.ask(Ask::Finish);
        stop.ask(Ask::Leave);
        assert!(stop.is_asked() && !stop.leaves());
    }
}
