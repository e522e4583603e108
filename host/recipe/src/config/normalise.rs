//! `data.normalise_features`: the scale that features are brought to before a run.

use serde::{Deserialize, Serialize};

/// The scale that features are brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormaliseFeatures {
    /// None: they stay as they are.
    None,
    /// Each row is divided by its sum.
    Rows,
    /// Each column has the mean 0 and the deviation 1 over the training rows.
    Columns,
}

impl NormaliseFeatures {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("none", Self::None), ("rows", Self::Rows), ("columns", Self::Columns)];
}
