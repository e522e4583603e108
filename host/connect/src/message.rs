//! Messages of a connection. Each has a kind, a head (JSON) and a body (bytes).
//!
//! The wire format is `length u32 | kind u8 | head length u32 | head | body`, with little-endian
//! numbers. The length counts all bytes after itself.

use bytes::Bytes;
use eciton_types::{Exchanged, Location, TensorKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::limits::HEAD_BYTES;
use crate::secret::Token;

/// Version of the protocol, which must be the same at both ends.
pub(crate) const VERSION: u32 = 13;

/// First message of a worker, with which it proves its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Version of the protocol that the worker uses.
    pub version: u32,
    /// Number of the worker's token.
    pub token: u32,
    /// True if the worker has other tokens as well, and must be refused if another worker uses this
    /// one. [`crate::dial()`] fills it in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_others: bool,
    /// Proof that the worker has its token, in hexadecimal. It is the HMAC-SHA-256 of 32 bytes that
    /// are derived from the TLS session, and its key is the token.
    pub proof: String,
    /// Numeric classes that the worker supports. Machines of one numeric class compute results with
    /// the same bits.
    pub numeric_classes: Vec<String>,
    /// Process id of the worker.
    pub pid: u32,
    /// Maximum size of the objects and rows that the worker caches, in bytes.
    pub keeps_bytes: u64,
    /// Memory that the worker process may use in total, in bytes. `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// Message with which the host admits a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// Name of the run, which object keys and messages contain.
    pub run: String,
    /// Place of the worker, which is its index among the workers of the run. The host fills it in.
    #[serde(default)]
    pub place: u32,
    /// Maximum silence in milliseconds. If an end sends no byte for longer, it counts as failed.
    pub silence_ms: u64,
    /// Numeric class in which the worker must compute. `None` if the worker does not compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// Number of workers that send rows directly to each other. It is 0 if workers send rows only
    /// to the host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peers: u32,
    /// True if both ends continue without TLS after this message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A message between a run and a worker, or between two workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// First message of a worker, which identifies it.
    Hello(Hello),
    /// The host admits the worker.
    Welcome(Welcome),
    /// All places of the run are taken, or the worker's token has a place already. The host sends a
    /// welcome once a place is free for the worker.
    Wait {
        /// Maximum silence in milliseconds, as in [`Welcome::silence_ms`].
        silence_ms: u64,
    },
    /// The host refuses the worker.
    Refused {
        /// Reason of the refusal, as a text for the user.
        reason: String,
        /// True if a later attempt may be admitted.
        again: bool,
    },
    /// The sender sends a frame of tensors that tasks read. The host sends objects, and workers
    /// send rows to each other.
    Object {
        /// Key with which tasks refer to the tensors.
        key: TensorKey,
        /// Frame (binary message) that contains the tensors.
        bytes: Bytes,
    },
    /// The host sends the WebAssembly component of a kernel.
    Kernel {
        /// SHA-256 digest of the component, as 64 hexadecimal digits.
        digest: String,
        /// Bytes of the component.
        bytes: Bytes,
    },
    /// The host lists the objects that no task will read again, so that the worker deletes them.
    Forget(Vec<TensorKey>),
    /// The host sends a task for the worker to run.
    Task {
        /// Number of the task, unique within the connection. The answer contains the same number.
        number: u64,
        /// Frame (binary message) of the request.
        frame: Bytes,
    },
    /// The worker answers a task or an instruction.
    Answer {
        /// Number of the task or the instruction that this message answers.
        number: u64,
        /// Frame (binary message) of the answer.
        frame: Bytes,
        /// Bytes of values that the worker has sent to other workers since its previous answer.
        passed: u64,
    },
    /// The worker cannot run a task, because it lacks objects that the task reads.
    Missing {
        /// Number of the task.
        number: u64,
        /// Keys of the missing objects.
        keys: Vec<TensorKey>,
    },
    /// Keep-alive message, which both ends send when they have no other message to send.
    Alive,
    /// The worker is about to leave and accepts no more tasks.
    Drain,
    /// The sender ends the connection.
    Bye {
        /// Reason of the end, as a text for the user.
        reason: String,
        /// True if the receiver may connect again, for instance because the run will be resumed.
        again: bool,
    },
    /// The worker reports its address, at which it listens for rows from other workers.
    Door {
        /// Address of the worker, in the form `HOST:PORT`.
        address: String,
        /// Tokens with which the workers may connect to this address, by worker index.
        tokens: Vec<Token>,
    },
    /// The host reports the address of another worker, and the token that is necessary to connect
    /// to it.
    Peer {
        /// Location of the other worker.
        at: Location,
        /// Address of the other worker, in the form `HOST:PORT`.
        address: String,
        /// Token with which this worker may connect to the other worker.
        token: Token,
    },
    /// The host no longer needs the results of the tasks sent so far.
    Abandon,
    /// The host sends an instruction, which reads or changes the parameters that the worker owns.
    Instruction {
        /// Number of the instruction, unique within the connection. Tasks and instructions share
        /// one sequence of numbers.
        number: u64,
        /// Frame (binary message) of the instruction.
        frame: Bytes,
    },
    /// Host 0 sends the addresses of all hosts, once all have connected to it.
    Hosts {
        /// Addresses by host, in the form `HOST:PORT`. That of host 0 is empty, because all others
        /// are connected to it.
        addresses: Vec<String>,
        /// The task of the run, for hosts that were started without one.
        task: Bytes,
    },
    /// A host sends values to another host of its run.
    Exchange {
        /// Number of the pass that the values belong to.
        pass: u32,
        /// Meaning of the values.
        content: Exchanged,
        /// The values.
        body: Bytes,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keyed {
    key: TensorKey,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Digested {
    digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbered {
    number: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    number: u64,
    #[serde(default, skip_serializing_if = "is_nothing")]
    passed: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    pass: u32,
    content: Exchanged,
}

fn is_nothing(bytes: &u64) -> bool {
    *bytes == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unmet {
    number: u64,
    keys: Vec<TensorKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Doored {
    address: String,
    tokens: Vec<Token>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Peered {
    at: Location,
    address: String,
    token: Token,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addressed {
    addresses: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    reason: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    silence_ms: u64,
}

/// Names of the kinds of messages, by the number of the kind.
const KINDS: [&str; 19] = [
    "hello",
    "welcome",
    "refused",
    "object",
    "forget",
    "task",
    "answer",
    "missing",
    "alive",
    "drain",
    "bye",
    "instruction",
    "door",
    "peer",
    "abandon",
    "kernel",
    "wait",
    "exchange",
    "hosts",
];

/// Returns the name of the kind with the number `kind`, for error messages.
pub(crate) fn kind_name(kind: u8) -> String {
    KINDS
        .get(usize::from(kind))
        .map_or_else(|| format!("a message of kind {kind}"), |name| (*name).to_owned())
}

fn head<T: Serialize>(kind: u8, of: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(of).map_err(|e| Error::message(kind_name(kind), e))
}

fn parse<T: DeserializeOwned>(kind: u8, head: &[u8]) -> Result<T> {
    serde_json::from_slice(head).map_err(|e| Error::message(kind_name(kind), e))
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 0,
            Self::Welcome(_) => 1,
            Self::Refused { .. } => 2,
            Self::Object { .. } => 3,
            Self::Forget(_) => 4,
            Self::Task { .. } => 5,
            Self::Answer { .. } => 6,
            Self::Missing { .. } => 7,
            Self::Alive => 8,
            Self::Drain => 9,
            Self::Bye { .. } => 10,
            Self::Instruction { .. } => 11,
            Self::Door { .. } => 12,
            Self::Peer { .. } => 13,
            Self::Abandon => 14,
            Self::Kernel { .. } => 15,
            Self::Wait { .. } => 16,
            Self::Exchange { .. } => 17,
            Self::Hosts { .. } => 18,
        }
    }

    /// Returns the name of this message's kind.
    #[must_use]
    pub fn name(&self) -> String {
        kind_name(self.kind())
    }

    /// Encodes the message. The first part contains the length, the kind and the head. The second
    /// part is the body.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the head or the message exceeds its limit.
    pub fn encode(&self) -> Result<(Vec<u8>, Bytes)> {
        let kind = self.kind();
        let (head, body) = match self {
            Self::Hello(hello) => (head(kind, hello)?, Bytes::new()),
            Self::Welcome(welcome) => (head(kind, welcome)?, Bytes::new()),
            Self::Wait { silence_ms } => (head(kind, &Waiting { silence_ms: *silence_ms })?, Bytes::new()),
            Self::Refused { reason, again } | Self::Bye { reason, again } => {
                (head(kind, &Refusal { reason: reason.clone(), again: *again })?, Bytes::new())
            }
            Self::Object { key, bytes } => (head(kind, &Keyed { key: *key })?, bytes.clone()),
            Self::Kernel { digest, bytes } => {
                (head(kind, &Digested { digest: digest.clone() })?, bytes.clone())
            }
            Self::Forget(keys) => (head(kind, keys)?, Bytes::new()),
            Self::Task { number, frame } | Self::Instruction { number, frame } => {
                (head(kind, &Numbered { number: *number })?, frame.clone())
            }
            Self::Answer { number, frame, passed } => {
                (head(kind, &Answered { number: *number, passed: *passed })?, frame.clone())
            }
            Self::Missing { number, keys } => {
                (head(kind, &Unmet { number: *number, keys: keys.clone() })?, Bytes::new())
            }
            Self::Door { address, tokens } => {
                (head(kind, &Doored { address: address.clone(), tokens: tokens.clone() })?, Bytes::new())
            }
            Self::Peer { at, address, token } => {
                let peer = Peered { at: *at, address: address.clone(), token: token.clone() };
                (head(kind, &peer)?, Bytes::new())
            }
            Self::Exchange { pass, content, body } => {
                (head(kind, &Passed { pass: *pass, content: *content })?, body.clone())
            }
            Self::Hosts { addresses, task } => {
                (head(kind, &Addressed { addresses: addresses.clone() })?, task.clone())
            }
            Self::Alive | Self::Drain | Self::Abandon => (Vec::new(), Bytes::new()),
        };
        let too_large = |what, found: usize, allowed| Error::TooLarge { what, found: found as u64, allowed };
        if head.len() as u64 > HEAD_BYTES {
            return Err(too_large("a message header", head.len(), HEAD_BYTES));
        }
        let length = 5 + head.len() + body.len();
        let length = u32::try_from(length)
            .map_err(|_| too_large("a message", length, crate::limits::MESSAGE_BYTES))?;
        let mut start = Vec::with_capacity(9 + head.len());
        start.extend_from_slice(&length.to_le_bytes());
        start.push(kind);
        start.extend_from_slice(&(head.len() as u32).to_le_bytes());
        start.extend_from_slice(&head);
        Ok((start, body))
    }

    /// Decodes a message from the bytes that follow its length.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid message, or if the head exceeds its limit.
    pub fn decode(mut bytes: Bytes) -> Result<Self> {
        let short = || Error::message("a message", "it ends within its header");
        let kind = *bytes.first().ok_or_else(short)?;
        let length = bytes.get(1..5).and_then(|length| <[u8; 4]>::try_from(length).ok()).ok_or_else(short)?;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > HEAD_BYTES {
            let found = length.into();
            return Err(Error::TooLarge { what: "a message header", found, allowed: HEAD_BYTES });
        }
        let end = 5 + length as usize;
        if bytes.len() < end {
            return Err(short());
        }
        let mut head = bytes.split_to(end);
        let (head, body) = (head.split_off(5), bytes);
        let found = match kind {
            0 => Self::Hello(parse(kind, &head)?),
            1 => Self::Welcome(parse(kind, &head)?),
            2 => {
                let Refusal { reason, again } = parse(kind, &head)?;
                Self::Refused { reason, again }
            }
            3 => return Ok(Self::Object { key: parse::<Keyed>(kind, &head)?.key, bytes: body }),
            4 => Self::Forget(parse(kind, &head)?),
            5 => return Ok(Self::Task { number: parse::<Numbered>(kind, &head)?.number, frame: body }),
            6 => {
                let Answered { number, passed } = parse(kind, &head)?;
                return Ok(Self::Answer { number, frame: body, passed });
            }
            7 => {
                let Unmet { number, keys } = parse(kind, &head)?;
                Self::Missing { number, keys }
            }
            8 | 9 | 14 if !head.is_empty() => {
                return Err(Error::message(kind_name(kind), "this kind of message has no header"));
            }
            8 => Self::Alive,
            9 => Self::Drain,
            10 => {
                let Refusal { reason, again } = parse(kind, &head)?;
                Self::Bye { reason, again }
            }
            16 => Self::Wait { silence_ms: parse::<Waiting>(kind, &head)?.silence_ms },
            11 => {
                return Ok(Self::Instruction { number: parse::<Numbered>(kind, &head)?.number, frame: body });
            }
            12 => {
                let Doored { address, tokens } = parse(kind, &head)?;
                Self::Door { address, tokens }
            }
            13 => {
                let Peered { at, address, token } = parse(kind, &head)?;
                Self::Peer { at, address, token }
            }
            14 => Self::Abandon,
            15 => return Ok(Self::Kernel { digest: parse::<Digested>(kind, &head)?.digest, bytes: body }),
            17 => {
                let Passed { pass, content } = parse(kind, &head)?;
                return Ok(Self::Exchange { pass, content, body });
            }
            18 => {
                let Addressed { addresses } = parse(kind, &head)?;
                return Ok(Self::Hosts { addresses, task: body });
            }
            _ => return Err(Error::message(kind_name(kind), "this kind of message is unknown")),
        };
        match body.len() {
            0 => Ok(found),
            more => Err(Error::message(
                kind_name(kind),
                format!("it has {more} bytes after its header, but this kind of message has none"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all() -> Vec<Message> {
        let hello = Hello {
            version: VERSION,
            token: 3,
            has_others: true,
            proof: "ab".to_owned(),
            numeric_classes: vec!["avx2-fma-1".to_owned()],
            pid: 1,
            keeps_bytes: 1 << 40,
            memory_bytes: Some(1 << 33),
        };
        let welcome = Welcome {
            run: "r".to_owned(),
            place: 2,
            silence_ms: 9,
            numeric_class: None,
            peers: 0,
            plain: true,
        };
        let token = crate::secret::Certificate::new().unwrap().token(1).unwrap();
        let key = TensorKey::of_matrix(eciton_types::ParameterId(1), eciton_types::Version(2), 0);
        vec![
            Message::Hello(hello),
            Message::Welcome(welcome),
            Message::Refused { reason: "no".to_owned(), again: false },
            Message::Object { key, bytes: Bytes::from_static(b"weights") },
            Message::Forget(vec![key, key]),
            Message::Task { number: u64::MAX, frame: Bytes::from_static(b"frame") },
            Message::Answer { number: 0, frame: Bytes::new(), passed: 0 },
            Message::Answer { number: 1, frame: Bytes::new(), passed: 9 },
            Message::Missing { number: 7, keys: vec![key] },
            Message::Alive,
            Message::Drain,
            Message::Bye { reason: "done".to_owned(), again: true },
            Message::Instruction { number: 8, frame: Bytes::from_static(b"frame") },
            Message::Door { address: "127.0.0.1:9".to_owned(), tokens: vec![token.clone()] },
            Message::Peer { at: Location::worker(1), address: "127.0.0.1:9".to_owned(), token },
            Message::Abandon,
            Message::Kernel { digest: "ab".to_owned(), bytes: Bytes::from_static(b"component") },
            Message::Wait { silence_ms: 5 },
            Message::Exchange {
                pass: 1,
                content: Exchanged::Failed { host: 2 },
                body: Bytes::from_static(b"reason"),
            },
            Message::Hosts {
                addresses: vec![String::new(), "127.0.0.1:9".to_owned()],
                task: Bytes::from_static(b"task"),
            },
        ]
    }

    fn bytes(message: &Message) -> Bytes {
        let (start, body) = message.encode().unwrap();
        Bytes::from([&start[4..], &body].concat())
    }

    #[test]
    fn every_message_comes_back() {
        for message in all() {
            assert_eq!(Message::decode(bytes(&message)).unwrap(), message);
            let (start, body) = message.encode().unwrap();
            let length = u32::from_le_bytes(start[..4].try_into().unwrap());
            assert_eq!(length as usize, start.len() - 4 + body.len(), "{}", message.name());
        }
        let mut names: Vec<String> = all().iter().map(Message::name).collect();
        names.dedup();
        assert_eq!(names, KINDS);
    }

    #[test]
    fn bytes_that_are_cut_or_changed_are_errors_or_other_messages() {
        for message in all() {
            let whole = bytes(&message);
            for end in 0..whole.len() {
                let _ = Message::decode(whole.slice(..end));
            }
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut changed = whole.to_vec();
                    changed[at] ^= 1 << bit;
                    let _ = Message::decode(changed.into());
                }
            }
        }
        let told = |bytes: &'static [u8]| Message::decode(Bytes::from_static(bytes)).unwrap_err().to_string();
        assert_eq!(told(b""), "a message: it ends within its header");
        assert_eq!(told(&[8, 9, 0, 0, 0]), "a message: it ends within its header");
        assert_eq!(told(&[99, 0, 0, 0, 0]), "a message of kind 99: this kind of message is unknown");
        assert_eq!(
            told(&[8, 0, 0, 0, 0, 1]),
            "alive: it has 1 bytes after its header, but this kind of message has none"
        );
        let over = told(&[8, 255, 255, 255, 255]);
        assert_eq!(over, "a message header of 4294967295 bytes is over the limit of 1048576 bytes");
    }
}
