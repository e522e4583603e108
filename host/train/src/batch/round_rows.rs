//! The rows of which the loss of a round is a mean.

/// Size of the set of rows of which a round's loss is a weighted mean. Multi-label and regression
/// tasks count known values instead of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundRows {
    /// Factor that turns the round's loss into the sum of its rows' losses, each multiplied by the
    /// weight of the row.
    pub divisor: f64,
    /// Sum of the loss weights of the rows. An epoch's loss is a mean with these weights.
    pub weights: f64,
}

impl Default for RoundRows {
    /// Returns the rows of a round that is the only one of its epoch.
    fn default() -> Self {
        Self { divisor: 1.0, weights: 1.0 }
    }
}
