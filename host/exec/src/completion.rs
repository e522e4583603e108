//! Reports of an executor about jobs and workers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::Finished;
use eciton_kernel::wire::Answer;
use eciton_types::{Location, Step, TaskKey};

use crate::audit::Verdict;
use crate::job::Affinity;
use crate::process::Process;

/// Successful result of a job. The variant says where the values of the result are.
#[derive(Debug)]
pub enum Answered {
    /// The job has written its rows and sums directly to their destinations.
    InPlace(Finished),
    /// The results are in a message apart from their destinations. The engine writes them if it
    /// commits the attempt.
    Apart(Box<Answer>),
    /// Frame with a worker's answer to an instruction.
    Frame(Bytes),
}

/// Error of a job.
#[derive(Debug)]
pub enum WorkError {
    /// Failure of work that the host itself does, or the text of a panic in it.
    Host(String),
    /// Error of a kernel, or of the transport to the process that runs it.
    Kernel(Box<eciton_kernel::Error>),
}

impl WorkError {
    /// Returns whether another attempt at the job may succeed.
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

/// Start, duration and compute thread of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Start of the job.
    pub begun: Instant,
    /// Time from the start of the job to its end.
    pub took: Duration,
    /// Index of the compute thread of this machine, where 0 is the driver's thread. `None` if
    /// another process ran the job.
    pub thread: Option<u32>,
}

impl Timing {
    /// Creates the timing of a job that began at `begun` and ends now.
    pub fn since(begun: Instant, thread: Option<u32>) -> Self {
        Self { begun, took: begun.elapsed(), thread }
    }
}

/// Report of an executor to the engine, about a job or a worker.
#[derive(Debug)]
pub enum Completion {
    /// A job ended, with a result or an error.
    Ended {
        /// Number of the pass (start of an engine) to which the job belongs.
        pass: u32,
        /// The attempt: stage, round, interval and attempt number.
        key: TaskKey,
        /// The locations where the job was allowed to run.
        affinity: Affinity,
        /// Start, duration and thread of the job.
        timing: Timing,
        /// The process that ran the job.
        by: Process,
        /// The results of the job, or its error.
        result: Result<Answered, WorkError>,
    },
    /// A job has passed its deadline and is still running.
    Overdue {
        /// Number of the pass (start of an engine) to which the job belongs.
        pass: u32,
        /// The attempt: stage, round, interval and attempt number.
        key: TaskKey,
    },
    /// A worker failed, and all that it stored is lost. The executor does not report the ends of
    /// the worker's jobs of lanes (jobs that only this worker could run).
    Lost {
        /// Location of the worker.
        at: Location,
    },
    /// A warning about a worker, such as the reason of its failure.
    Warned {
        /// Location of the worker.
        at: Location,
        /// One line of text for the user.
        text: String,
    },
    /// An audit found two different results for a task. If a process was at fault, the audit has
    /// excluded it before this report.
    Audited {
        /// The step whose results differ.
        step: Step,
        /// The side that computed wrongly.
        verdict: Verdict,
    },
    /// A worker lacks rows that a step reads, so these must be computed again. The worker still has
    /// the parameters that it owns. The executor does not report the ends of its jobs of lanes.
    Forgot {
        /// Location of the worker.
        at: Location,
    },
    /// A worker connected. It stores nothing yet.
    Joined {
        /// Location of the worker.
        at: Location,
    },
    /// No worker is left that could run the waiting jobs.
    Deserted {
        /// The reason, and the action that the user can take.
        reason: String,
    },
}

impl Completion {
    /// Returns the pass of the job that this report is about. Returns `None` if the report is not
    /// about a job.
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

    /// Returns whether this report is the successful answer to a task, and not to work that only
    /// the host does.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Ended { affinity, result: Ok(_), .. } if *affinity != Affinity::HOST)
    }
}
