//! Jobs, the units of work that the driver submits to an executor.

use std::time::Duration;

use bytes::Bytes;
use eciton_kernel::Call;
use eciton_types::{Location, OperationId, SlotId, Task};

/// A unit of work that the driver submits to an executor. It is one attempt at a step, which is one
/// stage on one interval in one round.
#[derive(Debug)]
pub struct Job<W = Work> {
    /// Number of the pass to which the job belongs. Each start of an engine is a pass. The engine
    /// ignores answers to jobs of earlier passes.
    pub pass: u32,
    /// Description of the attempt: its stage, round (one optimizer step), interval (a range of
    /// vertices) and attempt number.
    pub task: Task,
    /// The work to be done, by default a [`Work`].
    pub work: W,
    /// Time after the start of the attempt at which the executor reports
    /// [`crate::Completion::Overdue`], once. If `None`, the executor never reports it.
    pub deadline: Option<Duration>,
    /// The locations where the job may run.
    pub affinity: Affinity,
}

/// The locations where a job may run: anywhere, or at one location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// The job may run anywhere. Its results depend only on its inputs, so several attempts may run
    /// at the same time.
    Any,
    /// The job may run only at this location. If the location is a worker, a local pool with
    /// [lanes](crate::Settings::lanes) uses the thread of the worker's lane.
    On(Location),
}

impl Affinity {
    /// Affinity of a job that only this host may run.
    pub const HOST: Self = Self::On(Location::HOST);

    /// Returns the index of the worker to which the job is bound. For other jobs, the index is out
    /// of the bounds of any table of workers.
    pub(crate) fn worker(self) -> usize {
        match self {
            Self::Any => usize::MAX,
            Self::On(at) => at.index(),
        }
    }

    /// Returns whether the job is bound to one worker.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Self::On(at) if at.is_worker())
    }
}

/// A job that calls kernels, which any process may run.
pub type Order = Job<KernelWork>;

/// Work of a job: a closure of the host, a call of kernels, or an instruction to a worker.
pub enum Work {
    /// Work of the host that calls no kernel. If the closure fails, it returns the reason.
    Host(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// A call of one or more kernels.
    Kernel(KernelWork),
    /// An instruction to the worker that [`Job::affinity`] names. The executor sends it once and
    /// does not repeat it.
    Instruction(Instruction),
}

/// Message to a worker that reads or changes the parameters that this worker owns.
#[derive(Debug)]
pub struct Instruction {
    /// The instruction as a frame (a binary message).
    pub frame: Bytes,
    /// True if this is the first instruction to a worker, which sends the worker its parameters.
    /// Before it, other instructions fail, and the worker gets no tasks of lanes (shares of the
    /// pipeline).
    pub begins: bool,
}

/// A call of one or more kernels, with the facts that an executor needs to send the call to another
/// process.
#[derive(Debug)]
pub struct KernelWork {
    /// Operation of the first kernel in the call, whose parameters the call reads.
    pub operation: OperationId,
    /// Generation number of the parameter values, which changes whenever the values change.
    pub generation: u64,
    /// The kernels to call, with their inputs and destinations.
    pub call: Box<Call>,
    /// Matrices of the call that other tasks read as well, so that an executor can send each of
    /// them once. They contain features of the data set, sums of features, or rows that several
    /// steps of a lane read.
    pub shared: Vec<SharedInput>,
    /// A call with the same results that reads no rows stored at workers. For an audit, the host
    /// runs this twin. If `None`, the host runs `call` itself.
    pub twin: Option<Box<Call>>,
}

/// Input matrix that several tasks of one interval (a range of vertices) read, so that an executor
/// can send it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedInput {
    /// Index of the matrix in [`Call::given`].
    pub at: usize,
    /// The slot (a row buffer of the program) that contains the rows of the matrix.
    pub slot: SlotId,
    /// The lane (a worker's share of the pipeline) whose tasks read the rows. If `None`, tasks of
    /// all passes read the rows.
    pub lane: Option<u16>,
    /// True if no later task reads the rows, so that workers may delete them.
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
    /// Binds a job that may run anywhere to the worker at `at`. Returns the job unchanged if `at`
    /// is not a worker, or if the job is bound already.
    #[must_use]
    pub fn bound(self, at: Location) -> Self {
        match self.affinity {
            Affinity::Any if at.is_worker() => Self { affinity: Affinity::On(at), ..self },
            _ => self,
        }
    }

    /// Converts the job to an order, which other processes may run as well.
    ///
    /// # Errors
    /// Returns the job itself if only this host may run it.
    pub fn anywhere(self) -> Result<Order, Self> {
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
