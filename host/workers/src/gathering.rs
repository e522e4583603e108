//! Connecting of the hosts of a run to each other.
//!
//! All hosts derive one certificate, and a token for each host, from the secret of the run. Host 0
//! listens at an address that the others learn at the [`MeetingPlace`]. Each of them connects to
//! host 0, listens as well, and sends its address. Once all have done so, host 0 sends the addresses
//! back. Each host then dials those with a lower index, and admits the others.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_cloud::error::Error;
use eciton_connect::limits::SIGNS;
use eciton_connect::{
    Certificate, Dialled, Error as ConnectError, Hello, Joined, Listener, Meeting, Message, Receiver, Secret,
    Sender, Token, Welcome, dial,
};
use tokio::sync::{mpsc, watch as channel};

use super::meeting_place::MeetingPlace;
use super::mesh::Links;

/// Time to wait before a host tries to reach another one again.
const AGAIN: Duration = Duration::from_millis(50);
/// Time after which a host says what it waits for. Hosts that start together connect before.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum time until the other hosts have received the reason for which host 0 gives up.
const FAREWELL: Duration = Duration::from_secs(1);

/// Settings of the connections between hosts.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// Index of this host. If `None`, host 0 assigns one.
    pub me: Option<u32>,
    /// Number of hosts. If `None`, host 0 says it.
    pub count: Option<u32>,
    /// Place at which the hosts learn how to reach host 0.
    pub place: MeetingPlace,
    /// Secret of the run. If `None`, host 0 creates one, and the others find it at the place.
    pub secret: Option<Secret>,
    /// Address at which this host listens, in the form `HOST:PORT`. If `None`, it is that of
    /// [`MeetingPlace::Address`] for host 0, and otherwise a free port of the address that this
    /// machine has towards others.
    pub listen: Option<String>,
    /// Time without a byte after which a host is considered failed. That of host 0 applies to all.
    pub silence: Duration,
    /// Maximum time until all hosts are connected.
    pub patience: Duration,
    /// False if connections continue without TLS after the proof of the token. Host 0 decides.
    pub encrypt: bool,
    /// Maximum number of hosts of a run.
    pub most: u32,
    /// Task of the run, which host 0 tells all hosts.
    pub task: Bytes,
}

/// Display of a host that waits for others. It may also end the wait.
pub trait Watch {
    /// Shows a line that says what the host waits for.
    fn tell(&mut self, line: &str);

    /// Returns the reason if another host can no longer come. Called often.
    fn hopeless(&mut self) -> Option<String>;
}

/// Both halves of a connection.
pub(super) type Halves = (Receiver, Sender);

/// The connections of a host to all others.
pub(super) struct Gathered {
    pub(super) me: u32,
    pub(super) count: u32,
    /// Task of the run, as host 0 has told it.
    pub(super) task: Bytes,
    pub(super) links: Links,
}

/// Reason why the hosts of a run cannot connect.
#[derive(Debug)]
pub enum Apart {
    /// This host cannot go on.
    Here(Error),
    /// Host 0 has ended the run, for the given reason, which it reports.
    There(String),
    /// The connection with the host of this index has failed, for the given reason.
    Failed(u32, String),
}

impl From<Error> for Apart {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<ConnectError> for Apart {
    fn from(error: ConnectError) -> Self {
        Self::Here(failed(error))
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Choice(format!("hosts: {error}"))
}

/// Something that happened to the connection with a host.
enum Event {
    /// The host has connected, and listens at the address.
    Arrived(u32, String),
    /// The connection has ended before all hosts were there.
    Left(u32),
    /// The connection is ready for the run.
    Ready(u32, Halves),
    /// The host cannot be reached.
    Failed(u32, String),
}

/// Returns an address of this machine that others can reach, with port 0.
fn own_address() -> SocketAddr {
    // The operating system chooses the address by its routes. No packet is sent.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    SocketAddr::new(route.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip()), 0)
}

/// Connects this host to all others. `watch` gets a line that says what the host waits for.
pub(super) async fn gather(settings: &MeshSettings, watch: &mut dyn Watch) -> Result<Gathered, Apart> {
    let until = Instant::now() + settings.patience;
    match (settings.me, settings.count) {
        (Some(0), Some(count)) => lead(settings, (count, until), watch).await,
        _ => follow(settings, until, watch).await,
    }
}

/// Returns the tokens of all hosts.
fn tokens(secret: &Secret, certificate: &Certificate, count: u32) -> Vec<Token> {
    (0..count).map(|host| secret.token(certificate, host)).collect()
}

fn names(hosts: impl IntoIterator<Item = u32>) -> String {
    hosts.into_iter().map(|host| host.to_string()).collect::<Vec<_>>().join(", ")
}

/// Admits all other hosts to host 0, and sends them their addresses.
async fn lead(
    settings: &MeshSettings,
    (count, until): (u32, Instant),
    watch: &mut dyn Watch,
) -> Result<Gathered, Apart> {
    let secret = settings.secret.clone().map_or_else(Secret::new, Ok)?;
    let certificate = secret.certificate()?;
    let welcome = Welcome {
        run: "hosts".to_owned(),
        place: 0,
        silence_ms: u64::try_from(settings.silence.as_millis()).unwrap_or(u64::MAX),
        numeric_class: Some(eciton_tensor::numeric_class().to_owned()),
        peers: count,
        plain: !settings.encrypt,
    };
    let listen = match (&settings.listen, &settings.place) {
        (Some(listen), _) => listen.clone(),
        (None, MeetingPlace::Address(address)) => address.clone(),
        (None, _) => own_address().to_string(),
    };
    let admitted = (tokens(&secret, &certificate, count), count);
    let mut listener = Listener::bind(&listen, &certificate, admitted, welcome).await?;
    let mut address = listener.address;
    if address.ip().is_unspecified() {
        address.set_ip(own_address().ip());
    }
    let shown = settings.secret.is_none().then_some(secret);
    settings.place.publish(&Meeting { address: address.to_string(), secret: shown }).await?;
    let result = admit_all(settings, &mut listener, (count, until), watch).await;
    settings.place.clear().await;
    Ok(Gathered { me: 0, count, task: settings.task.clone(), links: result? })
}

/// Waits until all other hosts have connected to host 0. Returns the connections.
async fn admit_all(
    settings: &MeshSettings,
    listener: &mut Listener,
    (count, until): (u32, Instant),
    watch: &mut dyn Watch,
) -> Result<Links, Apart> {
    let (sender, mut events) = mpsc::unbounded_channel();
    let (directory, all_there) = channel::channel(None);
    let mut addresses: Vec<Option<String>> = vec![None; count as usize];
    addresses[0] = Some(String::new());
    let links = Links::new(count, settings.silence);
    let quiet = tokio::time::sleep(QUIET);
    tokio::pin!(quiet);
    let mut is_told = false;
    loop {
        if let Some(reason) = watch.hopeless() {
            return Err(Apart::Here(failed(reason)));
        }
        let missing = (0..).zip(&addresses).filter(|(_, address)| address.is_none());
        let missing: Vec<u32> = missing.map(|(host, _)| host).collect();
        if missing.is_empty() && directory.borrow().is_none() {
            let addresses = addresses.iter().flatten().cloned().collect();
            let message = Message::Hosts { addresses, task: settings.task.clone() };
            directory.send_replace(Some(Ok(message)));
        }
        if links.missing(0).is_empty() {
            return Ok(links);
        }
        let place = &settings.place;
        tokio::select! {
            Some(joined) = listener.next() => {
                let attending = attend(joined, settings.silence / SIGNS, (all_there.clone(), sender.clone()));
                tokio::spawn(attending);
            }
            Some(event) = events.recv() => match event {
                Event::Arrived(host, address) => addresses[host as usize] = Some(address),
                Event::Left(host) if directory.borrow().is_none() => addresses[host as usize] = None,
                Event::Left(host) => return Err(Apart::Here(failed(format!("host {host} has ended")))),
                Event::Ready(host, halves) => links.start(host, halves),
                Event::Failed(..) => {}
            },
            () = &mut quiet, if !is_told => {
                is_told = true;
                if !missing.is_empty() {
                    watch.tell(&format!("host 0 waits for the hosts {} at {place}", names(missing)));
                }
            }
            () = tokio::time::sleep(AGAIN) => {}
            () = tokio::time::sleep_until(until.into()) => {
                let (seconds, missing) = (settings.patience.as_secs(), names(missing));
                let reason = format!(
                    "host 0 has waited {seconds} s for the hosts {missing}; start {count} hosts in total, all with \
                     --rendezvous {place}, which must be the same for all of them"
                );
                directory.send_replace(Some(Err(reason.clone())));
                drop(sender);
                // Those that are there get the reason.
                let told = async { while events.recv().await.is_some() {} };
                drop(tokio::time::timeout(FAREWELL, told).await);
                return Err(Apart::Here(Error::Choice(reason)));
            }
        }
    }
}

/// Message to all hosts that are connected to host 0: the addresses, or the reason of the end.
type Directory = channel::Receiver<Option<Result<Message, String>>>;

/// Receives the address of a host that is connected to host 0, and sends it the addresses of all
/// hosts once they are known.
async fn attend(
    joined: Joined,
    between: Duration,
    (mut directory, events): (Directory, mpsc::UnboundedSender<Event>),
) {
    let Joined { seat, peer, mut receiver, mut sender, .. } = joined;
    let host = seat.token;
    let attended = async {
        let mut address: SocketAddr = match receiver.next().await?.0 {
            Message::Door { address, .. } => {
                address.parse().map_err(|_| ConnectError::unexpected("door", "an address IP:PORT"))?
            }
            other => return Err(ConnectError::unexpected(other.name(), "the message `door`")),
        };
        if address.ip().is_unspecified() {
            address.set_ip(peer.ip());
        }
        drop(events.send(Event::Arrived(host, address.to_string())));
        let known = async { directory.wait_for(Option::is_some).await.ok().and_then(|known| known.clone()) };
        let message = match signs_of_life((&mut receiver, &mut sender), between, known).await? {
            Heard::End(Some(message)) => message,
            Heard::End(None) => return Ok(()),
            Heard::Message(other) => return Err(ConnectError::unexpected(other.name(), "a sign of life")),
        };
        let message = message.unwrap_or_else(|reason| Message::Bye { reason, again: false });
        sender.send(&message).await.map(drop)
    };
    let event = match attended.await {
        Ok(()) => {
            // The place stays taken, so that no second process can be this host.
            std::mem::forget(seat);
            Event::Ready(host, (receiver, sender))
        }
        Err(_) => Event::Left(host),
    };
    // The channel is closed once host 0 has given up.
    drop(events.send(event));
}

/// Connects a host other than host 0 to all others.
async fn follow(settings: &MeshSettings, until: Instant, watch: &mut dyn Watch) -> Result<Gathered, Apart> {
    let (Dialled { welcome, mut receiver, mut sender, local, token: me }, secret) =
        reach_first(settings, until, watch).await?;
    let count = welcome.peers;
    if settings.count.is_some_and(|known| known != count) {
        let known = settings.count.unwrap_or_default();
        return Err(Apart::Here(failed(format!(
            "host {me} was started as one of {known} hosts, but host 0 as one of {count}"
        ))));
    }
    if let Some(class) = &welcome.numeric_class {
        eciton_tensor::simd::require(class).map_err(failed)?;
    }
    let silence = Duration::from_millis(welcome.silence_ms);
    let listen = settings.listen.clone().unwrap_or_else(|| SocketAddr::new(local.ip(), 0).to_string());
    let certificate = secret.certificate()?;
    let tokens = tokens(&secret, &certificate, count);
    let hello = hello();
    let mut listener = Listener::bind(&listen, &certificate, (tokens.clone(), count), welcome).await?;
    sender.send(&Message::Door { address: listener.address.to_string(), tokens: Vec::new() }).await?;
    let never = std::future::pending::<std::convert::Infallible>();
    let message = signs_of_life((&mut receiver, &mut sender), silence / SIGNS, never).await;
    let (addresses, task) = match message {
        Ok(Heard::Message(Message::Hosts { addresses, task })) => (addresses, task),
        Ok(Heard::Message(Message::Bye { reason, .. })) => return Err(Apart::There(reason)),
        Ok(Heard::Message(other)) => {
            return Err(ConnectError::unexpected(other.name(), "the addresses of all hosts").into());
        }
        Err(error) => return Err(Apart::There(error.to_string())),
    };
    // The time that this host has waited for the others does not count.
    let until = Instant::now() + settings.patience;
    // From here on, host 0 expects signs of life, and tells failures.
    let links = Links::new(count, silence);
    links.start(0, (receiver, sender));
    let (events, mut ready) = mpsc::unbounded_channel();
    for (host, address) in (0..me).zip(addresses).skip(1) {
        let (token, hello, events) = (tokens[me as usize].clone(), hello.clone(), events.clone());
        tokio::spawn(async move {
            let reached = reach(&address, &token, hello, until).await;
            let unreached = |error| {
                let reason = format!("host {me} cannot reach it at {address} ({error})");
                Event::Failed(host, format!("{reason}; check the network between the two hosts"))
            };
            drop(events.send(reached.map_or_else(unreached, |halves| Event::Ready(host, halves))));
        });
    }
    while !links.missing(me).is_empty() && !links.have_failed() {
        tokio::select! {
            Some(Joined { seat, receiver, sender, .. }) = listener.next() => {
                links.start(seat.token, (receiver, sender));
                std::mem::forget(seat);
            }
            Some(event) = ready.recv() => match event {
                Event::Ready(host, halves) => links.start(host, halves),
                Event::Failed(host, reason) => {
                    links.end(Some((host, &reason))).await;
                    return Err(Apart::Failed(host, reason));
                }
                Event::Arrived(..) | Event::Left(_) => {}
            },
            () = tokio::time::sleep(AGAIN) => {}
            () = tokio::time::sleep_until(until.into()) => {
                let missing = links.missing(me).first().copied().unwrap_or_default();
                let reason = format!("it has not connected to host {me}; check the network between the two hosts");
                links.end(Some((missing, &reason))).await;
                return Err(Apart::Failed(missing, reason));
            }
        }
    }
    // A failure is reported by the run.
    Ok(Gathered { me, count, task, links })
}

/// Returns the first message of this host, without the proof.
fn hello() -> Hello {
    let numeric_classes = eciton_tensor::simd::classes().into_iter().map(str::to_owned).collect();
    Hello { numeric_classes, pid: std::process::id(), ..Hello::default() }
}

/// Connects this host to host 0, as soon as that can be reached. Returns the connection and the
/// secret of the run.
async fn reach_first(
    settings: &MeshSettings,
    until: Instant,
    watch: &mut dyn Watch,
) -> Result<(Dialled, Secret), Apart> {
    let (place, quiet) = (&settings.place, Instant::now() + QUIET);
    let mut is_told = false;
    loop {
        let mut reason = "it is not there yet".to_owned();
        match place.find().await {
            Ok(Some(Meeting { address, secret })) => {
                let secret = settings.secret.clone().or(secret).ok_or_else(|| {
                    failed(format!("{place} has no secret; set hosts.secret to the secret file of the run"))
                })?;
                let certificate = secret.certificate()?;
                let tokens: Vec<Token> = match settings.me {
                    Some(me) => vec![secret.token(&certificate, me)],
                    None => (1..settings.most).map(|host| secret.token(&certificate, host)).collect(),
                };
                let mut waits =
                    || watch.tell(&format!("all places of the run at {place} are taken; waiting for one"));
                let dialled = dial(&address, &tokens, hello(), Duration::ZERO, &mut waits);
                let late =
                    Err(ConnectError::Slow { what: "the answer of host 0", allowed: settings.patience });
                match tokio::time::timeout_at(until.into(), dialled).await.unwrap_or(late) {
                    Ok(dialled) => return Ok((dialled, secret)),
                    Err(error @ ConnectError::Refused { again: false, .. }) => return Err(error.into()),
                    // A folder may have the address and the secret of an earlier run.
                    Err(error @ ConnectError::Tls { .. }) if matches!(place, MeetingPlace::Address(_)) => {
                        return Err(Apart::Here(failed(format!(
                            "{error}; check that hosts.secret is the same for all hosts, and that host 0 listens at \
                             {address}"
                        ))));
                    }
                    Err(error) => reason = error.to_string(),
                }
            }
            Ok(None) => {}
            // A file that is being replaced may be unreadable for a moment.
            Err(error) => reason = error,
        }
        if Instant::now() >= until {
            let seconds = settings.patience.as_secs();
            return Err(Apart::Here(Error::Choice(format!(
                "this host has waited {seconds} s for host 0 at {place}, which must be the same for all hosts: {reason}"
            ))));
        }
        if !is_told && Instant::now() >= quiet {
            is_told = true;
            watch.tell(&format!("waiting for host 0 at {place}"));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// End of an exchange of signs of life.
enum Heard<T> {
    /// Another message has arrived.
    Message(Message),
    /// The future at the call has ended.
    End(T),
}

/// Exchanges signs of life over a connection, until another message arrives or `until` ends.
async fn signs_of_life<T>(
    (receiver, sender): (&mut Receiver, &mut Sender),
    between: Duration,
    until: impl Future<Output = T>,
) -> Result<Heard<T>, ConnectError> {
    // The silence of the other end counts from its last byte, so this future must not be dropped.
    let reading = async {
        loop {
            match receiver.next().await?.0 {
                Message::Alive => {}
                other => return Ok(other),
            }
        }
    };
    let (mut reading, mut until) = (std::pin::pin!(reading), std::pin::pin!(until));
    loop {
        tokio::select! {
            message = &mut reading => return message.map(Heard::Message),
            ended = &mut until => return Ok(Heard::End(ended)),
            // A message that has begun is sent completely. The receiver reports the end of the
            // connection.
            () = tokio::time::sleep(between) => drop(sender.send(&Message::Alive).await),
        }
    }
}

/// Connects this host to the host at `address`, which listens already. Tries again until `until`.
async fn reach(address: &str, token: &Token, hello: Hello, until: Instant) -> Result<Halves, ConnectError> {
    let left = until.saturating_duration_since(Instant::now());
    let tokens = std::slice::from_ref(token);
    let Dialled { receiver, sender, .. } = dial(address, tokens, hello, left, || {}).await?;
    Ok((receiver, sender))
}
