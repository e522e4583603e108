//! Batches: the parts of rounds, made on compute threads ahead of need.
//!
//! A part is a pure function of the data set, the settings, the seed, its round and its number
//! ([`Source::part`]), so that threads, depths of prefetching and restarts change nothing. A round may
//! begin once all of its parts are there; its parts are let go of when it is over.

mod part;
mod rows;
mod source;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use eciton_exec::Work;
use eciton_graph::sample::Room;
use eciton_plan::{IntervalId, Round};

pub(crate) use self::part::{Part, PartLists};
pub(crate) use self::rows::RowBatches;
pub(crate) use self::source::{Chooser, Source};
use crate::error::{Error, Result};

/// Rows that a round's loss is a weighted mean of. Multi-label and regression tasks count known values in the
/// place of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundRows {
    /// Factor that makes of the round's loss the sum of its rows' losses, each times the weight of the row.
    pub divisor: f64,
    /// Sum of these weights.
    pub weights: f64,
}

impl Default for RoundRows {
    /// Rows of the only round of an epoch.
    fn default() -> Self {
        Self { divisor: 1.0, weights: 1.0 }
    }
}

/// A round's parts.
#[derive(Debug)]
struct Batch {
    parts: Vec<Option<Arc<Part>>>,
    /// Weight of each training row in the loss, or of each known value of one, and the rows of the
    /// round. `None` until all parts are there.
    weighed: Option<(f32, RoundRows)>,
}

/// What threads leave.
type Left = Arc<Mutex<Vec<((Round, IntervalId), Result<Arc<Part>>)>>>;

/// The batches of one seed's training.
#[derive(Debug)]
pub(crate) struct Batches {
    source: Arc<Source>,
    seed: u64,
    /// The last round.
    until: Round,
    rounds: RefCell<BTreeMap<Round, Batch>>,
    left: Left,
    /// Memory of samplers, used again.
    rooms: Arc<Mutex<Vec<Room>>>,
}

impl Batches {
    pub(crate) fn new(source: Arc<Source>, seed: u64, until: Round) -> Self {
        Self { source, seed, until, rounds: RefCell::default(), left: Left::default(), rooms: Arc::default() }
    }

    /// Begins a pass: parts that are under way for an earlier one are not waited for.
    ///
    /// # Errors
    /// As [`Batches::take`].
    pub(crate) fn begin(&self) -> Result<()> {
        self.take()?;
        self.rounds.borrow_mut().retain(|_, batch| batch.weighed.is_some());
        Ok(())
    }

    /// The work of parts that are wanted for a round, and ahead of it, and that nobody has begun.
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

    /// Takes what threads have left.
    ///
    /// # Errors
    /// That of a part that could not be made.
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

    /// Returns whether all parts of a round are there.
    pub(crate) fn is_whole(&self, round: Round) -> bool {
        self.rounds.borrow().get(&round).is_some_and(|batch| batch.weighed.is_some())
    }

    /// A round's part, and the weight of its rows.
    ///
    /// # Errors
    /// [`Error::Internal`] where parts of the round are missing.
    pub(crate) fn part(&self, round: Round, number: IntervalId) -> Result<(Arc<Part>, f32)> {
        let rounds = self.rounds.borrow();
        let found = rounds.get(&round).and_then(|batch| {
            let part = batch.parts.get(number.index())?.clone()?;
            Some((part, batch.weighed?.0))
        });
        found.ok_or_else(|| Error::Internal(format!("round {round} has no part {number}")))
    }

    /// Returns the rows that the loss of a round is a mean of.
    ///
    /// # Errors
    /// [`Error::Internal`] if the round has not begun, or is over.
    pub(crate) fn rows(&self, round: Round) -> Result<RoundRows> {
        let weighed = self.rounds.borrow().get(&round).and_then(|batch| batch.weighed);
        weighed.map(|(_, rows)| rows).ok_or_else(|| Error::Internal(format!("round {round} has no parts")))
    }

    /// A round is over.
    pub(crate) fn over(&self, round: Round) {
        let mut rounds = self.rounds.borrow_mut();
        *rounds = rounds.split_off(&Round(round.0.saturating_add(1)));
    }
}
