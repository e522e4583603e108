//! Setting `data.normalise_features`, which normalises the features before a run.

use serde::{Deserialize, Serialize};

/// Normalisation that is applied to the features before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormaliseFeatures {
    /// No normalisation.
    None,
    /// Each row is divided by its sum.
    Rows,
    /// Each column is shifted and scaled to mean 0 and standard deviation 1 over the training rows.
    Columns,
}

impl NormaliseFeatures {
    /// All normalisations of features, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("none", Self::None), ("rows", Self::Rows), ("columns", Self::Columns)];
}
