//! Records of the keys that the user set, and of the settings that were derived from the data.

use std::collections::BTreeSet;

use crate::keys::Deprecated;

/// Setting whose value was derived from properties of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Key with its section, for instance `model.hidden`.
    pub key: String,
    /// Derived value, as TOML text.
    pub value: String,
    /// Property of the data that led to the value, for instance `240 rows, 4 classes`.
    pub reason: String,
}

impl Choice {
    /// Returns the origin of the setting, in the form of the comments in `config.toml`. For
    /// instance, it is `default: 240 rows, 4 classes`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{}", self.reason)
    }
}

/// Prefix of the origin of each setting that was derived from the data.
pub(super) const ORIGIN: &str = "default: ";

/// Record of the keys that the user set, and of the settings that were derived from the data. All
/// records compare equal, so that configurations are compared by their settings only.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// True if settings that the user did not set may be derived from the data. It is false for
    /// recipe files.
    pub open: bool,
    /// Settings that were derived from the data, in chronological order.
    pub made: Vec<Choice>,
    /// Outdated names of keys and values that the user wrote, for deprecation warnings.
    pub deprecated: Vec<Deprecated>,
    asked: BTreeSet<String>,
}

impl PartialEq for Choices {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Choices {
    /// Records that the user set the key `key`.
    pub fn ask(&mut self, key: &str) {
        self.asked.insert(key.to_owned());
    }

    /// Returns the current name of `key`, which may be an outdated name.
    pub(super) fn present_name<'k>(&'k self, key: &'k str) -> &'k str {
        self.deprecated.iter().find(|old| old.found == key).map_or(key, |old| &old.present)
    }

    /// Returns true if the user set this key.
    #[must_use]
    pub fn is_asked(&self, key: &str) -> bool {
        self.asked.contains(key)
    }

    /// Returns true if the user set any key of this section.
    #[must_use]
    pub fn is_section_asked(&self, section: &str) -> bool {
        self.asked.iter().any(|key| key.split_once('.').is_some_and(|(of, _)| of == section))
    }
}
