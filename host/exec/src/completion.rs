//! Completions: reports of an executor about jobs and workers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::Finished;
use eciton_kernel::wire::Answer;
use eciton_types::{Location, Step, TaskKey};

use crate::audit::Verdict;
use crate::job::Affinity;
use crate::process::Process;

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
