//! A resolved setting: its key, its value, and the origin of the value.

use serde::{Deserialize, Serialize};

/// A setting of a run that follows from its data or its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSetting {
    /// Key of the setting in a recipe, with its section.
    pub key: String,
    /// Name of the setting in printed output, for instance `activation`.
    pub name: String,
    /// Value of the setting, as printed.
    pub value: String,
    /// Origin of the value: `set`, or the default with its reason.
    pub from: String,
}
