//! Connections between a run and its workers. Each worker opens one TLS connection, over which both
//! ends exchange messages.
//!
//! A run listens for workers ([`Listener`]). A folder ([`Tokens`]) contains its certificate and a
//! token for each worker. A worker has a copy of its token file ([`Token`]), which contains the
//! digest of the certificate. The worker trusts only this certificate. It connects ([`dial`]),
//! proves that it has the token, and is admitted ([`Joined`]). The host then sends objects and
//! tasks, and the worker answers.
//!
//! ```text
//! worker                          host
//!   ── Hello {token, proof, ...} ──>
//!   <── Welcome {silence, ...} ────        or Refused {reason}, or Wait and then Welcome
//!   <── Object {key} + bytes ──────
//!   <── Task {number} + frame ─────
//!   ── Answer {number} + frame ────>       or Missing {number, keys}
//!   ── Alive ──────────────────────>       keep-alive, sent by both ends
//!   ── Drain ──────────────────────>       accepts no further tasks
//!   <── Instruction {number} + frame ───    operation on the parameter shard
//!   ── Door {address, tokens} ─────>       address for other workers
//!   <── Peer {at, ...} ────────────        address of another worker
//!   <── Abandon ───────────────────        results so far are not needed
//!   <── Bye ───────────────────────        or the connection ends
//! ```
//!
//! Hosts of one run connect in the same way, each with all others. They derive certificate and
//! tokens from one [`Secret`]. Each sends its address to host 0 ([`Message::Door`]), which sends all
//! addresses back ([`Message::Hosts`]). The hosts then exchange rows and sums
//! ([`Message::Exchange`]).
//!
//! The proof is an HMAC of bytes that both ends derive from their TLS session (RFC 8446, section
//! 7.5). Its key is the token. The proof is valid only for this connection, and the token itself is
//! never sent.
//!
//! All data from the other end has size limits ([`limits`]). Unexpected data leads to a typed
//! [`Error`].

mod dial;
mod error;
mod folder;
pub mod limits;
mod listener;
mod membership;
mod message;
mod rendezvous;
mod secret;
mod secured;
#[cfg(test)]
mod simulated_network;
mod strangers;
mod watched;
mod wire;

pub use dial::{Dialled, dial};
pub use error::{Error, Result};
pub use folder::{Tokens, read_tokens, token_path};
pub use listener::{ENDED, Joined, Listener, Refusals, STOPPED};
pub use message::{Hello, Message, Welcome};
pub use rendezvous::Meeting;
pub use secret::{Certificate, Secret, Token};
pub use wire::{Receiver, Sender};
