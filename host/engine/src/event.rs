//! Events that the driver reports to the engine, and actions that the engine returns.

use eciton_types::{Location, Round, Step, Task, TaskKey};

/// A report of the driver to the engine. Rows, gradients and losses remain with the driver.
///
/// The driver must report the end of every attempt, even if the task was relaunched. If no more
/// attempts are allowed, the engine waits for those in flight. An executor that may lose answers
/// must therefore report [`Event::Failed`] after its own time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run starts.
    Started,
    /// An attempt at a step succeeded. The driver has stored its results, either in their slots
    /// (row buffers) or apart from them until [`Action::Commit`].
    Completed {
        /// Key of the attempt.
        key: TaskKey,
        /// Time from the submission of the attempt to its answer, in microseconds. 0 means that the
        /// time was not measured.
        took_us: u64,
    },
    /// An attempt at a step failed.
    Failed {
        /// Key of the attempt.
        key: TaskKey,
        /// True if another attempt may succeed. False for permanent failures, such as an error of
        /// the kernel.
        retryable: bool,
    },
    /// An attempt has been in flight for longer than [`crate::Engine::deadline_us`] of its stage.
    /// The driver reports this once per attempt, and only if [`crate::Settings::deadlines`] is set.
    Overdue(TaskKey),
    /// The rows of a step that another host has run have arrived, or in a synchronous run only the
    /// report of its end. [`Action::Submit`] orders the driver to write the rows.
    Received(Step),
    /// Other hosts have finished a round on consecutive intervals, and the sums of the gradients of
    /// these intervals have arrived.
    Shared {
        /// First of the intervals.
        first: u32,
        /// End of the intervals, which is not included.
        end: u32,
        /// The round that was finished.
        round: Round,
    },
    /// The run must end after `round`. All hosts of a run receive this event with the same round,
    /// before any of them enters a later one. [`Event::StopRequested`] is for runs on one host.
    ///
    /// A host enters a round only after it has the sums of all hosts of the round that is `1 +`
    /// the staleness bound before it. If one host sends `r +` the bound with its sums of round `r`,
    /// no host has entered a later round.
    EndAfter {
        /// The last round.
        round: Round,
    },
    /// The rounds from `round` on must be synchronous ([`Event::Synchronise`]). All hosts of a run
    /// receive this event with the same round, before any of them enters it.
    SynchroniseFrom {
        /// The first synchronous round.
        round: Round,
    },
    /// An update that [`Action::Update`] ordered has ended. The next version of the weights is
    /// available.
    Updated {
        /// The round whose gradients the update used.
        round: Round,
    },
    /// An evaluation that [`Action::Evaluate`] ordered has ended.
    Evaluated {
        /// The round after which the evaluation was ordered.
        round: Round,
    },
    /// All rounds that no interval has entered yet must be synchronous: they run one after another
    /// and read only rows of their own round. Asynchronous training ends this way when it is close
    /// to its target. Before [`Event::Started`], this event makes all rounds synchronous.
    Synchronise,
    /// A worker of lanes (shares of the pipeline) failed. Its lanes continue on other workers, and
    /// the steps that it was running are run again. If an answer of a lost attempt still arrives
    /// first, it counts.
    WorkerFailed {
        /// Location of the worker.
        at: Location,
    },
    /// A worker no longer has the rows that a step reads. The steps that computed the missing rows
    /// and the unfinished steps of the worker are run again. The worker still has its gradient
    /// sums.
    Forgot {
        /// Location of the worker that lacks the rows.
        at: Location,
    },
    /// A failed worker is available again, and gets its own lanes back.
    Joined {
        /// Location of the worker that is available again.
        at: Location,
    },
    /// The run must stop. The engine finishes the rounds in flight, and evaluates the weights.
    StopRequested,
    /// The run must end immediately, without finishing its rounds and without an evaluation. The
    /// engine returns [`Action::Finished`] with [`Reason::Stopped`] and the last finished round. It
    /// counts the attempts in flight as cancelled, and ignores reports about them.
    Cancelled,
}

/// An order of the engine to the driver. The actions that follow from one event may be carried out
/// in any order and in parallel. Only a `Commit` must precede all actions after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Submit the first attempt at a step. [`crate::Engine::ages`] returns the ages of the rows
    /// that the step reads from other intervals. The driver answers with [`Event::Completed`] or
    /// [`Event::Failed`].
    Submit(Task),
    /// Submit another attempt at a task that failed, in a new kernel instance. The attempt differs
    /// from the failed one only in its number.
    Retry(Task),
    /// Submit another attempt at a task whose newest attempt is overdue. The attempt differs from
    /// earlier ones only in its number. Earlier attempts remain in flight, so each attempt holds
    /// its results back until one is committed.
    Relaunch(Task),
    /// Run a finished step of a lane again, on the worker that [`crate::Engine::location_of`]
    /// returns. The worker stores the rows of the step, or adds its gradients to the sums there
    /// ([`crate::Residence`]). The results are not committed again.
    Again(Task),
    /// Publish the results of the attempt that completed its step first: rows, gradients and loss.
    /// Discard the results of all other attempts. The attempt need not be the newest one, and may
    /// already have been reported as failed.
    Commit(TaskKey),
    /// This host has finished a round on all of its intervals. The driver sends the sums of their
    /// gradients to all other hosts, which report [`Event::Shared`]. Only a run on several hosts has
    /// this action.
    Share {
        /// The round that was finished.
        round: Round,
    },
    /// Update the weights. The driver sums up the committed gradients of the round, applies the
    /// optimiser, and publishes the next version of the weights. Versions that tasks still read
    /// remain. The driver answers with [`Event::Updated`]. If a worker with gradient sums
    /// ([`crate::Settings::sums_stay`]) failed, the driver does not answer. The engine repeats the
    /// action when the sums are complete again.
    Update {
        /// The round whose gradients the update uses.
        round: Round,
    },
    /// Evaluate the newest weights. The driver answers with [`Event::Evaluated`].
    Evaluate {
        /// The round after which the evaluation takes place.
        round: Round,
    },
    /// Report that a round has finished, for logs and progress displays.
    RoundFinished {
        /// The round that has finished.
        round: Round,
    },
    /// The run has ended, and the engine returns no more actions. The driver may abandon the tasks
    /// in flight.
    Finished {
        /// Reason why the run ended.
        reason: Reason,
        /// The last finished round, or the round before the first if none has finished.
        round: Round,
    },
}

/// Reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All rounds have finished.
    Completed,
    /// The driver requested a stop, or cancelled the run.
    Stopped,
    /// A task failed permanently, or failed in the maximum number of attempts.
    Failed {
        /// Key of the attempt whose error is reported. It is the first attempt that failed
        /// permanently, or the last failed one if none did.
        key: TaskKey,
        /// True if another attempt might have succeeded.
        retryable: bool,
    },
}
