//! Connections between the hosts of a run. Each pair of hosts has one connection.
//!
//! A host listens with a certificate of its own, and has a token for every other host. It writes its
//! address and the tokens to a folder that all hosts share ([`Meeting`]). A host dials those with a
//! lower index, and admits the others.

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eciton_cloud::error::{Error, Result};
use eciton_cloud::runtime;
use eciton_connect::limits::SIGNS;
use eciton_connect::{
    Certificate, Dialled, ENDED, Error as ConnectError, Hello, Joined, Listener, Meeting, Message, Receiver,
    Sender, Token, Welcome, dial,
};
use eciton_exec::hosts::{Arrivals, Fabric, Message as Sent};
use eciton_exec::{Completion, Inbox};
use eciton_types::Exchanged;
use tokio::sync::mpsc;

use super::outgoing::{self, Outgoing, Queued};

/// Time to wait before a host tries to reach another one again.
const AGAIN: Duration = Duration::from_millis(50);

/// Settings of the connections between hosts.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// Index of this host.
    pub me: u32,
    /// Number of hosts.
    pub count: u32,
    /// Folder that all hosts share, in which they tell each other their addresses.
    pub rendezvous: PathBuf,
    /// Address at which this host listens, in the form `HOST:PORT`. If `None`, it is a free port of
    /// the address that this machine has towards others.
    pub listen: Option<String>,
    /// Time without a byte after which a host is considered failed.
    pub silence: Duration,
    /// Maximum time until all hosts are connected.
    pub patience: Duration,
}

/// Connections of this host to all other hosts of its run.
pub struct Mesh {
    settings: MeshSettings,
    shared: Arc<Shared>,
    /// Tasks of the connections, which end with them.
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mesh(host {} of {})", self.settings.me, self.settings.count)
    }
}

/// State that the connections share.
#[derive(Debug)]
struct Shared {
    arrivals: Arrivals,
    /// Queues by host. `None` for this host, and for all after the end.
    peers: Mutex<Vec<Option<Outgoing>>>,
    /// True once this host has ended, or once the failure of another host has been reported.
    over: AtomicBool,
    silence: Duration,
}

impl Shared {
    fn peers(&self) -> std::sync::MutexGuard<'_, Vec<Option<Outgoing>>> {
        // The table is consistent even after a panic.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that a host has failed. `is_told` is true if it has said so itself. Only the first failure is reported, because others follow
    /// from it.
    fn failed(&self, (host, is_told): (u32, bool), reason: String) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.arrivals.put(Completion::HostFailed { host, reason, is_told });
        }
    }

    /// Reads the messages of `host` until it ends or the connection fails.
    async fn hear(&self, host: u32, receiver: &mut Receiver) {
        loop {
            let reason = match receiver.next().await {
                Ok((Message::Alive, _)) => continue,
                Ok((Message::Bye { .. }, _)) => return,
                Ok((Message::Exchange { content: Exchanged::Failed { host }, body, .. }, _)) => {
                    return self.failed((host, true), String::from_utf8_lossy(&body).into_owned());
                }
                Ok((Message::Exchange { pass, content, body }, _)) => {
                    let message = Box::new(Sent { pass, content, body });
                    self.arrivals.put(Completion::Received { from: host, message });
                    continue;
                }
                Ok((other, _)) => format!("it sent an unexpected message ({})", other.name()),
                Err(ConnectError::Closed) => {
                    "its connection has ended, so its process has ended or its machine has failed".to_owned()
                }
                Err(error) => error.to_string(),
            };
            return self.failed((host, false), reason);
        }
    }
}

/// Exchanges messages with `host`, until both hosts have ended or the connection fails.
async fn converse(
    shared: Arc<Shared>,
    host: u32,
    (mut receiver, mut sender): (Receiver, Sender),
    mut queued: Queued,
) {
    let hear = shared.hear(host, &mut receiver);
    let write = async {
        if queued.write(&mut sender, shared.silence / SIGNS).await {
            sender.close().await;
        }
    };
    let mut hear = std::pin::pin!(hear);
    tokio::select! {
        () = &mut hear => {
            // The other host has ended or failed. What is sent to it no longer matters.
        }
        () = write => {
            // The other host may still send. If this end closed now, the other might not receive the
            // last messages.
            drop(tokio::time::timeout(shared.silence, hear).await);
        }
    }
}

fn failed(error: ConnectError) -> Error {
    Error::Choice(format!("hosts: {error}"))
}

/// Returns an address of this machine that others can reach, with port 0.
fn own_address() -> String {
    // The operating system chooses the address by its routes. No packet is sent.
    let route = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let ip = route.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip());
    SocketAddr::new(ip, 0).to_string()
}

impl Mesh {
    /// Connects this host to all others. `tell` gets a line that says what the host waits for.
    ///
    /// # Errors
    /// Returns an [`Error`] if this host cannot listen, if the folder cannot be used, or if a host is
    /// missing after [`MeshSettings::patience`].
    pub fn connect(settings: MeshSettings, tell: &mut dyn FnMut(&str)) -> Result<Self> {
        let (me, count) = (settings.me, settings.count);
        let runtime = runtime(1)?;
        let certificate = Certificate::new().map_err(failed)?;
        let tokens = (0..count).map(|host| certificate.token(host)).collect::<Result<Vec<Token>, _>>();
        let tokens = tokens.map_err(failed)?;
        let silence_ms = u64::try_from(settings.silence.as_millis()).unwrap_or(u64::MAX);
        let class = eciton_tensor::numeric_class().to_owned();
        let welcome = Welcome {
            run: "hosts".to_owned(),
            place: 0,
            silence_ms,
            numeric_class: Some(class.clone()),
            peers: count,
        };
        let listen = settings.listen.clone().unwrap_or_else(own_address);
        let bound = Listener::bind(&listen, &certificate, (tokens.clone(), count), welcome);
        let mut listener = runtime.block_on(bound).map_err(failed)?;
        let address = listener.address.to_string();
        Meeting { address, tokens }.write(&settings.rendezvous, me).map_err(failed)?;
        let hello = Hello { numeric_classes: vec![class], pid: std::process::id(), ..Hello::default() };
        let (met, mut meets) = mpsc::unbounded_channel();
        for host in 0..me {
            let (folder, hello, met) = (settings.rendezvous.clone(), hello.clone(), met.clone());
            runtime.spawn(async move {
                // The channel is closed once this host has given up.
                drop(met.send(reach(&folder, (me, host), hello).await.map(|halves| (host, halves))));
            });
        }
        let admitted = met.clone();
        let admitting = runtime.spawn(async move {
            while let Some(Joined { seat, receiver, sender, .. }) = listener.next().await {
                let host = seat.token;
                drop(admitted.send(Ok((host, (receiver, sender)))));
                // The place stays taken, so that no second process can be this host.
                std::mem::forget(seat);
            }
        });
        let gathered = runtime.block_on(gather(&settings, &mut meets, tell));
        admitting.abort();
        Meeting::remove(&settings.rendezvous, me);
        let shared = Arc::new(Shared {
            arrivals: Arrivals::default(),
            peers: Mutex::default(),
            over: AtomicBool::new(false),
            silence: settings.silence,
        });
        let mut tasks = Vec::new();
        for (host, halves) in (0..).zip(gathered?) {
            let out = halves.map(|halves| {
                let (out, queued) = outgoing::queues();
                tasks.push(runtime.spawn(converse(shared.clone(), host, halves, queued)));
                out
            });
            shared.peers().push(out);
        }
        Ok(Self { settings, shared, tasks: Mutex::new(tasks), runtime: Some(runtime) })
    }
}

/// Both halves of a connection.
type Halves = (Receiver, Sender);

/// Connects host `me` to `host`, as soon as its address is in `folder`. An address of an earlier run
/// is replaced by that of this run.
async fn reach(
    folder: &std::path::Path,
    (me, host): (u32, u32),
    hello: Hello,
) -> Result<Halves, ConnectError> {
    loop {
        // A file that is being replaced may be unreadable for a moment.
        if let Ok(Some(meeting)) = Meeting::read(folder, host)
            && let Some(token) = meeting.tokens.get(me as usize)
        {
            let tokens = std::slice::from_ref(token);
            match dial(&meeting.address, tokens, hello.clone(), Duration::ZERO, || {}).await {
                Ok(Dialled { receiver, sender, .. }) => return Ok((receiver, sender)),
                Err(error @ ConnectError::Refused { again: false, .. }) => return Err(error),
                Err(_) => {}
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Waits until all hosts are connected. Returns the connections by host.
async fn gather(
    settings: &MeshSettings,
    meets: &mut mpsc::UnboundedReceiver<Result<(u32, Halves), ConnectError>>,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Option<Halves>>> {
    let end = Instant::now() + settings.patience;
    let mut all: Vec<Option<Halves>> = (0..settings.count).map(|_| None).collect();
    let mut told = false;
    loop {
        let missing = (0..).zip(&all).filter(|(host, halves)| *host != settings.me && halves.is_none());
        let missing: Vec<String> = missing.map(|(host, _)| host.to_string()).collect();
        if missing.is_empty() {
            return Ok(all);
        }
        let left = end.saturating_duration_since(Instant::now());
        let (names, folder) = (missing.join(", "), settings.rendezvous.display());
        if left.is_zero() {
            let seconds = settings.patience.as_secs();
            return Err(Error::Choice(format!(
                "host {} has waited {seconds} s for the hosts {names}; start {} hosts in total, all with \
                 --rendezvous {folder}, which must be the same folder for all of them",
                settings.me, settings.count
            )));
        }
        // Hosts that start together connect within a second.
        let wait = if told { left } else { left.min(Duration::from_secs(1)) };
        match tokio::time::timeout(wait, meets.recv()).await {
            Ok(Some(Ok((host, halves)))) => {
                if let Some(place) = all.get_mut(host as usize) {
                    *place = Some(halves);
                }
            }
            Ok(Some(Err(error))) => return Err(failed(error)),
            Ok(None) => return Err(Error::Choice("hosts: the connections have ended".to_owned())),
            Err(_) if !told => {
                told = true;
                tell(&format!("host {} waits for the hosts {names} in {folder}", settings.me));
            }
            Err(_) => {}
        }
    }
}

impl Fabric for Mesh {
    fn send(&self, to: u32, message: Sent) {
        let Sent { pass, content, body } = message;
        if let Some(Some(peer)) = self.shared.peers().get(to as usize) {
            peer.send(Message::Exchange { pass, content, body }, content.is_urgent());
        }
    }

    fn listen(&self, inbox: Inbox) {
        self.shared.arrivals.listen(inbox);
    }

    fn end(&self, failed: Option<(u32, &str)>) {
        self.shared.over.store(true, Ordering::Release);
        for peer in self.shared.peers().drain(..).flatten() {
            if let Some((host, reason)) = failed {
                let (content, body) = (Exchanged::Failed { host }, reason.as_bytes().to_vec().into());
                peer.send(Message::Exchange { pass: 0, content, body }, true);
            }
            peer.send(Message::Bye { reason: ENDED.to_owned(), again: false }, false);
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(runtime) = &self.runtime {
            for task in tasks {
                // A task ends with its connection.
                drop(runtime.block_on(task));
            }
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
