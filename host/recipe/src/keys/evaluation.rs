//! The keys of `[evaluation]`.

use super::key::{Key, Kind, key, names, value};
use crate::document::Field;
use crate::evaluation::{Evaluation, EvaluationMemory};

type To = Evaluation;

pub(super) const EVALUATION: &[Key<Evaluation>] = &[key(
    "memory",
    "Place of the activations of all rows in evaluations. auto: a file, if a run on batches does not fit into \
     memory without. It changes no result",
    value!(choice(EvaluationMemory::ALL) => memory),
)
.also(&["storage", "activations"])];
