//! A TLS stream that both ends may continue without TLS, after they have proved who they are.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

/// Flags of a connection, which say whether a direction has left TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plain {
    reads: Arc<AtomicBool>,
    writes: Arc<AtomicBool>,
}

impl Plain {
    /// Reads what follows without TLS. The other end must have nothing more to send in TLS.
    pub(crate) fn read(&self) {
        self.reads.store(true, Ordering::Release);
    }

    /// Writes what follows without TLS. The other end must already read without TLS, and all that
    /// was written must have been flushed.
    pub(crate) fn write(&self) {
        self.writes.store(true, Ordering::Release);
    }
}

/// A TLS stream, with the flags of its directions.
pub(crate) struct Secured<S> {
    stream: TlsStream<S>,
    plain: Plain,
}

impl<S> Secured<S> {
    pub(crate) fn new(stream: impl Into<TlsStream<S>>) -> (Self, Plain) {
        let plain = Plain::default();
        (Self { stream: stream.into(), plain: plain.clone() }, plain)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.plain.reads.load(Ordering::Acquire) {
            true => Pin::new(self.stream.get_mut().0).poll_read(context, buffer),
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.plain.writes.load(Ordering::Acquire) {
            true => Pin::new(self.stream.get_mut().0).poll_write(context, bytes),
            false => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.plain.writes.load(Ordering::Acquire) {
            true => Pin::new(self.stream.get_mut().0).poll_flush(context),
            false => Pin::new(&mut self.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.plain.writes.load(Ordering::Acquire) {
            true => Pin::new(self.stream.get_mut().0).poll_shutdown(context),
            false => Pin::new(&mut self.stream).poll_shutdown(context),
        }
    }
}

/// Returns true for an address within one machine or a private network (RFC 1918, RFC 4193), where
/// a connection may leave TLS.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_those_of_the_standards() {
        for (text, expected) in [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("172.31.0.1", true),
            ("::ffff:192.168.0.1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("172.32.0.1", false),
            ("8.8.8.8", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(text.parse().map(is_private), Ok(expected), "{text}");
        }
    }
}
