//! Events, which the driver reports to the engine, and actions, which the engine returns.

use eciton_types::{Location, Round, Task, TaskKey};

/// A report to the engine. Rows, gradients and losses stay with the driver.
///
/// The driver has to report each attempt in the end, as completed or failed, even if it was
/// relaunched. When no further attempt is allowed, the engine waits for those in flight. An
/// executor that may lose answers reports [`Event::Failed`] after a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run starts.
    Started,
    /// An attempt at a step succeeded. Its results are in their slots, or are held back until
    /// [`Action::Commit`].
    Completed {
        /// The attempt.
        key: TaskKey,
        /// Time from its submission to its answer, in microseconds. 0 if it was not measured.
        took_us: u64,
    },
    /// An attempt at a step failed.
    Failed {
        /// The attempt.
        key: TaskKey,
        /// True if another attempt may succeed.
        retryable: bool,
    },
    /// An attempt has been in flight for longer than [`crate::Engine::deadline_us`] of its stage.
    /// The driver reports this once per attempt, and only if [`crate::Settings::deadlines`] are
    /// set.
    Overdue(TaskKey),
    /// An [`Action::Update`] is done, and the next version of the weights is available.
    Updated {
        /// The round.
        round: Round,
    },
    /// An [`Action::Evaluate`] is done.
    Evaluated {
        /// The round after which it was done.
        round: Round,
    },
    /// Rounds that no interval has entered yet become synchronous: they read rows of their own
    /// round only, and run one after another. Asynchronous training ends this way near its target.
    /// Before [`Event::Started`] the event makes all rounds synchronous.
    Synchronise,
    /// A worker of lanes failed. Its lanes continue at other workers, and the steps that it was
    /// doing are done again. An answer of a lost attempt counts if it comes first.
    Lost {
        /// The worker.
        at: Location,
    },
    /// A worker no longer has the rows that a step reads. The steps that it was doing are done
    /// again, and so are those whose rows are gone. It still has its sums.
    Forgot {
        /// The worker.
        at: Location,
    },
    /// A worker is back, and gets its own lanes again.
    Joined {
        /// The worker.
        at: Location,
    },
    /// The run is to end: finish the rounds in flight and evaluate.
    StopRequested,
    /// The run is to end at once, without an evaluation and without finishing its rounds. The
    /// engine returns [`Action::Finished`] with [`Reason::Stopped`] and the last finished round. It
    /// counts the attempts in flight as cancelled and ignores reports about them.
    Cancelled,
}

/// An order to the driver. The actions that follow from one event may be carried out in any order
/// and in parallel, except that a `Commit` precedes all actions after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Submit the first attempt at a step. [`crate::Engine::ages`] returns the rounds of the rows
    /// that it reads of other intervals. The driver answers with [`Event::Completed`] or
    /// [`Event::Failed`].
    Submit(Task),
    /// Submit another attempt at a task that failed, in a fresh kernel instance. It differs from
    /// the failed attempt in its number only.
    Retry(Task),
    /// Submit another attempt at a task whose newest attempt is overdue. It differs from that
    /// attempt in its number only. Earlier attempts stay in flight, so each holds its results back
    /// until one is committed.
    Relaunch(Task),
    /// Do a finished step of a lane again, at the worker that [`crate::Engine::location_of`]
    /// returns, for the rows that it keeps there or the gradients that it adds to the sums there
    /// ([`crate::Residence`]). Nothing of it is committed.
    Again(Task),
    /// Publish the results of an attempt, which is the first to complete its step: rows, gradients
    /// and loss. The results of all other attempts are discarded. The attempt may be older than the
    /// newest one, and may have been reported as failed before.
    Commit(TaskKey),
    /// Update the weights: sum the gradients of the round, all of which are committed, step the
    /// optimiser, and publish the next version in addition to those that tasks still read. The
    /// driver answers with [`Event::Updated`]. If a worker that has sums of gradients
    /// ([`crate::Settings::sums_stay`]) failed, the driver does not answer, and the engine repeats
    /// the action once the sums are complete again.
    Update {
        /// The round.
        round: Round,
    },
    /// Evaluate the newest weights. The driver answers with [`Event::Evaluated`].
    Evaluate {
        /// The round after which this happens.
        round: Round,
    },
    /// Report a round that is finished.
    RoundFinished {
        /// The round.
        round: Round,
    },
    /// The run is over. The engine returns no further action for any event. Tasks in flight may be
    /// dropped.
    Finished {
        /// The reason.
        reason: Reason,
        /// The last finished round, or 0 if no round was finished.
        round: Round,
    },
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All rounds are finished.
    Completed,
    /// A stop was requested, or the run was cancelled.
    Stopped,
    /// A task failed permanently, or as often as is allowed.
    Failed {
        /// The attempt whose error is the reason: the first permanent failure, or else the last
        /// failure.
        key: TaskKey,
        /// True if another attempt might have succeeded.
        retryable: bool,
    },
}
