//! What a run holds out of a graph to predict it: links, and pairs that have none.

use serde::{Deserialize, Serialize};

use crate::objective::Metric;

/// Pairs without a link that a held-out link is ranked among where no number is given (`mean-reciprocal-rank`).
const RANKED_AMONG: u32 = 100;

/// `[links]`: of link prediction alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Columns of the rows whose inner products are scores: the last layer's width.
    pub embedding: u32,
    /// The share of links by which models are chosen; in [0, 1).
    pub validation: f64,
    /// The share of links that is reported; the model is trained without both.
    pub test: f64,
    /// What chooses them, and the pairs that they are compared with. Not the run's seed: the seeds of a run
    /// predict the same links.
    pub seed: u64,
    /// Pairs without a link in the loss, drawn anew each epoch, for each link that is trained with.
    pub negatives: u32,
    /// Pairs without a link that each held-out link is compared with; `None`: 1, for ranks 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<u32>,
}

impl Default for Links {
    /// As Kipf and Welling 2016 ("Variational graph auto-encoders"): 16 columns, 5 % and 10 %.
    fn default() -> Self {
        Self { embedding: 16, validation: 0.05, test: 0.1, seed: 0, negatives: 1, compared: None }
    }
}

impl Links {
    /// Pairs that each held-out link is compared with, for a metric.
    #[must_use]
    pub fn compared_with(&self, metric: Metric) -> u32 {
        let usual = if metric == Metric::MeanReciprocalRank { RANKED_AMONG } else { 1 };
        self.compared.unwrap_or(usual)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
