//! Direct connections between workers, through which a worker sends rows to another worker.
//!
//! Each worker listens with its own certificate, and creates a token for every other worker. It
//! sends its address and the tokens to the host, which forwards them to the other workers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use eciton_connect::{
    Certificate, Dialled, Hello, Joined, Listener, Message, Receiver, Result, Token, Welcome, dial,
};
use eciton_kernel::wire::Decoded;
use eciton_tensor::Matrix;
use eciton_tensor::frame::{Encoding, Frame, Writer};
use eciton_types::{Location, TensorKey};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::incoming::Incoming;
use super::outgoing::{self, Outgoing, Queued};

/// Time to wait before a worker tries to connect to another worker again.
const AGAIN: Duration = Duration::from_millis(200);

/// Outgoing connections of a worker to the other workers.
pub(super) struct Peers {
    runtime: Handle,
    hello: Hello,
    /// Time without a message after which a sign of life is sent.
    between: Duration,
    out: HashMap<Location, Outgoing>,
}

impl Peers {
    /// Creates an empty table. `hello` is the first message of each connection, and `between` is
    /// the interval of keep-alive messages.
    pub(super) fn new(runtime: Handle, hello: Hello, between: Duration) -> Self {
        Self { runtime, hello, between, out: HashMap::new() }
    }

    /// Records the address of `worker` and starts to connect to it. A new worker replaces an
    /// earlier one at the same location.
    pub(super) fn meet(&mut self, worker: Location, address: String, token: Token) {
        let (out, queued) = outgoing::queues();
        self.out.insert(worker, out);
        let at = (address, token, self.hello.clone());
        self.runtime.spawn(send(at, self.between, queued));
    }

    /// Queues rows or a sum for the worker `to`. If that worker has failed, it does not receive
    /// them. The host detects the failure through its own connection.
    pub(super) fn pass(&self, to: Location, key: TensorKey, rows: &Matrix) -> Result<(), String> {
        let Some(out) = self.out.get(&to) else { return Err(format!("the address of {to} is not known")) };
        let mut writer = Writer::new(Vec::new());
        writer.matrix(rows, Encoding::F32).map_err(|e| e.to_string())?;
        let bytes = writer.finish().map_err(|e| e.to_string())?.into();
        let is_urgent = !matches!(key, TensorKey::Rows { .. });
        out.send(Message::Object { key, bytes }, is_urgent);
        Ok(())
    }
}

/// Sends queued messages to one worker. Connects again after each failure, until the queue is
/// closed.
async fn send((address, token, hello): (String, Token, Hello), between: Duration, mut queued: Queued) {
    loop {
        let dialled =
            dial(&address, std::slice::from_ref(&token), hello.clone(), Duration::ZERO, || {}).await;
        if let Ok(Dialled { mut sender, receiver, .. }) = dialled {
            let done = tokio::select! {
                done = queued.write(&mut sender, between) => done,
                // If the other worker sends no signs of life, it may not receive what is written.
                () = signs_of_life(receiver) => false,
            };
            if done {
                return sender.close().await;
            }
        }
        // The worker was replaced, or this worker ends.
        if queued.is_closed() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reads keep-alive messages from another worker. Returns when they stop or another message
/// arrives.
async fn signs_of_life(mut receiver: Receiver) {
    while let Ok((Message::Alive, _)) = receiver.next().await {}
}

/// Starts to listen for other workers at the IP address of `local`. Returns the message that
/// reports the address and the tokens to the host.
pub(super) async fn open(
    local: SocketAddr,
    welcome: &Welcome,
    inwards: mpsc::Sender<Incoming>,
) -> Result<Message> {
    let certificate = Certificate::new()?;
    let tokens = (0..welcome.peers).map(|place| certificate.token(place)).collect::<Result<Vec<_>>>()?;
    let between = Duration::from_millis(welcome.silence_ms) / eciton_connect::limits::SIGNS;
    let welcome = Welcome { numeric_class: None, peers: 0, ..welcome.clone() };
    let address = SocketAddr::new(local.ip(), 0).to_string();
    let places = (tokens.clone(), tokens.len() as u32);
    let mut listener = Listener::bind(&address, &certificate, places, welcome).await?;
    let address = listener.address.to_string();
    tokio::spawn(async move {
        while let Some(joined) = listener.next().await {
            tokio::spawn(serve(joined, between, inwards.clone()));
        }
    });
    Ok(Message::Door { address, tokens })
}

/// Serves a connection from another worker. Receives its rows, and sends keep-alive messages back.
async fn serve(joined: Joined, between: Duration, inwards: mpsc::Sender<Incoming>) {
    let Joined { receiver, mut sender, seat, .. } = joined;
    let signs = async {
        while sender.send(&Message::Alive).await.is_ok() {
            tokio::time::sleep(between).await;
        }
    };
    tokio::select! {
        () = hear(receiver, inwards) => {}
        () = signs => {}
    }
    // The other worker may connect again.
    drop(seat);
}

/// Receives rows from another worker and queues them in `inwards`, until the connection ends.
async fn hear(mut receiver: Receiver, inwards: mpsc::Sender<Incoming>) {
    while let Ok((message, _)) = receiver.next().await {
        match message {
            Message::Object { key, bytes } => {
                // Rows that cannot be read are missing when their task runs.
                let Some(rows) = parse(&bytes) else { continue };
                if inwards.send(Incoming::Passed(key, rows)).await.is_err() {
                    return;
                }
            }
            Message::Alive => {}
            _ => return,
        }
    }
}

/// Parses the matrix of rows in a message of another worker. Returns `None` if the message is
/// damaged.
fn parse(bytes: &Bytes) -> Option<Decoded> {
    let rows = Frame::parse(bytes).ok()?.part(0).ok()?;
    matches!(rows, Decoded::Matrix(_)).then_some(rows)
}
