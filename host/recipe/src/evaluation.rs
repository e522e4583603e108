//! Settings of evaluations, in section `[evaluation]` of a recipe.

use serde::{Deserialize, Serialize};

/// Section `[evaluation]` of a recipe, with the evaluation of all rows during and after a training.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Place of the activations of all rows.
    pub memory: EvaluationMemory,
}

impl Evaluation {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
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
