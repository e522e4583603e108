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
mod frames;
mod incoming;
mod link;
mod objects;
mod owned;
mod peers;
mod pool;
mod room;
mod serve;
mod settings;
mod shared;
mod start;

pub use crate::traffic::Traffic;
pub use eciton_connect::{Error as ConnectError, Token};
pub use objects::OBJECT_BYTES;
pub use owned::{Owned, Passes};
pub use pool::{Rendezvous, WorkerPool};
pub use serve::{Leave, Load, Served, Serving, serve};
pub use settings::{CREDIT, Settings};
pub use start::start;
