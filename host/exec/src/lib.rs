//! Executors: who runs tensor tasks, and where.
//!
//! An [`Executor`] takes tasks and gives back completions, in any order; the engine decides what to
//! do with them. The [`LocalPool`] runs kernels on this machine's threads, and takes the graph's own
//! work besides. A task is one thread; the driver's thread runs tasks too while it has nothing else
//! to do.
//!
//! A [`RemotePool`] hands tasks out as frames, through an [`Invoker`]: AWS Lambda ([`lambda`]), the
//! same behind endpoints of this machine ([`emulated`]), or this process itself ([`loopback`]). The first
//! two need the feature `aws`.
//! Graph work stays on its local pool. What comes back waits beside ([`Answered::Apart`]) until the
//! engine commits it, so any number of attempts at a task may be under way.

mod architecture;
#[cfg(feature = "aws")]
pub mod aws;
mod bill;
mod clock;
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
mod prices;
mod remote;
mod without;
pub mod worker;

pub use architecture::Architecture;
pub use bill::{Bill, Cost};
pub use clock::Clock;
pub use deployment::{DEFAULT_STACK, Deployment};
pub use functions::Cut;
pub use host::Host;
pub use invoker::{InvokeError, Invoked, Invoker};
pub use local::{Inbox, LocalPool, Settings};
pub use prices::Prices;
pub use remote::{RemotePool, RemoteSettings, Transport};
pub use without::NoAws;

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, EdgeCall, Finished, Layer};
use eciton_plan::{Attempt, OperationId, SlotId, Step, Task, TaskKey};

/// A tensor task for an executor.
#[derive(Debug)]
pub struct Order {
    /// Which pass over a program this belongs to: every start of an engine is one, so that answers
    /// of one never count in another whose keys are the same.
    pub pass: u32,
    /// What, when, on which rows, which try.
    pub task: Task,
    /// The layer's operation in its program: whose parameters it reads.
    pub operation: OperationId,
    /// Which values the parameters have: another number means other values.
    pub generation: u64,
    /// The kernel, opened.
    pub layer: Arc<Layer>,
    /// What it works on.
    pub call: Call,
    /// Inputs that are rows of the data set's features, or gathered of them: the same in every pass, and of
    /// one slot for every task of an interval.
    pub constant_inputs: Vec<(usize, SlotId)>,
    /// After how long, from the start of the attempt, to report [`Completion::Overdue`] once.
    pub deadline: Option<Duration>,
}

/// What an answered task leaves.
#[derive(Debug)]
pub enum Answered {
    /// Its rows and sums are where the call wanted them.
    InPlace(Finished),
    /// They came in a message and are to be put in place if the engine commits them.
    Apart(Box<Answer>),
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

/// What an executor has finished.
#[derive(Debug)]
pub enum Completion {
    /// A tensor task.
    Task {
        /// Of which pass.
        pass: u32,
        /// Which attempt of which step.
        key: TaskKey,
        /// When and where.
        timing: Timing,
        /// What came of it.
        result: Result<Answered, eciton_kernel::Error>,
    },
    /// An attempt has passed its deadline and goes on.
    Overdue {
        /// Of which pass.
        pass: u32,
        /// Which.
        key: TaskKey,
    },
    /// Work of the host on the graph.
    Work {
        /// Of which pass.
        pass: u32,
        /// Which step.
        step: Step,
        /// When and where.
        timing: Timing,
        /// What came of it.
        result: Result<Finished, WorkError>,
    },
}

impl Completion {
    /// Of which pass.
    pub fn pass(&self) -> u32 {
        match *self {
            Self::Task { pass, .. } | Self::Overdue { pass, .. } | Self::Work { pass, .. } => pass,
        }
    }
}

/// What an executor has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Graph work and tasks that wait for a thread or a function.
    pub waiting: u64,
    /// Tasks under way with functions; without functions, jobs on threads other than the driver's.
    pub in_flight: u32,
}

/// Runs tensor tasks.
///
/// An executor has *helpers* beside the driver's thread, whose number may change while tasks are under
/// way: functions, or, where there are none, further compute threads.
pub trait Executor {
    /// Takes a task. What the call borrows is given back before its completion is seen; of a second
    /// attempt, which there is only where [`Executor::is_apart`], at once.
    fn submit(&mut self, order: Order);

    /// Waits until something is finished (or nothing is under way, or `timeout` has passed) and moves
    /// all that is into `done`. Says whether anything is still under way.
    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool;

    /// Whether answers come [`Answered::Apart`], so that a second attempt at a task may be submitted
    /// while the first is under way.
    fn is_apart(&self) -> bool {
        false
    }

    /// The most helpers that there may be.
    fn most(&self) -> u32;

    /// Lets so many helpers work, at most [`Executor::most`], which is where it begins. What is under way
    /// goes on.
    fn set_limit(&mut self, count: u32);

    /// What there is to do.
    fn load(&self) -> Load;

    /// Ends all tasks under way where that can be done; what they would have answered is lost.
    /// Returns how many there were. From then on tasks run on this machine, so that what is left to
    /// do (an evaluation) costs nothing and waits for nobody.
    fn cancel(&mut self) -> u64 {
        0
    }

    /// What this run has used so far of what is charged for; `None` where nothing is.
    fn bill(&self) -> Option<Bill> {
        None
    }

    /// The numeric classes of the machines other than this one that have answered, ascending.
    fn numeric_classes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The processors of its functions; `None` where there are none.
    fn architecture(&self) -> Option<Architecture> {
        None
    }

    /// This machine's place as seen from its functions; `None` where nothing is charged.
    fn host(&self) -> Option<&Host> {
        None
    }

    /// By what the number of functions was cut, where it was.
    fn cut(&self) -> Option<&Cut> {
        None
    }
}

/// Runs all the work of a run.
pub trait Machine: Executor + Compute {}
impl<T: Executor + Compute> Machine for T {}

/// An edge kernel's step, where a function may do it.
#[derive(Debug)]
pub(crate) struct EdgeOrder {
    pub(crate) pass: u32,
    pub(crate) step: Step,
    pub(crate) layer: Arc<Layer>,
    pub(crate) call: Box<EdgeCall>,
}

impl EdgeOrder {
    /// What its frame and its answer are filed under: there is one attempt, and then this machine's threads.
    pub(crate) fn key(&self) -> TaskKey {
        let Step { round, stage, interval } = self.step;
        TaskKey { round, stage, interval, attempt: Attempt(0) }
    }

    /// Puts an answer in place. All leases end.
    pub(crate) fn put(self, answer: Answer) -> Result<Finished, eciton_kernel::Error> {
        let EdgeCall { rows_out, sums_out, .. } = *self.call;
        answer.into_targets(rows_out, sums_out)
    }
}

/// Work of the host on the graph.
pub enum Work {
    /// Without a kernel; says what went wrong, if anything.
    Graph(Box<dyn FnOnce() -> Result<(), String> + Send>),
    /// An edge kernel's, over lists of edges.
    Edges {
        /// The kernel, opened.
        layer: Arc<Layer>,
        /// What it works on.
        call: Box<EdgeCall>,
    },
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Graph(_) => f.write_str("Work::Graph"),
            Self::Edges { layer, .. } => write!(f, "Work::Edges({})", layer.kernel().name()),
        }
    }
}

/// What went wrong in work of the host.
#[derive(Debug)]
pub enum WorkError {
    /// The host's own, or the text of a panic in it.
    Graph(String),
    /// A kernel's.
    Kernel(Box<eciton_kernel::Error>),
}

/// Runs the host's own work on the graph, on compute threads.
pub trait Compute {
    /// Takes work of a pass that ends by itself.
    fn work(&mut self, pass: u32, step: Step, work: Work);
}
