//! HTTP server on a loopback address. It limits connections, header sizes, and the time for
//! headers, bodies and unread responses.

use crate::link::{Link, Socket};
use crate::settings::Settings;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep, sleep_until};

/// Maximum size of the request line and the headers of a request, in bytes.
pub(crate) const HEADER_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a request.
pub(crate) const HEADERS: usize = 100;
/// Maximum number of bytes that are read and discarded from a body that is too large. Its sender
/// can thereby read the response.
const DRAINED_BYTES: usize = 64 << 20;
/// Maximum time for a whole body, as a multiple of the maximum time between two pieces.
const BODY_PIECES: u32 = 10;

/// Limits of an HTTP listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
}

impl Limits {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Limits {
            connections: settings.connections,
            header_timeout: settings.header_timeout,
            body_timeout: settings.body_timeout,
        }
    }
}

/// Error of a handler that wants the connection to be closed without a response.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without a response")]
pub(crate) struct Lost;

/// Task of a server. When this value is dropped, the listener and all its connections are closed.
#[derive(Debug)]
pub(crate) struct Server(AbortHandle);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a listener on the loopback address, with a port that the system chooses.
pub(crate) async fn bind() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Answers the requests to `listener` with `handle`. Closes connections of other users of this
/// machine.
pub(crate) fn serve<H, F, B>(listener: TcpListener, limits: Limits, link: Option<Link>, handle: H) -> Server
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Lost>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let permits = Arc::new(Semaphore::new(limits.connections));
    let accept = async move {
        let mut connections = JoinSet::new();
        loop {
            // A connection beyond the limit waits in the listener's backlog.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                // If file descriptors have run out, others may be closed meanwhile.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            if stream.local_addr().is_ok_and(|local| crate::owner::is_foreign(peer, local)) {
                continue;
            }
            let _ = stream.set_nodelay(true);
            let socket = Socket::new(stream, link.as_ref(), limits.body_timeout);
            let handle = handle.clone();
            connections.spawn(async move {
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new())
                    .header_read_timeout(limits.header_timeout)
                    .max_headers(HEADERS)
                    .max_buf_size(HEADER_BYTES)
                    // A client that has sent its whole request may close its sending side and still
                    // gets an answer.
                    .half_close(true);
                // An error ends the connection. hyper has already answered an invalid request.
                let _ = http.serve_connection(TokioIo::new(socket), service_fn(handle)).await;
                drop(permit);
            });
        }
    };
    Server(tokio::spawn(accept).abort_handle())
}

/// Reason why a request body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body exceeds its maximum size.
    TooLarge,
    /// The sender stopped sending or took too long.
    Slow,
    /// The connection broke off, or the encoding of the body is not valid.
    Broken,
}

/// Shared record of the reason why a [`Paced`] body failed. It is for callers that pass the body to
/// a library that hides this reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyFate(Arc<AtomicU8>);

const SLOW: u8 = 1;
const BROKEN: u8 = 2;

impl BodyFate {
    pub(crate) fn failure(&self) -> Option<BodyError> {
        match self.0.load(Ordering::Relaxed) {
            SLOW => Some(BodyError::Slow),
            BROKEN => Some(BodyError::Broken),
            _ => None,
        }
    }
}

/// Request body with a time limit for each piece and for the whole body.
#[derive(Debug)]
pub(crate) struct Paced {
    inner: Incoming,
    fate: BodyFate,
    limit: Duration,
    end: Instant,
    piece: Pin<Box<Sleep>>,
}

impl Paced {
    pub(crate) fn new(inner: Incoming, limit: Duration) -> Self {
        let now = Instant::now();
        Paced {
            inner,
            fate: BodyFate::default(),
            limit,
            end: now + limit * BODY_PIECES,
            piece: Box::pin(sleep_until(now + limit)),
        }
    }

    pub(crate) fn fate(&self) -> BodyFate {
        self.fate.clone()
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            let now = Instant::now();
            if now <= this.end {
                this.piece.as_mut().reset(this.end.min(now + this.limit));
                return Poll::Ready(frame.map(|frame| {
                    frame.map_err(|error| {
                        this.fate.0.store(BROKEN, Ordering::Relaxed);
                        io::Error::new(io::ErrorKind::UnexpectedEof, error)
                    })
                }));
            }
        } else {
            ready!(this.piece.as_mut().poll(cx));
        }
        this.fate.0.store(SLOW, Ordering::Relaxed);
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the body arrives too slowly"))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Reads a whole body of at most `limit` bytes. `pace` is the maximum time between two pieces. If
/// the body is larger, up to 64 MiB more are read and discarded.
pub(crate) async fn collect(body: Incoming, limit: usize, pace: Duration) -> Result<Bytes, BodyError> {
    let mut body = Paced::new(body, pace);
    let mut bytes = BytesMut::new();
    let mut thrown = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut { BodyError::Slow } else { BodyError::Broken }
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if thrown == 0 && bytes.len() + data.len() <= limit {
            bytes.extend_from_slice(&data);
            continue;
        }
        thrown += data.len().max(1);
        bytes = BytesMut::new();
        if thrown > DRAINED_BYTES {
            break;
        }
    }
    if thrown > 0 { Err(BodyError::TooLarge) } else { Ok(bytes.freeze()) }
}

/// Creates a response with a JSON body.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    response
}

/// Sets a header of a response. Does nothing if `value` is not valid in a header.
pub(crate) fn set_header(response: &mut Response<Full<Bytes>>, name: &'static str, value: &str) {
    if let Ok(value) = hyper::header::HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
