//! Download of data sets over HTTP, from the addresses in the catalogue or from a mirror.
//!
//! A request is attempted up to [`Limits::attempts`] times if the network or the server fails. Such
//! failures are broken or stalled connections and the status codes 408, 429 and 5xx. A complete
//! file with the wrong length or checksum is not requested again. Reading stops one byte after the
//! length in the catalogue.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::cache::{Cache, Failure, Outcome};
use crate::catalogue::{File, Set};
use crate::error::{Error, Result};

/// Server that files are downloaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The publisher's server. Each file has its own address in the catalogue.
    Published,
    /// A mirror with the given base URL. It serves the folder of a cache, for instance
    /// `URL/planetoid/ind.cora.x`.
    Mirror(String),
}

/// Time limits, retry policy and proxy setting of downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time limit for name resolution, and separately for the connection.
    pub connect: Duration,
    /// Maximum time without received bytes during a transfer.
    pub silence: Duration,
    /// Time limit for one attempt to transfer a file, including redirections.
    pub file: Duration,
    /// Maximum number of attempts per file.
    pub attempts: u32,
    /// Pause before the second attempt. It doubles before each further attempt.
    pub pause: Duration,
    /// Maximum number of HTTP redirections per request.
    pub redirects: u32,
    /// If true, downloads use the proxy in the environment variables `HTTPS_PROXY` and
    /// `HTTP_PROXY`.
    pub proxy: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            silence: Duration::from_secs(30),
            file: Duration::from_secs(600),
            attempts: 3,
            pause: Duration::from_millis(500),
            redirects: 5,
            proxy: true,
        }
    }
}

impl Origin {
    /// Returns the address from which this origin serves a file.
    ///
    /// # Errors
    /// Returns [`Error::Address`] if the mirror's URL does not start with `http://` or `https://`,
    /// has no host, or contains spaces.
    pub fn address(&self, set: &Set, file: &File) -> Result<String> {
        match self {
            Self::Published => Ok(format!("{}{}", set.base, file.path)),
            Self::Mirror(url) => {
                let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
                if rest.is_none_or(|rest| rest.is_empty() || rest.contains(char::is_whitespace)) {
                    return Err(Error::Address { url: url.clone() });
                }
                Ok(format!("{}/{}/{}", url.trim_end_matches('/'), set.folder, file.name))
            }
        }
    }
}

/// Downloads the files of `set` that are absent from `cache`. Calls `told` for each file as soon as
/// it is available.
///
/// # Errors
/// Returns [`Error::Address`] if the mirror's URL is invalid, and [`Error::NoCertificates`] if the
/// system has no root certificates. Returns [`Error::Unreachable`] or [`Error::Status`] if all
/// attempts fail. Returns [`Error::Length`] or [`Error::Checksum`] if a file differs from the
/// catalogue, and [`Error::Io`] if the cache cannot be written. Files that were downloaded before
/// the error remain in the cache.
pub fn fetch(
    set: &'static Set,
    cache: &Cache,
    origin: &Origin,
    limits: &Limits,
    told: &mut dyn FnMut(&File, Outcome),
) -> Result<()> {
    let mut agent = None;
    for file in set.files {
        if cache.holds(set, file)? {
            told(file, Outcome::Present);
            continue;
        }
        let url = origin.address(set, file)?;
        let agent = match &agent {
            Some(agent) => agent,
            None => agent.insert(client(limits, url.starts_with("https:"))?),
        };
        let mut attempt = 1;
        loop {
            let error = match once(agent, set, file, &url, attempt, cache) {
                Ok(()) => break,
                Err(error) => error,
            };
            if attempt >= limits.attempts || !error.is_retryable() {
                return Err(error);
            }
            std::thread::sleep(limits.pause * 2u32.saturating_pow(attempt - 1).min(64));
            attempt += 1;
        }
        told(file, Outcome::Brought);
    }
    Ok(())
}

fn once(
    agent: &Agent,
    set: &'static Set,
    file: &File,
    url: &str,
    attempts: u32,
    cache: &Cache,
) -> Result<()> {
    let unreachable =
        |problem: String| Error::Unreachable { url: url.to_owned(), set: set.name, problem, attempts };
    let mut response = match agent.get(url).call() {
        Ok(response) => response,
        Err(ureq::Error::StatusCode(status)) => {
            return Err(Error::Status { url: url.to_owned(), set: set.name, status, attempts });
        }
        Err(ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
            return Err(Error::Address { url: url.to_owned() });
        }
        Err(error) => return Err(unreachable(error.to_string())),
    };
    let body = response.body_mut();
    if let Some(found) = body.content_length().filter(|&length| length != file.bytes) {
        let origin = url.to_owned();
        return Err(Error::Length { origin, file: file.name, expected: file.bytes, found });
    }
    match cache.take(set, file, url, &mut body.as_reader()) {
        Ok(()) => Ok(()),
        Err(Failure::Read(error)) => Err(unreachable(format!("the transfer broke off: {error}"))),
        Err(Failure::Other(error)) => Err(error),
    }
}

fn client(limits: &Limits, tls: bool) -> Result<Agent> {
    // An `http` address may be redirected to an `https` address, which needs certificates. In that
    // case the connection fails with an error that names them.
    let roots = if tls { roots()? } else { Vec::new() };
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider)
        .build();
    let mut config = Agent::config_builder()
        .tls_config(tls)
        .user_agent(concat!("eciton/", env!("CARGO_PKG_VERSION")))
        .max_redirects(limits.redirects)
        .timeout_resolve(Some(limits.connect))
        .timeout_connect(Some(limits.connect))
        .timeout_recv_response(Some(limits.silence))
        .timeout_per_read(Some(limits.silence))
        .timeout_per_write(Some(limits.silence))
        .timeout_global(Some(limits.file));
    if !limits.proxy {
        config = config.proxy(None);
    }
    Ok(config.build().into())
}

/// Returns the trusted root certificates of the operating system.
fn roots() -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::NoCertificates { problem: problems.join("; ") });
    }
    Ok(found.certs.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect())
}
