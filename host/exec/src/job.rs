//! Jobs, as the driver submits them to an executor.

use std::time::Duration;

use bytes::Bytes;
use eciton_kernel::Call;
use eciton_types::{Location, OperationId, SlotId, Task};

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
    /// Time from the start of the attempt after which [`crate::Completion::Overdue`] is reported,
    /// once. If `None`, it is never reported.
    pub deadline: Option<Duration>,
    /// The locations where the job may run.
    pub affinity: Affinity,
}

/// The locations where a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// All locations. The job is pure, so that there may be several attempts at it.
    Any,
    /// One location. A local pool with [lanes](crate::Settings::lanes) runs the job of a worker on
    /// the thread of that lane.
    On(Location),
}

impl Affinity {
    /// This host only.
    pub const HOST: Self = Self::On(Location::HOST);

    /// Returns the index of the worker that the job is bound to. For other jobs the result is
    /// beyond any table of workers.
    pub(crate) fn worker(self) -> usize {
        match self {
            Self::Any => usize::MAX,
            Self::On(at) => at.index(),
        }
    }

    /// Returns whether the job is bound to a worker.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Self::On(at) if at.is_worker())
    }
}

/// A kernel's job that other processes may run.
pub type Order = Job<KernelWork>;

/// The work of a job.
pub enum Work {
    /// Work of the host that calls no kernel. Returns the reason if it fails.
    Host(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// A call of kernels.
    Kernel(KernelWork),
    /// An instruction to the worker that [`Job::affinity`] names. The executor does not repeat it.
    Instruction(Instruction),
}

/// An instruction about the state that a worker owns.
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

    /// Returns the job as one that other processes may run.
    ///
    /// # Errors
    /// The job itself, if only this host may run it.
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
