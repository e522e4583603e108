//! Messages that a worker exchanges with the host, from the side of the worker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_connect::{Error as ConnectError, Message, Receiver, Sender, Token};
use eciton_exec::framed;
use eciton_kernel::Error;
use eciton_kernel::wire::Decoded;
use eciton_types::{Location, TensorKey};
use tokio::sync::{mpsc, watch};

use super::status::Status;

/// Waits until this process is asked to leave the run. Then asks the host to send no more tasks.
pub(super) async fn leave(mut leaves: watch::Receiver<bool>, out: mpsc::UnboundedSender<Message>) {
    if leaves.wait_for(|leaves| *leaves).await.is_ok() {
        drop(out.send(Message::Drain));
    }
}

/// An event that a worker processes: a message of the host or of another worker, a timer, or the
/// end of the connection.
pub(super) enum Incoming {
    /// The component (WebAssembly code) of a kernel, with the digest of the component.
    Kernel(String, Bytes),
    /// The tensors of an object, which is a copy of host data for the worker to cache.
    Object(TensorKey, Vec<Decoded>),
    Forget(Vec<TensorKey>),
    Work(u64, Work),
    /// Rows or sums that another worker computed.
    Passed(TensorKey, Decoded),
    Peer(Location, String, Token),
    Abandon,
    /// A task or an instruction has waited for the maximum time. The number identifies its message.
    Late(u64),
    /// The connection to the host has ended.
    Ended,
}

/// Frame (binary message) of a task or of an instruction.
pub(super) enum Work {
    Task(Bytes),
    Instruction(Bytes),
}

/// Reads messages from the host and queues them in `inwards`, until the host ends the connection.
/// Returns the reason that the host gave, and true if the worker may connect again.
pub(super) async fn read(
    mut receiver: Receiver,
    inwards: mpsc::Sender<Incoming>,
    status: &Status,
) -> Result<(String, bool), ConnectError> {
    loop {
        let (message, bytes) = receiver.next().await?;
        status.received(bytes);
        let incoming = match message {
            Message::Kernel { digest, bytes } => Incoming::Kernel(digest, bytes),
            // The object is decoded here, so that two copies of it exist only for a short time.
            Message::Object { key, bytes } => match decode(&bytes) {
                Ok(parts) => Incoming::Object(key, parts),
                // An object that cannot be decoded counts as missing, and the host sends it again.
                Err(_) => continue,
            },
            Message::Forget(keys) => Incoming::Forget(keys),
            Message::Task { number, frame } => Incoming::Work(number, Work::Task(frame)),
            Message::Instruction { number, frame } => Incoming::Work(number, Work::Instruction(frame)),
            Message::Peer { at, address, token } => Incoming::Peer(at, address, token),
            Message::Abandon => Incoming::Abandon,
            Message::Alive => continue,
            Message::Bye { reason, again } => return Ok((reason, again)),
            other => {
                let reason = "only a worker may send this message".to_owned();
                return Err(ConnectError::Message { what: other.name(), reason });
            }
        };
        if inwards.send(incoming).await.is_err() {
            return Ok(("it has ended".to_owned(), false));
        }
    }
}

/// Decodes all tensors of an object.
fn decode(bytes: &[u8]) -> Result<Vec<Decoded>, Error> {
    let frame = framed::parse(bytes)?;
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    (0..count).map(|part| frame.part(part).map_err(framed::tensor_error)).collect()
}

/// Sends messages to the host until the queue is closed. Sends a keep-alive message after each
/// pause of the duration `between`.
pub(super) async fn write(
    mut sender: Sender,
    mut messages: mpsc::UnboundedReceiver<Message>,
    between: Duration,
    status: Arc<Status>,
) -> Result<(), ConnectError> {
    loop {
        let message = match tokio::time::timeout(between, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(_) => Message::Alive,
        };
        status.sent(sender.send(&message).await?);
    }
}
