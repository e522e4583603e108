//! Requests to stop a run: by a signal, or because its output is no longer read.
//!
//! A run checks for a request at the end of every epoch, and while it waits for functions. It ends
//! in one of two ways ([`Ask`]). Either leaves a checkpoint, if the run has checkpoints, from which
//! it can be resumed.

use std::sync::atomic::{AtomicBool, Ordering};

/// The way in which a run should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// After this epoch, with the results of this epoch written.
    Finish,
    /// After this epoch, with a checkpoint and without results, so that it ends quickly. A run
    /// without checkpoints ends as with [`Ask::Finish`].
    Leave,
}

/// Request to a run to end, with a flag that records whether the run can respond yet.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    leave: AtomicBool,
    training: AtomicBool,
}

impl Stop {
    /// Asks the run to end. The first call determines the way.
    pub fn ask(&self, how: Ask) {
        if !self.is_asked() {
            self.leave.store(how == Ask::Leave, Ordering::Relaxed);
        }
        self.asked.store(true, Ordering::Release);
    }

    /// Returns true if the run is asked to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns true if the run must end without results.
    pub(crate) fn leaves(&self) -> bool {
        self.is_asked() && self.leave.load(Ordering::Relaxed)
    }

    /// Returns true if the run has begun to train. Before that, while it reads, compiles or
    /// deploys, it does not check for requests.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Acquire)
    }

    /// Records that training begins.
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
