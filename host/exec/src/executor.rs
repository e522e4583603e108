//! The trait [`Executor`], and the types that describe an executor's properties and usage.

use std::time::Duration;

use eciton_cloud::{Architecture, Bill, Cut, Host};
use eciton_types::Location;

use crate::audit::{Audited, Draw};
use crate::completion::Completion;
use crate::job::Job;
use crate::traffic::Traffic;

/// Numbers of jobs of an executor that have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of jobs that wait for a thread, a worker or a function.
    pub waiting: u64,
    /// Number of tasks that functions or workers are computing. For a local pool, this is the
    /// number of jobs on threads other than the driver's.
    pub in_flight: u32,
}

/// Properties of an executor, which the engine reads before it submits jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// True if answers arrive separately from their destinations, as [`crate::Answered::Apart`]. A
    /// second attempt at a task may then start while the first is in flight.
    pub is_apart: bool,
    /// True if workers of lanes (shares of the pipeline) store rows between steps
    /// ([`eciton_kernel::CachedRows`]).
    pub caches_rows: bool,
    /// Random choice of the rounds in which an audit compares the answers of lanes (shares of the
    /// pipeline that one worker each computes). Jobs of lanes then need a
    /// [twin](crate::KernelWork::twin). If `None`, no answer of a lane is compared.
    pub audit: Option<&'a Draw>,
    /// Maximum number of helpers (functions, workers, or threads other than the driver's).
    pub most: u32,
    /// Processor architecture of the functions. `None` if the executor has no functions.
    pub architecture: Option<Architecture>,
    /// Location of this host, which determines the price of data transfer. `None` if the executor
    /// charges nothing.
    pub host: Option<&'a Host>,
    /// The limit that reduced the number of functions below the requested number, if any.
    pub cut: Option<&'a Cut>,
}

/// Usage of an executor since it started.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Numbers of jobs that have not ended.
    pub load: Load,
    /// Billable usage of cloud services, or `None` if the executor charges nothing.
    pub bill: Option<Bill>,
    /// Numeric classes of the other machines that have answered, in ascending order. Machines of
    /// one numeric class compute results with the same bits.
    pub numeric_classes: Vec<String>,
    /// Message counts of each worker, by worker index. Empty for executors without workers.
    pub traffic: Vec<Traffic>,
    /// Counts of the audit, or `None` if no answers are audited.
    pub audited: Option<Audited>,
}

/// Tasks that a call of [`Executor::cancel`] ends.
#[derive(Debug, Clone, Copy)]
pub enum Cancel<'a> {
    /// All tasks in flight that the executor can end. The executor runs later tasks, such as those
    /// of an evaluation, on this machine.
    All,
    /// The tasks of lanes (shares of the pipeline, each computed by one worker). The executor does
    /// not report the ends of these tasks.
    Lanes,
    /// The tasks of a worker that gave a wrong answer. The executor closes the worker's connection,
    /// and reports the failure of the worker with `reason`.
    Worker {
        /// Location of the worker.
        at: Location,
        /// Reason of the exclusion, as a text for the user.
        reason: &'a str,
    },
}

/// An executor runs jobs for the engine and reports their completions.
///
/// In addition to the driver's thread, an executor has *helpers*: functions, workers, or other
/// threads of this machine. The number of helpers may change while tasks are in flight.
pub trait Executor {
    /// Submits a job. The job's leases (rights to use rows of a buffer) end before its completion
    /// is reported. A second attempt at a task is allowed only if [`Capabilities::is_apart`] is
    /// true. The leases of a second attempt end before this call returns.
    fn submit(&mut self, job: Job);

    /// Waits until a report is available, no job is in flight, or `timeout` has passed. Moves all
    /// available reports into `done`. Returns true if a job is still in flight.
    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool;

    /// Cancels the tasks that `what` selects. Returns the number of tasks in flight that will not
    /// be answered.
    fn cancel(&mut self, _what: Cancel<'_>) -> u64 {
        0
    }

    /// Waits until all workers are connected, and passes progress messages to `tell`. Returns one
    /// value per worker, which is true if the worker is connected. The list is empty for executors
    /// without workers. The driver calls this before the first pass.
    ///
    /// # Errors
    /// Returns a message that names the missing workers and the action that the user can take.
    fn prepare(&mut self, _tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        Ok(Vec::new())
    }

    /// Records that the run may be resumed after this process has ended. Workers then wait for it.
    fn pauses(&mut self) {}

    /// Sets the number of helpers that may be in use, up to [`Capabilities::most`]. Initially all
    /// helpers may be used. Tasks in flight continue.
    fn set_limit(&mut self, count: u32);

    /// Returns the properties of the executor. They may change after [`Executor::cancel`].
    fn capabilities(&self) -> Capabilities<'_>;

    /// Returns the usage of the executor since it started.
    fn usage(&self) -> Usage;
}
