//! Keys of objects, which are valid in a bucket and as paths in a folder.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, shortened};

/// A valid object key, for instance `runs/a/e000001/s000/i00000/answer`.
///
/// A key consists of lower-case letters, digits, `.`, `_` and `-`, in parts that are separated by
/// `/`. No part is empty, `.` or `..`, so a key cannot refer to a file outside a folder. Keys need
/// no escaping in a URL or in XML.
///
/// ```
/// use eciton_transport::Key;
///
/// assert!(Key::new("runs/a/e000001/s000/i00000/answer").is_ok());
/// assert!(Key::new("runs/../secrets").is_err());
/// assert!(Key::new("/etc/passwd").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

impl Key {
    /// Maximum length of a key, in bytes. The limit of S3 is 1,024.
    pub const MAX_BYTES: usize = 512;

    /// Maximum length of a part between slashes, in bytes. The limit of file systems is 255, and a
    /// folder store appends one character.
    pub const MAX_PART_BYTES: usize = 250;

    /// Creates a key from `text`. Returns an error if the text is not a valid key.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        match fault(&text) {
            None => Ok(Self(text)),
            Some(reason) => Err(Error::Key { key: shortened(&text), reason }),
        }
    }

    /// Returns the text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks that `prefix` can be the beginning of a key. A prefix is empty, or has valid characters
/// and no empty, `.` or `..` part before its last slash.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    let fault = if prefix.is_empty() {
        None
    } else if prefix.len() > Key::MAX_BYTES {
        fault(prefix)
    } else if let Some(folder) = prefix.strip_suffix('/') {
        fault(folder)
    } else {
        // The last part may be incomplete. A further character makes `.` and `..` valid.
        fault(&format!("{}-", &prefix[..prefix.len().min(Key::MAX_BYTES - 1)]))
    };
    match fault {
        None => Ok(()),
        Some(reason) => Err(Error::Key { key: shortened(prefix), reason: format!("as a prefix, {reason}") }),
    }
}

fn fault(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("it is empty".into());
    }
    if text.len() > Key::MAX_BYTES {
        return Some(format!("it has {} bytes, but the maximum is {}", text.len(), Key::MAX_BYTES));
    }
    if let Some(bad) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '/')) {
        return Some(format!("it contains {bad:?}, but only a-z, 0-9, `.`, `_`, `-` and `/` are allowed"));
    }
    for part in text.split('/') {
        match part {
            "" => return Some("it begins or ends with `/`, or contains `//`".into()),
            "." | ".." => return Some(format!("it contains the path component `{part}`")),
            _ if part.len() > Key::MAX_PART_BYTES => {
                let allowed = Key::MAX_PART_BYTES;
                return Some(format!(
                    "it has a path component of {} bytes, but the maximum is {allowed}",
                    part.len()
                ));
            }
            _ => {}
        }
    }
    None
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Keys have the same order as their texts, so that a sorted map of keys can be searched by prefix.
impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<&str> for Key {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl std::str::FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_tricks_and_foreign_characters_are_refused() {
        for bad in [
            "",
            "/",
            "a//b",
            "/a",
            "a/",
            ".",
            "..",
            "a/../b",
            "a/./b",
            "../a",
            "a/..",
            "A",
            "a b",
            "a\\b",
            "a\0",
            "a%2e",
            "a\n",
            "\u{e9}",
            "a:b",
            "~a",
            "a*",
            "a?b",
            "a#",
            "a\u{202e}b",
        ] {
            let error = Key::new(bad).expect_err(bad);
            assert!(matches!(error, Error::Key { .. }), "{bad:?}: {error}");
        }
        for good in ["a", "...", "a..b", ".a", "a.", "-", "_/0", "a/...", "..a/b.."] {
            assert_eq!(Key::new(good).expect(good).as_str(), good);
        }
    }

    #[test]
    fn lengths_are_limited_to_the_byte() {
        let parts = |last: usize| format!("{0}/{0}/{1}", "a".repeat(250), "b".repeat(last));
        assert!(Key::new(parts(Key::MAX_BYTES - 502)).is_ok());
        assert!(Key::new(parts(Key::MAX_BYTES - 501)).is_err());
        assert!(Key::new("a".repeat(Key::MAX_PART_BYTES)).is_ok());
        assert!(Key::new("a".repeat(Key::MAX_PART_BYTES + 1)).is_err());
        let huge = Key::new("x".repeat(1 << 20)).unwrap_err().to_string();
        assert!(huge.len() < 300, "the message does not carry the megabyte");
    }

    #[test]
    fn json_is_checked_as_well() {
        assert_eq!(serde_json::to_string(&Key::new("a/b").unwrap()).unwrap(), "\"a/b\"");
        assert!(serde_json::from_str::<Key>("\"a/b\"").is_ok());
        assert!(serde_json::from_str::<Key>("\"../b\"").is_err());
    }

    #[test]
    fn prefixes_are_begun_keys() {
        for good in ["", "runs", "runs/", "runs/a", "runs/.", "runs/..", "a/b-"] {
            check_prefix(good).expect(good);
        }
        for bad in ["/", "//", "../", "a/../", "a//b", "A", "a/*", "./"] {
            assert!(check_prefix(bad).is_err(), "{bad:?}");
        }
        assert!(check_prefix(&"a/".repeat(256)).is_ok());
        assert!(check_prefix(&"a/".repeat(257)).is_err());
    }
}
