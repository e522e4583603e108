//! State that workers own. The host has no copy of it, and changes it by instructions.

use std::fmt::Debug;

use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{IntervalId, Location, ParameterId, Round, TensorKey};

/// The state of a worker, whose meaning is its caller's.
pub trait Owned: Debug + Send {
    /// A matrix that tasks read.
    fn matrix(&self, key: &TensorKey) -> Option<Matrix>;

    /// Adds the gradient of a use of a parameter, which a task has summed over the rows of an
    /// interval, in parts.
    ///
    /// # Errors
    /// What does not fit, in words. The run ends.
    fn add(
        &mut self,
        of: (ParameterId, Round),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<(), String>;

    /// Does an instruction, and returns its answer, which reports errors as well. Returns `None`
    /// while it waits for what other workers pass. An instruction that is `late` does not wait.
    fn instruction(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>>;

    /// Matrices that other workers are to get, since the last time.
    fn passes(&mut self) -> Vec<Passes>;

    /// Takes a matrix from another worker. One that does not fit is left out.
    fn passed(&mut self, key: &TensorKey, matrix: &Matrix);

    /// Bytes that it holds.
    fn bytes(&self) -> u64;
}

/// A matrix for another worker.
#[derive(Debug)]
pub struct Passes {
    /// The worker that gets it.
    pub to: Location,
    /// Its address.
    pub key: TensorKey,
    /// The matrix.
    pub matrix: Matrix,
}
