//! Connections of workers: one TLS connection that a worker dials, and the messages on it.
//!
//! A run listens ([`Listener`]). It has a certificate and a token for each worker, of a folder ([`Tokens`]).
//! A worker has the file of its token ([`Token`]), which also holds the certificate's digest: the worker
//! trusts that certificate and no other. The worker dials ([`dial`]), proves that it has the token, and is
//! admitted ([`Joined`]). From then on the host sends objects and tasks, and the worker answers.
//!
//! ```text
//! worker                          host
//!   ── Hello {place, proof, ...} ──>
//!   <── Welcome {silence, ...} ────        or Refused {reason}
//!   <── Object {key} + bytes ──────
//!   <── Task {number} + frame ─────
//!   ── Answer {number} + frame ────>       or Missing {number, keys}
//!   ── Alive ──────────────────────>       both ways, where nothing else goes
//!   ── Drain ──────────────────────>       no further tasks, please
//!   <── Instruction {number} + frame ───    about what the worker owns; answered as a task is
//!   ── Door {address, tokens} ─────>       where it listens for others
//!   <── Peer {at, ...} ────────────        which are told, and send it objects
//!   <── Abandon ───────────────────        no answers to the tasks so far, please
//!   <── Bye ───────────────────────        or the end of the connection
//! ```
//!
//! The proof is an HMAC of bytes that both ends draw from their TLS session (RFC 8446, section 7.5), keyed
//! with the token: it holds on this connection alone, and the token itself never travels.
//!
//! All that comes from the other end is bounded ([`limits`]) and a typed [`Error`] otherwise.

mod dial;
mod error;
mod folder;
pub mod limits;
mod listener;
mod message;
mod secret;
mod strangers;
mod watched;
mod wire;

pub use dial::{Dialled, dial};
pub use error::{Error, Result};
pub use folder::{Tokens, token_path};
pub use listener::{Joined, Listener, Refusals};
pub use message::{Hello, Message, Welcome};
pub use secret::{Certificate, Token};
pub use wire::{Receiver, Sender};
