//! Jobs, the units of work that the driver submits to an executor.

use std::time::Duration;

use bytes::Bytes;
use eciton_kernel::Call;
use eciton_types::{Location, OperationId, SlotId, Task};

/// Job that the driver submits to an executor: one attempt at a step (one stage on one interval in
/// one round).
#[derive(Debug)]
pub struct Job<W = Work> {
    /// Number of the pass to which the job belongs. Each start of an engine is a pass. Answers of
    /// one pass do not count in another, even if their keys are equal.
    pub pass: u32,
    /// The attempt: its stage, round (one optimizer step), interval (range of vertices) and number.
    pub task: Task,
    /// The work to be done.
    pub work: W,
    /// Time from the start of the attempt after which the executor reports
    /// [`crate::Completion::Overdue`] once. If `None`, the executor never reports it.
    pub deadline: Option<Duration>,
    /// The locations where the job may run.
    pub affinity: Affinity,
}

/// The locations where a job may run: any, or a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// The job may run anywhere. Its results depend only on its inputs, so several attempts at it
    /// may run at the same time.
    Any,
    /// The job may run only at this location. A local pool with [lanes](crate::Settings::lanes)
    /// runs the job of a worker on the thread of that worker's lane.
    On(Location),
}

impl Affinity {
    /// The job may run only on this host.
    pub const HOST: Self = Self::On(Location::HOST);

    /// Returns the index of the worker to which the job is bound. For other jobs the index is
    /// larger than the length of any table of workers.
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

/// A job that calls kernels and that other processes may run.
pub type Order = Job<KernelWork>;

/// Work of a job: a closure of the host, a kernel call, or an instruction to a worker.
pub enum Work {
    /// Work of the host that calls no kernel. The closure returns the reason if it fails.
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
    /// Frame of the instruction.
    pub frame: Bytes,
    /// True for the first instruction to a worker, which gives the worker its parameters. Other
    /// instructions fail at a worker that has not had the first one. Only afterwards does the
    /// worker get tasks of lanes.
    pub begins: bool,
}

/// A call of kernels, with the facts that an executor needs to send it to another process.
#[derive(Debug)]
pub struct KernelWork {
    /// Operation of the first kernel of the call. The call reads the parameters of this operation.
    pub operation: OperationId,
    /// Generation number of the parameter values. Two numbers mean two sets of values.
    pub generation: u64,
    /// The kernels to call, with their inputs and destinations.
    pub call: Box<Call>,
    /// Matrices of the call that other tasks also read, so that an executor can send them once.
    /// They are features of the data set, sums of features, or rows that several steps of a lane
    /// read.
    pub shared: Vec<SharedInput>,
    /// A second call with the same results, which reads no rows that exist only at workers. The
    /// host runs this twin for an audit. If `None`, the host runs the call itself.
    pub twin: Option<Box<Call>>,
}

/// Input matrix that several tasks of one interval (a range of vertices) read. An executor can
/// therefore send it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedInput {
    /// Index of the matrix in [`Call::given`].
    pub at: usize,
    /// The slot (row buffer of the program) that contains the rows.
    pub slot: SlotId,
    /// The lane (a worker's share of the pipeline) whose tasks read the rows. If `None`, tasks of
    /// all passes read them.
    pub lane: Option<u16>,
    /// True if no later task reads the rows, so that workers may drop them.
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

    /// Converts the job to an order, which other processes may run.
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
