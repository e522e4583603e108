//! Workers: processes that have dialled this one, each at a place of its own.
//!
//! A [`WorkerPool`] lets them in ([`eciton_connect::Listener`]), sends each what it has to do, and keeps on
//! it what later steps read: weights under their generation, rows of lanes' forward steps until their
//! backward steps. A worker ([`serve`]) is one place: it does one task at a time. Which task is whose, a lane
//! says; a task without one is anybody's who is free.
//!
//! All that a place keeps is a copy, or can be computed again: a place may vanish at any time. What it owns
//! ([`Owned`]) is the caller's to log, and to give to another place.

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

/// Messages of a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// The place.
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
