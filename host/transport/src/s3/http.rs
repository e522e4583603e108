//! The HTTP client under the SDK: hyper, and rustls with ring.

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};

/// Connections to one host that are kept while nothing is asked.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// Whether an endpoint's address is without TLS.
#[must_use]
pub fn is_plain(endpoint: &str) -> bool {
    endpoint.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
}

/// A client with its own pool of connections; clones share it. Also for the other services of AWS.
///
/// `plain`: it is for an endpoint without TLS. Such a client trusts nobody, so it can speak TLS to
/// nobody, and it need not read and parse the system's root certificates when it is made (several
/// milliseconds of a cold start). Proxies in the environment are not looked at.
#[must_use]
pub fn client(plain: bool) -> SharedHttpClient {
    let builder = aws_smithy_http_client::Builder::new()
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .tls_provider(Provider::Rustls(CryptoMode::Ring));
    if !plain {
        return builder.build_https();
    }
    match TlsContext::builder().with_trust_store(TrustStore::empty()).build() {
        Ok(context) => builder.tls_context(context).build_https(),
        // The default context is no less right, only slower to make.
        Err(_) => builder.build_https(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_plain() {
        assert!(is_plain("http://127.0.0.1:9000") && is_plain("HTTP://host"));
        assert!(!is_plain("https://host") && !is_plain("http:/") && !is_plain(""));
    }
}
