//! Messages between the hosts of a run, each of which runs the steps of its own intervals.
//!
//! A host sends each message to one other host, through a [`Fabric`]. It arrives there as
//! [`Completion::Received`](crate::Completion::Received). Messages may arrive in any order, and the
//! receiver waits for those that it needs.

mod in_process;

use bytes::Bytes;
use eciton_types::{Round, Step};

use crate::local::Inbox;

pub use self::in_process::InProcess;

/// Content of a [`Message`], which gives the body its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Rows that a step has written and that steps of the receiver read. The body is empty if the
    /// receiver only waits for the end of the step.
    Rows(Step),
    /// Results of a round on all intervals of the sender. In a training, they are gradient sums and
    /// losses. In an evaluation, they are scores.
    Shared {
        /// The round that the sender has finished.
        round: Round,
        /// Last round of the run, if the sender has decided to end it.
        end_after: Option<Round>,
    },
}

/// A message from one host to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number of the pass that the message belongs to. Each start of an engine is a pass, and all
    /// hosts have the same passes.
    pub pass: u32,
    /// The kind of the message.
    pub content: Content,
    /// Values in little-endian order.
    pub body: Bytes,
}

/// Connections of a host to the other hosts of its run.
pub trait Fabric: Send + Sync + std::fmt::Debug {
    /// Sends a message to the host with index `to`, without waiting until it has arrived. If the
    /// connection fails, the failure is reported to the inbox of [`Fabric::listen`].
    fn send(&self, to: u32, message: Message);

    /// Reports all arriving messages to `inbox` from now on, including those that have arrived
    /// before.
    fn listen(&self, inbox: Inbox);
}
