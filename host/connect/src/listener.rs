//! Host's end of connections, which admits workers that prove a token.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::{Error, Result};
use crate::limits::{FIRST_BYTE, HANDSHAKE, MESSAGE_BYTES, SIGNS, STRANGER_BYTES};
use crate::membership::{Action, Connection, Event, Membership};
use crate::message::{Hello, Message, VERSION, Welcome};
use crate::secret::{Certificate, Token, session, tls};
use crate::secured::is_private;
use crate::strangers::Strangers;
use crate::watched::{Arrivals, Watched};
use crate::wire::{Receiver, Sender, halves};

/// Reason of the end of a run's connections, if the run is complete.
pub const ENDED: &str = "the run has ended";
/// Reason of the end of a run's connections, if the run may be resumed.
pub const STOPPED: &str = "the run has stopped, and can be resumed";

/// A worker that the host has admitted, with its connection.
#[derive(Debug)]
pub struct Joined {
    /// Place of the worker. No other worker gets it until this value is dropped.
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

/// Decision about a worker that waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Place(u32),
    /// The worker's token is barred.
    Refuse,
    /// Another connection with the worker's token waits.
    Replace,
    /// The run has ended. The flag is true if it may be resumed.
    End(bool),
}

/// The membership of the run, and the connections that wait for its decisions.
#[derive(Debug)]
struct Members {
    membership: Membership,
    /// Number of connections that have proved a token so far.
    connections: Connection,
    deciding: HashMap<Connection, oneshot::Sender<Decision>>,
}

impl Members {
    /// Lets the membership process an event, and passes its decisions to the connections that wait.
    fn step(&mut self, event: Event) {
        for action in self.membership.step(event) {
            let (connection, decision) = match action {
                Action::Seat { connection, place } => (connection, Decision::Place(place)),
                Action::Refuse { connection } => (connection, Decision::Refuse),
                Action::Replace { connection } => (connection, Decision::Replace),
                // The connection waits as long as there is no decision.
                Action::Wait { .. } => continue,
            };
            if let Some(waits) = self.deciding.remove(&connection) {
                // A connection that has ended meanwhile reports its end itself.
                let _ = waits.send(decision);
            }
        }
    }
}

/// Membership of a connection, which ends when this value is dropped.
#[derive(Debug)]
pub struct Seat {
    /// Place of the worker, which is its index among the workers of the run.
    pub index: u32,
    /// Number of the worker's token.
    pub token: u32,
    connection: Connection,
    members: Arc<Mutex<Members>>,
}

impl Seat {
    /// Ends the membership, and admits no more workers with its token.
    pub fn close(self) {
        lock(&self.members).step(Event::Barred { token: self.token });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut members = lock(&self.members);
        members.deciding.remove(&self.connection);
        members.step(Event::Ended { connection: self.connection });
    }
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    // The tables are consistent even after a panic.
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers of connections that were not admitted, by reason.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Number of connections that did not complete the TLS handshake and send a first message in
    /// time.
    pub strangers: AtomicU64,
    /// Number of first messages with a wrong version, a wrong token, or a barred token.
    pub refused: AtomicU64,
}

/// The part of a listener that performs handshakes.
pub(crate) struct Door {
    tokens: Vec<Token>,
    members: Arc<Mutex<Members>>,
    acceptor: TlsAcceptor,
    welcome: Welcome,
    pub(crate) refusals: Arc<Refusals>,
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
    members: Arc<Mutex<Members>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listener {
    /// Listens at `address`, which has the form `HOST:PORT`. Port 0 selects a free port. A worker
    /// must prove that it has one of `tokens`. At most `places` workers are admitted at a time, each
    /// of which gets `welcome`. Others wait until a place is free.
    ///
    /// # Errors
    /// Returns [`Error::System`] if the address is in use or does not belong to this machine, and
    /// [`Error::Tls`] if the certificate cannot be used.
    pub async fn bind(
        address: &str,
        certificate: &Certificate,
        (tokens, places): (Vec<Token>, u32),
        welcome: Welcome,
    ) -> Result<Self> {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(Error::system(format!("listen at {address}")))?;
        let address = listener.local_addr().map_err(Error::system("read the port of the listener"))?;
        let (door, joined) = Door::new(certificate, (tokens, places), welcome)?;
        let (refusals, members) = (door.refusals.clone(), door.members.clone());
        let accepting = tokio::spawn(accept(listener, door));
        Ok(Self { address, refusals, joined, members, accepting })
    }

    /// Admits no more workers, and tells those that wait that the run has ended. `again` is true if
    /// the run may be resumed.
    pub fn end(&mut self, again: bool) {
        self.accepting.abort();
        for (_, waits) in lock(&self.members).deciding.drain() {
            let _ = waits.send(Decision::End(again));
        }
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
                // Without this setting, small messages are only slower.
                let _ = stream.set_nodelay(true);
                let (stream, arrivals) = Watched::new(stream);
                let handshake = tokio::spawn(door.clone().let_in(stream, arrivals.clone(), peer));
                if strangers.add(peer.ip(), arrivals.spoke(), handshake.abort_handle()) {
                    door.refusals.strangers.fetch_add(1, Ordering::Relaxed);
                }
            }
            // File descriptors have run out. Others may be closed in the meantime.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A worker that has proved its token, and the decision about its place.
type Proved = (Joined, oneshot::Receiver<Decision>);

impl Door {
    /// Creates the door of a run, to which a worker is admitted if it proves one of `tokens`. Also
    /// returns the channel that delivers the admitted workers.
    pub(crate) fn new(
        certificate: &Certificate,
        (tokens, places): (Vec<Token>, u32),
        welcome: Welcome,
    ) -> Result<(Arc<Self>, mpsc::Receiver<Joined>)> {
        let (joined, receiver) = mpsc::channel(places.max(1) as usize);
        let membership = Membership::new(places);
        let members = Members { membership, connections: 0, deciding: HashMap::new() };
        let door = Self {
            tokens,
            members: Arc::new(Mutex::new(members)),
            acceptor: TlsAcceptor::from(certificate.server()?),
            welcome,
            refusals: Arc::default(),
            joined,
        };
        Ok((Arc::new(door), receiver))
    }

    /// Admits the worker at the other end of `stream` if it proves its token in time.
    pub(crate) async fn let_in<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self: Arc<Self>,
        stream: Watched<S>,
        arrivals: Arrivals,
        peer: SocketAddr,
    ) {
        match timeout(HANDSHAKE, self.known(stream, arrivals, peer)).await {
            Ok(Ok(Some(proved))) => {
                // From here on the worker is known, and its task must not be aborted as an unproved
                // connection.
                tokio::spawn(async move { self.decided(proved).await });
            }
            Ok(Ok(None)) => drop(self.refusals.refused.fetch_add(1, Ordering::Relaxed)),
            Ok(Err(_)) | Err(_) => drop(self.refusals.strangers.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Performs the TLS handshake. Also returns bytes that are derived from the TLS session.
    async fn agree<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: Watched<S>,
        arrivals: &Arrivals,
    ) -> Result<(TlsStream<Watched<S>>, [u8; 32])> {
        let spoke = arrivals.spoke();
        let silent = async {
            tokio::time::sleep(FIRST_BYTE).await;
            if spoke.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let stream = tokio::select! {
            accepted = self.acceptor.accept(stream) => accepted.map_err(|e| tls("set up TLS with a worker", e))?,
            () = silent => return Err(Error::Slow { what: "the first byte of a connection", allowed: FIRST_BYTE }),
        };
        let session = session(stream.get_ref().1)?;
        Ok((stream, session))
    }

    /// Performs the whole handshake. Returns the worker if it has proved its token. Otherwise sends
    /// the reason to the worker and returns `None`.
    async fn known<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: Watched<S>,
        arrivals: Arrivals,
        peer: SocketAddr,
    ) -> Result<Option<Proved>> {
        let (stream, session) = self.agree(stream, &arrivals).await?;
        let (mut receiver, sender) = halves(stream, arrivals, (STRANGER_BYTES, HANDSHAKE));
        let hello = match receiver.next().await?.0 {
            Message::Hello(hello) => hello,
            other => return Err(Error::unexpected(other.name(), "the message `hello`")),
        };
        if let Err(reason) = self.check(&hello, &session) {
            refuse(sender, reason, false).await;
            return Ok(None);
        }
        if self.welcome.plain && !is_private(peer.ip()) {
            let reason = format!("its address {} is not private; set hosts.encrypt = true", peer.ip());
            refuse(sender, reason, false).await;
            return Ok(None);
        }
        let Some((seat, decision)) = self.prove(&hello) else {
            refuse(sender, "another worker uses its token".to_owned(), true).await;
            return Ok(None);
        };
        Ok(Some((Joined { seat, hello, peer, receiver, sender }, decision)))
    }

    /// Adds a connection to the members, whose worker has proved the token in `hello`. Returns its
    /// membership, and the decision about its place. Returns `None` if another worker uses the token,
    /// and the worker has other tokens.
    fn prove(&self, hello: &Hello) -> Option<(Seat, oneshot::Receiver<Decision>)> {
        let token = hello.token;
        let mut members = lock(&self.members);
        if hello.has_others && members.membership.uses(token) {
            return None;
        }
        members.connections += 1;
        let connection = members.connections;
        let (decided, decision) = oneshot::channel();
        members.deciding.insert(connection, decided);
        members.step(Event::Proved { connection, token });
        Some((Seat { index: 0, token, connection, members: self.members.clone() }, decision))
    }

    /// Waits for the decision about a worker's place, and carries it out.
    async fn decided(&self, (mut joined, mut decision): Proved) {
        joined.receiver.allow(STRANGER_BYTES, Duration::from_millis(self.welcome.silence_ms));
        let decided = match decision.try_recv() {
            Ok(decided) => Some(decided),
            Err(_) => self.wait(&mut joined, decision).await,
        };
        match decided {
            Some(Decision::Place(place)) => {
                joined.seat.index = place;
                self.welcome(joined).await;
            }
            Some(Decision::Refuse) => {
                self.refusals.refused.fetch_add(1, Ordering::Relaxed);
                let token = joined.seat.token;
                let reason = format!(
                    "token {token} is barred, because its worker gave wrong answers or failed too often"
                );
                refuse(joined.sender, reason, false).await;
            }
            Some(Decision::Replace) => {
                let reason = "another worker with the same token waits".to_owned();
                drop(timeout(HANDSHAKE, joined.sender.send(&Message::Bye { reason, again: true })).await);
            }
            Some(Decision::End(again)) => {
                let reason = if again { STOPPED } else { ENDED }.to_owned();
                drop(timeout(HANDSHAKE, joined.sender.send(&Message::Bye { reason, again })).await);
                joined.sender.close().await;
            }
            None => {}
        }
    }

    /// Exchanges signs of life with a worker that waits, until there is a decision about its place.
    /// Returns `None` if the connection ends before.
    async fn wait(&self, joined: &mut Joined, mut decision: oneshot::Receiver<Decision>) -> Option<Decision> {
        let silence_ms = self.welcome.silence_ms;
        let Joined { receiver, sender, .. } = joined;
        sender.send(&Message::Wait { silence_ms }).await.ok()?;
        let mut reading = pin!(async { while let Ok((Message::Alive, _)) = receiver.next().await {} });
        loop {
            tokio::select! {
                decided = &mut decision => return decided.ok(),
                () = &mut reading => return None,
                () = tokio::time::sleep(Duration::from_millis(silence_ms) / SIGNS) => {
                    sender.send(&Message::Alive).await.ok()?;
                }
            }
        }
    }

    /// Sends the welcome to a worker, and passes the worker to the owner of the listener.
    async fn welcome(&self, mut joined: Joined) {
        let welcome = Welcome { place: joined.seat.index, ..self.welcome.clone() };
        let Joined { receiver, sender, .. } = &mut joined;
        let send = async {
            sender.send(&Message::Welcome(welcome)).await?;
            if self.welcome.plain {
                receiver.leave_tls();
                match receiver.next().await?.0 {
                    Message::Alive => sender.leave_tls(),
                    other => return Err(Error::unexpected(other.name(), "the message `alive`")),
                }
            }
            Ok(())
        };
        if let Ok(Ok(())) = timeout(HANDSHAKE, send).await {
            joined.receiver.allow(MESSAGE_BYTES, Duration::from_millis(self.welcome.silence_ms));
            drop(self.joined.send(joined).await);
        }
    }

    /// Checks a worker's first message. Returns the reason if the worker is refused.
    fn check(&self, hello: &Hello, session: &[u8]) -> std::result::Result<(), String> {
        if hello.version != VERSION {
            return Err(format!(
                "the worker uses protocol version {}, but the run uses {VERSION}; use the same build for both",
                hello.version
            ));
        }
        let token = self.tokens.get(hello.token as usize);
        // The reason does not reveal which tokens exist.
        if !token.is_some_and(|token| token.is_proved(session, &hello.proof)) {
            return Err("its token is not one of this run; copy the token file again".to_owned());
        }
        match self.welcome.numeric_class.as_ref().filter(|class| !hello.numeric_classes.contains(class)) {
            Some(class) => Err(format!(
                "the worker supports the numeric classes {}, but this run uses {class}; set run.numeric_class to \
                 a class that all machines have",
                hello.numeric_classes.join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// Sends the reason of a refusal to a worker, and closes the connection. `again` is true if a later
/// attempt may be admitted.
async fn refuse(mut sender: Sender, reason: String, again: bool) {
    let refused = Message::Refused { reason, again };
    if let Ok(Ok(_)) = timeout(HANDSHAKE, sender.send(&refused)).await {
        sender.close().await;
    }
}
