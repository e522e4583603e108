//! The trait `Executor`, and the types that describe an executor's properties and usage.

use std::time::Duration;

use eciton_cloud::{Architecture, Bill, Cut, Host};
use eciton_types::Location;

use crate::audit::{Audited, Draw};
use crate::completion::Completion;
use crate::job::Job;
use crate::traffic::Traffic;

/// Number of jobs of an executor that have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of jobs that wait for a thread, a worker or a function.
    pub waiting: u64,
    /// Number of tasks that functions or workers are computing. For a local pool, the number of
    /// jobs on threads other than the driver's.
    pub in_flight: u32,
}

/// Properties of an executor, which the engine reads before it submits jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// True if answers come apart from their destinations ([`crate::Answered::Apart`]). A second
    /// attempt at a task may then be submitted while the first is in flight.
    pub is_apart: bool,
    /// True if workers of lanes (shares of the pipeline) store rows between steps
    /// ([`eciton_kernel::Kept`]).
    pub keeps_rows: bool,
    /// Random choice of the rounds in which an audit compares the answers of lanes (shares of the
    /// pipeline that one worker each computes). Jobs of lanes
    /// then need a [twin](crate::KernelWork::twin). If `None`, no answer of a lane is compared.
    pub audit: Option<&'a Draw>,
    /// Maximum number of helpers, which are threads, workers or functions.
    pub most: u32,
    /// Processor architecture of the functions. `None` if the executor has no functions.
    pub architecture: Option<Architecture>,
    /// Location of this host, which sets transfer prices. `None` if nothing is charged.
    pub host: Option<&'a Host>,
    /// The limit that lowered the number of functions. `None` if no limit did.
    pub cut: Option<&'a Cut>,
}

/// Usage of an executor since its start.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Jobs that have not ended.
    pub load: Load,
    /// Charged usage of cloud services. `None` if nothing is charged.
    pub bill: Option<Bill>,
    /// Numeric classes of the other machines that have answered, in ascending order. A numeric
    /// class is a set of machines whose arithmetic gives the same bits.
    pub numeric_classes: Vec<String>,
    /// Message counts of the workers, by worker index.
    pub traffic: Vec<Traffic>,
    /// Counts of the audit. `None` if nothing is audited.
    pub audited: Option<Audited>,
}

/// The tasks that [`Executor::cancel`] ends.
#[derive(Debug, Clone, Copy)]
pub enum Cancel<'a> {
    /// All tasks in flight that the executor can end. Later tasks, such as those of an evaluation,
    /// run on this machine.
    All,
    /// The tasks of lanes (shares of the pipeline that one worker each computes). The executor does
    /// not report the ends of these tasks.
    Lanes,
    /// The tasks of a worker that gave a wrong answer. The executor closes the worker's connection,
    /// and reports its failure with the reason.
    Worker {
        /// Location of the worker.
        at: Location,
        /// Reason of the exclusion, as text for the user.
        reason: &'a str,
    },
}

/// Runs jobs for the engine, and reports their completions.
///
/// In addition to the driver's thread, an executor has *helpers*: functions, workers, or further
/// compute threads. The number of helpers may change while tasks are in flight.
pub trait Executor {
    /// Takes a job. The job's leases (rights to use rows of a buffer) end before its completion is
    /// reported. A second attempt at a task is allowed only if [`Capabilities::is_apart`]. The
    /// leases of that attempt end before this call returns.
    fn submit(&mut self, job: Job);

    /// Waits until a report is available, no job is in flight, or `timeout` has passed. Moves all
    /// reports into `done`. Returns whether any job is in flight.
    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool;

    /// Cancels tasks. Returns the number of tasks in flight whose answers are lost.
    fn cancel(&mut self, _what: Cancel<'_>) -> u64 {
        0
    }

    /// Waits before the first pass until all workers are connected. Sends progress texts to `tell`.
    /// Returns for each worker whether it is connected. An executor without workers returns an
    /// empty list.
    ///
    /// # Errors
    /// Returns a text that names the missing workers and the action that the user can take.
    fn prepare(&mut self, _tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        Ok(Vec::new())
    }

    /// Sets the number of helpers in use, up to [`Capabilities::most`]. At the start all helpers
    /// are in use. Tasks in flight are not cancelled.
    fn set_limit(&mut self, count: u32);

    /// Returns the properties of the executor. [`Executor::cancel`] may change them.
    fn capabilities(&self) -> Capabilities<'_>;

    /// Returns the usage since the start of the executor.
    fn usage(&self) -> Usage;
}
