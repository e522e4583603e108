//! Host's end of connections, which admits workers that prove a token.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::{Error, Result};
use crate::limits::{FIRST_BYTE, HANDSHAKE, MESSAGE_BYTES, STRANGER_BYTES};
use crate::message::{Hello, Message, VERSION, Welcome};
use crate::secret::{Certificate, Token, session, tls};
use crate::strangers::Strangers;
use crate::watched::{Arrivals, Watched};
use crate::wire::{Receiver, Sender};

/// A worker that the host has admitted, with its connection.
#[derive(Debug)]
pub struct Joined {
    /// Reservation of the worker's index. No other worker gets the index until the reservation is
    /// dropped.
    pub seat: Seat,
    /// First message of the worker, with its version and numeric classes.
    pub hello: Hello,
    /// Remote address and port of the worker's connection.
    pub peer: SocketAddr,
    /// Receiving half, for messages from the worker.
    pub receiver: Receiver,
    /// Sending half, for messages to the worker.
    pub sender: Sender,
}

/// Availability of a worker index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    Taken,
    Closed,
}

/// Reservation of a worker index, which becomes free when the reservation is dropped.
#[derive(Debug)]
pub struct Seat {
    /// Index of the worker, which is also that of its token.
    pub index: u32,
    uses: Arc<Mutex<Vec<Use>>>,
    after: Use,
}

impl Seat {
    /// Closes the index, so that no more workers are admitted with it.
    pub fn close(mut self) {
        self.after = Use::Closed;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = uses.get_mut(self.index as usize) {
            *found = self.after;
        }
    }
}

/// Numbers of connections that were not admitted, by reason.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Number of connections that did not complete the TLS handshake and send a first message in
    /// time.
    pub strangers: AtomicU64,
    /// Number of first messages with a wrong version, index or token, or with an index in use.
    pub refused: AtomicU64,
}

struct Door {
    tokens: Vec<Token>,
    uses: Arc<Mutex<Vec<Use>>>,
    acceptor: TlsAcceptor,
    welcome: Welcome,
    refusals: Arc<Refusals>,
    joined: mpsc::Sender<Joined>,
}

/// Listening socket of a run. It admits workers that prove a token.
#[derive(Debug)]
pub struct Listener {
    /// Local address and port of the socket.
    pub address: SocketAddr,
    /// Numbers of connections that were not admitted.
    pub refusals: Arc<Refusals>,
    joined: mpsc::Receiver<Joined>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listener {
    /// Listens at `address`, which has the form `HOST:PORT`. Port 0 selects a free port. The worker
    /// with index `i` must prove that it has the token `tokens[i]`. Each admitted worker gets
    /// `welcome`.
    ///
    /// # Errors
    /// Returns [`Error::System`] if the address is in use or does not belong to this machine, and
    /// [`Error::Tls`] if the certificate cannot be used.
    pub async fn bind(
        address: &str,
        certificate: &Certificate,
        tokens: Vec<Token>,
        welcome: Welcome,
    ) -> Result<Self> {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(Error::system(format!("listen at {address}")))?;
        let address = listener.local_addr().map_err(Error::system("read the port of the listener"))?;
        let (sender, joined) = mpsc::channel(tokens.len().max(1));
        let refusals = Arc::new(Refusals::default());
        let door = Arc::new(Door {
            uses: Arc::new(Mutex::new(vec![Use::Free; tokens.len()])),
            tokens,
            acceptor: TlsAcceptor::from(certificate.server()?),
            welcome,
            refusals: refusals.clone(),
            joined: sender,
        });
        let accepting = tokio::spawn(accept(listener, door));
        Ok(Self { address, refusals, joined, accepting })
    }

    /// Waits for the next worker to be admitted. Returns `None` if the listener has ended.
    pub async fn next(&mut self) -> Option<Joined> {
        self.joined.recv().await
    }
}

/// Accepts connections for as long as the listener exists, and starts a handshake for each one.
async fn accept(listener: TcpListener, door: Arc<Door>) {
    let mut strangers = Strangers::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let spoke = Arc::new(AtomicBool::new(false));
                let handshake = tokio::spawn(door.clone().let_in(stream, peer, spoke.clone()));
                if strangers.add(peer.ip(), spoke, handshake.abort_handle()) {
                    door.refusals.strangers.fetch_add(1, Ordering::Relaxed);
                }
            }
            // File descriptors have run out. Others may be closed in the meantime.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A connection during its handshake: the stream, its arrival times, and bytes derived from the TLS
/// session.
type Stranger = (TlsStream<Watched<TcpStream>>, Arrivals, [u8; 32]);

impl Door {
    /// Admits the worker at the other end of `stream` if it proves its token in time. Sets `spoke`
    /// when its first byte arrives.
    async fn let_in(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, spoke: Arc<AtomicBool>) {
        match timeout(HANDSHAKE, self.known(stream, peer, &spoke)).await {
            Ok(Ok(Some(joined))) => {
                // From here on the worker is admitted, and its task must not be aborted as an
                // unproved connection.
                tokio::spawn(async move { self.welcome(joined).await });
            }
            Ok(Ok(None)) => drop(self.refusals.refused.fetch_add(1, Ordering::Relaxed)),
            Ok(Err(_)) | Err(_) => drop(self.refusals.strangers.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits for the first byte and performs the TLS handshake. Also returns bytes that are derived
    /// from the TLS session.
    async fn agree(&self, stream: TcpStream, spoke: &AtomicBool) -> Result<Stranger> {
        stream.set_nodelay(true).map_err(Error::system("configure a connection"))?;
        let first = timeout(FIRST_BYTE, stream.peek(&mut [0])).await;
        let first =
            first.map_err(|_| Error::Slow { what: "the first byte of a connection", allowed: FIRST_BYTE })?;
        if first.map_err(Error::system("read the first byte of a connection"))? == 0 {
            return Err(Error::Closed);
        }
        spoke.store(true, Ordering::Relaxed);
        let (stream, arrivals) = Watched::new(stream);
        let stream = self.acceptor.accept(stream).await.map_err(|e| tls("set up TLS with a worker", e))?;
        let session = session(stream.get_ref().1)?;
        Ok((stream, arrivals, session))
    }

    /// Performs the whole handshake. Returns the worker if it may be admitted. Otherwise sends the
    /// reason to the worker and returns `None`.
    async fn known(&self, stream: TcpStream, peer: SocketAddr, spoke: &AtomicBool) -> Result<Option<Joined>> {
        let (stream, arrivals, session) = self.agree(stream, spoke).await?;
        let (from, to) = tokio::io::split(stream);
        let mut receiver = Receiver::new(from, arrivals, (STRANGER_BYTES, HANDSHAKE));
        let mut sender = Sender::new(to);
        let hello = match receiver.next().await?.0 {
            Message::Hello(hello) => hello,
            other => return Err(Error::message(other.name(), "expected the message `hello`")),
        };
        match self.check(&hello, &session) {
            Ok(seat) => Ok(Some(Joined { seat, hello, peer, receiver, sender })),
            Err((reason, again)) => {
                sender.send(&Message::Refused { reason, again }).await?;
                sender.close().await;
                Ok(None)
            }
        }
    }

    /// Sends the welcome to a worker, and passes the worker to the owner of the listener.
    async fn welcome(&self, mut joined: Joined) {
        let welcome = Message::Welcome(self.welcome.clone());
        if let Ok(Ok(_)) = timeout(HANDSHAKE, joined.sender.send(&welcome)).await {
            joined.receiver.allow(MESSAGE_BYTES, Duration::from_millis(self.welcome.silence_ms));
            drop(self.joined.send(joined).await);
        }
    }

    /// Checks a worker's first message and reserves the worker's index. If the worker is refused,
    /// returns the reason, and true if the worker may try again.
    fn check(&self, hello: &Hello, session: &[u8]) -> std::result::Result<Seat, (String, bool)> {
        if hello.version != VERSION {
            let reason = format!(
                "the worker uses protocol version {}, but the run uses {VERSION}; use the same build for both",
                hello.version
            );
            return Err((reason, false));
        }
        let token = self.tokens.get(hello.place as usize);
        // The reason does not reveal which indices exist.
        if !token.is_some_and(|token| token.is_proved(session, &hello.proof)) {
            return Err(("its token is not one of this run; copy the token file again".to_owned(), false));
        }
        if let Some(class) =
            self.welcome.numeric_class.as_ref().filter(|c| !hello.numeric_classes.contains(c))
        {
            let reason = format!(
                "the worker supports the numeric classes {}, but this run uses {class}; set run.numeric_class to a class that \
                 all machines have",
                hello.numeric_classes.join(", ")
            );
            return Err((reason, false));
        }
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let index = hello.place;
        match uses.get_mut(index as usize) {
            Some(found) if *found == Use::Free => *found = Use::Taken,
            Some(Use::Closed) => {
                return Err((
                    format!(
                        "worker index {index} is closed, because its workers gave wrong answers or failed too often"
                    ),
                    false,
                ));
            }
            _ => {
                return Err((
                    format!("worker index {index} is in use by another worker with the same token"),
                    true,
                ));
            }
        }
        Ok(Seat { index, uses: self.uses.clone(), after: Use::Free })
    }
}
