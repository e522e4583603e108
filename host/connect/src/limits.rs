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
/// Bytes of the file of a certificate and its key.
pub const CERTIFICATE_FILE_BYTES: u64 = 16 << 10;
/// Time from a connection's start to its first byte.
pub const FIRST_BYTE: Duration = Duration::from_secs(1);
/// Time from a connection's start to the proof of its token, and from a dial to the welcome.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of connections without a proven token at once.
pub const STRANGERS: usize = 256;
/// Maximum number of these from one address: an IPv4 address, or a 64-bit prefix of IPv6.
pub const STRANGERS_OF_ADDRESS: usize = 64;
/// Signs of life in the silence after which an end counts as gone.
pub const SIGNS: u32 = 4;
