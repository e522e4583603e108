//! Mini-batch training. Compute threads make the micro-batches of each round (one optimizer step)
//! in advance. A micro-batch is a part of a batch that the engine schedules as one unit.
//!
//! [`Source::part`] makes a micro-batch as a pure function of the data set, the settings, the seed,
//! the round and the micro-batch number. Therefore the number of threads, prefetching and restarts
//! do not change results. A round begins once all of its micro-batches are available. They are
//! released at the end of the round.

mod chooser;
mod part;
mod round_rows;
mod rows;
mod sizes;
mod source;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use eciton_exec::Work;
use eciton_graph::sample::Room;
use eciton_types::{IntervalId, Round};

pub(crate) use self::chooser::Chooser;
pub(crate) use self::part::{Part, PartLists};
pub(crate) use self::round_rows::RoundRows;
pub(crate) use self::rows::RowBatches;
pub(crate) use self::sizes::PartSizes;
pub(crate) use self::source::Source;
use crate::error::{Error, Result};

/// The micro-batches of one round, which may be incomplete. An entry of `parts` is `None` until a
/// compute thread has made that micro-batch.
#[derive(Debug)]
struct Batch {
    parts: Vec<Option<Arc<Part>>>,
    /// Weight of each training row in the loss, and the size of the round's loss mean. `None` until
    /// all micro-batches of the round are available.
    weighed: Option<(f32, RoundRows)>,
}

/// Queue of finished micro-batches. Compute threads push results or errors, and [`Batches::take`]
/// removes them.
type Left = Arc<Mutex<Vec<((Round, IntervalId), Result<Arc<Part>>)>>>;

/// The micro-batches of the training with one seed: those of the current round and of prefetched
/// rounds, and the source that makes them.
#[derive(Debug)]
pub(crate) struct Batches {
    source: Arc<Source>,
    seed: u64,
    /// Last round of the training. No micro-batches are made for later rounds.
    until: Round,
    rounds: RefCell<BTreeMap<Round, Batch>>,
    left: Left,
    /// Working memory of the sampler, reused between micro-batches. There is one entry for each
    /// thread that has sampled at the same time as others.
    rooms: Arc<Mutex<Vec<Room>>>,
}

impl Batches {
    /// Creates the batches of a training with `seed` that ends with round `until`. No micro-batch
    /// is made yet.
    pub(crate) fn new(source: Arc<Source>, seed: u64, until: Round) -> Self {
        Self { source, seed, until, rounds: RefCell::default(), left: Left::default(), rooms: Arc::default() }
    }

    /// Prepares for a new pass (a run of the engine). Finished micro-batches are collected, and
    /// rounds that are incomplete are forgotten, so that they are requested again.
    ///
    /// # Errors
    /// Returns the errors of [`Batches::take`], if a micro-batch could not be made.
    pub(crate) fn begin(&self) -> Result<()> {
        self.take()?;
        self.rounds.borrow_mut().retain(|_, batch| batch.weighed.is_some());
        Ok(())
    }

    /// Returns the jobs that make the micro-batches of `round` and of the following rounds to
    /// prefetch. Jobs that an earlier call returned are left out.
    pub(crate) fn wanted(&self, round: Round) -> Vec<(Round, IntervalId, Work)> {
        let ahead = self.source.settings.prefetch;
        let last = Round(round.0.saturating_add(ahead).min(self.until.0.max(round.0)));
        let mut works = Vec::new();
        let mut rounds = self.rounds.borrow_mut();
        for round in (round.0..=last.0).map(Round) {
            rounds.entry(round).or_insert_with(|| {
                let numbers = (0..self.source.parts() as u32).map(IntervalId);
                works.extend(numbers.map(|number| (round, number, self.work(round, number))));
                Batch { parts: vec![None; self.source.parts()], weighed: None }
            });
        }
        works
    }

    /// Returns the job that makes micro-batch `number` of `round` on a compute thread.
    fn work(&self, round: Round, number: IntervalId) -> Work {
        let (source, left, rooms, seed) =
            (self.source.clone(), self.left.clone(), self.rooms.clone(), self.seed);
        Work::Host(Box::new(move || {
            let room = rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut room = room.unwrap_or_default();
            let part = source.part(seed, round, number, &mut room);
            rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room);
            left.lock().unwrap_or_else(PoisonError::into_inner).push(((round, number), part));
            Ok(())
        }))
    }

    /// Collects the micro-batches that compute threads have finished, and assigns them to their
    /// rounds.
    ///
    /// # Errors
    /// Returns the error of a micro-batch that could not be made.
    pub(crate) fn take(&self) -> Result<()> {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rounds = self.rounds.borrow_mut();
        for ((round, number), part) in left {
            let Some(batch) = rounds.get_mut(&round) else { continue };
            if let Some(place @ None) = batch.parts.get_mut(number.index()) {
                *place = Some(part?);
            }
            if let Some(parts) = batch.parts.iter().cloned().collect::<Option<Vec<_>>>() {
                batch.weighed = Some(self.source.weight(&parts));
            }
        }
        Ok(())
    }

    /// Returns true if all micro-batches of `round` are available.
    pub(crate) fn is_whole(&self, round: Round) -> bool {
        self.rounds.borrow().get(&round).is_some_and(|batch| batch.weighed.is_some())
    }

    /// Returns micro-batch `number` of a round, and the weight of each of its training rows in the
    /// loss.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if micro-batches of the round are missing.
    pub(crate) fn part(&self, round: Round, number: IntervalId) -> Result<(Arc<Part>, f32)> {
        let rounds = self.rounds.borrow();
        let found = rounds.get(&round).and_then(|batch| {
            let part = batch.parts.get(number.index())?.clone()?;
            Some((part, batch.weighed?.0))
        });
        found.ok_or_else(|| Error::Internal(format!("round {round} has no micro-batch {number}")))
    }

    /// Returns the size of the set of rows over which the loss of `round` is a mean.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the micro-batches of the round are incomplete or already
    /// released.
    pub(crate) fn rows(&self, round: Round) -> Result<RoundRows> {
        let weighed = self.rounds.borrow().get(&round).and_then(|batch| batch.weighed);
        weighed.map(|(_, rows)| rows).ok_or_else(|| Error::Internal(format!("round {round} has no batch")))
    }

    /// Returns the rows of the data set with which micro-batch `number` of a round begins.
    pub(crate) fn targets(&self, round: Round, number: IntervalId) -> Vec<u32> {
        self.source.targets_of(self.seed, round, number)
    }

    /// Returns the number of micro-batches per round.
    pub(crate) fn parts(&self) -> u32 {
        self.source.parts() as u32
    }

    /// Releases the micro-batches of `round` and of all earlier rounds.
    pub(crate) fn over(&self, round: Round) {
        let mut rounds = self.rounds.borrow_mut();
        *rounds = rounds.split_off(&Round(round.0.saturating_add(1)));
    }
}
