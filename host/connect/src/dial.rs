//! The worker's end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::{Error, Result};
use crate::limits::{HANDSHAKE, MESSAGE_BYTES, STRANGER_BYTES};
use crate::message::{Hello, Message, VERSION, Welcome};
use crate::secret::{NAME, Token, session, tls};
use crate::wire::{Receiver, Sender};

/// The pause between two attempts to reach a host that is not there yet.
const AGAIN: Duration = Duration::from_millis(200);

/// A connection that the host has let in.
#[derive(Debug)]
pub struct Dialled {
    /// The host's answer to the hello.
    pub welcome: Welcome,
    /// Messages from there.
    pub receiver: Receiver,
    /// Messages to there.
    pub sender: Sender,
    /// This end's address.
    pub local: SocketAddr,
}

/// Dials a host at `HOST:PORT`. One that does not answer yet is tried for `patience`. Of `hello` the place,
/// the version and the proof are filled in.
///
/// # Errors
/// [`Error::System`] where nobody answers, [`Error::Tls`] where somebody else does, [`Error::Refused`].
pub async fn dial(address: &str, token: &Token, hello: Hello, patience: Duration) -> Result<Dialled> {
    let stream = reach(address, Instant::now() + patience).await?;
    let shaken = tokio::time::timeout(HANDSHAKE, shake(stream, token, hello));
    shaken.await.map_err(|_| Error::Slow { what: "the host's welcome", allowed: HANDSHAKE })?
}

async fn reach(address: &str, end: Instant) -> Result<TcpStream> {
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            // A name or number that cannot be one will not be one later.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput || Instant::now() >= end => {
                return Err(Error::system(format!("connecting to {address}"))(error));
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

async fn shake(stream: TcpStream, token: &Token, mut hello: Hello) -> Result<Dialled> {
    stream.set_nodelay(true).map_err(Error::system("setting the connection up"))?;
    let local = stream.local_addr().map_err(Error::system("asking for this end's address"))?;
    let name = ServerName::try_from(NAME).map_err(|e| tls("naming the host", e))?;
    let connected = TlsConnector::from(token.client()?).connect(name, stream).await;
    let stream = connected.map_err(|e| tls("agreeing on TLS with the host", e))?;
    (hello.version, hello.place) = (VERSION, token.place);
    hello.proof = token.proof(&session(stream.get_ref().1)?);
    let (from, to) = tokio::io::split(stream);
    let (mut receiver, mut sender) = (Receiver::new(from, STRANGER_BYTES, HANDSHAKE), Sender::new(to));
    sender.send(&Message::Hello(hello)).await?;
    match receiver.next().await?.0 {
        Message::Welcome(welcome) => {
            let silence = Duration::from_millis(welcome.silence_ms);
            receiver.allow(MESSAGE_BYTES, silence);
            Ok(Dialled { welcome, receiver, sender, local })
        }
        Message::Refused(reason) => Err(Error::Refused(reason)),
        other => Err(Error::message(other.name(), "a welcome was expected")),
    }
}
