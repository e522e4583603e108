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
pub(crate) struct Batch {
    parts: Vec<Arc<Part>>,
    /// What each training row, or each known value of one, adds to the loss: 1 / their number.
    pub weight: f32,
    rows: RoundRows,
}

/// Parts of a round as far as they are there.
#[derive(Debug)]
enum Made {
    Some { parts: Vec<Option<Arc<Part>>>, missing: usize },
    All(Batch),
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
    rounds: RefCell<BTreeMap<Round, Made>>,
    left: Left,
    /// Memory of samplers, used again.
    rooms: Arc<Mutex<Vec<Room>>>,
}

impl Batches {
    pub(crate) fn new(source: Arc<Source>, seed: u64, until: Round) -> Self {
        Self { source, seed, until, rounds: RefCell::default(), left: Left::default(), rooms: Arc::default() }
    }

    /// Parts of a round.
    fn count(&self) -> usize {
        self.source.parts()
    }

    /// The work of parts that are wanted for a round, and ahead of it, and that nobody has begun.
    pub(crate) fn wanted(&self, round: Round) -> Vec<(Round, IntervalId, Work)> {
        let ahead = self.source.settings.prefetch;
        let last = Round(round.0.saturating_add(ahead).min(self.until.0.max(round.0)));
        let mut works = Vec::new();
        let mut rounds = self.rounds.borrow_mut();
        for round in (round.0..=last.0).map(Round) {
            rounds.entry(round).or_insert_with(|| {
                for number in 0..self.count() as u32 {
                    works.push((round, IntervalId(number), self.work(round, IntervalId(number))));
                }
                Made::Some { parts: (0..self.count()).map(|_| None).collect(), missing: self.count() }
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
            let Some(made) = rounds.get_mut(&round) else { continue };
            let Made::Some { parts, missing } = made else { continue };
            if let Some(place @ None) = parts.get_mut(number.index()) {
                *place = Some(part?);
                *missing -= 1;
            }
            if *missing == 0 {
                let parts: Vec<Arc<Part>> = parts.drain(..).flatten().collect();
                let (weight, rows) = self.source.weight(&parts);
                *made = Made::All(Batch { parts, weight, rows });
            }
        }
        Ok(())
    }

    /// Whether a round may begin.
    pub(crate) fn is_ready(&self, round: Round) -> bool {
        matches!(self.rounds.borrow().get(&round), Some(Made::All(_)))
    }

    /// A round's part, and the weight of its rows.
    ///
    /// # Errors
    /// [`Error::Internal`] where it is not there.
    pub(crate) fn part(&self, round: Round, number: IntervalId) -> Result<(Arc<Part>, f32)> {
        let rounds = self.rounds.borrow();
        let batch = match rounds.get(&round) {
            Some(Made::All(batch)) => Some(batch),
            _ => None,
        };
        let found = batch.and_then(|batch| Some((batch.parts.get(number.index())?.clone(), batch.weight)));
        found.ok_or_else(|| Error::Internal(format!("round {round} has no part {number}")))
    }

    /// Returns the rows that the loss of a round is a mean of.
    ///
    /// # Errors
    /// [`Error::Internal`] if the round has not begun, or is over.
    pub(crate) fn rows(&self, round: Round) -> Result<RoundRows> {
        match self.rounds.borrow().get(&round) {
            Some(Made::All(batch)) => Ok(batch.rows),
            _ => Err(Error::Internal(format!("round {round} has no parts"))),
        }
    }

    /// A round is over.
    pub(crate) fn over(&self, round: Round) {
        let mut rounds = self.rounds.borrow_mut();
        *rounds = rounds.split_off(&Round(round.0.saturating_add(1)));
    }
}
