//! Bandwidth limit of an instance's network. Each direction has a token bucket, which all
//! connections of the instance share.
//!
//! A bucket is stored as a single time, `ready_at`, at which all bytes granted so far will have
//! been transferred. Further `n` bytes take `n / rate` from then on, in order of arrival, so that
//! connections share the bandwidth fairly. No connection is faster than the rate over a period
//! longer than a quantum (the bytes of 1 ms). Timers fire up to a millisecond or two late. A
//! connection that is busy without a pause gets this time back, and an idle connection does not.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep_until};

/// Transfer time of the pieces in which bytes are passed on.
const QUANTUM: Duration = Duration::from_millis(1);
/// Minimum size of a piece in bytes, which is the size of a network packet.
const SMALLEST_PIECE: usize = 1500;
/// A piece that is due within this time is passed on immediately, because timers are not more
/// precise.
const EARLY: Duration = Duration::from_micros(500);
/// Maximum time between two transfers of a busy connection, which waits only for the emulator's
/// timer.
const BUSY: Duration = Duration::from_micros(200);
/// Maximum timer delay that a busy connection gets back.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Maximum pause of the peer that the operating system may have caused. The connection gets this
/// pause back. TCP over loopback sends 64 KB at a time, and this link takes the bytes millisecond
/// by millisecond.
const PAUSE: Duration = Duration::from_millis(2);

/// One direction of an instance's network.
#[derive(Debug)]
struct Lane {
    bytes_per_second: f64,
    piece: usize,
    ready_at: Mutex<Instant>,
}

impl Lane {
    fn new(bits_per_second: u64) -> Self {
        let bytes_per_second = bits_per_second as f64 / 8.0;
        let piece = ((bytes_per_second * QUANTUM.as_secs_f64()) as usize).max(SMALLEST_PIECE);
        Lane { bytes_per_second, piece, ready_at: Mutex::new(Instant::now()) }
    }

    /// Reserves the transfer of `bytes` bytes, and returns the time at which the last one arrives.
    /// `credit` is the maximum time before `now` that the transfer may use.
    fn reserve(&self, bytes: usize, now: Instant, credit: Duration) -> Instant {
        let floor = now.checked_sub(credit).unwrap_or(now);
        let mut ready_at = self.ready_at.lock().unwrap_or_else(PoisonError::into_inner);
        *ready_at = (*ready_at).max(floor) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        *ready_at
    }
}

/// Both directions of an instance's network. Clones share the bandwidth.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    from_worker: Arc<Lane>,
    to_worker: Arc<Lane>,
}

impl Link {
    pub(crate) fn new(bits_per_second: u64) -> Self {
        Link {
            from_worker: Arc::new(Lane::new(bits_per_second)),
            to_worker: Arc::new(Lane::new(bits_per_second)),
        }
    }
}

/// State of one connection in one direction of the network.
#[derive(Debug)]
struct Turn {
    lane: Arc<Lane>,
    /// Number of bytes that may be passed on, and the time at which they are due.
    granted: Option<(usize, Instant)>,
    /// Time at which bytes were last passed on.
    last: Option<Instant>,
    /// True if the connection has waited for its peer since `last`.
    paused: bool,
    sleep: Pin<Box<Sleep>>,
}

impl Turn {
    fn new(lane: Arc<Lane>) -> Self {
        Turn {
            lane,
            granted: None,
            last: None,
            paused: false,
            sleep: Box::pin(sleep_until(tokio::time::Instant::now())),
        }
    }

    /// Waits until `due`. Returns immediately if `due` is close enough.
    fn poll_due(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        if due.saturating_duration_since(Instant::now()) <= EARLY {
            return Poll::Ready(());
        }
        if self.sleep.deadline().into_std() != due || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(due.into());
        }
        self.sleep.as_mut().poll(cx)
    }

    fn reserve(&mut self, bytes: usize) -> Instant {
        let now = Instant::now();
        let gap = self.last.map(|last| now.saturating_duration_since(last));
        let credit = match gap {
            Some(gap) if gap <= BUSY && !self.paused => CATCH_UP,
            Some(gap) if gap <= PAUSE => PAUSE,
            _ => Duration::ZERO,
        };
        self.paused = false;
        self.lane.reserve(bytes, now, credit)
    }
}

/// A connection with the bandwidth limit of its instance. It is closed if the peer stops reading.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: TcpStream,
    read: Option<Turn>,
    write: Option<Turn>,
    /// Bytes that were read from the peer but are not due yet. `given` of them have been passed on.
    held: Vec<u8>,
    given: usize,
    stall_limit: Duration,
    stall: Pin<Box<Sleep>>,
    stalled: bool,
}

impl Socket {
    /// Wraps a connection. `link` limits its bandwidth, and `stall_limit` is the maximum time for
    /// which the peer may leave bytes unread.
    pub(crate) fn new(inner: TcpStream, link: Option<&Link>, stall_limit: Duration) -> Self {
        Socket {
            inner,
            read: link.map(|link| Turn::new(link.from_worker.clone())),
            write: link.map(|link| Turn::new(link.to_worker.clone())),
            held: Vec::new(),
            given: 0,
            stall_limit,
            stall: Box::pin(sleep_until(tokio::time::Instant::now())),
            stalled: false,
        }
    }

    /// Returns the result of a write. Returns an error if the write has waited for the peer for
    /// longer than the limit.
    fn watch_stall<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if polled.is_ready() {
            self.stalled = false;
            return polled;
        }
        if !self.stalled {
            self.stalled = true;
            self.stall.as_mut().reset(tokio::time::Instant::now() + self.stall_limit);
        }
        ready!(self.stall.as_mut().poll(cx));
        Poll::Ready(Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let Some(turn) = &mut this.read else { return Pin::new(&mut this.inner).poll_read(cx, buf) };
        // The number of available bytes is known only after reading. The bytes are held until the
        // link would have transferred them.
        if turn.granted.is_none() {
            this.held.resize(turn.lane.piece, 0);
            let mut piece = ReadBuf::new(&mut this.held);
            let polled = Pin::new(&mut this.inner).poll_read(cx, &mut piece);
            let bytes = piece.filled().len();
            this.held.truncate(bytes);
            this.given = 0;
            if polled.is_pending() {
                turn.paused = true;
            }
            ready!(polled)?;
            if bytes == 0 {
                return Poll::Ready(Ok(()));
            }
            turn.granted = Some((bytes, turn.reserve(bytes)));
        }
        if let Some((_, due)) = turn.granted {
            ready!(turn.poll_due(cx, due));
        }
        let rest = this.held.get(this.given..).unwrap_or_default();
        let bytes = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..bytes).unwrap_or_default());
        this.given += bytes;
        if this.given == this.held.len() {
            turn.granted = None;
        }
        turn.last = Some(Instant::now());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let Some(turn) = &mut this.write else {
            let polled = Pin::new(&mut this.inner).poll_write(cx, bytes);
            return this.watch_stall(cx, polled);
        };
        let (granted, due) = match turn.granted {
            Some(grant) => grant,
            None => {
                let most = bytes.len().min(turn.lane.piece);
                let grant = (most, turn.reserve(most));
                turn.granted = Some(grant);
                grant
            }
        };
        ready!(turn.poll_due(cx, due));
        let most = bytes.len().min(granted);
        let polled = Pin::new(&mut this.inner).poll_write(cx, bytes.get(..most).unwrap_or(bytes));
        match &polled {
            Poll::Ready(Ok(written)) => {
                turn.granted = (*written < granted).then(|| (granted - written, due));
                turn.last = Some(Instant::now());
            }
            _ => turn.paused = true,
        }
        this.watch_stall(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        if self.write.is_some() {
            let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
            return self.poll_write(cx, first);
        }
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write_vectored(cx, parts);
        this.watch_stall(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const RATE: u64 = 200_000_000;
    /// Number of bytes whose transfer takes 100 ms at [`RATE`].
    const BYTES: usize = 2_500_000;

    async fn pair(link: &Link) -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (Socket::new(server, Some(link), Duration::from_secs(10)), client)
    }

    type Sink = Pin<Box<dyn AsyncWrite + Send>>;
    type Source = Pin<Box<dyn AsyncRead + Send>>;

    /// Returns the time in milliseconds to transfer `bytes` bytes on each of `connections`
    /// connections of one link.
    async fn transfer_ms(connections: usize, to_worker: bool, bytes: usize) -> f64 {
        let link = Link::new(RATE);
        let mut pairs = Vec::new();
        for _ in 0..connections {
            pairs.push(pair(&link).await);
        }
        let start = Instant::now();
        let mut tasks = Vec::new();
        for (server, client) in pairs {
            let (mut to, mut from): (Sink, Source) = if to_worker {
                (Box::pin(server), Box::pin(client))
            } else {
                (Box::pin(client), Box::pin(server))
            };
            tasks.push(tokio::spawn(async move {
                let write = async {
                    to.write_all(&vec![1; bytes]).await.unwrap();
                    to.flush().await.unwrap();
                };
                let read = async {
                    let mut buffer = vec![0; 64 * 1024];
                    let mut left = bytes;
                    while left > 0 {
                        let read = from.read(&mut buffer).await.unwrap();
                        assert_ne!(read, 0);
                        left -= read;
                    }
                };
                tokio::join!(write, read);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        start.elapsed().as_secs_f64() * 1000.0
    }

    /// Checks that a transfer is never more than 3 % too fast, and is not too slow in the best of
    /// ten tries. The limit for the latter is 50 %, because other load on the machine slows a
    /// transfer down. Bytes that were counted twice would exceed it.
    async fn takes_100_ms(connections: usize, to_worker: bool) {
        let mut best = f64::MAX;
        let mut seen = Vec::new();
        for _ in 0..10 {
            let found = transfer_ms(connections, to_worker, BYTES / connections).await;
            seen.push(found);
            assert!(found >= 97.0, "too fast: {seen:?} ms");
            best = best.min(found);
            if best <= 150.0 {
                return;
            }
        }
        panic!("too slow: {seen:?} ms");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_download_has_the_rate() {
        takes_100_ms(1, true).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_upload_has_the_rate() {
        takes_100_ms(1, false).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_of_one_instance_share_its_rate() {
        takes_100_ms(4, true).await;
        takes_100_ms(4, false).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_directions_do_not_share() {
        let link = Link::new(RATE);
        let (mut server, mut client) = pair(&link).await;
        let start = Instant::now();
        let (mut read, mut write) = tokio::io::split(&mut server);
        let (mut client_read, mut client_write) = client.split();
        let sent = vec![1; BYTES];
        let (mut up, mut down) = (vec![0; BYTES], vec![0; BYTES]);
        let (a, b, c, d) = tokio::join!(
            write.write_all(&sent),
            client_write.write_all(&sent),
            read.read_exact(&mut up),
            client_read.read_exact(&mut down)
        );
        a.and(b).unwrap();
        c.and(d).unwrap();
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(97) && took < Duration::from_millis(180), "{took:?}");
    }

    #[tokio::test]
    async fn bytes_come_smoothly() {
        let link = Link::new(RATE);
        let (mut server, mut client) = pair(&link).await;
        let writer = tokio::spawn(async move { server.write_all(&vec![1; BYTES]).await });
        // A window of 10 ms may contain the bytes of 10 ms, one piece, and the bytes that a late
        // timer allows.
        let (start, mut arrivals, mut buffer) = (Instant::now(), Vec::new(), vec![0; 64 * 1024]);
        let mut left = BYTES;
        while left > 0 {
            let read = client.read(&mut buffer).await.unwrap();
            left -= read;
            arrivals.push((start.elapsed(), read));
        }
        writer.await.unwrap().unwrap();
        // On a busy machine, several pieces are read at once.
        assert!(arrivals.len() > 20, "{} pieces", arrivals.len());
        let total = |until: Duration| {
            arrivals.iter().filter(|(at, _)| *at <= until).map(|(_, bytes)| bytes).sum::<usize>()
        };
        for ms in (5..100).step_by(5) {
            let arrived = total(Duration::from_millis(ms)) as f64;
            let carried = RATE as f64 / 8.0 * (ms as f64 + 2.0) / 1000.0;
            assert!(arrived <= carried, "after {ms} ms {arrived} bytes had come, the wire carries {carried}");
        }
    }

    #[test]
    fn a_lane_promises_in_order_and_forgets_idle_time() {
        let lane = Lane::new(8_000_000); // 1 byte a microsecond
        let start = Instant::now() + Duration::from_secs(1);
        let at = |us: u64| start + Duration::from_micros(us);
        let none = Duration::ZERO;
        assert_eq!(lane.reserve(1000, at(0), none), at(1000));
        assert_eq!(lane.reserve(500, at(0), none), at(1500), "behind the first");
        assert_eq!(lane.reserve(1000, at(2100), CATCH_UP), at(2500), "a late timer is made up for");
        assert_eq!(lane.reserve(1000, at(9000), none), at(10_000), "idle time is lost");
        assert_eq!(
            lane.reserve(1000, at(200_000), CATCH_UP),
            at(181_000),
            "no more than {CATCH_UP:?} is made up for"
        );
        assert_eq!(lane.reserve(1000, at(210_000), PAUSE), at(209_000), "no more than {PAUSE:?}");
        assert_eq!(lane.piece, SMALLEST_PIECE);
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut socket = Socket::new(server, None, Duration::from_millis(50));
        let error = socket.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
