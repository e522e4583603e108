//! Gradients on the host: buffers that steps write into, and their sums.

use std::collections::BTreeMap;

use eciton_tensor::Buffer;
use eciton_types::{IntervalId, Round};

use super::parameters::use_number;
use super::summing::GradientSums;
use super::sums::Sums;
use crate::error::{Error, Result, at};

/// Gradients of the rounds in flight.
///
/// A step writes its gradients into buffers of its own. Once the engine has committed the step, the
/// buffers are added to the sums and serve a later step. So the number of buffers follows from the
/// number of steps in flight and not from the number of micro-batches.
#[derive(Debug)]
pub(super) struct Gradients {
    sums: GradientSums,
    /// (rows, columns) of each use of a parameter.
    shapes: Vec<(usize, usize)>,
    /// Buffers of steps that are not committed, by round, use and interval.
    written: BTreeMap<(u32, u32, u32), Vec<Buffer>>,
    /// Buffers without a step, by rows and columns.
    free: BTreeMap<(usize, usize), Vec<Buffer>>,
    /// The last round whose update has been made. Its sums stay until the next step begins.
    updated: Option<u32>,
}

fn internal(reason: String) -> Error {
    Error::Internal(format!("gradients: {reason}"))
}

impl Gradients {
    /// Creates gradients of uses with `shapes`, without any values. Without shapes, steps have no
    /// buffers here.
    pub(super) fn new(sums: &Sums, shapes: Vec<(usize, usize)>) -> Result<Self> {
        let (written, free) = (BTreeMap::new(), BTreeMap::new());
        let whole = GradientSums::new(sums.tree, &sums.nodes, &[sums.tree.root()])?;
        Ok(Self { sums: whole, shapes, written, free, updated: None })
    }

    /// Adds the sums that a worker has computed for a use: those of a replica's nodes of the tree.
    pub(super) fn add(&mut self, of: (u32, u32), replica: u32, parts: Vec<Buffer>) -> Result<()> {
        self.forget_updated();
        let added = self.sums.add(of, IntervalId(replica), parts).map_err(internal)?;
        self.release(added);
        Ok(())
    }

    /// Removes the sums that an update has read.
    fn forget_updated(&mut self) {
        if let Some(updated) = self.updated.take() {
            let over = self.sums.forget_through(updated);
            self.release(over);
        }
    }

    /// Returns the buffers that a step writes a use's gradient into: one for each node of its interval.
    /// A second attempt at the step gets the same ones.
    pub(super) fn targets(
        &mut self,
        number: usize,
        round: Round,
        interval: IntervalId,
    ) -> Result<Vec<Buffer>> {
        self.forget_updated();
        let Some(&(rows, columns)) = self.shapes.get(number) else { return Ok(Vec::new()) };
        let step = (round.0, use_number(number), interval.0);
        if let Some(known) = self.written.get(&step) {
            return Ok(known.clone());
        }
        let count = self.sums.nodes(interval).map_or(0, |nodes| nodes.len());
        let free = self.free.entry((rows, columns)).or_default();
        let fresh = || Buffer::zeroed(rows, columns).map_err(at("gradients"));
        let buffers = (0..count).map(|_| free.pop().map_or_else(fresh, Ok)).collect::<Result<Vec<_>>>()?;
        self.written.insert(step, buffers.clone());
        Ok(buffers)
    }

    /// Adds the gradient that a committed step has written for a use to the use's sum.
    pub(super) fn commit(&mut self, number: usize, round: Round, interval: IntervalId) -> Result<()> {
        let number = use_number(number);
        let Some(parts) = self.written.remove(&(round.0, number, interval.0)) else { return Ok(()) };
        let added = self.sums.add((round.0, number), interval, parts).map_err(internal)?;
        self.release(added);
        Ok(())
    }

    /// Returns the sums of the rounds in flight.
    pub(super) fn sums(&self) -> &GradientSums {
        &self.sums
    }

    /// Records that the update of a round has been made.
    pub(super) fn updated(&mut self, round: Round) {
        self.updated = Some(round.0);
    }

    /// Removes all values, because the run that made them does not continue.
    pub(super) fn clear(&mut self) {
        let over = self.sums.forget_through(u32::MAX - 1);
        self.release(over);
        let written: Vec<Buffer> = std::mem::take(&mut self.written).into_values().flatten().collect();
        self.release(written);
        self.updated = None;
    }

    /// Frees the buffers that no step and no sum has.
    pub(super) fn free_buffers(&mut self) {
        self.free.clear();
    }

    fn release(&mut self, buffers: Vec<Buffer>) {
        // Without shapes workers make the gradients, and no step here takes a buffer.
        for buffer in buffers.into_iter().filter(|_| !self.shapes.is_empty()) {
            self.free.entry((buffer.rows(), buffer.columns())).or_default().push(buffer);
        }
    }
}
