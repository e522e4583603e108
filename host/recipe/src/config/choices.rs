//! Records of the keys that the user set, and of the settings that were chosen from the data.

use std::collections::BTreeSet;

use crate::keys::Deprecated;

/// Setting that was chosen from properties of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Key of the setting with its section, for instance `model.hidden`.
    pub key: String,
    /// Chosen value, as TOML text.
    pub value: String,
    /// Property of the data that determined the value, for instance `240 rows, 4 classes`.
    pub reason: String,
}

impl Choice {
    /// Returns the origin of the setting, in the form that the comments of `config.toml` have.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{}", self.reason)
    }
}

/// Prefix of the origin text of each chosen setting.
pub(super) const ORIGIN: &str = "default: ";

/// Record of the keys that the user set, and of the settings that were chosen from the data. All
/// records compare equal, so that two configurations are equal if their settings are.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// True if settings that the user did not set may be chosen from the data. It is false for a
    /// recipe's file.
    pub open: bool,
    /// Settings that were chosen from the data, in the order of the choices.
    pub made: Vec<Choice>,
    /// Earlier names of keys and values that occur in recipes and overrides, for deprecation
    /// warnings.
    pub deprecated: Vec<Deprecated>,
    asked: BTreeSet<String>,
}

impl PartialEq for Choices {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Choices {
    /// Records that the user set a key.
    pub fn ask(&mut self, key: &str) {
        self.asked.insert(key.to_owned());
    }

    /// Returns the present name of a key, which may be written with its earlier name.
    pub(super) fn present_name<'k>(&'k self, key: &'k str) -> &'k str {
        self.deprecated.iter().find(|old| old.found == key).map_or(key, |old| &old.present)
    }

    /// Returns true if the user set the key.
    #[must_use]
    pub fn is_asked(&self, key: &str) -> bool {
        self.asked.contains(key)
    }

    /// Returns true if the user set any key of the section.
    #[must_use]
    pub fn is_section_asked(&self, section: &str) -> bool {
        self.asked.iter().any(|key| key.split_once('.').is_some_and(|(of, _)| of == section))
    }
}
