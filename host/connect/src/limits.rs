//! Limits on connections, messages, and files with secrets.

use std::time::Duration;

/// Maximum size of a message before the other end has proved its token, in bytes.
pub const STRANGER_BYTES: u64 = 4 << 10;
/// Maximum size of a message after the handshake, in bytes.
pub const MESSAGE_BYTES: u64 = 1 << 30;
/// Maximum size of the head of a message (its JSON part), in bytes.
pub const HEAD_BYTES: u64 = 1 << 20;
/// Maximum size of a token file, in bytes.
pub const TOKEN_FILE_BYTES: u64 = 4 << 10;
/// Maximum size of the file that contains a certificate and its private key, in bytes.
pub const CERTIFICATE_FILE_BYTES: u64 = 16 << 10;
/// Maximum time from the start of a connection to its first byte.
pub const FIRST_BYTE: Duration = Duration::from_secs(1);
/// Maximum time for the handshake. The host measures from the start of a connection to the proof of
/// its token, and the worker from the dial to the welcome.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of simultaneous connections that have not proved a token yet.
pub const STRANGERS: usize = 256;
/// Maximum number of simultaneous connections from one address that have not proved a token yet. An
/// address is an IPv4 address or a 64-bit IPv6 prefix.
pub const STRANGERS_OF_ADDRESS: usize = 64;
/// Number of keep-alive messages that each end sends within the maximum silence. A longer silence
/// counts as a failure.
pub const SIGNS: u32 = 4;
