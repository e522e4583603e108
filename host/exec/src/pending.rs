//! Jobs that another process runs, and the reports of their ends.

use std::time::Instant;

use eciton_kernel::Error;
use eciton_types::TaskKey;

use crate::completion::{Answered, Completion, Timing, WorkError};
use crate::job::{Affinity, Order};
use crate::local::Inbox;
use crate::process::Process;

/// Handle of a job in flight at another process.
///
/// The holder reports the end of the job once, through [`PendingJob::end`] or [`PendingJob::fail`].
/// If the handle is dropped before, the inbox no longer waits for the job.
#[derive(Debug)]
pub struct PendingJob {
    inbox: Option<Inbox>,
}

impl PendingJob {
    /// Creates the handle of a job that [`Inbox::begin`] has counted.
    pub fn new(inbox: &Inbox) -> Self {
        Self { inbox: Some(inbox.clone()) }
    }

    /// Reports the failure of an order that has not begun, because its frame cannot be written.
    pub fn refuse(inbox: &Inbox, order: &Order, error: Error) {
        inbox.begin();
        Self::new(inbox).fail(order, error);
    }

    /// Reports the failure of an order in flight, because its frame cannot be written.
    pub fn fail(self, order: &Order, error: Error) {
        self.end(order.pass, order.task.key(), Instant::now(), Process::HOST, Err(error));
    }

    /// Reports the end of the job. `by` is the process that answered.
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
