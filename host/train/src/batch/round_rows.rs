//! Size of the set of rows over which the loss of a round is a mean.

/// Size of the set of rows over which the loss of a round is a weighted mean. Multi-label and
/// regression tasks count known values instead of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundRows {
    /// Factor by which the round's mean loss is multiplied to get the weighted sum of its rows'
    /// losses.
    pub divisor: f64,
    /// Total loss weight of the rows. The loss of an epoch is the mean over its rounds' rows with
    /// these weights.
    pub weights: f64,
}

impl Default for RoundRows {
    /// Returns the size for a round that is the only one of its epoch, in which case no weighting
    /// is needed.
    fn default() -> Self {
        Self { divisor: 1.0, weights: 1.0 }
    }
}
