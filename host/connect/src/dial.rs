//! Worker's end of a connection, which dials the host of a run.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::error::{Error, Result, is_end};
use crate::limits::{HANDSHAKE, MESSAGE_BYTES, SIGNS, STRANGER_BYTES};
use crate::message::{Hello, Message, VERSION, Welcome};
use crate::secret::{NAME, Token, session, tls};
use crate::watched::Watched;
use crate::wire::{Receiver, Sender, halves};

/// Time to wait between two attempts to reach a host.
const PAUSE: Duration = Duration::from_millis(200);
/// Time to wait after other workers were found to use all tokens.
const ROUND: Duration = Duration::from_secs(1);

/// A connection to a host that has admitted this worker.
#[derive(Debug)]
pub struct Dialled {
    /// The host's answer to the first message, with the settings of the run.
    pub welcome: Welcome,
    /// Receiving half, for messages from the host.
    pub receiver: Receiver,
    /// Sending half, for messages to the host.
    pub sender: Sender,
    /// Local address and port of the connection.
    pub local: SocketAddr,
    /// Number of the token with which the host has admitted the worker.
    pub token: u32,
}

/// Connects a worker to the host at `address`, which has the form `HOST:PORT`. Fills in the
/// version, the token and the proof of `hello`. If `tokens` has several tokens, the first one counts
/// that no other worker uses.
///
/// If an attempt fails for a temporary reason, it is repeated for up to `patience`. Temporary
/// reasons are that nobody listens yet, that the connection ends, and that no answer arrives within
/// [`HANDSHAKE`]. If no place of the run is free, `waits` is called, and the worker waits for any
/// time until it gets one.
///
/// Returns [`Error::System`] if nobody listens at the address, and [`Error::NoWelcome`] if the host
/// does not answer. Returns [`Error::Tls`] if another program answers, and [`Error::Refused`] if
/// the host does not admit the worker.
pub async fn dial(
    address: &str,
    tokens: &[Token],
    hello: Hello,
    patience: Duration,
    waits: impl FnMut(),
) -> Result<Dialled> {
    let connect = || async move {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(Error::system(format!("connect to {address}")))?;
        stream.set_nodelay(true).map_err(Error::system("configure the connection"))?;
        let local = stream.local_addr().map_err(Error::system("read the local address of the connection"))?;
        Ok((stream, local))
    };
    dial_over(connect, tokens, hello, patience, waits).await.map_err(|error| match error {
        Error::Closed | Error::Silent(_) | Error::Slow { .. } => {
            Error::NoWelcome { address: address.to_owned(), source: Box::new(error) }
        }
        error => error,
    })
}

/// Connects a worker to a host over the streams that `connect` opens, as [`dial`] does.
pub(crate) async fn dial_over<S, F>(
    connect: impl Fn() -> F,
    tokens: &[Token],
    hello: Hello,
    patience: Duration,
    mut waits: impl FnMut(),
) -> Result<Dialled>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Future<Output = Result<(S, SocketAddr)>>,
{
    let mut begun = Instant::now();
    let mut tokens: VecDeque<&Token> = tokens.iter().collect();
    // Number of attempts in a row with tokens that other workers use.
    let mut used = 0;
    loop {
        let Some(token) = tokens.front() else {
            return Err(Error::message("the tokens of the worker", "there is none"));
        };
        let hello = Hello { has_others: tokens.len() > 1, ..hello.clone() };
        let attempt = tokio::time::timeout(HANDSHAKE, async {
            let (stream, local) = connect().await?;
            attempt(stream, local, token, hello).await
        });
        let error = match attempt.await {
            Ok(Ok(Answer::Welcome(dialled))) => return Ok(dialled),
            Ok(Ok(Answer::Wait(connected, silence))) => {
                waits();
                let ended = wait(connected, silence).await;
                // The time counts from the last contact with the host.
                begun = Instant::now();
                match ended {
                    Ok(dialled) => return Ok(dialled),
                    Err(error) => error,
                }
            }
            // Another worker uses this token.
            Ok(Err(Error::Refused { again: true, .. })) if tokens.len() > 1 => {
                begun = Instant::now();
                tokens.rotate_left(1);
                used += 1;
                if used == tokens.len() {
                    waits();
                }
                if used % tokens.len() == 0 {
                    tokio::time::sleep(ROUND).await;
                }
                continue;
            }
            // This token is barred, or belongs to another run.
            Ok(Err(Error::Refused { again: false, .. })) if tokens.len() > 1 => {
                tokens.pop_front();
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => Error::Slow { what: "the host's welcome", allowed: HANDSHAKE },
        };
        used = 0;
        if !error.may_pass() || begun.elapsed() + PAUSE > patience {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A connection to the host without a welcome.
type Connected = (Receiver, Sender, (SocketAddr, u32));

/// Answer of a host to a worker's first message.
enum Answer {
    Welcome(Dialled),
    /// The worker must wait for a place. The time is the maximum silence of the connection.
    Wait(Connected, Duration),
}

/// Exchanges signs of life with the host until a place is free for this worker.
async fn wait((mut receiver, mut sender, (local, token)): Connected, silence: Duration) -> Result<Dialled> {
    receiver.allow(STRANGER_BYTES, silence);
    let message = {
        let mut reading = pin!(async {
            loop {
                match receiver.next().await {
                    Ok((Message::Alive, _)) => {}
                    other => return other,
                }
            }
        });
        loop {
            tokio::select! {
                message = &mut reading => break message?.0,
                () = tokio::time::sleep(silence / SIGNS) => drop(sender.send(&Message::Alive).await?),
            }
        }
    };
    match message {
        Message::Welcome(welcome) => admitted(welcome, (receiver, sender, (local, token))).await,
        Message::Refused { reason, again } => Err(Error::Refused { reason, again }),
        Message::Bye { reason, again: true } => Err(Error::Refused { reason, again: true }),
        Message::Bye { reason, again: false } => Err(Error::Ended(reason)),
        other => Err(Error::unexpected(other.name(), "the message `welcome`")),
    }
}

/// Carries out the host's welcome.
async fn admitted(
    welcome: Welcome,
    (mut receiver, mut sender, (local, token)): Connected,
) -> Result<Dialled> {
    receiver.allow(MESSAGE_BYTES, Duration::from_millis(welcome.silence_ms));
    if welcome.plain {
        // The host already reads without TLS. It writes without TLS once it has got this message.
        receiver.leave_tls();
        sender.leave_tls();
        sender.send(&Message::Alive).await?;
    }
    Ok(Dialled { welcome, receiver, sender, local, token })
}

/// Makes one attempt over `stream`, whose local address is `local`: proves that this worker has the
/// token, and waits for the answer.
async fn attempt<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    local: SocketAddr,
    token: &Token,
    mut hello: Hello,
) -> Result<Answer> {
    let name = ServerName::try_from(NAME).map_err(|e| tls("use the name of the host", e))?;
    let (stream, arrivals) = Watched::new(stream);
    let connected = TlsConnector::from(token.client()?).connect(name, stream).await;
    let stream = connected.map_err(|error| match is_end(&error) {
        true => Error::Closed,
        false => tls("set up TLS with the host", error),
    })?;
    (hello.version, hello.token) = (VERSION, token.number);
    hello.proof = token.proof(&session(stream.get_ref().1)?);
    let (mut receiver, mut sender) = halves(stream, arrivals, (STRANGER_BYTES, HANDSHAKE));
    sender.send(&Message::Hello(hello)).await?;
    match receiver.next().await?.0 {
        Message::Welcome(welcome) => {
            let connected = (receiver, sender, (local, token.number));
            Ok(Answer::Welcome(admitted(welcome, connected).await?))
        }
        Message::Wait { silence_ms } => {
            let silence = Duration::from_millis(silence_ms);
            Ok(Answer::Wait((receiver, sender, (local, token.number)), silence))
        }
        Message::Refused { reason, again } => Err(Error::Refused { reason, again }),
        other => Err(Error::unexpected(other.name(), "the message `welcome`")),
    }
}
