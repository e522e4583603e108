//! Columns and classes that a trained model expects of the data that it is shown.
//!
//! A reader needs them to decide which column of a table is a feature and which one holds labels,
//! because data for predictions may have more columns, other orders of columns, or no labels.

use crate::encoding::Encoder;

/// Column and class names of the data that a model was trained on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Encoders of the columns that the features were made of. Empty if features were columns of numbers.
    pub encoders: Vec<Encoder>,
    /// Names of the feature columns in the order of training. Empty if they had no names.
    pub features: Vec<String>,
    /// Number of feature columns.
    pub feature_count: u32,
    /// Names of the edge feature columns in the order of training. Empty if they had no names.
    pub edge_features: Vec<String>,
    /// Names of the label columns. Empty if they had no names.
    pub target: Vec<String>,
    /// Names of the classes in the order of training. Empty if classes were numbers from 0.
    pub classes: Vec<String>,
    /// True if labels are classes. If not, they are flags or numbers.
    pub classification: bool,
}

impl Expected {
    /// Returns whether labels are classes that were numbers from 0.
    #[must_use]
    pub fn numbered_classes(&self) -> bool {
        self.classification && self.classes.is_empty()
    }
}
