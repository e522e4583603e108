//! What goes in and what comes out.

use eciton_plan::{Location, Round, Task, TaskKey};

/// What happened. Rows, gradients and losses stay with the driver.
///
/// Every attempt has to be reported at last, as answered or failed, also one that was relaunched: when
/// no further attempt is allowed the engine waits for any of those under way. An executor whose
/// answers can be lost says [`Event::Failed`] at a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The run begins.
    Started,
    /// An attempt at a step was answered. Its results are in place, or wait beside for
    /// [`Action::Commit`].
    Completed {
        /// Which attempt.
        key: TaskKey,
        /// From handing it to the executor to its answer; 0 if nobody measured.
        took_us: u64,
    },
    /// An attempt at a step failed.
    Failed {
        /// Which attempt.
        key: TaskKey,
        /// Whether another attempt can end otherwise.
        retryable: bool,
    },
    /// An attempt has been under way for longer than [`crate::Engine::deadline_us`] of its stage, and
    /// was not reported. The driver's timer says it, once an attempt, and only if
    /// [`crate::Settings::deadlines`] are set.
    Overdue(TaskKey),
    /// An [`Action::Update`] is done: the next version of the weights is there.
    Updated {
        /// Of which round.
        round: Round,
    },
    /// An [`Action::Evaluate`] is done.
    Evaluated {
        /// After which round.
        round: Round,
    },
    /// Rounds that no interval has entered yet read rows of their own only, and run one by one: what
    /// asynchronous training does near its target. Before the start: all rounds do.
    Synchronise,
    /// A worker of lanes failed. Its lanes continue at other workers, and the steps that it was doing
    /// are done again. An answer of a lost attempt counts if it comes first.
    Lost {
        /// The worker.
        at: Location,
    },
    /// A worker no longer has the rows that a step reads. The steps that it was doing are done again,
    /// and so are those whose rows are gone. It still has its sums.
    Forgot {
        /// The worker.
        at: Location,
    },
    /// A worker is back, and gets its own lanes again.
    Joined {
        /// The worker.
        at: Location,
    },
    /// Finish the rounds under way, evaluate, and end the run.
    StopRequested,
    /// End the run at once, in whatever phase it is: no evaluation, and the round is not finished.
    /// [`Action::Finished`] with [`Reason::Stopped`] and the last round that was; what is under way is
    /// counted as cancelled, and reports of it are ignored.
    Cancelled,
}

/// What to do. Actions of one event may be carried out in any order and at once, but `Commit` comes
/// before all that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Do a step for the first time; rows of other intervals are of the rounds that
    /// [`crate::Engine::ages`] names. Then [`Event::Completed`] or [`Event::Failed`].
    Submit(Task),
    /// Do a task that failed once more, in a fresh instance. The attempt is counted up; the rest is
    /// as it was, ages included.
    Retry(Task),
    /// Do a task whose newest attempt is overdue once more. The attempt is counted up; the rest is as
    /// it was, ages included. Earlier attempts stay alive beside it, so each writes to a place of its
    /// own until one is committed.
    Relaunch(Task),
    /// Do a finished step of a lane again, at the worker that [`crate::Engine::location_of`] returns,
    /// for the rows that it keeps there or the gradients that it adds to the sums there
    /// ([`crate::Residence`]). Nothing of it is committed.
    Again(Task),
    /// This answer is the first to its step: its rows, gradients and loss count from now on. What is
    /// not committed is thrown away. The attempt need not be the newest, and may have been reported
    /// failed before.
    Commit(TaskKey),
    /// All gradients of the round are committed: reduce them, step the optimiser, publish the next
    /// version beside those that tasks still read. The next event is [`Event::Updated`]. If a worker
    /// that has sums of gradients ([`crate::Settings::sums_stay`]) is gone, the driver sends no such
    /// event, and the engine repeats this action once the sums are whole again.
    Update {
        /// Of which round.
        round: Round,
    },
    /// Measure the newest weights; then [`Event::Evaluated`].
    Evaluate {
        /// After which round.
        round: Round,
    },
    /// The round is over: report it.
    RoundFinished {
        /// Which.
        round: Round,
    },
    /// The run is over. Nothing follows, whatever comes in; tasks in flight may be dropped.
    Finished {
        /// Why.
        reason: Reason,
        /// The last round that was finished; 0 if none ever was.
        round: Round,
    },
}

/// Why a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All rounds are done.
    Completed,
    /// A stop was requested, or the run was cancelled.
    Stopped,
    /// A task cannot be done: it failed for good, or as often as is allowed.
    Failed {
        /// The attempt whose failure says why: the first that failed for good, else the last.
        key: TaskKey,
        /// Whether that failure was worth a retry, had there been one left.
        retryable: bool,
    },
}
