//! Connections between a run and its workers: one TLS connection per worker, which the worker
//! opens, and its messages.
//!
//! A run listens for workers ([`Listener`]). It has a certificate, and a token for each worker,
//! from a folder ([`Tokens`]). A worker has the file of its token ([`Token`]), which contains the
//! certificate's digest. The worker trusts that certificate and no other. The worker connects
//! ([`dial`]), proves that it has the token, and is admitted ([`Joined`]). From then on the host
//! sends objects and tasks, and the worker answers.
//!
//! ```text
//! worker                          host
//!   ── Hello {place, proof, ...} ──>
//!   <── Welcome {silence, ...} ────        or Refused {reason}
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
//! The proof is an HMAC of bytes that both ends derive from their TLS session (RFC 8446, section
//! 7.5), keyed with the token. It is valid for this connection only, and the token itself is never
//! sent.
//!
//! Everything from the other end is bounded ([`limits`]). Anything else gives a typed [`Error`].

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
