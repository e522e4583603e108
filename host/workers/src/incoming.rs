//! Messages between a worker and the host, as the worker hears and writes them.

use std::time::Duration;

use bytes::Bytes;
use eciton_connect::{Error as ConnectError, Message, Receiver, Sender, Token};
use eciton_exec::framed;
use eciton_kernel::Error;
use eciton_kernel::wire::Decoded;
use eciton_types::{Location, TensorKey};
use tokio::sync::{mpsc, watch};

/// Asks the host for no more once this process is to go.
pub(super) async fn leave(mut leaves: watch::Receiver<bool>, out: mpsc::UnboundedSender<Message>) {
    if leaves.wait_for(|leaves| *leaves).await.is_ok() {
        drop(out.send(Message::Drain));
    }
}

/// A message for the worker.
pub(super) enum Incoming {
    /// A kernel's component, by its digest.
    Kernel(String, Bytes),
    /// An object's tensors.
    Object(TensorKey, Vec<Decoded>),
    Forget(Vec<TensorKey>),
    Work(u64, Work),
    /// Rows or sums from another worker.
    Passed(TensorKey, Decoded),
    Peer(Location, String, Token),
    Abandon,
    /// Work has waited for as long as it may.
    Late(u64),
    /// The host says no more.
    Ended,
}

/// A frame of something to do.
pub(super) enum Work {
    Task(Bytes),
    Instruction(Bytes),
}

/// Hears the host, to its farewell; why that came.
pub(super) async fn read(
    mut receiver: Receiver,
    inwards: mpsc::Sender<Incoming>,
) -> Result<String, ConnectError> {
    loop {
        let (message, _) = receiver.next().await?;
        let incoming = match message {
            Message::Kernel { digest, bytes } => Incoming::Kernel(digest, bytes),
            // Decoded here, so that two copies exist for as short a time as possible.
            Message::Object { key, bytes } => match decode(&bytes) {
                Ok(parts) => Incoming::Object(key, parts),
                // An object that cannot be read is missing, and sent once more.
                Err(_) => continue,
            },
            Message::Forget(keys) => Incoming::Forget(keys),
            Message::Task { number, frame } => Incoming::Work(number, Work::Task(frame)),
            Message::Instruction { number, frame } => Incoming::Work(number, Work::Instruction(frame)),
            Message::Peer { at, address, token } => Incoming::Peer(at, address, token),
            Message::Abandon => Incoming::Abandon,
            Message::Alive => continue,
            Message::Bye(reason) => return Ok(reason),
            other => {
                let reason = "it is the worker's to send".to_owned();
                return Err(ConnectError::Message { what: other.name(), reason });
            }
        };
        if inwards.send(incoming).await.is_err() {
            return Ok("it has ended".to_owned());
        }
    }
}

/// An object's tensors.
fn decode(bytes: &[u8]) -> Result<Vec<Decoded>, Error> {
    let frame = framed::parse(bytes)?;
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    (0..count).map(|part| frame.part(part).map_err(framed::tensor_error)).collect()
}

pub(super) async fn write(
    mut sender: Sender,
    mut messages: mpsc::UnboundedReceiver<Message>,
    between: Duration,
) -> Result<(), ConnectError> {
    loop {
        match tokio::time::timeout(between, messages.recv()).await {
            Ok(Some(message)) => drop(sender.send(&message).await?),
            Ok(None) => return Ok(()),
            Err(_) => drop(sender.send(&Message::Alive).await?),
        }
    }
}
