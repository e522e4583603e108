//! Gradients on the host: the buffers that steps write to, and the sums of these buffers.

use std::collections::BTreeMap;

use eciton_tensor::Buffer;
use eciton_types::{IntervalId, Node, Round};

use super::parameters::use_number;
use super::summing::GradientSums;
use super::sums::Sums;
use crate::error::{Error, Result, at};

/// Gradients of the rounds in flight.
///
/// A step (a stage on one interval) writes its gradients to buffers of its own. When the engine
/// commits the step, the buffers are added to the sums, and later steps reuse them. Therefore the
/// number of buffers depends on the number of steps in flight, and not on the number of
/// micro-batches.
#[derive(Debug)]
pub(super) struct Gradients {
    sums: GradientSums,
    /// Number of rows and columns of each use of a parameter.
    shapes: Vec<(usize, usize)>,
    /// Buffers of steps that are not committed yet, keyed by round, use of a parameter, and
    /// interval.
    written: BTreeMap<(u32, u32, u32), Vec<Buffer>>,
    /// Unused buffers for later steps, keyed by their number of rows and columns.
    free: BTreeMap<(usize, usize), Vec<Buffer>>,
    /// Last round whose update is finished. Its sums are removed when the next step begins.
    updated: Option<u32>,
}

fn internal(reason: String) -> Error {
    Error::Internal(format!("gradients: {reason}"))
}

impl Gradients {
    /// Creates empty gradients, which are added up to the tree nodes `tops`. `shapes` has the number
    /// of rows and columns of each use of a parameter. If it is empty, workers compute the
    /// gradients, and steps on the host get no buffers.
    pub(super) fn new(sums: &Sums, shapes: Vec<(usize, usize)>, tops: &[Node]) -> Result<Self> {
        let (written, free) = (BTreeMap::new(), BTreeMap::new());
        let whole = GradientSums::new(sums.tree, &sums.nodes, tops)?;
        Ok(Self { sums: whole, shapes, written, free, updated: None })
    }

    /// Adds the gradient sums that a replica of the pipeline has computed for one use. `parts` has
    /// one sum per tree node of the replica.
    pub(super) fn add(&mut self, of: (u32, u32), replica: u32, parts: Vec<Buffer>) -> Result<()> {
        self.forget_updated();
        let added = self.sums.add(of, IntervalId(replica), parts).map_err(internal)?;
        self.release(added);
        Ok(())
    }

    /// Removes the sums of the last round whose update is finished.
    fn forget_updated(&mut self) {
        if let Some(updated) = self.updated.take() {
            let over = self.sums.forget_through(updated);
            self.release(over);
        }
    }

    /// Returns the buffers that a step writes the gradient of a use to, one per tree node of the
    /// step's interval. A second attempt at the step gets the same buffers.
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

    /// Adds the gradient of a use that a step has written to the sum. Called when the engine has
    /// committed the step.
    pub(super) fn commit(&mut self, number: usize, round: Round, interval: IntervalId) -> Result<()> {
        let number = use_number(number);
        let Some(parts) = self.written.remove(&(round.0, number, interval.0)) else { return Ok(()) };
        let added = self.sums.add((round.0, number), interval, parts).map_err(internal)?;
        self.release(added);
        Ok(())
    }

    /// Returns the number of rows and columns of a use of a parameter.
    pub(super) fn shape(&self, number: usize) -> (usize, usize) {
        self.shapes.get(number).copied().unwrap_or((0, 0))
    }

    /// Returns the gradient sums of all rounds in flight.
    pub(super) fn sums(&self) -> &GradientSums {
        &self.sums
    }

    /// Records that the update of `round` is finished, so that its sums can be removed.
    pub(super) fn updated(&mut self, round: Round) {
        self.updated = Some(round.0);
    }

    /// Removes all gradients and sums, for instance because the run is rolled back.
    pub(super) fn clear(&mut self) {
        let over = self.sums.forget_through(u32::MAX - 1);
        self.release(over);
        let written: Vec<Buffer> = std::mem::take(&mut self.written).into_values().flatten().collect();
        self.release(written);
        self.updated = None;
    }

    /// Frees the buffers that are stored for later steps.
    pub(super) fn free_buffers(&mut self) {
        self.free.clear();
    }

    /// Stores buffers that are no longer in use, for later steps.
    fn release(&mut self, buffers: Vec<Buffer>) {
        // Without shapes, workers compute the gradients, so that no step on the host takes a
        // buffer.
        for buffer in buffers.into_iter().filter(|_| !self.shapes.is_empty()) {
            self.free.entry((buffer.rows(), buffer.columns())).or_default().push(buffer);
        }
    }
}
