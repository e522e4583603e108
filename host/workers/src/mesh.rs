//! Connections between the hosts of a run. Each pair of hosts has one connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use eciton_cloud::runtime;
use eciton_connect::limits::SIGNS;
use eciton_connect::{ENDED, Error as ConnectError, Message, Receiver, Sender};
use eciton_exec::hosts::{Arrivals, Fabric, Message as Sent};
use eciton_exec::{Completion, Inbox};
use eciton_types::Exchanged;

use super::gathering::{Apart, Gathered, MeshSettings, Watch, gather};
use super::outgoing::{self, Outgoing, Queued};

/// Connections of this host to all other hosts of its run.
pub struct Mesh {
    /// Index of this host.
    pub me: u32,
    /// Number of hosts.
    pub count: u32,
    /// Task of the run, as host 0 has told it.
    pub task: Bytes,
    links: Links,
    runtime: Option<tokio::runtime::Runtime>,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mesh(host {} of {})", self.me, self.count)
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

    /// Reports that a host has failed. `is_told` is true if it has said so itself. Only the first
    /// failure is reported, because others follow from it.
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

/// Connections that exchange messages, from the moment at which each of them is ready.
pub(super) struct Links {
    shared: Arc<Shared>,
    /// Tasks of the connections, which end with them.
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Links {
    /// Creates the table of connections to `count` hosts. A host is considered failed after the time
    /// `silence` without a byte.
    pub(super) fn new(count: u32, silence: Duration) -> Self {
        let peers = Mutex::new((0..count).map(|_| None).collect());
        let (arrivals, over) = (Arrivals::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { arrivals, peers, over, silence });
        Self { shared, tasks: Mutex::default() }
    }

    /// Begins to exchange messages with `host`.
    pub(super) fn start(&self, host: u32, halves: (Receiver, Sender)) {
        let (out, queued) = outgoing::queues();
        if let Some(place) = self.shared.peers().get_mut(host as usize) {
            *place = Some(out);
        }
        self.tasks().push(tokio::spawn(converse(self.shared.clone(), host, halves, queued)));
    }

    /// Returns the hosts other than `me` without a connection, in ascending order.
    pub(super) fn missing(&self, me: u32) -> Vec<u32> {
        let peers = self.shared.peers();
        let missing = (0..).zip(&*peers).filter(|(host, peer)| *host != me && peer.is_none());
        missing.map(|(host, _)| host).collect()
    }

    /// Returns true if a host has failed since its connection was ready. The inbox of the run gets
    /// the failure.
    pub(super) fn have_failed(&self) -> bool {
        self.shared.arrivals.has_failure()
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Vec<tokio::task::JoinHandle<()>>> {
        // The list is consistent even after a panic.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all hosts which host has failed and why, or that the run has ended. Waits until the
    /// connections have ended.
    pub(super) async fn end(&self, failed: Option<(u32, &str)>) {
        self.shared.over.store(true, Ordering::Release);
        let peers = std::mem::take(&mut *self.shared.peers());
        for peer in peers.into_iter().flatten() {
            if let Some((host, reason)) = failed {
                let (content, body) = (Exchanged::Failed { host }, reason.as_bytes().to_vec().into());
                peer.send(Message::Exchange { pass: 0, content, body }, true);
            }
            peer.send(Message::Bye { reason: ENDED.to_owned(), again: false }, false);
        }
        let tasks = std::mem::take(&mut *self.tasks());
        for task in tasks {
            // A task ends with its connection.
            drop(task.await);
        }
    }
}

impl Mesh {
    /// Connects this host to all others. `watch` gets a line that says what the host waits for.
    ///
    /// # Errors
    /// Returns [`Apart`] if this host cannot listen, if the meeting place cannot be used, or if a
    /// host is missing after [`MeshSettings::patience`].
    pub fn connect(settings: &MeshSettings, watch: &mut dyn Watch) -> Result<Self, Apart> {
        let runtime = runtime(1)?;
        let Gathered { me, count, task, links } = runtime.block_on(gather(settings, watch))?;
        Ok(Self { me, count, task, links, runtime: Some(runtime) })
    }
}

impl Fabric for Mesh {
    fn send(&self, to: u32, message: Sent) {
        let Sent { pass, content, body } = message;
        if let Some(Some(peer)) = self.links.shared.peers().get(to as usize) {
            peer.send(Message::Exchange { pass, content, body }, content.is_urgent());
        }
    }

    fn listen(&self, inbox: Inbox) {
        self.links.shared.arrivals.listen(inbox);
    }

    fn end(&self, failed: Option<(u32, &str)>) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(self.links.end(failed));
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
