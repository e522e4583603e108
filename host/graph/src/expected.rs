//! Columns and classes that a trained model expects in the data of a prediction.
//!
//! A reader needs them to decide which column of a table is a feature and which column contains
//! labels. Data for predictions may have more columns, columns in another order, or no labels.

use crate::encoding::Encoder;

/// Column and class names of the data that a model was trained on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Encoders of the table columns from which the features were computed. Empty if the features
    /// were numeric columns.
    pub encoders: Vec<Encoder>,
    /// Names of the feature columns in the order of training. Empty if they had no names.
    pub features: Vec<String>,
    /// Number of feature columns in training.
    pub feature_count: u32,
    /// Names of the edge feature columns in the order of training. Empty if they had no names.
    pub edge_features: Vec<String>,
    /// Names of the label columns in training. Empty if they had no names.
    pub target: Vec<String>,
    /// Names of the classes in the order of training. Empty if classes were numbers from 0.
    pub classes: Vec<String>,
    /// True if labels are classes. False if they are flags or numbers.
    pub classification: bool,
}

impl Expected {
    /// Returns whether labels are classes without names, numbered from 0.
    #[must_use]
    pub fn numbered_classes(&self) -> bool {
        self.classification && self.classes.is_empty()
    }
}
