//! A stream that records when bytes last arrived.
//!
//! TLS delivers records of up to 16 KiB. On a slow network, a record may take seconds to arrive,
//! and the reader of messages sees no progress in the meantime. Silence is therefore measured below
//! TLS, where every byte counts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Time at which the latest bytes of a connection arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    begun: Instant,
    /// True once the first byte has arrived.
    spoke: Arc<AtomicBool>,
    /// Time from `begun` to the latest arrival, in microseconds.
    latest_us: Arc<AtomicU64>,
}

impl Arrivals {
    fn new() -> Self {
        Self { begun: Instant::now(), spoke: Arc::default(), latest_us: Arc::default() }
    }

    fn record(&self) {
        let elapsed_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.latest_us.store(elapsed_us, Ordering::Relaxed);
        self.spoke.store(true, Ordering::Relaxed);
    }

    /// Returns a flag that is true once the first byte has arrived.
    pub(crate) fn spoke(&self) -> Arc<AtomicBool> {
        self.spoke.clone()
    }

    /// Returns the time at which the latest bytes arrived, or the start of the connection if none
    /// have.
    pub(crate) fn latest(&self) -> Instant {
        self.begun + Duration::from_micros(self.latest_us.load(Ordering::Relaxed))
    }
}

/// Returns the time at which a connection counts as silent. The latest bytes arrived at `latest`, and
/// the reader has waited since `begun`. Bytes within a message count like those between messages.
pub(crate) fn silent_at<T: Ord + std::ops::Add<D, Output = T>, D>(latest: T, begun: T, silence: D) -> T {
    latest.max(begun) + silence
}

/// A stream that records when bytes arrive.
pub(crate) struct Watched<S> {
    stream: S,
    arrivals: Arrivals,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Arrivals) {
        let arrivals = Arrivals::new();
        (Self { stream, arrivals: arrivals.clone() }, arrivals)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.arrivals.record();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
