//! A resolved setting, with the origin of its value.

use serde::{Deserialize, Serialize};

/// A setting whose value follows from the data or the model of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSetting {
    /// Key of the setting with its section, as in a recipe.
    pub key: String,
    /// Name of the setting in printed output, for instance `activation`.
    pub name: String,
    /// Value of the setting as printed output shows it.
    pub value: String,
    /// Origin of the value: `set` if the user set it, or else the reason for the default.
    pub from: String,
}
