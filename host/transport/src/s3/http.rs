//! The HTTP client for all AWS services, which uses hyper, and rustls with ring.

use std::time::Duration;

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_http_client::pool;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};

use crate::error::{Error, Result};

/// Idle time after which the operating system probes a connection. NAT gateways and load balancers
/// drop connections after 350 s of silence, and a function call is silent until its answer.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Returns true if the URL `endpoint` uses HTTP without TLS.
#[must_use]
pub fn is_plain(endpoint: &str) -> bool {
    endpoint.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
}

/// Creates an HTTP client with its own connection pool, which clones of the client share. The
/// operating system sends keep-alive probes on each connection.
///
/// `plain` must be true only for an endpoint without TLS. The client then trusts no certificates,
/// so it cannot use TLS. It also does not read the system's root certificates, which saves several
/// milliseconds of a cold start. The client ignores proxies in the environment.
///
/// # Errors
/// Returns an error if the HTTP library cannot create the pool.
pub fn client(plain: bool) -> Result<SharedHttpClient> {
    let refused = |reason: String| Error::Settings { name: "http client", reason };
    let mut builder =
        pool::Builder::default().tcp_keepalive(KEEP_ALIVE).tls_provider(Provider::Rustls(CryptoMode::Ring));
    // If the empty context is refused, the default one works as well, but takes longer to create.
    if plain && let Ok(context) = TlsContext::builder().with_trust_store(TrustStore::empty()).build() {
        builder = builder.tls_context(context);
    }
    let pool = builder.build_https().map_err(|error| refused(error.to_string()))?;
    let client = pool::Client::new(&pool).map_err(|error| refused(error.to_string()))?;
    Ok(SharedHttpClient::new(client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_plain() {
        assert!(is_plain("http://127.0.0.1:9000") && is_plain("HTTP://host"));
        assert!(!is_plain("https://host") && !is_plain("http:/") && !is_plain(""));
    }

    /// Returns the kind of timer that is active for a TCP connection between two ports of this
    /// machine. 2 is the keep-alive timer, and 0 is no timer.
    #[cfg(target_os = "linux")]
    fn timer(local: u16, remote: u16) -> Option<u8> {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
        let find = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let ports = (port(fields.get(1)?)?, port(fields.get(2)?)?);
            let timer = fields.get(5)?.split(':').next()?;
            (ports == (local, remote)).then(|| u8::from_str_radix(timer, 16).ok())?
        };
        table.lines().find_map(find)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_that_waits_for_an_answer_is_probed() {
        use crate::{Credentials, Key, S3Settings, S3Store, Store as _};
        use std::io::Read as _;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 1 << 12]);
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let read = stream.read(&mut buffer).unwrap();
                assert!(read > 0, "the client closed the connection before its request ended");
                request.extend_from_slice(&buffer[..read]);
            }
            // The request is acknowledged at once, so no other timer is active for long.
            let begun = std::time::Instant::now();
            loop {
                let found = timer(peer.port(), address.port());
                if found == Some(2) || begun.elapsed() > Duration::from_secs(5) {
                    return found;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut settings = S3Settings::new("bucket", "us-east-1");
        settings.endpoint = Some(format!("http://{address}"));
        settings.credentials = Credentials::keys("name", "secret");
        settings.max_attempts = 1;
        let store = S3Store::new(settings).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The server closes the connection without an answer.
        runtime.block_on(store.size(&Key::new("object").unwrap())).unwrap_err();
        assert_eq!(server.join().unwrap(), Some(2));
        assert!(KEEP_ALIVE <= Duration::from_secs(60));
    }
}
