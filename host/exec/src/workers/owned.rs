//! State that workers own: the host has no copy of it, and sees to it by errands.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_connect::Message;
use eciton_plan::IntervalId;
use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix};

use super::shared::{Pending, Shared, values};

/// The state of a worker, whose meaning is its caller's.
pub trait Owned: Debug + Send {
    /// A matrix that tasks read, by its name after [`OWNED`](super::OWNED).
    fn matrix(&self, name: &str) -> Option<Matrix>;

    /// Adds a task's sum, of the rows of an interval, in parts.
    ///
    /// # Errors
    /// What does not fit, in words. The run ends.
    fn add(&mut self, name: &str, interval: IntervalId, parts: Vec<Buffer>) -> Result<(), String>;

    /// Does an errand; its answer, which also tells of errors. `None`: it waits for what other workers pass. One
    /// that is `late` waits no longer.
    fn errand(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>>;

    /// Matrices that other workers are to get, since the last time.
    fn passes(&mut self) -> Vec<Passes>;

    /// Takes a matrix of a round from another worker. One that does not fit is left out.
    fn passed(&mut self, name: &str, round: u32, matrix: &Matrix);

    /// Bytes that it holds.
    fn bytes(&self) -> u64;
}

/// A matrix for another worker.
#[derive(Debug)]
pub struct Passes {
    /// The place of that worker.
    pub place: u32,
    /// Its name, without [`OWNED`](super::OWNED).
    pub name: String,
    /// The round that it is of.
    pub round: u32,
    /// The matrix.
    pub matrix: Matrix,
}

/// A place that is gone: its errand was not done, or nobody knows whether it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The place.
    pub place: u32,
}

/// The pause between two looks whether places are there.
const LOOK: Duration = Duration::from_millis(200);

impl Shared {
    /// Has errands done, by place; their answers, in order. Those that `begin` say what places are to own; others are
    /// for places that were told.
    pub(super) fn errands(
        self: &Arc<Self>,
        errands: Vec<(u32, Vec<u8>)>,
        begin: bool,
    ) -> Result<Vec<Vec<u8>>, Gone> {
        let mut state = self.lock();
        let mut asked = Vec::with_capacity(errands.len());
        for (place, frame) in errands {
            state.numbers += 1;
            let number = state.numbers;
            let link = state.links.get_mut(place as usize).and_then(Option::as_mut);
            let Some(link) = link.filter(|link| !link.draining && (begin || link.begun)) else {
                asked.iter().for_each(|(number, _)| drop(state.pending.remove(number)));
                return Err(Gone { place });
            };
            let id = link.id;
            link.begun = true;
            if let Some(traffic) = state.traffic.get_mut(place as usize) {
                traffic.values_out += values(&frame);
            }
            let Some(link) = state.links.get_mut(place as usize).and_then(Option::as_mut) else {
                return Err(Gone { place });
            };
            link.say(Message::Errand { number, frame: frame.into() });
            state.pending.insert(number, Pending { place, id, begun: Instant::now(), answer: None });
            asked.push((number, place));
        }
        loop {
            let gone = asked.iter().find(|(number, _)| {
                let pending = state.pending.get(number);
                pending.is_none_or(|pending| {
                    let link = state.links.get(pending.place as usize).and_then(Option::as_ref);
                    pending.answer.is_none() && link.is_none_or(|link| link.id != pending.id)
                })
            });
            if let Some(&(_, place)) = gone {
                asked.iter().for_each(|(number, _)| drop(state.pending.remove(number)));
                return Err(Gone { place });
            }
            let answered = |(number, _): &(u64, u32)| {
                state.pending.get(number).is_some_and(|pending| pending.answer.is_some())
            };
            if asked.iter().all(answered) {
                let take = |(number, _): &(u64, u32)| state.pending.remove(number)?.answer.map(Vec::from);
                return Ok(asked.iter().filter_map(take).collect());
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}
