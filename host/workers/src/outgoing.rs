//! Messages that wait to be sent over a connection. Sums are sent before rows, because the next
//! update waits for them.

use std::time::Duration;

use eciton_connect::{Message, Sender};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Sending end of the queues of a connection. The queues are closed when it is dropped.
#[derive(Debug)]
pub(super) struct Outgoing {
    urgent: UnboundedSender<Message>,
    ordinary: UnboundedSender<Message>,
}

/// Messages of a connection that are not sent yet.
#[derive(Debug)]
pub(super) struct Queued {
    urgent: UnboundedReceiver<Message>,
    ordinary: UnboundedReceiver<Message>,
    /// Message whose sending has begun. After a failure, it may not have arrived.
    left: Option<Message>,
}

/// Creates the queues of a connection.
pub(super) fn queues() -> (Outgoing, Queued) {
    let ((urgent, first), (ordinary, second)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    (Outgoing { urgent, ordinary }, Queued { urgent: first, ordinary: second, left: None })
}

impl Outgoing {
    /// Queues a message. An urgent one is sent before all others that wait.
    pub(super) fn send(&self, message: Message, is_urgent: bool) {
        let queue = if is_urgent { &self.urgent } else { &self.ordinary };
        // The connection has ended, which its receiving half reports.
        drop(queue.send(message));
    }
}

impl Queued {
    /// Returns true once the queues are closed, even if messages still wait.
    pub(super) fn is_closed(&self) -> bool {
        self.ordinary.is_closed()
    }

    /// Returns the next message, or `None` once the queues are closed and empty.
    async fn next(&mut self) -> Option<Message> {
        tokio::select! {
            biased;
            Some(message) = self.urgent.recv() => Some(message),
            message = self.ordinary.recv() => match message {
                // The urgent queue may have got a message just before both were closed.
                None => self.urgent.recv().await,
                message => message,
            },
        }
    }

    /// Sends messages, and signs of life when none has been sent for the time `between`. Returns
    /// true once the queues are closed and all messages are sent, and false if the connection fails.
    pub(super) async fn write(&mut self, sender: &mut Sender, between: Duration) -> bool {
        loop {
            if self.left.is_none() {
                self.left = match tokio::time::timeout(between, self.next()).await {
                    Ok(None) => return true,
                    Ok(message) => message,
                    Err(_) => Some(Message::Alive),
                };
            }
            let Some(message) = &self.left else { continue };
            if sender.send(message).await.is_err() {
                return false;
            }
            self.left = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn urgent_messages_overtake_others() {
        let (outgoing, mut queued) = queues();
        let bye = |reason: &str| Message::Bye { reason: reason.to_owned(), again: false };
        outgoing.send(bye("rows 1"), false);
        outgoing.send(bye("rows 2"), false);
        outgoing.send(bye("sums"), true);
        assert_eq!(queued.next().await, Some(bye("sums")));
        assert_eq!(queued.next().await, Some(bye("rows 1")));
        outgoing.send(bye("more sums"), true);
        assert!(!queued.is_closed());
        drop(outgoing);
        assert!(queued.is_closed());
        let all = [queued.next().await, queued.next().await, queued.next().await];
        assert_eq!(all, [Some(bye("more sums")), Some(bye("rows 2")), None]);
    }
}
