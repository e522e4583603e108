//! Hosts that are threads of one process, for tests.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use eciton_types::Exchanged;

use super::{Arrivals, Fabric, Message};
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
    arrivals: Arc<Arrivals>,
}

impl InProcess {
    /// Creates `count` connected hosts. `seed` determines the order in which messages arrive.
    #[must_use]
    pub fn connected(count: u32, seed: u64) -> Vec<Arc<dyn Fabric>> {
        let end = |me: u32| {
            let (send, receive) = mpsc::channel();
            let arrivals = Arc::new(Arrivals::default());
            let to = arrivals.clone();
            let seed = seed.wrapping_mul(31).wrapping_add(u64::from(me));
            std::thread::spawn(move || deliver(&receive, &to, seed));
            End { send, arrivals }
        };
        let ends = Arc::new((0..count).map(end).collect::<Vec<_>>());
        (0..count).map(|me| Arc::new(Self { me, ends: ends.clone() }) as Arc<dyn Fabric>).collect()
    }
}

/// Passes on messages in a random order, until all senders are gone.
fn deliver(receive: &mpsc::Receiver<(u32, Message)>, arrivals: &Arrivals, mut state: u64) {
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
            arrivals.put(Completion::Received { from, message: Box::new(message) });
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
        if let Some(end) = self.ends.get(self.me as usize) {
            end.arrivals.listen(inbox);
        }
    }

    fn end(&self, failed: Option<(u32, &str)>) {
        let Some((host, reason)) = failed else { return };
        for to in (0..).take(self.ends.len()).filter(|to| *to != self.me) {
            let body = reason.as_bytes().to_vec().into();
            self.send(to, Message { pass: 0, content: Exchanged::Failed { host }, body });
        }
    }
}
