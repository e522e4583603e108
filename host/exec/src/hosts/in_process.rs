//! Hosts that are threads of one process, for tests.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Fabric, Message};
use crate::completion::Completion;
use crate::local::Inbox;

/// Longest time that a message waits for others that may overtake it.
const LATENCY: Duration = Duration::from_micros(200);

/// A host whose fabric is the memory of this process. Messages are delayed and reordered at random.
#[derive(Debug)]
pub struct InProcess {
    me: u32,
    ends: Arc<Vec<End>>,
}

/// Receiving end of a host.
#[derive(Debug)]
struct End {
    send: mpsc::Sender<(u32, Message)>,
    inbox: Arc<Mutex<Arrivals>>,
}

/// Inbox of a host, or the messages that arrived before it was known.
#[derive(Debug)]
enum Arrivals {
    Early(Vec<Completion>),
    Inbox(Inbox),
}

impl Arrivals {
    fn put(&mut self, completion: Completion) {
        match self {
            Self::Early(early) => early.push(completion),
            Self::Inbox(inbox) => inbox.note(completion),
        }
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> std::sync::MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InProcess {
    /// Creates `count` connected hosts. `seed` determines the order in which messages arrive.
    #[must_use]
    pub fn connected(count: u32, seed: u64) -> Vec<Arc<dyn Fabric>> {
        let end = |me: u32| {
            let (send, receive) = mpsc::channel();
            let inbox = Arc::new(Mutex::new(Arrivals::Early(Vec::new())));
            let arrivals = inbox.clone();
            let seed = seed.wrapping_mul(31).wrapping_add(u64::from(me));
            std::thread::spawn(move || deliver(&receive, &arrivals, seed));
            End { send, inbox }
        };
        let ends = Arc::new((0..count).map(end).collect::<Vec<_>>());
        (0..count).map(|me| Arc::new(Self { me, ends: ends.clone() }) as Arc<dyn Fabric>).collect()
    }
}

/// Passes on messages in a random order, until all senders are gone.
fn deliver(receive: &mpsc::Receiver<(u32, Message)>, arrivals: &Mutex<Arrivals>, mut state: u64) {
    let mut waiting = Vec::new();
    loop {
        let ended = match receive.recv_timeout(LATENCY) {
            Ok(message) => {
                waiting.push(message);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        // The generator of Knuth's MMIX. Its high bits are random enough to reorder messages.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (state >> 33) as usize;
        if !waiting.is_empty() && (draw.is_multiple_of(2) || ended) {
            let (from, message) = waiting.swap_remove(draw / 2 % waiting.len());
            lock(arrivals).put(Completion::Received { from, message: Box::new(message) });
        }
        if ended && waiting.is_empty() {
            return;
        }
    }
}

impl Fabric for InProcess {
    fn send(&self, to: u32, message: Message) {
        if let Some(end) = self.ends.get(to as usize) {
            // The receiving thread ends after all senders.
            let _ = end.send.send((self.me, message));
        }
    }

    fn listen(&self, inbox: Inbox) {
        let Some(end) = self.ends.get(self.me as usize) else { return };
        let before = std::mem::replace(&mut *lock(&end.inbox), Arrivals::Inbox(inbox.clone()));
        if let Arrivals::Early(early) = before {
            early.into_iter().for_each(|completion| inbox.note(completion));
        }
    }
}
