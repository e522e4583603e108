//! Jobs in flight at other processes, and the reports of their ends.

use std::time::Instant;

use eciton_kernel::Error;
use eciton_types::TaskKey;

use crate::completion::{Answered, Completion, Timing, WorkError};
use crate::job::{Affinity, Order};
use crate::local::Inbox;
use crate::process::Process;

/// Handle of a job that another process runs.
///
/// Its owner reports the end of the job once, with [`PendingJob::end`] or [`PendingJob::fail`]. If
/// the handle is dropped without a report, the inbox stops waiting for the job.
#[derive(Debug)]
pub struct PendingJob {
    inbox: Option<Inbox>,
}

impl PendingJob {
    /// Creates the handle of a job that [`Inbox::begin`] has counted as in flight.
    pub fn new(inbox: &Inbox) -> Self {
        Self { inbox: Some(inbox.clone()) }
    }

    /// Reports that `order` failed before it was sent, because its frame could not be written.
    /// Counts the job as in flight first.
    pub fn refuse(inbox: &Inbox, order: &Order, error: Error) {
        inbox.begin();
        Self::new(inbox).fail(order, error);
    }

    /// Reports that this job, an attempt at `order`, failed because its frame could not be written.
    pub fn fail(self, order: &Order, error: Error) {
        self.end(order.pass, order.task.key(), Instant::now(), Process::HOST, Err(error));
    }

    /// Reports the end of the job, which started at `begun`. `by` is the process that answered.
    pub fn end(
        mut self,
        pass: u32,
        key: TaskKey,
        begun: Instant,
        by: Process,
        result: Result<Answered, Error>,
    ) {
        let (affinity, timing) = (Affinity::Any, Timing::since(begun, None));
        let result = result.map_err(WorkError::from);
        if let Some(inbox) = self.inbox.take() {
            inbox.end(Completion::Ended { pass, key, affinity, timing, by, result });
        }
    }
}

impl Drop for PendingJob {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            inbox.forget();
        }
    }
}
