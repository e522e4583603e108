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
    /// What host 0 has told all hosts about the run.
    pub task: Bytes,
    shared: Arc<Shared>,
    /// Tasks of the connections, which end with them.
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
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

impl Mesh {
    /// Connects this host to all others. `watch` gets a line that says what the host waits for.
    ///
    /// # Errors
    /// Returns [`Apart`] if this host cannot listen, if the meeting place cannot be used, or if a
    /// host is missing after [`MeshSettings::patience`].
    pub fn connect(settings: &MeshSettings, watch: &mut dyn Watch) -> Result<Self, Apart> {
        let runtime = runtime(1)?;
        let Gathered { me, task, silence, halves } = runtime.block_on(gather(settings, watch))?;
        let count = halves.len() as u32;
        let (peers, over) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { arrivals: Arrivals::default(), peers, over, silence });
        let mut tasks = Vec::new();
        for (host, halves) in (0..).zip(halves) {
            let out = halves.map(|halves| {
                let (out, queued) = outgoing::queues();
                tasks.push(runtime.spawn(converse(shared.clone(), host, halves, queued)));
                out
            });
            shared.peers().push(out);
        }
        Ok(Self { me, count, task, shared, tasks: Mutex::new(tasks), runtime: Some(runtime) })
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
