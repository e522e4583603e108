//! The trait `Executor`, its properties and its usage.

use std::time::Duration;

use eciton_cloud::{Architecture, Bill, Cut, Host};
use eciton_types::Location;

use crate::audit::{Audited, Draw};
use crate::completion::Completion;
use crate::job::Job;
use crate::traffic::Traffic;

/// Number of jobs of an executor that are not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of jobs that wait for a thread, a worker or a function.
    pub waiting: u64,
    /// Number of tasks at functions or workers. For a local pool, number of jobs on threads other
    /// than the driver's.
    pub in_flight: u32,
}

/// Properties of an executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// True if answers are [`crate::Answered::Apart`], so that a second attempt at a task may be
    /// submitted while the first is in flight.
    pub is_apart: bool,
    /// True if workers of lanes store rows between steps ([`eciton_kernel::Kept`]).
    pub keeps_rows: bool,
    /// The choice of rounds in which the answers of lanes are compared, so that jobs need a
    /// [twin](crate::KernelWork::twin). If `None`, no answer of a lane is compared.
    pub audit: Option<&'a Draw>,
    /// Maximum number of helpers: threads, workers or functions.
    pub most: u32,
    /// Processor architecture of the functions, if there are functions.
    pub architecture: Option<Architecture>,
    /// Location and price of this machine, if functions are charged for.
    pub host: Option<&'a Host>,
    /// The limit that lowered the number of functions, if one did.
    pub cut: Option<&'a Cut>,
}

/// Usage of an executor so far.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Jobs that are not done.
    pub load: Load,
    /// Charged usage. If `None`, nothing is charged.
    pub bill: Option<Bill>,
    /// Numeric classes of the other machines that have answered, in ascending order.
    pub numeric_classes: Vec<String>,
    /// Message counts of each worker, by index.
    pub traffic: Vec<Traffic>,
    /// Counts of the audit. If `None`, nothing is audited.
    pub audited: Option<Audited>,
}

/// The tasks that [`Executor::cancel`] ends.
#[derive(Debug, Clone, Copy)]
pub enum Cancel<'a> {
    /// All tasks in flight that can be ended. Later tasks, such as those of an evaluation, run on
    /// this machine.
    All,
    /// The tasks of lanes. Their ends are not reported.
    Lanes,
    /// The tasks of a worker that gave a wrong answer. Its connection ends, and its failure is
    /// reported with the reason.
    Worker {
        /// The worker.
        at: Location,
        /// The reason.
        reason: &'a str,
    },
}

/// Runs jobs.
///
/// In addition to the driver's thread an executor has *helpers*: functions, workers, or further
/// compute threads. Their number may change while tasks are in flight.
pub trait Executor {
    /// Takes a job. The job's leases end before its completion is reported. A second attempt at a
    /// task is allowed only if [`Capabilities::is_apart`]. Its leases end before this call returns.
    fn submit(&mut self, job: Job);

    /// Waits until a report is available, no job is in flight, or `timeout` has passed. Moves all
    /// reports into `done`. Returns whether any job is in flight.
    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool;

    /// Cancels tasks. Returns the number of tasks in flight whose answers are lost.
    fn cancel(&mut self, _what: Cancel<'_>) -> u64 {
        0
    }

    /// Waits before the first pass until all workers are connected, and reports the missing ones to
    /// `tell`. Returns for each worker whether it is connected. An executor without workers returns
    /// an empty list.
    ///
    /// # Errors
    /// A text that names the missing workers and the remedy.
    fn prepare(&mut self, _tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        Ok(Vec::new())
    }

    /// Sets the number of helpers in use, at most [`Capabilities::most`]. Initially all are in use.
    /// Tasks in flight are not cancelled.
    fn set_limit(&mut self, count: u32);

    /// Returns the properties of the executor. [`Executor::cancel`] may change them.
    fn capabilities(&self) -> Capabilities<'_>;

    /// Returns the usage so far.
    fn usage(&self) -> Usage;
}
