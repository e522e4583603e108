//! What goes in and what comes out.

use eciton_plan::{Epoch, Step, Task, TaskKey};

/// What happened. Rows, gradients and losses stay with the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run begins.
    Started,
    /// An [`Action::Gather`] is done and its rows are written.
    Gathered(Step),
    /// An attempt at a task was answered. Its results wait beside for [`Action::Commit`].
    Completed(TaskKey),
    /// An attempt at a task failed.
    Failed {
        /// Which attempt.
        key: TaskKey,
        /// Whether another attempt can end otherwise (`FailureKind::retryable`).
        retryable: bool,
    },
    /// An [`Action::Update`] is done: the next version of the weights is there.
    Updated {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// An [`Action::Evaluate`] is done.
    Evaluated {
        /// After which epoch.
        epoch: Epoch,
    },
    /// Finish this epoch, evaluate, and end the run.
    StopRequested,
}

/// What to do. Actions of one event may be carried out in any order and at once, but `Commit` comes
/// before all that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Do a gather stage for an interval; then [`Event::Gathered`].
    Gather(Step),
    /// Hand a task to an executor; then [`Event::Completed`] or [`Event::Failed`].
    Submit(Task),
    /// Hand a task that failed to an executor once more, in a fresh instance. The attempt is counted
    /// up; the rest is as it was.
    Retry(Task),
    /// This answer is the first to its step: its rows, gradients and loss count from now on. What is
    /// not committed is thrown away.
    Commit(TaskKey),
    /// All gradients of the epoch are committed: reduce them, step the optimiser, publish the next
    /// version; then [`Event::Updated`].
    Update {
        /// Of which epoch.
        epoch: Epoch,
    },
    /// Measure the newest weights; then [`Event::Evaluated`].
    Evaluate {
        /// After which epoch.
        epoch: Epoch,
    },
    /// The epoch is over: report it.
    EpochFinished {
        /// Which.
        epoch: Epoch,
    },
    /// The run is over. Nothing follows, whatever comes in; tasks in flight may be dropped.
    Finished {
        /// Why.
        reason: Reason,
        /// The last epoch that was finished; 0 if none ever was.
        epoch: Epoch,
    },
}

/// Why a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All epochs are done.
    Completed,
    /// A stop was requested.
    Stopped,
    /// A task cannot be done: it failed for good, or as often as is allowed.
    Failed {
        /// The last attempt.
        key: TaskKey,
        /// Whether that failure was worth a retry, had there been one left.
        retryable: bool,
    },
}
