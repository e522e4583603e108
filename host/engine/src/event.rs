//! Events, which the driver reports to the engine, and actions, which the engine returns.

use eciton_types::{Location, Round, Task, TaskKey};

/// Event: a report of the driver to the engine. Rows, gradients and losses stay with the driver.
///
/// The driver must report each attempt at some time, as completed or failed, even if the attempt
/// was relaunched. If no further attempt is allowed, the engine waits for those in flight. An
/// executor that may lose answers therefore reports [`Event::Failed`] after its own time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run starts.
    Started,
    /// An attempt at a step succeeded. Its results are in their slots (row buffers), or are held
    /// back until [`Action::Commit`].
    Completed {
        /// Key of the attempt.
        key: TaskKey,
        /// Time from the submission of the attempt to its answer, in microseconds. It is 0 if it
        /// was not measured.
        took_us: u64,
    },
    /// An attempt at a step failed.
    Failed {
        /// Key of the attempt.
        key: TaskKey,
        /// True if another attempt may succeed. It is false for permanent failures, such as an
        /// error of the kernel.
        retryable: bool,
    },
    /// An attempt has been in flight for longer than [`crate::Engine::deadline_us`] of its stage.
    /// The driver reports this once per attempt, and only if [`crate::Settings::deadlines`] are
    /// set.
    Overdue(TaskKey),
    /// An [`Action::Update`] has ended, and the next version of the weights is available.
    Updated {
        /// Round whose gradients the update has used.
        round: Round,
    },
    /// An [`Action::Evaluate`] has ended.
    Evaluated {
        /// Round after which the evaluation was ordered.
        round: Round,
    },
    /// All rounds that no interval has entered yet become synchronous: they read rows of their own
    /// round only, and run one after another. Asynchronous training ends this way when it is near
    /// its target. Before [`Event::Started`], the event makes all rounds synchronous.
    Synchronise,
    /// A worker of lanes (shares of the pipeline) failed. Its lanes continue on other workers, and
    /// the steps that it was running are run again. If an answer of a lost attempt still arrives
    /// first, it counts.
    Lost {
        /// Location of the worker.
        at: Location,
    },
    /// A worker no longer has the rows that a step reads. The steps that it was running are run
    /// again, as are the steps whose rows are gone. The worker still has its sums of gradients.
    Forgot {
        /// Location of the worker.
        at: Location,
    },
    /// A failed worker is available again, and gets its own lanes back.
    Joined {
        /// Location of the worker.
        at: Location,
    },
    /// The run shall stop: the engine finishes the rounds in flight and evaluates.
    StopRequested,
    /// The run shall end immediately, without finishing its rounds and without an evaluation. The
    /// engine returns [`Action::Finished`] with [`Reason::Stopped`] and the last finished round. It
    /// counts the attempts in flight as cancelled, and ignores reports about them.
    Cancelled,
}

/// Action: an order of the engine to the driver. The actions that follow from one event may be
/// carried out in any order and in parallel, except that a `Commit` precedes all actions after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Submit the first attempt at a step. [`crate::Engine::ages`] returns the ages of the rows
    /// that the step reads from other intervals. The driver answers with [`Event::Completed`] or
    /// [`Event::Failed`].
    Submit(Task),
    /// Submit another attempt at a task that failed, in a fresh kernel instance. Only the attempt
    /// number differs from that of the failed attempt.
    Retry(Task),
    /// Submit another attempt at a task whose newest attempt is overdue. Only the attempt number
    /// differs. Earlier attempts stay in flight, so each attempt holds its results back until one
    /// is committed.
    Relaunch(Task),
    /// Run a finished step of a lane again, on the worker that [`crate::Engine::location_of`]
    /// returns. The worker stores its rows, or adds its gradients to the sums there
    /// ([`crate::Residence`]). Nothing of it is committed.
    Again(Task),
    /// Publish the results of an attempt, which is the first to complete its step: rows, gradients
    /// and loss. The results of all other attempts are discarded. The attempt may be older than the
    /// newest one, and may have been reported as failed before.
    Commit(TaskKey),
    /// Update the weights: sum the gradients of the round, all of which are committed, and apply
    /// the optimiser. Then publish the next version, in addition to the versions that tasks still
    /// read. The driver answers with [`Event::Updated`]. If a worker with sums of gradients
    /// ([`crate::Settings::sums_stay`]) failed, the driver does not answer. The engine then repeats
    /// the action after the sums are complete again.
    Update {
        /// Round whose gradients the update uses.
        round: Round,
    },
    /// Evaluate the newest weights. The driver answers with [`Event::Evaluated`].
    Evaluate {
        /// Round after which the evaluation happens.
        round: Round,
    },
    /// Report that a round has finished, for logs and progress displays.
    RoundFinished {
        /// Round that has finished.
        round: Round,
    },
    /// The run has ended. The engine returns no further action for any event. The driver may drop
    /// tasks in flight.
    Finished {
        /// Reason for the end of the run.
        reason: Reason,
        /// Last finished round. It is 0 if no round has finished.
        round: Round,
    },
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All rounds have finished.
    Completed,
    /// The driver requested a stop, or cancelled the run.
    Stopped,
    /// A task failed permanently, or its maximum number of attempts failed.
    Failed {
        /// Key of the attempt whose error is the reason. It is the first permanent failure or,
        /// without one, the last failure.
        key: TaskKey,
        /// True if another attempt might have succeeded.
        retryable: bool,
    },
}
