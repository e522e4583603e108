//! A way to stop a run from elsewhere: by a signal, or where nobody reads its output any more.
//!
//! A run looks at the end of every epoch, and while it waits for functions. It ends in one of two
//! ways ([`Ask`]); either leaves a checkpoint, where there may be any, from which it can go on.

use std::sync::atomic::{AtomicBool, Ordering};

/// The way in which a run is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// With its results written, as they are after this epoch.
    Finish,
    /// At once after this epoch, with a checkpoint and no results: whoever asks does not wait long.
    /// Where there are no checkpoints it ends as with [`Ask::Finish`].
    Leave,
}

/// The request to a run to end, and whether the run has come to where it can obey.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    leave: AtomicBool,
    training: AtomicBool,
}

impl Stop {
    /// Asks the run to end; the first way counts.
    pub fn ask(&self, how: Ask) {
        if !self.is_asked() {
            self.leave.store(how == Ask::Leave, Ordering::Relaxed);
        }
        self.asked.store(true, Ordering::Release);
    }

    /// Returns whether it is asked to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns whether it is to end without results.
    pub(crate) fn leaves(&self) -> bool {
        self.is_asked() && self.leave.load(Ordering::Relaxed)
    }

    /// Returns whether it has begun to train: before that, while it reads, compiles or deploys, it
    /// does not look.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.training.load(Ordering::Acquire)
    }

    /// Training begins.
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
