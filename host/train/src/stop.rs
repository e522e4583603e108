//! Requests to stop a run: by a signal, or because its output is no longer read.
//!
//! A run checks for a request at the end of every epoch, and while it waits for functions. The run
//! ends in one of two ways ([`Ask`]). In both cases it leaves a checkpoint from which it can be
//! resumed, if it writes checkpoints.

use std::sync::atomic::{AtomicBool, Ordering};

/// Way in which a run should end after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// The run ends after the current epoch, and writes the results of this epoch.
    Finish,
    /// The run ends after the current epoch with only a checkpoint, which is faster. A run without
    /// checkpoints ends as with [`Ask::Finish`].
    Leave,
}

/// Request to a run to end. It also records whether the run trains, because the run ignores
/// requests before that.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    leave: AtomicBool,
    training: AtomicBool,
}

impl Stop {
    /// Asks the run to end. The first call determines the way in which it ends.
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

    /// Returns true if the run was asked to end with only a checkpoint ([`Ask::Leave`]).
    pub(crate) fn leaves(&self) -> bool {
        self.is_asked() && self.leave.load(Ordering::Relaxed)
    }

    /// Returns true if the run has begun to train. Before that, while it reads, compiles or
    /// deploys, it does not check for requests.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Acquire)
    }

    /// Records that the run begins to train.
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
