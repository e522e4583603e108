//! The two halves of a connection, which send and receive messages.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsStream;

use crate::error::{Error, Result, is_end};
use crate::message::Message;
use crate::secured::{Plain, Secured};
use crate::watched::{Arrivals, silent_at};

/// Maximum size of a memory allocation for bytes that have not arrived yet, in bytes.
const AHEAD: usize = 1 << 20;
/// Upper limit on the maximum silence. With it, sums of times cannot overflow.
const LONGEST_SILENCE: Duration = Duration::from_secs(366 * 24 * 3600);

/// Creates the halves of a connection from its TLS stream. Messages of the other end may have up to
/// `most` bytes and `silence` between their bytes.
pub(crate) fn halves<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: impl Into<TlsStream<S>>,
    arrivals: Arrivals,
    limits: (u64, Duration),
) -> (Receiver, Sender) {
    let (stream, plain) = Secured::new(stream);
    let (from, to) = tokio::io::split(stream);
    let receiver = Receiver { plain: plain.clone(), ..Receiver::new(from, arrivals, limits) };
    (receiver, Sender { plain, ..Sender::new(to) })
}

/// Receiving half of a connection. It reads messages from the other end.
///
/// It fails if the other end is silent, which means that no byte arrives for the maximum silence.
/// Silence counts between messages and within them. A message may take any time as long as its
/// bytes keep arriving.
pub struct Receiver {
    from: Box<dyn AsyncRead + Send + Unpin>,
    arrivals: Arrivals,
    plain: Plain,
    most: u64,
    silence: Duration,
    /// Bytes of the next message that have arrived so far.
    buffer: BytesMut,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver(messages of up to {} bytes)", self.most)
    }
}

impl Receiver {
    /// Creates the receiving half from a stream and its arrival times. `most` is the maximum size
    /// of a message in bytes, and `silence` is the maximum time without a byte.
    pub(crate) fn new(
        from: impl AsyncRead + Send + Unpin + 'static,
        arrivals: Arrivals,
        (most, silence): (u64, Duration),
    ) -> Self {
        let (buffer, plain) = (BytesMut::new(), Plain::default());
        Self { from: Box::new(from), arrivals, plain, most, silence: silence.min(LONGEST_SILENCE), buffer }
    }

    /// Reads what follows without TLS.
    pub(crate) fn leave_tls(&self) {
        self.plain.read();
    }

    /// Replaces the maximum message size and the maximum silence.
    pub(crate) fn allow(&mut self, most: u64, silence: Duration) {
        (self.most, self.silence) = (most, silence.min(LONGEST_SILENCE));
    }

    /// Waits for the next message. Returns the message and its size on the wire in bytes. If the
    /// returned future is dropped, no byte is lost, and the next call continues.
    ///
    /// Returns [`Error::Closed`] if the connection ends between messages, and [`Error::Silent`] if
    /// no byte arrives for the maximum silence. Returns [`Error::TooLarge`] or [`Error::Message`]
    /// if the bytes are not a valid message.
    pub async fn next(&mut self) -> Result<(Message, u64)> {
        let begun = Instant::now();
        self.fill(4, begun).await?;
        let length = u32::from_le_bytes(self.buffer.first_chunk().copied().unwrap_or_default());
        if u64::from(length) > self.most {
            return Err(Error::TooLarge { what: "a message", found: length.into(), allowed: self.most });
        }
        self.fill(4 + length as usize, begun).await?;
        let bytes = std::mem::take(&mut self.buffer).freeze();
        Ok((Message::decode(bytes.slice(4..))?, 4 + u64::from(length)))
    }

    /// Reads until the buffer has exactly `length` bytes. The caller has waited for them since
    /// `begun`.
    async fn fill(&mut self, length: usize, begun: Instant) -> Result<()> {
        while self.buffer.len() < length {
            let more = (length - self.buffer.len()).min(AHEAD);
            self.buffer.reserve(more);
            let mut part = (&mut self.from).take(more as u64);
            let end = silent_at(self.arrivals.latest(), begun, self.silence);
            let ended = |buffer: &BytesMut| if buffer.is_empty() { Error::Closed } else { cut_off() };
            match timeout_at(end, part.read_buf(&mut self.buffer)).await {
                // Bytes of an unfinished TLS record have arrived meanwhile.
                Err(_) if self.arrivals.latest() + self.silence > end => {}
                Err(_) => return Err(Error::Silent(self.silence)),
                Ok(Ok(0)) => return Err(ended(&self.buffer)),
                Ok(Ok(_)) => {}
                Ok(Err(error)) if is_end(&error) => return Err(ended(&self.buffer)),
                Ok(Err(error)) => return Err(Error::system("read a message")(error)),
            }
        }
        Ok(())
    }
}

fn cut_off() -> Error {
    Error::message("a message", "the connection ended in the middle of the message")
}

/// Sending half of a connection. It writes messages to the other end.
///
/// Sending has no time limit, because the other end may compute for a long time without reading.
/// The caller also receives messages. It closes the connection if the other end is silent or an
/// answer is overdue.
pub struct Sender {
    to: Box<dyn AsyncWrite + Send + Unpin>,
    plain: Plain,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    pub(crate) fn new(to: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { to: Box::new(to), plain: Plain::default() }
    }

    /// Writes what follows without TLS.
    pub(crate) fn leave_tls(&self) {
        self.plain.write();
    }

    /// Sends a message. Returns its size on the wire in bytes.
    ///
    /// # Errors
    /// Returns [`Error::Closed`] if the connection has ended, and [`Error::TooLarge`] if the
    /// message exceeds a limit.
    pub async fn send(&mut self, message: &Message) -> Result<u64> {
        let (start, body) = message.encode()?;
        let write = async {
            self.to.write_all(&start).await?;
            self.to.write_all(&body).await?;
            self.to.flush().await
        };
        match write.await {
            Ok(()) => Ok((start.len() + body.len()) as u64),
            Err(error) if is_end(&error) => Err(Error::Closed),
            Err(error) => Err(Error::system("send a message")(error)),
        }
    }

    /// Closes the sending half, so that the other end sees a regular end of the stream.
    pub async fn close(&mut self) {
        // The other end may have closed the connection already.
        drop(timeout(Duration::from_secs(1), self.to.shutdown()).await);
    }
}
