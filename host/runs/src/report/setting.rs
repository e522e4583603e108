//! A resolved setting: its key, its value, and the origin of the value.

use serde::{Deserialize, Serialize};

/// A setting of a run that follows from its data or from its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSetting {
    /// The key that changes it, with its section.
    pub key: String,
    /// The setting's name for people: `activation`.
    pub name: String,
    /// Its value, for people.
    pub value: String,
    /// Its origin: `set`, or the default and its reason.
    pub from: String,
}
