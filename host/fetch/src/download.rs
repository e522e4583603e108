//! Data sets over HTTP, from where they are published or from a mirror.
//!
//! A file is asked for up to [`Limits::attempts`] times while the trouble is the network's or the
//! server's (no connection, a transfer that breaks off or stands still, status 408, 429 or 5xx). A
//! whole file that is another one is never asked for twice. No file is read beyond the length that
//! the catalogue has for it.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::cache::{Cache, Failure, Outcome};
use crate::catalogue::{File, Set};
use crate::error::{Error, Result};

/// Source of downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The addresses of the catalogue.
    Published,
    /// `URL/planetoid/ind.cora.x` and so on: a server of a cache's folder.
    Mirror(String),
}

/// Time limits and numbers of retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time limit of name resolution and connection.
    pub connect: Duration,
    /// Time limit without a byte.
    pub silence: Duration,
    /// Time limit of a whole file, redirections included.
    pub file: Duration,
    /// Number of attempts per file, at least 1.
    pub attempts: u32,
    /// Pause before the second attempt. It doubles with each further one.
    pub pause: Duration,
    /// Maximum number of redirections.
    pub redirects: u32,
    /// True if the proxy of the environment (`HTTPS_PROXY`, `HTTP_PROXY`) is used.
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
    /// The address of a file.
    ///
    /// # Errors
    /// [`Error::Address`] for a mirror that is no address.
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

/// Brings the files of `set` into the cache, unless they are there. `told` hears of each file.
///
/// # Errors
/// [`Error::Unreachable`], [`Error::Status`], [`Error::Length`], [`Error::Checksum`],
/// [`Error::Address`], [`Error::NoCertificates`], [`Error::Io`]; what was brought before stays.
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
    // A plain address may be redirected to one that needs them; then the connection says so.
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

/// The system's certificates.
fn roots() -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(Error::NoCertificates { problem: problems.join("; ") });
    }
    Ok(found.certs.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect())
}
