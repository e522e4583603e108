//! Workers: processes that connect to this host, each with an index of its own.
//!
//! A [`WorkerPool`] admits them ([`eciton_connect::Listener`]), sends them tasks, and keeps on them what
//! later steps read: weights under their generation, and rows of forward steps of lanes until their backward
//! steps. A worker ([`serve`]) does one task at a time. A task of a lane names its worker
//! ([`crate::Affinity`]). Other tasks go to the worker with the fewest.
//!
//! A worker may fail at any time: all that it keeps is a copy, or can be computed again. What it owns
//! ([`Owned`]) is logged by the caller, who gives it to another worker.

mod children;
mod connections;
mod incoming;
mod link;
mod objects;
mod owned;
mod peers;
mod pool;
mod room;
mod serve;
mod shared;
mod start;

use serde::{Deserialize, Serialize};

pub use eciton_connect::{Error as ConnectError, Token};
pub use objects::OBJECT_BYTES;
pub use owned::{Owned, Passes};
pub use pool::{Rendezvous, Settings, WorkerPool};
pub use serve::{Leave, Load, Served, Serving, serve};
pub use start::start;

/// Tasks that a worker may have at once: the one that it is at and the next, whose data come meanwhile.
pub const CREDIT: u32 = 2;

/// Messages of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Its index.
    pub place: u32,
    /// Tasks that it has answered.
    pub tasks: u64,
    /// Bytes of all messages to it.
    pub bytes_out: u64,
    /// Bytes of all messages from it.
    pub bytes_in: u64,
    /// The part of `bytes_out` that is weights and other objects.
    pub object_bytes: u64,
    /// The part of `bytes_out` that is values of tasks: rows and weights.
    pub values_out: u64,
    /// The part of `bytes_in` that is values of tasks: rows, gradients and losses.
    pub values_in: u64,
    /// Bytes of values that it has sent to other workers: rows, and gradients for replicas.
    pub values_passed: u64,
    /// Times that it was lost.
    pub lost: u32,
}
