//! Executors: who runs tensor tasks, and where.
//!
//! An [`Executor`] takes tasks and gives back completions, in any order; the engine decides what to
//! do with them. The [`LocalPool`] runs kernels on this machine's threads, and takes the graph's own
//! work besides. A task is one thread; the driver's thread runs tasks too while it has nothing else
//! to do.

mod clock;
mod local;

pub use clock::Clock;
pub use local::{LocalPool, Settings};

use std::sync::Arc;

use eciton_kernel::{Call, Finished, Layer};
use eciton_plan::{Step, TaskKey};

/// What an executor has finished.
#[derive(Debug)]
pub enum Completion {
    /// A tensor task.
    Task {
        /// Which attempt of which step.
        key: TaskKey,
        /// What came of it.
        result: Result<Finished, eciton_kernel::Error>,
    },
    /// Work of the host on the graph.
    Work {
        /// Which step.
        step: Step,
        /// The text of a panic in it.
        failure: Option<String>,
    },
}

/// Runs tensor tasks.
pub trait Executor {
    /// Takes a task. What the call borrows is given back before its completion is seen.
    fn submit(&mut self, key: TaskKey, layer: Arc<Layer>, call: Call);

    /// Waits until something is finished (or nothing is under way) and moves all that is into `done`.
    fn drain(&mut self, done: &mut Vec<Completion>);
}

/// Runs the host's own work on the graph, on compute threads.
pub trait Compute {
    /// Takes work that ends by itself.
    fn work(&mut self, step: Step, work: Box<dyn FnOnce() + Send>);
}
