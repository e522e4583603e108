//! Folder of tokens, which contains the certificate of a run and a token for each machine.
//!
//! The folder outlives a run. A run that is resumed or restarted with the same folder uses the same
//! certificate and tokens. Copies of the tokens on other machines therefore stay valid.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::secret::{Certificate, Token};

/// Name of the file that contains the certificate and its private key.
const CERTIFICATE: &str = "host.key";

/// The certificate and the tokens in a folder of tokens.
#[derive(Debug)]
pub struct Tokens {
    /// Certificate of all runs that use the folder.
    pub certificate: Certificate,
    /// Tokens by number.
    pub tokens: Vec<Token>,
    /// Number of tokens that [`Tokens::open`] created. The user must copy these to the machines.
    pub written: u32,
}

impl Tokens {
    /// Reads the certificate and `count` tokens from a folder. Creates the missing ones.
    ///
    /// A token that belongs to another certificate is replaced. A run with that certificate has
    /// ended or does not use the folder.
    ///
    /// Returns [`Error::TokenFile`] if a file cannot be read or written, or if other users can read
    /// it.
    pub fn open(folder: &Path, count: u32) -> Result<Self> {
        let refuse = |reason: String| Error::TokenFile { path: folder.to_owned(), reason };
        std::fs::create_dir_all(folder).map_err(|e| refuse(format!("cannot be created: {e}")))?;
        // If two runs start at once, the second one waits and reads the files of the first. On a
        // file system without locks, the second run may replace tokens of the first.
        let folder_lock = File::open(folder).map_err(|e| refuse(format!("cannot be opened: {e}")))?;
        drop(folder_lock.lock());
        let path = folder.join(CERTIFICATE);
        let certificate = match eciton_input::file::present(&path) {
            true => Certificate::read(&path)?,
            false => {
                let certificate = Certificate::new()?;
                certificate.write(&path)?;
                certificate
            }
        };
        let (mut tokens, mut written) = (Vec::new(), 0);
        for place in 0..count {
            let path = token_path(folder, place);
            let found = eciton_input::file::present(&path).then(|| Token::read(&path)).transpose()?;
            tokens.push(match found.filter(|token| certificate.has_made(token, place)) {
                Some(token) => token,
                None => {
                    let token = certificate.token(place)?;
                    token.write(&path)?;
                    written += 1;
                    token
                }
            });
        }
        Ok(Self { certificate, tokens, written })
    }
}

/// Reads the token in the file `path`. If it is a folder, reads the tokens in all of its files
/// `worker-N.token`. Their order begins at a random one, so that several machines with copies of one
/// folder first try different tokens.
///
/// # Errors
/// Returns [`Error::TokenFile`] if a file cannot be read or is not valid, if other users can read it,
/// or if the folder has no tokens.
pub fn read_tokens(path: &Path) -> Result<Vec<Token>> {
    if !path.is_dir() {
        return Ok(vec![Token::read(path)?]);
    }
    let refuse = |reason: String| Error::TokenFile { path: path.to_owned(), reason };
    let entries = std::fs::read_dir(path).map_err(|e| refuse(format!("cannot be read: {e}")))?;
    let is_token = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("worker-") && name.ends_with(".token"))
    };
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_token);
    let mut tokens = paths.map(|path| Token::read(&path)).collect::<Result<Vec<_>>>()?;
    if tokens.is_empty() {
        return Err(refuse(
            "it has no file worker-N.token; copy the folder `workers.tokens` of the run".to_owned(),
        ));
    }
    tokens.sort_by_key(|token| token.number);
    let random = RandomState::new().hash_one(0);
    let first = usize::try_from(random % tokens.len() as u64).unwrap_or(0);
    tokens.rotate_left(first);
    Ok(tokens)
}

/// Returns the path of the file of the token with number `place`, for instance `worker-0.token`.
#[must_use]
pub fn token_path(folder: &Path, place: u32) -> PathBuf {
    folder.join(format!("worker-{place}.token"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_second_run_has_the_secrets_of_the_first() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new/tokens");
        let first = Tokens::open(&folder, 2).unwrap();
        let second = Tokens::open(&folder, 3).unwrap();
        assert_eq!((first.written, second.written), (2, 1));
        assert_eq!(first.certificate.digest(), second.certificate.digest());
        assert_eq!(first.tokens, second.tokens[..2]);
        assert_eq!(Tokens::open(&folder, 1).unwrap().tokens, first.tokens[..1]);
        // Tokens of a certificate that no longer exists, and the token of another worker.
        std::fs::remove_file(folder.join(CERTIFICATE)).unwrap();
        let third = Tokens::open(&folder, 3).unwrap();
        assert_eq!(third.written, 3);
        std::fs::rename(token_path(&folder, 2), token_path(&folder, 1)).unwrap();
        assert_eq!(Tokens::open(&folder, 3).unwrap().written, 2);
        let read: Vec<u32> = read_tokens(&folder).unwrap().iter().map(|token| token.number).collect();
        assert!([[0, 1, 2], [1, 2, 0], [2, 0, 1]].iter().any(|order| *order == read[..]), "{read:?}");
        assert_eq!(read_tokens(&token_path(&folder, 1)).unwrap()[0].number, 1);
        let error = read_tokens(place.path()).unwrap_err().to_string();
        assert!(error.contains("it has no file worker-N.token"), "{error}");
        let names = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(names, 4, "no other file is left");
    }

    #[test]
    fn damaged_secrets_are_named_and_not_replaced() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let told = || Tokens::open(folder, 1).unwrap_err().to_string();
        for name in [CERTIFICATE, "worker-0.token"] {
            Tokens::open(folder, 1).unwrap();
            let path = folder.join(name);
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
            assert!(told().contains(name) && told().contains("it is not "), "{}", told());
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(told().contains("other users may access it (mode 644)"), "{}", told());
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::write(folder.join("file"), "").unwrap();
        let error = Tokens::open(&folder.join("file"), 1).unwrap_err().to_string();
        assert!(error.contains("file: cannot be created"), "{error}");
    }

    #[test]
    fn runs_that_start_at_once_agree() {
        let place = tempfile::tempdir().unwrap();
        let open = || Tokens::open(place.path(), 3).unwrap().tokens;
        let all: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(all.iter().all(|tokens| *tokens == all[0]));
    }
}
