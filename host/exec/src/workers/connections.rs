//! Connections of workers: who is let in, and the two tasks that send and hear messages.

use std::sync::Arc;

use eciton_connect::{Error as ConnectError, Joined, Listener, Message, Receiver, Sender};
use tokio::sync::mpsc;

use super::link::Link;
use super::shared::{GOES, Shared};
use crate::Completion;

/// Lets workers in, for as long as the pool is there.
pub(super) async fn let_in(shared: Arc<Shared>, mut listener: Listener) {
    while let Some(Joined { seat, hello, receiver, sender, .. }) = listener.next().await {
        let place = seat.place;
        let (out, messages) = mpsc::unbounded_channel();
        let mut state = shared.lock();
        if state.closed {
            continue;
        }
        state.connections += 1;
        let id = state.connections;
        let mut link = Link::new((id, hello.keeps_bytes), out);
        let sent = link.give(&shared.kernels, &state.objects);
        if let Some(traffic) = state.traffic.get_mut(place as usize) {
            traffic.object_bytes += sent;
        }
        // The seat was free: whoever had it has been lost.
        if let Some(slot) = state.links.get_mut(place as usize) {
            *slot = Some(link);
        }
        // With peers it counts once it listens for them.
        let counts = !shared.settings.peers;
        let deserted = counts && std::mem::take(&mut state.deserted);
        drop(state);
        let (writes, reads) = (shared.clone(), shared.clone());
        let writer = tokio::spawn(async move {
            let ended = write(&writes, place, sender, messages).await;
            if let Err(error) = ended {
                writes.lost((place, id), &error.to_string());
            }
        });
        let mut state = shared.lock();
        state.writers.retain(|writer| !writer.is_finished());
        state.writers.push(writer);
        drop(state);
        tokio::spawn(async move {
            let ended = read(&reads, (place, id), receiver).await;
            // Only then another worker may sit there.
            reads.lost((place, id), &ended);
            drop(seat);
        });
        if counts {
            shared.inbox.note(Completion::Joined { place });
        }
        if deserted {
            shared.inbox.forget();
        }
        shared.changed.notify_all();
        shared.dispatch();
    }
}

/// Sends a worker's messages, and signs of life between them.
async fn write(
    shared: &Arc<Shared>,
    place: u32,
    mut sender: Sender,
    mut messages: mpsc::UnboundedReceiver<Message>,
) -> Result<(), ConnectError> {
    let between = shared.settings.silence / eciton_connect::limits::SIGNS;
    loop {
        let message = match tokio::time::timeout(between, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => Message::Alive,
        };
        let last = matches!(message, Message::Bye(_));
        let bytes = sender.send(&message).await?;
        shared.count(place, (0, bytes));
        if last {
            break;
        }
    }
    sender.close().await;
    Ok(())
}

/// Hears a worker, to its end; why that came.
async fn read(shared: &Arc<Shared>, (place, id): (u32, u64), mut receiver: Receiver) -> String {
    loop {
        let (message, bytes) = match receiver.next().await {
            Ok(next) => next,
            Err(error) => return error.to_string(),
        };
        shared.count(place, (bytes, 0));
        // Signs of life come all the time.
        if shared.owes(place, id) {
            let most = shared.settings.answer.as_secs();
            return format!("it has not answered for {most} s, though it is there (workers.answer_s)");
        }
        let name = message.name();
        match message {
            Message::Answer { number, frame, passed } => {
                if let Err(error) = shared.answered(place, id, (number, frame, passed)) {
                    return error.to_string();
                }
            }
            Message::Door { address, tokens } => {
                if let Err(reason) = shared.door(place, id, (address, tokens)) {
                    return reason;
                }
            }
            Message::Missing { number, keys } => shared.missing(place, id, (number, &keys)),
            Message::Alive => {}
            Message::Drain => {
                let mut state = shared.lock();
                let through = state.link(place, id).is_none_or(|link| {
                    link.draining = true;
                    link.is_through()
                });
                drop(state);
                if through {
                    shared.lost((place, id), GOES);
                }
            }
            Message::Bye(reason) => return reason,
            _ => return format!("it sent the message `{name}`, which is the host's to send"),
        }
    }
}
