//! Tickets of work that is under way elsewhere.

use std::time::Instant;

use eciton_kernel::Error;
use eciton_types::TaskKey;

use crate::local::Inbox;
use crate::{Affinity, Answered, Completion, Order, Process, Timing, WorkError};

/// Something under way: reports once, or takes itself back when it is dropped before.
pub(crate) struct Ticket {
    inbox: Option<Inbox>,
}

impl Ticket {
    pub(crate) fn new(inbox: &Inbox) -> Self {
        Self { inbox: Some(inbox.clone()) }
    }

    /// Reports an order that cannot be written.
    pub(crate) fn refuse(inbox: &Inbox, order: &Order, error: Error) {
        inbox.begin();
        Self::new(inbox).fail(order, error);
    }

    /// An order that cannot be written.
    pub(crate) fn fail(self, order: &Order, error: Error) {
        self.end(order.pass, order.task.key(), Instant::now(), Process::HOST, Err(error));
    }

    /// Reports the end. `by` is the process that answered.
    pub(crate) fn end(
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

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            inbox.forget();
        }
    }
}
