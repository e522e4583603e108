//! Executors: who does the work of steps, and where.
//!
//! An [`Executor`] takes a [`Job`] and gives back [`Completion`]s, in any order; the engine decides
//! what to do with them. The [`LocalPool`] does jobs on this machine's threads. A job is one thread;
//! the driver's thread does jobs too while it has nothing else to do.
//!
//! A [`workers::WorkerPool`] hands them to processes that have dialled this one ([`eciton_connect`]), lanes to
//! the workers that they name. Workers may be lost ([`Completion::Lost`]) and come back.
//!
//! A [`RemotePool`] hands out kernels' jobs that may be done anywhere, as frames, through an
//! [`Invoker`]: AWS Lambda ([`lambda`]), the same behind endpoints of this machine ([`emulated`]), or
//! this process itself ([`loopback`]). The first two need the feature `aws`. All other jobs stay on
//! its local pool. An answer from elsewhere waits beside ([`Answered::Apart`]) until the engine
//! commits it, so any number of attempts at a task may be under way.

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
pub use eciton_plan::Prices;
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
use eciton_plan::{Location, OperationId, SlotId, Step, Task, TaskKey};

/// An attempt at a step, for an executor.
#[derive(Debug)]
pub struct Job<W = Work> {
    /// The pass over a program that this belongs to. Every start of an engine is a pass, so that
    /// answers of one never count in another whose keys are the same.
    pub pass: u32,
    /// What, when, on which rows, which try.
    pub task: Task,
    /// What there is to do.
    pub work: W,
    /// After how long, from the start of the attempt, to report [`Completion::Overdue`] once.
    pub deadline: Option<Duration>,
    /// Where it may run.
    pub affinity: Affinity,
}

/// Where a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// On this host, at any worker and by any function: a pure task, at which there may be several
    /// attempts.
    Any,
    /// At one location only. This host runs the job of a worker on the worker's thread if it has
    /// [lanes of its own](Settings::lanes).
    On(Location),
}

impl Affinity {
    /// Only on this host.
    pub const HOST: Self = Self::On(Location::HOST);

    /// Returns the worker that the job is bound to, as an index of workers. For other jobs the result is
    /// beyond any table.
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

/// A kernel's job that may be done anywhere.
pub(crate) type Order = Job<KernelWork>;

/// What a job does.
pub enum Work {
    /// The host's own work, without a kernel; says what went wrong, if anything.
    Host(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// A call of a kernel.
    Kernel(KernelWork),
    /// An instruction to the worker that [`Job::affinity`] names. The executor does not repeat it.
    Instruction(Instruction),
}

/// An instruction about what a worker owns ([`workers::Owned`]).
#[derive(Debug)]
pub struct Instruction {
    /// Its frame.
    pub frame: Bytes,
    /// True if the worker gets tasks of lanes from now on. Other instructions are for workers that
    /// have begun.
    pub begins: bool,
}

/// A call of kernels.
#[derive(Debug)]
pub struct KernelWork {
    /// The operation of its first kernel in its program: whose parameters it reads.
    pub operation: OperationId,
    /// Which values the parameters have: another number means other values.
    pub generation: u64,
    /// The call.
    pub call: Box<Call>,
    /// Matrices of the call that other tasks read as well: rows of the data set's features, or gathered of
    /// them, the same in every pass; or rows that other steps of a lane, interval and round read.
    pub shared: Vec<SharedInput>,
    /// A call of the same results that reads no rows of a worker's, if they are to be compared.
    pub twin: Option<Box<Call>>,
}

/// Rows that several tasks of an interval read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedInput {
    /// Their place in [`Call::given`].
    pub at: usize,
    /// Their slot.
    pub slot: SlotId,
    /// The lane whose tasks read them, where these are a lane's.
    pub lane: Option<u16>,
    /// Whether no task reads them after this one.
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

    /// Returns the job as one that other processes may do, or `Err` with the job if only this host may.
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

/// What an answered job leaves.
#[derive(Debug)]
pub enum Answered {
    /// Its rows and sums are where the call wanted them.
    InPlace(Finished),
    /// They came in a message and are to be put in place if the engine commits them.
    Apart(Box<Answer>),
    /// The frame that answers an instruction.
    Frame(Bytes),
}

/// What went wrong in a job.
#[derive(Debug)]
pub enum WorkError {
    /// The host's own error, or the text of a panic in its work.
    Host(String),
    /// A kernel's.
    Kernel(Box<eciton_kernel::Error>),
}

impl WorkError {
    /// Whether another attempt can end otherwise.
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

/// When and where something ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Its start.
    pub begun: Instant,
    /// From there to its end.
    pub took: Duration,
    /// Which of this machine's compute threads, the driver's own being 0; `None`: elsewhere.
    pub thread: Option<u32>,
}

impl Timing {
    /// From `begun` until now.
    pub fn since(begun: Instant, thread: Option<u32>) -> Self {
        Self { begun, took: begun.elapsed(), thread }
    }
}

/// What an executor has to say of a job.
#[derive(Debug)]
pub enum Completion {
    /// It has ended.
    Ended {
        /// Of which pass.
        pass: u32,
        /// Which attempt of which step.
        key: TaskKey,
        /// Where it was allowed to run.
        affinity: Affinity,
        /// When it ran, and on which thread.
        timing: Timing,
        /// The process that did it.
        by: Process,
        /// What came of it.
        result: Result<Answered, WorkError>,
    },
    /// It has passed its deadline and goes on.
    Overdue {
        /// Of which pass.
        pass: u32,
        /// Which.
        key: TaskKey,
    },
    /// A worker has failed, with all that it kept. The steps of its lanes are not reported any
    /// more.
    Lost {
        /// The worker.
        at: Location,
    },
    /// A fact about a worker that the user is to know, such as the reason of its failure.
    Warned {
        /// The worker.
        at: Location,
        /// One line for the user.
        text: String,
    },
    /// An audit found a difference. The answerer is excluded by then.
    Audited {
        /// The step whose answers differ.
        step: Step,
        /// The side that computed wrongly.
        verdict: Verdict,
    },
    /// A worker lacks rows that a step reads. The steps of its lanes are not reported any more. It
    /// still has what it owns.
    Forgot {
        /// The worker.
        at: Location,
    },
    /// A worker is there, and has nothing yet.
    Joined {
        /// The worker.
        at: Location,
    },
    /// Nobody is left who could do what waits.
    Deserted {
        /// Why, in words, with what to do.
        reason: String,
    },
}

impl Completion {
    /// Of which pass; `None`: it is of none.
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

    /// Whether it is a task's answer.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Ended { affinity, result: Ok(_), .. } if *affinity != Affinity::HOST)
    }
}

/// Jobs of an executor that are not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs that wait for a thread or a function.
    pub waiting: u64,
    /// Tasks under way with functions; without functions, jobs on threads other than the driver's.
    pub in_flight: u32,
}

/// Properties of an executor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities<'a> {
    /// True if answers come [`Answered::Apart`], so that a second attempt at a task may be submitted
    /// while the first is under way.
    pub is_apart: bool,
    /// True if workers of lanes keep rows between steps ([`eciton_kernel::Kept`]).
    pub keeps_rows: bool,
    /// The rounds in which answers of workers of lanes are compared, so that work needs a
    /// [twin](KernelWork::twin), if any are.
    pub audit: Option<&'a Draw>,
    /// Maximum number of helpers.
    pub most: u32,
    /// The processors of its functions, if it has functions.
    pub architecture: Option<Architecture>,
    /// The place of this machine as seen from its functions, if these are charged for.
    pub host: Option<&'a Host>,
    /// Limit that cut the number of functions, if one did.
    pub cut: Option<&'a Cut>,
}

/// Usage of an executor so far.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Jobs that are not done.
    pub load: Load,
    /// Usage that is charged for, if any is.
    pub bill: Option<Bill>,
    /// The numeric classes of the machines other than this one that have answered, ascending.
    pub numeric_classes: Vec<String>,
    /// Messages of workers, by index.
    pub traffic: Vec<workers::Traffic>,
    /// Counts of the audit, if anything is audited.
    pub audited: Option<Audited>,
}

/// Tasks that are to be cancelled.
#[derive(Debug, Clone, Copy)]
pub enum Cancel<'a> {
    /// All tasks under way that can be ended. Later tasks run on this machine, so that the rest of
    /// the work (an evaluation) costs nothing and waits for nobody.
    All,
    /// The tasks of lanes: their ends are not reported any more.
    Lanes,
    /// The tasks of a worker whose answer is wrong, and its connection. Its loss is reported with the
    /// reason.
    Worker {
        /// The worker.
        at: Location,
        /// The reason.
        reason: &'a str,
    },
}

/// Does jobs.
///
/// An executor has *helpers* beside the driver's thread, whose number may change while tasks are under
/// way: functions, or, where there are none, further compute threads.
pub trait Executor {
    /// Takes a job. The job's leases end before its completion is reported. A second attempt exists only
    /// where [`Capabilities::is_apart`]; its leases end before this call returns.
    fn submit(&mut self, job: Job);

    /// Waits until something is finished (or nothing is under way, or `timeout` has passed) and moves
    /// all that is into `done`. Says whether anything is still under way.
    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool;

    /// Cancels tasks. Returns how many were under way, where their answers are lost.
    fn cancel(&mut self, _what: Cancel<'_>) -> u64 {
        0
    }

    /// Waits, before a first pass, until the workers are there; `tell` hears of those that are
    /// awaited. Returns by index whether a worker is there, and nothing where workers do not come and
    /// go.
    ///
    /// # Errors
    /// Names the workers that are missing, and says what to do.
    fn prepare(&mut self, _tell: &mut dyn FnMut(&str)) -> Result<Vec<bool>, String> {
        Ok(Vec::new())
    }

    /// Sets the number of helpers that work, at most [`Capabilities::most`], which is where it begins.
    /// Tasks under way are finished.
    fn set_limit(&mut self, count: u32);

    /// The properties of the executor. Cancelling changes them.
    fn capabilities(&self) -> Capabilities<'_>;

    /// The usage so far.
    fn usage(&self) -> Usage;
}
