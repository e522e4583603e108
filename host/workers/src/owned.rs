//! State that workers own, such as parameters. The host has no copy of this state, and changes it
//! by instructions.

use std::fmt::Debug;

use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{IntervalId, Location, ParameterId, Round, TensorKey};

/// State that a worker owns, for instance parameters with their optimizer state. The implementor
/// defines its content and its instructions.
pub trait Owned: Debug + Send {
    /// Returns the matrix `key` for a task that reads it, or `None` if the worker does not own it.
    fn matrix(&self, key: &TensorKey) -> Option<Matrix>;

    /// Adds `parts` to the gradient of a parameter in a round. A task has summed them over the rows
    /// of `interval` (a range of vertices).
    ///
    /// Returns a message if the gradient does not fit the parameter. The run then ends.
    fn add(
        &mut self,
        of: (ParameterId, Round),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<(), String>;

    /// Executes an instruction, and returns the frame of its answer, which also reports errors.
    /// Returns `None` while the instruction waits for matrices of other workers. If `late` is true,
    /// the maximum waiting time has passed, and the method must return an answer.
    fn instruction(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>>;

    /// Removes and returns the matrices that this worker must send to other workers.
    fn passes(&mut self) -> Vec<Passes>;

    /// Receives the matrix `key` from another worker. Ignores a matrix that does not fit.
    fn passed(&mut self, key: &TensorKey, matrix: &Matrix);

    /// Returns the size of the state, in bytes.
    fn bytes(&self) -> u64;
}

/// A matrix that this worker must send to another worker.
#[derive(Debug)]
pub struct Passes {
    /// The worker that receives the matrix.
    pub to: Location,
    /// Key under which the receiver stores the matrix.
    pub key: TensorKey,
    /// The matrix to send.
    pub matrix: Matrix,
}
