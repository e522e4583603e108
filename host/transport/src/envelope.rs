//! Envelopes: the JSON event and the JSON answer of a function call. Each contains a frame (a
//! binary message) or the key of an object with the frame.
//!
//! ```text
//! event   {"version":1,"frame":CARRIER,"answer_key":KEY|null,"max_inline_bytes":N,"stream":BOOL}
//! answer  {"version":1,"frame":CARRIER,"send_us":N,"existed":BOOL}
//! CARRIER {"inline":"BASE64"}   or   {"object":{"key":KEY,"bytes_len":N}}
//! ```
//!
//! Events and answers of the cloud service are JSON, so frames are encoded as base64 (standard
//! alphabet, padded). An event of 6 MiB can hold 4.5 MiB of frame. The base64 text is most of a
//! message. The encoder writes it directly to its position, and the decoder reads it as a slice of
//! the message. Base64 needs no escapes, and a text with escapes is refused.
//!
//! Decoding is strict. Every field must be present, unknown fields are refused, and sizes have
//! limits. The decoder allocates no memory for a size that the message does not confirm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shortened};
use crate::key::Key;
use crate::store::MAX_OBJECT_BYTES;

/// Maximum size of the event or the answer of a synchronous function call, in bytes.
pub const SYNC_PAYLOAD_BYTES: usize = 6 * 1024 * 1024;

/// Space for the JSON around a frame, in bytes, which holds two keys, numbers and field names.
const AROUND_BYTES: usize = 2048;

/// Maximum size of a frame that a message can contain, in bytes.
pub const INLINE_FRAME_BYTES: u64 = ((SYNC_PAYLOAD_BYTES - AROUND_BYTES) / 4 * 3) as u64;

/// Version of the format of events and answers.
pub const VERSION: u32 = 1;

/// Way in which a frame is transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The message contains the frame.
    Inline(Bytes),
    /// The frame is an object in the store.
    Object {
        /// Key of the object.
        key: Key,
        /// Size of the object in bytes. The frame is the whole object.
        bytes_len: u64,
    },
}

impl Carrier {
    /// Returns the size of the frame, in bytes.
    #[must_use]
    pub fn bytes_len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Object { bytes_len, .. } => *bytes_len,
        }
    }
}

/// Event with which a function is invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Frame of the request, in the event or in an object.
    pub frame: Carrier,
    /// Key for an object with the answer, for use if the answer is too large for the message. The
    /// function writes the object only if it does not exist.
    pub answer_key: Option<Key>,
    /// Maximum size of an answer's frame that the message may contain, in bytes. It may not exceed
    /// [`INLINE_FRAME_BYTES`].
    pub max_inline_bytes: u64,
    /// True if the kernel may start before all its input has arrived.
    pub stream: bool,
}

/// Answer of a function to an event: a frame with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Frame of the answer, in the message or in an object.
    pub frame: Carrier,
    /// Time that the function took to write the object, in microseconds. It is 0 for a frame in the
    /// message.
    pub send_us: u64,
    /// True if the object existed already. Another attempt was then faster, and its answer is used.
    pub existed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum CarrierText<'a> {
    Inline(&'a str),
    Object { key: Key, bytes_len: u64 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvocationText<'a> {
    version: u32,
    #[serde(borrow)]
    frame: CarrierText<'a>,
    answer_key: Option<Key>,
    max_inline_bytes: u64,
    stream: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyText<'a> {
    version: u32,
    #[serde(borrow)]
    frame: CarrierText<'a>,
    send_us: u64,
    existed: bool,
}

#[derive(Serialize)]
struct ObjectText<'a> {
    key: &'a Key,
    bytes_len: u64,
}

const EVENT: &str = "the function's event";
const ANSWER: &str = "the function's answer";

impl Invocation {
    /// Encodes the event as JSON. Fails if the result exceeds [`SYNC_PAYLOAD_BYTES`].
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let Self { frame, answer_key, max_inline_bytes, stream } = self;
        check_inline(EVENT, *max_inline_bytes)?;
        let answer_key = serde_json::to_string(answer_key).map_err(|error| wrong(EVENT, &error))?;
        let rest = format!(
            ",\"answer_key\":{answer_key},\"max_inline_bytes\":{max_inline_bytes},\"stream\":{stream}}}"
        );
        write(EVENT, frame, &rest)
    }

    /// Decodes an event from JSON and checks all its fields.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        check_len(EVENT, json.len())?;
        let text: InvocationText<'_> = serde_json::from_slice(json).map_err(|error| wrong(EVENT, &error))?;
        let InvocationText { version, frame, answer_key, max_inline_bytes, stream } = text;
        check_version(EVENT, version)?;
        check_inline(EVENT, max_inline_bytes)?;
        Ok(Self { frame: read(EVENT, frame)?, answer_key, max_inline_bytes, stream })
    }
}

impl Reply {
    /// Encodes the answer as JSON. Fails if the result exceeds [`SYNC_PAYLOAD_BYTES`].
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let Self { frame, send_us, existed } = self;
        write(ANSWER, frame, &format!(",\"send_us\":{send_us},\"existed\":{existed}}}"))
    }

    /// Decodes an answer from JSON and checks all its fields.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        check_len(ANSWER, json.len())?;
        let text: ReplyText<'_> = serde_json::from_slice(json).map_err(|error| wrong(ANSWER, &error))?;
        let ReplyText { version, frame, send_us, existed } = text;
        check_version(ANSWER, version)?;
        Ok(Self { frame: read(ANSWER, frame)?, send_us, existed })
    }
}

/// Writes a JSON message with the frame in `frame`. `rest` is the text after the frame, including
/// the closing brace.
fn write(what: &'static str, frame: &Carrier, rest: &str) -> Result<Vec<u8>> {
    let start = format!("{{\"version\":{VERSION},\"frame\":");
    let json = match frame {
        Carrier::Inline(bytes) => {
            let start = start + "{\"inline\":\"";
            let text_len = bytes.len().div_ceil(3).saturating_mul(4);
            let from = start.len();
            let to = from.saturating_add(text_len);
            check_len(what, to.saturating_add(2 + rest.len()))?;
            // The text is written to the end of a zeroed allocation, whose pages cost nothing until
            // they are written.
            let mut json = vec![0; to + 2 + rest.len()];
            json[..from].copy_from_slice(start.as_bytes());
            let written = STANDARD.encode_slice(bytes, &mut json[from..to]);
            if written.ok() != Some(text_len) {
                return Err(wrong(what, &"the encoded frame has an unexpected length"));
            }
            json[to..to + 2].copy_from_slice(b"\"}");
            json[to + 2..].copy_from_slice(rest.as_bytes());
            json
        }
        Carrier::Object { key, bytes_len } => {
            check_object(key, *bytes_len)?;
            let object = serde_json::to_string(&ObjectText { key, bytes_len: *bytes_len })
                .map_err(|error| wrong(what, &error))?;
            (start + "{\"object\":" + &object + "}" + rest).into_bytes()
        }
    };
    check_len(what, json.len())?;
    Ok(json)
}

fn read(what: &'static str, text: CarrierText<'_>) -> Result<Carrier> {
    match text {
        CarrierText::Object { key, bytes_len } => {
            check_object(&key, bytes_len)?;
            Ok(Carrier::Object { key, bytes_len })
        }
        CarrierText::Inline(text) => {
            let mut bytes = vec![0; text.len().div_ceil(4).saturating_mul(3)];
            let decoded = STANDARD.decode_slice(text, &mut bytes);
            let len = decoded
                .map_err(|error| wrong(what, &format!("the inline frame is not valid base64: {error}")))?;
            bytes.truncate(len);
            Ok(Carrier::Inline(bytes.into()))
        }
    }
}

fn wrong(what: &'static str, reason: &dyn std::fmt::Display) -> Error {
    Error::Envelope { what, reason: shortened(&reason.to_string()) }
}

fn check_len(what: &'static str, found: usize) -> Result<()> {
    if found > SYNC_PAYLOAD_BYTES {
        let (found, allowed) = (found as u64, SYNC_PAYLOAD_BYTES as u64);
        return Err(Error::TooLarge { what: what.into(), found, allowed });
    }
    Ok(())
}

fn check_version(what: &'static str, found: u32) -> Result<()> {
    if found != VERSION {
        return Err(wrong(
            what,
            &format!("version {found} is not supported; this build uses version {VERSION}"),
        ));
    }
    Ok(())
}

fn check_inline(what: &'static str, found: u64) -> Result<()> {
    if found > INLINE_FRAME_BYTES {
        return Err(wrong(
            what,
            &format!("max_inline_bytes is {found}, but the maximum is {INLINE_FRAME_BYTES}"),
        ));
    }
    Ok(())
}

fn check_object(key: &Key, found: u64) -> Result<()> {
    crate::store::check_size(key, found, MAX_OBJECT_BYTES)
}

#[cfg(test)]
mod tests;
