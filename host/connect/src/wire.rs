//! The two halves of a connection, as messages.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::{Error, Result};
use crate::limits::{MESSAGE, SLOWEST};
use crate::message::Message;

/// Memory that is taken for bytes that have only been claimed.
const AHEAD: usize = 1 << 20;

/// The half that messages come from.
pub struct Receiver {
    from: Box<dyn AsyncRead + Send + Unpin>,
    most: u64,
    silence: Duration,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver(messages of up to {} bytes)", self.most)
    }
}

impl Receiver {
    /// Messages of up to `most` bytes, never `silence` apart.
    pub(crate) fn new(from: impl AsyncRead + Send + Unpin + 'static, most: u64, silence: Duration) -> Self {
        Self { from: Box::new(from), most, silence }
    }

    /// Sets what [`Receiver::new`] set.
    pub(crate) fn allow(&mut self, most: u64, silence: Duration) {
        (self.most, self.silence) = (most, silence);
    }

    /// The next message, and its bytes on the wire.
    ///
    /// # Errors
    /// [`Error::Closed`] at the connection's end, [`Error::Silent`] where none begins within the silence;
    /// an error of a message that is too large, too slow or none.
    pub async fn next(&mut self) -> Result<(Message, u64)> {
        let mut length = [0; 4];
        let begun = timeout(self.silence, self.from.read_exact(&mut length)).await;
        let begun = begun.map_err(|_| Error::Silent(self.silence))?;
        begun.map_err(closed("reading a message's length"))?;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > self.most {
            return Err(Error::TooLarge { what: "a message", found: length.into(), allowed: self.most });
        }
        let allowed = MESSAGE + Duration::from_secs(u64::from(length) / SLOWEST);
        let bytes = self.body(length as usize, Instant::now() + allowed);
        let bytes = bytes.await.ok_or(Error::Slow { what: "a message", allowed })??;
        Ok((Message::decode(bytes)?, 4 + u64::from(length)))
    }

    /// So many bytes; `None`: not in time.
    async fn body(&mut self, length: usize, end: Instant) -> Option<Result<Bytes>> {
        let mut bytes = BytesMut::with_capacity(length.min(AHEAD));
        while bytes.len() < length {
            let more = (length - bytes.len()).min(AHEAD);
            bytes.reserve(more);
            let mut part = (&mut self.from).take(more as u64);
            match timeout_at(end, part.read_buf(&mut bytes)).await {
                Err(_) => return None,
                Ok(Ok(0)) => return Some(Err(Error::message("a message", "it was cut off"))),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Some(Err(closed("reading a message")(error))),
            }
        }
        Some(Ok(bytes.freeze()))
    }
}

/// The half that messages go to.
pub struct Sender {
    to: Box<dyn AsyncWrite + Send + Unpin>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    pub(crate) fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { to: Box::new(to) }
    }

    /// Sends a message; says how many bytes it has on the wire.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Slow`] where the other end does not take it; what cannot be written down.
    pub async fn send(&mut self, message: &Message) -> Result<u64> {
        let (start, body) = message.encode()?;
        let length = (start.len() + body.len()) as u64;
        let allowed = MESSAGE + Duration::from_secs(length / SLOWEST);
        let write = async {
            self.to.write_all(&start).await?;
            self.to.write_all(&body).await?;
            self.to.flush().await
        };
        let written = timeout(allowed, write).await;
        let written = written.map_err(|_| Error::Slow { what: "sending a message", allowed })?;
        written.map_err(closed("sending a message"))?;
        Ok(length)
    }

    /// Closes the connection in due form.
    pub async fn close(&mut self) {
        // The other end may have gone already.
        drop(timeout(Duration::from_secs(1), self.to.shutdown()).await);
    }
}

fn closed(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    move |error| match error.kind() {
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => Error::Closed,
        _ => Error::system(doing)(error),
    }
}
