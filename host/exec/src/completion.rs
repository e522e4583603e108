//! Reports of an executor about its jobs and workers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::Finished;
use eciton_kernel::wire::Answer;
use eciton_types::{Location, Step, TaskKey};

use crate::audit::Verdict;
use crate::hosts::Message;
use crate::job::Affinity;
use crate::process::Process;

/// Successful result of a job. The variant tells where the result values are stored.
#[derive(Debug)]
pub enum Answered {
    /// The job has written its rows and sums directly to their destinations.
    InPlace(Finished),
    /// The answer contains the result values. The engine writes them to their destinations if it
    /// commits the attempt.
    Apart(Box<Answer>),
    /// The frame (binary message) with which a worker answered an instruction.
    Frame(Bytes),
}

/// Error with which a job failed.
#[derive(Debug)]
pub enum WorkError {
    /// Work of the host itself failed. The text is the reason or the message of a panic.
    Host(String),
    /// A kernel failed, or the connection to the process that runs it failed.
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

/// Start time, duration and thread of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Start of the job.
    pub begun: Instant,
    /// Time from the start of the job to its end.
    pub took: Duration,
    /// Index of the thread of this machine that ran the job, where 0 is the driver's thread. `None`
    /// if another process ran the job.
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
        /// Number of the pass to which the job belongs. Each start of an engine is a pass.
        pass: u32,
        /// Key of the attempt: its stage, round, interval and attempt number.
        key: TaskKey,
        /// The locations where the job was allowed to run.
        affinity: Affinity,
        /// Start, duration and thread of the job.
        timing: Timing,
        /// The process that ran the job.
        by: Process,
        /// The results of the job, or the error with which it failed.
        result: Result<Answered, WorkError>,
    },
    /// A job has passed its deadline and is still running.
    Overdue {
        /// Number of the pass to which the job belongs. Each start of an engine is a pass.
        pass: u32,
        /// Key of the attempt: its stage, round, interval and attempt number.
        key: TaskKey,
    },
    /// A worker failed, and all that it stored is lost. The executor does not report the ends of
    /// the worker's jobs of lanes (jobs that only this worker could run).
    WorkerFailed {
        /// Location of the worker.
        at: Location,
    },
    /// A warning for the user about a worker, such as the reason of its failure.
    Warned {
        /// Location of the worker.
        at: Location,
        /// One line of text for the user.
        text: String,
    },
    /// An audit found two different results for a task. If a process computed wrongly, the audit
    /// has already excluded it.
    Audited {
        /// The step (a stage on an interval in a round) whose results differ.
        step: Step,
        /// The side that computed wrongly, the host or another process.
        verdict: Verdict,
    },
    /// A worker lacks rows that a step reads, so the host must have them computed again. The worker
    /// still has its parameters. The executor does not report the ends of jobs that only this
    /// worker could run.
    Forgot {
        /// Location of the worker.
        at: Location,
    },
    /// A worker connected. It stores no rows or parameters yet.
    Joined {
        /// Location of the worker.
        at: Location,
    },
    /// A message of another host of the run has arrived.
    Received {
        /// Index of the host that sent it.
        from: u32,
        /// The message.
        message: Box<Message>,
    },
    /// Another host of the run has failed or ended, so that the run cannot continue.
    HostFailed {
        /// Index of the host.
        host: u32,
        /// The reason, and the action that the user can take.
        reason: String,
        /// True if a message told it, so that the host that failed has reported it itself.
        is_told: bool,
    },
    /// No worker that could run the waiting jobs is left.
    Deserted {
        /// The reason, and the action that the user can take.
        reason: String,
    },
}

impl Completion {
    /// Returns the pass number of the job or message that this report is about, or `None` for
    /// reports about workers, hosts and audits.
    pub fn pass(&self) -> Option<u32> {
        match self {
            Self::Ended { pass, .. } | Self::Overdue { pass, .. } => Some(*pass),
            Self::Received { message, .. } if !message.content.has_pass() => None,
            Self::Received { message, .. } => Some(message.pass),
            Self::WorkerFailed { .. }
            | Self::Forgot { .. }
            | Self::Warned { .. }
            | Self::Joined { .. }
            | Self::Audited { .. }
            | Self::HostFailed { .. }
            | Self::Deserted { .. } => None,
        }
    }

    /// Returns whether this report is the successful end of a task that other processes may run. It
    /// is false for work that only the host does.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Ended { affinity, result: Ok(_), .. } if *affinity != Affinity::HOST)
    }
}
