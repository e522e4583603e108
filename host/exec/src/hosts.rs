//! Messages between the hosts of a run, each of which runs the steps of its own intervals.
//!
//! A host sends each message to one other host, through a [`Fabric`]. It arrives there as
//! [`Completion::Received`](crate::Completion::Received). Messages may arrive in any order, and the
//! receiver waits for those that it needs.

mod in_process;

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use eciton_types::Exchanged;

use crate::completion::Completion;
use crate::local::Inbox;

pub use self::in_process::InProcess;

/// A message from one host to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number of the pass that the message belongs to. Each start of an engine is a pass, and all
    /// hosts have the same passes.
    pub pass: u32,
    /// The kind of the message.
    pub content: Exchanged,
    /// Values in little-endian order.
    pub body: Bytes,
}

/// Inbox of a host, or the messages that arrived before it was known.
#[derive(Debug)]
pub struct Arrivals(Mutex<State>);

#[derive(Debug)]
enum State {
    Early(Vec<Completion>),
    Inbox(Inbox),
}

impl Default for Arrivals {
    fn default() -> Self {
        Self(Mutex::new(State::Early(Vec::new())))
    }
}

impl Arrivals {
    /// Reports a message, or the failure of a host.
    pub fn put(&self, completion: Completion) {
        // The list is consistent even after a panic.
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Early(early) => early.push(completion),
            State::Inbox(inbox) => inbox.note(completion),
        }
    }

    /// Returns true if a host has failed before the inbox was known.
    pub fn has_failure(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Early(early) = &*state else { return false };
        early.iter().any(|completion| matches!(completion, Completion::HostFailed { .. }))
    }

    /// Reports all further messages to `inbox`, and those that have arrived before.
    pub fn listen(&self, inbox: Inbox) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Early(early) = &mut *state {
            early.drain(..).for_each(|completion| inbox.note(completion));
        }
        *state = State::Inbox(inbox);
    }
}

/// Connections of a host to the other hosts of its run.
pub trait Fabric: Send + Sync + std::fmt::Debug {
    /// Sends a message to the host with index `to`, without waiting until it has arrived. If the
    /// connection fails, the failure is reported to the inbox of [`Fabric::listen`].
    fn send(&self, to: u32, message: Message);

    /// Reports all arriving messages to `inbox` from now on, including those that have arrived
    /// before.
    fn listen(&self, inbox: Inbox);

    /// Ends the connections after all messages were sent. If the run of this host has failed,
    /// `failed` has the host that failed first, and the reason, which the other hosts then report.
    fn end(&self, failed: Option<(u32, &str)>);
}
