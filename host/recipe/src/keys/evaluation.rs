//! The keys of `[evaluation]`.

use super::key::{Key, Kind, key, names, value};
use crate::document::Field;
use crate::evaluation::{Evaluation, EvaluationMemory, EvaluationMethod};

type To = Evaluation;

pub(super) const EVALUATION: &[Key<Evaluation>] = &[
    key(
        "method",
        "Rows and edges that evaluations read. full: all. sampled: all rows, with the neighbours that the sampler of \
         the training draws. none: no evaluation",
        value!(choice(EvaluationMethod::ALL) => method),
    ),
    key(
        "memory",
        "Place of the activations of all rows in evaluations. auto: a file, if a run on batches does not fit into \
         memory without. It changes no result",
        value!(choice(EvaluationMemory::ALL) => memory),
    )
    .also(&["storage", "activations"]),
];
