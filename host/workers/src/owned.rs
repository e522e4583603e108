//! Parameters and other state that workers own. The host has no copy of this state, and changes it
//! by instructions.

use std::fmt::Debug;

use eciton_tensor::frame::Frame;
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{IntervalId, Location, ParameterId, Round, TensorKey};

/// State that a worker owns, such as parameters with their optimizer state. The implementor defines
/// its content.
pub trait Owned: Debug + Send {
    /// Returns a matrix that tasks read. Returns `None` if the worker does not own it.
    fn matrix(&self, key: &TensorKey) -> Option<Matrix>;

    /// Adds a gradient of a parameter. A task has summed the gradient over the rows of an interval,
    /// a range of vertices. The gradient may have several parts.
    ///
    /// # Errors
    /// Returns a text if the gradient does not fit the parameter. The run then ends.
    fn add(
        &mut self,
        of: (ParameterId, Round),
        interval: IntervalId,
        parts: Vec<Buffer>,
    ) -> Result<(), String>;

    /// Executes an instruction, and returns its answer, which also reports errors. Returns `None`
    /// while the instruction waits for matrices of other workers. If `late`, the time to wait has
    /// passed, and the instruction must not wait any longer.
    fn instruction(&mut self, frame: &Frame<'_>, late: bool) -> Option<Vec<u8>>;

    /// Removes and returns the matrices that the worker must send to other workers.
    fn passes(&mut self) -> Vec<Passes>;

    /// Takes a matrix from another worker. A matrix that does not fit is ignored.
    fn passed(&mut self, key: &TensorKey, matrix: &Matrix);

    /// Returns the size of the state, in bytes.
    fn bytes(&self) -> u64;
}

/// A matrix that a worker sends ("passes") to another worker.
#[derive(Debug)]
pub struct Passes {
    /// The worker that receives the matrix.
    pub to: Location,
    /// Key under which the receiver looks up the matrix.
    pub key: TensorKey,
    /// The values to send.
    pub matrix: Matrix,
}
