//! Jobs that another process runs, and the report of their end.

use std::time::Instant;

use eciton_kernel::Error;
use eciton_types::TaskKey;

use crate::completion::{Answered, Completion, Timing, WorkError};
use crate::job::{Affinity, Order};
use crate::local::Inbox;
use crate::process::Process;

/// Job in flight at another process.
///
/// It reports its end once. If it is dropped before, the inbox no longer waits for it.
#[derive(Debug)]
pub struct PendingJob {
    inbox: Option<Inbox>,
}

impl PendingJob {
    /// Creates the handle of a job that the inbox counts since [`Inbox::begin`].
    pub fn new(inbox: &Inbox) -> Self {
        Self { inbox: Some(inbox.clone()) }
    }

    /// Reports an order whose frame cannot be written, and which has not begun.
    pub fn refuse(inbox: &Inbox, order: &Order, error: Error) {
        inbox.begin();
        Self::new(inbox).fail(order, error);
    }

    /// Reports that the frame of the order cannot be written.
    pub fn fail(self, order: &Order, error: Error) {
        self.end(order.pass, order.task.key(), Instant::now(), Process::HOST, Err(error));
    }

    /// Reports the end. `by` is the process that answered.
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
