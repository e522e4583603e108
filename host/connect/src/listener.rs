//! The host's end: who may come in.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};
use crate::limits::{HANDSHAKE, MESSAGE_BYTES, STRANGER_BYTES, STRANGERS};
use crate::message::{Hello, Message, VERSION, Welcome};
use crate::secret::{Certificate, Token, session, tls};
use crate::wire::{Receiver, Sender};

/// A worker that was let in.
#[derive(Debug)]
pub struct Joined {
    /// Its place, which nobody else has until this is dropped.
    pub seat: Seat,
    /// Its hello.
    pub hello: Hello,
    /// Its address.
    pub peer: SocketAddr,
    /// Messages from there.
    pub receiver: Receiver,
    /// Messages to there.
    pub sender: Sender,
}

/// A place that is taken.
#[derive(Debug)]
pub struct Seat {
    /// Its number.
    pub place: u32,
    taken: Arc<Mutex<Vec<bool>>>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = taken.get_mut(self.place as usize) {
            *taken = false;
        }
    }
}

/// Connections that were not let in.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Connections without a session, or without a whole hello in time.
    pub strangers: AtomicU64,
    /// Hellos of another version, place or token, or for a place that was taken.
    pub refused: AtomicU64,
}

struct Door {
    tokens: Vec<Token>,
    taken: Arc<Mutex<Vec<bool>>>,
    acceptor: TlsAcceptor,
    welcome: Welcome,
    refusals: Arc<Refusals>,
    joined: mpsc::Sender<Joined>,
}

/// A port that lets workers in.
#[derive(Debug)]
pub struct Listener {
    /// The address that it listens at.
    pub address: SocketAddr,
    /// Counts of those that were not let in.
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
    /// Listens at an address (`HOST:PORT`; port 0: any that is free) for the workers that have `tokens`, place
    /// i's the i-th.
    ///
    /// # Errors
    /// [`Error::System`] where the address is taken or not this machine's, [`Error::Tls`].
    pub async fn bind(
        address: &str,
        certificate: &Certificate,
        tokens: Vec<Token>,
        welcome: Welcome,
    ) -> Result<Self> {
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(Error::system(format!("listening at {address}")))?;
        let address = listener.local_addr().map_err(Error::system("asking for the port"))?;
        let (sender, joined) = mpsc::channel(tokens.len().max(1));
        let refusals = Arc::new(Refusals::default());
        let door = Arc::new(Door {
            taken: Arc::new(Mutex::new(vec![false; tokens.len()])),
            tokens,
            acceptor: TlsAcceptor::from(certificate.server()?),
            welcome,
            refusals: refusals.clone(),
            joined: sender,
        });
        let accepting = tokio::spawn(accept(listener, door));
        Ok(Self { address, refusals, joined, accepting })
    }

    /// The next worker that is let in.
    pub async fn next(&mut self) -> Option<Joined> {
        self.joined.recv().await
    }
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = strangers.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let door = door.clone();
                tokio::spawn(async move {
                    door.let_in(stream, peer).await;
                    drop(permit);
                });
            }
            // Out of file descriptors, say: others may be let go of.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Door {
    async fn let_in(&self, stream: TcpStream, peer: SocketAddr) {
        match tokio::time::timeout(HANDSHAKE, self.known(stream, peer)).await {
            Ok(Ok(Some(joined))) => drop(self.joined.send(joined).await),
            Ok(Ok(None)) => drop(self.refusals.refused.fetch_add(1, Ordering::Relaxed)),
            Ok(Err(_)) | Err(_) => drop(self.refusals.strangers.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// The worker at the other end; `None`: it was told why it is not let in.
    async fn known(&self, stream: TcpStream, peer: SocketAddr) -> Result<Option<Joined>> {
        stream.set_nodelay(true).map_err(Error::system("setting a connection up"))?;
        let stream = self.acceptor.accept(stream).await.map_err(|e| tls("agreeing on TLS", e))?;
        let session = session(stream.get_ref().1)?;
        let (from, to) = tokio::io::split(stream);
        let (mut receiver, mut sender) = (Receiver::new(from, STRANGER_BYTES, HANDSHAKE), Sender::new(to));
        let hello = match receiver.next().await?.0 {
            Message::Hello(hello) => hello,
            other => return Err(Error::message(other.name(), "a hello was expected")),
        };
        let seat = match self.check(&hello, &session) {
            Ok(seat) => seat,
            Err(reason) => {
                sender.send(&Message::Refused(reason)).await?;
                sender.close().await;
                return Ok(None);
            }
        };
        sender.send(&Message::Welcome(self.welcome.clone())).await?;
        receiver.allow(MESSAGE_BYTES, Duration::from_millis(self.welcome.silence_ms));
        Ok(Some(Joined { seat, hello, peer, receiver, sender }))
    }

    /// Its place, or why there is none for it.
    fn check(&self, hello: &Hello, session: &[u8]) -> std::result::Result<Seat, String> {
        if hello.version != VERSION {
            return Err(format!("it speaks version {}, this run {VERSION}; use one build", hello.version));
        }
        let token = self.tokens.get(hello.place as usize);
        // Nobody learns which places there are.
        if !token.is_some_and(|token| token.is_proved(session, &hello.proof)) {
            return Err("its token is not one of this run".to_owned());
        }
        if let Some(class) =
            self.welcome.numeric_class.as_ref().filter(|class| **class != hello.numeric_class)
        {
            let found = &hello.numeric_class;
            return Err(format!(
                "it computes in class {found}, this run in {class}; start it with ECITON_SIMD={class}"
            ));
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(hello.place as usize) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(format!("place {} is taken by another worker with this token", hello.place)),
        }
        Ok(Seat { place: hello.place, taken: self.taken.clone() })
    }
}
