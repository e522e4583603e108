//! Key pair for compiled kernels. The deployer signs with the secret key, and workers verify with
//! the public key.

use std::path::Path;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::hex;
use crate::error::{Error, Result};
use crate::secret;

/// Secret Ed25519 key with which the deployer signs compiled kernels. It never leaves the
/// deployer's machine.
pub struct Signer(SigningKey);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer of {}", self.verifier())
    }
}

impl Signer {
    /// Reads the secret key from a 32-byte file that only its owner may read. If the file does not
    /// exist, it is created with a random key.
    pub fn open(path: &Path) -> Result<Self> {
        let key = secret::open(path).map_err(|source| Error::SigningKey { path: path.to_owned(), source })?;
        Ok(Self(SigningKey::from_bytes(&key)))
    }

    /// Reads the secret key from a file, without creating one. Returns `None` if the file does not
    /// exist or this user may not open it.
    pub fn existing(path: &Path) -> Result<Option<Self>> {
        let key = secret::existing(path);
        let key = key.map_err(|source| Error::SigningKey { path: path.to_owned(), source })?;
        Ok(key.map(|key| Self(SigningKey::from_bytes(&key))))
    }

    /// Returns the public key that verifies signatures of this secret key.
    pub fn verifier(&self) -> Verifier {
        Verifier(self.0.verifying_key())
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; super::SIGNATURE_LEN] {
        self.0.sign(bytes).to_bytes()
    }
}

/// Public Ed25519 key that verifies compiled code before it is loaded. `Display` prints the key as
/// 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Verifier(VerifyingKey);

impl Verifier {
    /// Parses a public key of 64 hexadecimal digits. Returns an error for weak keys, because anyone
    /// can forge a signature that such a key accepts.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |reason| Error::PublicKey { found: text.chars().take(80).collect(), reason };
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        let digits =
            digits.filter(|d| d.len() == 64).ok_or_else(|| refuse("a public key has 64 hex digits"))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |b, d| b << 4 | d);
        }
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| refuse("it is not a point of the curve"))?;
        if key.is_weak() {
            return Err(refuse("it is a weak key"));
        }
        Ok(Self(key))
    }

    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8; super::SIGNATURE_LEN]) -> bool {
        self.0.verify_strict(bytes, &Signature::from_bytes(signature)).is_ok()
    }
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(self.0.as_bytes()))
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verifier({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_public_key_is_64_digits_of_a_strong_point() {
        let dir = tempfile::tempdir().unwrap();
        let signer = Signer::open(&dir.path().join("keys/signing")).unwrap();
        let text = signer.verifier().to_string();
        assert_eq!(Verifier::parse(&text).unwrap(), signer.verifier());
        assert_eq!(Verifier::parse(&text.to_uppercase()).unwrap(), signer.verifier());
        let same = Signer::open(&dir.path().join("keys/signing")).unwrap();
        assert_eq!(same.verifier(), signer.verifier());
        // The neutral element: y = 1.
        let weak = format!("01{}", "0".repeat(62));
        // y = 2 has no x.
        let off = format!("02{}", "0".repeat(62));
        for bad in ["", &text[1..], &format!("{text}0"), &text.replace(&text[..1], "g"), "é", &weak, &off] {
            assert!(matches!(Verifier::parse(bad), Err(Error::PublicKey { .. })), "{bad}");
        }
    }

    #[test]
    fn a_debug_line_shows_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("signing");
        let signer = Signer::open(&path).unwrap();
        assert!(!format!("{signer:?}").contains(&hex(&std::fs::read(&path).unwrap())));
    }
}
