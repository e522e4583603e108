//! Settings of link prediction. Some links are held out of the graph, and are compared with
//! negative samples, which are pairs without a link.

use serde::{Deserialize, Serialize};

use crate::objective::Metric;

/// Default number of negative samples among which a held-out link is ranked, for the metric
/// `mean-reciprocal-rank`.
const RANKED_AMONG: u32 = 100;

/// Distribution of the two vertices of a negative sample in the loss, which is a pair without a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NegativeSampler {
    /// Both vertices are uniform (Kipf and Welling 2016).
    #[default]
    Uniform,
    /// One vertex of a training link, and a vertex that is drawn in proportion to its number of links.
    Degree,
    /// One vertex of a training link, and a vertex of another link of the same micro-batch. Samples
    /// thus need no further rows. Without batches it equals [`NegativeSampler::Degree`].
    InBatch,
}

impl NegativeSampler {
    /// All distributions, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("uniform", Self::Uniform), ("degree", Self::Degree), ("in-batch", Self::InBatch)];
}

/// Section `[links]` of a recipe. It applies to link prediction only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Number of columns of the vertex embeddings, which is the width of the last layer. The score
    /// of a pair is the inner product of two embeddings.
    pub embedding: u32,
    /// Share of the links that are held out for validation, in [0, 1).
    pub validation: f64,
    /// Share of the links that are held out for testing, in [0, 1). Training sees neither test nor
    /// validation links.
    pub test: f64,
    /// Random seed of the held-out links and of the negative samples they are compared with. It is
    /// separate from the run's seed, so runs with several seeds predict the same links.
    pub seed: u64,
    /// Number of negative samples (pairs without a link) per training link in the loss. Each epoch
    /// draws new ones.
    pub negatives: u32,
    /// Distribution of the vertices of the negative samples in the loss.
    #[serde(default)]
    pub negative_sampler: NegativeSampler,
    /// Number of negative samples that each held-out link is compared with in evaluations. If
    /// `None`, it is 100 for the mean reciprocal rank and 1 for other metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<u32>,
}

impl Default for Links {
    /// Returns the settings of Kipf and Welling 2016 ("Variational graph auto-encoders").
    /// Embeddings have 16 columns, and 5 % of the links are held out for validation and 10 % for
    /// testing.
    fn default() -> Self {
        Self {
            embedding: 16,
            validation: 0.05,
            test: 0.1,
            seed: 0,
            negatives: 1,
            negative_sampler: NegativeSampler::Uniform,
            compared: None,
        }
    }
}

impl Links {
    /// Returns the number of negative samples that each held-out link is compared with for
    /// `metric`.
    #[must_use]
    pub fn compared_with(&self, metric: Metric) -> u32 {
        let usual = if metric == Metric::MeanReciprocalRank { RANKED_AMONG } else { 1 };
        self.compared.unwrap_or(usual)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
