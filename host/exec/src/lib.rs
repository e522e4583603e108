//! Executors, which run the jobs of a training run on threads, workers or functions.
//!
//! An [`Executor`] takes a [`Job`] and returns [`Completion`]s, in any order. The engine decides
//! what follows from them. The [`LocalPool`] runs jobs on threads of this machine, one thread per
//! job. The driver's thread runs jobs as well while it waits.
//!
//! A [`workers::WorkerPool`] sends jobs to processes that connect to this host
//! ([`eciton_connect`]). A job of a lane names its worker ([`Affinity`]). Workers may fail
//! ([`Completion::Lost`]) and come back.
//!
//! A [`RemotePool`] sends kernels' jobs as frames through an [`Invoker`]: to AWS Lambda
//! ([`lambda`]), to a stand-in for it on this machine ([`emulated`]), or to this process
//! ([`loopback`]). The first two need the feature `aws`. All other jobs run on its local pool. An
//! answer of another process is held back ([`Answered::Apart`]) until the engine commits it, so a
//! task may have any number of attempts in flight.

mod architecture;
mod audit;
#[cfg(feature = "aws")]
pub mod aws;
mod bill;
pub mod bucket;
mod clock;
pub mod cloud;
pub mod deployment;
#[cfg(feature = "aws")]
pub mod emulated;
mod framed;
pub mod functions;
mod host;
mod invoker;
#[cfg(feature = "aws")]
pub mod lambda;
mod local;
pub mod loopback;
mod remote;
mod scratch;
mod ticket;
pub mod trainers;
mod without;
pub mod worker;
pub mod workers;

pub use architecture::Architecture;
pub use audit::{Audited, Draw, Process, Verdict};
pub use bill::{Bill, Cost, TimeOrigin};
pub use clock::Clock;
pub use cloud::{cloud, cloud_digest, prices};
pub use deployment::{DEFAULT_STACK, Deployment};
pub use eciton_recipe::Prices;
pub use functions::Cut;
pub use host::Host;
pub use invoker::{InvokeError, Invoked, Invoker};
pub use local::{Inbox, LocalPool, Settings};
pub use remote::{RemotePool, RemoteSettings, Transport};
pub use scratch::Scratch;
pub use without::NoAws;

use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, Finished};
use eciton_types::{Location, OperationId, SlotId, Step, Task, TaskKey};

/// One attempt at a step, as the driver submits it.
#[derive(Debug)]
pub struct Job<W = Work> {
    /// Number of the pass that the job belongs to. Each start of an engine is a pass, and its
    /// answers do not count in other passes, whose keys may be equal.
    pub pass: u32,
    /// The attempt: stage, round, interval and number.
    pub task: Task,
    /// The work.
    pub work: W,
    /// Time from the start of the attempt after which [`Completion::Overdue`] is reported, once. If
    /// `None`, it is never reported.
    pub deadline: Option<Duration>,
    /// The locations where the job may run.
    pub affinity: Affinity,
}

/// The locations where a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// All locations. The job is pure, so that there may be several attempts at it.
    Any,
    /// One location. A local pool with [lanes](Settings::lanes) runs the job of a worker on the
    /// thread of that lane.
    On(Location),
}

impl Affinity {
    /// This host only.
    pub const HOST: Self = Self::On(Location::HOST);

    /// Returns the index of the worker that the job is bound to. For other jobs the result is
    /// beyond any table of workers.
    fn worker(self) -> usize {
        match self {
            Self::Any => usize::MAX,
            Self::On(at) => at.index(),
        }
    }

    /// Returns whether the job is bound to a worker.
    fn is_bound(self) -> bool {
        matches!(self, Self::On(at) if at.is_worker())
    }
}

/// A kernel's job that other processes may run.
pub(crate) type Order = Job<KernelWork>;

/// The work of a job.
pub enum Work {
    /// Work of the host that calls no kernel. Returns the reason if it fails.
    Host(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// A call of kernels.
    Kernel(KernelWork),
    /// An instruction to the worker that [`Job::affinity`] names. The executor does not repeat it.
    Instruction(Instruction),
}

/// An instruction about the state that a worker owns ([`workers::Owned`]).
#[derive(Debug)]
pub struct Instruction {
    /// The frame of the instruction.
    pub frame: Bytes,
    /// True for the first instruction, after which the worker gets tasks of lanes. Other
    /// instructions fail at workers that have not had one.
    pub begins: bool,
}

/// A call of kernels.
#[derive(Debug)]
pub struct KernelWork {
    /// Operation of the first kernel, whose parameters the call reads.
    pub operation: OperationId,
    /// Number of the parameter values. Another number means other values.
    pub generation: u64,
    /// The call.
    pub call: Box<Call>,
    /// Matrices of the call that other tasks read as well: features of the data set, sums of these,
    /// or rows that several steps of a lane read in an interval and round.
    pub shared: Vec<SharedInput>,
    /// A call with the same results that reads no rows that only workers have. An audit compares
    /// the results. If `None`, the call itself serves.
    pub twin: Option<Box<Call>>,
}

/// Rows that several tasks of an interval read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedInput {
    /// Index in [`Call::given`].
    pub at: usize,
    /// The slot.
    pub slot: SlotId,
    /// The lane whose tasks read the rows. If `None`, tasks of all passes do.
    pub lane: Option<u16>,
    /// True if no later task reads the rows.
    pub last: bool,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(_) => f.write_str("Work::Host"),
            Self::Kernel(work) => write!(f, "Work::Kernel({:?})", work.operation),
            Self::Instruction(_) => f.write_str("Work::Instruction"),
        }
    }
}

impl Job {
    /// Binds a pure task to a worker, if `at` is one.
    #[must_use]
    pub fn bound(self, at: Location) -> Self {
        match self.affinity {
            Affinity::Any if at.is_worker() => Self { affinity: Affinity::On(at), ..self },
            _ => self,
        }
    }

    /// Returns the job as one that other processes may do, or `Err` with the job if only this host
    /// may.
    fn anywhere(self) -> Result<Order, Self> {
        let Self { pass, task, work, deadline, affinity } = self;
        match work {
            Work::Kernel(work) if affinity != Affinity::HOST => {
                Ok(Job { pass, task, work, deadline, affinity })
            }
            work => Err(Self { pass, task, work, deadline, affinity }),
        }
    }
}

impl From<Order> for Job {
    fn from(order: Order) -> Self {
        let Job { pass, task, work, deadline, affinity } = order;
        Self { pass, task, work: Work::Kernel(work), deadline, affinity }
    }
}

/// Results of a job.
#[derive(Debug)]
pub enum Answered {
    /// The job has written its rows and sums where the call wants them.
    InPlace(Finished),
    /// The results came in a message. They are written if the engine commits the attempt.
    Apart(Box<Answer>),
    /// Frame of the answer to an instruction.
    Frame(Bytes),
}

/// Error of a job.
#[derive(Debug)]
pub enum WorkError {
    /// Error of work of the host, or the text of a panic in it.
    Host(String),
    /// Error of a kernel or of the way to it.
    Kernel(Box<eciton_kernel::Error>),
}

impl WorkError {
    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Kernel(error) if error.is_retryable())
    }
}

impl From<eciton_kernel::Error> for WorkError {
    fn from(error: eciton_kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

/// Start, duration and thread of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The start.
    pub begun: Instant,
    /// Time from the start to the end.
    pub took: Duration,
    /// Index of the compute thread of this machine; the driver's is 0. If `None`, another process
    /// ran the job.
    pub thread: Option<u32>,
}

impl Timing {
    /// Creates the timing of a job that began at `begun` and ends now.
    pub fn since(begun: Instant, thread: Option<u32>) -> Self {
        Self { begun, took: begun.elapsed(), thread }
    }
}

/// Report of an executor.
#[derive(Debug)]
pub enum Completion {
    /// A job ended.
    Ended {
        /// The pass.
        pass: u32,
        /// The attempt.
        key: TaskKey,
        /// The locations where it was allowed to run.
        affinity: Affinity,
        /// Start, duration and thread.
        timing: Timing,
        /// The process that ran it.
        by: Process,
        /// The results, or the error.
        result: Result<Answered, WorkError>,
    },
    /// A job has passed its deadline and continues.
    Overdue {
        /// The pass.
        pass: u32,
        /// The attempt.
        key: TaskKey,
    },
    /// A worker failed, and all that it stored is lost. The ends of its jobs of lanes are not
    /// reported.
    Lost {
        /// The worker.
        at: Location,
    },
    /// A warning about a worker, such as the reason of its failure.
    Warned {
        /// The worker.
        at: Location,
        /// One line for the user.
        text: String,
    },
    /// An audit found a difference. If a process was at fault, it is excluded by then.
    Audited {
        /// The step with different answers.
        step: Step,
        /// The side that computed wrongly.
        verdict: Verdict,
    },
    /// A worker lacks rows that a step reads. The ends of its jobs of lanes are not reported. It
    /// still has the state that it owns.
    Forgot {
        /// The worker.
        at: Location,
    },
    /// A worker connected. It has no state yet.
    Joined {
        /// The worker.
        at: Location,
    },
    /// No worker is left for the jobs that wait.
    Deserted {
        /// The reason, and the remedy.
        reason: String,
    },
}

impl Completion {
    /// Returns the pass of the job that this reports on, if it reports on a job.
    pub fn pass(&self) -> Option<u32> {
        match *self {
            Self::Ended { pass, .. } | Self::Overdue { pass, .. } => Some(pass),
            Self::Lost { .. }
            | Self::Forgot { .. }
            | Self::Warned { .. }
            | Self::Joined { .. }
            | Self::Audited { .. }
            | Self::Deserted { .. } => None,
        }
    }

    /// Returns whether this is the answer to a task.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Ended { affinity, result: Ok(_), .. } if *affinity != Affinity::HOST)
    }
}

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
    /// True if answers are [`Answered::Apart`], so that a second attempt at a task may be submitted
    /// while the first is in flight.
    pub is_apart: bool,
    /// True if workers of lanes store rows between steps ([`eciton_kernel::Kept`]).
    pub keeps_rows: bool,
    /// The choice of rounds in which the answers of lanes are compared, so that jobs need a
    /// [twin](KernelWork::twin). If `None`, no answer of a lane is compared.
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
    pub traffic: Vec<workers::Traffic>,
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
