//! Secrets of a run: its certificate, and one token per machine. Hosts derive both from one text.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};

use crate::error::{Error, Result};
use crate::limits::{CERTIFICATE_FILE_BYTES, TOKEN_FILE_BYTES};

/// Host name in the certificates of all runs. Workers distinguish certificates only by their
/// digests.
pub(crate) const NAME: &str = "eciton";
/// Label for the keying material that both ends export from their TLS session.
const LABEL: &[u8] = b"EXPORTER-eciton-worker";
const TOKEN_BYTES: usize = 32;
/// Minimum length of the text of a [`Secret`], in characters.
const SECRET_CHARACTERS: usize = 32;
/// PKCS #8 encoding of an Ed25519 private key (RFC 8410, section 7) without the key, which follows.
const ED25519_PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Returns random bytes of the operating system.
fn random() -> Result<[u8; TOKEN_BYTES]> {
    let mut bytes = [0; TOKEN_BYTES];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|e| tls("draw the random bytes of a token", format!("{e:?}")))?;
    Ok(bytes)
}

/// Secret text that all hosts of a run have. They derive the certificate and the tokens of the run
/// from it, so that they need to exchange only addresses.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Creates a random secret.
    ///
    /// # Errors
    /// Returns [`Error::Tls`] if the system does not provide random bytes.
    pub fn new() -> Result<Self> {
        Ok(Self(hexadecimal(&random()?)))
    }

    /// Returns the secret with the given text, without white space at its ends.
    ///
    /// # Errors
    /// Returns the reason if the text is too short.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.chars().count() {
            length if length < SECRET_CHARACTERS => Err(format!(
                "the secret has {length} characters, but needs {SECRET_CHARACTERS} or more; create one with \
                 `openssl rand -hex 32`"
            )),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// Reads a secret from a file.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be read or is too short, or if other users can
    /// read it.
    pub fn read(path: &Path) -> Result<Self> {
        let refuse = |reason: String| Error::TokenFile { path: path.to_owned(), reason };
        let text = eciton_input::file::read_private(path, TOKEN_FILE_BYTES);
        let text = String::from_utf8(text.map_err(|e| refuse(e.to_string()))?);
        Self::parse(&text.map_err(|_| refuse("it is not text".to_owned()))?).map_err(refuse)
    }

    /// Returns the certificate of the run.
    ///
    /// # Errors
    /// Returns [`Error::Tls`] if the certificate cannot be created.
    pub fn certificate(&self) -> Result<Certificate> {
        Certificate::of_seed(self.derived("certificate"))
    }

    /// Returns the token with the number `number`, for the certificate of this secret.
    #[must_use]
    pub fn token(&self, certificate: &Certificate, number: u32) -> Token {
        certificate.token_of(number, self.derived(&format!("token {number}")))
    }

    /// Returns bytes that only those who have the secret can compute.
    fn derived(&self, purpose: &str) -> [u8; TOKEN_BYTES] {
        // A digest has the length of a key, for a secret of any length.
        let mut mac = Hmac::<Sha256>::new(&key(hexadecimal(&Sha256::digest(&self.0)).as_bytes()));
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// Certificate of a run with its private key.
pub struct Certificate {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificate({})", self.digest())
    }
}

impl Certificate {
    /// Creates a self-signed certificate with a new private key.
    ///
    /// # Errors
    /// Returns [`Error::Tls`] if the key or the certificate cannot be created.
    pub fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let made = made.map_err(|e| tls("create the run's certificate", e))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    /// Creates the self-signed certificate of an Ed25519 key. The key is derived from `seed`, so that
    /// the certificate is the same everywhere.
    fn of_seed(seed: [u8; 32]) -> Result<Self> {
        let failed = |e: rcgen::Error| tls("create the run's certificate", e);
        let key = PrivatePkcs8KeyDer::from([&ED25519_PKCS8[..], &seed].concat());
        let pair =
            rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519).map_err(failed)?;
        let params = rcgen::CertificateParams::new([NAME.to_owned()]).map_err(failed)?;
        let certificate = params.self_signed(&pair).map_err(failed)?.der().clone();
        Ok(Self { certificate, key })
    }

    /// Returns the SHA-256 digest of the certificate, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(&self.certificate))
    }

    /// Reads a certificate and its private key from a file that [`Certificate::write`] wrote.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be read or is not valid.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let refuse = |reason: String| Error::TokenFile { path: path.to_owned(), reason };
        let text = eciton_input::file::read_private(path, CERTIFICATE_FILE_BYTES);
        let file: CertificateFile = serde_json::from_slice(&text.map_err(|e| refuse(e.to_string()))?)
            .map_err(|e| refuse(format!("it is not the certificate of a run ({e}); {REMEDY}")))?;
        match (file.version, bytes(&file.certificate), bytes(&file.key)) {
            (1, Some(certificate), Some(key)) => {
                Ok(Self { certificate: certificate.into(), key: PrivatePkcs8KeyDer::from(key) })
            }
            _ => Err(refuse(format!("its version or its contents are wrong; {REMEDY}"))),
        }
    }

    /// Writes the certificate and its private key to a file that other users cannot read.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let (certificate, key) = (hexadecimal(&self.certificate), hexadecimal(self.key.secret_pkcs8_der()));
        write_private(path, &CertificateFile { version: 1, certificate, key })
    }

    /// Returns true if `token` was created for this certificate and has the number `number`.
    pub(crate) fn has_made(&self, token: &Token, number: u32) -> bool {
        token.number == number && token.certificate_sha256.eq_ignore_ascii_case(&self.digest())
    }

    /// Creates the token with the number `number`, which is random.
    ///
    /// # Errors
    /// Returns [`Error::Tls`] if the system does not provide random bytes.
    pub fn token(&self, number: u32) -> Result<Token> {
        Ok(self.token_of(number, random()?))
    }

    fn token_of(&self, number: u32, token: [u8; TOKEN_BYTES]) -> Token {
        Token { version: 1, number, certificate_sha256: self.digest(), token: hexadecimal(&token) }
    }

    /// Returns the TLS 1.3 configuration of the host.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>> {
        let refused = |e| tls("use the run's certificate", e);
        let key = PrivateKeyDer::Pkcs8(self.key.clone_key());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .map_err(refused)?;
        Ok(Arc::new(config))
    }
}

/// File format of a certificate with its private key, which are both hexadecimal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateFile {
    version: u32,
    certificate: String,
    key: String,
}

/// Remedy for the user if a file in the folder of tokens is damaged.
const REMEDY: &str = "remove the folder of tokens, start the run, and copy the new tokens to the workers";

/// Writes a file atomically, so that other users cannot read it.
pub(crate) fn write_private(path: &Path, contents: &impl Serialize) -> Result<()> {
    let refuse = |reason: String| Error::TokenFile { path: path.to_owned(), reason };
    let text = serde_json::to_vec(contents).map_err(|e| refuse(e.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // The file is left over from a process with the same number that was killed.
    drop(std::fs::remove_file(&new));
    let write = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    write().map_err(|e| {
        drop(std::fs::remove_file(&new));
        refuse(format!("cannot be written: {e}"))
    })
}

/// Secret of one machine, with which its worker authenticates to runs that use the same folder of
/// tokens. It admits one worker at a time, to any place of the run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    version: u32,
    /// Number of the token among those of the run.
    #[serde(alias = "place")]
    pub number: u32,
    certificate_sha256: String,
    token: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.number)
    }
}

impl Token {
    /// Reads a token from a file.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be read or is not valid, or if other users
    /// can read it.
    pub fn read(path: &Path) -> Result<Self> {
        let refuse = |reason: String| Error::TokenFile { path: path.to_owned(), reason };
        let text = eciton_input::file::read_private(path, TOKEN_FILE_BYTES);
        let token: Self = serde_json::from_slice(&text.map_err(|e| refuse(e.to_string()))?).map_err(|e| {
            refuse(format!("it is not a token ({e}); `eciton train --workers N` writes one token per worker"))
        })?;
        let long =
            |text: &str, bytes: usize| text.len() == 2 * bytes && text.bytes().all(|b| b.is_ascii_hexdigit());
        if token.version != 1 || !long(&token.token, TOKEN_BYTES) || !long(&token.certificate_sha256, 32) {
            return Err(refuse("its version or its lengths are wrong; copy the file again".to_owned()));
        }
        Ok(token)
    }

    /// Writes the token to a file that other users cannot read. Replaces an existing file.
    ///
    /// # Errors
    /// Returns [`Error::TokenFile`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_private(path, self)
    }

    /// Returns the proof that this end has the token. `session` contains the bytes that are derived
    /// from the TLS session.
    pub(crate) fn proof(&self, session: &[u8]) -> String {
        let mac = self.mac(session);
        hexadecimal(&mac.finalize().into_bytes())
    }

    /// Returns true if `proof` proves that the other end has the token. The comparison takes
    /// constant time.
    pub(crate) fn is_proved(&self, session: &[u8], proof: &str) -> bool {
        bytes(proof).is_some_and(|proof| self.mac(session).verify_slice(&proof).is_ok())
    }

    fn mac(&self, session: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new(&key(self.token.as_bytes()));
        mac.update(session);
        mac
    }

    /// Returns the TLS 1.3 configuration of a worker, which trusts only the certificate of the run.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(ring::default_provider());
        let pinned = Pinned { digest: self.certificate_sha256.to_lowercase(), provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| tls("configure TLS", e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// Pads a token to an HMAC key of one block. A token of 64 hexadecimal digits fills the block.
fn key(token: &[u8]) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
    key.iter_mut().zip(token).for_each(|(to, from)| *to = *from);
    key
}

/// Returns bytes that both ends derive from their TLS session.
pub(crate) fn session<Data>(connection: &rustls::ConnectionCommon<Data>) -> Result<[u8; 32]> {
    let drawn = connection.export_keying_material([0; 32], LABEL, None);
    drawn.map_err(|e| tls("derive bytes from the TLS session", e))
}

/// Certificate verifier that trusts only the certificate with one digest.
#[derive(Debug)]
struct Pinned {
    digest: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match hexadecimal(&Sha256::digest(certificate)) == self.digest {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(rustls::Error::General("it is not the certificate of the token's run".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not supported".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) fn tls(doing: &'static str, reason: impl std::fmt::Display) -> Error {
    Error::Tls { doing, reason: reason.to_string() }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes().as_chunks::<2>();
    let pair = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.1.is_empty().then(|| digits.0.iter().map(pair).collect())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_proof_holds_for_its_token_and_session() {
        let certificate = Certificate::new().unwrap();
        let (one, two) = (certificate.token(0).unwrap(), certificate.token(0).unwrap());
        let proof = one.proof(&[1; 32]);
        assert!(one.is_proved(&[1; 32], &proof));
        assert!(!one.is_proved(&[2; 32], &proof), "another session");
        assert!(!two.is_proved(&[1; 32], &proof), "another token");
        for wrong in ["", "00", &proof[2..], &format!("{proof}00"), "zz"] {
            assert!(!one.is_proved(&[1; 32], wrong), "{wrong}");
        }
        assert!(!format!("{one:?}{certificate:?}").contains(&one.token), "a token is not printed");
    }

    #[test]
    fn hosts_derive_the_same_secrets() {
        let text = "a secret of at least thirty-two characters";
        let (one, two) = (Secret::parse(text).unwrap(), Secret::parse(&format!(" {text}\n")).unwrap());
        let [first, second] = [&one, &two].map(|secret| secret.certificate().unwrap());
        assert_eq!(first.digest(), second.digest());
        assert_eq!(one.token(&first, 3), two.token(&second, 3));
        let session = [7; 32];
        assert!(!one.token(&first, 3).is_proved(&session, &one.token(&first, 4).proof(&session)));
        let random = Secret::new().unwrap();
        assert_ne!(random.certificate().unwrap().digest(), first.digest());
        assert!(!format!("{one:?}").contains("thirty"), "a secret is not printed");
        let short = Secret::parse("short").unwrap_err();
        assert!(short.contains("has 5 characters, but needs 32"), "{short}");
    }

    #[test]
    fn a_token_is_written_privately_and_read_back() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker-0.token");
        let token = Certificate::new().unwrap().token(7).unwrap();
        token.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::read(&path).unwrap(), token);
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for mode in [0o640, 0o604, 0o620] {
            set_mode(&path, mode);
            let told = Token::read(&path).unwrap_err().to_string();
            assert!(told.contains(&format!("mode {mode:o}")) && told.contains("chmod 600"), "{told}");
        }
        let told = |text: &str| {
            let path = folder.path().join("wrong");
            std::fs::write(&path, text).unwrap();
            set_mode(&path, 0o600);
            Token::read(&path).unwrap_err().to_string()
        };
        assert!(told("{}").contains("it is not a token"), "{}", told("{}"));
        let short = serde_json::to_string(&token).unwrap().replace(&token.token, "00");
        assert!(told(&short).contains("lengths are wrong"), "{}", told(&short));
        assert!(told(&" ".repeat(1 << 20)).contains("4096"), "{}", told(&" ".repeat(1 << 20)));
    }
}
