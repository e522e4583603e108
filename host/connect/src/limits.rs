//! Limits of a connection.

use std::time::Duration;

/// Bytes of a message before the other end is known.
pub const STRANGER_BYTES: u64 = 4 << 10;
/// Bytes of a message.
pub const MESSAGE_BYTES: u64 = 1 << 30;
/// Bytes of a message's head, which is JSON.
pub const HEAD_BYTES: u64 = 1 << 20;
/// Bytes of a token's file.
pub const TOKEN_FILE_BYTES: u64 = 4 << 10;
/// The time from a connection's start until its worker is known.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections whose worker is not known yet, at once. Further ones wait in the system's queue.
pub const STRANGERS: usize = 64;
/// The time from a message's first byte to its last, besides a second for each [`SLOWEST`] bytes.
pub const MESSAGE: Duration = Duration::from_secs(30);
/// Bytes a second of the slowest sender.
pub const SLOWEST: u64 = 1 << 20;
/// Signs of life in the silence after which an end counts as gone.
pub const SIGNS: u32 = 4;
