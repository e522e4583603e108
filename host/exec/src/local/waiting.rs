//! Jobs that wait for a thread of this machine, and their execution.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use eciton_kernel::{Finished, Instances};

use crate::completion::{Answered, Completion, Timing, WorkError};
use crate::framed::{Framed, Framing};
use crate::job::{Affinity, Job, Work};
use crate::process::Process;

/// A job that waits for a thread of this machine.
pub(super) enum Waiting {
    Job(Box<Job>),
    /// A task stored as a frame, whose answer is not written in place.
    Framed(Arc<Framed>),
}

impl Waiting {
    /// Runs the job, and returns the report of its end. A panic in the job becomes its error. A
    /// panic must not end the pool, because the driver would then wait forever.
    pub(super) fn run(
        self,
        instances: &mut Instances,
        thread: u32,
        rounding: Option<&Framing>,
    ) -> Completion {
        let begun = Instant::now();
        let (pass, key, affinity) = match &self {
            Self::Job(job) => (job.pass, job.task.key(), job.affinity),
            Self::Framed(framed) => (framed.pass, framed.key, Affinity::Any),
        };
        let apart = |answer| Answered::Apart(Box::new(answer));
        let result = match self {
            Self::Framed(framed) => run_guarded(instances, |instances| framed.run(instances).map(apart)),
            Self::Job(job) => {
                let Job { pass, task, work, deadline, affinity } = *job;
                match work {
                    Work::Host(work) => catch_unwind(AssertUnwindSafe(work))
                        .unwrap_or_else(|panic| Err(caught(panic)))
                        .map(|()| Answered::InPlace(Finished::default()))
                        .map_err(WorkError::Host),
                    Work::Instruction(_) => {
                        Err(WorkError::Host("only a worker of a lane can execute an instruction".to_owned()))
                    }
                    Work::Kernel(work) => run_guarded(instances, |instances| match rounding {
                        // Rows of edge kernels are never rounded.
                        Some(rounding) if work.call.only_vertex().is_some() => {
                            let job = Job { pass, task, work, deadline, affinity };
                            rounding.write(&job)?.run(instances).map(apart)
                        }
                        _ => instances.run(*work.call).map(Answered::InPlace),
                    }),
                }
            }
        };
        let timing = Timing::since(begun, Some(thread));
        Completion::Ended { pass, key, affinity, timing, by: Process::HOST, result }
    }
}

/// Runs a task with `instances`. If the task panics, this drops the kernel instances and returns
/// the panic as an error.
///
/// # Errors
/// Returns the error of the task, or an error with the message of the panic.
pub fn run_guarded<T>(
    instances: &mut Instances,
    run: impl FnOnce(&mut Instances) -> Result<T, eciton_kernel::Error>,
) -> Result<T, WorkError> {
    let result = catch_unwind(AssertUnwindSafe(|| run(instances))).unwrap_or_else(|panic| {
        instances.clear();
        Err(eciton_kernel::Error::Engine { doing: "running a task", reason: caught(panic) })
    });
    result.map_err(WorkError::from)
}

/// Returns the message of a panic.
fn caught(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
