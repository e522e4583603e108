//! Columns and classes that a trained model expects in the data for a prediction.

use crate::encoding::Encoder;

/// Names and counts of the columns and classes in the data that a model was trained on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Encoders of the table columns from which the features were computed. Empty if the features
    /// were numeric columns.
    pub encoders: Vec<Encoder>,
    /// Names of the feature columns, in the order of training. Empty if they had no names.
    pub features: Vec<String>,
    /// Number of feature columns in training.
    pub feature_count: u32,
    /// Names of the edge feature columns, in the order of training. Empty if they had no names.
    pub edge_features: Vec<String>,
    /// Names of the label columns in training. Empty if they had no names.
    pub target: Vec<String>,
    /// Names of the classes, in the order of training. Empty if classes were numbers from 0.
    pub classes: Vec<String>,
    /// True if labels are classes, false if they are flags or numbers.
    pub classification: bool,
}

impl Expected {
    /// Returns true if labels are classes without names, which are numbered from 0.
    #[must_use]
    pub fn numbered_classes(&self) -> bool {
        self.classification && self.classes.is_empty()
    }
}
