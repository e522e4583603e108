//! Record of the keys that were asked for, and of the settings that the data decided.

use std::collections::BTreeSet;

use crate::keys::Deprecated;

/// Setting that follows from the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The key with its section, for instance `model.hidden`.
    pub key: String,
    /// The value, as TOML.
    pub value: String,
    /// The property of the data that decides it, for instance `240 rows, 4 classes`.
    pub reason: String,
}

impl Choice {
    /// Returns the origin of the setting, as `config.toml` records it.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{}", self.reason)
    }
}

/// Beginning of each choice's origin.
pub(super) const ORIGIN: &str = "default: ";

/// Keys that were asked for, and settings that the data decided. Two configurations are equal
/// whatever decided their settings.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// True if the data decide settings that were not asked for. It is false for a recipe's file.
    pub open: bool,
    /// Settings that the data decided, in order.
    pub made: Vec<Choice>,
    /// Earlier names of keys and values that recipes and overrides have.
    pub deprecated: Vec<Deprecated>,
    asked: BTreeSet<String>,
}

impl PartialEq for Choices {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Choices {
    /// Records a key that was asked for.
    pub fn ask(&mut self, key: &str) {
        self.asked.insert(key.to_owned());
    }

    /// Returns the present name of a key.
    pub(super) fn present_name<'k>(&'k self, key: &'k str) -> &'k str {
        self.deprecated.iter().find(|old| old.found == key).map_or(key, |old| &old.present)
    }

    /// Returns whether a key was asked for.
    #[must_use]
    pub fn is_asked(&self, key: &str) -> bool {
        self.asked.contains(key)
    }

    /// Returns whether any key of a section was asked for.
    #[must_use]
    pub fn is_section_asked(&self, section: &str) -> bool {
        self.asked.iter().any(|key| key.split_once('.').is_some_and(|(of, _)| of == section))
    }
}
