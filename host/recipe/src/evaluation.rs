//! Settings of evaluations, in section `[evaluation]` of a recipe.

use serde::{Deserialize, Serialize};

/// Section `[evaluation]` of a recipe, with the evaluation of all rows during and after a training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Rows and edges that an evaluation reads.
    #[serde(default)]
    pub method: EvaluationMethod,
    /// Place of the activations of all rows.
    pub memory: EvaluationMemory,
}

impl Evaluation {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Rows and edges that an evaluation reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationMethod {
    /// All rows, with all edges.
    #[default]
    Full,
    /// All rows, in micro-batches that are drawn with the sampler and the fan-outs of the training.
    Sampled,
    /// None: a run has no metrics and no predictions.
    None,
}

impl EvaluationMethod {
    /// All methods, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("full", Self::Full), ("sampled", Self::Sampled), ("none", Self::None)];
}

/// Place of the activations of all rows in evaluations. It does not change any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationMemory {
    /// A file, if the run trains on batches and its activations do not fit into memory. Otherwise
    /// memory.
    #[default]
    Auto,
    /// Memory.
    Resident,
    /// A temporary file next to the run folder, which is removed when the run ends.
    File,
}

impl EvaluationMemory {
    /// All places, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("resident", Self::Resident), ("file", Self::File)];
}
