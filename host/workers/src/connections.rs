//! Connections to workers: the admission of new workers, and the exchange of messages with each
//! one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use eciton_connect::{Error as ConnectError, Joined, Listener, Message, Receiver, Sender};
use eciton_exec::Completion;
use eciton_types::Location;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::link::Link;
use super::shared::{GOES, Shared};

/// Maximum time to send the last message of a connection, and to wait until the other end closes
/// it.
const FAREWELL: Duration = Duration::from_millis(500);

/// Accepts workers from `listener` for as long as the pool exists, and starts a task for each
/// connection.
pub(super) async fn let_in(shared: Arc<Shared>, mut listener: Listener) {
    let mut ending = shared.ending.subscribe();
    loop {
        let joined = tokio::select! {
            joined = listener.next() => joined,
            ended = ending.wait_for(Option::is_some) => {
                let again = ended.ok().and_then(|ended| *ended).unwrap_or(false);
                listener.end(again);
                None
            }
        };
        let Some(joined) = joined else { return };
        let at = Location::worker(joined.seat.index);
        let (out, messages) = mpsc::unbounded_channel();
        let mut state = shared.lock();
        if state.closed {
            continue;
        }
        state.connections += 1;
        let id = state.connections;
        let link = Link::new((id, joined.seat.token), &joined.hello, joined.peer.ip(), out);
        for (digest, bytes) in &shared.kernels {
            link.say(Message::Kernel { digest: digest.clone(), bytes: bytes.clone() });
            if let Some(traffic) = state.traffic.get_mut(at.index()) {
                traffic.object_bytes += bytes.len() as u64;
            }
        }
        // The place was free, so an earlier worker with it has failed.
        if let Some(slot) = state.links.get_mut(at.index()) {
            *slot = Some(link);
        }
        // If workers send rows to each other, a worker counts once it listens for the others.
        let counts = !shared.settings.peers;
        let deserted = counts && std::mem::take(&mut state.deserted);
        state.writers.retain(|writer| !writer.is_finished());
        state.writers.push(tokio::spawn(converse(shared.clone(), id, joined, messages)));
        drop(state);
        if counts {
            shared.inbox.note(Completion::Joined { at });
        }
        if deserted {
            shared.inbox.forget();
        }
        shared.changed.notify_all();
        shared.dispatch();
    }
}

/// Sends and receives the messages of a worker until either direction ends or an answer is overdue.
/// Then reports the end of the connection with number `id`.
async fn converse(shared: Arc<Shared>, id: u64, joined: Joined, messages: mpsc::UnboundedReceiver<Message>) {
    let Joined { seat, receiver, sender, .. } = joined;
    let (at, token) = ((Location::worker(seat.index), id), seat.token);
    let mut reading = pin!(read(&shared, at, receiver));
    let mut writing = pin!(write(&shared, at.0, sender, messages));
    let (reason, wrote) = tokio::select! {
        reason = &mut reading => (reason, false),
        wrote = &mut writing => (wrote.map_or_else(|error| error.to_string(), |()| GOES.to_owned()), true),
        reason = overdue(&shared, at) => (reason, false),
    };
    shared.lost(at, &reason);
    match shared.is_barred(token) {
        true => seat.close(),
        // Another worker may take the place from now on.
        false => drop(seat),
    }
    // If a connection is closed with unread bytes, it is reset, and the last message would be lost.
    match wrote {
        true => drop(timeout(FAREWELL, reading).await),
        false => drop(timeout(FAREWELL, writing).await),
    }
}

/// Waits until a worker has taken longer than `workers.answer_s` for an answer. Returns the reason
/// for excluding the worker.
async fn overdue(shared: &Shared, (at, id): (Location, u64)) -> String {
    loop {
        match shared.time_to_answer(at, id) {
            Some(left) => tokio::time::sleep(left).await,
            None => {
                let most = shared.settings.answer.as_secs();
                return format!(
                    "it is connected, but has not answered a task for {most} s (workers.answer_s)"
                );
            }
        }
    }
}

/// Sends messages to a worker until the last one. Sends a keep-alive message whenever no other
/// message is due.
async fn write(
    shared: &Arc<Shared>,
    at: Location,
    mut sender: Sender,
    mut messages: mpsc::UnboundedReceiver<Message>,
) -> Result<(), ConnectError> {
    let between = shared.settings.silence / eciton_connect::limits::SIGNS;
    loop {
        let message = match timeout(between, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => Message::Alive,
        };
        let last = matches!(message, Message::Bye { .. });
        let bytes = sender.send(&message).await?;
        shared.count(at, (0, bytes));
        if last {
            break;
        }
    }
    sender.close().await;
    Ok(())
}

/// Receives messages from a worker until the connection ends or the worker is excluded. Returns the
/// reason.
async fn read(shared: &Arc<Shared>, (at, id): (Location, u64), mut receiver: Receiver) -> String {
    loop {
        let (message, bytes) = match receiver.next().await {
            Ok(next) => next,
            Err(error) => return error.to_string(),
        };
        shared.count(at, (bytes, 0));
        let name = message.name();
        let taken = match message {
            Message::Answer { number, frame, passed } => shared.answered(at, id, (number, frame, passed)),
            Message::Door { address, tokens } => shared.door(at, id, (address, tokens)),
            Message::Missing { number, keys } => shared.missing(at, id, (number, &keys)),
            Message::Alive => Ok(()),
            Message::Drain => {
                let mut state = shared.lock();
                let through = state.link(at, id).is_none_or(|link| {
                    link.draining = true;
                    link.is_through()
                });
                drop(state);
                if through {
                    shared.lost((at, id), GOES);
                }
                Ok(())
            }
            Message::Bye { reason, .. } => return reason,
            _ => Err(format!("it sent the message `{name}`, which only the host may send")),
        };
        if let Err(reason) = taken {
            shared.exclude(at, Some(id), &reason);
            return reason;
        }
    }
}
