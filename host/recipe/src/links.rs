//! Settings of link prediction: the links that a run holds out of a graph, and the pairs without a
//! link to which it compares them.

use serde::{Deserialize, Serialize};

use crate::objective::Metric;

/// Default number of pairs without a link among which a held-out link is ranked, for
/// `mean-reciprocal-rank`.
const RANKED_AMONG: u32 = 100;

/// Section `[links]`, which only link prediction reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Number of columns of the embedding. It is the last layer's width, and scores are inner
    /// products of embedding rows.
    pub embedding: u32,
    /// Share of the links that are held out for validation, in [0, 1).
    pub validation: f64,
    /// Share of the links that are held out for testing, in [0, 1). The model is trained without
    /// the links for validation and testing.
    pub test: f64,
    /// Random seed of the held-out links and of the pairs to which they are compared. It is
    /// separate from the run's seed, so that runs with several seeds predict the same links.
    pub seed: u64,
    /// Number of pairs without a link in the loss for each training link. New pairs are drawn in
    /// each epoch.
    pub negatives: u32,
    /// Number of pairs without a link to which each held-out link is compared. If `None`, it is 1,
    /// or 100 for ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<u32>,
}

impl Default for Links {
    /// Returns the settings of Kipf and Welling 2016 ("Variational graph auto-encoders"): 16
    /// columns, 5 % of the links for validation and 10 % for testing.
    fn default() -> Self {
        Self { embedding: 16, validation: 0.05, test: 0.1, seed: 0, negatives: 1, compared: None }
    }
}

impl Links {
    /// Returns the number of pairs without a link to which each held-out link is compared, for a
    /// metric.
    #[must_use]
    pub fn compared_with(&self, metric: Metric) -> u32 {
        let usual = if metric == Metric::MeanReciprocalRank { RANKED_AMONG } else { 1 };
        self.compared.unwrap_or(usual)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
